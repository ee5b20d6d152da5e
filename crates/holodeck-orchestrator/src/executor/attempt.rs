//! How an attempt ends, and what is known of it then.

use holodeck_backend_api::{BackendError, ExecutionResult, Outcome};
use holodeck_model::{
    CommandContext, EvidenceConfig, ExecutionAttempt, JsonMap, RoutingDecision, TerminationReason,
    UsageMetadata,
};
use holodeck_turn::TurnRecord;
use serde_json::{Value, json};

use super::{AttemptDetails, Refined};
use crate::{
    LoopOutput, Selection, SelectionQuestion,
    chain::mark_truncation,
    evidence::check_evidence,
    gates::{Gates, Refusal},
    watch::Watch,
};

/// The state of an attempt while it runs; it survives a panic.
pub(super) struct Progress {
    pub(super) gates: Gates,
    pub(super) selection: Option<Selection>,
    pub(super) agent: Option<String>,
    pub(super) confidence: f64,
    pub(super) usage: Option<UsageMetadata>,
}

/// How an attempt ended.
pub(super) enum End {
    Refused(Refusal),
    /// The gates are passed; nothing was run.
    WouldRun,
    /// It is not known which agent is selected, because nothing was to be asked.
    WouldAsk(SelectionQuestion),
    /// The model's side answered with an error.
    ErrorMessage(String),
    /// Something kept the model from answering.
    Exception {
        kind: &'static str,
        reason: String,
    },
    Panicked(String),
    Cancelled,
    Answered {
        output: LoopOutput,
        messages: usize,
        refined: Option<Box<Refined>>,
    },
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The class of an error of a recording that has no answer.
pub(crate) const REPLAY_MISS: &str = "ReplayMiss";

/// The class of an error that the model's side reported.
const ERROR_MESSAGE: &str = "SDKErrorMessage";

impl Progress {
    pub(super) fn new(force: bool) -> Self {
        Self {
            gates: Gates::new(force),
            selection: None,
            agent: None,
            confidence: 0.0,
            usage: None,
        }
    }

