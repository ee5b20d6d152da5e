//! The metric `similar`: verdicts by a named embedder, its failures, recordings, and resuming.

use holodeck_testkit::{EndpointServer, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::Project;

const CASES: &str = "test_cases:\n\
    - {name: near, input: a, ground_truth: the cat sat on a mat}\n\
    - {name: far, input: b, ground_truth: invoices are paid monthly}\n";

fn project(model: &str, embedder: &str, cases: &str) -> Project {
    Project::with(&format!(
        "name: s\nmodel: {{provider: openai, name: m, endpoint: \"{model}\"}}\ninstructions: {{inline: Hi}}\n\
         execution: {{parallel_test_cases: 1}}\n\
         evaluations:\n  metrics:\n  - {{type: standard, metric: similar, threshold: 0.8, embedder: {embedder}}}\n{cases}"
    ))
}

fn cat() -> ModelServer {
    ModelServer::answering(|_| Reply::text("The cat sat on a mat."))
}

fn named(endpoint: &str) -> String {
    format!("{{provider: openai, name: embedding-model, endpoint: \"{endpoint}\"}}")
}

#[test]
fn answers_are_compared_by_their_embeddings_and_a_replay_needs_no_embedder() {
    let (model, embedder) = (cat(), ModelServer::answering(|_| Reply::text("never asked")));
    let project = project(&model.url(), &named(&embedder.url()), CASES);
    project.run(&["test", "--record", "tape.jsonl"]).exits(1);
    assert_eq!(project.states(), ["passed", "failed"]);
    let metric = project.run_file()["report"]["results"][0]["metric_results"][0].clone();
    assert_eq!(metric["model_used"], "embedding-model");
    assert_eq!(metric["score"], 1.0);
    let asked = embedder.embedding_requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        asked[0].body["input"],
        json!(["The cat sat on a mat.", "the cat sat on a mat"])
    );
    embedder.finish();
    model.finish();
    project.run(&["test", "--replay", "tape.jsonl"]).exits(1);
    assert_eq!(project.states(), ["passed", "failed"]);
    // What was not compared is no pass, and no embedder is asked for it.
    let other = project
        .read("agent.yaml")
        .replace("invoices are paid", "invoices were paid");
    project.write("agent.yaml", other);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert_eq!(project.states(), ["passed", "error"]);
}

#[test]
fn the_agents_embedder_serves_a_metric_that_names_none_and_hashing_asks_no_server() {
    let model = cat();
    let project = Project::with(&format!(
        "name: s\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\n\
         embedding_provider: {{provider: hash}}\n{}",
        model.url(),
        CASES.replace("}\n", ", evaluations: [{metric: similar, threshold: 0.9}]}\n")
    ));
    project.run(&["test"]).exits(1);
    assert_eq!(project.states(), ["passed", "failed"]);
}

/// A name, and the answer of an embedder.
type Broken = (&'static str, Box<dyn Fn() -> Reply + Send + Sync>);

#[test]
fn an_answer_of_an_embedder_that_holds_no_vectors_is_an_error_of_the_case() {
    let vectors = |first: Value, second: Value| {
        Reply::raw(
            200,
            "application/json",
            json!({"data": [{"index": 0, "embedding": first}, {"index": 1, "embedding": second}]})
                .to_string(),
        )
    };
    let broken: Vec<Broken> = vec![
        (
            "other lengths",
            Box::new(move || vectors(json!([1.0, 0.0]), json!([1.0, 0.0, 0.0]))),
        ),
        (
            "zeros",
            Box::new(move || vectors(json!([0.0, 0.0]), json!([1.0, 0.0]))),
        ),
        ("empty", Box::new(move || vectors(json!([]), json!([])))),
        (
            "nothing",
            Box::new(move || vectors(json!([1.0, null]), json!([1.0, 0.0]))),
        ),
        (
            "too large",
            Box::new(|| {
                let text = "{\"data\": [{\"index\": 0, \"embedding\": [1e39, 0]}, {\"index\": 1, \"embedding\": [1, 0]}]}";
                Reply::raw(200, "application/json", text.to_owned())
            }),
        ),
        (
            "one too few",
            Box::new(|| {
                Reply::raw(
                    200,
                    "application/json",
                    json!({"data": [{"index": 0, "embedding": [1.0]}]}).to_string(),
                )
            }),
        ),
        (
            "no JSON",
            Box::new(|| Reply::raw(200, "text/html", "<html>".to_owned())),
        ),
        (
            "401",
            Box::new(|| Reply::openai_error(401, "bad key", None, None)),
        ),
        (
            "400",
            Box::new(|| Reply::openai_error(400, "unknown model", None, None)),
        ),
    ];
    for (name, reply) in broken {
        let model = cat();
        let embedder = EndpointServer::answering(move |_| reply());
        let project = project(&model.url(), &named(&embedder.url()), CASES);
        let ran = project.run(&["test"]);
        assert!(matches!(ran.code, Some(3 | 4)), "{name}: {}", ran.all());
        assert_eq!(project.states(), ["error", "error"], "{name}");
    }
}
