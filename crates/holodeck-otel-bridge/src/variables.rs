//! Reads OpenTelemetry's variables for OTLP exporters: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>.
//!
//! A setting of the YAML takes precedence, then the variable of a signal, then the general one. No value is shown.

use std::path::PathBuf;

use holodeck_http::{Headers, HttpUrl};
use holodeck_model::{Env, ObservabilityConfig, OtlpExporter, OtlpProtocol};
use opentelemetry_sdk::metrics::Temporality;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    collector::{collector_endpoint, is_grpc_port},
    grpc::percent_decoded,
    wire::{Signal, Wire},
};

/// Switches the export off.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// The start of every other name.
const PREFIX: &str = "OTEL_EXPORTER_OTLP_";

/// The settings that a variable completes, each for every signal or for one.
const SETTINGS: [&str; 7] = [
    "CERTIFICATE",
    "COMPRESSION",
    "ENDPOINT",
    "HEADERS",
    "INSECURE",
    "PROTOCOL",
    "TIMEOUT",
];

/// The longest time that every program can wait, in milliseconds.
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// Settings that only metrics have.
const TEMPORALITY: &str = "TEMPORALITY_PREFERENCE";
const AGGREGATION: &str = "DEFAULT_HISTOGRAM_AGGREGATION";

/// An exporter of the YAML, completed by the variables.
pub(crate) struct Completed {
    pub(crate) otlp: OtlpExporter,
    /// Whether the endpoint is the whole URL of the signal, to which nothing is appended.
    pub(crate) is_whole: bool,
    /// A file with further certificates that are trusted.
    pub(crate) certificate: Option<PathBuf>,
    /// How metrics are counted.
    pub(crate) temporality: Temporality,
    /// Why nothing can be exported.
    pub(crate) problem: Option<String>,
    /// One for each variable that cannot be used.
    pub(crate) warnings: Vec<String>,
}

/// Whether `OTEL_SDK_DISABLED` switches the export off.
pub(crate) fn is_disabled(env: &Env) -> bool {
    env.get(DISABLED).and_then(boolean) == Some(true)
}

/// A warning if `OTEL_SDK_DISABLED` says neither yes nor no.
pub(crate) fn unclear_disabled(env: &Env) -> Option<String> {
    let value = env.non_blank(DISABLED)?;
    boolean(value).is_none().then(|| unclear(DISABLED))
}

/// Completes what the YAML leaves open: for a signal, or with the general variables only.
pub(crate) fn complete(otlp: &OtlpExporter, env: &Env, signal: Option<Signal>) -> Completed {
    let mut completed = Completed {
        otlp: otlp.clone(),
        is_whole: false,
        certificate: None,
        temporality: Temporality::Cumulative,
        problem: None,
        warnings: Vec::new(),
    };
    let reader = Reader { env, signal };
    completed.read_options(&reader);
    completed.read_headers(&reader);
    completed.read_endpoint(&reader);
    completed.read_insecure(&reader);
    completed.certificate = reader.find("CERTIFICATE").map(|found| PathBuf::from(found.value));
    if signal == Some(Signal::Metrics) {
        completed.read_metrics(&reader);
    }
    completed
}

/// A configuration whose exporter is completed by the general variables, for programs that have one endpoint for every
/// signal.
pub fn with_variables(config: &ObservabilityConfig, env: &Env) -> ObservabilityConfig {
    let mut config = config.clone();
    config.enabled &= !is_disabled(env);
    if let Some(otlp) = config
        .exporters
        .as_mut()
        .and_then(|exporters| exporters.otlp.as_mut())
    {
        let completed = complete(otlp, env, None);
        *otlp = completed.otlp;
        // Not to the default instead.
        otlp.enabled &= completed.problem.is_none();
    }
    config
}

/// The values of headers in variables, which nothing may show.
pub fn header_secrets(env: &Env) -> Vec<String> {
    let signals = [None, Some(Signal::Traces), Some(Signal::Metrics)];
    let values = signals.into_iter().filter_map(|signal| {
        let name = variable("HEADERS", signal);
        env.non_blank(&name)
    });
    let headers = values.flat_map(|value| header_list(value).0);
    headers
        .map(|(_, value)| value.expose_secret().to_owned())
        .collect()
}

