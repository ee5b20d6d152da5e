//! The output for cases that did not pass, for each kind of check.

use holodeck_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::project::{Project, agent, assert_output};

const CHECKS: &str = r#"  - name: every metric
    input: hm?
    ground_truth: Our refunds take 30 days.
    evaluations:
      - {type: standard, metric: equality}
      - {type: standard, metric: exact_match}
      - {type: standard, metric: contains, value: ["30 days", "no questions"]}
      - {type: standard, metric: regex, value: "ORD-\\d+"}
      - {type: standard, metric: contains, value: refunds, negate: true}
      - {type: standard, metric: starts_with, value: Our}
      - {type: standard, metric: json_valid}
      - {type: standard, metric: levenshtein, max_distance: 3}
      - {type: standard, metric: rouge, threshold: 0.9}
      - {type: standard, metric: bleu}
      - {type: standard, metric: cost, max_usd: 0.01}
  - name: a number
    input: hm?
    ground_truth: "12"
    evaluations:
      - {type: standard, metric: numeric}
"#;

#[test]
fn each_metric_says_what_was_missed() {
    let server = ModelServer::answering(|_| Reply::text("All refunds take 14 days."));
    let project = Project::with(&agent(&server.url(), CHECKS));
    assert_output!(project.run(&["test", "-v"]).exits(1));
    server.finish();
}

const TOOLS: &str = r"  - name: not called
    input: hm?
    expected_tools: [lookup]
  - name: wrong arguments
    input: use it
    expected_tools:
      - {name: lookup, args: {id: 7, price: {gt: 9}}, count: 2}
  - name: forbidden
    input: use it
    forbidden_tools: [lookup]
  - name: two turns
    turns:
      - {input: use it, expected_tools: [lookup]}
      - {input: hm?, ground_truth: never, expected_tools: [lookup]}
";

#[test]
fn tools_and_turns_say_what_was_missed() {
    let server = ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        if last["role"] == "user" && last["content"] == "use it" {
            Reply::tool_call("call-1", "lookup", &json!({"id": 8, "price": 3}))
        } else {
            Reply::text("All refunds take 14 days.")
        }
    });
    let tools = "tools:\n  - name: lookup\n    type: function\n    description: Looks an order up\n    \
                 command: /bin/echo\n    args: [found]\n    parameters:\n      id: {type: integer}\n      \
                 price: {type: number}\n";
    let project = Project::with(&format!("{}{tools}", agent(&server.url(), TOOLS)));
    assert_output!(project.run(&["test"]).exits(1));
    server.finish();
}
