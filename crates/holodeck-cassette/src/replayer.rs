//! Answers model calls from a recording. A request that was not recorded is an error, never a guess.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream, RecordedCall};
use holodeck_model::{Redactor, is_repeated_unit};
use tokio_util::sync::CancellationToken;

use crate::{
    Cassette, CassetteError,
    entry::{Entry, request_key},
    recorder::redact_request,
};

/// Answers model calls from a cassette. The n-th equal request gets the n-th recorded answer; later ones get the last
/// answer again.
pub struct Replayer(ReplayCursor);

impl Replayer {
    /// Replays `cassette`. `redactor` must equal the one used for recording, because keys are made of masked requests.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>) -> Self {
        Self(ReplayCursor::new(cassette, redactor))
    }
}

/// A cassette, and how many of the answers to each request were returned.
pub(crate) struct ReplayCursor {
    pub(crate) cassette: Arc<Cassette>,
    redactor: Arc<Redactor>,
    used: Mutex<HashMap<(String, Option<String>), usize>>,
}

impl ReplayCursor {
    pub(crate) fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>) -> Self {
        Self {
            cassette,
            redactor,
            used: Mutex::default(),
        }
    }

    /// The next answer to a request.
    pub(crate) fn next(&self, request: &ModelRequest) -> Result<Entry, NoAnswer> {
        let request = redact_request(request, &self.redactor);
        let key = request_key(&request);
        let candidates = self.cassette.candidates(&key, request.unit.as_deref());
        let foreign =
            request.unit.is_some() && !self.cassette.belong_to(&candidates, request.unit.as_deref());
        let is_repeated = request.unit.as_deref().is_some_and(is_repeated_unit);
        if foreign && is_repeated {
            return Err(NoAnswer::Miss(Box::new(request)));
        }
        if foreign && !self.are_equal(&candidates).map_err(NoAnswer::Cassette)? {
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

    /// Whether all these entries hold the same answer: only then may they answer another case.
    fn are_equal(&self, places: &[usize]) -> Result<bool, CassetteError> {
        let mut first = None;
        for &place in places {
            let answer = self.cassette.entry(place)?.response.answer();
            if *first.get_or_insert_with(|| answer.clone()) != answer {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The error that ends a turn without an answer.
    pub(crate) fn explain(&self, problem: NoAnswer) -> BackendError {
        BackendError::replay_miss(match problem {
            NoAnswer::Miss(request) => self.cassette.describe_miss(&request),
            NoAnswer::Cassette(error) => error.to_string(),
        })
    }
}

/// Why a recording has no answer.
pub(crate) enum NoAnswer {
    /// It has no entry for this masked request.
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
    let calls = response.tool_calls.iter().enumerate();
    let masked = calls.filter(|(_, call)| response.redacted.arguments.contains(&call.call_id));
    let recorded = RecordedCall {
        latency: Duration::from_millis(entry.latency_ms),
        redacted: response.redacted.answer,
        redacted_calls: masked.map(|(place, _)| place).collect(),
    };
    let adapted = response.adapted.into_iter().map(ModelDelta::Adapted);
    let mut deltas: Vec<ModelDelta> = adapted
        .chain(response.notices.into_iter().map(ModelDelta::Notice))
        .collect();
    if !response.reasoning.is_empty() {
        deltas.push(ModelDelta::Reasoning(response.reasoning));
    }
    if !response.text.is_empty() {
        deltas.push(ModelDelta::Text(response.text));
    }
    if !response.number_odds.is_empty() {
        deltas.push(ModelDelta::NumberOdds(response.number_odds));
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
        recorded: Some(recorded),
    });
    deltas
}
