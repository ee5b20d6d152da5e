//! The contract of a quality loop towards a run: it improves the answer to a case.

use async_trait::async_trait;
use holodeck_model::{FileInput, JsonMap};
use holodeck_runs::LoopRecord;
use holodeck_turn::TurnRecord;
use tokio_util::sync::CancellationToken;

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
    /// The values of the case that the request contains beside it.
    pub vars: Option<&'a JsonMap>,
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
