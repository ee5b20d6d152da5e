//! Tests that every route is described by the API document and answers as described.

use std::collections::BTreeSet;

use holodeck_serve::{
    Protocols, ServeOptions,
    conversation::api::{BackendEvent, CallDetails, ToolResult},
};
use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{Setup, World};

/// The addresses of the router, as its source lists them.
fn routes() -> BTreeSet<String> {
    let routes = include_str!("../../src/server.rs").split(".route(").skip(1);
    let quoted = routes.filter_map(|route| route.trim_start().strip_prefix('"'));
    quoted
        .map(|route| route.split('"').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn every_call_is_described_with_its_methods_and_parameters() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let document = world.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), routes());
    let mut names = BTreeSet::new();
    for (path, calls) in paths {
        for method in ["get", "post", "put", "patch", "delete"] {
            let address = path.replace("{id}", "none").replace("{agent}", "helper");
            let reply = world
                .send(method.to_uppercase().parse().unwrap(), &address, &[], "{")
                .await;
            assert_eq!(
                reply.status != 405,
                calls.get(method).is_some(),
                "{method} {path}: {reply:?}"
            );
            if reply.status == 405 {
                let allowed = reply.headers["allow"].to_str().unwrap();
                assert!(!allowed.contains(&method.to_uppercase()), "{method} {path}");
            }
            let Some(call) = calls.get(method) else { continue };
            let name = call["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} twice");
            for name in path
                .split('{')
                .skip(1)
                .map(|rest| rest.split('}').next().unwrap())
            {
                let parameters = call["parameters"].as_array().unwrap().iter();
                let own =
                    parameters.filter(|parameter| parameter["in"] == "path" && parameter["name"] == name);
                assert_eq!(own.count(), 1, "{method} {path}: {name}");
            }
            assert_eq!(
                method == "post",
                call.get("requestBody").is_some() || path.ends_with("cancel")
            );
        }
    }
    // References lead somewhere.
    for reference in world
        .get("/openapi.json")
        .await
        .text
        .split("\"$ref\": \"#")
        .skip(1)
    {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[tokio::test]
async fn every_refusal_is_a_problem() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    for (method, path) in [
        (Method::GET, "/v1/sessions/%ff"),
        (Method::POST, "/v1/sessions/%ff/messages"),
        (Method::GET, "/v1/runs/%ff/events"),
        (Method::POST, "/v1/approvals/%ff"),
        (Method::DELETE, "/v1/files/%ff"),
        (Method::POST, "/agent/%ff/chat"),
        (Method::GET, "/v1/sessions?limit=many"),
        (Method::GET, "/v1/sessions?userId=bob"),
        (Method::GET, "/v1/ws"),
        (Method::POST, "/v1/files"),
        (Method::POST, "/awp"),
        (Method::GET, "/../etc/passwd"),
        (Method::PUT, "/"),
    ] {
        let refused = world.send(method, path, &[], "{").await;
        let (status, _) = refused.problem();
        assert!((400..500).contains(&status), "{path}: {refused:?}");
    }
    let large = format!(r#"{{"message": "{}"}}"#, "x".repeat(1 << 20));
    for path in ["/v1/sessions/s/messages", "/awp", "/agent/helper/chat"] {
        let refused = world.send(Method::POST, path, &[], &large).await;
        assert_eq!(refused.problem(), (413, "TOO_LARGE".to_owned()), "{path}");
    }
    // A list has no fields.
    for body in [r#"["s", "helper"]"#, "null", "7", "\"s\""] {
        let refused = world.send(Method::POST, "/v1/sessions", &[], body).await;
        assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()), "{body}");
        assert!(!refused.text.contains("struct"), "{}", refused.text);
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
}

#[tokio::test]
async fn the_page_runs_only_its_own_script() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let page = world.get("/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.text.matches("<script").count(), 1);
    assert_eq!(page.text.matches("<style").count(), 1);
    for never in [" style=", " onclick=", " onload=", "innerHTML", "eval("] {
        assert!(!page.text.contains(never), "{never}");
    }
}

#[tokio::test]
async fn what_a_backend_may_not_report_is_left_out_and_counted() {
    let world = World::new(|_| {
        ScriptedTurn::nothing()
            .and_event(BackendEvent::ToolResult(ToolResult {
                call_id: "call-1".to_owned(),
                name: "search".to_owned(),
                result: "of no call".to_owned(),
                is_error: false,
                duration_ms: None,
                details: CallDetails::default(),
            }))
            .and_text("x")
    })
    .await;
    let counted = async || world.get("/metrics").await.text;
    assert!(counted().await.contains("holodeck_contract_violations_total 0\n"));
    let answer = world
        .post("/v1/sessions/s/messages?wait=true", json!({"message": "a"}))
        .await;
    assert_eq!(answer.json()["response"], "x");
    assert!(
        !world
            .get("/v1/sessions/s/events")
            .await
            .text
            .contains("of no call")
    );
    assert!(counted().await.contains("holodeck_contract_violations_total 1\n"));
    let body = json!({"model": "helper", "messages": [{"role": "user", "content": "a"}]});
    assert_eq!(world.post("/v1/chat/completions", body).await.status, 200);
    assert!(counted().await.contains("holodeck_contract_violations_total 2\n"));
}

