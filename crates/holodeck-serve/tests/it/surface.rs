use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::World;

/// What is described exists, and answers in the described form.
#[tokio::test]
async fn every_described_call_exists() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let document = world.get("/openapi.json").await.json();
    let mut calls = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let reply = world
                .send(method.clone(), &path.replace("{id}", "none"), &[], "{")
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
    assert_eq!(calls, 21);
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
