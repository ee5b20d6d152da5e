//! Tests of the AG-UI endpoint: threads, interrupts and failures.

use std::sync::Arc;

use holodeck_serve::{
    conversation::{Concurrency, ServiceOptions, api::ToolCall},
    events::{SqliteOptions, SqliteStore},
};
use holodeck_testkit::{Gate, ScriptedBackend, ScriptedTools, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World};

fn input(run: &str, messages: &Value) -> Value {
    json!({
        "threadId": "t-1", "runId": run, "protocolVersion": "1.0.0",
        "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {},
    })
}

async fn run(world: &World, input: &Value) -> Vec<Value> {
    let stream = world.open(Method::POST, "/awp", &[], &input.to_string()).await;
    assert_eq!(stream.status, 200);
    stream
        .rest()
        .await
        .iter()
        .map(crate::world::Frame::json)
        .collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_thread_is_a_conversation() {
    let world = World::new(|asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!("{history:?} {}", asked.message))
    })
    .await;
    // An unknown thread brings its messages.
    let messages = json!([
        {"id": "m-1", "role": "user", "content": "a"},
        {"id": "m-2", "role": "assistant", "content": "b"},
        {"id": "m-3", "role": "user", "content": "c"},
    ]);
    let first = input("run-1", &messages);
    let events = run(&world, &first).await;
    assert_eq!(
        types(&events),
        [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(
        (&events[0]["threadId"], &events[0]["runId"]),
        (&json!("t-1"), &json!("run-1"))
    );
    assert_eq!(events[2]["delta"], r#"["a", "b"] c"#);
    // The same request again is the same run.
    assert_eq!(types(&run(&world, &first).await), types(&events));
    assert_eq!(world.get("/v1/sessions/t-1").await.json()["runs"], 2);
}

/// A server whose agent answers with all messages before, and the client's requests in one thread.
async fn repeating() -> World {
    repeating_with(Setup::default()).await
}

async fn repeating_with(setup: Setup) -> World {
    World::with(setup, |asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!(
            "[{}]",
            [&history[..], &[asked.message.as_str()]].concat().join(",")
        ))
    })
    .await
}

fn messages(texts: &[&str]) -> Value {
    let texts = texts.iter().enumerate();
    let texts = texts.map(|(at, text)| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        json!({"id": format!("m-{at}"), "role": role, "content": text})
    });
    texts.collect()
}

/// The text of the answer to the last of these messages.
async fn answer(world: &World, run_id: &str, texts: &[&str]) -> String {
    let events = run(world, &input(run_id, &messages(texts))).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED", "{events:?}");
    assert_eq!(events[0]["threadId"], "t-1");
    let deltas = events.iter().filter_map(|event| event["delta"].as_str());
    deltas.collect()
}

#[tokio::test]
async fn the_model_sees_the_history_of_the_client_and_nothing_that_it_removed() {
    let world = repeating().await;
    assert_eq!(answer(&world, "r1", &["a"]).await, "[a]");
    assert_eq!(answer(&world, "r2", &["a", "[a]", "b"]).await, "[a,[a],b]");
    // The last answer again.
    assert_eq!(answer(&world, "r3", &["a", "[a]", "b"]).await, "[a,[a],b]");
    // The conversation continues there.
    let third = ["a", "[a]", "b", "[a,[a],b]", "c"];
    assert_eq!(answer(&world, "r4", &third).await, "[a,[a],b,[a,[a],b],c]");
    // An earlier message changed.
    assert_eq!(answer(&world, "r5", &["a", "[a]", "B"]).await, "[a,[a],B]");
    // The first message changed: nothing is left of the rest.
    assert_eq!(answer(&world, "r6", &["A"]).await, "[A]");
    // An answer that the client wrote.
    assert_eq!(answer(&world, "r7", &["A", "mine", "d"]).await, "[A,mine,d]");
    assert_eq!(
        answer(&world, "r8", &["A", "mine", "d", "[A,mine,d]", "e"]).await,
        "[A,mine,d,[A,mine,d],e]"
    );
    // The same request again is the same run.
    assert_eq!(
        answer(&world, "r8", &["A", "mine", "d", "[A,mine,d]", "e"]).await,
        "[A,mine,d,[A,mine,d],e]"
    );
    // What was said before is kept, each branch by itself.
    let runs =
        async |session: &str| world.get(&format!("/v1/sessions/{session}")).await.json()["runs"].clone();
    assert_eq!(runs("t-1").await, 2);
    assert_eq!(runs("t-1:branch-1").await, 3);
    assert_eq!(runs("t-1:branch-2").await, 2);
    assert_eq!(runs("t-1:branch-3").await, 1);
    assert_eq!(runs("t-1:branch-4").await, 3);
    assert_eq!(world.get("/v1/sessions/t-1:branch-5").await.status, 404);
}

