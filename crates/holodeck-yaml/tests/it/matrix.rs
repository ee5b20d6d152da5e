//! The `matrix` of an agent: its paths, its values, and the agent of each combination.

use std::path::Path;

use holodeck_model::{Combination, Env, MemoryFiles, Severity};
use holodeck_yaml::{Load, LoadedAgent, load_agent, load_combination};
use pretty_assertions::assert_eq;
use serde_json::json;

fn files(matrix: &str) -> MemoryFiles {
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"http://127.0.0.1:9\"}}\n\
         instructions: {{inline: Hi}}\ntools:\n- {{name: t, description: d, type: prompt, template: Say it, parameters: {{q: {{type: string, description: q}}}}}}\n\
         matrix:\n{matrix}\n"
    );
    MemoryFiles::new()
        .with("agent.yaml", text)
        .with("short.md", "Be short.")
        .with("long.md", "Be long.")
}

fn load(matrix: &str) -> Load {
    let mut env = Env::empty();
    env.set("MODEL", "m2");
    load_agent(Path::new("agent.yaml"), &env, &files(matrix))
}

fn load_values(matrix: &str, values: serde_json::Value) -> Load {
    let combination: Combination = serde_json::from_value(values).unwrap();
    load_combination(
        Path::new("agent.yaml"),
        &Env::empty(),
        &files(matrix),
        &combination,
    )
}

#[track_caller]
fn agent(load: Load) -> LoadedAgent {
    load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics))
}

/// The errors with their places and hints.
fn problems(load: Load) -> Vec<String> {
    let diagnostics = load.diagnostics.into_iter();
    let errors = diagnostics.filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors
        .map(|error| {
            let place = error.primary.as_ref();
            let place = place.map_or_else(String::new, |place| format!("{}:{}", place.line, place.column));
            let hint = error.inline.or(error.help).unwrap_or_default();
            format!("{place}: {} [{hint}]", error.message)
        })
        .collect()
}

#[test]
fn a_combination_replaces_the_values_of_the_file() {
    let matrix = "  model.name: [m, n]\n  instructions.file: [short.md, long.md]\n  model.temperature: [0.2]\n  \
                  tools.0.description: [e]\n  openai.max_turns: [3]";
    let base = agent(load(matrix));
    assert_eq!(base.config.model.as_ref().unwrap().name, "m");
    assert_eq!(base.instructions.text, "Hi");
    assert_eq!(base.combination, None);
    let combinations = base.config.matrix.as_ref().unwrap().combinations();
    assert_eq!(combinations.len(), 4);
    let values = serde_json::to_value(&combinations[3]).unwrap();
    assert_eq!(
        values,
        json!({"model.name": "n", "instructions.file": "long.md", "model.temperature": 0.2,
               "tools.0.description": "e", "openai.max_turns": 3})
    );
    let agent = agent(load_values(matrix, values));
    assert_eq!(agent.config.model.as_ref().unwrap().name, "n");
    assert_eq!(agent.config.model.as_ref().unwrap().temperature, Some(0.2));
    // The inline instructions of the file do not apply.
    assert_eq!(agent.instructions.text, "Be long.");
    assert!(
        agent
            .config
            .instructions
            .as_ref()
            .unwrap()
            .prompt()
            .unwrap()
            .inline
            .is_none()
    );
    assert_eq!(agent.config.openai.as_ref().unwrap().max_turns, 3);
    assert_eq!(agent.config.tool("t").unwrap().description(), "e");
    assert_eq!(agent.combination.as_ref(), Some(&combinations[3]));
    // The place of a value is that in the matrix.
    assert_eq!(agent.locate("model.name").unwrap().line, 7);
}

#[test]
fn a_combination_that_the_matrix_does_not_have_is_refused() {
    let matrix = "  model.name: [m, n]";
    for values in [
        json!({"model.name": "x"}),
        json!({}),
        json!({"model.name": "n", "model.temperature": 0}),
        json!({"model.provider": "openai"}),
    ] {
        let problems = problems(load_values(matrix, values.clone()));
        assert!(
            problems.len() == 1 && problems[0].contains("6:1: `matrix` does not have the combination"),
            "{values} {problems:?}"
        );
    }
}

