use holodeck::TestOptions;
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::Project;

/// A Python function and a program, called by the model in one message, checked by the test.
#[tokio::test]
async fn function_tools_run_and_are_checked() {
    let server = ModelServer::answering(|request| {
        if request.index > 0 {
            let results = request.texts("tool").join(" and ");
            return Reply::text(format!("It says {results}"));
        }
        Reply::nothing()
            .and_tool_call("c1", "price", r#"{"id": 7, "currency": "EUR"}"#)
            .and_tool_call("c2", "shout", r#"{"text": "hi"}"#)
    });
    let mut project = Project::new(&format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         tools:\n\
         \x20 - {{type: function, name: price, description: d, file: tools/prices.py, function: price}}\n\
         \x20 - {{type: function, name: shout, description: d, command: ./shout.sh, parameters: {{text: {{type: string}}}}}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains_all, value: [\"9.5 EUR\", HI]}}]}}\n\
         test_cases:\n\
         \x20 - input: q\n\
         \x20   expected_tools: [{{name: price, args: {{id: {{gt: 6}}}}, count: 1}}, shout]\n\
         \x20   expected_tools_order: strict\n\
         \x20   forbidden_tools: [delete]\n",
        server.url()
    ));
    let own = holodeck::environment(&project.path("agent.yaml")).unwrap();
    project.env.set("PATH", own.get("PATH").unwrap());
    project.env.set("OPENAI_API_KEY", "not-a-real-key-0000");
    project.write(
        "tools/prices.py",
        "import os\n\
         def price(id: int, currency: str = \"USD\") -> str:\n\
         \x20   print(\"looking up\", id)\n\
         \x20   assert \"OPENAI_API_KEY\" not in os.environ\n\
         \x20   return f\"{id + 2.5} {currency}\"\n",
    );
    project.write("shout.sh", "#!/bin/sh\nread line\necho HI\n");
    project.make_executable("shout.sh");
    let outcome = project.test(TestOptions::default()).await.unwrap();
    outcome.with_view(|view| {
        let result = view.results().next().unwrap().unwrap();
        assert_eq!(result.errors, Vec::<String>::new(), "{result:#?}");
        assert_eq!(result.tools_matched, Some(true));
        assert_eq!(result.tool_calls, ["price", "shout"]);
        assert_eq!(result.tool_invocations[0].result, json!("9.5 EUR"));
        assert!(result.passed, "{:?}", result.agent_response);
    });
    assert_eq!(server.finish().len(), 2);
}

/// A rule of the YAML keeps a tool from running on every backend, not only on the one that asks by itself.
#[tokio::test]
async fn a_tool_that_a_rule_rejects_does_not_run() {
    let server = ModelServer::answering(|request| {
        if request.index > 0 {
            return Reply::text(request.texts("tool").join(" and "));
        }
        Reply::tool_call("c1", "drop", &json!({}))
    });
    let mut project = Project::new(&format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         tools: [{{type: function, name: drop, description: d, command: ./drop.sh, parameters: {{}}}}]\n\
         approvals: {{rules: [{{tools: drop, approver: human}}]}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains, value: nobody is there}}]}}\n\
         test_cases: [{{input: q}}]\n",
        server.url()
    ));
    let own = holodeck::environment(&project.path("agent.yaml")).unwrap();
    project.env.set("PATH", own.get("PATH").unwrap());
    project.write("drop.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/dropped\"\n");
    project.make_executable("drop.sh");
    let outcome = project.test(TestOptions::default()).await.unwrap();
    outcome.with_view(|view| {
        let result = view.results().next().unwrap().unwrap();
        assert!(result.passed, "{result:#?}");
    });
    assert!(!project.path("dropped").exists());
    assert_eq!(server.finish().len(), 2);
}
