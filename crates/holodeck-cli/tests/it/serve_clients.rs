//! `holodeck serve` for web clients: what they ask for reaches the model, and errors show nothing of the server.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, TWO_CASES, agent},
    serve::Server,
};

fn post(server: &Server, path: &str, body: &Value) -> String {
    server.ask("POST", path, "", &body.to_string())
}

fn completion(changes: &Value) -> Value {
    let mut body = json!({"model": "support", "messages": [{"role": "user", "content": "hello"}]});
    for (name, value) in changes.as_object().unwrap() {
        body[name.as_str()] = value.clone();
    }
    body
}

#[test]
fn limits_stops_and_forms_of_a_client_reach_the_model() {
    let model = ModelServer::answering(|_| Reply::text("{}"));
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    let server = Server::start(&project, &[]);
    // The agent's own limit is 100.
    for (changes, limit, stop, format) in [
        (json!({}), json!(100), Value::Null, Value::Null),
        (
            json!({"max_tokens": 7, "stop": "x"}),
            json!(7),
            json!(["x"]),
            Value::Null,
        ),
        (
            json!({"max_completion_tokens": 700}),
            json!(100),
            Value::Null,
            Value::Null,
        ),
        (
            json!({"response_format": {"type": "json_object"}}),
            json!(100),
            Value::Null,
            json!({"type": "json_object"}),
        ),
    ] {
        let answer = post(&server, "/v1/chat/completions", &completion(&changes));
        assert!(answer.starts_with("HTTP/1.1 200"), "{changes}: {answer}");
        let asked = model.requests().pop().unwrap().body;
        assert_eq!(
            (&asked["max_tokens"], &asked["stop"], &asked["response_format"]),
            (&limit, &stop, &format),
            "{changes}"
        );
    }
    server.end("-TERM").exits(0);
}

#[test]
fn errors_for_web_clients_show_neither_the_address_of_the_model_nor_the_file() {
    let model = ModelServer::answering(|request| {
        let message = format!("`temperature` is not supported, see {}", request.route());
        Reply::openai_error(400, &message, None, Some("temperature"))
    });
    let url = model.url();
    let port = url
        .rsplit(':')
        .next()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let project = Project::with(&agent(&url, TWO_CASES));
    let server = Server::start(&project, &[]);
    let input =
        json!({"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hello"}]});
    let message = json!({"message": "hello"});
    for (path, body) in [
        ("/v1/sessions/a/messages?wait=true", &message),
        ("/v1/sessions/b/messages?stream=true", &message),
        ("/v1/chat/completions", &completion(&json!({}))),
        ("/v1/chat/completions", &completion(&json!({"stream": true}))),
        ("/agent/support/chat", &message),
        ("/agent/support/chat/stream", &message),
        ("/awp", &input),
    ] {
        let answer = post(&server, path, body);
        assert!(
            answer.contains("the model answered with the status 400"),
            "{path}: {answer}"
        );
        for secret in [&*port, ".yaml", "temperature", "://"] {
            assert!(!answer.contains(secret), "{path} {secret}: {answer}");
        }
    }
    let stored = server.ask("GET", "/v1/sessions/a/events", "", "");
    assert!(
        stored.contains("the model answered with the status 400") && !stored.contains(".yaml"),
        "{stored}"
    );
    // The operator sees the cause.
    let log = server.end("-TERM").exits(0).stderr;
    assert!(log.contains("`temperature` is not supported"), "{log}");
}
