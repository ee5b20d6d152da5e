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
    Cassette,
    entry::{Entry, request_key, stop_reason},
    recorder::redacted,
};

/// Answers model calls from a cassette. The n-th equal request gets the n-th recorded answer; after that the last
/// one again.
pub struct Replayer {
    cassette: Arc<Cassette>,
    redactor: Arc<Redactor>,
    used: Mutex<HashMap<(String, Option<String>), usize>>,
}

impl Replayer {
    /// Replays `cassette`. `redactor` must be made as it was for recording: the key is made of what it leaves.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>) -> Self {
        Self {
            cassette,
            redactor,
            used: Mutex::default(),
        }
    }

    fn find(&self, request: &ModelRequest) -> Result<Entry, BackendError> {
        let request = redacted(request, &self.redactor);
        let key = request_key(&request);
        let candidates = self.cassette.candidates(&key, request.unit.as_deref());
        let Some(last) = candidates.last().copied() else {
            return Err(BackendError::ReplayMiss {
                message: self.cassette.describe_miss(&request),
            });
        };
        let nth = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let count = used.entry((key, request.unit)).or_default();
            *count += 1;
            *count - 1
        };
        let place = candidates.get(nth).copied().unwrap_or(last);
        self.cassette
            .entry(place)
            .map_err(|error| BackendError::ReplayMiss {
                message: error.to_string(),
            })
    }
}

#[async_trait]
impl ModelCalls for Replayer {
    async fn call(&self, request: &ModelRequest, _: &CancellationToken) -> Result<ModelStream, BackendError> {
        let entry = self.find(request)?;
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
        stop_reason: stop_reason(&response.stop_reason),
        message_id: response.message_id,
        model: response.model,
        recorded: Some(RecordedCall {
            latency: Duration::from_millis(entry.latency_ms),
        }),
    });
    deltas
}
