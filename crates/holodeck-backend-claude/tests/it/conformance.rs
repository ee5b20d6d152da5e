use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::ToolHost;
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{
    AnthropicReply, AnthropicRequest, AnthropicServer,
    conformance::{self, ModelMove, Prepared, Scenario, Subject},
};
use insta::assert_snapshot;

use crate::setup::{options, said};

struct Claude;

#[async_trait]
impl Subject for Claude {
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared {
        let script = Mutex::new(Script {
            moves: VecDeque::from(scenario.moves),
            asked_again: None,
        });
        let server = AnthropicServer::answering(move |request| script.lock().unwrap().reply(request));
        let mut options = options(&server).tool_host(tools);
        if scenario.asks {
            options = options.approved_tools(Vec::<String>::new());
        }
        if let Some(max) = scenario.max_turns {
            options = options.max_turns(max);
        }
        if let Some(schema) = scenario.response_format {
            options = options.response_format(schema);
        }
        Prepared {
            backend: Arc::new(ClaudeBackend::new(options).unwrap()),
            keep: Box::new(server),
        }
    }

    fn skips(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("missing usage stays missing", "the Messages API always tells it"),
            (
                "half a stream keeps its text and is an error",
                "the CLI asks again by itself, and drops what had arrived",
            ),
            (
                "a failed turn leaves the session as it was",
                "the CLI asks again, so calls can't be counted; a test of this crate has the same turns",
            ),
        ]
    }
}

/// The moves still to come, and what is said again and again: the CLI asks again after a refusal or an empty answer.
struct Script {
    moves: VecDeque<ModelMove>,
    asked_again: Option<ModelMove>,
}

impl Script {
    fn reply(&mut self, request: &AnthropicRequest) -> AnthropicReply {
        let next = self.moves.pop_front().or_else(|| self.asked_again.clone());
        let Some(next) = next else {
            return AnthropicReply::error(400, "the scenario says nothing more");
        };
        if let ModelMove::Refuse(_) | ModelMove::SayNothing = &next {
            self.asked_again = Some(next.clone());
        }
        reply(next, request)
    }
}

fn reply(next: ModelMove, request: &AnthropicRequest) -> AnthropicReply {
    match next {
        ModelMove::Say {
            reasoning,
            pieces,
            usage,
        } => {
            let mut reply = AnthropicReply::nothing();
            if let Some(reasoning) = reasoning {
                reply = reply.and_thinking(reasoning, "signed");
            }
            let text = pieces.concat();
            let reply = if request.tool_names().contains(&"StructuredOutput") {
                reply.and_tool_use_as("s1", "StructuredOutput", &text)
            } else {
                reply.and_text(text).in_pieces(pieces.len())
            };
            match usage {
                Some(usage) => reply.tokens(usage.prompt_tokens, usage.completion_tokens),
                None => reply,
            }
        }
        ModelMove::Repeat => AnthropicReply::text(said(request).join(" | ")),
        ModelMove::Call(calls) => calls.iter().fold(AnthropicReply::nothing(), |reply, call| {
            let name = format!("mcp__holodeck_tools__{}", call.name);
            reply.and_tool_use_as(&call.call_id, &name, &call.arguments.to_string())
        }),
        ModelMove::Refuse(text) => AnthropicReply::text(text).stop_reason("refusal"),
        ModelMove::SayNothing => AnthropicReply::nothing(),
        // The CLI asks again several times after half a stream; what counts is that the turn fails.
        ModelMove::BreakOff(_) => AnthropicReply::error(400, "broken off"),
        ModelMove::HangAfter(text) => AnthropicReply::text(text).hang_after(3),
        ModelMove::Fail(status) => AnthropicReply::error(status, "no"),
    }
}

#[tokio::test]
async fn the_backend_conforms() {
    let report = conformance::run(&Claude).await;
    report.assert();
    assert_snapshot!(report);
}
