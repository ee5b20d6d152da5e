//! Tests of the fields that OpenAI clients send: absent, null, of another type, refused, or followed; and of errors in
//! the form that such clients read.

use std::sync::{Arc, Mutex};

use holodeck_serve::{AnswerSettings, ServeOptions};
use holodeck_testkit::{Asked, Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Reply, Setup, World, two_users};

const PATH: &str = "/v1/chat/completions";
/// Requests of real clients, a line each.
const REQUESTS: &str = include_str!("../../../../fixtures/clients/browser/requests.jsonl");
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQSFgAAAHEASFiX4r9AAAAAElFTkSuQmCC";

/// The fields of a request as OpenAI documents them, with the types of value that each may have.
const FIELDS: [(&str, &[&str]); 33] = [
    ("audio", &["object"]),
    ("frequency_penalty", &["whole", "number"]),
    ("function_call", &["text", "object"]),
    ("functions", &["list"]),
    ("logit_bias", &["object"]),
    ("logprobs", &["flag"]),
    ("max_completion_tokens", &["whole"]),
    ("max_tokens", &["whole"]),
    ("messages", &["list"]),
    ("metadata", &["object"]),
    ("modalities", &["list"]),
    ("model", &["text"]),
    ("n", &["whole"]),
    ("parallel_tool_calls", &["flag"]),
    ("prediction", &["object"]),
    ("presence_penalty", &["whole", "number"]),
    ("prompt_cache_key", &["text"]),
    ("prompt_cache_retention", &["text"]),
    ("reasoning_effort", &["text"]),
    ("response_format", &["object"]),
    ("safety_identifier", &["text"]),
    ("seed", &["whole"]),
    ("service_tier", &["text"]),
    ("stop", &["text", "list"]),
    ("store", &["flag"]),
    ("stream", &["flag"]),
    ("stream_options", &["object"]),
    ("temperature", &["whole", "number"]),
    ("tool_choice", &["text", "object"]),
    ("tools", &["list"]),
    ("top_logprobs", &["whole"]),
    ("top_p", &["whole", "number"]),
    ("user", &["text"]),
];

fn minimal() -> Value {
    json!({"model": "helper", "messages": [{"role": "user", "content": "hi"}]})
}

fn with(changes: &Value) -> Value {
    let mut body = minimal();
    for (name, value) in changes.as_object().unwrap() {
        body[name.as_str()] = value.clone();
    }
    body
}

/// The questions to the backend.
type Heard = Arc<Mutex<Vec<Asked>>>;

async fn listening(setup: Setup) -> (World, Heard) {
    let heard = Heard::default();
    let inner = Arc::clone(&heard);
    let world = World::with(setup, move |asked| {
        inner.lock().unwrap().push(asked.clone());
        ScriptedTurn::text("x")
    })
    .await;
    (world, heard)
}

/// The field that an error of the OpenAI form names.
fn refused(reply: &Reply) -> (u16, Value) {
    assert_eq!(reply.headers["content-type"], "application/json", "{reply:?}");
    let body = reply.json();
    let error = &body["error"];
    assert!(error["message"].is_string() && error["type"].is_string() && error["code"].is_string());
    assert!(error.as_object().unwrap().contains_key("param"));
    (reply.status.as_u16(), error["param"].clone())
}

#[tokio::test]
async fn a_field_that_is_null_is_as_absent_and_one_of_another_type_is_refused_by_name() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    for (name, kinds) in FIELDS {
        let is_required = matches!(name, "model" | "messages");
        let mut absent = minimal();
        absent.as_object_mut().unwrap().remove(name);
        let null = with(&json!({name: null}));
        for body in [absent, null] {
            let reply = world.post(PATH, body).await;
            if is_required {
                assert_eq!(refused(&reply), (400, json!(name)));
            } else {
                assert_eq!(reply.status, 200, "{name}: {reply:?}");
            }
        }
        for (kind, value) in [
            ("text", json!("none of these")),
            ("flag", json!(true)),
            ("whole", json!(3)),
            ("number", json!(0.5)),
            ("list", json!([7])),
            ("object", json!({"type": 7})),
        ] {
            if kinds.contains(&kind) {
                continue;
            }
            let reply = world.post(PATH, with(&json!({name: value}))).await;
            assert_eq!(
                refused(&reply),
                (400, json!(name)),
                "{name} {kind}: {}",
                reply.text
            );
        }
    }
}