#[test]
fn paths_that_are_not_part_of_an_agent_are_refused_with_a_suggestion() {
    for (axis, problem) in [
        (
            "model.nam: [m]",
            "7:3: `matrix` names `model.nam`, but `model` has no field `nam` [did you mean `model.name`?]",
        ),
        (
            "modle.name: [m]",
            "7:3: `matrix` names `modle.name`, which is not a field of an agent [did you mean `model.name`?]",
        ),
        (
            "model.name.x: [m]",
            "7:3: `matrix` names `model.name.x`, but `model.name` is not a mapping [use `model.name` itself as the axis]",
        ),
        (
            "tools.1.description: [m]",
            "7:3: `matrix` names `tools.1.description`, but `tools` has no item `1` [items are numbered from 0 to 0]",
        ),
        (
            "tools.t.description: [m]",
            "7:3: `matrix` names `tools.t.description`, but `tools` has no item `t` [items are numbered from 0 to 0]",
        ),
    ] {
        assert_eq!(problems(load(&format!("  {axis}"))), [problem], "{axis}");
    }
    for axis in [
        "test_cases",
        "evaluations.model",
        "test_cases_file",
        "matrix",
        "name",
        "execution.trials",
    ] {
        let problems = problems(load(&format!("  {axis}: [x]")));
        assert_eq!(problems.len(), 1, "{axis} {problems:?}");
        assert!(
            problems[0].contains("it does not shape the answers of the agent"),
            "{problems:?}"
        );
    }
    assert_eq!(problems(load("  model..name: [x]")).len(), 1);
    assert_eq!(problems(load("  \"\": [x]")).len(), 1);
}

#[test]
fn useless_and_dangerous_values_are_refused() {
    for (matrix, problem) in [
        (
            "  model.name: []",
            "7:3: `model.name` in `matrix` has no values [add the values to compare, or remove the axis]",
        ),
        (
            "  model.name: [m, n, m]",
            "7:22: a value of `model.name` in `matrix` appears twice [remove one of them]",
        ),
        (
            "  model.name: [\"${MODEL}\"]",
            "7:16: a value of `model.name` in `matrix` contains an environment variable [write the value itself: it is shown and stored with each run]",
        ),
        (
            "  model.api_key: [a, b]",
            "7:3: `model.api_key` cannot be in `matrix`: its values would be shown and stored [secrets belong in environment variables]",
        ),
        (
            "  model.endpoint: [\"http://127.0.0.1:9\", \"http://me:s3cr3t-pass@127.0.0.1:9\"]",
            "7:42: a value of `model.endpoint` in `matrix` contains a secret, which would be shown and stored [secrets belong in environment variables]",
        ),
        (
            "  model.name: [sk-proj-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]",
            "7:16: a value of `model.name` in `matrix` contains a secret, which would be shown and stored [secrets belong in environment variables]",
        ),
        (
            "  model: [{provider: openai, name: m, api_key: x}]",
            "7:11: a value of `model` in `matrix` contains a secret, which would be shown and stored [secrets belong in environment variables]",
        ),
        (
            "  model.name: [a]\n  model: [{provider: openai, name: m}]",
            "8:3: `model` and `model.name` set the same part of the agent [keep one of them]",
        ),
        (
            "  instructions.inline: [a]\n  instructions.file: [short.md]",
            "8:3: `instructions.file` and `instructions.inline` set the same part of the agent [keep one of them]",
        ),
    ] {
        assert_eq!(problems(load(matrix)), [problem], "{matrix}");
    }
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let many = format!("  model.max_tokens: {ten}\n  openai.max_turns: {ten}\n  model.temperature: [0, 1]");
    let many = problems(load(&many));
    assert!(
        many[0].starts_with("6:1: `matrix` has 200 combinations"),
        "{many:?}"
    );
    assert_eq!(problems(load("  model.name: gpt")).len(), 1);
    assert_eq!(problems(load("  {}")).len(), 1);
}

#[test]
fn a_value_that_does_not_fit_is_reported_where_the_matrix_has_it() {
    let matrix = "  model.temperature: [0.5, 7]";
    assert!(load(matrix).agent.is_some());
    let problems = problems(load_values(matrix, json!({"model.temperature": 7})));
    assert!(
        problems.len() == 1 && problems[0].starts_with("7:28: "),
        "{problems:?}"
    );
    let matrix = "  instructions.file: [short.md, missing.md]";
    let problems = self::problems(load_values(matrix, json!({"instructions.file": "missing.md"})));
    assert!(
        problems.len() == 1 && problems[0].starts_with("7:33: "),
        "{problems:?}"
    );
}
