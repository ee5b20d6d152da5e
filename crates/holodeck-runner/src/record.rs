//! What the journal keeps of a unit of work: the record of its run, and its grade.

use std::borrow::Cow;

use holodeck_backend_api::ApprovalDecision;
use holodeck_model::{
    ArgMatchDetail, CaseIdentity, CaseState, ExecutionState, Failure, FailureKind, MetricResult, Redactor,
    TokenUsage, UnitKey,
};
use holodeck_turn::TurnRecord;
use serde::{Deserialize, Serialize};

/// One case, run once. A case without turns is a conversation of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// The unit.
    pub key: UnitKey,
    /// The case, and what it asked.
    pub case: CaseIdentity,
    /// Whether the case has `turns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// When it ended, RFC 3339.
    pub at: String,
    /// Its turns, in order; none if it never came to the first one.
    pub turns: Vec<TurnRecord>,
    /// What went wrong outside of its turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// The verdict on a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Fingerprint of the checks.
    pub grader: String,
    /// The verdict.
    pub state: CaseState,
    /// One for each turn of the unit.
    pub turns: Vec<TurnGrade>,
}

/// The verdict on one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnGrade {
    /// The verdict.
    pub state: CaseState,
    /// Whether all expectations about tools were met; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_matched: Option<bool>,
    /// How each argument expectation fared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arg_match_details: Vec<ArgMatchDetail>,
    /// One for each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricResult>,
    /// Unmet expectations about tools, and checks that could not be set up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What retrieval found, as the metrics were given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<Vec<String>>,
    /// Fingerprints of the checks, where they saw texts that the record has only masked: the expectations about tools,
    /// then each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
}

impl TurnGrade {
    /// A verdict without any check.
    pub(crate) fn bare(state: CaseState) -> Self {
        Self {
            state,
            tools_matched: None,
            arg_match_details: Vec::new(),
            metrics: Vec::new(),
            failures: Vec::new(),
            retrieval_context: None,
            checks: Vec::new(),
        }
    }
}

impl UnitRecord {
    /// The worst end of its turns.
    pub(crate) fn execution(&self) -> ExecutionState {
        let rank = |state: &ExecutionState| match state {
            ExecutionState::Completed => 0,
            ExecutionState::AgentFailed => 1,
            ExecutionState::Skipped => 2,
            ExecutionState::Error => 3,
        };
        let own = (!self.failures.is_empty()).then_some(ExecutionState::Error);
        let turns = self.turns.iter().map(|turn| turn.state);
        turns.chain(own).max_by_key(rank).unwrap_or_default()
    }

    /// Model calls made.
    pub(crate) fn model_calls(&self) -> u32 {
        self.turns.iter().map(|turn| turn.result.num_turns).sum()
    }

    /// Its tokens. A sum of which a part is missing is a guess, and no number at all.
    pub fn usage(&self) -> Option<TokenUsage> {
        let mut total = None;
        for turn in &self.turns {
            match turn.usage {
                Some(usage) => *total.get_or_insert_with(TokenUsage::default) += usage,
                None if turn.result.num_turns > 0 => return None,
                None => {}
            }
        }
        total
    }

