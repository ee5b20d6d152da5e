//! Limits on tool calls in one answer of the model.

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
struct Counts {
    running: AtomicUsize,
    max: AtomicUsize,
    calls: AtomicUsize,
}

/// Runs a turn with `calls` calls of a tool that return only after `limit` of them run at the same time.
async fn turn(calls: usize, limit: usize) -> (ExecutionResult, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let release = Arc::new(Semaphore::new(0));
    let tool_counts = Arc::clone(&counts);
    let tools = Tools::new().with("work", "Works.", json!({"type": "object"}), move |_, _| {
        let (counts, release) = (Arc::clone(&tool_counts), Arc::clone(&release));
        async move {
            counts.calls.fetch_add(1, Ordering::SeqCst);
            let running = counts.running.fetch_add(1, Ordering::SeqCst) + 1;
            counts.max.fetch_max(running, Ordering::SeqCst);
            if running == limit {
                release.add_permits(1_000);
            }
            let _permit = release.acquire().await;
            tokio::task::yield_now().await;
            counts.running.fetch_sub(1, Ordering::SeqCst);
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
    (result, counts)
}

#[tokio::test]
async fn no_more_own_tools_run_at_once_than_configured() {
    let (result, counts) = turn(20, 3).await;
    assert_eq!(result.error_reason(), None);
    assert_eq!(counts.calls.load(Ordering::SeqCst), 20);
    assert_eq!(counts.max.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn more_than_128_calls_in_one_answer_end_the_turn() {
    let (result, _) = turn(128, 8).await;
    assert_eq!(result.error_reason(), None);
    let (result, _) = turn(129, 8).await;
    assert_eq!(
        result.error_reason().unwrap(),
        "more than 128 tool calls in one answer"
    );
    assert!(result.outcome.is_agent_failure());
}
