//! The judges of a run: calls of their models for metrics, with a limit of concurrent calls, their records and cost.
//!
//! Every question is masked here once more, with whatever the configuration put into it.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, BackendError, NumberOdds, TextSimilarity, TurnRequest, UNFIT_ANSWER,
};
use holodeck_eval::{
    Comparison, Judge, JudgeAnswer, JudgeError, JudgeErrorKind, JudgeRequest, JudgedLine, KEPT_PROMPT,
    UNFIT_VERDICT, VerdictFormat,
};
use holodeck_model::{
    EmbeddingConfig, JudgeFailure, ModelConfig, Redactor, Spent, UnitKey, hex_prefix, parse_json_strictly,
};
use holodeck_turn::{TurnEnd, TurnInput, TurnRecord, TurnRunner};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

/// Opens the judges of a run, and the models that play its users.
#[async_trait]
pub trait Judges: Send + Sync {
    /// Opens the judge on this model, else the default one, for answers of this form. Later calls return the same judge.
    /// The form also says whether it judges or plays a user.
    async fn open(
        &self,
        model: Option<&ModelConfig>,
        format: VerdictFormat,
    ) -> Result<OpenJudge, BackendError>;

    /// The name of a judge in reports.
    fn name(&self, model: Option<&ModelConfig>) -> String;

    /// Opens the model that makes embeddings, else that of the agent. Later calls return the same one.
    async fn similarity(
        &self,
        embedder: Option<&EmbeddingConfig>,
    ) -> Result<Arc<dyn TextSimilarity>, BackendError> {
        let _ = embedder;
        Err(BackendError::config("nothing makes embeddings here"))
    }

    /// Releases every judge.
    async fn close(&self) -> Result<(), BackendError>;
}

/// A judge that is ready to answer.
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct OpenJudge {
    /// The backend, whose answers have the requested form.
    pub backend: Arc<dyn AgentBackend>,
    /// Runs the calls as turns, each with a time-out and a price.
    pub turns: Arc<TurnRunner>,
}

/// Judges and the limit of their concurrent calls, which all clones share.
#[derive(Clone)]
pub struct JudgeSettings {
    judges: Arc<dyn Judges>,
    concurrency: usize,
    calls: Arc<Semaphore>,
}

impl JudgeSettings {
    /// Judges that are asked at most `concurrency` questions at a time.
    pub fn new(judges: Arc<dyn Judges>, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        Self {
            judges,
            concurrency,
            calls: Arc::new(Semaphore::new(concurrency)),
        }
    }
}

impl std::fmt::Debug for JudgeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JudgeSettings")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// The judges of a run.
pub struct RunJudge {
    settings: Option<JudgeSettings>,
    redactor: Arc<Redactor>,
    /// The default judge. After it changed, its stored answers are not those of the judge.
    default_model: Value,
    /// The default embedder, for the same reason.
    default_embedder: Value,
    /// Receives every answer, for the journal.
    record: mpsc::UnboundedSender<JudgedLine>,
    /// The answers that serve every unit, by the digest of their question.
    shared: Mutex<HashMap<String, Arc<OnceCell<JudgeAnswer>>>>,
}

impl RunJudge {
    /// The judges, and the answers to write to the journal.
    pub fn new(
        settings: Option<JudgeSettings>,
        default_model: Value,
        redactor: &Arc<Redactor>,
    ) -> (Self, mpsc::UnboundedReceiver<JudgedLine>) {
        let (record, answers) = mpsc::unbounded_channel();
        let judge = Self {
            settings,
            redactor: Arc::clone(redactor),
            default_model,
            default_embedder: Value::Null,
            record,
            shared: Mutex::default(),
        };
        (judge, answers)
    }

    /// The same, with the model that makes embeddings for metrics that name none.
    #[must_use]
    pub fn comparing_by(mut self, embedder: Option<&EmbeddingConfig>) -> Self {
        self.default_embedder = embedder.map(EmbeddingConfig::answering).unwrap_or_default();
        self
    }

    /// Whether there are judges.
    pub fn is_configured(&self) -> bool {
        self.settings.is_some()
    }

    /// How many calls may run at the same time.
    pub fn concurrency(&self) -> usize {
        self.settings.as_ref().map_or(1, |settings| settings.concurrency)
    }

