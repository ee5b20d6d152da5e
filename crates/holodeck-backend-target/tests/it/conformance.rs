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
        let tools = [
            "a tool is called and its result goes back",
            "a tool has one name in every event, whatever the wire calls it",
            "parallel calls run at the same time",
            "a failing tool does not end the turn",
            "an unknown tool does not end the turn",
            "a tool that is too slow does not end the turn",
            "a tool that can't be run ends the turn",
            "a turn stopped while a tool runs",
        ];
        let deciding = [
            "a person approves a call",
            "a person changes the arguments of a call",
            "a person rejects a call",
            "a person ends the turn",
            "a rule decides without asking",
        ];
        let others = [
            (
                "an answer is streamed and folded",
                "a target reports no reasoning",
            ),
            (
                "a structured answer is validated",
                "a target has a format of its own",
            ),
            (
                "model calls are limited",
                "the model calls of a target are its own",
            ),
            (
                "a conversation is recorded as the same types of events everywhere",
                "its script has tools of the host and reasoning",
            ),
        ];
        let tools = tools.map(|check| (check, OWN_TOOLS));
        let deciding = deciding.map(|check| (check, "a target decides itself about its calls"));
        tools.into_iter().chain(deciding).chain(others).collect()
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
        ModelMove::BreakOff(text) => {
            let cut = format!("data: {}\n\ndata: {{\"en", said(text));
            Reply::raw(200, "text/event-stream", cut)
        }
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
