//! `tool_filtering`: what a message is shown of many tools.

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
fn each_message_is_shown_the_tools_that_fit_it() {
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
            // The same for the whole turn.
            vec!["weather", "kb_search"],
            // `weather` was used in this conversation and takes the place of what would have been found.
            vec!["weather", "kb_search"],
            // What was used in another conversation counts for nothing.
            vec!["translate", "kb_search"],
        ]
    );
}
