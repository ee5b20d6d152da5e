//! Checks of an agent whose answers come from a target: its templates and paths, its address, and the models that it needs
//! beside the target.

use holodeck_backend_target::{TargetProblem, check_target};
use holodeck_http::HttpUrl;
use holodeck_model::{AnswerRow, Code, Diagnostic, DiskFiles, Env, MetricConfig, TargetConfig};
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
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
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
