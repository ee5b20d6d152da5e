//! The quality loop around a case. What improves an answer is behind [`AnswerLoop`]; this module knows what a run keeps
//! of it.

use async_trait::async_trait;
use holodeck_model::{ExecutionState, FileInput, JudgeFailure, TestCase};
use holodeck_runs::LoopRecord;
use holodeck_turn::TurnRecord;
use tokio_util::sync::CancellationToken;

use crate::execute::{Blocker, Conversation, Executor};

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
