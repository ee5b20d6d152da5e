//! Decides about the tool calls of one model message before any of them runs.

use std::collections::HashMap;

use async_stream::try_stream;
use futures::Stream;
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, BackendError, BackendEvent, ToolCall, TurnRequest,
};

use crate::{core::Core, message::unless_cancelled};

/// The decisions about the calls of one message, by call id. A call without an entry needed no decision.
#[derive(Debug, Default)]
pub(crate) struct Decisions(HashMap<String, ApprovalDecision>);

impl Decisions {
    /// The decision about a call.
    pub(crate) fn of(&self, call: &ToolCall) -> Option<&ApprovalDecision> {
        self.0.get(&call.call_id)
    }

    /// The reason given by the approver that ended the turn.
    pub(crate) fn termination_reason(&self) -> Option<&str> {
        self.0.values().find_map(|decision| match decision {
            ApprovalDecision::Terminate { reason } => Some(reason.as_str()),
            _ => None,
        })
    }
}

/// Decides about the calls in their order, one question at a time. A decision to end the turn leaves the other calls
/// undecided.
pub(crate) fn decide<'a>(
    core: &'a Core,
    calls: &'a [ToolCall],
    request: &'a TurnRequest,
    decisions: &'a mut Decisions,
) -> impl Stream<Item = Result<BackendEvent, BackendError>> + Send + 'a {
    try_stream! {
        let Some(approver) = request.approver.as_ref().or(core.approver.as_ref()) else { return };
        let mut paused = false;
        for call in calls {
            // A call that cannot run needs no decision.
            if core.refusal(call).is_some() {
                continue;
            }
            let mut ask = ApprovalAsk::about(call);
            let decision = if let Some(ruling) = approver.decide(&ask) {
                yield BackendEvent::ApprovalDecided(Approval::ruled(&ask, &ruling));
                ruling.decision
            } else {
                if !paused {
                    paused = true;
                    yield BackendEvent::Paused;
                }
                yield BackendEvent::ApprovalAsked(Box::new(ask.clone()));
                let answer = approver.ask(&ask, &request.cancel);
                let mut decision = unless_cancelled(&request.cancel, answer).await?;
                if let ApprovalDecision::Approve { arguments: Some(changed) } = &decision {
                    // What the person made of the call must obey the rules too.
                    ask.arguments.clone_from(changed);
                    if let Some(refused) = approver.decide(&ask).filter(|ruling| !ruling.decision.is_approved()) {
                        decision = refused.decision;
                    }
                }
                yield BackendEvent::ApprovalAnswered {
                    call_id: call.call_id.clone(),
                    decision: decision.clone(),
                };
                decision
            };
            let terminates = matches!(decision, ApprovalDecision::Terminate { .. });
            decisions.0.insert(call.call_id.clone(), decision);
            if terminates {
                break;
            }
        }
        if paused {
            yield BackendEvent::Resumed;
        }
    }
}
