//! The `observability` block: export of traces, metrics and logs to OpenTelemetry collectors.

use indexmap::IndexMap;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::value::{SecretMap, nullable, read_secret, read_secrets, write_secret, write_secrets};

/// OpenTelemetry export.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObservabilityConfig {
    /// Whether anything is exported.
    pub enabled: bool,
    /// Switch off tracing by the provider.
    #[schemars(extend("x-no-effect" = "no trace is ever uploaded to the model's provider"))]
    pub disable_provider_tracing: bool,
    /// Name of the service; `holodeck-<agent>` if absent.
    pub service_name: Option<String>,
    /// Traces.
    pub traces: Option<TracesConfig>,
    /// Metrics.
    pub metrics: Option<MetricsConfig>,
    /// Logs.
    pub logs: Option<LogsConfig>,
    /// Where telemetry is sent.
    pub exporters: Option<ExportersConfig>,
    /// Attributes of the service.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub resource_attributes: IndexMap<String, String>,
}

/// Traces.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TracesConfig {
    /// Whether traces are exported.
    pub enabled: bool,
    /// Share of traces that is exported.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample_rate: f64,
    /// Whether prompts and answers are in them.
    pub capture_content: bool,
    /// Whether the texts of evaluations are in them.
    pub capture_evaluation_content: bool,
    /// Regular expressions whose matches are masked.
    pub redaction_patterns: Vec<String>,
    /// Maximum number of queued spans.
    #[schemars(range(min = 1))]
    pub max_queue_size: u32,
    /// Maximum number of spans per export; not more than `max_queue_size`.
    #[schemars(range(min = 1))]
    pub max_export_batch_size: u32,
    /// How often they are sent.
    #[schemars(range(min = 100))]
    pub schedule_delay_millis: u32,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            sample_rate: 1.0,
            capture_content: false,
            capture_evaluation_content: false,
            redaction_patterns: Vec::new(),
            max_queue_size: 2048,
            max_export_batch_size: 512,
            schedule_delay_millis: 2000,
        }
    }
}

/// Metrics.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether metrics are exported.
    pub enabled: bool,
    /// How often they are sent.
    #[schemars(range(min = 1000))]
    pub export_interval_ms: u32,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            export_interval_ms: 5000,
        }
    }
}

/// Logs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogsConfig {
    /// Whether logs are exported.
    pub enabled: bool,
    /// Lowest level that is exported.
    pub level: LogLevel,
    /// Whether they include their trace context.
    pub include_trace_context: bool,
    /// Which loggers are exported.
    pub filter_namespaces: Vec<String>,
}

impl Default for LogsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            level: LogLevel::default(),
            include_trace_context: true,
            filter_namespaces: vec!["semantic_kernel".to_owned()],
        }
    }
}

/// Level of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Ordinary events.
    #[default]
    Info,
    /// Possible problems.
    Warning,
    /// Errors.
    Error,
    /// Errors that stop the program.
    Critical,
}

/// Where telemetry is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportersConfig {
    /// The terminal.
    pub console: Option<ConsoleExporter>,
    /// An OTLP collector.
    pub otlp: Option<OtlpExporter>,
    /// Prometheus.
    pub prometheus: Option<PrometheusExporter>,
    /// Azure Monitor.
    pub azure_monitor: Option<AzureMonitorExporter>,
}

/// The terminal.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleExporter {
    /// Whether it is used.
    pub enabled: bool,
    /// Indented.
    pub pretty_print: bool,
    /// With times.
    pub include_timestamps: bool,
}

impl Default for ConsoleExporter {
    fn default() -> Self {
        Self {
            enabled: true,
            pretty_print: true,
            include_timestamps: true,
        }
    }
}

/// An OTLP collector.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpExporter {
    /// Whether it is used.
    pub enabled: bool,
    /// URL; `http://localhost:4318` if absent, for `grpc` port 4317. Without a scheme, `insecure` decides.
    pub endpoint: Option<String>,
    /// Protocol; `http` if absent.
    pub protocol: Option<OtlpProtocol>,
    /// Headers sent to it.
    #[serde(deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub headers: SecretMap,
    /// How long an export may take; 30000 if absent.
    #[schemars(range(min = 1000))]
    pub timeout_ms: Option<u32>,
    /// Compression.
    pub compression: Option<String>,
    /// Whether TLS is disabled; true if absent. An `https://` endpoint always uses TLS.
    pub insecure: Option<bool>,
}

impl Default for OtlpExporter {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: None,
            protocol: None,
            headers: SecretMap::new(),
            timeout_ms: None,
            compression: None,
            insecure: None,
        }
    }
}

/// Protocols of an OTLP collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OtlpProtocol {
    /// gRPC.
    Grpc,
    /// HTTP with protobuf.
    Http,
}

/// Prometheus.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrometheusExporter {
    /// Whether it is used.
    pub enabled: bool,
    /// Port.
    #[schemars(range(min = 1024, max = 65_535))]
    pub port: u32,
    /// Address.
    pub host: String,
    /// Path.
    pub path: String,
}

impl Default for PrometheusExporter {
    fn default() -> Self {
        Self {
            enabled: false,
            port: 8889,
            host: "0.0.0.0".to_owned(),
            path: "/metrics".to_owned(),
        }
    }
}

/// Azure Monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AzureMonitorExporter {
    /// Whether it is used.
    pub enabled: bool,
    /// Connection string; required when enabled.
    #[serde(deserialize_with = "read_secret", serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub connection_string: Option<SecretString>,
    /// Keep nothing on disk.
    pub disable_offline_storage: bool,
    /// Where unsent data is kept.
    pub storage_directory: Option<String>,
}