#[tokio::test]
async fn whole_numbers_may_be_written_as_floats_and_nested_nulls_are_as_absent() {
    let (world, heard) = listening(Setup::default()).await;
    for changes in [
        json!({"n": 1.0}),
        json!({"seed": 7.0, "temperature": 1}),
        json!({"max_tokens": 5.0}),
        json!({"stream": false, "stream_options": {"include_usage": null, "include_obfuscation": null}}),
        json!({"messages": [{"role": "user", "content": "hi", "name": null}]}),
        json!({"messages": [{"role": "assistant", "content": null, "tool_calls": null, "refusal": null, "audio": null},
                            {"role": "user", "content": "hi"}]}),
        json!({"messages": [{"role": "assistant", "content": "a", "tool_calls": []}, {"role": "user", "content": "hi"}]}),
        json!({"tools": [], "tool_choice": "auto", "logprobs": false, "top_logprobs": 0, "logit_bias": {}}),
        json!({"tool_choice": "none", "modalities": ["text"], "response_format": {"type": "text"}}),
    ] {
        let reply = world.post(PATH, with(&changes)).await;
        assert_eq!(reply.status, 200, "{changes}: {}", reply.text);
    }
    let limits: Vec<_> = heard
        .lock()
        .unwrap()
        .iter()
        .filter_map(|asked| asked.wishes.max_tokens)
        .collect();
    assert_eq!(limits, [5]);
    for (changes, param) in [
        (json!({"n": 1.5}), "n"),
        (json!({"n": 0}), "n"),
        (json!({"n": -1}), "n"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": 1e30}), "max_tokens"),
        (
            json!({"stream_options": {"include_usage": "yes"}}),
            "stream_options.include_usage",
        ),
        (json!({"messages": [7]}), "messages[0]"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (
            json!({"messages": [{"role": "user", "content": null}]}),
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": null, "content": "a"}]}),
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}),
            "messages[0].content[0].type",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
            "messages[0].content[0].type",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]}, {"role": "user", "content": "hi"}]}),
            "messages[0].tool_calls",
        ),
    ] {
        let reply = world.post(PATH, with(&changes)).await;
        assert_eq!(refused(&reply), (400, json!(param)), "{changes}");
    }
}

