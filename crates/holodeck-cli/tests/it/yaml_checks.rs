//! The checks of the YAML and the compatibility with 0.7.1, through the program.

use holodeck_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::project::Project;

const HEAD: &str = "name: desk\nmodel: {provider: openai, name: gpt-4o, endpoint: \"http://127.0.0.1:9\"}\n\
                    instructions: {inline: Be brief}\n";

fn with(more: &str) -> Project {
    Project::with(&format!("{HEAD}{more}"))
}

#[test]
fn metrics_that_accept_everything_are_reported() {
    for (metric, code, message) in [
        (
            "{type: standard, metric: bleu, threshold: -1}",
            2,
            "must be 0 or more",
        ),
        (
            "{type: standard, metric: json_schema, schema: {}}",
            2,
            "accepts every JSON value",
        ),
        (
            "{type: standard, metric: json_schema, schema: {requird: [a]}}",
            2,
            "accepts every JSON value",
        ),
        (
            "{type: standard, metric: json_schema, schema: {type: object, requird: [a]}}",
            0,
            "did you mean `required`?",
        ),
        (
            "{type: standard, metric: contains_all, value: [a, b], negate: true}",
            0,
            "passes as soon as one of its strings is missing",
        ),
    ] {
        let project = with(&format!("evaluations:\n  metrics:\n    - {metric}\n"));
        let ran = project.run(&["validate"]).exits(code);
        assert!(ran.all().contains(message), "{metric}\n{}", ran.all());
        assert!(ran.all().contains("agent.yaml:6:"), "{metric}\n{}", ran.all());
    }
}

#[test]
fn schemas_that_are_not_valid_are_errors_with_their_place() {
    for (more, place) in [
        ("response_format:\n  type: objekt\n", "agent.yaml:5:"),
        (
            "tools:\n  - type: function\n    name: f\n    description: d\n    command: /bin/true\n    parameters:\n      n: {type: nmber}\n",
            "agent.yaml:",
        ),
    ] {
        let ran = with(more).run(&["validate"]).exits(2);
        assert!(ran.all().contains("is not a valid JSON Schema"), "{}", ran.all());
        assert!(ran.all().contains(place), "{}", ran.all());
    }
}

#[test]
fn a_misspelt_python_function_is_an_error_unless_it_may_be_imported() {
    let project = |source: &str| {
        let tool = "tools: [{type: function, name: f, description: d, file: tools.py, function: serch}]\n";
        let project = with(tool);
        project.write("tools.py", source);
        project
    };
    let ran = project("def search(q: str) -> str:\n    return q\n")
        .run(&["validate"])
        .exits(2);
    assert!(ran.all().contains("did you mean `search`?"), "{}", ran.all());
    for source in [
        "def serch(q: str) -> str:\n    return q\n",
        "from other import *\n",
        "from other import (serch, search)\n",
        "serch = make()\n",
    ] {
        project(source).run(&["validate"]).exits(0);
    }
}

#[test]
fn a_missing_ground_truth_is_a_warning_and_still_an_error_of_the_metric() {
    let server = ModelServer::answering(|_| Reply::text("Paris"));
    let project = Project::with(&format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief}}\n\
         evaluations: {{metrics: [{{type: standard, metric: equality}}]}}\n\
         test_cases:\n  - {{name: first, input: a, ground_truth: Paris}}\n  - {{name: second, input: b}}\n",
        server.url()
    ));
    let message = "metric `equality` needs a `ground_truth` here";
    for (args, code) in [
        (&["validate"][..], 0),
        (&["test", "--dry-run"], 0),
        (&["test"], 4),
    ] {
        let ran = project.run(args).exits(code);
        assert!(ran.all().contains(message), "{args:?}\n{}", ran.all());
        assert!(ran.all().contains("agent.yaml:7:"), "{args:?}\n{}", ran.all());
    }
}

#[test]
fn notebooks_and_mails_in_files_are_read_as_text() {
    let server = ModelServer::answering(|_| Reply::text("ok"));
    let project = Project::with(&format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains, value: ok}}]}}\n\
         test_cases:\n  - input: a\n    files: [{{path: work.ipynb, type: text}}, {{path: note.eml, type: text}}]\n",
        server.url()
    ));
    project.write("work.ipynb", "{\"cells\": [\"CELL-4711\"]}");
    project.write("note.eml", "Subject: MAIL-4712\n\nHello\n");
    project.run(&["test"]).exits(0);
    let asked = format!("{:?}", server.finish());
    assert!(
        asked.contains("CELL-4711") && asked.contains("MAIL-4712"),
        "{asked}"
    );
}

