//! Tests of function tools in a run: executed, restricted by rules, checked by expectations, and replayed.

use std::os::unix::fs::PermissionsExt as _;

use holodeck::{AnswerSource, OpenOptions, TestOptions, model::CaseState, runs::CaseReport};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::Project;

fn call_names(case: &CaseReport) -> Vec<&str> {
    case.calls().map(|call| call.call.name.as_str()).collect()
}

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
        let case = view.cases().next().unwrap().unwrap();
        assert_eq!(case.failures(), [], "{case:#?}");
        assert_eq!(case.tools_matched(), Some(true));
        assert_eq!(call_names(&case), ["price", "shout"]);
        // Results are in the order in which they arrived.
        let result = &case.unit.turns[0].result;
        let price = &result.tool_calls[0].call_id;
        let priced = result.tool_results.iter().find(|found| &found.call_id == price);
        assert_eq!(priced.unwrap().result, "9.5 EUR");
        assert_eq!(case.state(), CaseState::Passed, "{:?}", case.answer());
    });
    assert_eq!(server.finish().len(), 2);
}

/// A rule of the YAML prevents tool calls on every backend, not only on the one with its own approvals.
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
         evaluations: {{metrics: [{{type: standard, metric: contains, value: no person is available}}]}}\n\
         test_cases: [{{input: q}}]\n",
        server.url()
    ));
    let own = holodeck::environment(&project.path("agent.yaml")).unwrap();
    project.env.set("PATH", own.get("PATH").unwrap());
    project.write("drop.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/dropped\"\n");
    project.make_executable("drop.sh");
    let outcome = project.test(TestOptions::default()).await.unwrap();
    outcome.with_view(|view| {
        let case = view.cases().next().unwrap().unwrap();
        assert_eq!(case.state(), CaseState::Passed, "{case:#?}");
    });
    assert!(!project.path("dropped").exists());
    assert_eq!(server.finish().len(), 2);
}

/// A recording contains the answers of tools: a replay needs neither the endpoint nor their programs.
#[tokio::test]
async fn a_replay_runs_no_tool() {
    let server = ModelServer::answering(|request| {
        if request.index > 0 {
            return Reply::text(request.texts("tool").join(" and "));
        }
        Reply::nothing()
            .and_tool_call("c1", "count", "{}")
            .and_tool_call("c2", "count", "{}")
            .and_tool_call("c3", "double", r#"{"number": 21}"#)
            .and_tool_call("c4", "mocked", "{}")
    });
    let mut project = Project::new(&format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         tools:\n\
         \x20 - {{type: function, name: count, description: d, command: ./count.sh, parameters: {{}}}}\n\
         \x20 - {{type: function, name: double, description: d, file: double.py, function: double}}\n\
         \x20 - {{type: function, name: mocked, description: d, mock: as ever}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains, value: \"counted and counted and 42 and as ever\"}}]}}\n\
         test_cases:\n\
         \x20 - {{input: q, expected_tools: [{{name: count, count: 2}}, double, mocked]}}\n",
        server.url()
    ));
    let own = holodeck::environment(&project.path("agent.yaml")).unwrap();
    project.env.set("PATH", own.get("PATH").unwrap());
    project.write("count.sh", "#!/bin/sh\necho x >>\"$0.log\"\necho counted\n");
    project.make_executable("count.sh");
    project.write(
        "double.py",
        "def double(number: int) -> int:\n    return number * 2\n",
    );
    let recorded = project
        .test(TestOptions {
            open: OpenOptions {
                record: Some(project.path("c.jsonl")),
                ..OpenOptions::default()
            },
            ..TestOptions::default()
        })
        .await
        .unwrap();
    assert_eq!(recorded.exit.code(), 0);
    server.finish();
    assert_eq!(project.read("count.sh.log"), "x\nx\n");

    // The files are unchanged, but can no longer be run, and the endpoint is down.
    let path = project.env.get("PATH").unwrap().to_owned();
    project.env.set("PATH", "/nowhere");
    std::fs::set_permissions(project.path("count.sh"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let tape = project.path("c.jsonl");
    let replay = || TestOptions {
        open: OpenOptions {
            answers: AnswerSource::Replay(tape.clone()),
            ..OpenOptions::default()
        },
        ..TestOptions::default()
    };
    let replayed = project.test(replay()).await.unwrap();
    replayed.with_view(|view| {
        let case = view.cases().next().unwrap().unwrap();
        assert_eq!(case.state(), CaseState::Passed, "{case:#?}");
        assert_eq!(call_names(&case), ["count", "count", "double", "mocked"]);
    });
    assert_eq!(project.read("count.sh.log"), "x\nx\n");

    // The answers of a changed program are not in the recording.
    let program = project.read("double.py");
    project.write("double.py", &program.replace("* 2", "* 3"));
    let missed = project.test(replay()).await.unwrap_err().to_string();
    assert!(missed.contains("tool double: double.py"), "{missed}");
    project.write("double.py", &program);
    let program = project.read("count.sh");
    project.write("count.sh", &program.replace("counted", "changed"));
    let missed = project.test(replay()).await.unwrap();
    assert_eq!(missed.exit.code(), 3);
    missed.with_view(|view| {
        let case = view.cases().next().unwrap().unwrap();
        assert!(
            case.failures()[0].text.contains("tool execution failed: count"),
            "{case:#?}"
        );
    });
    project.write("count.sh", &program);

    // With an older recording without tools, the tools run.
    let tape = project.read("c.jsonl");
    let old: Vec<_> = tape
        .lines()
        .filter(|line| !line.contains("holodeck:tool"))
        .collect();
    assert!(old.len() + 4 == tape.lines().count(), "{tape}");
    project.write("c.jsonl", &format!("{}\n", old.join("\n")));
    project.env.set("PATH", path);
    project.make_executable("count.sh");
    let ran = project.test(replay()).await.unwrap();
    assert_eq!(ran.exit.code(), 0);
    assert_eq!(project.read("count.sh.log"), "x\nx\nx\nx\n");
}