#[tokio::test]
async fn a_history_that_ends_with_results_of_the_agent_asks_for_that_answer_again() {
    let world = repeating().await;
    answer(&world, "r1", &["a"]).await;
    assert_eq!(answer(&world, "r2", &["a", "[a]", "b"]).await, "[a,[a],b]");
    let mut again = messages(&["a", "[a]", "b"]);
    again.as_array_mut().unwrap().extend([
        json!({"id": "m-3", "role": "assistant", "content": "", "toolCalls": [
            {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]}),
        json!({"id": "m-4", "role": "tool", "toolCallId": "c-1", "content": "seen"}),
    ]);
    let events = run(&world, &input("r3", &again)).await;
    let deltas = events.iter().filter_map(|event| event["delta"].as_str());
    assert_eq!(deltas.collect::<String>(), "[a,[a],b]");
    let runs =
        async |session: &str| world.get(&format!("/v1/sessions/{session}")).await.json()["runs"].clone();
    assert_eq!(
        (runs("t-1").await, runs("t-1:branch-1").await),
        (json!(2), json!(2))
    );
    // A client with a tool of that name would send its result by itself, for ever.
    let mut own = input("r4", &again);
    own["tools"] = json!([{"name": "look", "description": "", "parameters": {}}]);
    assert_eq!(
        world.post("/awp", own).await.problem(),
        (400, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(world.get("/v1/sessions/t-1:branch-2").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_time_with_one_run_id_are_one_run() {
    for concurrency in [Concurrency::Reject, Concurrency::Enqueue, Concurrency::Interrupt] {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("events.db"), SqliteOptions::default());
        let setup = Setup {
            store: Arc::new(store.await.unwrap()),
            service: ServiceOptions {
                concurrency,
                ..ServiceOptions::default()
            },
            ..Setup::default()
        };
        let world = Arc::new(repeating_with(setup).await);
        assert_eq!(answer(&world, "r1", &["a"]).await, "[a]");
        assert_eq!(answer(&world, "r2", &["a", "[a]", "b"]).await, "[a,[a],b]");
        // The first one forks the thread, the second one has texts of its own.
        for (branch, run_id, texts, expected, all) in [
            (1, "r3", ["a", "[a]", "c"], "[a,[a],c]", 2),
            (2, "r4", ["A", "mine", "d"], "[A,mine,d]", 2),
        ] {
            let requests: Vec<_> = (0..5)
                .map(|_| {
                    let world = Arc::clone(&world);
                    tokio::spawn(async move { answer(&world, run_id, &texts).await })
                })
                .collect();
            for request in requests {
                assert_eq!(request.await.unwrap(), expected, "{concurrency:?}");
            }
            let session = async |number: u32| world.get(&format!("/v1/sessions/t-1:branch-{number}")).await;
            assert_eq!(session(branch).await.json()["runs"], all, "{concurrency:?}");
            assert_eq!(session(branch + 1).await.status, 404, "{concurrency:?}");
        }
        // Another message with the id of a run is no repetition.
        let other = input("r4", &messages(&["A", "mine", "e"]));
        let refused = world.post("/awp", other).await;
        assert_eq!(refused.problem(), (422, "MESSAGE_ID_REUSED".to_owned()));
    }
}

#[tokio::test]
async fn a_client_that_leaves_has_stopped_the_run_and_its_next_message_is_answered() {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = World::new(move |asked| {
        if asked.message == "go" {
            return ScriptedTurn::nothing().and_text("so far").and_wait_for(&inner);
        }
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!("[{}]", history.join(",")))
    })
    .await;
    for (thread, sent) in [
        ("t-1", vec!["go", "so far", "b"]),
        ("t-2", vec!["go", "so", "b"]),
        ("t-3", vec!["c"]),
    ] {
        let with_thread = |run: &str, texts: &[&str]| {
            let mut input = input(run, &messages(texts));
            input["threadId"] = json!(thread);
            input
        };
        let body = with_thread("r1", &["go"]).to_string();
        let mut stream = world.open(Method::POST, "/awp", &[], &body).await;
        stream.wait_for("TEXT_MESSAGE_CONTENT").await;
        drop(stream);
        let events = run(&world, &with_thread("r2", &sent)).await;
        assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED", "{events:?}");
        let text: String = events
            .iter()
            .filter_map(|event| event["delta"].as_str())
            .collect();
        // A client that removes what was stopped begins again.
        let seen = if sent.len() == 1 { "[]" } else { "[go,so far]" };
        assert_eq!(text, seen, "{thread}");
    }
    let stored = world.get("/v1/sessions/t-1/events").await.text;
    assert!(stored.contains(r#""reason":"user_cancelled""#), "{stored}");
}

/// A server whose agent waits at the gate after the first words to a message that begins with `slow`, and lists all that the
/// model sees at the end.
async fn slow(concurrency: Concurrency, gate: &Gate) -> World {
    let gate = gate.clone();
    let setup = Setup {
        service: ServiceOptions {
            concurrency,
            ..ServiceOptions::default()
        },
        ..Setup::default()
    };
    World::with(setup, move |asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        let all = [&history[..], &[asked.message.as_str()]].concat().join(",");
        if asked.message.starts_with("slow") {
            return ScriptedTurn::nothing()
                .and_text("so far")
                .and_wait_for(&gate)
                .and_text("[end]");
        }
        ScriptedTurn::text(&format!("[{all}]"))
    })
    .await
}

#[tokio::test]
async fn a_history_that_leaves_out_the_run_in_progress_continues_without_it() {
    for concurrency in [Concurrency::Interrupt, Concurrency::Enqueue] {
        for (history, seen) in [
            // The message in progress was changed, or its answer is asked for again.
            (&["a", "[a]"][..], "[a,[a],next]"),
            // An earlier one was changed, which removes all that follows.
            (&[], "[next]"),
            (&["A", "[a]"], "[A,[a],next]"),
            (&["a", "mine"], "[a,mine,next]"),
            // The one in progress has another text.
            (&["a", "[a]", "slower", "so far"], "[a,[a],slower,so far,next]"),
        ] {
            let gate = Gate::new();
            let world = slow(concurrency, &gate).await;
            assert_eq!(answer(&world, "r1", &["a"]).await, "[a]");
            let open = input("r2", &messages(&["a", "[a]", "slow"])).to_string();
            let mut open = world.open(Method::POST, "/awp", &[], &open).await;
            open.wait_for("TEXT_MESSAGE_CONTENT").await;
            let next = [history, &["next"]].concat();
            assert_eq!(
                answer(&world, "r3", &next).await,
                seen,
                "{concurrency:?} {next:?}"
            );
            // The same request again is the same run.
            assert_eq!(
                answer(&world, "r3", &next).await,
                seen,
                "{concurrency:?} {next:?}"
            );
            gate.open();
            // With `interrupt`, the message took the place of the other one.
            let rest = open.rest().await;
            let text: String = rest
                .iter()
                .filter_map(|frame| frame.json()["delta"].as_str().map(str::to_owned))
                .collect();
            assert_eq!(
                text.contains("[end]"),
                concurrency == Concurrency::Enqueue,
                "{text}"
            );
            let of_thread = world.get("/v1/sessions/t-1").await.json();
            assert_eq!(of_thread["runs"], 2, "{of_thread}");
        }
    }
}

#[tokio::test]
async fn a_history_with_the_run_in_progress_continues_as_the_concurrency_says() {
    for history in [&["a", "[a]", "slow", "so far"][..], &["a", "[a]", "slow", "so"]] {
        let gate = Gate::new();
        let world = slow(Concurrency::Interrupt, &gate).await;
        answer(&world, "r1", &["a"]).await;
        let open = input("r2", &messages(&["a", "[a]", "slow"])).to_string();
        let mut open = world.open(Method::POST, "/awp", &[], &open).await;
        open.wait_for("TEXT_MESSAGE_CONTENT").await;
        let next = [history, &["next"]].concat();
        assert_eq!(answer(&world, "r3", &next).await, "[a,[a],slow,so far,next]");
        assert_eq!(world.get("/v1/sessions/t-1:branch-1").await.status, 404);

        // The next two wait, and the client knows of both.
        let gate = Gate::new();
        let world = slow(Concurrency::Enqueue, &gate).await;
        answer(&world, "r1", &["a"]).await;
        let open = input("r2", &messages(&["a", "[a]", "slow"])).to_string();
        let mut open = world.open(Method::POST, "/awp", &[], &open).await;
        open.wait_for("TEXT_MESSAGE_CONTENT").await;
        let mut waiting = Vec::new();
        let second = [history, &["next"]].concat();
        let third = [&second[..], &["", "last"]].concat();
        for (run_id, texts) in [("r3", &second), ("r3", &second), ("r4", &third)] {
            let body = input(run_id, &messages(texts)).to_string();
            // Accepted: it begins when it is its turn.
            waiting.push(world.open(Method::POST, "/awp", &[], &body).await);
        }
        gate.open();
        for (stream, seen) in waiting.into_iter().zip(["next]", "next]", "last]"]) {
            let rest = stream.rest().await;
            let text: String = rest
                .iter()
                .filter_map(|frame| frame.json()["delta"].as_str().map(str::to_owned))
                .collect();
            assert!(
                text.starts_with("[a,[a],slow,so far[end],next") && text.ends_with(seen),
                "{text}"
            );
        }
        let of_thread = world.get("/v1/sessions/t-1").await.json();
        assert_eq!(of_thread["runs"], 4, "{of_thread}");
        assert_eq!(world.get("/v1/sessions/t-1:branch-1").await.status, 404);
    }
}

#[tokio::test]
async fn a_message_that_differs_in_white_space_only_is_another_one() {
    let world = repeating().await;
    answer(&world, "r1", &["if x:\n    y()"]).await;
    let stored = "[if x:\n    y()]";
    // As a browser has it after an edit in a field: other line ends, and no line end at the end.
    let same = ["if x:\r\n    y()\n", stored, "b"];
    assert_eq!(
        answer(&world, "r2", &same).await,
        format!("[if x:\n    y(),{stored},b]")
    );
    assert_eq!(world.get("/v1/sessions/t-1:branch-1").await.status, 404);
    // The answer to `b` is removed, and the message before it is changed.
    let changed = ["if x:\n  y()", stored, "b"];
    assert_eq!(
        answer(&world, "r3", &changed).await,
        format!("[if x:\n  y(),{stored},b]")
    );
}

#[tokio::test]
async fn the_ids_of_thread_and_run_are_required_by_name() {
    let world = repeating().await;
    for name in ["threadId", "runId"] {
        for value in [None, Some(Value::Null), Some(json!("")), Some(json!(7))] {
            let mut body = input("r", &messages(&["a"]));
            match value {
                None => {
                    body.as_object_mut().unwrap().remove(name);
                }
                Some(value) => body[name] = value,
            }
            let refused = world.post("/awp", body.clone()).await;
            assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()), "{body}");
            if body.get(name) != Some(&json!(7)) {
                assert!(refused.text.contains(name), "{}", refused.text);
            }
        }
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_question_interrupts_the_run_and_an_answer_resumes_it() {
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(|asked| {
        let call = ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": asked.message}),
            call_id: format!("call-{}", asked.index),
            provider_fields: None,
        };
        ScriptedTurn::nothing().and_call(vec![call]).and_text("done")
    });
    let setup = Setup {
        backend: Some(backend.with_tools(Arc::clone(&tools) as Arc<_>)),
        ..Setup::default()
    };
    let world = World::with(setup, |_| unreachable!()).await;
    let messages = json!([{"id": "m-1", "role": "user", "content": "hi"}]);
    let events = run(&world, &input("run-1", &messages)).await;
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("interrupt"))
    );
    let interrupt = end["outcome"]["interrupts"][0]["id"].clone();
    assert_eq!(tools.called().len(), 0);
    let mut answer = input("run-2", &messages);
    answer["resume"] =
        json!([{"interruptId": "another", "status": "resolved", "payload": {"approved": true}}]);
    assert_eq!(
        world.post("/awp", answer.clone()).await.problem(),
        (404, "APPROVAL_NOT_FOUND".to_owned())
    );
    answer["resume"] =
        json!([{"interruptId": interrupt, "status": "resolved", "payload": {"approved": true}}]);
    let events = run(&world, &answer).await;
    assert_eq!(
        (&events[0]["type"], &events[0]["runId"]),
        (&json!("RUN_STARTED"), &json!("run-2"))
    );
    assert!(types(&events).contains(&"TOOL_CALL_RESULT"));
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("success"))
    );
    assert_eq!(tools.called().len(), 1);
}

