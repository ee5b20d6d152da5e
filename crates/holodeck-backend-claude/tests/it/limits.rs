//! How much a model can ask for in one answer.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use holodeck_backend_api::{AgentBackend as _, ExecutionResult, ToolOutput, TurnRequest, collect};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, Limits, Tools};
use holodeck_testkit::{ClaudeFault, FakeClaude};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::Semaphore;

#[derive(Default)]
struct Seen {
    running: AtomicUsize,
    most: AtomicUsize,
    called: AtomicUsize,
}

/// A turn with this many calls of a tool whose calls end only when `limit` of them run.
async fn turn(calls: usize, limit: usize) -> (ExecutionResult, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let release = Arc::new(Semaphore::new(0));
    let counted = Arc::clone(&seen);
    let tools = Tools::new().with("work", "Works.", json!({"type": "object"}), move |_, _| {
        let (seen, release) = (Arc::clone(&counted), Arc::clone(&release));
        async move {
            seen.called.fetch_add(1, Ordering::SeqCst);
            let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most.fetch_max(running, Ordering::SeqCst);
            if running == limit {
                release.add_permits(1_000);
            }
            let _released = release.acquire().await;
            tokio::task::yield_now().await;
            seen.running.fetch_sub(1, Ordering::SeqCst);
            ToolOutput::ok("done")
        }
    });
    let fake = FakeClaude::new(&ClaudeFault::ToolCalls(calls));
    let options = ClaudeOptions::new(fake.path()).tools(tools).limits(Limits {
        tool_calls: NonZeroUsize::new(limit).unwrap(),
        ..Limits::default()
    });
    let backend = ClaudeBackend::new(options).unwrap();
    let result = collect(backend.start(TurnRequest::new("go"))).await.unwrap();
    backend.teardown().await.unwrap();
    fake.gone().await;
    (result, seen)
}

#[tokio::test]
async fn c13_no_more_own_tools_run_at_once_than_the_yaml_says() {
    let (result, seen) = turn(20, 3).await;
    assert_eq!(result.error_reason(), None);
    assert_eq!(seen.called.load(Ordering::SeqCst), 20);
    assert_eq!(seen.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn c13_more_than_128_calls_in_one_answer_end_the_turn() {
    let (result, _) = turn(128, 8).await;
    assert_eq!(result.error_reason(), None);
    let (result, _) = turn(129, 8).await;
    assert_eq!(
        result.error_reason().unwrap(),
        "more than 128 tool calls in one answer"
    );
    assert!(result.outcome.is_agent_failure());
}
