//! Loads an agent from YAML and adds the checks that need more than the YAML crate: schemas, telemetry, combinations of
//! a matrix, and the machine.
//!
//! Returns problems as diagnostics; an invalid agent is no error of these functions.

pub(crate) mod fixes;

use std::path::Path;

use holodeck_model::{
    Code, Combination, Diagnostic, DiskFiles, Env, Files, Matrix, Severity, equal_cases, identify_cases,
    shown_path,
};
use holodeck_runs::RunStore;
use holodeck_validators::Check;
use holodeck_yaml::{Load, LoadedAgent};

use crate::{
    agent::{
        checkout_env, claude,
        inventory::{self, Inventory},
        probe, prompts, target_checks, telemetry,
    },
    commands::{agents, quality, routed, skills},
    index,
    test::{calibrated, graders, judge_steps, judges},
};

/// Loads an agent with its layers; every problem is in the result.
///
/// If the agent has a `matrix`, every combination of its values is checked as well.
pub fn load(path: &Path, env: &Env) -> Load {
    load_from(path, env, &DiskFiles)
}

/// As [`load`], from other files.
pub(crate) fn load_from(path: &Path, env: &Env, files: &dyn Files) -> Load {
    let mut load = check(holodeck_yaml::load_agent(path, env, files), env);
    let matrix = load.agent.as_ref().and_then(|agent| agent.config.matrix.clone());
    if let Some(matrix) = matrix {
        check_combinations(&mut load, &matrix, path, env);
    }
    load
}

/// Whether a YAML file is one of an agent, perhaps with mistakes: a file that has neither `model` nor `instructions` is not.
pub fn is_agent_file(path: &Path, env: &Env) -> bool {
    let load = holodeck_yaml::load_agent(path, env, &DiskFiles);
    let lacks = |field: &str| {
        let mut found = load.diagnostics.iter();
        found.any(|found| found.code == Code::MissingField && found.pointer.as_deref() == Some(field))
    };
    // A list, for example.
    let is_other = load
        .diagnostics
        .iter()
        .any(|found| found.code == Code::WrongType && found.pointer.as_deref().is_none_or(str::is_empty));
    let lacks_both = lacks("model") && lacks("instructions");
    !is_other && !lacks_both
}

/// As [`load`], with the values of a combination of the agent's `matrix`.
pub fn load_combination(path: &Path, env: &Env, combination: &Combination) -> Load {
    check(
        holodeck_yaml::load_combination(path, env, &DiskFiles, combination),
        env,
    )
}

/// Adds the problems that only combinations have, each with the first combination that has it.
fn check_combinations(load: &mut Load, matrix: &Matrix, path: &Path, env: &Env) {
    let key = |diagnostic: &Diagnostic| {
        (
            diagnostic.code,
            diagnostic.message.clone(),
            diagnostic.primary.clone(),
        )
    };
    let mut known: Vec<_> = load.diagnostics.iter().map(key).collect();
    for combination in matrix.combinations() {
        let other = load_combination(path, env, &combination);
        let mut sources = other.sources;
        let mut is_new = false;
        for mut diagnostic in other.diagnostics {
            // A note about one combination is of no use: the file itself has it too, or it is about its model.
            if diagnostic.severity == Severity::Note || known.contains(&key(&diagnostic)) {
                continue;
            }
            is_new = true;
            known.push(key(&diagnostic));
            diagnostic.message = format!("{} (with {combination})", diagnostic.message);
            load.diagnostics.push(diagnostic);
        }
        if is_new {
            // Those with diagnostics have their secrets masked, so they take precedence.
            for source in load.sources.iter() {
                sources.add(source.path.to_path_buf(), source.text.clone());
            }
            load.sources = sources;
        }
    }
    warn_different_judges(load, matrix);
    if load.has_errors() {
        load.agent = None;
    }
}

/// Scores of different judges are not comparable, which a matrix of models is for.
fn warn_different_judges(load: &mut Load, matrix: &Matrix) {
    let Some(agent) = &load.agent else { return };
    let changes_model = matrix
        .axes()
        .any(|(path, _)| path.split('.').next() == Some("model"));
    if !changes_model || !Inventory::new(agent, None).judges_with_agent() {
        return;
    }
    let message =
        "each combination of `matrix` is judged by its own model, so their scores cannot be compared";
    let warning = Diagnostic::warning(Code::InconsistentValues, message)
        .at(agent.locate("matrix"))
        .about("matrix")
        .with_help("set `evaluations.model`, which then judges all of them");
    load.diagnostics.push(warning);
}