#[tokio::test]
async fn questions_of_one_message_are_one_interrupt_and_each_may_be_answered_on_its_own() {
    for together in [true, false] {
        let tools = Arc::new(ScriptedTools::default());
        let backend = ScriptedBackend::answering(|_| {
            let calls = ["a", "b"].map(|word| ToolCall {
                name: "echo".to_owned(),
                arguments: json!({"text": word}),
                call_id: format!("call-{word}"),
                provider_fields: None,
            });
            ScriptedTurn::nothing().and_call(calls.to_vec()).and_text("done")
        });
        let setup = Setup {
            backend: Some(backend.with_tools(Arc::clone(&tools) as Arc<_>)),
            ..Setup::default()
        };
        let world = World::with(setup, |_| unreachable!()).await;
        let messages = json!([{"id": "m-1", "role": "user", "content": "hi"}]);
        let interrupts = |events: &[Value]| {
            let outcome = events.last().unwrap()["outcome"].clone();
            assert_eq!(outcome["type"], "interrupt");
            outcome["interrupts"].as_array().unwrap().clone()
        };
        let asked = interrupts(&run(&world, &input("run-1", &messages)).await);
        assert_eq!(asked.len(), 2);
        let answer = |at: usize, approved: bool| {
            let payload = json!({"approved": approved});
            json!({"interruptId": asked[at]["id"], "status": "resolved", "payload": payload})
        };
        let mut last = input("run-3", &messages);
        if together {
            last["resume"] = json!([answer(0, false), answer(1, true)]);
        } else {
            // The later one first.
            let mut first = input("run-2", &messages);
            first["resume"] = json!([answer(1, true)]);
            let rest = interrupts(&run(&world, &first).await);
            assert_eq!(rest.len(), 1);
            assert_eq!(rest[0]["id"], asked[0]["id"]);
            assert_eq!(tools.called().len(), 0);
            last["resume"] = json!([answer(0, false)]);
        }
        let events = run(&world, &last).await;
        assert_eq!(events.last().unwrap()["outcome"]["type"], "success", "{events:?}");
        let results = types(&events)
            .iter()
            .filter(|kind| **kind == "TOOL_CALL_RESULT")
            .count();
        assert_eq!(results, 2);
        let called = tools.called();
        assert_eq!(called.len(), 1);
        assert_eq!(called[0].arguments, json!({"text": "b"}));
    }
}

#[tokio::test]
async fn a_run_that_fails_ends_with_an_error() {
    let world = World::new(|_| {
        let error = holodeck_serve::conversation::api::BackendError::session("away");
        ScriptedTurn::nothing().and_text("so far").and_fail(error)
    })
    .await;
    let messages = json!([{"id": "m-1", "role": "user", "content": "hi"}]);
    let events = run(&world, &input("run-1", &messages)).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_ERROR");
    for refused in [
        json!([]),
        json!([{"id": "m", "role": "assistant", "content": "x"}]),
    ] {
        assert_eq!(
            world.post("/awp", input("run-2", &refused)).await.problem().0,
            400
        );
    }
}
