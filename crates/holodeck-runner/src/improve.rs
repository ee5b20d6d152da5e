//! The quality loop around a case. What improves an answer is behind [`AnswerLoop`]; this module knows what a run keeps
//! of it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use holodeck_eval::{CountingJudge, Judge, JudgeAnswer, JudgeError, JudgeRequest};
use holodeck_model::{ExecutionState, FileInput, JudgeFailure, Redactor, Spent, TestCase, UnitKey};
use holodeck_runs::LoopRecord;
use holodeck_turn::TurnRecord;
use tokio_util::sync::CancellationToken;

use crate::{
    JudgeSettings,
    execute::{Blocker, Conversation, Executor},
    judging::{RunJudge, judge_failure},
};

/// Improves the answers of cases.
#[async_trait]
pub trait AnswerLoop: Send + Sync {
    /// The best answer to a case and how it was reached; `None` if `cancel` fired. Each further answer is a fresh
    /// execution.
    async fn improve(&self, first: FirstAnswer<'_>, cancel: &CancellationToken) -> Option<ImprovedAnswer>;

    /// Releases what it holds.
    async fn close(&self) -> Result<(), holodeck_backend_api::BackendError>;
}

/// The first answer to a case, with what asked for it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FirstAnswer<'a> {
    /// The question.
    pub question: &'a str,
    /// Its files.
    pub files: &'a [FileInput],
    /// The unit in recordings.
    pub unit: &'a str,
    /// The trial of the case, from 0.
    pub trial: u32,
    /// The turn.
    pub turn: TurnRecord,
}

/// The answer that a loop returned.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ImprovedAnswer {
    /// Its turn.
    pub turn: TurnRecord,
    /// The record of the loop.
    pub record: LoopRecord,
}

impl Executor {
    /// Improves the answer of a single turn, if the agent has a loop and the answer is one. `None` if this run stopped
    /// it.
    pub(crate) async fn improve_answer(
        &self,
        case: &TestCase,
        (unit, trial): (&str, u32),
        mut conversation: Conversation,
        cancel: &CancellationToken,
    ) -> Option<Conversation> {
        let Some(answer_loop) = &self.answer_loop else {
            return Some(conversation);
        };
        let turn = match conversation.turns.pop() {
            Some(turn) if turn.state == ExecutionState::Completed => turn,
            // What could not be answered can't be improved.
            other => {
                conversation.turns.extend(other);
                return Some(conversation);
            }
        };
        let first = FirstAnswer {
            question: case.input.as_deref().unwrap_or_default(),
            files: &case.files,
            unit,
            trial,
            turn,
        };
        let ImprovedAnswer { turn, record } = answer_loop.improve(first, cancel).await?;
        conversation.turns.push(turn);
        if let Some(failure) = record
            .failure
            .as_ref()
            .filter(|_| record.judge_failure == Some(JudgeFailure::Credentials))
        {
            conversation.blocker = Some(Blocker::Credentials(failure.text.clone()));
        }
        conversation.quality_loop = Some(Box::new(record));
        Some(conversation)
    }
}

/// Judges outside of grading: they share a limit of concurrent calls, and the answers that serve every unit.
#[derive(Clone)]
pub struct SharedJudges(Arc<RunJudge>);

impl SharedJudges {
    /// These judges, whose answers are masked.
    pub fn new(settings: JudgeSettings, redactor: Arc<Redactor>) -> Self {
        // Nothing is written to a journal: a case that is repeated asks again.
        let (judge, _) = RunJudge::new(Some(settings), redactor);
        Self(Arc::new(judge))
    }

    /// Releases every judge.
    pub async fn close(&self) -> Result<(), holodeck_backend_api::BackendError> {
        self.0.close().await
    }
}

/// Calls judges for one purpose outside of grading, and counts what they used.
pub struct JudgeCalls {
    judge: SharedJudges,
    name: String,
    cancel: CancellationToken,
    iteration: AtomicU32,
    used: std::sync::Mutex<(Spent, Spent)>,
    failure: std::sync::Mutex<Option<JudgeFailure>>,
}

impl JudgeCalls {
    /// Calls for the unit `name` of recordings, which `cancel` stops.
    pub fn new(judge: &SharedJudges, name: impl Into<String>, cancel: CancellationToken) -> Self {
        Self {
            judge: judge.clone(),
            name: name.into(),
            cancel,
            iteration: AtomicU32::new(0),
            used: std::sync::Mutex::default(),
            failure: std::sync::Mutex::default(),
        }
    }

    /// The meaning of a failed call for other calls, if one failed.
    pub fn failure(&self) -> Option<JudgeFailure> {
        *self
            .failure
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The total cost.
    pub fn spent(&self) -> Spent {
        self.used
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .1
    }
}

#[async_trait]
impl Judge for JudgeCalls {
    async fn ask(&self, request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        let iteration = self.iteration.load(Ordering::Relaxed).saturating_add(1);
        let name = format!("{} · loop · iteration {iteration}", self.name);
        let unit = self
            .judge
            .0
            .for_unit(UnitKey::NO_CASE, name, Vec::new(), self.cancel.clone());
        let answer = unit.ask(request).await;
        if let Some(failure) = answer.as_ref().err().and_then(|error| judge_failure(error.kind)) {
            let mut first = self
                .failure
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            first.get_or_insert(failure);
        }
        if let Some(usage) = unit.usage() {
            let mut used = self
                .used
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            used.0 += usage;
            used.1 += usage;
        }
        answer
    }
}

impl CountingJudge for JudgeCalls {
    fn begin(&self, iteration: u32) {
        self.iteration.store(iteration, Ordering::Relaxed);
    }

    fn take_spent(&self) -> Spent {
        let mut used = self
            .used
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut used.0)
    }
}
