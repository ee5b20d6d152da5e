//! The protocol's own schemas, verifier and client, in the script `fixtures/agui/check.mjs`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use holodeck_events::{AgUiEvent, AgUiOptions};
use proptest::{
    collection::vec,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::Value;

use super::{all, golden, json, rules::client_of, thread};
use crate::{
    property::{tame, wild},
    session::TestSession,
};

/// Runs the script on threads.
fn check(threads: &[Vec<Vec<AgUiEvent>>]) -> Output {
    let threads: Vec<Vec<Vec<Value>>> = threads
        .iter()
        .map(|runs| runs.iter().map(|run| run.iter().map(json).collect()).collect())
        .collect();
    let lines: Vec<_> = threads
        .iter()
        .map(|runs| serde_json::to_string(runs).unwrap())
        .collect();
    run(&lines.join("\n"))
}

fn run(input: &str) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.smoke/agui");
    assert!(
        folder.join("node_modules/@ag-ui/client").is_dir(),
        "{} is missing; `cargo xtask smoke` installs it",
        folder.display()
    );
    #[expect(clippy::disallowed_methods, reason = "a check that runs on Node")]
    let mut child = Command::new("node")
        .arg(folder.join("check.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Node starts");
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may end before it has read everything.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    })
}

/// The texts that the client has, by the ids of the messages.
fn texts(messages: &Value, role: &str) -> Vec<(String, String)> {
    let messages = messages.as_array().unwrap().iter();
    let text = |message: &Value, key: &str| message[key].as_str().unwrap_or_default().to_owned();
    let own = messages.filter(|message| message["role"] == role);
    let mut texts: Vec<_> = own
        .map(|message| (text(message, "id"), text(message, "content")))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    texts.sort();
    texts
}

#[test]
fn e_78_the_official_client_accepts_every_recording() {
    let mut runner = TestRunner::deterministic();
    let strategy = vec(proptest::prop_oneof![wild(), tame()], 1..4);
    let mut threads = golden::threads();
    for round in 0..150 {
        let mut session = TestSession::new();
        for emitted in strategy.new_tree(&mut runner).unwrap().current() {
            session.run("go", emitted);
        }
        let options = if round % 3 == 0 {
            AgUiOptions::default()
        } else {
            all()
        };
        threads.push(thread(&session.events(), options, round % 4));
        threads.push(thread(&session.pruned(), options, round % 4));
    }
    let output = check(&threads);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // What it shows is what was recorded.
    let stdout = String::from_utf8(output.stdout).unwrap();
    let clients: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(clients.len(), threads.len());
    for (runs, messages) in threads.iter().zip(&clients) {
        let expected = client_of(runs).unwrap();
        for (role, list) in [("assistant", expected.texts), ("reasoning", expected.reasoning)] {
            let mut list: Vec<_> = list.into_iter().map(|(id, _, text)| (id, text)).collect();
            list.sort();
            assert_eq!(texts(messages, role), list);
        }
    }
}

#[test]
fn the_check_refuses_what_breaks_the_contract() {
    let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
    let end = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}"#;
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#;
    let close = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let refusal = |events: &[&str]| {
        let output = run(&format!("[[{}]]\n", events.join(",")));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(i32::from(!errors.is_empty())),
            "{errors}"
        );
        errors
    };
    assert_eq!(refusal(&[start, text, close, end]), "");
    for (events, why) in [
        (&[start, text, end] as &[&str], "still active"),
        (&[start, text, close], "the last event is TEXT_MESSAGE_END"),
        (&[start, end, end], "already finished"),
        (&[text, close, end], "First event must be"),
        (&[start, r#"{"type":"TEXT_MESSAGE_END"}"#, end], "messageId"),
        (
            &[start, r#"{"type":"CUSTOM","name":"n","value":1,"extra":1}"#, end],
            "unrecognised",
        ),
        (
            &[
                start,
                text,
                r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}"#,
                close,
                end,
            ],
            "empty",
        ),
    ] {
        let errors = refusal(events);
        assert!(errors.contains(why), "{why}: {errors}");
    }
    // Nothing to check is not a success.
    assert_eq!(run("").status.code(), Some(1));
}
