//! Runs the quality loop around a case and keeps its record.
//!
//! Must not decide what improves an answer; that is behind [`AnswerLoop`](crate::AnswerLoop).

use holodeck_model::{ExecutionState, Executor as Asked, JudgeFailure, TestCase};
use holodeck_turn::TurnRecord;
use tokio_util::sync::CancellationToken;

use super::{Blocker, Conversation, Executor};
use crate::answer_loop::{FirstAnswer, ImprovedAnswer};

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
            Some(turn) if turn.state == ExecutionState::Completed && can_improve(&turn) => turn,
            // What could not be answered can't be improved.
            other => {
                conversation.turns.extend(other);
                return Some(conversation);
            }
        };
        let vars = case.sent_map();
        let first = FirstAnswer {
            vars: vars.as_ref(),
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

/// Whether the executor of an answer can be asked again: a skill and the legacy executor answer once.
fn can_improve(turn: &TurnRecord) -> bool {
    let record = turn.result.execution.as_deref();
    record.is_none_or(|record| matches!(record.executor, Some(Asked::Agent | Asked::Sdk)))
}
