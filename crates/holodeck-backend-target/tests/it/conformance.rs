//! Runs the conformance suite of backends over a scripted service that has its own tools and its own model.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::ToolHost;
use holodeck_testkit::{
    EndpointServer, ReceivedRequest, Reply,
    conformance::{self, ModelMove, Prepared, Scenario, Subject},
};
use insta::assert_snapshot;
use serde_json::json;

use crate::setup::{backend, http};

struct Service;

/// The tools of a target are its own: the host's are never called, and nobody is asked about them.
const OWN_TOOLS: &str = "the tools of a target are its own";

#[async_trait]
impl Subject for Service {
    async fn backend(&self, scenario: Scenario, _: Arc<dyn ToolHost>) -> Prepared {
        let moves = Mutex::new(VecDeque::from(scenario.moves));
        let server = EndpointServer::answering(move |request| {
            let next = moves.lock().unwrap().pop_front();
            reply(next.unwrap(), request)
        });
        let target = http(json!({
            "url": server.url(),
            "body": {"messages": "{{ messages }}"},
            "stream": {"text": "$.delta", "done": "$.end"},
            "response": {
                "usage": {"path": "$.usage", "optional": true},
                "finish_reason": {"path": "$.end", "optional": true},
            },
        }));
        Prepared {
            backend: Arc::new(backend(&target)),
            keep: Box::new(server),
        }
    }

    fn skips(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

fn reply(next: ModelMove, request: &ReceivedRequest) -> Reply {
    let said = |text: &str| json!({"delta": text}).to_string();
    let ended = |reason: &str| json!({"end": reason}).to_string();
    let all = |events: &[String]| Reply::events(events.iter().map(String::as_str));
    match next {
        ModelMove::Say { pieces, usage, .. } => {
            let mut events: Vec<String> = pieces.into_iter().map(said).collect();
            events.extend(usage.map(|usage| {
                json!({"usage": {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                }})
                .to_string()
            }));
            events.push(ended("stop"));
            all(&events)
        }
        ModelMove::Repeat => {
            let messages = request.body["messages"].as_array().unwrap();
            let texts: Vec<&str> = messages
                .iter()
                .map(|it| it["content"].as_str().unwrap())
                .collect();
            all(&[said(&texts.join(" | ")), ended("stop")])
        }
        ModelMove::Call(_) => all(&[said(OWN_TOOLS), ended("stop")]),
        ModelMove::Refuse(text) => all(&[said(text), ended("content_filter")]),
        ModelMove::SayNothing => all(&[ended("stop")]),
        ModelMove::BreakOff(text) => all(&[said(text), ended("stop")]).cut_after(1),
        ModelMove::HangAfter(text) => all(&[said(text), ended("stop")]).hang_after(1),
        ModelMove::Fail(status) => Reply::raw(status, "text/plain", "no"),
    }
}

#[tokio::test]
async fn the_backend_conforms() {
    let report = conformance::run(&Service).await;
    assert_snapshot!(report);
    report.assert();
}
