//! Checks of an agent whose answers come from a target: its templates and paths, its address, and the models that it needs
//! beside the target.

use std::sync::Arc;

use holodeck_backend_target::{TargetProblem, check_target, missing_vars, sent_vars};
use holodeck_http::HttpUrl;
use holodeck_model::{
    AnswerRow, Code, Diagnostic, DiskFiles, Env, JsonMap, MetricConfig, ResolvedAgent, ResponsePaths,
    TargetConfig, TargetOutput,
};
use holodeck_yaml::{Load, LoadedAgent, load_answers};

/// The line that gives judges a model.
const EVALUATIONS_MODEL: &str =
    "add `evaluations: {model: {provider: …, name: …}}`: a target has no model that could judge";

/// Reports what cannot work with the target of an agent.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let Some(target) = &agent.config.target else {
        return;
    };
    let mut found: Vec<Diagnostic> = check_target(target)
        .into_iter()
        .map(|problem: TargetProblem| {
            Diagnostic::error(Code::BadFormat, problem.message)
                .at(nearest(agent, &problem.pointer))
                .about(problem.pointer)
        })
        .collect();
    found.extend(check_url(agent, target));
    found.extend(check_models(agent));
    found.extend(check_vars(agent, target));
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
    if let Some(agent) = &mut load.agent {
        mark_sent_vars(Arc::make_mut(&mut agent.agent));
    }
}

/// Notes in each case which of its `vars` the requests to the target contain: they belong to its content.
fn mark_sent_vars(agent: &mut ResolvedAgent) {
    let config = &mut agent.config;
    let Some(target) = &config.target else { return };
    for case in config.test_cases.detailed_mut() {
        if let Some(vars) = &case.vars {
            case.sent_vars = sent_vars(target, vars);
        }
    }
}

/// The `vars` that the templates of the target need and a case does not have: one problem for each field and name.
fn check_vars(agent: &LoadedAgent, target: &TargetConfig) -> Vec<Diagnostic> {
    let none = JsonMap::new();
    // Most targets use none of them.
    if missing_vars(target, &none).is_empty() {
        return Vec::new();
    }
    let mut missing: Vec<((String, String), usize, usize)> = Vec::new();
    for (place, case) in agent.config.test_cases.iter().enumerate() {
        for lacking in missing_vars(target, case.vars.as_ref().unwrap_or(&none)) {
            match missing.iter_mut().find(|(known, ..)| *known == lacking) {
                Some((_, _, count)) => *count += 1,
                None => missing.push((lacking, place, 1)),
            }
        }
    }
    let problems = missing.into_iter().map(|((field, name), place, count)| {
        let others = match count {
            1 => String::new(),
            2 => ", nor has another one".to_owned(),
            count => format!(", nor have {} others", count - 1),
        };
        let message = format!(
            "test case {} has no `vars.{name}`{others}; `{field}` uses it",
            place + 1
        );
        let pointer = format!("test_cases.{place}.vars");
        let problem = Diagnostic::error(Code::MissingField, message)
            .at(nearest(agent, &pointer))
            .about(pointer)
            .with_help(format!(
                "add `vars: {{{name}: …}}` to the case, or write `{{{{ vars.{name} | default('…') }}}}`"
            ));
        match nearest(agent, &field) {
            Some(used) => problem.with_label(used, "it is used here"),
            None => problem,
        }
    });
    problems.collect()
}

/// The place of a field, else of the block around it.
fn nearest(agent: &LoadedAgent, pointer: &str) -> Option<holodeck_model::Location> {
    let mut pointer = pointer;
    loop {
        if let Some(place) = agent.locate(pointer) {
            return Some(place);
        }
        pointer = pointer.rsplit_once('.')?.0;
    }
}

/// Warns of a connection that is not encrypted and leaves this machine.
fn check_url(agent: &LoadedAgent, target: &TargetConfig) -> Option<Diagnostic> {
    let url = match target {
        TargetConfig::Http(target) => &target.url,
        TargetConfig::AgUi(target) => &target.url,
        TargetConfig::Holodeck(target) => &target.url,
        _ => return None,
    };
    let pointer = "target.url";
    let place = agent.locate(pointer);
    // Of a template, the part before it has the scheme and usually the host.
    let fixed = url.split("{{").next().unwrap_or_default();
    if fixed.is_empty() {
        return None;
    }
    match HttpUrl::parse(fixed) {
        Err(error) => Some(
            Diagnostic::error(Code::BadFormat, error.to_string())
                .at(place)
                .about(pointer),
        ),
        Ok(url) if url.is_https() || url.is_loopback() => None,
        Ok(url) => {
            let message = format!("requests to {} and their headers are not encrypted", url.origin());
            Some(
                Diagnostic::warning(Code::BadFormat, message)
                    .at(place)
                    .about(pointer)
                    .with_help("use `https://`"),
            )
        }
    }
}

