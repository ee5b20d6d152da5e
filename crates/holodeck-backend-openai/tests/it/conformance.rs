//! Runs the conformance suite of backends against a scripted Chat Completions server.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::ToolHost;
use holodeck_testkit::{
    ModelServer, ReceivedRequest, Reply,
    conformance::{self, ModelMove, Prepared, Scenario, Subject},
};
use insta::assert_snapshot;
use serde_json::json;

use crate::setup::{agent_of, equipped};

struct OpenAi;

#[async_trait]
impl Subject for OpenAi {
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared {
        let moves = Mutex::new(VecDeque::from(scenario.moves));
        let server = ModelServer::answering(move |request| {
            let next = moves.lock().unwrap().pop_front();
            reply(next.unwrap(), request)
        });
        let mut rest = String::new();
        if let Some(max) = scenario.max_turns {
            writeln!(rest, "openai:\n  max_turns: {max}").unwrap();
        }
        if let Some(schema) = &scenario.response_format {
            writeln!(rest, "response_format: {schema}").unwrap();
        }
        let agent = agent_of(&server, &rest);
        Prepared {
            backend: Arc::new(equipped(&agent, tools)),
            keep: Box::new(server),
        }
    }
}

fn reply(next: ModelMove, request: &ReceivedRequest) -> Reply {
    match next {
        ModelMove::Say {
            reasoning,
            pieces,
            usage,
        } => {
            let reply = Reply::nothing().and_reasoning(reasoning.unwrap_or_default());
            let reply = reply.and_text(pieces.concat()).in_pieces(pieces.len());
            match usage {
                Some(usage) => reply.usage(json!({
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "total_tokens": usage.total_tokens,
                })),
                None => reply.without_usage(),
            }
        }
        ModelMove::Repeat => Reply::text(request.conversation_texts().join(" | ")),
        ModelMove::Call(calls) => calls.iter().fold(Reply::nothing(), |reply, call| {
            reply.and_tool_call(&call.call_id, &call.name, &call.arguments.to_string())
        }),
        ModelMove::Refuse(text) => Reply::refusal(text),
        ModelMove::SayNothing => Reply::nothing(),
        ModelMove::BreakOff(text) => Reply::text(text).cut_after(2),
        ModelMove::HangAfter(text) => Reply::text(text).hang_after(2),
        ModelMove::Fail(status) => Reply::openai_error(status, "no", None, None),
    }
}

#[tokio::test]
async fn the_backend_conforms() {
    let report = conformance::run(&OpenAi).await;
    report.assert();
    assert_snapshot!(report);
}
