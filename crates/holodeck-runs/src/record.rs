//! The journal's data about a unit: the record of its execution, and its grade.

use holodeck_backend_api::Redactions;
use holodeck_model::{
    ApprovalDetail, ArgMatchDetail, CaseDeciders, CaseIdentity, CaseState, ConversationEnd, Digest,
    ExecutionState, Failure, FailureKind, JudgeFailure, LoopSummary, MetricResult, Redactor, Spent,
    TaskRoute, UnitKey,
};
use holodeck_turn::TurnRecord;
use serde::{Deserialize, Serialize};

use crate::expected::CaseExpected;

mod mask;

/// One execution of one case. A case without `turns` has exactly one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// The unit.
    pub key: UnitKey,
    /// The case and its content.
    pub case: CaseIdentity,
    /// The name of the case when it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the case has `turns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// The end time, RFC 3339.
    pub at: String,
    /// Its turns, in order; empty if the first one was never started.
    pub turns: Vec<TurnRecord>,
    /// Failures outside of its turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The simulated user that wrote the questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserRecord>,
    /// The specialist agent that was selected for the first question, if the case expects one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<TaskRoute>,
    /// The quality loop that chose its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_loop: Option<Box<LoopRecord>>,
}

/// The part of a simulated user in a conversation, beside its messages, which are the inputs of the turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UserRecord {
    /// Why the conversation ended; absent if that was an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ConversationEnd>,
    /// The last message of the user, which the agent did not receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<String>,
    /// The model that played the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usage of that model; absent if it was not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Spent>,
    /// The meaning of that model's failed call for other calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_failure: Option<JudgeFailure>,
    /// Why the conversation could not continue, unless the agent failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl UserRecord {
    /// Why the conversation ended, in one word.
    pub fn ended_by(&self) -> &'static str {
        self.ended.map_or("error", ConversationEnd::as_str)
    }
}

/// The record of a quality loop around a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LoopRecord {
    /// Scores and end.
    #[serde(flatten)]
    pub summary: LoopSummary,
    /// The cost besides the returned answer: the other answers, and scoring.
    pub used: Spent,
    /// Wall time of the first answer and the loop.
    pub elapsed_ms: u64,
    /// The meaning of its judge's failed call for other calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_failure: Option<JudgeFailure>,
    /// Why the verdict on the case is an error: the scorer failed, or a score was not a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl LoopRecord {
    /// Makes the case an error: how its answer was chosen is not known to be right.
    #[must_use]
    pub fn failed(mut self, reason: impl std::fmt::Display) -> Self {
        self.failure = Some(Failure::new(
            FailureKind::Checks,
            format!("quality loop: {reason}"),
        ));
        self
    }
}

/// The verdict on a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Everything that decides it, besides the agent.
    #[serde(default)]
    pub deciders: CaseDeciders,
    /// How many trials of its case must pass; absent if it runs once, and in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_passes: Option<u32>,
    /// The verdict.
    pub state: CaseState,
    /// One for each turn of the unit.
    pub turns: Vec<TurnGrade>,
    /// The verdict on a conversation as a whole; absent if nothing is expected of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Box<TurnGrade>>,
    /// The score of the case, if it has a `min_score` or a metric has a `weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Why the score of the case does not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_failure: Option<Failure>,
    /// The usage of the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judging: Option<Spent>,
    /// The expectations of the file when it was given; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Box<CaseExpected>>,
}

/// The verdict on one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnGrade {
    /// The verdict.
    pub state: CaseState,
    /// Whether all expectations about tools were met; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_matched: Option<bool>,
    /// The result of each expectation about arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arg_match_details: Vec<ArgMatchDetail>,
    /// The result of each expectation about decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalDetail>,
    /// One for each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricResult>,
    /// Unmet expectations about tools, and checks that could not be set up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The retrieved passages that the metrics received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<Vec<String>>,
    /// The digest of the expectations about tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_rules: Option<Digest>,
}

impl TurnGrade {
    /// A verdict without results of checks.
    pub fn bare(state: CaseState) -> Self {
        Self {
            state,
            tools_matched: None,
            arg_match_details: Vec::new(),
            approvals: Vec::new(),
            metrics: Vec::new(),
            failures: Vec::new(),
            retrieval_context: None,
            tool_rules: None,
        }
    }
}