/// The judges, users and selectors that have no model of their own.
fn check_models(agent: &LoadedAgent) -> Vec<Diagnostic> {
    if agent.default_judge().is_some() {
        return Vec::new();
    }
    let missing = |subject: String, pointer: String| {
        let message = format!("{subject} has no model: with `target`, it needs one of its own");
        Diagnostic::error(Code::MissingField, message)
            .at(nearest(agent, &pointer))
            .about(pointer)
            .with_help(EVALUATIONS_MODEL)
    };
    let needs = |metric: &MetricConfig| metric.judging().is_some_and(|judging| judging.judges.is_empty());
    let metrics = agent.config.metrics(None).filter(|(_, metric)| needs(metric));
    let mut found: Vec<Diagnostic> = metrics
        .map(|(place, metric)| missing(format!("the metric `{}`", metric.name()), place.pointer()))
        .collect();
    let users = agent
        .config
        .simulated_users(None)
        .filter(|(_, user)| user.model.is_none());
    found.extend(
        users.map(|(case, _)| missing("the simulated user".to_owned(), format!("test_cases.{case}.user"))),
    );
    if let Some(judge) = agent
        .config
        .enabled_loop()
        .and_then(|config| config.scorer.judge.as_ref())
        && judge.model.is_none()
    {
        found.push(missing(
            "the judge of the loop".to_owned(),
            "quality_loop.scorer.judge".to_owned(),
        ));
    }
    found
}

/// The notes about the target in every report of a test.
pub(crate) fn notes(agent: &LoadedAgent, env: &Env) -> Vec<String> {
    let Some(target) = &agent.config.target else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    if target.shares_run() {
        notes.push("all cases share the cookies of the target (`target.share: run`)".to_owned());
    }
    if reports_no_ending(target, env) {
        notes.push(
            "the target does not report why its answers end, so that one that was cut off is not recognised"
                .to_owned(),
        );
    }
    if let TargetConfig::Answers(answers) = target {
        notes.push(format!(
            "no agent was asked: the answers are those of `{}`",
            answers.file
        ));
        let (rows, _) = load_answers(&answers.file.path(), env, &DiskFiles);
        let unused = rows.iter().filter(|row| !is_used(agent, row)).count();
        if unused > 0 {
            let (have, rows) = if unused == 1 {
                ("has", "row")
            } else {
                ("have", "rows")
            };
            notes.push(format!(
                "{unused} {rows} of `{}` {have} no test case",
                answers.file
            ));
        }
    }
    notes
}

/// Whether no answer of the target can say why it ended. What a program or a function reports is not known before.
fn reports_no_ending(target: &TargetConfig, env: &Env) -> bool {
    let has_no_path = |paths: Option<&ResponsePaths>| {
        let mut paths = paths.into_iter().flat_map(ResponsePaths::each);
        paths.all(|(name, _)| name != "finish_reason")
    };
    match target {
        TargetConfig::Http(http) => has_no_path(http.response.as_ref()),
        TargetConfig::Command(command) => {
            command.output == Some(TargetOutput::Text)
                || command.response.is_some() && has_no_path(command.response.as_ref())
        }
        TargetConfig::Function(function) => {
            function.response.is_some() && has_no_path(function.response.as_ref())
        }
        TargetConfig::Answers(answers) => {
            let (rows, _) = load_answers(&answers.file.path(), env, &DiskFiles);
            rows.iter().all(|row| !row.answer.contains_key("finish_reason"))
        }
        TargetConfig::AgUi(_) | TargetConfig::Holodeck(_) => true,
    }
}

/// Whether a row answers a case.
fn is_used(agent: &LoadedAgent, row: &AnswerRow) -> bool {
    let cases = &agent.config.test_cases;
    (0..cases.len()).any(|index| match (&row.name, &row.input) {
        (Some(name), _) => cases.name(index) == Some(name.as_str()),
        (None, Some(input)) => cases.get(index).is_some_and(|case| {
            case.input.as_ref() == Some(input) || case.turns.iter().any(|turn| turn.input == *input)
        }),
        (None, None) => false,
    })
}