fn check(mut load: Load, env: &Env) -> Load {
    telemetry::check(&mut load, env);
    check_schemas(&mut load);
    prompts::check(&mut load);
    target_checks::check(&mut load);
    judge_steps::check(&mut load);
    judges::check(&mut load);
    quality::check(&mut load);
    index::check_patterns(&mut load, env);
    agents::check(&mut load);
    skills::check(&mut load);
    routed::check_delegation(&mut load, env);
    checkout_env::check(&mut load, env);
    load
}

fn check_schemas(load: &mut Load) {
    let found = load.agent.as_ref().map(holodeck_validators::check_schemas);
    load.diagnostics.extend(found.unwrap_or_default());
    if load.has_errors() {
        load.agent = None;
    }
}

/// Warns about test cases with the same name, and about unnamed ones with the same input. Reads the files that they
/// name.
pub fn check_equal_cases(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let cases = &agent.config.test_cases;
    let identities = identify_cases(cases, &DiskFiles);
    for places in equal_cases(cases, &identities) {
        let [first, others @ ..] = places.as_slice() else {
            continue;
        };
        let locate = |case: &usize| agent.locate(&format!("test_cases.{case}"));
        for case in others {
            let message = match cases.name(*case) {
                Some(name) => format!("another test case has the name `{name}`"),
                None => "another test case has exactly the same input".to_owned(),
            };
            let mut warning = Diagnostic::warning(Code::EqualCases, message)
                .at(locate(case))
                .about(format!("test_cases.{case}"))
                .with_help(
                    "give each test case its own `name`: runs, recordings and reports distinguish them by name",
                );
            if let Some(first) = locate(first) {
                warning = warning.with_label(first, "the first one");
            }
            load.diagnostics.push(warning);
        }
    }
}

/// Makes errors of the warnings about what no run can do without: the documents of a search and the address of a model. An agent
/// that replays a recording needs neither.
pub fn require_what_runs_need(load: &mut Load) {
    let replays = load
        .agent
        .as_ref()
        .is_some_and(|agent| agent.execution.replay.value.is_some());
    if replays {
        return;
    }
    for found in &mut load.diagnostics {
        let field = found
            .pointer
            .as_deref()
            .and_then(|pointer| pointer.rsplit('.').next());
        let is_needed = matches!(
            (found.code, field),
            (Code::FileNotFound, Some("source")) | (Code::BadFormat, Some("endpoint"))
        );
        if is_needed && found.severity == Severity::Warning {
            found.severity = Severity::Error;
        }
    }
    if load.has_errors() {
        load.agent = None;
    }
}

/// A file that has the name of the folder of the agent's run files.
fn occupied_folder(agent: &LoadedAgent) -> Option<Check> {
    let folder = RunStore::new(&agent.dir).run_files(&agent.config.name);
    if !folder.exists() || folder.is_dir() {
        return None;
    }
    let message = format!(
        "`{}` is a file; run files are written to a folder of this name",
        shown_path(&folder).display()
    );
    let error = Diagnostic::error(Code::UnusableDirectory, message)
        .with_help("move it away, or give the agent another `name`");
    Some(Check::problem("results", error))
}

/// Checks the requirements of the agent on this machine and its servers. The endpoint is asked for its list of models,
/// which uses no tokens.
pub async fn doctor(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = holodeck_validators::check_agent(agent, env).await;
    if let Some(problem) = occupied_folder(agent) {
        for check in checks.iter_mut().filter(|check| check.subject == problem.subject) {
            *check = problem.clone();
        }
    }
    // After the credentials, which come first.
    checks.splice(1..1, probe::checks(agent, env).await);
    checks.extend(inventory::checks(agent, env));
    checks.extend(inventory::programs(agent, env));
    checks.extend(calibrated::checks(agent, env));
    checks.extend(claude::machine::checks(agent));
    checks.extend(graders::checks(agent, env).await);
    checks.extend(index::checks(agent, env).await);
    checks
}
