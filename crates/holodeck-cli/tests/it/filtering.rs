//! `tool_filtering`: which tools a message is offered.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::json;

use crate::project::Project;

fn offered(request: &ReceivedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn each_message_offers_the_tools_that_match_it() {
    let server = ModelServer::answering(|request| {
        let weather = offered(request).contains(&"weather".to_owned());
        if weather && request.texts("tool").is_empty() {
            return Reply::tool_call("c1", "weather", &json!({}));
        }
        Reply::text("done")
    });
    let project = Project::with(&format!(
        "name: many\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\n\
         tools:\n\
         \x20 - {{type: function, name: weather, description: Tells the weather of a city., mock: rain}}\n\
         \x20 - {{type: function, name: orders, description: Finds orders of customers., mock: none}}\n\
         \x20 - {{type: function, name: translate, description: Translates a text., mock: oui}}\n\
         \x20 - {{type: vectorstore, name: kb, description: The handbook., source: none, mock: nothing}}\n\
         tool_filtering: {{enabled: true, top_k: 2, search_method: bm25, always_include: [kb], always_include_top_n_used: 1}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n\
         \x20 - name: talk\n    turns:\n\
         \x20     - {{input: How is the weather in the city?, ground_truth: done}}\n\
         \x20     - {{input: Find my orders., ground_truth: done}}\n\
         \x20 - {{name: other, input: Translate this text., ground_truth: done}}\n",
        server.url()
    ));
    project.run(&["test", "-j", "1"]).exits(0);
    let shown: Vec<_> = server.finish().iter().map(offered).collect();
    assert_eq!(
        shown,
        [
            vec!["weather", "kb_search"],
            // The selection holds for the whole turn.
            vec!["weather", "kb_search"],
            // `weather` was used in this conversation and takes the place of the best match.
            vec!["weather", "kb_search"],
            // Use in another conversation does not count.
            vec!["translate", "kb_search"],
        ]
    );
}

/// An agent with an embedder and two different tools.
fn embedding(model: &ModelServer, embedder: &str) -> Project {
    Project::with(&format!(
        "name: many\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Hi}}\n\
         embedding_provider: {{provider: openai, name: e, endpoint: \"{embedder}\"}}\n\
         tools:\n\
         \x20 - {{type: function, name: weather, description: Tells the weather of a city., mock: rain}}\n\
         \x20 - {{type: function, name: orders, description: Finds orders of customers., mock: none}}\n\
         tool_filtering: {{enabled: true, top_k: 1, similarity_threshold: 0.1}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases: [{{name: one, input: How is the weather in the city?, ground_truth: done}}]\n",
        model.url()
    ))
}

#[test]
fn filtering_uses_the_agents_embedder_and_a_replay_needs_none() {
    let (model, embedder) = (
        ModelServer::answering(|_| Reply::text("done")),
        ModelServer::answering(|_| Reply::text("never asked")),
    );
    let project = embedding(&model, &embedder.url());
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    assert_eq!(offered(&model.finish()[0]), ["weather"]);
    // One request for the tools, one for the message.
    let asked = embedder.embedding_requests();
    embedder.finish();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].body["input"], json!(["How is the weather in the city?"]));
    assert_eq!(asked[1].body["model"], "e");
    // Both servers have ended.
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    let yaml = project.read("agent.yaml").replace("in the city", "in town");
    project.write("agent.yaml", yaml);
    project
        .run(&["test", "--replay", "tape.jsonl"])
        .exits(3)
        .says("has no recorded choice of tools for the message");
}

#[test]
fn an_unreachable_embedder_is_reported_as_an_error() {
    let model = ModelServer::answering(|_| Reply::text("done"));
    embedding(&model, "http://127.0.0.1:9")
        .run(&["test"])
        .exits(3)
        .says("`tool_filtering` cannot compute embeddings")
        .says("127.0.0.1:9");
    assert!(model.finish().is_empty());
}
