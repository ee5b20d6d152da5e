//! Tests of `Idempotency-Key` on every address that answers a message: one rule for its form, and one run for each key.

use std::sync::{Arc, Mutex};

use holodeck_serve::{ServeOptions, conversation::ServiceOptions};
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::{Setup, World, two_users};

/// Every address that takes a key, with a request whose message is `text`.
fn routes(text: &str) -> Vec<(&'static str, Value)> {
    let message = json!({"message": text});
    let said = json!([{"id": "m", "role": "user", "content": text}]);
    vec![
        ("/v1/sessions/s/messages?wait=true", message.clone()),
        ("/agent/helper/chat", message.clone()),
        ("/agent/helper/chat", json!({"message": text, "session_id": "t"})),
        ("/agent/helper/chat/stream", message),
        ("/awp", json!({"threadId": "u", "runId": "r-1", "messages": said})),
        (
            "/v1/chat/completions",
            json!({"model": "helper", "messages": [{"role": "user", "content": text}]}),
        ),
        ("/v1/responses", json!({"model": "helper", "input": text})),
    ]
}

/// A server that counts the messages which its agent answers.
async fn counting() -> (World, Arc<Mutex<usize>>) {
    let count = Arc::new(Mutex::new(0));
    let inner = Arc::clone(&count);
    let world = World::new(move |_| {
        *inner.lock().unwrap() += 1;
        ScriptedTurn::text("done")
    })
    .await;
    (world, count)
}