    /// Its price, likewise.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        let mut total = None;
        for turn in &self.turns {
            match turn.cost_usd {
                Some(cost) => *total.get_or_insert(0.0) += cost,
                None if turn.result.num_turns > 0 => return None,
                None => {}
            }
        }
        total
    }

    /// Bytes that checks read, about.
    pub(crate) fn size(&self) -> usize {
        self.turns.iter().map(|turn| turn.result.response.len()).sum()
    }

    /// Whether checks see something else once secrets are masked.
    pub(crate) fn holds_secrets(&self, redactor: &Redactor) -> bool {
        let dirty = |text: &str| matches!(redactor.text(text), Cow::Owned(_));
        self.turns.iter().any(|turn| {
            dirty(&turn.result.response)
                || turn
                    .result
                    .structured_output
                    .iter()
                    .chain(turn.result.tool_calls.iter().map(|call| &call.arguments))
                    .any(|value| redactor.mask_value(&mut value.clone()))
        })
    }

    /// Masks secrets before anything is written down or shown, and notes where there were some.
    pub(crate) fn mask(&mut self, redactor: &Redactor) {
        mask_failures(redactor, &mut self.failures);
        for turn in &mut self.turns {
            redactor.mask_text(&mut turn.input);
            mask_failures(redactor, &mut turn.failures);
            for file in &mut turn.files {
                redactor.value(file);
            }
            for approval in &mut turn.approvals {
                match &mut approval.decision {
                    ApprovalDecision::Approve { arguments } => {
                        if let Some(arguments) = arguments {
                            redactor.value(arguments);
                        }
                    }
                    ApprovalDecision::Reject { reason } | ApprovalDecision::Terminate { reason } => {
                        redactor.mask_text(reason);
                    }
                    ApprovalDecision::Withdrawn => {}
                }
            }
            let result = &mut turn.result;
            turn.redacted.answer |= redactor.mask_text(&mut result.response);
            if let Some(thinking) = &mut result.thinking {
                redactor.mask_text(thinking);
            }
            if let Some(object) = &mut result.structured_output {
                turn.redacted.object |= redactor.mask_value(object);
            }
            for call in &mut result.tool_calls {
                if redactor.mask_value(&mut call.arguments) {
                    turn.redacted.arguments.push(call.call_id.clone());
                }
            }
            for answer in &mut result.tool_results {
                answer.details.redact(redactor);
                if redactor.mask_text(&mut answer.result) {
                    turn.redacted.results.push(answer.call_id.clone());
                }
            }
        }
    }
}

impl Grade {
    /// Of the turns of `unit`, whose verdicts these are.
    pub(crate) fn of_turns(grader: String, unit: &UnitRecord, turns: Vec<TurnGrade>) -> Self {
        let any = |state| turns.iter().any(|turn| turn.state == state);
        let state = if any(CaseState::Failed) {
            CaseState::Failed
        } else if any(CaseState::Error) || unit.execution() == ExecutionState::Error {
            CaseState::Error
        } else if any(CaseState::Passed) {
            CaseState::Passed
        } else {
            CaseState::Unchecked
        };
        Self { grader, state, turns }
    }

    /// A verdict that a fault of this program prevented.
    pub(crate) fn crashed(unit: &UnitRecord, what: &str) -> Self {
        let bare = |_: &TurnRecord| TurnGrade::bare(CaseState::Error);
        let mut turns: Vec<TurnGrade> = unit.turns.iter().map(bare).collect();
        if let Some(turn) = turns.first_mut() {
            let text = format!("internal error: {what}");
            turn.failures.push(Failure::new(FailureKind::Internal, text));
        }
        Self::of_turns(String::new(), unit, turns)
    }

    /// Masks secrets before anything is written down or shown.
    pub(crate) fn mask(&mut self, redactor: &Redactor) {
        for turn in &mut self.turns {
            mask_failures(redactor, &mut turn.failures);
            for text in turn.retrieval_context.iter_mut().flatten() {
                redactor.mask_text(text);
            }
            for metric in &mut turn.metrics {
                mask_optional(redactor, &mut metric.reasoning);
                mask_optional(redactor, &mut metric.error);
            }
            for detail in &mut turn.arg_match_details {
                redactor.value(&mut detail.args_asserted);
                mask_optional(redactor, &mut detail.unmatched_reason);
            }
        }
    }
}

fn mask_failures(redactor: &Redactor, failures: &mut [Failure]) {
    for failure in failures {
        redactor.mask_text(&mut failure.text);
        mask_optional(redactor, &mut failure.hint);
    }
}

fn mask_optional(redactor: &Redactor, text: &mut Option<String>) {
    if let Some(text) = text {
        redactor.mask_text(text);
    }
}
