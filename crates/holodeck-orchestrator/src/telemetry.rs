//! Events about how commands were routed. A sink that fails changes no outcome.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use holodeck_model::{JsonMap, Redactor, RoutingDecision, TerminationReason};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// An event about a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TelemetryRecord {
    /// When it happened, UTC.
    pub timestamp: Timestamp,
    /// The execution.
    pub session_id: String,
    /// The event.
    pub event: ExecutionEvent,
    /// Its details.
    pub payload: JsonMap,
    /// Tags that identify the program that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<JsonMap>,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum ExecutionEvent {
    /// It was decided what executes the command if the agent's backend does not.
    #[serde(rename = "execution.routed")]
    Routed,
    /// The agent's backend was considered.
    #[serde(rename = "execution.sdk_routed")]
    SdkRouted,
    /// The command is over.
    #[serde(rename = "execution.completed")]
    Completed,
}

impl ExecutionEvent {
    /// The name, as in `execution.routed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Routed => "execution.routed",
            Self::SdkRouted => "execution.sdk_routed",
            Self::Completed => "execution.completed",
        }
    }
}

/// Receives events about commands.
pub trait TelemetrySink: Send + Sync {
    /// Takes an event.
    fn record(&self, record: &TelemetryRecord) -> io::Result<()>;

    /// Writes what is held back.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// All sinks of a facade. The first error of each is a warning.
#[derive(Clone, Default)]
pub(crate) struct Sinks(Arc<Vec<Watched>>);

struct Watched {
    sink: Arc<dyn TelemetrySink>,
    has_failed: AtomicBool,
}

impl Sinks {
    pub(crate) fn new(sinks: Vec<Arc<dyn TelemetrySink>>) -> Self {
        let watched = sinks.into_iter().map(|sink| Watched {
            sink,
            has_failed: AtomicBool::new(false),
        });
        Self(Arc::new(watched.collect()))
    }

    pub(crate) fn record<P: Serialize>(&self, session_id: &str, event: ExecutionEvent, payload: &P) {
        let payload = match serde_json::to_value(payload) {
            Ok(Value::Object(fields)) => fields,
            _ => JsonMap::new(),
        };
        let record = TelemetryRecord {
            timestamp: Timestamp::now(),
            session_id: session_id.to_owned(),
            event,
            payload,
            tags: None,
        };
        self.each(|sink| sink.record(&record));
    }

    pub(crate) fn flush(&self) {
        self.each(|sink| sink.flush());
    }

    fn each(&self, act: impl Fn(&dyn TelemetrySink) -> io::Result<()>) {
        for Watched { sink, has_failed } in &*self.0 {
            let result = catch_unwind(AssertUnwindSafe(|| act(&**sink)));
            let problem = match result {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the sink panicked".to_owned(),
            };
            if !has_failed.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    target: "holodeck::routing",
                    reason = problem,
                    "telemetry of commands is incomplete"
                );
            }
        }
    }
}

/// Payload of `execution.routed`.
#[derive(Serialize)]
pub(crate) struct Routed<'a> {
    pub(crate) command: &'a str,
    pub(crate) runtime_mode: &'static str,
    pub(crate) skill_id: Option<&'a str>,
    pub(crate) session_id: &'a str,
    pub(crate) requires_worktree: bool,
    pub(crate) requires_consensus: bool,
}

/// Payload of `execution.sdk_routed`.
#[derive(Serialize)]
pub(crate) struct SdkRouted<'a> {
    pub(crate) command: &'a str,
    pub(crate) runtime_mode: &'static str,
    pub(crate) session_id: &'a str,
    pub(crate) routing_decision: RoutingDecision,
    pub(crate) should_fallback: bool,
    pub(crate) agent_used: Option<&'a str>,
    pub(crate) confidence: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fallback_reason: Option<&'a str>,
}

/// Payload of `execution.completed`.
#[derive(Serialize)]
pub(crate) struct Completed<'a> {
    pub(crate) command: &'a str,
    pub(crate) runtime_mode: Option<&'static str>,
    pub(crate) session_id: &'a str,
    pub(crate) success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    pub(crate) iteration_count: u32,
    pub(crate) termination_reason: Option<TerminationReason>,
    pub(crate) duration_ms: u64,
}

/// Writes events to a file, one JSON object a line. Several processes may write to the same file.
pub struct JsonLines {
    file: Mutex<File>,
    redactor: Arc<Redactor>,
}

impl JsonLines {
    /// Opens the file, or creates it readable only by its owner. Secrets are masked.
    pub fn open(path: &Path, redactor: Arc<Redactor>) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file: Mutex::new(file),
            redactor,
        })
    }
}

impl TelemetrySink for JsonLines {
    fn record(&self, record: &TelemetryRecord) -> io::Result<()> {
        let mut value = serde_json::to_value(record)?;
        self.redactor.mask_value(&mut value);
        let mut line = serde_json::to_vec(&value)?;
        line.push(b'\n');
        // One write for each line, so that lines of several writers do not mix.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
    }

    fn flush(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_whole_private_and_masked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/telemetry.jsonl");
        let redactor = Arc::new(Redactor::new(["s3cr3t-value-1".to_owned()]));
        let sink: Arc<dyn TelemetrySink> = Arc::new(JsonLines::open(&path, redactor).unwrap());
        let sinks = Sinks::new(vec![Arc::clone(&sink), sink]);
        let payload = json!({"command": "review s3cr3t-value-1"});
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        sinks.record("s1", ExecutionEvent::Completed, &payload);
                    }
                });
            }
        });
        sinks.flush();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2 * 8 * 50);
        assert_eq!(lines[0]["event"], "execution.completed");
        assert_eq!(lines[0]["session_id"], "s1");
        assert!(!text.contains("s3cr3t"), "{}", lines[0]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
