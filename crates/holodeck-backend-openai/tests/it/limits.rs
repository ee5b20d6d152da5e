//! Limits on the tool calls of one answer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use holodeck_backend_api::{SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::setup::{agent_of, ask, equipped};

/// A tool whose calls end only when the expected number runs at the same time.
struct ConcurrencyTool {
    specs: Vec<ToolSpec>,
    expected: usize,
    running: AtomicUsize,
    most: AtomicUsize,
    called: AtomicUsize,
    release: Semaphore,
}

impl ConcurrencyTool {
    fn new(expected: usize) -> Arc<Self> {
        Arc::new(Self {
            specs: vec![ToolSpec {
                name: "work".to_owned(),
                description: String::new(),
                parameters: json!({"type": "object", "properties": {}}),
                side_effects: SideEffects::None,
            }],
            expected,
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            release: Semaphore::new(0),
        })
    }
}

#[async_trait]
impl ToolHost for ConcurrencyTool {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, _: ToolCx) -> Result<ToolOutput, ToolError> {
        self.called.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        if running == self.expected {
            self.release.add_permits(1_000);
        }
        // With fewer calls at a time than expected, this waits forever.
        let _released = self.release.acquire().await;
        tokio::task::yield_now().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(ToolOutput::ok(call.arguments["n"].to_string()))
    }
}

fn calls(count: usize) -> Reply {
    (0..count).fold(Reply::nothing(), |reply, n| {
        reply.and_tool_call(&format!("c{n}"), "work", &json!({"n": n}).to_string())
    })
}

#[tokio::test]
async fn as_many_calls_run_at_once_as_the_yaml_says_and_the_model_gets_results_in_order() {
    for (yaml, limit) in [("", 8), ("execution: {parallel_tool_calls: 3}\n", 3)] {
        let server = ModelServer::replies([calls(20), Reply::text("done")]);
        let tools = ConcurrencyTool::new(limit);
        let backend = equipped(&agent_of(&server, yaml), Arc::clone(&tools) as _);
        let result = ask(&backend, "go").await.unwrap();
        assert_eq!(tools.most.load(Ordering::SeqCst), limit);
        assert_eq!(result.tool_results.len(), 20);
        let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(server.finish()[1].texts("tool"), expected);
    }
}

#[tokio::test]
async fn more_than_128_calls_in_one_answer_end_the_turn_and_none_is_run() {
    let server = ModelServer::replies([calls(129)]);
    let tools = ConcurrencyTool::new(1);
    let backend = equipped(&agent_of(&server, ""), Arc::clone(&tools) as _);
    let result = ask(&backend, "go").await.unwrap();
    assert_eq!(
        result.error_reason().unwrap(),
        "more than 128 tool calls in one answer"
    );
    assert!(result.outcome.is_agent_failure());
    assert_eq!(tools.called.load(Ordering::SeqCst), 0);
    server.finish();

    let server = ModelServer::replies([calls(128), Reply::text("done")]);
    let tools = ConcurrencyTool::new(8);
    let backend = equipped(&agent_of(&server, ""), Arc::clone(&tools) as _);
    assert_eq!(ask(&backend, "go").await.unwrap().response, "done");
    assert_eq!(tools.called.load(Ordering::SeqCst), 128);
    server.finish();
}

#[tokio::test]
async fn half_a_character_is_replaced_wherever_it_is() {
    // As text of the answer, in one piece and in a stream, and inside the arguments of a call.
    let chunk = r#"{"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half \ud83d!"},"finish_reason":"stop"}]}"#;
    let whole = r#"{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"half \ud83d!"},"finish_reason":"stop"}]}"#;
    for reply in [
        Reply::events([chunk, "[DONE]"]),
        Reply::raw(200, "application/json", whole),
    ] {
        let server = ModelServer::replies([reply]);
        let result = ask(&equipped(&agent_of(&server, ""), ConcurrencyTool::new(1)), "go")
            .await
            .unwrap();
        assert_eq!(result.response, "half \u{fffd}!");
        server.finish();
    }
    let call = Reply::nothing().and_tool_call("c1", "work", r#"{"n": "\udc00"}"#);
    let server = ModelServer::replies([call, Reply::text("done")]);
    let result = ask(&equipped(&agent_of(&server, ""), ConcurrencyTool::new(1)), "go")
        .await
        .unwrap();
    assert_eq!(result.tool_calls[0].arguments, json!({"n": "\u{fffd}"}));
    server.finish();
}
