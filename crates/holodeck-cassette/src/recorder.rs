//! Records complete answers of a model and replaces the old recording in one step at the end.
//!
//! An interrupted recording must leave the old one unchanged, and no secret may reach the file.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, ModelCalls, ModelDelta, ModelRequest, ModelStream};
use holodeck_model::{Redactor, TokenUsage};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Cassette, CassetteError,
    entry::{Entry, FORMAT_VERSION, Header, Response, is_beside_models, request_key},
};

/// Wraps the real driver and records every complete answer.
///
/// Entries go to `FILE.partial` as they arrive, so nothing recorded is lost; [`Recorder::finish`] sorts them and
/// replaces the old recording in one step.
pub struct Recorder {
    inner: Arc<dyn ModelCalls>,
    tape: Arc<Tape>,
}

/// How to handle an older recording in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMode {
    /// It is replaced.
    Replace,
    /// Entries without a new one for the same request are kept: not every case was completed.
    Merge,
}

/// A recording that is being written.
pub struct Tape {
    path: PathBuf,
    redactor: Arc<Redactor>,
    state: Mutex<TapeState>,
}

struct TapeState {
    file: File,
    calls: usize,
    /// The time of the newest entry. It never decreases, even if the clock does, because entries are sorted by it.
    latest: Timestamp,
    failed: Option<std::io::Error>,
}

impl Recorder {
    /// Records the answers of `inner` in `path`.
    pub fn create(
        path: &Path,
        redactor: Arc<Redactor>,
        inner: Arc<dyn ModelCalls>,
    ) -> Result<Self, CassetteError> {
        Ok(Self::with_tape(Tape::create(path, redactor)?, inner))
    }

    /// Records the answers of `inner` on `tape`, which other recorders may share.
    pub fn with_tape(tape: Arc<Tape>, inner: Arc<dyn ModelCalls>) -> Self {
        Self { inner, tape }
    }

    /// Moves the recording into place and returns its number of model calls.
    pub fn finish(&self, mode: RecordMode) -> Result<usize, CassetteError> {
        self.tape.finish(mode)
    }
}

#[async_trait]
impl ModelCalls for Recorder {
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError> {
        let mut started = Instant::now();
        let mut stream = self.inner.call(request, cancel).await?;
        let request = redact_request(request, &self.tape.redactor);
        let tape = Arc::clone(&self.tape);
        Ok(Box::pin(async_stream::stream! {
            let mut response = Response::default();
            while let Some(delta) = stream.next().await {
                if let Ok(delta) = &delta {
                    append_delta(&mut response, delta);
                    if matches!(delta, ModelDelta::Resumed) {
                        // The wait for the configured rate limit is not the model's latency.
                        started = Instant::now();
                    }
                    if matches!(delta, ModelDelta::Finish { .. }) {
                        let latency = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                        tape.record(&request, std::mem::take(&mut response), latency);
                    }
                }
                yield delta;
            }
        }))
    }
}

fn append_delta(response: &mut Response, delta: &ModelDelta) {
    match delta {
        ModelDelta::Adapted(adaptation) => response.adapted.push(adaptation.clone()),
        ModelDelta::Notice(notice) if !response.notices.contains(notice) => {
            response.notices.push(notice.clone());
        }
        ModelDelta::Reasoning(text) => response.reasoning.push_str(text),
        ModelDelta::Text(text) => response.text.push_str(text),
        ModelDelta::TextWasReasoning => {
            let text = std::mem::take(&mut response.text);
            response.reasoning.push_str(&text);
        }
        ModelDelta::Refusal(text) => response.refusal.push_str(text),
        ModelDelta::NumberOdds(odds) => response.number_odds.clone_from(odds),
        ModelDelta::ToolCall(call) => response.tool_calls.push(call.clone()),
        ModelDelta::Usage(usage) => response.usage = Some(*usage),
        ModelDelta::Finish {
            stop_reason,
            message_id,
            model,
            ..
        } => {
            stop_reason.as_str().clone_into(&mut response.stop_reason);
            response.message_id.clone_from(message_id);
            response.model.clone_from(model);
        }
        _ => {}
    }
}

