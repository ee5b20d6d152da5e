//! Services that answer wrongly: each answer is an error that says what it is, and none is a pass.

use holodeck_backend_api::BackendError;
use holodeck_testkit::{EndpointServer, Reply};
use serde_json::json;

use crate::setup::{ask, http, json_reply, plain};

#[tokio::test]
async fn what_is_no_answer_is_an_error_that_says_what_came() {
    let cases: [(Reply, &str); 9] = [
        (Reply::html(200, "Sign in"), "a web page"),
        (
            Reply::raw(200, "application/json", "{\"answer\": \"x\""),
            "no JSON",
        ),
        (
            Reply::raw(200, "application/json", "log\n{\"answer\": \"x\"}"),
            "no JSON",
        ),
        (
            Reply::raw(200, "application/json", "{\"answer\": \"x\"} {}"),
            "no JSON",
        ),
        (Reply::raw(200, "application/json", ""), "is empty"),
        (
            Reply::raw(200, "application/json", vec![0xff, 0xfe, 0x00]),
            "no JSON",
        ),
        (Reply::raw(204, "application/json", ""), "is empty"),
        (
            json_reply(&json!({"answer": {"text": "x"}})),
            "is an object and not a text",
        ),
        (json_reply(&json!(["answer"])), "matches nothing"),
    ];
    for (reply, problem) in cases {
        let server = EndpointServer::replies([reply]);
        let error = ask(&plain(&server), "?").await.unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
        assert!(matches!(error, BackendError::Protocol(_)), "{error:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_bounded() {
    let server = EndpointServer::replies([Reply::flood(1 << 30)]);
    let error = ask(&plain(&server), "?").await.unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_redirect_to_another_server_takes_neither_headers_nor_cookies_nor_a_body_along() {
    for status in [301, 302, 303, 307, 308] {
        let other = EndpointServer::answering(|_| json_reply(&json!({"answer": "elsewhere"})));
        let to = format!("{}/there", other.url());
        let server = EndpointServer::replies([Reply::raw(status, "text/plain", "")
            .header("location", &to)
            .header("set-cookie", "sid=1")]);
        let target = http(json!({
            "url": server.url(),
            "headers": {"Authorization": "Bearer hush", "X-Key": "hush"},
            "body": {"q": "{{ input }}"},
            "response": {"text": "$.answer"},
        }));
        let answer = ask(&target, "?").await;
        if status < 304 {
            assert_eq!(answer.unwrap().response, "elsewhere", "{status}");
            let requests = other.requests();
            assert_eq!(requests[0].method, "GET");
            assert!(requests[0].body.is_null(), "{}", requests[0].body);
            for header in ["authorization", "x-key", "cookie"] {
                assert_eq!(requests[0].header(header), None, "{status}");
            }
        } else {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains("another server"), "{status}: {error}");
            assert!(other.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn a_redirect_on_the_same_server_keeps_everything_and_ends() {
    let server = EndpointServer::answering(|request| match request.path.as_str() {
        "/" => Reply::raw(308, "text/plain", "")
            .header("location", "/b")
            .header("set-cookie", "sid=1"),
        "/b" => json_reply(&json!({"answer": "here"})),
        _ => Reply::raw(302, "text/plain", "").header("location", "/loop"),
    });
    let target = |path: &str| {
        http(json!({
            "url": format!("{}{path}", server.url()),
            "headers": {"X-Key": "hush"},
            "body": {"q": "{{ input }}"},
            "response": {"text": "$.answer"},
        }))
    };
    assert_eq!(ask(&target("/"), "q1").await.unwrap().response, "here");
    let requests = server.requests();
    assert_eq!(requests[1].header("x-key"), Some("hush"));
    assert_eq!(requests[1].header("cookie"), Some("sid=1"));
    assert_eq!(requests[1].body["q"], "q1");
    let error = ask(&target("/loop"), "?").await.unwrap_err();
    assert!(error.to_string().contains("redirects more than"), "{error}");
}

#[tokio::test]
async fn a_stream_that_is_cut_at_any_byte_is_an_error_until_its_last_event_is_whole() {
    let events = [r#"{"delta": "Ship"}"#, r#"{"delta": "ped."}"#, "[DONE]"];
    let whole: String = events.map(|data| format!("data: {data}\n\n")).concat();
    let enough = whole.find("[DONE]\n").unwrap() + "[DONE]\n".len();
    for cut in 0..=whole.len() {
        let server = EndpointServer::replies([Reply::raw(200, "text/event-stream", whole[..cut].to_owned())]);
        let target = http(json!({"url": server.url(), "stream": {"text": "$.delta", "done": "[DONE]"}}));
        let answer = ask(&target, "?").await;
        match answer {
            Ok(result) => {
                assert!(cut >= enough, "{cut}");
                assert_eq!(result.response, "Shipped.");
            }
            Err(error) => {
                assert!(cut < enough, "{cut}: {error}");
                assert!(error.is_truncated(), "{cut}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_in_another_form_is_an_error() {
    let stream = json!({"text": "$.delta", "done": "$.done"});
    let cases: [(Reply, &str); 5] = [
        (
            json_reply(&json!({"delta": "x", "done": true})),
            "no stream of events but application/json",
        ),
        (Reply::events(["hello", r#"{"done": true}"#]), "no JSON"),
        (
            Reply::events([r#"{"delta": 3}"#, r#"{"done": true}"#]),
            "is a number and not a text",
        ),
        (
            Reply::events([r#"{"delta": "x", "done": false}"#]),
            "no last event",
        ),
        (
            Reply::events([r#"{"delta": "x"}"#, r#"{"error": "down"}"#, r#"{"done": true}"#]),
            "reported an error: down",
        ),
    ];
    for (reply, problem) in cases {
        let server = EndpointServer::replies([reply]);
        let target = http(json!({"url": server.url(), "stream": stream, "response": {"error": "$.error"}}));
        let error = ask(&target, "?").await.unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
}
