//! The inputs of an export besides the YAML.

use std::{io::Write, sync::Arc};

use holodeck_http::HttpOptions;
use holodeck_model::{Env, Redactor};

/// Output of the console exporter.
pub type ConsoleWriter = fn() -> Box<dyn Write + Send>;

/// Inputs of [`Telemetry::start`] besides the YAML.
#[derive(Clone, Debug)]
pub struct TelemetryOptions {
    /// How to reach a collector.
    pub http: HttpOptions,
    /// The variables for OTLP exporters, which complete the YAML.
    pub env: Env,
    /// Output of `exporters.console`.
    pub console: ConsoleWriter,
    /// Redacts secrets in exported content.
    pub redactor: Arc<Redactor>,
    /// Name of the root span of a run, as in `holodeck test`.
    pub run: String,
    /// The W3C `traceparent` of the root span's parent.
    pub parent: Option<String>,
    /// The earlier run whose answers are graded again.
    pub regraded: Option<String>,
}