impl Tape {
    /// Starts a recording for `path`.
    pub fn create(path: &Path, redactor: Arc<Redactor>) -> Result<Arc<Self>, CassetteError> {
        let io = |source| CassetteError::Io {
            path: path.display().to_string(),
            source,
        };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        let file = create_private_file(&partial_path(path)).map_err(io)?;
        let state = Mutex::new(TapeState {
            file,
            calls: 0,
            latest: Timestamp::UNIX_EPOCH,
            failed: None,
        });
        let tape = Self {
            path: path.to_owned(),
            redactor,
            state,
        };
        tape.write_line(&Header {
            holodeck_cassette: FORMAT_VERSION,
        })
        .map_err(io)?;
        Ok(Arc::new(tape))
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Masks and records an answer, and returns it as recorded.
    pub(crate) fn record(&self, request: &ModelRequest, mut response: Response, latency_ms: u64) -> Response {
        response.redact(&self.redactor);
        let entry = Entry {
            key: request_key(request),
            recorded_at: self.now(),
            latency_ms,
            request: request.clone(),
            response,
        };
        // A full disk must not interrupt the run; `finish` reports the error.
        let failure = self.write_line(&entry).err();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed = state.failed.take().or(failure);
        state.calls += usize::from(!is_beside_models(&request.provider));
        entry.response
    }

    /// Masks and records a value that was computed beside the models, as JSON.
    pub(crate) fn record_value(
        &self,
        request: &ModelRequest,
        value: &impl serde::Serialize,
        usage: Option<TokenUsage>,
        started: Instant,
    ) {
        let latency = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let response = Response {
            text: serde_json::to_string(value).unwrap_or_default(),
            stop_reason: "result".to_owned(),
            usage,
            ..Response::default()
        };
        self.record(&redact_request(request, &self.redactor), response, latency);
    }

    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.latest = state.latest.max(Timestamp::now());
        state.latest
    }

    fn write_line(&self, value: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .file
            .write_all(&line)
    }

    /// Moves the recording into place and returns its number of model calls.
    pub fn finish(&self, mode: RecordMode) -> Result<usize, CassetteError> {
        let io = |source| CassetteError::Io {
            path: self.path.display().to_string(),
            source,
        };
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = state.failed.take() {
                // A partial recording is useless, and the disk may be full. Report the first error.
                let _ = std::fs::remove_file(partial_path(&self.path));
                return Err(io(error));
            }
            if state.calls == 0 {
                std::fs::remove_file(partial_path(&self.path)).map_err(io)?;
                return Ok(0);
            }
        }
        let mut sources = vec![Cassette::open(&partial_path(&self.path))?];
        if mode == RecordMode::Merge && self.path.exists() {
            sources.push(Cassette::open(&self.path)?);
        }
        let sorted = path_with_suffix(&self.path, ".sorted");
        let calls = self.write_sorted(&sources, &sorted).map_err(|error| {
            // The calls stay in the `.partial` file.
            let _ = std::fs::remove_file(&sorted);
            match error {
                WriteError::Io(source) => io(source),
                WriteError::Cassette(error) => error,
            }
        })?;
        std::fs::remove_file(partial_path(&self.path)).map_err(io)?;
        Ok(calls)
    }

    /// Writes the entries of all sources and renames the result into place. For equal calls an earlier source takes
    /// precedence. Calls end in any order; sorting keeps the diff of two recordings small.
    fn write_sorted(&self, sources: &[Cassette], sorted: &Path) -> Result<usize, WriteError> {
        let mut order = Vec::new();
        let mut calls = 0;
        let mut seen = HashSet::new();
        for (source, cassette) in sources.iter().enumerate() {
            let mut keys = Vec::new();
            for (place, entry) in cassette.entries().enumerate() {
                let entry = entry?;
                // Equal requests of different cases are different calls.
                let call = (entry.key, entry.request.unit.clone());
                if !seen.contains(&call) {
                    calls += usize::from(!is_beside_models(&entry.request.provider));
                    order.push((entry.request.unit, entry.recorded_at, source, place));
                    keys.push(call);
                }
            }
            seen.extend(keys);
        }
        order.sort();
        let mut file = BufWriter::new(create_private_file(sorted)?);
        serde_json::to_writer(
            &mut file,
            &Header {
                holodeck_cassette: FORMAT_VERSION,
            },
        )
        .map_err(std::io::Error::from)?;
        for (.., source, place) in &order {
            if let Some(cassette) = sources.get(*source) {
                file.write_all(b"\n")?;
                serde_json::to_writer(&mut file, &cassette.entry(*place)?).map_err(std::io::Error::from)?;
            }
        }
        file.write_all(b"\n")?;
        file.into_inner()
            .map_err(std::io::IntoInnerError::into_error)?
            .sync_all()?;
        std::fs::rename(sorted, &self.path)?;
        Ok(calls)
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Cassette(#[from] CassetteError),
}

/// The request as it is recorded. Recording and replaying compute the key from this form: a value that only looks like
/// a secret contributes a digest to the key, a secret of the agent contributes nothing.
pub(crate) fn redact_request(request: &ModelRequest, redactor: &Redactor) -> ModelRequest {
    let mut request = request.clone();
    redactor.mask_value_with_digests(request.body.make_mut());
    request
}

fn partial_path(path: &Path) -> PathBuf {
    path_with_suffix(path, ".partial")
}

fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn create_private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests;
