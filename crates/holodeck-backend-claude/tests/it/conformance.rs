//! Runs the conformance suite of backends against the real CLI with a scripted Messages API.

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
use holodeck_validators::SchemaFormat;
use insta::assert_snapshot;

use crate::setup::{conversation_texts, options};

struct Claude;

#[async_trait]
impl Subject for Claude {
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared {
        let script = Mutex::new(Script {
            moves: VecDeque::from(scenario.moves),
            repeated: None,
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
            options = options.response_format(Arc::new(SchemaFormat::new(&schema).unwrap()));
        }
        Prepared {
            backend: Arc::new(ClaudeBackend::new(options).unwrap()),
            keep: Box::new(server),
        }
    }

    fn skips(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "missing usage stays missing",
                "the Messages API always reports it",
            ),
            (
                "half a stream keeps its text and is an error",
                "the CLI retries by itself and drops the partial answer",
            ),
            (
                "a failed turn leaves the session as it was",
                "the CLI retries, so calls can't be counted; a test of this crate has the same turns",
            ),
        ]
    }
}

/// The remaining moves, and the move to repeat: the CLI retries after a refusal or an empty answer.
struct Script {
    moves: VecDeque<ModelMove>,
    repeated: Option<ModelMove>,
}

impl Script {
    fn reply(&mut self, request: &AnthropicRequest) -> AnthropicReply {
        let next = self.moves.pop_front().or_else(|| self.repeated.clone());
        let Some(next) = next else {
            return AnthropicReply::error(400, "the scenario has no more moves");
        };
        if let ModelMove::Refuse(_) | ModelMove::SayNothing = &next {
            self.repeated = Some(next.clone());
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
        ModelMove::Repeat => AnthropicReply::text(conversation_texts(request).join(" | ")),
        ModelMove::Call(calls) => calls.iter().fold(AnthropicReply::nothing(), |reply, call| {
            let name = format!("mcp__holodeck_tools__{}", call.name);
            reply.and_tool_use_as(&call.call_id, &name, &call.arguments.to_string())
        }),
        ModelMove::Refuse(text) => AnthropicReply::text(text).stop_reason("refusal"),
        ModelMove::SayNothing => AnthropicReply::nothing(),
        // The CLI would retry several times after half a stream; here the turn only has to fail.
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