    pub(super) fn finish(
        &self,
        end: End,
        context: &CommandContext,
        watch: &Watch,
        config: EvidenceConfig,
    ) -> AttemptDetails {
        let evidence = watch.evidence();
        let missing = check_evidence(Some(&evidence), context, config).all();
        let is_collected =
            !evidence.tool_invocations.is_empty() || !missing.is_empty() || context.requires_evidence;
        let mut attempt = ExecutionAttempt {
            success: false,
            output: JsonMap::new(),
            should_fallback: true,
            routing_decision: RoutingDecision::SdkException,
            fallback_reason: None,
            agent_used: self.agent.clone(),
            confidence: self.confidence,
            evidence: is_collected.then(|| evidence.to_json(&missing)),
            error_type: None,
            termination_reason: Some(TerminationReason::ExecutionError),
            iteration_count: 1,
            partial: None,
            session_id: watch.backend_session(),
            mcp_context: None,
            usage_metadata: self.usage,
        };
        let (mut assessment, mut report, mut question) = (None, None, None);
        match end {
            End::Refused(Refusal { gate, reason }) => {
                attempt.routing_decision = gate.refusal();
                attempt.termination_reason = Some(gate.termination());
                attempt.fallback_reason = Some(reason);
            }
            End::WouldRun => {
                attempt.routing_decision = RoutingDecision::SdkExecuted;
                attempt.should_fallback = false;
                attempt.termination_reason = None;
            }
            End::WouldAsk(asked) => {
                attempt.routing_decision = RoutingDecision::SelectionDeclined;
                attempt.termination_reason = None;
                attempt.fallback_reason = Some(format!("nothing was asked; `{}` would decide", asked.model));
                question = Some(asked);
            }
            End::ErrorMessage(reason) => {
                attempt.routing_decision = RoutingDecision::SdkErrorMessage;
                attempt.error_type = Some(ERROR_MESSAGE.to_owned());
                attempt.fallback_reason = Some(reason);
                attempt.partial = watch.partial();
            }
            End::Exception { kind, reason } => {
                attempt.error_type = Some(kind.to_owned());
                attempt.fallback_reason = Some(reason);
                attempt.partial = watch.partial();
            }
            End::Panicked(reason) => {
                attempt.error_type = Some("Panic".to_owned());
                attempt.fallback_reason = Some(reason);
                attempt.partial = watch.partial();
            }
            End::Cancelled => {
                attempt.error_type = Some("Cancelled".to_owned());
                attempt.should_fallback = false;
                attempt.termination_reason = Some(TerminationReason::Cancelled);
                attempt.partial = watch.partial();
            }
            End::Answered {
                output,
                messages,
                refined,
            } => {
                attempt.routing_decision = RoutingDecision::SdkExecuted;
                attempt.success = true;
                attempt.should_fallback = false;
                attempt.termination_reason = Some(TerminationReason::SingleIteration);
                if let Some(refined) = refined {
                    attempt.termination_reason = Some(refined.report.termination_reason);
                    attempt.iteration_count = refined.report.iteration_count.max(1);
                    attempt.should_fallback = refined.report.should_fallback;
                    if refined.report.should_fallback {
                        attempt.success = false;
                        let reason = refined.report.scorer_error.clone().unwrap_or_default();
                        attempt.fallback_reason = Some(format!("the answer could not be scored: {reason}"));
                    }
                    assessment = Some(refined.assessment);
                    report = Some(refined.report);
                }
                attempt.output = sdk_output(&output, attempt.agent_used.as_deref(), messages);
            }
        }
        AttemptDetails {
            attempt,
            gates: self.gates.results().to_vec(),
            selection: self.selection.clone(),
            question,
            assessment,
            report,
            side_effects: watch.side_effects(),
        }
    }
}

fn sdk_output(output: &LoopOutput, agent: Option<&str>, messages: usize) -> JsonMap {
    let fields = json!({
        "status": "ok",
        "execution_mode": "sdk",
        "agent": agent,
        "output": output.text,
        "message_count": messages,
    });
    let mut fields = match fields {
        Value::Object(fields) => fields,
        _ => JsonMap::new(),
    };
    let turn = output.turn.as_deref();
    mark_truncation(&mut fields, turn.and_then(TurnRecord::truncation));
    fields
}

pub(super) fn usage_of(record: &TurnRecord) -> UsageMetadata {
    UsageMetadata {
        usage: record.usage,
        cost_usd: record.cost_usd,
    }
}

/// An error of the model's side has a status; everything else kept the model from answering.
pub(super) fn end_of(error: &BackendError) -> End {
    let reason = error.to_string();
    let kind = match error {
        BackendError::Provider { status: Some(_), .. } => return End::ErrorMessage(reason),
        BackendError::Cancelled => {
            return End::Exception {
                kind: "Cancelled",
                reason,
            };
        }
        BackendError::Init(_) => "Init",
        BackendError::Config(_) => "Config",
        BackendError::Session(_) => "Session",
        BackendError::Terminated { .. } => "Terminated",
        BackendError::Timeout { .. } => "Timeout",
        BackendError::Protocol(_) => "Protocol",
        BackendError::Provider { .. } => "Unreachable",
        BackendError::Tool { .. } => "Tool",
        BackendError::ReplayMiss(_) => REPLAY_MISS,
        _ => "Other",
    };
    End::Exception { kind, reason }
}

/// How the attempt ends if the agent ended its turn badly.
pub(super) fn end_of_result(result: &ExecutionResult) -> Option<End> {
    let reason = result.error_reason()?.into_owned();
    Some(match result.outcome {
        Outcome::TimedOut => End::Exception {
            kind: "Timeout",
            reason,
        },
        Outcome::SubprocessTerminated => End::Exception {
            kind: "Terminated",
            reason,
        },
        _ => End::ErrorMessage(reason),
    })
}
