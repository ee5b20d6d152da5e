//! Tests of programs as tools: input, output, failures, paths and hidden credentials.

use holodeck_backend_api::{ToolError, ToolOutput};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::Agent;

fn sh(text: &str) -> Value {
    json!({"command": "sh", "args": ["-c", text], "parameters": {"id": {"type": "integer"}}})
}

#[tokio::test]
async fn arguments_arrive_as_a_line_of_json_and_stdout_is_the_result() {
    let output = Agent::new()
        .call(
            sh("read line; echo got \"$line\"; echo note >&2"),
            json!({"id": 7}),
        )
        .await;
    assert_eq!(output, ToolOutput::ok("got {\"id\":7}"));
}

#[tokio::test]
async fn a_failing_program_is_an_error_result() {
    for (text, expected) in [
        ("echo no such order >&2; exit 4", "exit code 4: no such order"),
        ("echo on stdout; exit 1", "exit code 1: on stdout"),
        ("exit 2", "exit code 2"),
        ("kill -9 $$", "killed by SIGKILL"),
    ] {
        assert_eq!(
            Agent::new().call(sh(text), json!({"id": 1})).await,
            ToolOutput::error(expected)
        );
    }
}

#[tokio::test]
async fn paths_are_relative_to_the_agent_and_names_come_from_the_path() {
    let agent = Agent::new().file("tools/here", "#!/bin/sh\npwd; echo \"$1\"");
    let folder = agent.path().canonicalize().unwrap();
    let output = agent
        .call(
            json!({"command": "tools/here", "args": ["$HOME; *"]}),
            Value::Null,
        )
        .await;
    assert_eq!(output.text, format!("{}\n$HOME; *", folder.display()));

    let beside = Agent::new().file("here", "#!/bin/sh\necho beside");
    let error = beside
        .try_call(json!({"command": "here"}), json!({}))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tool `tool` could not be run: program `here` not found"
    );
    assert_eq!(
        beside.call(json!({"command": "./here"}), json!({})).await.text,
        "beside"
    );
}

#[tokio::test]
async fn a_missing_program_could_not_be_run() {
    let error = Agent::new()
        .try_call(json!({"command": "./gone"}), json!({}))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ToolError::Unavailable { name, .. } if name == "tool"),
        "{error:?}"
    );
}

#[tokio::test]
async fn keys_are_hidden_and_the_yamls_variables_are_passed() {
    let agent = Agent::new();
    let tool = json!({"command": "env", "env": {"SHOP": "north"}});
    let text = agent.call(tool, json!({})).await.text;
    // Every child has a variable by which the watchdog finds the processes that it leaves behind.
    let (mark, mut lines): (Vec<_>, Vec<_>) = text
        .lines()
        .partition(|line| line.starts_with("_HOLODECK_CHILD="));
    assert_eq!(mark.len(), 1, "{text}");
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SHOP=north"]
    );
}

#[tokio::test]
async fn a_truncated_answer_has_a_note() {
    let output = Agent::new()
        .call(sh("head -c 1000000 /dev/zero | tr '\\0' x"), json!({"id": 1}))
        .await;
    let (text, note) = output.text.split_at(256 * 1024);
    assert!(text.bytes().all(|byte| byte == b'x'));
    assert_eq!(
        (note, output.is_error),
        ("\n[truncated: the result is longer than 256 KiB]", false)
    );
}
