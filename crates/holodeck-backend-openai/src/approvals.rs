//! Decides about the tool calls of one model message before any of them runs.

use std::collections::HashMap;

use async_stream::try_stream;
use futures::{Stream, StreamExt as _, stream::FuturesUnordered};
use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, ToolCall, TurnRequest,
};
use tokio_util::sync::CancellationToken;

use crate::{core::Core, message::unless_cancelled};

/// The decisions about the calls of one message, by call id. A call without an entry needed no decision.
#[derive(Debug, Default)]
pub(crate) struct Decisions(HashMap<String, ApprovalDecision>);

impl Decisions {
    /// Adds the decision about a call; returns whether it ends the turn.
    fn add(&mut self, ask: &ApprovalAsk, decision: ApprovalDecision) -> bool {
        let terminates = matches!(decision, ApprovalDecision::Terminate { .. });
        self.0.insert(ask.call_id.clone(), decision);
        terminates
    }

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

/// Decides about the calls of one message. People are asked about all that the rules leave open at the same time, and may
/// answer in any order. A decision to end the turn leaves the other calls undecided.
pub(crate) fn decide<'a>(
    core: &'a Core,
    calls: &'a [ToolCall],
    request: &'a TurnRequest,
    decisions: &'a mut Decisions,
) -> impl Stream<Item = Result<BackendEvent, BackendError>> + Send + 'a {
    try_stream! {
        let Some(approver) = request.approver.as_ref().or(core.approver.as_ref()) else { return };
        let mut questions = Vec::new();
        for call in calls {
            // A call that cannot run needs no decision.
            if core.refusal(call).is_some() {
                continue;
            }
            let ask = ApprovalAsk::about(call);
            let Some(ruling) = approver.decide(&ask) else {
                questions.push(ask);
                continue;
            };
            yield BackendEvent::ApprovalDecided(Approval::ruled(&ask, &ruling));
            if decisions.add(&ask, ruling.decision) {
                return;
            }
        }
        if questions.is_empty() {
            return;
        }
        yield BackendEvent::Paused;
        let last = questions.len() - 1;
        let mut asked = FuturesUnordered::new();
        for (index, mut ask) in questions.into_iter().enumerate() {
            ask.is_followed = index < last;
            yield BackendEvent::ApprovalAsked(Box::new(ask.clone()));
            asked.push(answer_of(&**approver, ask, &request.cancel));
        }
        while let Some((ask, decision)) = unless_cancelled(&request.cancel, asked.next()).await? {
            yield BackendEvent::ApprovalAnswered {
                call_id: ask.call_id.clone(),
                decision: decision.clone(),
            };
            if decisions.add(&ask, decision) {
                break;
            }
        }
        yield BackendEvent::Resumed;
    }
}

/// The answer of a person to a question.
async fn answer_of(
    approver: &dyn Approver,
    mut ask: ApprovalAsk,
    cancel: &CancellationToken,
) -> (ApprovalAsk, ApprovalDecision) {
    let mut decision = approver.ask(&ask, cancel).await;
    if let ApprovalDecision::Approve {
        arguments: Some(changed),
    } = &decision
    {
        // What the person made of the call must obey the rules too.
        ask.arguments.clone_from(changed);
        let ruling = approver.decide(&ask);
        if let Some(refused) = ruling.filter(|ruling| !ruling.decision.is_approved()) {
            decision = refused.decision;
        }
    }
    (ask, decision)
}
