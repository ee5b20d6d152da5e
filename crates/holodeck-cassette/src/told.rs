//! What a turn tells, in a form that can be written down.

use holodeck_backend_api::{
    ApprovalAsk, ApprovalDecision, BackendEvent, ExecutionResult, Outcome, ResultFold, TokenUsage, ToolCall,
    ToolResult,
};
use holodeck_model::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{stop_reason, stop_reason_text};

/// How a turn ended that the agent answered.
const COMPLETED: &str = "completed";

/// One event of a turn. Pieces of text that follow each other are one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Thinking(String),
    ThinkingEnd,
    Text(String),
    ToolCall(ToolCall),
    ApprovalAsked {
        tool_name: String,
        arguments: Value,
        call_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_id: Option<String>,
    },
    ApprovalAnswered {
        call_id: String,
        decision: Decision,
    },
    ToolResult(ToolResult),
    Usage(TokenUsage),
    TurnEnd {
        stop_reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    Nested {
        parent_call_id: String,
        event: Box<Told>,
    },
    StructuredOutput(Value),
}

/// An [`ApprovalDecision`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Approve {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    Reject {
        reason: String,
    },
    Terminate {
        reason: String,
    },
    Withdrawn,
}

impl Told {
    /// `event` as it is written down; nothing of waits, notices, the end, and what names a conversation that a replay
    /// does not have.
    pub(crate) fn of(event: &BackendEvent) -> Option<Self> {
        Some(match event {
            BackendEvent::Thinking { text } => Self::Thinking(text.clone()),
            // A signature means something only to the endpoint.
            BackendEvent::ThinkingEnd { .. } => Self::ThinkingEnd,
            BackendEvent::Text { text } => Self::Text(text.clone()),
            BackendEvent::ToolCall(call) => Self::ToolCall(call.clone()),
            BackendEvent::ApprovalAsked(ask) => Self::ApprovalAsked {
                tool_name: ask.tool_name.clone(),
                arguments: ask.arguments.clone(),
                call_id: ask.call_id.clone(),
                description: ask.description.clone(),
                agent_id: ask.agent_id.clone(),
            },
            BackendEvent::ApprovalAnswered { call_id, decision } => Self::ApprovalAnswered {
                call_id: call_id.clone(),
                decision: Decision::of(decision),
            },
            BackendEvent::ToolResult(result) => Self::ToolResult(result.clone()),
            BackendEvent::Usage(usage) => Self::Usage(*usage),
            BackendEvent::TurnEnd {
                stop_reason,
                message_id,
                model,
            } => Self::TurnEnd {
                stop_reason: stop_reason_text(stop_reason),
                message_id: message_id.clone(),
                model: model.clone(),
            },
            BackendEvent::Nested {
                parent_call_id,
                event,
            } => Self::Nested {
                parent_call_id: parent_call_id.clone(),
                event: Box::new(Self::of(event)?),
            },
            BackendEvent::StructuredOutput(value) => Self::StructuredOutput(value.clone()),
            _ => return None,
        })
    }

    pub(crate) fn event(self) -> BackendEvent {
        match self {
            Self::Thinking(text) => BackendEvent::Thinking { text },
            Self::ThinkingEnd => BackendEvent::ThinkingEnd { signature: None },
            Self::Text(text) => BackendEvent::Text { text },
            Self::ToolCall(call) => BackendEvent::ToolCall(call),
            Self::ApprovalAsked {
                tool_name,
                arguments,
                call_id,
                description,
                agent_id,
            } => BackendEvent::ApprovalAsked(ApprovalAsk {
                tool_name,
                arguments,
                call_id,
                description,
                agent_id,
            }),
            Self::ApprovalAnswered { call_id, decision } => BackendEvent::ApprovalAnswered {
                call_id,
                decision: decision.decision(),
            },
            Self::ToolResult(result) => BackendEvent::ToolResult(result),
            Self::Usage(usage) => BackendEvent::Usage(usage),
            Self::TurnEnd {
                stop_reason: word,
                message_id,
                model,
            } => BackendEvent::TurnEnd {
                stop_reason: stop_reason(&word),
                message_id,
                model,
            },
            Self::Nested {
                parent_call_id,
                event,
            } => BackendEvent::Nested {
                parent_call_id,
                event: Box::new(event.event()),
            },
            Self::StructuredOutput(value) => BackendEvent::StructuredOutput(value),
        }
    }

    /// Takes secrets out.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        let clean = |text: &mut String| *text = redactor.text(text).into_owned();
        match self {
            Self::Thinking(text) | Self::Text(text) => clean(text),
            Self::ToolCall(call) => redactor.value(&mut call.arguments),
            Self::ApprovalAsked {
                arguments,
                description,
                ..
            } => {
                redactor.value(arguments);
                description.iter_mut().for_each(clean);
            }
            Self::ApprovalAnswered { decision, .. } => match decision {
                Decision::Approve { arguments } => {
                    if let Some(arguments) = arguments {
                        redactor.value(arguments);
                    }
                }
                Decision::Reject { reason } | Decision::Terminate { reason } => clean(reason),
                Decision::Withdrawn => {}
            },
            Self::ToolResult(result) => {
                clean(&mut result.result);
                result.details.redact(redactor);
            }
            Self::Nested { event, .. } => event.redact(redactor),
            Self::StructuredOutput(value) => redactor.value(value),
            Self::ThinkingEnd | Self::Usage(_) | Self::TurnEnd { .. } => {}
        }
    }

    /// Takes in what follows, if it only goes on with this.
    fn goes_on(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Text(text), Self::Text(more)) | (Self::Thinking(text), Self::Thinking(more)) => {
                text.push_str(more);
                true
            }
            (
                Self::Nested {
                    parent_call_id: parent,
                    event,
                },
                Self::Nested {
                    parent_call_id: other,
                    event: more,
                },
            ) if parent == other => event.goes_on(more),
            _ => false,
        }
    }
}

impl Decision {
    fn of(decision: &ApprovalDecision) -> Self {
        match decision.clone() {
            ApprovalDecision::Approve { arguments } => Self::Approve { arguments },
            ApprovalDecision::Reject { reason } => Self::Reject { reason },
            ApprovalDecision::Terminate { reason } => Self::Terminate { reason },
            ApprovalDecision::Withdrawn => Self::Withdrawn,
        }
    }

    fn decision(self) -> ApprovalDecision {
        match self {
            Self::Approve { arguments } => ApprovalDecision::Approve { arguments },
            Self::Reject { reason } => ApprovalDecision::Reject { reason },
            Self::Terminate { reason } => ApprovalDecision::Terminate { reason },
            Self::Withdrawn => ApprovalDecision::Withdrawn,
        }
    }
}

/// Adds an event to what a turn told.
pub(crate) fn note(told: &mut Vec<Told>, event: &BackendEvent) {
    if let Some(next) = Told::of(event)
        && !told.last_mut().is_some_and(|last| last.goes_on(&next))
    {
        told.push(next);
    }
}

/// What a turn came to that told this and ended so.
pub(crate) fn result(events: &[BackendEvent], outcome: Outcome) -> ExecutionResult {
    let mut fold = ResultFold::new();
    for event in events {
        fold.observe(event);
    }
    fold.finish(outcome)
}

/// How a turn ended, as a word.
pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    outcome
        .reason()
        .map_or_else(|| COMPLETED.to_owned(), std::borrow::Cow::into_owned)
}

/// The reverse of [`outcome_text`].
pub(crate) fn outcome(text: &str) -> Outcome {
    Outcome::from_reason(Some(text).filter(|text| *text != COMPLETED))
}
