//! Steps of a turn that are not part of its result: decisions, calls of nested agents, notices and ignored events.

use holodeck_backend_api::{Approval, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Ignored;

/// The steps of a turn besides its result, in order: decisions about tool calls, the calls of nested agents, notices,
/// and events that broke the contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<StoredStep>")]
pub struct Trajectory(Vec<TrajectoryStep>);

/// A step of a trajectory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryStep {
    /// The call that started the agent it concerns; absent for the turn's own agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call_id: Option<String>,
    /// Its content.
    #[serde(flatten)]
    pub event: TrajectoryEvent,
}

/// The content of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrajectoryEvent {
    /// It was decided whether a call may run.
    Approval(Approval),
    /// A nested agent called a tool. The calls of the turn's own agent are in its result.
    ToolCall(ToolCall),
    /// The result of such a call.
    ToolResult(ToolResult),
    /// The backend emitted a notice.
    Notice {
        /// Its text.
        message: String,
    },
    /// An event of the backend was not recorded.
    Ignored(Ignored),
}

/// A step as it is read: earlier versions stored approvals only, without a name for their kind.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredStep {
    Step(TrajectoryStep),
    Approval(Approval),
}

impl From<Vec<StoredStep>> for Trajectory {
    fn from(stored: Vec<StoredStep>) -> Self {
        let step = |step| match step {
            StoredStep::Step(step) => step,
            StoredStep::Approval(approval) => TrajectoryStep {
                parent_call_id: None,
                event: TrajectoryEvent::Approval(approval),
            },
        };
        Self(stored.into_iter().map(step).collect())
    }
}

impl Trajectory {
    /// Adds a step of the agent that the call `parent` started, or of the turn's own agent.
    pub(crate) fn push(&mut self, parent: Option<&str>, event: TrajectoryEvent) {
        self.0.push(TrajectoryStep {
            parent_call_id: parent.map(ToOwned::to_owned),
            event,
        });
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[TrajectoryStep] {
        &self.0
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The decisions about tool calls, nested agents included.
    pub fn approvals(&self) -> impl Iterator<Item = &Approval> {
        self.0.iter().filter_map(|step| match &step.event {
            TrajectoryEvent::Approval(approval) => Some(approval),
            _ => None,
        })
    }

    /// The tool calls of nested agents, each with its result if there is one.
    pub fn nested_calls(&self) -> impl Iterator<Item = (&ToolCall, Option<&ToolResult>)> {
        self.0.iter().filter_map(|step| match &step.event {
            TrajectoryEvent::ToolCall(call) => Some((call, self.nested_result(&call.call_id))),
            _ => None,
        })
    }

    fn nested_result(&self, call_id: &str) -> Option<&ToolResult> {
        self.0.iter().find_map(|step| match &step.event {
            TrajectoryEvent::ToolResult(result) if result.call_id == call_id => Some(result),
            _ => None,
        })
    }

    /// The notices about the turn's own agent.
    pub fn notices(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match &step.event {
            TrajectoryEvent::Notice { message } if step.parent_call_id.is_none() => Some(message.as_str()),
            _ => None,
        })
    }

    /// The events of the backend that were not recorded.
    pub fn ignored(&self) -> impl Iterator<Item = &Ignored> {
        self.0.iter().filter_map(|step| match &step.event {
            TrajectoryEvent::Ignored(ignored) => Some(ignored),
            _ => None,
        })
    }

    /// Passes each text to `text` and each JSON value to `value`, to mask what they hold. Ids of calls are not among them.
    pub fn edit(&mut self, mut text: impl FnMut(&mut String), mut value: impl FnMut(&mut Value)) {
        for TrajectoryStep {
            event,
            parent_call_id: _,
        } in &mut self.0
        {
            match event {
                TrajectoryEvent::Approval(approval) => {
                    let (arguments, reason) = approval.decision.parts_mut();
                    arguments.map(&mut value);
                    reason.map(&mut text);
                    if let Some(basis) = &mut approval.basis {
                        text(&mut basis.rule);
                        basis.paths.iter_mut().for_each(&mut text);
                    }
                }
                TrajectoryEvent::ToolCall(call) => call.edit(&mut text, &mut value),
                TrajectoryEvent::ToolResult(result) => result.edit(&mut text),
                TrajectoryEvent::Notice { message } => text(message),
                TrajectoryEvent::Ignored(_) => {}
            }
        }
    }

    /// Passes each id of a call to `id`.
    pub fn edit_ids(&mut self, mut id: impl FnMut(&mut String)) {
        for TrajectoryStep {
            parent_call_id,
            event,
        } in &mut self.0
        {
            parent_call_id.as_mut().map(&mut id);
            match event {
                TrajectoryEvent::Approval(approval) => id(&mut approval.call_id),
                TrajectoryEvent::ToolCall(call) => id(&mut call.call_id),
                TrajectoryEvent::ToolResult(result) => id(&mut result.call_id),
                TrajectoryEvent::Ignored(ignored) => {
                    ignored.id_mut().map(&mut id);
                }
                TrajectoryEvent::Notice { .. } => {}
            }
        }
    }
}