/// Every described route exists, and answers in the described form.
#[tokio::test]
async fn every_described_call_exists() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let document = world.get("/openapi.json").await.json();
    let mut calls = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let reply = world
                .send(
                    method.clone(),
                    &path.replace("{id}", "none").replace("{agent}", "helper"),
                    &[],
                    "{",
                )
                .await;
            let known = reply.status.as_u16().to_string();
            let described = call["responses"].get(&known).or(call["responses"].get("default"));
            assert!(described.is_some(), "{method} {path}: {known}");
            if reply
                .headers
                .get("content-type")
                .is_some_and(|kind| kind == "application/problem+json")
            {
                assert!(
                    !["NOT_FOUND", "METHOD_NOT_ALLOWED"].contains(&reply.problem().1.as_str()),
                    "{method} {path}"
                );
            }
            calls += 1;
        }
    }
    assert_eq!(calls, 37);
    assert_eq!(
        world.get("/v1/nothing").await.problem(),
        (404, "NOT_FOUND".to_owned())
    );
    let put = world.send(Method::PUT, "/v1/sessions", &[], "").await;
    assert_eq!(put.problem(), (405, "METHOD_NOT_ALLOWED".to_owned()));
}

#[tokio::test]
async fn conversations_are_listed_copied_and_deleted() {
    let world = World::new(|asked| ScriptedTurn::text(&format!("{} before", asked.history.len()))).await;
    for session in ["a", "b", "c"] {
        world.say(session, "hello").await;
        world.service.drain().await;
    }
    let mut listed = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let page = world.get(&path).await.json();
        for session in page["sessions"].as_array().unwrap() {
            listed.push(session["sessionId"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=2&after={next}");
    }
    listed.sort();
    assert_eq!(listed, ["a", "b", "c"]);
    assert_eq!(world.get("/v1/sessions?after=x").await.problem().0, 400);
    assert_eq!(world.get("/v1/sessions?sort=name").await.problem().0, 400);

    let copy = world.post("/v1/sessions/a/fork", json!({})).await;
    assert_eq!(copy.status, 201);
    let copy = copy.json()["sessionId"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{copy}/messages?wait=true");
    let answer = world.post(&path, json!({"message": "and now?"})).await;
    assert_eq!(answer.json()["response"], "2 before");
    assert_eq!(world.get("/v1/sessions/a").await.json()["runs"], 1);
    let early = world
        .post("/v1/sessions/a/fork", json!({"afterEventIndex": 1}))
        .await;
    assert_eq!(early.problem(), (409, "RUN_NOT_OVER".to_owned()));

    assert_eq!(
        world.send(Method::DELETE, "/v1/sessions/a", &[], "").await.status,
        204
    );
    assert_eq!(world.get("/v1/sessions/a").await.problem().0, 404);
    assert_eq!(
        world.say("a", "x").await.problem(),
        (409, "SESSION_DELETED".to_owned())
    );
    let named = world.post("/v1/sessions", json!({"sessionId": "b"})).await;
    assert_eq!(named.problem(), (409, "SESSION_EXISTS".to_owned()));
    let other = world.post("/v1/sessions", json!({"agent": "nobody"})).await;
    assert_eq!(other.problem(), (404, "AGENT_NOT_FOUND".to_owned()));
    let new = world.post("/v1/sessions", json!({})).await;
    assert_eq!(
        (new.status.as_u16(), new.json()["agent"].as_str()),
        (201, Some("helper"))
    );
}

#[tokio::test]
async fn a_deletion_ends_what_is_answered_only_if_it_should() {
    let world = World::new(|_| ScriptedTurn::nothing().and_text("x").and_hang()).await;
    world.say("s", "a").await;
    let refused = world.send(Method::DELETE, "/v1/sessions/s", &[], "").await;
    assert_eq!(refused.problem(), (409, "RUN_IN_PROGRESS".to_owned()));
    let stream = world.stream("/v1/sessions/s/events?follow=true", None).await;
    let deleted = world
        .send(Method::DELETE, "/v1/sessions/s?force=true", &[], "")
        .await;
    assert_eq!(deleted.status, 204);
    // Its streams end.
    stream.rest().await;
}

#[tokio::test]
async fn clients_of_the_previous_release_are_answered() {
    let world = World::new(|asked| {
        ScriptedTurn::nothing()
            .and_called("search", json!({"q": asked.message}), "found")
            .and_text(&format!("{} before", asked.history.len()))
    })
    .await;
    let first = world
        .post("/agent/helper/chat", json!({"message": "hello"}))
        .await
        .json();
    assert_eq!(first["content"], "0 before");
    assert_eq!(
        first["tool_calls"],
        json!([{"name": "search", "arguments": {"q": "hello"}, "status": "success"}])
    );
    assert!(first["execution_time_ms"].is_u64() && first["message_id"].is_string());
    let session = first["session_id"].as_str().unwrap();
    let body = json!({"message": "more", "session_id": session}).to_string();
    let stream = world
        .open(Method::POST, "/agent/helper/chat/stream", &[], &body)
        .await;
    let frames = stream.rest().await;
    let names: Vec<_> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(
        names,
        [
            "stream_start",
            "tool_call_start",
            "tool_call_args",
            "tool_call_end",
            "message_delta",
            "stream_end"
        ]
    );
    assert_eq!(frames[0].json()["session_id"], session);
    assert_eq!(frames[2].json()["args_delta"], r#"{"q":"more"}"#);
    assert_eq!(frames[4].json()["delta"], "2 before");
    let path = format!("/sessions/{session}");
    for _ in 0..2 {
        assert_eq!(world.send(Method::DELETE, &path, &[], "").await.status, 204);
    }
    assert_eq!(
        world
            .post("/agent/nobody/chat", json!({"message": "x"}))
            .await
            .problem()
            .0,
        404
    );
    let failing = World::new(|_| {
        let error = holodeck_serve::conversation::api::BackendError::session("away");
        ScriptedTurn::nothing().and_text("so far").and_fail(error)
    })
    .await;
    assert_eq!(
        failing
            .post("/agent/helper/chat", json!({"message": "x"}))
            .await
            .status,
        502
    );
    let body = json!({"message": "x"}).to_string();
    let frames = failing
        .open(Method::POST, "/agent/helper/chat/stream", &[], &body)
        .await
        .rest()
        .await;
    assert_eq!(frames.last().unwrap().event, "error");
}

#[tokio::test]
async fn only_the_chosen_protocols_are_served() {
    for (protocols, rest, ag_ui) in [
        (
            Protocols {
                rest: true,
                ag_ui: false,
            },
            200,
            404,
        ),
        (
            Protocols {
                rest: false,
                ag_ui: true,
            },
            404,
            400,
        ),
    ] {
        let setup = Setup {
            options: ServeOptions {
                protocols,
                ..ServeOptions::default()
            },
            ..Setup::default()
        };
        let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
        assert_eq!(world.get("/v1/sessions").await.status, rest);
        assert_eq!(world.post("/awp", json!({})).await.status, ag_ui);
        assert_eq!(world.get("/health").await.status, 200);
    }
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_refused() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let body = json!({"message": "a"}).to_string();
    let own = world.address.to_string();
    let hosts = [("host", own.as_str()), ("host", "evil.example")];
    for path in ["/health", "/v1/sessions/s/messages"] {
        let refused = world.send(Method::POST, path, &hosts, &body).await;
        assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()));
    }
    for encoding in ["gzip", "br", "identity, gzip", "deflate"] {
        let headers = [("content-encoding", encoding)];
        for path in [
            "/v1/sessions/s/messages",
            "/awp",
            "/agent/helper/chat",
            "/v1/sessions",
        ] {
            let refused = world.send(Method::POST, path, &headers, &body).await;
            assert_eq!(
                refused.problem(),
                (415, "UNSUPPORTED_MEDIA_TYPE".to_owned()),
                "{encoding} {path}"
            );
        }
    }
    for id in ["last", "%2e%2e", "%2E"] {
        let refused = world
            .send(Method::POST, &format!("/v1/sessions/{id}/messages"), &[], &body)
            .await;
        assert_eq!(refused.problem().0, 400, "{id}");
    }
    for id in ["last", "..", "."] {
        let refused = world.post("/v1/sessions", json!({"sessionId": id})).await;
        assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()), "{id}");
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
    let plain = [("content-encoding", "identity")];
    let answered = world
        .send(Method::POST, "/v1/sessions/s/messages?wait=true", &plain, &body)
        .await;
    assert_eq!(answered.status, 200);
}

#[tokio::test]
async fn a_client_that_waits_gets_the_warnings_of_the_answer() {
    let world = World::new(|_| {
        ScriptedTurn::nothing()
            .and_event(BackendEvent::Notice {
                message: "the oldest messages were left out".to_owned(),
            })
            .and_text("x")
    })
    .await;
    let path = "/v1/sessions/s/messages?wait=true";
    let body = json!({"message": "a", "clientMessageId": "c-1"});
    for _ in 0..2 {
        let answer = world.post(path, body.clone()).await.json();
        assert_eq!(answer["warnings"], json!(["the oldest messages were left out"]));
    }
}