    /// The name of a judge in reports.
    pub fn name(&self, model: Option<&ModelConfig>) -> Option<String> {
        Some(self.settings.as_ref()?.judges.name(model))
    }

    /// Uses an answer of an earlier part of this run that serves every unit.
    pub fn restore_shared(&self, line: JudgedLine) {
        let Some(answer) = line.answer else { return };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.insert(line.question, Arc::new(OnceCell::from(answer)));
    }

    /// Releases every judge.
    pub async fn close(&self) -> Result<(), BackendError> {
        match &self.settings {
            Some(settings) => settings.judges.close().await,
            None => Ok(()),
        }
    }

    /// The judge for the metrics of one unit, with the calls that it made before the run was resumed.
    pub fn for_unit(
        &self,
        key: UnitKey,
        name: String,
        made: Vec<JudgedLine>,
        cancel: CancellationToken,
    ) -> UnitJudge<'_> {
        let mut judge = UnitJudge {
            judge: self,
            key,
            name,
            answered: HashMap::new(),
            cancel,
            usage: Mutex::default(),
            stopped: AtomicBool::new(false),
        };
        for line in made {
            match line.answer {
                Some(answer) if line.key.is_some() => {
                    judge.answered.insert(line.question, (answer, line.used));
                }
                // Nothing asks again for an answer that serves every unit, and a failed call has none.
                _ => judge.count(&line.used),
            }
        }
        judge
    }
}

/// Calls the judge for one unit and counts the usage.
pub struct UnitJudge<'a> {
    judge: &'a RunJudge,
    key: UnitKey,
    /// The unit in recordings.
    name: String,
    /// Answers and what they used, by the digest of their question.
    answered: HashMap<String, (JudgeAnswer, Spent)>,
    cancel: CancellationToken,
    usage: Mutex<Option<Spent>>,
    stopped: AtomicBool,
}

impl UnitJudge<'_> {
    /// The usage; `None` without a call.
    pub fn usage(&self) -> Option<Spent> {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this run stopped a call: the outcomes of the metrics are then invalid.
    pub fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn count(&self, used: &Spent) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *usage.get_or_insert_default() += *used;
    }

    /// The judges, and the right to ask one of them now.
    async fn slot(&self) -> Result<(&JudgeSettings, SemaphorePermit<'_>), JudgeError> {
        let Some(settings) = self.judge.settings.as_ref() else {
            return Err(JudgeError::last("no judge is configured"));
        };
        tokio::select! {
            slot = settings.calls.acquire() => {
                Ok((settings, slot.map_err(|closed| JudgeError::last(closed.to_string()))?))
            }
            () = self.cancel.cancelled() => Err(self.stop()),
        }
    }

    /// Notes that this run stopped a call.
    fn stop(&self) -> JudgeError {
        self.stopped.store(true, Ordering::Relaxed);
        JudgeError::last("the run was stopped")
    }

    /// Asks the embedder and records its answer.
    async fn measure(&self, request: &Comparison<'_>, question: String) -> Result<Vec<i64>, JudgeError> {
        let (settings, _slot) = self.slot().await?;
        let failed = |error: BackendError| JudgeError {
            kind: kind_of(&error).unwrap_or(if matches!(error, BackendError::Config(_)) {
                JudgeErrorKind::Final
            } else {
                JudgeErrorKind::Retryable
            }),
            reason: error.to_string(),
        };
        let opened = settings.judges.similarity(request.embedder).await;
        let similarity = opened.map_err(failed)?;
        let compare = similarity.compare(&request.texts, &request.query);
        let compared = tokio::select! {
            compared = in_time(request.timeout, compare) => compared,
            () = self.cancel.cancelled() => return Err(self.stop()),
        };
        let compared = compared?.map_err(failed)?;
        let used = compared.spent;
        self.count(&used);
        // Without a receiver the run is over.
        let _ = self.judge.record.send(JudgedLine {
            key: Some(self.key),
            asked_by: None,
            question,
            label: "similarity of embeddings".to_owned(),
            prompt: String::new(),
            failure: None,
            answer: Some(JudgeAnswer {
                value: json!(compared.cosines),
                scores: Vec::new(),
                model: Some(similarity.name().to_owned()),
            }),
            used,
        });
        Ok(compared.cosines)
    }

    /// Calls the judge and records its answer.
    async fn call(&self, request: JudgeRequest<'_>, question: String) -> Result<JudgeAnswer, JudgeError> {
        let (settings, _slot) = self.slot().await?;
        let opened = settings.judges.open(request.model, request.format).await;
        let OpenJudge { backend, turns } = opened.map_err(|error| JudgeError {
            kind: kind_of(&error).unwrap_or(JudgeErrorKind::Final),
            reason: error.to_string(),
        })?;
        let unit = if request.shared {
            request.label.clone()
        } else {
            format!("{} · {}", self.name, request.label)
        };
        let input = TurnInput {
            input: &request.prompt,
            unit: Some(&unit),
            limit: request.timeout.map(|timeout| (timeout, "`timeout_ms`")),
            ..TurnInput::default()
        };
        let start = |mut turn: TurnRequest| {
            turn.number_odds = request.odds;
            backend.start(turn)
        };
        let TurnEnd::Ended { record, error } = turns.run(input, &self.cancel, start, |_| {}).await else {
            return Err(self.stop());
        };
        let used = record.spent();
        self.count(&used);
        let refused = (error.is_none() && record.truncation().is_none() && !record.failures.is_empty())
            .then(|| invalid_score(request.format, &record.result.response))
            .flatten();
        let answer = match (read_answer(*record, error.as_ref()), refused) {
            (Ok(mut answer), _) => {
                self.judge.redactor.value(&mut answer.value);
                Ok(answer)
            }
            (Err(unusable), None) => Err(unusable),
            (Err(_), Some(problem)) => Err(JudgeError {
                reason: format!("{UNFIT_VERDICT}{problem}"),
                kind: JudgeErrorKind::NotAScore,
            }),
        };
        let serves_all = request.shared && answer.is_ok();
        if answer.is_ok() || used.calls > 0 {
            // Without a receiver the run is over.
            let _ = self.judge.record.send(JudgedLine {
                key: (!serves_all).then_some(self.key),
                asked_by: serves_all.then_some(self.key),
                question,
                prompt: kept_prompt(request.prompt),
                label: request.label,
                answer: answer.as_ref().ok().cloned(),
                failure: answer.as_ref().err().map(|error| error.reason.clone()),
                used,
            });
        }
        answer
    }
}

