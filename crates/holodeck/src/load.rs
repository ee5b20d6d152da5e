use std::path::Path;

use holodeck_model::{Code, Diagnostic, DiskFiles, Env, equal_cases, identify_cases};
use holodeck_validators::Check;
use holodeck_yaml::{Load, LoadedAgent};

use crate::{calibrated, graders, index, judges, model_keys, probe, prompts, telemetry};

/// Loads an agent with its layers; every problem is in the result.
pub fn load(path: &Path, env: &Env) -> Load {
    let mut load = holodeck_yaml::load_agent(path, env, &DiskFiles);
    telemetry::check(&mut load);
    check_schemas(&mut load);
    prompts::check(&mut load);
    judges::check(&mut load);
    index::check_patterns(&mut load, env);
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
            let message = match cases.get(*case).and_then(|case| case.name.as_deref()) {
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

/// Checks the requirements of the agent on this machine and its servers. The endpoint is asked for its list of models,
/// which uses no tokens.
pub async fn doctor(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = holodeck_validators::check_agent(agent, env).await;
    // After the credentials, which come first.
    checks.splice(1..1, probe::checks(agent, env).await);
    checks.extend(model_keys::checks(agent, env));
    checks.extend(calibrated::checks(agent, env));
    checks.extend(graders::checks(agent, env).await);
    checks.extend(index::checks(agent, env).await);
    checks
}
