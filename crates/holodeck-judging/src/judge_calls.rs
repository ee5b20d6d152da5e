//! Calls of judges outside of grading, such as those of a quality loop. No journal keeps them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use holodeck_eval::{Comparison, CountingJudge, Judge, JudgeAnswer, JudgeError, JudgeRequest};
use holodeck_model::{JudgeFailure, ModelConfig, Spent, UnitKey};
use tokio_util::sync::CancellationToken;

use crate::{RunJudge, UnitJudge, judge_failure};

/// Calls judges for the scores of one answer after the other, and counts what they used.
pub struct JudgeCalls {
    judge: Arc<RunJudge>,
    name: String,
    cancel: CancellationToken,
    iteration: AtomicU32,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    since_taken: Spent,
    total: Spent,
    failure: Option<JudgeFailure>,
}

impl JudgeCalls {
    /// Calls for the unit `name` of recordings, which `cancel` stops.
    pub fn new(judge: &Arc<RunJudge>, name: impl Into<String>, cancel: CancellationToken) -> Self {
        Self {
            judge: Arc::clone(judge),
            name: name.into(),
            cancel,
            iteration: AtomicU32::new(0),
            counts: Mutex::default(),
        }
    }

    /// The meaning of a failed call for other calls, if one failed.
    pub fn failure(&self) -> Option<JudgeFailure> {
        self.count(|counts| counts.failure)
    }

    /// The total cost.
    pub fn spent(&self) -> Spent {
        self.count(|counts| counts.total)
    }

    /// Calls for the current iteration.
    fn unit(&self) -> UnitJudge<'_> {
        let iteration = self.iteration.load(Ordering::Relaxed).saturating_add(1);
        let name = format!("{} · loop · iteration {iteration}", self.name);
        self.judge
            .for_unit(UnitKey::NO_CASE, name, Vec::new(), self.cancel.clone())
    }

    fn counted<T>(&self, unit: &UnitJudge<'_>, answer: Result<T, JudgeError>) -> Result<T, JudgeError> {
        let failure = answer.as_ref().err().and_then(|error| judge_failure(error.kind));
        let used = unit.usage().unwrap_or_default();
        self.count(|counts| {
            counts.failure = counts.failure.or(failure);
            counts.since_taken += used;
            counts.total += used;
        });
        answer
    }

    fn count<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Judge for JudgeCalls {
    fn name(&self, model: Option<&ModelConfig>) -> Option<String> {
        self.judge.name(model)
    }

    async fn ask(&self, request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        let unit = self.unit();
        let answer = unit.ask(request).await;
        self.counted(&unit, answer)
    }

    async fn compare(&self, request: Comparison<'_>) -> Result<Vec<i64>, JudgeError> {
        let unit = self.unit();
        let answer = unit.compare(request).await;
        self.counted(&unit, answer)
    }
}

impl CountingJudge for JudgeCalls {
    fn begin(&self, iteration: u32) {
        self.iteration.store(iteration, Ordering::Relaxed);
    }

    fn take_spent(&self) -> Spent {
        self.count(|counts| std::mem::take(&mut counts.since_taken))
    }
}
