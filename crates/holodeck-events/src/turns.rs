//! Reads the turns of a conversation back from its recorded events, also those that failed or are not over.

use holodeck_backend_api::{Approval, BackendEvent, DecidedBy, ExecutionResult};
use holodeck_model::events::{AgentEvent, ApprovalRequested, ApprovalResolved, EventBody, UserMessage};
use jiff::Timestamp;

use crate::{
    Trajectory, TrajectoryEvent, approval_decision,
    fold::{backend_event, result_so_far},
};

/// A message of the person, and what was recorded of the run that answers it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedTurn {
    /// The run.
    pub run_id: String,
    /// The message.
    pub message: UserMessage,
    /// When it was recorded.
    pub at: Timestamp,
    /// The result; while the run is not over, what has arrived.
    pub result: ExecutionResult,
    /// Whether the run is over.
    pub is_over: bool,
    /// How long the run took.
    pub duration_ms: Option<u64>,
    /// The decisions of people, the calls of nested agents, and notices.
    pub trajectory: Trajectory,
    /// The questions about calls that have no answer yet.
    pub unanswered: Vec<ApprovalRequested>,
}

/// The turns of a conversation, in order. Events before the first message belong to none.
pub fn recorded_turns<'a>(events: impl IntoIterator<Item = &'a AgentEvent>) -> Vec<RecordedTurn> {
    let mut turns = Vec::new();
    let mut run: Vec<&AgentEvent> = Vec::new();
    for event in events {
        if matches!(event.body, EventBody::UserMessageConfirmed(_)) {
            turns.extend(turn_of(&run));
            run.clear();
        }
        run.push(event);
    }
    turns.extend(turn_of(&run));
    turns
}

fn turn_of(run: &[&AgentEvent]) -> Option<RecordedTurn> {
    let first = run.first()?;
    let EventBody::UserMessageConfirmed(message) = &first.body else {
        return None;
    };
    let (result, is_over) = result_so_far(run.iter().copied());
    let totals = run.iter().find_map(|event| match &event.body {
        EventBody::Complete(end) => Some(&end.totals),
        EventBody::Error(end) => Some(&end.totals),
        _ => None,
    });
    let mut steps = Steps::default();
    for event in run {
        steps.observe(event);
    }
    Some(RecordedTurn {
        run_id: first.meta.run_id.clone().unwrap_or_default(),
        message: message.clone(),
        at: first.meta.timestamp,
        result,
        is_over,
        duration_ms: totals.and_then(|totals| totals.duration_ms),
        trajectory: steps.trajectory,
        unanswered: if is_over { Vec::new() } else { steps.asked },
    })
}

/// The steps of a run that are not part of its result.
#[derive(Default)]
struct Steps {
    trajectory: Trajectory,
    /// The questions without an answer so far.
    asked: Vec<ApprovalRequested>,
}

impl Steps {
    fn observe(&mut self, event: &AgentEvent) {
        let agent = event.meta.parent_tool_use_id.as_deref();
        match &event.body {
            EventBody::ApprovalRequested(asked) => self.asked.push(asked.clone()),
            EventBody::ApprovalResolved(resolved) => self.decide(agent, resolved),
            EventBody::Complete(end) => {
                for message in &end.warnings {
                    let message = message.clone();
                    self.trajectory.push(None, TrajectoryEvent::Notice { message });
                }
            }
            body if agent.is_some() => match backend_event(body) {
                Some(BackendEvent::ToolCall(call)) => {
                    self.trajectory.push(agent, TrajectoryEvent::ToolCall(call));
                }
                Some(BackendEvent::ToolResult(result)) => {
                    self.trajectory.push(agent, TrajectoryEvent::ToolResult(result));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn decide(&mut self, agent: Option<&str>, resolved: &ApprovalResolved) {
        let place = self
            .asked
            .iter()
            .position(|asked| asked.approval_id == resolved.approval_id);
        let asked = place.map(|place| self.asked.remove(place));
        let approval = Approval {
            call_id: asked.and_then(|asked| asked.tool_use_id).unwrap_or_default(),
            decision: approval_decision(resolved),
            // A store keeps the questions to people, and no others.
            by: DecidedBy::Person,
            basis: None,
        };
        self.trajectory.push(agent, TrajectoryEvent::Approval(approval));
    }
}