/// The part of a prompt that a journal keeps, with how much it leaves out.
fn kept_prompt(mut prompt: String) -> String {
    let kept = prompt.floor_char_boundary(KEPT_PROMPT);
    let left_out = prompt.len() - kept;
    if left_out > 0 {
        prompt.truncate(kept);
        let _ = write!(prompt, "\n… ({left_out} more bytes)");
    }
    prompt
}

/// The answer of a finished call. One that was cut off counts for nothing, even if a score survived in it.
pub fn read_answer(record: TurnRecord, error: Option<&BackendError>) -> Result<JudgeAnswer, JudgeError> {
    // It says more about the call than what there is of an answer.
    let known = error.and_then(kind_of);
    if known.is_none()
        && let Some(reason) = record.truncation()
    {
        let note = reason.truncation_note();
        return Err(JudgeError::retryable(format!("it did not finish: {note}")));
    }
    if let Some(failure) = record.failures.first() {
        return Err(JudgeError {
            reason: match failure.text.strip_prefix(UNFIT_ANSWER) {
                Some(problem) => format!("{UNFIT_VERDICT}{problem}"),
                None => failure.text.clone(),
            },
            kind: known.unwrap_or_else(|| match error {
                Some(error) if !error.is_retryable() && !matches!(error, BackendError::Timeout { .. }) => {
                    JudgeErrorKind::Final
                }
                // Without an error of the backend, the judge answered with something else.
                _ => JudgeErrorKind::Retryable,
            }),
        });
    }
    match record.result.structured_output {
        Some(value) => Ok(JudgeAnswer {
            scores: odds_of_score(&value, &record.result.number_odds),
            value,
            model: record.result.model,
        }),
        None => Err(JudgeError::retryable("it returned no verdict")),
    }
}

/// Why the score of an answer that was refused is none, if that is what is wrong with it.
fn invalid_score(format: VerdictFormat, response: &str) -> Option<String> {
    let object = response.get(response.find('{')?..=response.rfind('}')?)?;
    format.invalid_score(&parse_json_strictly(object).ok()?)
}