#[tokio::test]
async fn what_a_client_asks_for_reaches_the_model_or_is_refused_by_name() {
    let (world, heard) = listening(Setup::default()).await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "default": null}}});
    for (changes, tokens, stop, format) in [
        (
            json!({"max_tokens": 9, "max_completion_tokens": 4}),
            Some(4),
            vec![],
            None,
        ),
        (
            json!({"max_tokens": 3, "max_completion_tokens": 4}),
            Some(3),
            vec![],
            None,
        ),
        (json!({"stop": "a"}), None, vec!["a"], None),
        (json!({"stop": ["a", "b"]}), None, vec!["a", "b"], None),
        (
            json!({"response_format": {"type": "json_object"}}),
            None,
            vec![],
            Some(json!({"type": "json_object"})),
        ),
        (
            json!({"response_format": schema}),
            None,
            vec![],
            Some(schema.clone()),
        ),
    ] {
        assert_eq!(world.post(PATH, with(&changes)).await.status, 200, "{changes}");
        let wishes = heard.lock().unwrap().pop().unwrap().wishes;
        assert_eq!(
            (wishes.max_tokens, wishes.stop, wishes.format),
            (tokens, stop.into_iter().map(str::to_owned).collect(), format),
            "{changes}"
        );
    }
    for (changes, param) in [
        (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
        (json!({"stop": [""]}), "stop"),
        (json!({"stop": [1]}), "stop"),
        (json!({"response_format": {"type": "grammar"}}), "response_format"),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format",
        ),
        (json!({"response_format": {}}), "response_format"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"logit_bias": {"5": 1}}), "logit_bias"),
        (json!({"modalities": ["text", "audio"]}), "modalities"),
        (json!({"audio": {"voice": "x"}}), "audio"),
        (json!({"web_search_options": {"a": 1}}), "web_search_options"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"function_call": {"name": "f"}}), "function_call"),
        (json!({"tools": [{"type": "function"}]}), "tools"),
        (json!({"functions": [{}]}), "functions"),
    ] {
        let reply = world.post(PATH, with(&changes)).await;
        assert_eq!(refused(&reply), (400, json!(param)), "{changes}");
    }
    assert_eq!(heard.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn an_agent_that_cannot_follow_a_wish_refuses_it() {
    let setup = |follows_wishes, max_tokens, has_format| Setup {
        answers: AnswerSettings {
            follows_wishes,
            max_tokens,
            has_format,
        },
        ..Setup::default()
    };
    for (setup, changes, param) in [
        (
            setup(false, None, false),
            json!({"max_tokens": 5}),
            Some("max_tokens"),
        ),
        (
            setup(false, None, false),
            json!({"max_completion_tokens": 5}),
            Some("max_completion_tokens"),
        ),
        (
            setup(false, Some(9), false),
            json!({"max_tokens": 8}),
            Some("max_tokens"),
        ),
        // The limit of the agent is the smaller one.
        (setup(false, Some(9), false), json!({"max_tokens": 9}), None),
        (setup(false, Some(9), false), json!({"max_tokens": 90}), None),
        (setup(false, None, false), json!({"stop": "a"}), Some("stop")),
        (
            setup(false, None, false),
            json!({"response_format": {"type": "json_object"}}),
            Some("response_format"),
        ),
        (
            setup(true, None, true),
            json!({"response_format": {"type": "json_object"}}),
            Some("response_format"),
        ),
        (
            setup(true, None, true),
            json!({"response_format": {"type": "text"}}),
            None,
        ),
        (
            setup(true, None, true),
            json!({"stop": "a", "max_tokens": 1}),
            None,
        ),
    ] {
        let (world, _) = listening(setup).await;
        let reply = world.post(PATH, with(&changes)).await;
        match param {
            Some(param) => assert_eq!(refused(&reply), (400, json!(param)), "{changes}"),
            None => assert_eq!(reply.status, 200, "{changes}: {}", reply.text),
        }
    }
}

#[tokio::test]
async fn a_picture_in_the_request_reaches_the_model_and_no_address_is_fetched() {
    let (world, heard) = listening(Setup::default()).await;
    let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url, "detail": null}});
    let data = format!("data:image/png;base64,{PIXEL}");
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "a"}, part(&data)]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [part(&data), {"type": "text", "text": "c"}]},
    ]);
    assert_eq!(
        world
            .post(PATH, with(&json!({"messages": messages})))
            .await
            .status,
        200
    );
    let asked = heard.lock().unwrap().pop().unwrap();
    assert_eq!((asked.images.len(), &*asked.message), (2, "c"));
    assert!(
        asked
            .images
            .iter()
            .all(|image| &*image.base64 == PIXEL && image.media_type == "image/png")
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local = format!("http://{}/a.png", listener.local_addr().unwrap());
    for url in [
        &*local,
        "https://example.com/a.png",
        "file:///etc/passwd",
        "data:text/plain;base64,YQ==",
        "",
    ] {
        let messages = json!([{"role": "user", "content": [part(url)]}]);
        let reply = world.post(PATH, with(&json!({"messages": messages}))).await;
        assert_eq!(
            refused(&reply),
            (400, json!("messages[0].content[0].image_url.url")),
            "{url}"
        );
    }
    let connected = tokio::select! {
        biased;
        _ = listener.accept() => true,
        () = tokio::task::yield_now() => false,
    };
    assert!(!connected);
}

