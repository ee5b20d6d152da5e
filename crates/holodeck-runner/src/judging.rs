//! Calls of the judge model for metrics.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use holodeck_backend_api::AgentBackend;
use holodeck_eval::Judge;
use holodeck_model::TokenUsage;
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The judge model and its limits.
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "callers fill it in as a literal")]
pub struct JudgeSettings {
    /// The backend of the judge.
    pub backend: Arc<dyn AgentBackend>,
    /// Runs the calls as turns, each with a time-out and a price.
    pub turns: TurnRunner,
    /// The number of concurrent calls, over all units.
    pub concurrency: usize,
    /// The maximum number of attempts per call, including the first.
    pub attempts: u32,
}

impl std::fmt::Debug for JudgeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JudgeSettings")
            .field("model", &self.turns.model)
            .field("concurrency", &self.concurrency)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// What the judge used for one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgeUsage {
    /// Model calls made.
    pub model_calls: u32,
    /// Tokens; absent if a call reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Price in US dollars; absent if the price of a call is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl JudgeUsage {
    /// A sum with a missing part would be wrong, so it is absent then.
    fn add(&mut self, turn: &TurnRecord) {
        let first = self.model_calls == 0;
        if turn.result.num_turns == 0 {
            return;
        }
        self.model_calls += turn.result.num_turns;
        self.usage = match (self.usage, turn.usage) {
            (Some(mut sum), Some(more)) => {
                sum += more;
                Some(sum)
            }
            (_, usage) => usage.filter(|_| first),
        };
        self.cost_usd = match (self.cost_usd, turn.cost_usd) {
            (Some(sum), Some(more)) => Some(sum + more),
            (_, cost) => cost.filter(|_| first),
        };
    }
}

/// The judge of a run.
pub(crate) struct RunJudge {
    settings: Option<JudgeSettings>,
    slots: Semaphore,
}

impl RunJudge {
    pub(crate) fn new(settings: Option<JudgeSettings>) -> Self {
        let slots = settings
            .as_ref()
            .map_or(1, |settings| settings.concurrency.max(1));
        Self {
            settings,
            slots: Semaphore::new(slots),
        }
    }

    /// The judge for the metrics of one unit.
    pub(crate) fn for_unit(&self, cancel: CancellationToken) -> UnitJudge<'_> {
        UnitJudge {
            judge: self,
            cancel,
            usage: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }
}

/// Refuses every call: judges run only after masking.
pub(crate) struct DeferredJudge;

#[async_trait]
impl Judge for DeferredJudge {
    async fn ask(&self, _: &str) -> Result<String, String> {
        Err("not judged yet".to_owned())
    }
}

/// Calls the judge for one unit and counts the usage.
pub(crate) struct UnitJudge<'a> {
    judge: &'a RunJudge,
    cancel: CancellationToken,
    usage: Mutex<Option<JudgeUsage>>,
    stopped: AtomicBool,
}

impl UnitJudge<'_> {
    /// The usage; `None` without a call.
    pub(crate) fn usage(&self) -> Option<JudgeUsage> {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this run stopped a call: the outcomes of the metrics are then invalid.
    pub(crate) fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Judge for UnitJudge<'_> {
    async fn ask(&self, prompt: &str) -> Result<String, String> {
        let settings = self.judge.settings.as_ref().ok_or("no judge is configured")?;
        let slot = self.judge.slots.acquire().await;
        let _slot = slot.map_err(|closed| closed.to_string())?;
        let mut attempt = 1;
        loop {
            let input = TurnInput {
                input: prompt,
                ..TurnInput::default()
            };
            let start = |request| settings.backend.start(request);
            let ended = settings.turns.run(input, &self.cancel, start, |_| {}).await;
            let TurnEnd::Ended { record, error } = ended else {
                self.stopped.store(true, Ordering::Relaxed);
                return Err("the run was stopped".to_owned());
            };
            let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            usage.get_or_insert_default().add(&record);
            drop(usage);
            match (record.failures.first(), error) {
                (None, _) if record.truncated => {
                    return Err("the answer of the judge was truncated at max_tokens".to_owned());
                }
                (None, _) => return Ok(record.result.response),
                (Some(_), Some(error)) if error.is_retryable() && attempt < settings.attempts => attempt += 1,
                (Some(failure), _) => return Err(failure.text.clone()),
            }
        }
    }
}
