//! Reads OpenTelemetry's variables for OTLP exporters: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>.
//!
//! A setting of the YAML takes precedence, then the variable of a signal, then the general one. No value is shown.

use holodeck_http::{Headers, HttpUrl};
use holodeck_model::{Env, ObservabilityConfig, OtlpExporter, OtlpProtocol};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    collector::collector_endpoint,
    grpc::percent_decoded,
    wire::{Signal, Wire},
};

/// Switches the export off.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// Settings that the YAML has in another form, with the hint for each.
const UNSUPPORTED: [(&str, &str); 4] = [
    ("CERTIFICATE", "`SSL_CERT_FILE` names further certificates"),
    ("CLIENT_CERTIFICATE", "certificates of clients are not supported"),
    ("CLIENT_KEY", "certificates of clients are not supported"),
    (
        "INSECURE",
        "the scheme of the endpoint or `insecure` decides about TLS",
    ),
];

/// An exporter of the YAML, completed by the variables.
pub(crate) struct Completed {
    pub(crate) otlp: OtlpExporter,
    /// Whether the endpoint is the whole URL of the signal, to which nothing is appended.
    pub(crate) is_whole: bool,
    /// Why nothing can be exported.
    pub(crate) problem: Option<String>,
    /// One for each variable that cannot be used.
    pub(crate) warnings: Vec<String>,
}

/// Whether `OTEL_SDK_DISABLED` switches the export off.
pub(crate) fn is_disabled(env: &Env) -> bool {
    env.get(DISABLED)
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

/// A warning if `OTEL_SDK_DISABLED` says neither yes nor no.
pub(crate) fn unclear_disabled(env: &Env) -> Option<String> {
    let value = env.non_blank(DISABLED)?.trim().to_ascii_lowercase();
    (value != "true" && value != "false").then(|| ignored(DISABLED, "it must be `true` or `false`"))
}

/// Completes what the YAML leaves open: for a signal, or with the general variables only.
pub(crate) fn complete(otlp: &OtlpExporter, env: &Env, signal: Option<Signal>) -> Completed {
    let mut completed = Completed {
        otlp: otlp.clone(),
        is_whole: false,
        problem: None,
        warnings: Vec::new(),
    };
    let reader = Reader { env, signal };
    completed.read_options(&reader);
    completed.read_headers(&reader);
    completed.read_endpoint(&reader);
    for (setting, hint) in UNSUPPORTED {
        if let Some(found) = reader.find(setting) {
            completed.warnings.push(ignored(&found.name, hint));
        }
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
        [self.signal, None].into_iter().find_map(|signal| {
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
    /// The value of a variable for an open setting; one that cannot be read is named.
    fn read<T>(
        &mut self,
        reader: &Reader<'_>,
        setting: &str,
        expected: &str,
        parse: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let found = reader.find(setting)?;
        let value = parse(found.value);
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
            let expected = "it must be a number of milliseconds above 0";
            self.otlp.timeout_ms = self.read(reader, "TIMEOUT", expected, |value| {
                value.parse().ok().filter(|timeout| *timeout > 0)
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
        let written = self.otlp.endpoint.as_deref().unwrap_or_default();
        if !written.trim().is_empty() {
            return;
        }
        let Some(found) = reader.find("ENDPOINT") else {
            return;
        };
        self.otlp.endpoint = Some(found.value.to_owned());
        self.is_whole = found.of_signal && Wire::of(&self.otlp) == Wire::Http;
        if HttpUrl::parse(&collector_endpoint(&self.otlp)).is_err() {
            let name = found.name;
            self.problem = Some(format!(
                "the variable `{name}` is not an `http://` or `https://` URL"
            ));
        }
    }
}

fn variable(setting: &str, signal: Option<Signal>) -> String {
    match signal {
        Some(Signal::Traces) => format!("OTEL_EXPORTER_OTLP_TRACES_{setting}"),
        Some(Signal::Metrics) => format!("OTEL_EXPORTER_OTLP_METRICS_{setting}"),
        None => format!("OTEL_EXPORTER_OTLP_{setting}"),
    }
}

fn ignored(name: &str, reason: &str) -> String {
    format!("the variable `{name}` is ignored: {reason}")
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