/// The variables for OTLP exporters that nothing reads: of another signal, unsupported or misspelled. Sorted.
pub(crate) fn unread(env: &Env) -> Vec<&str> {
    let is_read = |name: &str| {
        let signals = [Some(Signal::Traces), Some(Signal::Metrics), None];
        let mut known = signals
            .into_iter()
            .flat_map(|signal| SETTINGS.map(|setting| variable(setting, signal)));
        let of_metrics = [TEMPORALITY, AGGREGATION].map(|setting| variable(setting, Some(Signal::Metrics)));
        known.any(|known| known == name) || of_metrics.iter().any(|known| known == name)
    };
    set_variables(env).filter(|name| !is_read(name)).collect()
}

/// The variables that the CLI of Claude does not get, although the exporter leaves their settings open: those of one signal,
/// and of certificates. Sorted.
pub(crate) fn unknown_to_claude<'a>(otlp: &OtlpExporter, env: &'a Env) -> Vec<&'a str> {
    let is_open = |setting: &str| match setting {
        "COMPRESSION" => otlp.compression.is_none(),
        "ENDPOINT" => is_blank(otlp.endpoint.as_deref()),
        "HEADERS" => otlp.headers.is_empty(),
        "INSECURE" => otlp.insecure.is_none(),
        "PROTOCOL" => otlp.protocol.is_none(),
        "TIMEOUT" => otlp.timeout_ms.is_none(),
        _ => true,
    };
    let signals = [Some(Signal::Traces), Some(Signal::Metrics)];
    let starts = signals.map(|signal| variable("", signal));
    set_variables(env)
        .filter(|name| {
            starts
                .iter()
                .any(|start| name.strip_prefix(start).is_some_and(is_open))
        })
        .collect()
}

/// The variables for OTLP exporters that say something.
fn set_variables(env: &Env) -> impl Iterator<Item = &str> {
    let all = env.iter().filter(|(_, value)| !value.trim().is_empty());
    all.map(|(name, _)| name).filter(|name| name.starts_with(PREFIX))
}

struct Reader<'a> {
    env: &'a Env,
    signal: Option<Signal>,
}

struct Found<'a> {
    name: String,
    value: &'a str,
    of_signal: bool,
}

impl<'a> Reader<'a> {
    /// The variable of the signal, else the general one. Blank is absent.
    fn find(&self, setting: &str) -> Option<Found<'a>> {
        let general = self.signal.is_some().then_some(None);
        [Some(self.signal), general]
            .into_iter()
            .flatten()
            .find_map(|signal| {
                let name = variable(setting, signal);
                let value = self.env.non_blank(&name)?.trim();
                let of_signal = signal.is_some();
                Some(Found {
                    name,
                    value,
                    of_signal,
                })
            })
    }
}

impl Completed {
    /// The value of a variable for an open setting, in small letters; one that cannot be read is named.
    fn read<T>(
        &mut self,
        reader: &Reader<'_>,
        setting: &str,
        expected: &str,
        parse: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let found = reader.find(setting)?;
        let value = parse(&found.value.to_ascii_lowercase());
        if value.is_none() {
            self.warnings.push(ignored(&found.name, expected));
        }
        value
    }

    fn read_options(&mut self, reader: &Reader<'_>) {
        if self.otlp.protocol.is_none() {
            let expected = "it must be `http/protobuf` or `grpc`";
            self.otlp.protocol = self.read(reader, "PROTOCOL", expected, |value| match value {
                "http/protobuf" => Some(OtlpProtocol::Http),
                "grpc" => Some(OtlpProtocol::Grpc),
                _ => None,
            });
        }
        if self.otlp.compression.is_none() {
            let expected = "it must be `gzip` or `none`";
            self.otlp.compression = self.read(reader, "COMPRESSION", expected, |value| {
                ["gzip", "none"].contains(&value).then(|| value.to_owned())
            });
        }
        if self.otlp.timeout_ms.is_none() {
            let expected = "it must be a whole number of milliseconds";
            self.otlp.timeout_ms = self.read(reader, "TIMEOUT", expected, |value| {
                // By the specification, 0 is no limit.
                let timeout = value.parse().ok()?;
                Some(if timeout == 0 {
                    NO_LIMIT
                } else {
                    NO_LIMIT.min(timeout)
                })
            });
        }
    }

