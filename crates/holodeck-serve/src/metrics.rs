//! Counts runs and open streams of the server, in Prometheus' text format.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The counters of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    runs_started: AtomicU64,
    runs_succeeded: AtomicU64,
    runs_failed: AtomicU64,
    runs_refused: AtomicU64,
    streams: AtomicU64,
    slow_consumers: AtomicU64,
    /// Of services that are gone.
    violations: AtomicU64,
}

/// An open stream of events.
pub(crate) struct OpenStream(Arc<Metrics>);

impl Metrics {
    /// Counts a stream as open until the result is dropped.
    pub(crate) fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.streams.fetch_add(1, Relaxed);
        OpenStream(Arc::clone(self))
    }

    pub(crate) fn count_started(&self) {
        self.runs_started.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_ended(&self, succeeded: bool) {
        let counter = if succeeded {
            &self.runs_succeeded
        } else {
            &self.runs_failed
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.runs_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_slow_consumer(&self) {
        self.slow_consumers.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_violations(&self, count: u64) {
        self.violations.fetch_add(count, Relaxed);
    }

    /// The metrics as text; `violations` are those of the services that exist.
    pub(crate) fn text(&self, violations: u64) -> String {
        let started = self.runs_started.load(Relaxed);
        let (succeeded, failed) = (self.runs_succeeded.load(Relaxed), self.runs_failed.load(Relaxed));
        let active = started.saturating_sub(succeeded).saturating_sub(failed);
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "runs_started_total",
                "counter",
                "Runs that began or wait for their turn.",
                started,
            ),
            (
                "runs_succeeded_total",
                "counter",
                "Runs that ended with an answer.",
                succeeded,
            ),
            (
                "runs_failed_total",
                "counter",
                "Runs that ended without one.",
                failed,
            ),
            (
                "runs_refused_total",
                "counter",
                "Messages refused at the limit of runs.",
                self.runs_refused.load(Relaxed),
            ),
            ("runs_active", "gauge", "Runs that are active or wait.", active),
            (
                "event_streams",
                "gauge",
                "Open streams of events.",
                self.streams.load(Relaxed),
            ),
            (
                "slow_consumers_closed_total",
                "counter",
                "Clients disconnected because they took no data.",
                self.slow_consumers.load(Relaxed),
            ),
            (
                "contract_violations_total",
                "counter",
                "Events of backends that would break the order of a stream and were left out, and of stores that break \
                 the contract.",
                violations.saturating_add(self.violations.load(Relaxed)),
            ),
        ] {
            let name = format!("holodeck_{name}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}
