//! Runs the tool calls of one message, in parallel up to the agent's limit, after approval.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream::FuturesUnordered};
use holodeck_backend_api::{
    ApprovalDecision, BackendError, CallDetails, CallRefusal, Image, ToolCall, ToolCx, ToolError, ToolOutput,
    ToolResult,
};
use tokio::{sync::Semaphore, time::Instant};
use tracing::Instrument as _;

use crate::{approvals::Decisions, core::Core, questions::Asker};

/// The outcome of a tool call.
pub(crate) enum CallOutcome {
    /// A result for the model, success or error, with its images.
    Answered(ToolResult, Vec<Image>),
    /// The call could not run; with the reason.
    Unavailable(ToolResult, String),
}

/// Runs the calls of one message, limited by the agent's `parallel_tool_calls`, and returns their results as they arrive,
/// each with the place of its call. Dropping the stream stops the calls that are still running.
pub(crate) fn run<'a>(
    core: &'a Core,
    calls: &'a [ToolCall],
    decisions: &'a Decisions,
    cx: &ToolCx,
    asker: Option<&Asker>,
) -> impl Stream<Item = (usize, Result<CallOutcome, BackendError>)> + Send + use<'a> {
    let stop = cx.cancel.child_token();
    let cx = ToolCx {
        cancel: stop.clone(),
        ..cx.clone()
    };
    let permits = Arc::new(Semaphore::new(core.parallel_tool_calls));
    let running: FuturesUnordered<_> = calls
        .iter()
        .enumerate()
        .map(|(place, call)| {
            let cx = ToolCx {
                elicitation: asker.map(|asker| asker.of(call)),
                ..cx.clone()
            };
            let outcome = run_call(core, call, decisions.of(call), cx, Arc::clone(&permits));
            async move { (place, outcome.await) }
        })
        .collect();
    let guard = stop.drop_guard();
    running.map(move |outcome| {
        // Moves the guard into the stream.
        let _guard = &guard;
        outcome
    })
}

async fn run_call(
    core: &Core,
    call: &ToolCall,
    decision: Option<&ApprovalDecision>,
    cx: ToolCx,
    permits: Arc<Semaphore>,
) -> Result<CallOutcome, BackendError> {
    // The semaphore is never closed, and grants permits in the order of the calls.
    let _permit = permits.acquire().await;
    let (started, stop) = (Instant::now(), cx.cancel.clone());
    let span = tracing::debug_span!("execute_tool", gen_ai.tool.name = call.name);
    let output = call_tool(core, call, decision, cx).instrument(span).await;
    let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = |output: ToolOutput| ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        is_error: output.is_error,
        details: CallDetails {
            namesakes: core.namesakes(&call.name),
            ..output.details.clone()
        },
        result: output.into_record(),
        duration_ms: Some(duration),
    };
    match output {
        Ok(output) => {
            let images = output.images.clone();
            Ok(CallOutcome::Answered(result(output), images))
        }
        Err(ToolError::Cancelled) if stop.is_cancelled() => Err(BackendError::Cancelled),
        // The model can react to a tool that was too slow.
        Err(error @ ToolError::TimedOut { .. }) => {
            let result = result(ToolOutput::error(error.to_string()));
            Ok(CallOutcome::Answered(result, Vec::new()))
        }
        Err(error) => Ok(CallOutcome::Unavailable(
            result(ToolOutput::error(error.to_string())),
            error.reason(),
        )),
    }
}

async fn call_tool(
    core: &Core,
    call: &ToolCall,
    decision: Option<&ApprovalDecision>,
    cx: ToolCx,
) -> Result<ToolOutput, ToolError> {
    if let Some(refusal) = core.refusal(call) {
        return Ok(refusal);
    }
    match decision {
        None | Some(ApprovalDecision::Approve { arguments: None }) => core.tools.call(call, cx).await,
        Some(ApprovalDecision::Approve {
            arguments: Some(arguments),
        }) => {
            let call = ToolCall {
                arguments: arguments.clone(),
                ..call.clone()
            };
            core.tools.call(&call, cx).await
        }
        Some(ApprovalDecision::Reject { reason } | ApprovalDecision::Terminate { reason }) => {
            Ok(ToolOutput::refused(CallRefusal::Rejected, reason.clone()))
        }
        Some(ApprovalDecision::Withdrawn) => {
            let text = "the approval was withdrawn";
            Ok(ToolOutput::refused(CallRefusal::Rejected, text))
        }
    }
}