#[test]
fn settings_without_effect_are_named() {
    let project = with(
        "observability: {enabled: false, disable_provider_tracing: true}\n\
         tools: [{type: mcp, name: m, description: d, command: npx, encoding: latin-1}]\n\
         test_cases: [{name: one, turns: [{input: a}]}]\n",
    );
    let mut command = project.command(&["validate"]);
    command
        .env("HOLODECK_LLM_TIMEOT", "5")
        .env("HOLODECK_LLM_TIMEOUT", "5");
    let ran = crate::project::CommandOutput::of(&command.output().unwrap()).exits(0);
    for message in [
        "`encoding` of tool `m` has no effect",
        "`disable_provider_tracing`",
        "`HOLODECK_LLM_TIMEOT` has no effect",
        "did you mean `HOLODECK_LLM_TIMEOUT`?",
    ] {
        assert!(ran.all().contains(message), "{message}\n{}", ran.all());
    }
}

#[test]
fn the_budget_of_a_question_stops_its_next_model_call() {
    let call = || {
        Reply::tool_call("c1", "f", &json!({}))
            .usage(json!({"prompt_tokens": 1_000_000, "completion_tokens": 1, "total_tokens": 1_000_001}))
    };
    let agent = |url: &str, budget: &str| {
        Project::with(&format!(
            "name: desk\nmodel: {{provider: openai, name: gpt-4o, endpoint: \"{url}\"}}\ninstructions: {{inline: Be brief}}\n\
             openai: {{max_budget_usd: {budget}}}\n\
             tools: [{{type: function, name: f, description: d, command: /bin/true, parameters: {{}}}}]\n\
             evaluations: {{metrics: [{{type: standard, metric: contains, value: done}}]}}\ntest_cases: [{{input: a}}]\n"
        ))
    };
    let server = ModelServer::replies([call()]);
    agent(&server.url(), "1")
        .run(&["test"])
        .exits(1)
        .says("budget exceeded");
    assert_eq!(server.finish().len(), 1);
    let server = ModelServer::replies([call(), Reply::text("done")]);
    agent(&server.url(), "10").run(&["test"]).exits(0);
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn flags_of_the_former_version_are_accepted() {
    let project = Project::empty();
    let ran = project
        .run(&[
            "init",
            "--name",
            "desk",
            "--llm",
            "ollama",
            "--template",
            "research",
            "--description",
            "Answers: all",
            "--author",
            "Ann",
            "--vectorstore",
            "chromadb",
            "--evals",
            "rag-faithfulness",
            "--mcp",
            "memory",
            "--non-interactive",
        ])
        .exits(0);
    assert!(!ran.stderr.contains("no effect"), "{}", ran.all());
    let yaml = project.read("desk/agent.yaml");
    for written in [
        "name: library",
        "provider: chromadb",
        "faithfulness",
        "name: memory",
    ] {
        assert!(yaml.contains(written), "{written} in {yaml}");
    }
    assert!(
        yaml.contains("description: \"Answers: all\"\nauthor: Ann\n"),
        "{yaml}"
    );
    project.run(&["validate", "desk/agent.yaml"]).exits(0);
    project
        .run(&["test", "desk/agent.yaml", "-f", "--dry-run"])
        .exits(0);
    project
        .run(&["mcp", "list", "--agent", "desk/agent.yaml", "--all"])
        .exits(0);
}

#[test]
fn metrics_see_the_compact_json_of_a_structured_answer() {
    let server = ModelServer::answering(|_| Reply::text("{ \"days\" :  30 }"));
    let project = Project::with(&format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Be brief}}\n\
         response_format: {{type: object, properties: {{days: {{type: integer}}}}, required: [days]}}\n\
         evaluations: {{metrics: [{{type: standard, metric: equality}}]}}\n\
         test_cases: [{{input: a, ground_truth: '{{\"days\":30}}'}}]\n",
        server.url()
    ));
    project.run(&["test"]).exits(0);
}

#[test]
fn two_matchers_in_one_map_are_an_error() {
    let project =
        with("test_cases: [{input: a, expected_tools: [{name: f, args: {q: {fuzzy: a, regex: b}}}]}]\n");
    project.run(&["validate"]).exits(2).says("is not a valid matcher");
}