/// The kind of an error that says something about all calls.
pub fn kind_of(error: &BackendError) -> Option<JudgeErrorKind> {
    match error {
        BackendError::ReplayMiss(_) => Some(JudgeErrorKind::RecordingMiss),
        error if error.is_credentials() => Some(JudgeErrorKind::Credentials),
        _ => None,
    }
}

/// The failure of a judge that is one of the run.
pub fn judge_failure(kind: JudgeErrorKind) -> Option<JudgeFailure> {
    match kind {
        JudgeErrorKind::Credentials => Some(JudgeFailure::Credentials),
        JudgeErrorKind::RecordingMiss => Some(JudgeFailure::RecordingMiss),
        JudgeErrorKind::Retryable | JudgeErrorKind::Final | JudgeErrorKind::NotAScore => None,
    }
}

/// The possible scores with their probabilities, if these are of the score in the answer.
fn odds_of_score(answer: &serde_json::Value, odds: &[NumberOdds]) -> Vec<(f64, f64)> {
    let Some(score) = answer.get("score").and_then(serde_json::Value::as_u64) else {
        return Vec::new();
    };
    let of_score = odds
        .iter()
        .filter(|odds| odds.field == "score" && odds.value == score);
    let pairs = of_score.flat_map(|odds| odds.odds.iter());
    // A larger number is no score.
    let pairs =
        pairs.filter_map(|(score, probability)| Some((f64::from(u32::try_from(*score).ok()?), *probability)));
    pairs.collect()
}

#[async_trait]
impl Judge for UnitJudge<'_> {
    fn name(&self, model: Option<&ModelConfig>) -> Option<String> {
        self.judge.name(model)
    }

    async fn ask(&self, mut request: JudgeRequest<'_>) -> Result<JudgeAnswer, JudgeError> {
        self.judge.redactor.mask_text(&mut request.prompt);
        let question = digest(&request, &self.judge.default_model);
        if let Some((answer, used)) = self.answered.get(&question) {
            self.count(used);
            return Ok(answer.clone());
        }
        if !request.shared {
            return self.call(request, question).await;
        }
        let answer = {
            let mut shared = self.judge.shared.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(shared.entry(question.clone()).or_default())
        };
        // One call at a time; an error is not kept.
        let answer = answer.get_or_try_init(|| self.call(request, question)).await?;
        Ok(answer.clone())
    }

    async fn compare(&self, mut request: Comparison<'_>) -> Result<Vec<i64>, JudgeError> {
        self.judge.redactor.mask_text(&mut request.query);
        for text in &mut request.texts {
            self.judge.redactor.mask_text(text);
        }
        let question = digest_comparison(&request, &self.judge.default_embedder);
        if let Some((answer, used)) = self.answered.get(&question) {
            self.count(used);
            return serde_json::from_value(answer.value.clone()).map_err(|error| {
                JudgeError::last(format!("the stored similarities cannot be read: {error}"))
            });
        }
        self.measure(&request, question).await
    }
}

/// The answer, if it comes within the limit.
async fn in_time<T>(limit: Option<Duration>, answer: impl Future<Output = T>) -> Result<T, JudgeError> {
    let Some(limit) = limit else {
        return Ok(answer.await);
    };
    let late = |_| {
        JudgeError::retryable(format!(
            "no similarity within {} ms (`timeout_ms`)",
            limit.as_millis()
        ))
    };
    tokio::time::timeout(limit, answer).await.map_err(late)
}

/// Digest of all that a similarity depends on.
fn digest_comparison(request: &Comparison<'_>, default_embedder: &Value) -> String {
    let embedder = request
        .embedder
        .map_or_else(|| default_embedder.clone(), EmbeddingConfig::answering);
    digest_of(&("similar", embedder, &request.texts, &request.query))
}

/// Digest of all that a judge's answer depends on.
fn digest(request: &JudgeRequest<'_>, default_model: &Value) -> String {
    let model = request
        .model
        .map_or_else(|| default_model.clone(), ModelConfig::answering);
    let parts = (
        model,
        &request.label,
        &request.prompt,
        format!("{:?}", request.format),
    );
    digest_of(&parts)
}

fn digest_of(parts: &impl Serialize) -> String {
    let mut hasher = Sha256::new();
    // Texts can always be written as JSON.
    hasher.update(serde_json::to_vec(parts).unwrap_or_default());
    hex_prefix(&hasher.finalize(), 16)
}
