//! The events that every backend emits during a turn, in the order that consumers rely on.
//!
//! The serialized names are part of the format of recordings.

use holodeck_model::{Evidence, ExecutorRecord, events::StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Approval, ApprovalAsk, ApprovalDecision, DecidedBy, ExecutionResult, NumberOdds, Redactions, TokenUsage,
    ToolCall, ToolResult,
};

/// An event that a backend emits during a turn. The order within one model message is reasoning, text, tool calls,
/// usage, [`TurnEnd`](BackendEvent::TurnEnd); tool results follow; [`End`](BackendEvent::End) is last.
///
/// The serialised names are part of the format of recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BackendEvent {
    /// A piece of reasoning text.
    Thinking {
        /// The new text.
        text: String,
    },
    /// A block of reasoning is complete.
    ThinkingEnd {
        /// The provider's signature, which belongs to exactly this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A piece of answer text.
    Text {
        /// The new text.
        text: String,
    },
    /// The model called a tool.
    ToolCall(ToolCall),
    /// Whether a call may run, decided without asking a person.
    ApprovalDecided(Approval),
    /// A person is asked whether a call may run. [`Paused`](BackendEvent::Paused) is emitted before, and
    /// [`Resumed`](BackendEvent::Resumed) after every such question is answered.
    ApprovalAsked(Box<ApprovalAsk>),
    /// The question to a person about a call was answered or withdrawn.
    ApprovalAnswered {
        /// The call.
        call_id: String,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// A tool call has a result.
    ToolResult(ToolResult),
    /// Tokens of the model message that [`TurnEnd`](BackendEvent::TurnEnd) completes; consumers add them up.
    Usage(TokenUsage),
    /// Tokens that no message of this turn's agent reports: of sub-agents, and of calls that the service makes itself.
    /// They count in the turn; consumers add them up.
    OtherUsage {
        /// The model that used them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The tokens.
        usage: TokenUsage,
    },
    /// The cost of model calls in US dollars, as the backend's service reports it; consumers add it up.
    Cost {
        /// The cost since the last report.
        usd: f64,
    },
    /// One model message is complete.
    TurnEnd {
        /// Why the model stopped.
        stop_reason: StopReason,
        /// The provider's id of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The model that wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The backend's service names the conversation of this turn.
    SessionStarted {
        /// The service's id of the conversation.
        session_id: String,
        /// The model it will use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// An event of a nested agent. It is not part of the turn's own result.
    Nested {
        /// The call that started the nested agent.
        parent_call_id: String,
        /// The event.
        event: Box<BackendEvent>,
    },
    /// The answer as an object that satisfies the agent's `response_format`.
    StructuredOutput(Value),
    /// The odds of the numbers in the answer, if they were asked for.
    NumberOdds(Vec<NumberOdds>),
    /// A model call came from a recording.
    Replayed {
        /// How long the recorded call took.
        #[serde(rename = "latency_ms", with = "milliseconds")]
        latency: std::time::Duration,
        /// The parts that were masked in the recording.
        #[serde(default, skip_serializing_if = "Redactions::is_empty")]
        redacted: Redactions,
    },
    /// The turn waits for the rate limit `model.rpm`, for a process to start, or for a person. The time limit of the
    /// turn is suspended until [`Resumed`](BackendEvent::Resumed).
    Paused,
    /// The wait is over.
    Resumed,
    /// A request to the model failed and will be retried.
    Retrying {
        /// The error of the attempt.
        cause: String,
        /// The wait before the retry.
        #[serde(rename = "wait_ms", with = "milliseconds")]
        wait: std::time::Duration,
    },
    /// Information for the user that does not affect the verdict, emitted once per backend.
    Notice {
        /// The text, in lower case without a full stop.
        message: String,
    },
    /// The passages that the answer was made from, as an agent that is not ours reports them; an empty list says that there
    /// were none.
    Passages(Vec<String>),
    /// The parts of the answer that an agent which is not ours did not report.
    Unreported(Vec<Evidence>),
    /// Executors with time limits of their own answer the turn: its own limit ends.
    LimitLifted,
    /// Which executor of an agent with `routing:` answers the turn.
    Executed(Box<ExecutorRecord>),
    /// The turn is over; this is the last event.
    End(Box<ExecutionResult>),
}

impl BackendEvent {
    /// The decision about a call, if the event is one.
    pub fn approval(&self) -> Option<Approval> {
        match self {
            Self::ApprovalDecided(approval) => Some(approval.clone()),
            Self::ApprovalAnswered { call_id, decision } => Some(Approval {
                call_id: call_id.clone(),
                decision: decision.clone(),
                by: DecidedBy::Person,
                basis: None,
            }),
            _ => None,
        }
    }
}

/// A duration as a whole number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::Outcome;

    /// One event of each kind, with every field set.
    fn events() -> Vec<BackendEvent> {
        let call = ToolCall {
            name: "look_up".to_owned(),
            arguments: json!({"query": "x"}),
            call_id: "c1".to_owned(),
            provider_fields: None,
        };
        let answered = |decision| BackendEvent::ApprovalAnswered {
            call_id: "c1".to_owned(),
            decision,
        };
        vec![
            BackendEvent::Thinking {
                text: "hm".to_owned(),
            },
            BackendEvent::ThinkingEnd {
                signature: Some("s".to_owned()),
            },
            BackendEvent::Text {
                text: "hi".to_owned(),
            },
            BackendEvent::ToolCall(call.clone()),
            BackendEvent::ApprovalAsked(Box::new(ApprovalAsk {
                tool_name: call.name.clone(),
                arguments: call.arguments.clone(),
                call_id: call.call_id.clone(),
                description: Some("a search".to_owned()),
                agent_id: Some("a1".to_owned()),
                answer_schema: Some(Box::new(json!({"type": "object"}))),
                paths: Vec::new(),
                reason: None,
                zone: holodeck_model::Zone::Inside,
                tool_digest: None,
                scopes: None,
                is_followed: false,
            })),
            BackendEvent::ApprovalDecided(Approval {
                call_id: "c1".to_owned(),
                decision: ApprovalDecision::approve(),
                by: DecidedBy::Rule,
                basis: None,
            }),
            answered(ApprovalDecision::Approve {
                arguments: Some(json!({"query": "y"})),
            }),
            answered(ApprovalDecision::Reject {
                reason: "no".to_owned(),
            }),
            answered(ApprovalDecision::Terminate {
                reason: "stop".to_owned(),
            }),
            answered(ApprovalDecision::Withdrawn),
            BackendEvent::ToolResult(ToolResult {
                call_id: call.call_id,
                name: call.name,
                result: "found".to_owned(),
                is_error: false,
                duration_ms: Some(3),
                details: crate::CallDetails::default(),
            }),
            BackendEvent::Usage(TokenUsage::new(3, 2)),
            BackendEvent::OtherUsage {
                model: Some("helper".to_owned()),
                usage: TokenUsage::new(5, 1),
            },
            BackendEvent::TurnEnd {
                stop_reason: StopReason::MaxTokens,
                message_id: Some("m1".to_owned()),
                model: Some("m".to_owned()),
            },
            BackendEvent::SessionStarted {
                session_id: "s1".to_owned(),
                model: Some("m".to_owned()),
            },
            BackendEvent::Nested {
                parent_call_id: "c1".to_owned(),
                event: Box::new(BackendEvent::Text {
                    text: "in".to_owned(),
                }),
            },
            BackendEvent::StructuredOutput(json!({"n": 1})),
            BackendEvent::NumberOdds(vec![NumberOdds {
                field: "n".to_owned(),
                value: 1,
                odds: vec![(1, 0.75), (2, 0.25)],
            }]),
            BackendEvent::Replayed {
                latency: Duration::from_millis(1500),
                redacted: Redactions::default(),
            },
            BackendEvent::Paused,
            BackendEvent::Resumed,
            BackendEvent::Retrying {
                cause: "HTTP 429".to_owned(),
                wait: Duration::from_secs(2),
            },
            BackendEvent::Notice {
                message: "slow".to_owned(),
            },
            BackendEvent::Passages(vec!["p".to_owned()]),
            BackendEvent::Unreported(vec![Evidence::ToolCalls, Evidence::Cost]),
            BackendEvent::LimitLifted,
            BackendEvent::Executed(Box::new(ExecutorRecord {
                command_name: "review".to_owned(),
                executor: Some(holodeck_model::Executor::Legacy),
                agent: Some("a".to_owned()),
                selected: Some("b".to_owned()),
                decision: Some(holodeck_model::RoutingDecision::LowConfidence),
                confidence: 0.25,
                by_default: true,
                reason: Some("unsure".to_owned()),
                model: Some("m".to_owned()),
                selection_problem: Some("cut off".to_owned()),
            })),
            BackendEvent::End(Box::new(ExecutionResult {
                response: "hi".to_owned(),
                num_turns: 1,
                outcome: Outcome::MaxTurns,
                ..ExecutionResult::default()
            })),
        ]
    }

    /// Recordings contain these names: a change needs a new format version of `holodeck-cassette`.
    #[test]
    fn serialised_names_are_frozen() {
        let lines: Vec<String> = events()
            .iter()
            .map(|event| serde_json::to_string(event).unwrap())
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
        for (event, line) in events().iter().zip(&lines) {
            assert_eq!(&serde_json::from_str::<BackendEvent>(line).unwrap(), event);
        }
    }

    #[test]
    fn stop_reasons_survive_storage() {
        for word in [
            "end_turn",
            "tool_use",
            "max_tokens",
            "stop_sequence",
            "pause_turn",
            "refusal",
            "aborted",
            "odd",
        ] {
            let reason = StopReason::from(word.to_owned());
            assert_eq!(reason.as_str(), word);
            let known = !matches!(reason, StopReason::Other(_));
            assert_eq!(known, !["aborted", "odd"].contains(&word), "{word}");
        }
        assert!(StopReason::aborted().is_aborted());
    }
}
