use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream::FuturesOrdered};
use holodeck_backend_api::{
    ApprovalDecision, BackendError, Image, ToolCall, ToolCx, ToolError, ToolOutput, ToolResult,
};
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};
use tracing::Instrument as _;

use crate::{approvals::Decisions, core::Core};

/// A call that was run.
pub(crate) enum Ran {
    /// It has an answer for the model, good or bad, and pictures that go with it.
    Answered(ToolResult, Vec<Image>),
    /// It could not be run at all; the result says why.
    Unavailable(ToolResult),
}

/// Runs the calls of one message, as many at the same time as the agent allows, and returns their results in the order
/// of the calls. Dropping the stream stops those that still run.
pub(crate) fn run<'a>(
    core: &'a Core,
    calls: &'a [ToolCall],
    decisions: &'a Decisions,
    cx: &ToolCx,
) -> impl Stream<Item = Result<Ran, BackendError>> + Send + use<'a> {
    let stop = cx.cancel.child_token();
    let cx = ToolCx {
        cancel: stop.clone(),
        ..cx.clone()
    };
    let places = Arc::new(Semaphore::new(core.parallel_tool_calls));
    let running: FuturesOrdered<_> = calls
        .iter()
        .map(|call| one(core, call, decisions.of(call), cx.clone(), Arc::clone(&places)))
        .collect();
    let guard = stop.drop_guard();
    running.map(move |ran| {
        let _held = &guard;
        ran
    })
}

async fn one(
    core: &Core,
    call: &ToolCall,
    decision: Option<&ApprovalDecision>,
    cx: ToolCx,
    places: Arc<Semaphore>,
) -> Result<Ran, BackendError> {
    // It is never closed. Places are given in the order of the calls.
    let _place = places.acquire().await;
    let (started, stop) = (Instant::now(), cx.cancel.clone());
    let span = tracing::debug_span!("execute_tool", gen_ai.tool.name = call.name);
    let output = output(core, call, decision, cx).instrument(span).await;
    let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = |output: ToolOutput| ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        is_error: output.is_error,
        result: output.into_record(),
        duration_ms: Some(duration),
    };
    match output {
        Ok(output) => {
            let images = output.images.clone();
            Ok(Ran::Answered(result(output), images))
        }
        Err(ToolError::Cancelled) if stop.is_cancelled() => Err(BackendError::Cancelled),
        // The tool ran; that it was too slow is something the model can act on.
        Err(error @ ToolError::TimedOut { .. }) => {
            let result = result(ToolOutput::error(error.to_string()));
            Ok(Ran::Answered(result, Vec::new()))
        }
        Err(error) => Ok(Ran::Unavailable(result(ToolOutput::error(error.to_string())))),
    }
}

async fn output(
    core: &Core,
    call: &ToolCall,
    decision: Option<&ApprovalDecision>,
    cx: ToolCx,
) -> Result<ToolOutput, ToolError> {
    if let Some(refusal) = refusal(core, call) {
        return Ok(ToolOutput::error(refusal));
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
            Ok(ToolOutput::error(reason.clone()))
        }
        Some(ApprovalDecision::Withdrawn) => Ok(ToolOutput::error("the approval was withdrawn")),
    }
}

/// Why a call cannot run, whatever an approver decides.
pub(crate) fn refusal(core: &Core, call: &ToolCall) -> Option<String> {
    if !core.allows(&call.name) {
        return Some(format!("tool `{}` is not allowed", call.name));
    }
    let problem = not_an_object(&call.arguments)?;
    Some(format!(
        "the arguments for `{}` are not a JSON object ({problem}); call it again with one",
        call.name
    ))
}

/// What is wrong with arguments that are no object.
fn not_an_object(arguments: &Value) -> Option<String> {
    match arguments {
        Value::Object(_) => None,
        Value::String(text) => Some(match serde_json::from_str::<Value>(text) {
            Ok(_) => "they are a text".to_owned(),
            Err(error) => error.to_string(),
        }),
        Value::Array(_) => Some("they are a list".to_owned()),
        _ => Some("they are a single value".to_owned()),
    }
}