#[tokio::test]
async fn a_key_of_any_other_form_is_refused_on_every_address_before_anything_runs() {
    let (world, count) = counting().await;
    let long = "k".repeat(256);
    let huge = "k".repeat(10 << 10);
    let forms: Vec<(Vec<&[u8]>, u16)> = vec![
        (vec![b""], 400),
        (vec![b"   "], 400),
        (vec![b"\t"], 400),
        (vec![long.as_bytes()], 400),
        (vec![huge.as_bytes()], 400),
        (vec![b"a", b"b"], 400),
        (vec![b"a", b"a"], 400),
        (vec![b"", b"a"], 400),
        (vec!["schl\u{fc}ssel".as_bytes()], 400),
        (vec![b"a\xff"], 400),
        (vec![b"a\tb"], 400),
    ];
    for (path, body) in routes("go") {
        let body = body.to_string();
        for (keys, status) in &forms {
            let mut request = format!(
                "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
                world.address,
                body.len()
            )
            .into_bytes();
            for key in keys {
                request.extend(b"Idempotency-Key: ");
                request.extend(*key);
                request.extend(b"\r\n");
            }
            request.extend(b"\r\n");
            request.extend(body.as_bytes());
            let mut stream = TcpStream::connect(world.address).await.unwrap();
            stream.write_all(&request).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{path} {keys:?} {answer}"
            );
            assert!(answer.contains("Idempotency-Key"), "{path} {keys:?} {answer}");
        }
    }
    assert_eq!(*count.lock().unwrap(), 0);
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_clients_id_of_a_message_has_the_form_of_a_key() {
    let (world, count) = counting().await;
    for id in ["", " ", "a\nb", &"k".repeat(256), &"k".repeat(10 << 10)] {
        let message = json!({"message": "go", "clientMessageId": id});
        let refused = world.post("/v1/sessions/s/messages", message).await;
        assert_eq!(refused.problem().0, 400, "{id:?}");
        assert!(refused.text.contains("clientMessageId"), "{}", refused.text);
        let said = json!([{"id": "m", "role": "user", "content": "go"}]);
        let refused = world
            .post("/awp", json!({"threadId": "u", "runId": id, "messages": said}))
            .await;
        assert_eq!(refused.problem().0, 400, "{id:?}");
        assert!(refused.text.contains("runId"), "{}", refused.text);
    }
    assert_eq!(*count.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_key_is_one_run_on_every_address_and_another_body_is_refused() {
    for (at, (path, body)) in routes("go").into_iter().enumerate() {
        let (world, count) = counting().await;
        let send = async |key: &str, body: &Value| {
            let headers = [("idempotency-key", key)];
            world.send(Method::POST, path, &headers, &body.to_string()).await
        };
        for key in ["k", "a key with spaces", &"k".repeat(255)] {
            *count.lock().unwrap() = 0;
            for _ in 0..3 {
                // An address of AG-UI takes the id of the run along.
                let mut body = body.clone();
                if path == "/awp" {
                    body["runId"] = json!(format!("r-{}", key.len()));
                    body["threadId"] = json!(format!("u-{}", key.len()));
                }
                let answer = send(key, &body).await;
                assert_eq!(answer.status, 200, "{path} {answer:?}");
                assert!(answer.text.contains("done"), "{path} {answer:?}");
            }
            assert_eq!(*count.lock().unwrap(), 1, "{path} {key}");
        }
        let mut other = routes("another").swap_remove(at).1;
        if path == "/awp" {
            other["threadId"] = json!("u-1");
            other["runId"] = json!("r-other");
        }
        let refused = send("k", &other).await;
        assert_eq!(refused.status, 422, "{path} {refused:?}");
        assert_eq!(*count.lock().unwrap(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_response_with_a_key_is_repeated_also_when_what_it_continued_is_gone() {
    let (world, count) = counting().await;
    let first = world
        .post("/v1/responses", json!({"model": "helper", "input": "a"}))
        .await
        .json();
    let first_session = world.store.sessions(None).await.unwrap().remove(0).session_id;
    let body = json!({"model": "helper", "input": "b", "previous_response_id": first["id"]}).to_string();
    let headers = [("idempotency-key", "k")];
    let second = world
        .send(Method::POST, "/v1/responses", &headers, &body)
        .await
        .json();
    world.store.delete_session(&first_session, true).await.unwrap();
    let again = world.send(Method::POST, "/v1/responses", &headers, &body).await;
    assert_eq!((again.status.as_u16(), &again.json()["id"]), (200, &second["id"]));
    assert_eq!(*count.lock().unwrap(), 2);
}

#[tokio::test]
async fn a_keyed_run_that_was_stopped_before_it_did_anything_is_answered_by_the_next_try() {
    for (path, body) in [
        routes("go").swap_remove(1),
        routes("go").swap_remove(5),
        routes("go").swap_remove(6),
    ] {
        let (gate, calls) = (Gate::new(), Arc::new(Mutex::new(0)));
        let (inner, count) = (gate.clone(), Arc::clone(&calls));
        let world = World::new(move |_| {
            *count.lock().unwrap() += 1;
            ScriptedTurn::nothing()
                .and_text("so far")
                .and_wait_for(&inner)
                .and_text(" done")
        })
        .await;
        let world = Arc::new(world);
        let send = |world: &Arc<World>| {
            let (world, body) = (Arc::clone(world), body.to_string());
            tokio::spawn(async move {
                let headers = [("idempotency-key", "k")];
                world.send(Method::POST, path, &headers, &body).await
            })
        };
        let first = send(&world);
        let run_id = loop {
            let sessions = world.store.sessions(None).await.unwrap();
            if let Some(run_id) = sessions.first().and_then(|session| session.open_run.clone()) {
                break run_id;
            }
            tokio::task::yield_now().await;
        };
        // As the end of `--drain` does.
        let stopped = world.post(&format!("/v1/runs/{run_id}/cancel"), json!({})).await;
        assert_eq!(stopped.status, 202);
        assert_ne!(first.await.unwrap().status, 200, "{path}");
        gate.open();
        let again = send(&world).await.unwrap();
        assert_eq!(again.status, 200, "{path} {again:?}");
        assert!(again.text.contains("so far done"), "{path} {again:?}");
        assert_eq!(*calls.lock().unwrap(), 2, "{path}");
        // And that answer is kept.
        assert_eq!(send(&world).await.unwrap().status, 200);
        assert_eq!(*calls.lock().unwrap(), 2, "{path}");
    }
}

fn of_two_users() -> Setup {
    Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        service: ServiceOptions::default(),
        ..Setup::default()
    }
}

#[tokio::test]
async fn an_id_that_another_user_has_or_had_is_as_free_as_any_other() {
    let world = World::with(of_two_users(), |asked| {
        ScriptedTurn::text(&format!("{}!", asked.message))
    })
    .await;
    for id in ["taken", "gone", "t", "t:branch-1"] {
        let begun = world
            .send_as("alice", Method::POST, "/v1/sessions", json!({"sessionId": id}))
            .await;
        assert_eq!(begun.status, 201);
    }
    let deleted = world
        .send_as("alice", Method::DELETE, "/v1/sessions/gone", json!({}))
        .await;
    assert_eq!(deleted.status, 204);
    // Everything that bob can ask about an id, in this order, is answered alike, but for ids and times.
    let mut answers = Vec::new();
    for id in ["taken", "gone", "free0"] {
        let path = format!("/v1/sessions/{id}");
        let mut seen = Vec::new();
        for (method, path, body) in [
            (Method::GET, path.clone(), json!({})),
            (Method::GET, format!("{path}/events"), json!({})),
            (Method::DELETE, path.clone(), json!({})),
            (Method::POST, format!("{path}/fork"), json!({})),
            (Method::POST, "/v1/sessions".to_owned(), json!({"sessionId": id})),
            (Method::POST, "/v1/sessions".to_owned(), json!({"sessionId": id})),
            (
                Method::POST,
                format!("{path}/messages?wait=true"),
                json!({"message": "hi"}),
            ),
            (
                Method::POST,
                "/agent/helper/chat".to_owned(),
                json!({"message": "hi", "session_id": id}),
            ),
            (Method::GET, path.clone(), json!({})),
            (Method::GET, format!("{path}/events"), json!({})),
            (Method::GET, format!("/v1/approvals?sessionId={id}"), json!({})),
            (Method::GET, "/v1/sessions?limit=1".to_owned(), json!({})),
            (Method::DELETE, path.clone(), json!({})),
            (Method::GET, path.clone(), json!({})),
            (Method::POST, "/v1/sessions".to_owned(), json!({"sessionId": id})),
        ] {
            let reply = world.send_as("bob", method.clone(), &path, body).await;
            assert!(!reply.text.contains("own:"), "{}", reply.text);
            let header = reply
                .headers
                .get("x-session-id")
                .map(|id| id.to_str().unwrap().to_owned());
            let ids = reply.text.matches(&format!(r#""{id}""#)).count();
            seen.push((
                method,
                path.replace(id, "ID"),
                reply.status.as_u16(),
                header.map(|header| header == id),
                ids,
            ));
        }
        answers.push((id, seen));
    }
    let (_, free) = answers.pop().unwrap();
    assert_eq!(
        free.iter().map(|seen| seen.2).collect::<Vec<_>>(),
        [
            404, 404, 404, 404, 201, 409, 200, 200, 200, 200, 200, 200, 204, 404, 409
        ]
    );
    for (id, seen) in answers {
        assert_eq!(seen, free, "{id}");
    }
    // What is alice's stays hers, and the name of a branch is nobody else's.
    let own = world
        .send_as("alice", Method::GET, "/v1/sessions/taken", json!({}))
        .await
        .json();
    assert_eq!(own["runs"], 0);
    let again = world
        .send_as(
            "alice",
            Method::POST,
            "/v1/sessions",
            json!({"sessionId": "gone"}),
        )
        .await;
    assert_eq!(again.problem(), (409, "SESSION_DELETED".to_owned()));
    let ask = async |run: &str, texts: &[&str]| {
        let said = texts.iter().enumerate().map(|(at, text)| {
            json!({"id": at.to_string(), "role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text})
        });
        let body = json!({"threadId": "t", "runId": run, "messages": said.collect::<Vec<_>>()});
        let reply = world.send_as("bob", Method::POST, "/awp", body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(
            reply.text.contains("RUN_FINISHED") && !reply.text.contains("own:"),
            "{}",
            reply.text
        );
    };
    ask("r-1", &["a"]).await;
    ask("r-2", &["b"]).await;
    let branch = world
        .send_as("bob", Method::GET, "/v1/sessions/t:branch-1", json!({}))
        .await
        .json();
    assert_eq!(
        (&branch["sessionId"], &branch["runs"]),
        (&json!("t:branch-1"), &json!(1))
    );
    // Nobody can name an id of this form.
    let named = world.store.sessions(Some("bob")).await.unwrap();
    let named = named
        .iter()
        .find(|session| session.session_id.starts_with("own:"))
        .unwrap();
    for user in ["alice", "bob"] {
        let path = format!("/v1/sessions/{}", named.session_id);
        assert_eq!(
            world.send_as(user, Method::GET, &path, json!({})).await.status,
            400
        );
    }
}

#[tokio::test]
async fn a_token_in_the_place_of_an_id_is_refused_and_not_listed() {
    let world = World::with(of_two_users(), |_| ScriptedTurn::text("x")).await;
    let token = "token-of-alice";
    let said = json!([{"id": "m", "role": "user", "content": "go"}]);
    for (path, body) in [
        ("/v1/sessions", json!({"sessionId": token})),
        ("/v1/sessions/token-of-alice/messages", json!({"message": "go"})),
        (
            "/v1/sessions/s/messages",
            json!({"message": "go", "clientMessageId": token}),
        ),
        (
            "/agent/helper/chat",
            json!({"message": "go", "session_id": token}),
        ),
        ("/awp", json!({"threadId": token, "runId": "r", "messages": said})),
        ("/awp", json!({"threadId": "t", "runId": token, "messages": said})),
    ] {
        for user in ["alice", "bob"] {
            let refused = world.send_as(user, Method::POST, path, body.clone()).await;
            assert_eq!(refused.status, 400, "{path} {body}");
            assert!(!refused.text.contains(token), "{}", refused.text);
        }
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
}

#[tokio::test]
async fn no_answer_repeats_a_token_that_a_client_put_into_the_request() {
    let world = World::with(of_two_users(), |_| ScriptedTurn::text("x")).await;
    let token = "token-of-alice";
    let interface: Value = world
        .send_as("bob", Method::GET, "/openapi.json", json!({}))
        .await
        .json();
    let mut count = 0;
    let mut check = async |method: Method, path: String, body: Value| {
        for user in ["alice", "bob"] {
            let reply = world.send_as(user, method.clone(), &path, body.clone()).await;
            assert!(
                !reply.text.contains(token),
                "{method} {path} {body}: {}",
                reply.text
            );
            count += 1;
        }
    };
    for (path, operations) in interface["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            // The socket is asked below, an upload is no JSON.
            if path == "/v1/ws" || path.contains("multipart") || (path == "/v1/files" && method == "post") {
                continue;
            }
            let method: Method = method.to_uppercase().parse().unwrap();
            let open = path.replace("{id}", token).replace("{agent}", token);
            check(method.clone(), open, json!({"message": "go"})).await;
            let path = path.replace("{id}", "s").replace("{agent}", "helper");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for name in parameters.filter(|one| one["in"] == "query") {
                let name = name["name"].as_str().unwrap();
                check(method.clone(), format!("{path}?{name}={token}"), json!({})).await;
            }
            for field in [
                "agent",
                "agent_id",
                "approvalId",
                "clientMessageId",
                "conversation",
                "decision",
                "fileIds",
                "model",
                "previous_response_id",
                "runId",
                "scope",
                "sessionId",
                "session_id",
                "threadId",
                "tool",
            ] {
                let said = json!([{"id": "m", "role": "user", "content": "go"}]);
                let mut body = json!({
                    "threadId": "t", "runId": "r", "model": "helper", "message": "go", "messages": said,
                });
                body[field] = json!(token);
                check(method.clone(), path.clone(), body.clone()).await;
                body[field] = json!([token]);
                check(method.clone(), path.clone(), body).await;
            }
        }
    }
    assert!(count > 500, "{count}");
}
