use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream, RecordedCall};
use holodeck_model::Redactor;
use tokio_util::sync::CancellationToken;

use crate::{
    Cassette, CassetteError,
    entry::{Entry, request_key},
    recorder::redacted,
};

/// Answers model calls from a cassette. The n-th equal request gets the n-th recorded answer; after that the last
/// one again.
pub struct Replayer(Reel);

impl Replayer {
    /// Replays `cassette`. `redactor` must be made as it was for recording: the key is made of what it leaves.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>) -> Self {
        Self(Reel::new(cassette, redactor))
    }
}

/// A cassette, and how far each of its answers was given.
pub(crate) struct Reel {
    pub(crate) cassette: Arc<Cassette>,
    redactor: Arc<Redactor>,
    used: Mutex<HashMap<(String, Option<String>), usize>>,
}

impl Reel {
    pub(crate) fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>) -> Self {
        Self {
            cassette,
            redactor,
            used: Mutex::default(),
        }
    }

    /// The next answer to a request; an error says what is missing.
    pub(crate) fn next(&self, request: &ModelRequest) -> Result<Entry, NoAnswer> {
        let request = redacted(request, &self.redactor);
        let key = request_key(&request);
        let candidates = self.cassette.candidates(&key, request.unit.as_deref());
        let foreign = request.unit.is_some() && !self.cassette.has_own(&candidates, request.unit.as_deref());
        if foreign && !self.answer_alike(&candidates).map_err(NoAnswer::Cassette)? {
            return Err(NoAnswer::Miss(Box::new(request)));
        }
        let Some(last) = candidates.last().copied() else {
            return Err(NoAnswer::Miss(Box::new(request)));
        };
        let nth = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let count = used.entry((key, request.unit)).or_default();
            *count += 1;
            *count - 1
        };
        let place = candidates.get(nth).copied().unwrap_or(last);
        self.cassette.entry(place).map_err(NoAnswer::Cassette)
    }

    /// Whether all these entries hold the same answer: only then one may answer another case.
    fn answer_alike(&self, places: &[usize]) -> Result<bool, CassetteError> {
        let mut first = None;
        for &place in places {
            let answer = self.cassette.entry(place)?.response.answer();
            if *first.get_or_insert_with(|| answer.clone()) != answer {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Why there is no answer, as what ends a turn.
    pub(crate) fn explain(&self, problem: NoAnswer) -> BackendError {
        BackendError::ReplayMiss {
            message: match problem {
                NoAnswer::Miss(request) => self.cassette.describe_miss(&request),
                NoAnswer::Cassette(error) => error.to_string(),
            },
        }
    }
}

/// Why a recording does not answer.
pub(crate) enum NoAnswer {
    /// It has no such request, as it would be written down.
    Miss(Box<ModelRequest>),
    Cassette(CassetteError),
}

#[async_trait]
impl ModelCalls for Replayer {
    async fn call(&self, request: &ModelRequest, _: &CancellationToken) -> Result<ModelStream, BackendError> {
        let entry = self.0.next(request).map_err(|problem| self.0.explain(problem))?;
        Ok(Box::pin(futures::stream::iter(deltas(entry).into_iter().map(Ok))))
    }
}

fn deltas(entry: Entry) -> Vec<ModelDelta> {
    let response = entry.response;
    let mut deltas = Vec::new();
    if !response.reasoning.is_empty() {
        deltas.push(ModelDelta::Reasoning(response.reasoning));
    }
    if !response.text.is_empty() {
        deltas.push(ModelDelta::Text(response.text));
    }
    if !response.refusal.is_empty() {
        deltas.push(ModelDelta::Refusal(response.refusal));
    }
    deltas.extend(response.tool_calls.into_iter().map(ModelDelta::ToolCall));
    deltas.extend(response.usage.map(ModelDelta::Usage));
    deltas.push(ModelDelta::Finish {
        stop_reason: response.stop_reason.into(),
        message_id: response.message_id,
        model: response.model,
        recorded: Some(RecordedCall {
            latency: Duration::from_millis(entry.latency_ms),
        }),
    });
    deltas
}
