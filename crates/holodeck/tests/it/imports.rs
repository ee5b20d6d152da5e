//! Agents that are written by an import load as any other.

use std::{fs, path::Path};

use holodeck::{
    ImportedTool, import_tests,
    model::{Env, Severity},
};

/// The environment with a value for each variable that a text names.
fn env_for(text: &str) -> Env {
    let mut env = Env::empty();
    for variable in text.split("${").skip(1) {
        env.set(
            variable.split('}').next().unwrap_or_default(),
            "http://127.0.0.1:9/value",
        );
    }
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY"] {
        env.set(name, "a-key-that-is-not-real");
    }
    env
}

/// The errors of every agent file in a folder, and how many there are.
fn errors_in(folder: &Path) -> (usize, Vec<String>) {
    let (mut agents, mut errors) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.lines().any(|line| line.starts_with("name:")) {
            continue;
        }
        agents += 1;
        let load = holodeck::load(&path, &env_for(&text));
        let found = load
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error);
        errors.extend(found.map(|found| format!("{}: {}", path.display(), found.message)));
    }
    (agents, errors)
}

#[test]
fn every_agent_that_an_import_writes_loads() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/import/promptfoo");
    let (mut agents, mut problems) = (0, Vec::new());
    for entry in fs::read_dir(sources).unwrap() {
        let source = entry.unwrap().path();
        let names = ["yaml", "json"].map(|end| source.join(format!("promptfooconfig.{end}")));
        let Some(config) = names.into_iter().find(|path| path.is_file()) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let tool = ImportedTool::Promptfoo { run_code: false };
        import_tests(&tool, &config, folder.path(), false, &Env::empty()).unwrap();
        let (found, errors) = errors_in(folder.path());
        agents += found;
        problems.extend(errors);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(agents >= 30, "only {agents} agents were written");
}

#[test]
fn an_agent_that_does_not_load_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("agent.yaml"), "name: a\nmodle: {}\n").unwrap();
    let (agents, errors) = errors_in(folder.path());
    assert_eq!(agents, 1);
    assert!(errors.iter().any(|error| error.contains("modle")), "{errors:?}");
}
