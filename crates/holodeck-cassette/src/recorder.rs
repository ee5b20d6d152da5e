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
use holodeck_model::Redactor;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Cassette, CassetteError,
    entry::{Entry, FORMAT_VERSION, Header, Response, is_of_tools, request_key},
    turn_events,
};

/// Stands before the real driver and writes down every complete answer.
///
/// Entries go to `FILE.partial` as they come, so nothing recorded is lost; [`Recorder::finish`] puts them in order
/// and replaces the old recording in one step.
pub struct Recorder {
    inner: Arc<dyn ModelCalls>,
    tape: Arc<Tape>,
}

/// What becomes of an older recording in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMode {
    /// It is replaced.
    Replace,
    /// Its entries stay where this recording has none for the same request: not every case was run to its end.
    Merge,
}

/// A recording that is being made.
pub struct Tape {
    path: PathBuf,
    redactor: Arc<Redactor>,
    written: Mutex<Written>,
}

struct Written {
    file: File,
    calls: usize,
    /// When the newest entry was made: entries are sorted by it, also if the clock is put back in between.
    latest: Timestamp,
    failed: Option<std::io::Error>,
}

impl Recorder {
    /// Records what `inner` answers into `path`.
    pub fn create(
        path: &Path,
        redactor: Arc<Redactor>,
        inner: Arc<dyn ModelCalls>,
    ) -> Result<Self, CassetteError> {
        Ok(Self::on(Tape::create(path, redactor)?, inner))
    }

    /// Records what `inner` answers on `tape`, beside whatever else is recorded there.
    pub fn on(tape: Arc<Tape>, inner: Arc<dyn ModelCalls>) -> Self {
        Self { inner, tape }
    }

    /// Puts the recording in its place and tells how many model calls it holds.
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
        let request = redacted(request, &self.tape.redactor);
        let tape = Arc::clone(&self.tape);
        Ok(Box::pin(async_stream::stream! {
            let mut response = Response::default();
            while let Some(delta) = stream.next().await {
                if let Ok(delta) = &delta {
                    note(&mut response, delta);
                    if matches!(delta, ModelDelta::Resumed) {
                        // The wait for a rate limit of ours is not the model's latency.
                        started = Instant::now();
                    }
                    if matches!(delta, ModelDelta::Finish { .. }) {
                        let latency = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                        tape.keep(&request, std::mem::take(&mut response), latency);
                    }
                }
                yield delta;
            }
        }))
    }
}

fn note(response: &mut Response, delta: &ModelDelta) {
    match delta {
        ModelDelta::Reasoning(text) => response.reasoning.push_str(text),
        ModelDelta::Text(text) => response.text.push_str(text),
        ModelDelta::Refusal(text) => response.refusal.push_str(text),
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
    /// Begins a recording that will be in `path`.
    pub fn create(path: &Path, redactor: Arc<Redactor>) -> Result<Arc<Self>, CassetteError> {
        let io = |source| CassetteError::Io {
            path: path.display().to_string(),
            source,
        };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        let file = private_file(&partial(path)).map_err(io)?;
        let written = Mutex::new(Written {
            file,
            calls: 0,
            latest: Timestamp::UNIX_EPOCH,
            failed: None,
        });
        let tape = Self {
            path: path.to_owned(),
            redactor,
            written,
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

    /// Writes an answer down, without secrets, and gives it as it was written.
    pub(crate) fn keep(&self, request: &ModelRequest, mut response: Response, latency_ms: u64) -> Response {
        response.text = self.redactor.text(&response.text).into_owned();
        response.reasoning = self.redactor.text(&response.reasoning).into_owned();
        for call in &mut response.tool_calls {
            self.redactor.value(&mut call.arguments);
        }
        for event in &mut response.events {
            turn_events::redact(event, &self.redactor);
        }
        let entry = Entry {
            key: request_key(request),
            recorded_at: self.now(),
            latency_ms,
            request: request.clone(),
            response,
        };
        // A full disk must not break the run; `finish` tells.
        let failure = self.write_line(&entry).err();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.failed = written.failed.take().or(failure);
        written.calls += usize::from(!is_of_tools(&request.provider));
        entry.response
    }

    fn now(&self) -> Timestamp {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.latest = written.latest.max(Timestamp::now());
        written.latest
    }

    fn write_line(&self, value: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .file
            .write_all(&line)
    }

    /// Puts the recording in its place and tells how many model calls it holds.
    pub fn finish(&self, mode: RecordMode) -> Result<usize, CassetteError> {
        let io = |source| CassetteError::Io {
            path: self.path.display().to_string(),
            source,
        };
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = written.failed.take() {
                return Err(io(error));
            }
            if written.calls == 0 {
                std::fs::remove_file(partial(&self.path)).map_err(io)?;
                return Ok(0);
            }
        }
        let mut sources = vec![Cassette::open(&partial(&self.path))?];
        if mode == RecordMode::Merge && self.path.exists() {
            sources.push(Cassette::open(&self.path)?);
        }
        let calls = self.write_sorted(&sources).map_err(|error| match error {
            WriteError::Io(source) => io(source),
            WriteError::Cassette(error) => error,
        })?;
        std::fs::remove_file(partial(&self.path)).map_err(io)?;
        Ok(calls)
    }

    /// Writes the entries of all sources, an earlier source winning over a later one, and renames the result into
    /// place. Calls end in any order; a stable order keeps the diff of two recordings small.
    fn write_sorted(&self, sources: &[Cassette]) -> Result<usize, WriteError> {
        let mut order = Vec::new();
        let mut calls = 0;
        let mut seen = HashSet::new();
        for (source, cassette) in sources.iter().enumerate() {
            let mut keys = Vec::new();
            for (place, entry) in cassette.entries().enumerate() {
                let entry = entry?;
                // The same request of another case is another call.
                let call = (entry.key, entry.request.unit.clone());
                if !seen.contains(&call) {
                    calls += usize::from(!is_of_tools(&entry.request.provider));
                    order.push((entry.request.unit, entry.recorded_at, source, place));
                    keys.push(call);
                }
            }
            seen.extend(keys);
        }
        order.sort();
        let mut name = self.path.as_os_str().to_owned();
        name.push(".sorted");
        let sorted = PathBuf::from(name);
        let mut file = BufWriter::new(private_file(&sorted)?);
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
        std::fs::rename(&sorted, &self.path)?;
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

/// The request as it is written down. Recording and replaying make the key from this form.
pub(crate) fn redacted(request: &ModelRequest, redactor: &Redactor) -> ModelRequest {
    let mut request = request.clone();
    redactor.value(&mut request.body);
    request
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests;
