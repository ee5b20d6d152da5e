//! The protocol's own schemas, verifier and client, in the script `fixtures/clients/agui.mjs`.

use holodeck_events::{AgUiEvent, AgUiOptions};
use proptest::{
    collection::vec,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::{Value, json};

use super::{all, golden, json as json_of, rules::client_of, thread};
use node_clients::agui_client;

use crate::{
    property::{tame, wild},
    session::TestSession,
};

// The crate that shares it is built on this one.
#[allow(unreachable_pub, dead_code, reason = "public there, where all of it is used")]
#[path = "../../../../holodeck-testkit/src/node_clients.rs"]
mod node_clients;

fn values(runs: &[Vec<AgUiEvent>]) -> Vec<Vec<Value>> {
    let values = runs.iter().map(|run| run.iter().map(json_of).collect());
    values.collect()
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
fn the_official_client_accepts_every_recording() {
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
    let values: Vec<_> = threads.iter().map(|runs| values(runs)).collect();
    let clients = agui_client(&values).unwrap_or_else(|violation| panic!("{violation}"));
    // What it shows is what was recorded.
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
    let start = json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" });
    let outcome = json!({ "type": "success" });
    let end = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome });
    let text = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" });
    let close = json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" });
    let check = |events: &[&Value]| agui_client(&[vec![events.iter().copied().cloned().collect()]]);
    assert_eq!(check(&[&start, &text, &close, &end]).map(drop), Ok(()));
    let without_id = json!({ "type": "TEXT_MESSAGE_END" });
    let unknown = json!({ "type": "CUSTOM", "name": "n", "value": 1, "extra": 1 });
    let empty = json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "" });
    for (events, why) in [
        (&[&start, &text, &end] as &[&Value], "still active"),
        (&[&start, &text, &close], "the last event is TEXT_MESSAGE_END"),
        (&[&start, &end, &end], "already finished"),
        (&[&text, &close, &end], "First event must be"),
        (&[&start, &without_id, &end], "messageId"),
        (&[&start, &unknown, &end], "unrecognised"),
        (&[&start, &text, &empty, &close, &end], "empty"),
    ] {
        let violation = check(events).unwrap_err();
        assert!(violation.contains(why), "{why}: {violation}");
    }
    // Nothing to check is not a success.
    assert!(agui_client(&[]).unwrap_err().contains("no thread"));
}