/// The worse of two execution states.
pub(crate) fn worse_execution(one: ExecutionState, other: ExecutionState) -> ExecutionState {
    let rank = |state: &ExecutionState| match state {
        ExecutionState::Completed => 0,
        ExecutionState::AgentFailed => 1,
        ExecutionState::Skipped => 2,
        ExecutionState::Error => 3,
    };
    std::cmp::max_by_key(one, other, rank)
}

/// The worse of two verdicts, of which both must be met.
pub fn worse_state(one: CaseState, other: CaseState) -> CaseState {
    let rank = |state: &CaseState| match state {
        CaseState::Unchecked => 0,
        CaseState::Passed => 1,
        CaseState::Error => 2,
        CaseState::Failed | CaseState::Flaky => 3,
    };
    std::cmp::max_by_key(one, other, rank)
}

impl UnitRecord {
    /// The worst execution state of its turns.
    pub fn execution(&self) -> ExecutionState {
        let own = (!self.failures.is_empty()).then_some(ExecutionState::Error);
        let turns = self.turns.iter().map(|turn| turn.state);
        turns.chain(own).reduce(worse_execution).unwrap_or_default()
    }

    /// Whether checks can see something else than before its secrets were masked.
    pub fn masking_affects_checks(&self) -> bool {
        self.turns.iter().any(|turn| turn.redacted.affects_checks())
    }

    /// The failures outside of its turns, and that of its simulated user.
    pub fn own_failures(&self) -> impl Iterator<Item = &Failure> {
        let by_user = self.user.iter().filter_map(|user| user.failure.as_ref());
        let by_loop = self
            .quality_loop
            .iter()
            .filter_map(|quality| quality.failure.as_ref());
        self.failures.iter().chain(by_user).chain(by_loop)
    }

    /// The cost of its turns and its loop.
    pub fn spent(&self) -> Spent {
        let by_loop = self.quality_loop.as_ref().map(|quality| quality.used);
        self.turns.iter().map(TurnRecord::spent).chain(by_loop).sum()
    }

    /// The approximate number of bytes that checks read.
    pub fn size(&self) -> usize {
        self.turns.iter().map(|turn| turn.result.response.len()).sum()
    }

    /// Whether masking secrets changes what the checks see.
    pub fn holds_secrets(&self, redactor: &Redactor) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|turn| Redactions::of(&turn.result, redactor).affects_checks())
    }
}

impl Grade {
    /// The grade of `unit` from the verdicts on its turns.
    pub fn of_turns(deciders: CaseDeciders, unit: &UnitRecord, turns: Vec<TurnGrade>) -> Self {
        let any = |state| turns.iter().any(|turn| turn.state == state);
        let state = if any(CaseState::Failed) {
            CaseState::Failed
        } else if any(CaseState::Error)
            || unit.execution() == ExecutionState::Error
            || unit
                .quality_loop
                .as_ref()
                .is_some_and(|quality| quality.failure.is_some())
        {
            CaseState::Error
        } else if any(CaseState::Passed) {
            CaseState::Passed
        } else {
            CaseState::Unchecked
        };
        Self {
            deciders,
            min_passes: None,
            state,
            turns,
            conversation: None,
            score: None,
            score_failure: None,
            judging: None,
            expected: None,
        }
    }

    /// All results of metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricResult> {
        let turns = self.turns.iter().chain(self.conversation.as_deref());
        turns.flat_map(|turn| &turn.metrics)
    }

    /// Adds the verdict on the conversation as a whole. The worse verdict decides.
    pub fn with_conversation(self, conversation: TurnGrade) -> Self {
        Self {
            state: worse_state(self.state, conversation.state),
            conversation: Some(Box::new(conversation)),
            ..self
        }
    }

    /// The grade of a unit whose grading crashed.
    pub fn crashed(unit: &UnitRecord, reason: &str) -> Self {
        let bare = |_: &TurnRecord| TurnGrade::bare(CaseState::Error);
        let mut turns: Vec<TurnGrade> = unit.turns.iter().map(bare).collect();
        if let Some(turn) = turns.first_mut() {
            let text = format!("internal error: {reason}");
            turn.failures.push(Failure::new(FailureKind::Internal, text));
        }
        Self::of_turns(CaseDeciders::default(), unit, turns)
    }
}