#[tokio::test]
async fn every_error_of_the_family_has_the_form_that_its_clients_read() {
    let gate = Gate::new();
    let inner = gate.clone();
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        max_runs: 1,
        ..Setup::default()
    };
    let world = World::with(setup, move |_| {
        ScriptedTurn::nothing().and_text("so far").and_wait_for(&inner)
    })
    .await;
    let token = ("authorization", "Bearer token-of-alice");
    let body = minimal().to_string();
    let large = json!({"model": "helper", "messages": "x".repeat(1 << 20)}).to_string();
    let unknown = with(&json!({"model": "gpt-4o"})).to_string();
    let streaming = with(&json!({"stream": true})).to_string();
    let _busy = {
        let mut stream = world.open(Method::POST, PATH, &[token], &streaming).await;
        stream.next().await.unwrap();
        stream
    };
    let encoded = ("content-encoding", "gzip");
    for (method, path, headers, body, status, code) in [
        (Method::POST, PATH, vec![], &*body, 401, "invalid_api_key"),
        (Method::GET, "/v1/models", vec![], "", 401, "invalid_api_key"),
        (
            Method::GET,
            "/v1/models/helper",
            vec![("authorization", "Bearer wrong")],
            "",
            401,
            "invalid_api_key",
        ),
        (
            Method::GET,
            "/v1/models/gpt-4o",
            vec![token],
            "",
            404,
            "model_not_found",
        ),
        (Method::POST, PATH, vec![token], &*unknown, 404, "model_not_found"),
        (
            Method::POST,
            "/v1/embeddings",
            vec![token],
            "{}",
            404,
            "not_found",
        ),
        (
            Method::POST,
            "/v1/completions",
            vec![token],
            "{}",
            404,
            "not_found",
        ),
        (
            Method::GET,
            "/v1/chat/completions/c-1",
            vec![token],
            "",
            404,
            "not_found",
        ),
        (Method::GET, PATH, vec![token], "", 405, "method_not_allowed"),
        (Method::POST, PATH, vec![token], &*large, 413, "too_large"),
        (
            Method::POST,
            PATH,
            vec![token, encoded],
            &*body,
            415,
            "unsupported_media_type",
        ),
        (Method::POST, PATH, vec![token], "{", 400, "invalid_request"),
        (Method::POST, PATH, vec![token], "[]", 400, "invalid_request"),
        (Method::POST, PATH, vec![token], &*body, 429, "too_many_runs"),
        (
            Method::POST,
            PATH,
            vec![token, ("origin", "https://evil.example")],
            &*body,
            403,
            "origin_not_allowed",
        ),
    ] {
        let reply = world.send(method, path, &headers, body).await;
        assert_eq!(refused(&reply).0, status, "{path}");
        assert_eq!(reply.json()["error"]["code"], code, "{path}");
        assert_eq!(reply.headers.contains_key("www-authenticate"), status == 401);
        assert_eq!(reply.headers.contains_key("retry-after"), status == 429);
    }
    // Other addresses keep their form.
    let other = world.send(Method::GET, "/v1/sessions/none", &[token], "").await;
    assert_eq!(other.problem().0, 404);
}

#[tokio::test]
async fn requests_of_real_clients_are_answered_as_they_should_be() {
    let (world, _) = listening(Setup::default()).await;
    let mut rows = 0;
    for line in REQUESTS.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let right = row["right"].as_str().unwrap();
        if row["path"] != PATH || right.starts_with("401") {
            continue;
        }
        rows += 1;
        let reply = world.post(PATH, with(&row["body"])).await;
        if right.starts_with("200") {
            assert_eq!(reply.status, 200, "{line}: {}", reply.text);
        } else {
            assert_eq!(
                (right, refused(&reply)),
                (
                    "passed on to the model, or refused by name",
                    (400, json!("logprobs"))
                )
            );
        }
    }
    assert_eq!(rows, 4);
    let model = world.get("/v1/models/helper").await.json();
    assert_eq!(
        (&model["id"], &model["object"]),
        (&json!("helper"), &json!("model"))
    );
}
