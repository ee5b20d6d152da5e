//! One call of a model makes as many requests as its policy says, wherever each of them fails, and one more for each form of the
//! request that is refused.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent, agent_of, ask, backend, model_of};

/// The requests of a call that fails to its end: one, and three retries.
const ATTEMPTS: usize = 4;

/// Failures that pass, one per place where an attempt can fail.
fn failures() -> Vec<(&'static str, Reply)> {
    let busy = json!({"error": {"message": "busy", "code": 503}}).to_string();
    let of_choice = json!({"choices": [{"index": 0, "error": {"message": "busy", "code": 502}}]}).to_string();
    let role = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}).to_string();
    let event = |text: &str| Reply::raw(200, "text/event-stream", text.to_owned());
    vec![
        ("a status", Reply::openai_error(503, "busy", None, None)),
        (
            "a limit",
            Reply::openai_error(429, "slow down", None, None).retry_after(0),
        ),
        ("a failure", Reply::openai_error(500, "oops", None, None)),
        ("a break before the answer", Reply::text("lost").cut_after(0)),
        ("a break before any text", Reply::text("lost").cut_after(1)),
        (
            "a whole answer",
            Reply::raw(200, "application/json", busy.clone()),
        ),
        ("a stream", Reply::events([busy.as_str(), "[DONE]"])),
        (
            "a stream with a beginning",
            Reply::events([role.as_str(), busy.as_str()]),
        ),
        ("a choice", Reply::events([of_choice.as_str(), "[DONE]"])),
        (
            "an event of its own",
            event(&format!("event: error\ndata: {busy}\n\n")),
        ),
        (
            "a wait",
            Reply::raw(200, "application/json", r#"{"error":{"message":"later"}}"#).retry_after(0),
        ),
    ]
}

/// A server that answers the n-th request with the n-th reply, and each one after them with a text.
fn server(replies: Vec<Reply>) -> ModelServer {
    let count = AtomicUsize::new(0);
    ModelServer::answering(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        replies.get(number).cloned().unwrap_or_else(|| Reply::text("hi"))
    })
}

#[tokio::test]
async fn every_mix_of_failures_makes_the_requests_of_the_policy() {
    let kinds = failures();
    let count = kinds.len();
    for first in 0..count {
        for second in 0..count {
            // Each pair of kinds is at each pair of places.
            let mix = [
                first,
                second,
                (first + second) % count,
                (first + 2 * second) % count,
            ];
            let names = mix.map(|kind| kinds[kind].0);
            let replies = || mix.map(|kind| kinds[kind].1.clone()).to_vec();
            let failing = server(replies());
            let ended = ask(&backend(&agent_of(&failing, "")), "hello").await;
            assert!(ended.is_err(), "{names:?}: {ended:?}");
            assert_eq!(failing.finish().len(), ATTEMPTS, "{names:?}");
            let mut replies = replies();
            let failed = (first + second) % ATTEMPTS;
            replies.truncate(failed);
            let recovering = server(replies);
            let result = ask(&backend(&agent_of(&recovering, "")), "hello").await.unwrap();
            assert_eq!(result.response, "hi", "{names:?}");
            assert_eq!(recovering.finish().len(), failed + 1, "{names:?}");
        }
    }
}

#[tokio::test]
async fn the_fallback_model_gets_one_request_whatever_failed() {
    for (kind, failure) in failures() {
        let replies = vec![failure; 2 * ATTEMPTS];
        let server = server(replies);
        let agent = agent(&model_of(&server), "openai:\n  fallback_model: other\n");
        assert!(ask(&backend(&agent), "hello").await.is_err(), "{kind}");
        let requests = server.finish();
        let of = |name: &str| {
            requests
                .iter()
                .filter(|request| request.body["model"] == name)
                .count()
        };
        // A connection that broke says nothing about the model.
        let fallback = usize::from(!kind.starts_with("a break"));
        assert_eq!((of("m"), of("other")), (ATTEMPTS, fallback), "{kind}");
    }
}

/// The parts that a server refuses, by the field of the request that has them.
const REFUSED: [&str; 4] = ["stream_options", "response_format", "max_tokens", "stream"];

fn has(request: &ReceivedRequest, field: &str) -> bool {
    match field {
        "stream" => request.body["stream"] == true,
        field => request.body.get(field).is_some(),
    }
}

const REST: &str = "response_format: {type: object, properties: {days: {type: integer}}, required: [days]}\n";

#[tokio::test]
async fn a_refused_form_costs_one_request_and_no_retry_anywhere_among_failures() {
    let busy = || Reply::openai_error(503, "busy", None, None);
    for fields in 0..1_usize << REFUSED.len() {
        let refused: Vec<&'static str> = (0..REFUSED.len())
            .filter(|place| fields >> place & 1 == 1)
            .map(|place| REFUSED[place])
            .collect();
        for fails_at in 0..4_usize {
            let (count, failed) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
            let (names, fails) = (refused.clone(), Arc::clone(&failed));
            let server = ModelServer::answering(move |request| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                // Three failures in a row, among the refusals.
                if (fails_at..fails_at + 3).contains(&number) {
                    fails.fetch_add(1, Ordering::Relaxed);
                    return busy();
                }
                match names.iter().find(|field| has(request, field)) {
                    Some(field) => {
                        Reply::openai_error(400, &format!("unknown field `{field}`"), None, Some(field))
                    }
                    None => Reply::text(r#"{"days": 3}"#),
                }
            });
            let model = format!("{}\n  max_tokens: 50", model_of(&server));
            let result = ask(&backend(&agent(&model, REST)), "hello").await.unwrap();
            assert_eq!(result.structured_output, Some(json!({"days": 3})), "{refused:?}");
            let sent = server.finish();
            // Without a stream there are no options of one.
            let is_implied = refused.contains(&"stream") && refused.contains(&"stream_options");
            let changes = sent.len() - failed.load(Ordering::Relaxed) - 1;
            assert!(
                changes == refused.len() || (is_implied && changes + 1 == refused.len()),
                "{refused:?}, {fails_at}: {changes}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_refuses_whatever_is_sent_is_asked_a_limited_number_of_times() {
    let refusals: Vec<(u16, &str)> = vec![
        (400, ""),
        (422, "Unprocessable Entity"),
        (400, "grammar went wrong"),
        (500, "oops"),
        (501, "Not Implemented"),
        (
            400,
            "response_format, logprobs, stream_options, max_tokens and stream are unknown fields",
        ),
    ];
    for (status, text) in &refusals {
        for changes_words in [false, true] {
            let (status, text) = (*status, (*text).to_owned());
            let count = AtomicUsize::new(0);
            let server = ModelServer::answering(move |_| {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let text = if changes_words {
                    format!("{text} ({number})")
                } else {
                    text.clone()
                };
                Reply::raw(status, "text/plain", text)
            });
            let model = format!("{}\n  max_tokens: 50", model_of(&server));
            let error = ask(&backend(&agent(&model, REST)), "hello").await.unwrap_err();
            let requests = server.finish().len();
            assert!(
                requests <= ATTEMPTS + REFUSED.len(),
                "{status}: {requests} requests, {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_failure_after_text_is_not_asked_again() {
    let text = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}).to_string();
    let busy = json!({"error": {"message": "busy", "code": 503}}).to_string();
    for reply in [
        Reply::events([text.as_str(), busy.as_str()]),
        Reply::text("half an answer").in_pieces(4).cut_after(3),
    ] {
        let server = server(vec![reply]);
        assert!(ask(&backend(&agent_of(&server, "")), "hello").await.is_err());
        assert_eq!(server.finish().len(), 1);
    }
}
