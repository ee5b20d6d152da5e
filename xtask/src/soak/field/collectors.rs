//! Telemetry at a collector that others wrote, Rotel: over HTTP and gRPC, with its endpoint in the variables of OpenTelemetry.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{ModelServer, Reply};

use super::Tested;
use super::child::{Listening, free_port};
use crate::served::{Profile, build};
use crate::{host, services};

/// It prints what it received a moment later.
const PATIENCE: Duration = Duration::from_secs(20);

/// The spans and metrics of a turn, as the collector prints them.
const EXPECTED: [&str; 4] = [
    ": holodeck test\n",
    ": invoke_agent helper\n",
    ": chat m\n",
    "-> Name: gen_ai.client.token.usage\n",
];

/// The variables of a run, after their common prefix, with `HTTP` and `GRPC` as the collector's addresses.
const RUNS: [&[(&str, &str)]; 6] = [
    &[("ENDPOINT", "http://HTTP")],
    &[("ENDPOINT", "http://HTTP/v1/traces"), ("COMPRESSION", "gzip")],
    &[("ENDPOINT", "http://GRPC"), ("PROTOCOL", "grpc")],
    &[
        ("ENDPOINT", "GRPC"),
        ("PROTOCOL", "GRPC"),
        ("INSECURE", "true"),
        ("COMPRESSION", "gzip"),
    ],
    &[
        ("TRACES_ENDPOINT", "http://HTTP/v1/traces"),
        ("METRICS_ENDPOINT", "http://GRPC"),
        ("METRICS_PROTOCOL", "grpc"),
        ("METRICS_TEMPORALITY_PREFERENCE", "delta"),
    ],
    &[
        ("ENDPOINT", "http://HTTP"),
        ("HEADERS", "x-team=blue,authorization=Bearer%20t-1"),
        ("TIMEOUT", "0"),
    ],
];

/// Exports the telemetry of a test in each way.
pub(in crate::soak) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let collector = services::rotel()?;
    for variables in RUNS {
        export(&program, &collector, variables).with_context(|| format!("{variables:?}"))?;
    }
    println!(
        "ok    telemetry at Rotel {}, in {} ways",
        services::ROTEL,
        RUNS.len()
    );
    Ok(())
}

fn export(program: &Path, collector: &Path, variables: &[(&str, &str)]) -> Result<()> {
    let (http, grpc) = (free_port()?, free_port()?);
    let address = |port: u16| format!("127.0.0.1:{port}");
    let mut command = host::command(collector);
    command.args(["start", "--exporter", "blackhole"]);
    command.args(["--otlp-http-endpoint", &address(http)]);
    command.args(["--otlp-grpc-endpoint", &address(grpc)]);
    command.args(["--debug-log", "traces", "--debug-log", "metrics"]);
    command.args(["--debug-log-verbosity", "detailed"]);
    let collector = Listening::start(command, tempfile::tempdir()?, http, PATIENCE)?;
    let model = ModelServer::answering(|_| Reply::text("Hello."));
    let agent = format!(
        "name: helper\nmodel: {{provider: openai, name: m, endpoint: \"{}/v1\", api_key: sk-field}}\n\
         instructions: {{inline: Answer briefly.}}\n\
         observability: {{enabled: true, exporters: {{otlp: {{}}}}}}\n\
         test_cases:\n  - {{name: greeting, input: Hi, evaluations: [{{metric: contains, value: Hello}}]}}\n",
        model.url()
    );
    let env: Vec<(String, String)> = variables
        .iter()
        .map(|(name, value)| {
            let value = value.replace("HTTP", &address(http));
            let value = if *name == "PROTOCOL" {
                value
            } else {
                value.replace("GRPC", &address(grpc))
            };
            (format!("OTEL_EXPORTER_OTLP_{name}"), value)
        })
        .collect();
    let env: Vec<(&str, &str)> = env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let folder = tempfile::tempdir()?;
    let tested = Tested::new(program, folder.path(), &agent, &env)?;
    tested.ensure_passed()?;
    for word in ["telemetry", "OTEL_"] {
        ensure!(!tested.stderr.contains(word), "{}", tested.stderr);
    }
    let started = Instant::now();
    loop {
        let printed = collector.printed();
        let missing: Vec<_> = EXPECTED.iter().filter(|text| !printed.contains(**text)).collect();
        if missing.is_empty() {
            drop(model);
            return Ok(());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "the collector did not print {missing:?}:\n{printed}"
        );
        thread::sleep(Duration::from_millis(100));
    }
}