    fn read_headers(&mut self, reader: &Reader<'_>) {
        if !self.otlp.headers.is_empty() {
            return;
        }
        let Some(found) = reader.find("HEADERS") else {
            return;
        };
        let (headers, all) = header_list(found.value);
        self.otlp.headers = headers.into_iter().collect();
        if !all {
            let name = found.name;
            self.warnings.push(format!(
                "a part of the variable `{name}` is ignored: each must be `name=value`, with commas between them and \
                 percent-encoded values"
            ));
        }
    }

    fn read_endpoint(&mut self, reader: &Reader<'_>) {
        if !is_blank(self.otlp.endpoint.as_deref()) {
            return;
        }
        let Some(found) = reader.find("ENDPOINT") else {
            return;
        };
        self.otlp.endpoint = Some(found.value.to_owned());
        self.is_whole = found.of_signal && Wire::of(&self.otlp) == Wire::Http;
        let name = found.name;
        let endpoint = collector_endpoint(&self.otlp);
        if self.otlp.protocol.is_none() && is_grpc_port(&endpoint) {
            self.warnings.push(format!(
                "the variable `{name}` names port 4317 of a collector, which speaks gRPC; without a protocol, telemetry is \
                 sent as HTTP: set `{PREFIX}PROTOCOL`, or use port 4318"
            ));
        }
        if HttpUrl::parse(&endpoint).is_err() {
            self.problem = Some(format!(
                "the variable `{name}` is not an `http://` or `https://` URL"
            ));
        }
    }

    /// Only an endpoint of gRPC without a scheme has a use for it.
    fn read_insecure(&mut self, reader: &Reader<'_>) {
        let Some(found) = reader.find("INSECURE").filter(|_| self.otlp.insecure.is_none()) else {
            return;
        };
        let insecure = boolean(found.value);
        if insecure.is_none() {
            self.warnings.push(unclear(&found.name));
        }
        let has_scheme = self
            .otlp
            .endpoint
            .as_deref()
            .is_none_or(|text| text.contains("://"));
        let secure = collector_endpoint(&self.otlp).starts_with("https://");
        if Wire::of(&self.otlp) == Wire::Grpc && !has_scheme {
            self.otlp.insecure = Some(insecure.unwrap_or_default());
        } else if insecure == Some(secure) {
            let hint = "the scheme of the endpoint decides about TLS";
            self.warnings.push(ignored(&found.name, hint));
        }
    }

    fn read_metrics(&mut self, reader: &Reader<'_>) {
        let expected = "it must be `cumulative`, `delta` or `lowmemory`";
        let temporality = self.read(reader, TEMPORALITY, expected, |value| match value {
            "cumulative" => Some(Temporality::Cumulative),
            "delta" => Some(Temporality::Delta),
            "lowmemory" => Some(Temporality::LowMemory),
            _ => None,
        });
        self.temporality = temporality.unwrap_or(Temporality::Cumulative);
        self.read(
            reader,
            AGGREGATION,
            "only `explicit_bucket_histogram` is supported",
            |value| (value == "explicit_bucket_histogram").then_some(()),
        );
    }
}

fn is_blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

fn boolean(text: &str) -> Option<bool> {
    text.trim().to_ascii_lowercase().parse().ok()
}

fn variable(setting: &str, signal: Option<Signal>) -> String {
    match signal {
        Some(Signal::Traces) => format!("{PREFIX}TRACES_{setting}"),
        Some(Signal::Metrics) => format!("{PREFIX}METRICS_{setting}"),
        None => format!("{PREFIX}{setting}"),
    }
}

fn ignored(name: &str, reason: &str) -> String {
    format!("the variable `{name}` is ignored: {reason}")
}

fn unclear(name: &str) -> String {
    format!("the variable `{name}` counts as `false`: it must be `true` or `false`")
}

/// The usable headers of a list, and whether all are usable.
fn header_list(list: &str) -> (Vec<(String, SecretString)>, bool) {
    let mut all = true;
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let headers = parts.filter_map(|part| {
        let header = part.split_once('=').and_then(|(name, value)| {
            let name = name.trim().to_owned();
            let value = SecretString::from(percent_decoded(value.trim()));
            Headers::new().insert_secret(&name, &value).ok()?;
            Some((name, value))
        });
        all &= header.is_some();
        header
    });
    let headers = headers.collect();
    (headers, all)
}
