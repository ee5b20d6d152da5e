//! Tests of OpenTelemetry's variables: their order, where requests go, and values that are never shown.

use std::time::Duration;

use holodeck_model::Env;
use holodeck_otel_bridge::{Telemetry, TelemetryOptions, check, claude_env, header_secrets, with_variables};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    agent::{Scripted, agent, options, plain, wrap},
    collector::Collector,
    grpc::accepting,
    spans::run,
};

const PREFIX: &str = "OTEL_EXPORTER_OTLP_";

/// Variables without their prefix, with `URL` as the collector's.
fn env(variables: &[(&str, &str)], url: &str) -> Env {
    let variables = variables.iter();
    variables
        .map(|(name, value)| (format!("{PREFIX}{name}"), value.replace("URL", url)))
        .collect()
}

fn observability(exporter: &Value) -> Value {
    json!({"enabled": true, "exporters": {"otlp": exporter}})
}

/// Runs one turn, and returns the warning at the end.
async fn export(exporter: &Value, env: Env) -> Option<String> {
    let options = TelemetryOptions { env, ..options() };
    let telemetry = Telemetry::start(&agent("openai", &observability(exporter)), &options);
    let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
    assert!(run(&backend).await.last().unwrap().is_ok());
    telemetry.shutdown(Duration::from_secs(30)).await
}

fn paths(collector: &Collector) -> Vec<String> {
    let received = collector.received();
    let mut paths: Vec<_> = received.into_iter().map(|received| received.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn warnings(exporter: &Value, env: &Env) -> Vec<String> {
    let found = check(&agent("openai", &observability(exporter)), env);
    found.into_iter().map(|diagnostic| diagnostic.message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_endpoint_gets_the_path_of_its_signal_once() {
    let both = ["/v1/metrics", "/v1/traces"];
    let below = ["/base/v1/metrics", "/base/v1/traces"];
    for (end, paths_expected) in [
        ("", both),
        ("/", both),
        ("/base", below),
        ("/base/", below),
        ("/v1/traces", both),
        ("/v1/traces/", both),
        ("/v1/metrics", both),
        ("/base/v1/traces", below),
        ("/base/v1/logs?x=1", below),
        ("/xv1/traces", ["/xv1/traces/v1/metrics", "/xv1/traces/v1/traces"]),
    ] {
        let collector = Collector::start().await;
        let endpoint = format!("{}{end}", collector.url);
        assert_eq!(export(&json!({"endpoint": endpoint}), Env::empty()).await, None);
        assert_eq!(paths(&collector), paths_expected, "field {end}");
        let collector = Collector::start().await;
        let variables = env(&[("ENDPOINT", &format!("URL{end}"))], &collector.url);
        assert_eq!(warnings(&json!({}), &variables), [] as [String; 0]);
        assert_eq!(export(&json!({}), variables).await, None);
        assert_eq!(paths(&collector), paths_expected, "variable {end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_of_a_signal_is_used_as_it_is() {
    for (variables, expected) in [
        (
            vec![("TRACES_ENDPOINT", "URL/t"), ("METRICS_ENDPOINT", "URL/m/")],
            ["/m/", "/t"],
        ),
        (
            vec![("TRACES_ENDPOINT", "URL"), ("METRICS_ENDPOINT", "URL/v1/traces")],
            ["/", "/v1/traces"],
        ),
        (
            vec![("TRACES_ENDPOINT", "URL/t"), ("ENDPOINT", "URL/base")],
            ["/base/v1/metrics", "/t"],
        ),
        (
            vec![("METRICS_ENDPOINT", "URL/m"), ("ENDPOINT", "URL")],
            ["/m", "/v1/traces"],
        ),
        (
            vec![("METRICS_ENDPOINT", " "), ("ENDPOINT", " URL ")],
            ["/v1/metrics", "/v1/traces"],
        ),
    ] {
        let collector = Collector::start().await;
        assert_eq!(export(&json!({}), env(&variables, &collector.url)).await, None);
        assert_eq!(paths(&collector), expected, "{variables:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_yaml_precede_variables() {
    let collector = Collector::start().await;
    let exporter = json!({"endpoint": collector.url, "protocol": "http", "compression": "none",
        "timeout_ms": 9000, "headers": {"x-from": "yaml"}});
    let variables = env(
        &[
            ("ENDPOINT", "http://127.0.0.1:1"),
            ("TRACES_ENDPOINT", "http://127.0.0.1:1/t"),
            ("METRICS_ENDPOINT", "http://127.0.0.1:1/m"),
            ("PROTOCOL", "grpc"),
            ("COMPRESSION", "gzip"),
            ("TIMEOUT", "1"),
            ("HEADERS", "x-from=variable,x-other=1"),
        ],
        "",
    );
    assert_eq!(export(&exporter, variables.clone()).await, None);
    assert_eq!(paths(&collector), ["/v1/metrics", "/v1/traces"]);
    for received in collector.received() {
        assert_eq!(received.header("x-from"), Some("yaml"));
        assert_eq!(received.header("x-other"), None);
        assert_eq!(received.header("content-encoding"), None);
    }
    let config = agent("anthropic", &observability(&exporter))
        .config
        .observability
        .clone()
        .unwrap();
    let of_yaml = claude_env(&config, "a", None);
    assert!(claude_env(&with_variables(&config, &variables), "a", None) == of_yaml);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_compression_of_a_signal_precede_the_general_ones() {
    let collector = Collector::start().await;
    let variables = env(
        &[
            ("ENDPOINT", "URL"),
            ("HEADERS", " authorization = Bearer%20a%2Cb%3D , x-team=blue,,"),
            ("METRICS_HEADERS", "x-team=green"),
            ("COMPRESSION", "gzip"),
            ("METRICS_COMPRESSION", "none"),
        ],
        &collector.url,
    );
    assert_eq!(warnings(&json!({}), &variables), [] as [String; 0]);
    let mut secrets = header_secrets(&variables);
    secrets.sort_unstable();
    assert_eq!(secrets, ["Bearer a,b=", "blue", "green"]);
    assert_eq!(export(&json!({}), variables).await, None);
    for received in collector.received() {
        let header = |name| received.header(name);
        if received.path == "/v1/traces" {
            assert_eq!(header("authorization"), Some("Bearer a,b="));
            assert_eq!(header("x-team"), Some("blue"));
            assert_eq!(header("content-encoding"), Some("gzip"));
        } else {
            assert_eq!(header("authorization"), None);
            assert_eq!(header("x-team"), Some("green"));
            assert_eq!(header("content-encoding"), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_of_a_variable_is_used() {
    for variables in [
        vec![("ENDPOINT", "URL/ignored"), ("PROTOCOL", "grpc")],
        vec![
            ("ENDPOINT", "URL"),
            ("PROTOCOL", "http/protobuf"),
            ("TRACES_PROTOCOL", "grpc"),
            ("METRICS_PROTOCOL", "grpc"),
        ],
        vec![
            ("TRACES_ENDPOINT", "URL/t"),
            ("METRICS_ENDPOINT", "URL"),
            ("PROTOCOL", "grpc"),
        ],
    ] {
        let collector = accepting().await;
        assert_eq!(export(&json!({}), env(&variables, &collector.url)).await, None);
        assert_eq!(paths(&collector), ["/v1/metrics", "/v1/traces"], "{variables:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_of_a_variable_is_used() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let variables = env(&[("ENDPOINT", "URL"), ("TIMEOUT", "300")], &url);
    let warning = export(&json!({}), variables).await.unwrap();
    assert!(warning.ends_with(" within 0.3 s"), "{warning}");
}

#[test]
fn a_variable_that_cannot_be_used_is_named_without_its_value() {
    for signal in ["", "TRACES_", "METRICS_"] {
        for (setting, value, expected) in [
            (
                "PROTOCOL",
                "http/json",
                "is ignored: it must be `http/protobuf` or `grpc`",
            ),
            (
                "PROTOCOL",
                "hush",
                "is ignored: it must be `http/protobuf` or `grpc`",
            ),
            ("COMPRESSION", "hush", "is ignored: it must be `gzip` or `none`"),
            ("COMPRESSION", "zstd", "is ignored: it must be `gzip` or `none`"),
            (
                "TIMEOUT",
                "hush",
                "is ignored: it must be a whole number of milliseconds",
            ),
            (
                "TIMEOUT",
                "-1",
                "is ignored: it must be a whole number of milliseconds",
            ),
            (
                "TIMEOUT",
                "1.5",
                "is ignored: it must be a whole number of milliseconds",
            ),
            (
                "TIMEOUT",
                "99999999999",
                "is ignored: it must be a whole number of milliseconds",
            ),
            ("HEADERS", "hush", "is ignored: each must be `name=value`"),
            ("HEADERS", "a b=hush", "is ignored: each must be `name=value`"),
            ("HEADERS", "x=hu%0Ash", "is ignored: each must be `name=value`"),
            (
                "HEADERS",
                "x-team=blue,=hush",
                "is ignored: each must be `name=value`",
            ),
            (
                "ENDPOINT",
                "ftp://me:hush@c?hush=hush",
                "is not an `http://` or `https://` URL",
            ),
            (
                "ENDPOINT",
                "http://hush:hush",
                "is not an `http://` or `https://` URL",
            ),
            (
                "ENDPOINT",
                "http://hush:4317",
                "names port 4317 of a collector, which speaks gRPC",
            ),
            (
                "INSECURE",
                "hush",
                "counts as `false`: it must be `true` or `false`",
            ),
            (
                "INSECURE",
                "false",
                "is ignored: the scheme of the endpoint decides about TLS",
            ),
        ] {
            let name = format!("{signal}{setting}");
            let found = warnings(&json!({}), &env(&[(&name, value)], ""));
            let [warning] = found.as_slice() else {
                panic!("{name}={value}: {found:?}")
            };
            let expected = format!("`{PREFIX}{name}` {expected}");
            assert!(warning.contains(&expected), "{warning}");
            assert!(!warning.contains("hush"), "{warning}");
        }
    }
    for (name, value, expected) in [
        (
            "TEMPORALITY_PREFERENCE",
            "hush",
            "it must be `cumulative`, `delta` or `lowmemory`",
        ),
        (
            "DEFAULT_HISTOGRAM_AGGREGATION",
            "base2_exponential_bucket_histogram",
            "only `explicit_bucket_histogram` is supported",
        ),
    ] {
        let name = format!("METRICS_{name}");
        let found = warnings(&json!({}), &env(&[(&name, value)], ""));
        assert_eq!(
            found,
            [format!("the variable `{PREFIX}{name}` is ignored: {expected}")]
        );
    }
}

#[test]
fn every_other_variable_of_otlp_is_named_in_one_warning() {
    let names = [
        "CLIENT_CERTIFICATE",
        "CLIENT_KEY",
        "ENDPOINTS",
        "LOGS_ENDPOINT",
        "LOGS_HEADERS",
        "METRIC_INSECURE",
        "PROFILES_ENDPOINT",
        "TRACES_CLIENT_KEY",
        "TRACES_TEMPORALITY_PREFERENCE",
    ];
    let set = names.map(|name| (name, "hush"));
    let mut all = set.to_vec();
    all.extend([("LOGS_TIMEOUT", " "), ("TIMEOUT", "5")]);
    let listed = names.map(|name| format!("`{PREFIX}{name}`")).join(", ");
    assert_eq!(
        warnings(&json!({}), &env(&all, "")),
        [format!("HoloDeck's telemetry does not follow {listed}")]
    );
    let off = warnings(&json!({"enabled": false}), &env(&all, ""));
    assert_eq!(off, [] as [String; 0]);
}

#[test]
fn the_variables_of_one_signal_that_the_cli_of_claude_does_not_get_are_named() {
    let settings = [
        ("CERTIFICATE", "/ca"),
        ("COMPRESSION", "gzip"),
        ("ENDPOINT", "http://c"),
        ("HEADERS", "a=hush"),
        ("INSECURE", "true"),
        ("PROTOCOL", "grpc"),
        ("TIMEOUT", "7"),
    ];
    let of_claude = |exporter: &Value, env: &Env| -> Vec<String> {
        let found = check(&agent("anthropic", &observability(exporter)), env);
        found.into_iter().map(|diagnostic| diagnostic.message).collect()
    };
    for signal in ["TRACES", "METRICS"] {
        let names: Vec<String> = settings.map(|(name, _)| format!("{signal}_{name}")).to_vec();
        let all: Vec<(&str, &str)> = names
            .iter()
            .zip(settings)
            .map(|(name, (_, value))| (name.as_str(), value))
            .collect();
        let env = env(&all, "");
        let listed: Vec<String> = names.iter().map(|name| format!("`{PREFIX}{name}`")).collect();
        assert_eq!(
            of_claude(&json!({}), &env),
            [format!(
                "the telemetry of the Claude CLI does not follow {}: it gets the variables for all signals, without certificates",
                listed.join(", ")
            )]
        );
        assert_eq!(warnings(&json!({}), &env), [] as [String; 0]);
        // The YAML precedes them for both.
        let exporter = json!({"endpoint": "http://c", "protocol": "http", "compression": "none",
            "timeout_ms": 9000, "headers": {"x": "y"}, "insecure": true});
        assert_eq!(
            of_claude(&exporter, &env),
            [format!(
                "the telemetry of the Claude CLI does not follow `{PREFIX}{signal}_CERTIFICATE`: it gets the variables \
                 for all signals, without certificates"
            )]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_in_capitals_and_the_timeout_of_no_limit_are_understood() {
    let variables = [
        ("ENDPOINT", "URL"),
        ("PROTOCOL", "HTTP/Protobuf"),
        ("TRACES_COMPRESSION", "GZIP"),
        ("METRICS_COMPRESSION", "None"),
        ("TIMEOUT", "0"),
        ("METRICS_TEMPORALITY_PREFERENCE", "Delta"),
        (
            "METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "EXPLICIT_BUCKET_HISTOGRAM",
        ),
    ];
    let collector = Collector::start().await;
    let variables = env(&variables, &collector.url);
    assert_eq!(warnings(&json!({}), &variables), [] as [String; 0]);
    assert_eq!(export(&json!({}), variables.clone()).await, None);
    for received in collector.received() {
        let coding = (received.path == "/v1/traces").then_some("gzip");
        assert_eq!(received.header("content-encoding"), coding);
    }
    let config = agent("anthropic", &observability(&json!({})));
    let config = config.config.observability.clone().unwrap();
    let vars = claude_env(&with_variables(&config, &variables), "a", None).vars;
    // Node.js waits for no longer time.
    let longest = (format!("{PREFIX}TIMEOUT"), "2147483647".to_owned());
    assert!(vars.contains(&longest), "{vars:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_counted_as_the_variable_says() {
    for (value, expected) in [
        (None, 2),
        (Some("cumulative"), 2),
        (Some("delta"), 1),
        (Some("LowMemory"), 1),
    ] {
        let collector = Collector::start().await;
        let value = value.unwrap_or_default();
        let variables = [("ENDPOINT", "URL"), ("METRICS_TEMPORALITY_PREFERENCE", value)];
        let variables = env(&variables, &collector.url);
        assert_eq!(export(&json!({}), variables).await, None);
        assert_eq!(collector.temporality(), expected, "{value}");
    }
}

#[test]
fn insecure_decides_about_an_endpoint_of_grpc_without_a_scheme_only() {
    let config = agent("anthropic", &observability(&json!({})));
    let config = config.config.observability.clone().unwrap();
    for (endpoint, value, expected, is_silent) in [
        ("c:1", "true", "http://c:1", true),
        ("c:1", "TRUE", "http://c:1", true),
        ("c:1", "false", "https://c:1", true),
        ("c:1", "what", "https://c:1", false),
        ("c:1", "", "http://c:1", true),
        ("http://c:1", "true", "http://c:1", true),
        ("http://c:1", "false", "http://c:1", false),
        ("https://c:1", "true", "https://c:1", false),
        ("https://c:1", "false", "https://c:1", true),
        ("", "false", "http://localhost:4317", false),
    ] {
        let variables = env(
            &[("ENDPOINT", endpoint), ("PROTOCOL", "grpc"), ("INSECURE", value)],
            "",
        );
        let vars = claude_env(&with_variables(&config, &variables), "a", None).vars;
        let expected = (format!("{PREFIX}ENDPOINT"), expected.to_owned());
        assert!(vars.contains(&expected), "{endpoint} {value}: {vars:?}");
        let found = warnings(&json!({}), &variables);
        assert_eq!(found.is_empty(), is_silent, "{endpoint} {value}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_read_is_the_one_warning() {
    let collector = Collector::start().await;
    for name in ["CERTIFICATE", "METRICS_CERTIFICATE"] {
        let variables = env(&[("ENDPOINT", "URL"), (name, "/no/such/ca.pem")], &collector.url);
        assert_eq!(
            export(&json!({}), variables).await.unwrap(),
            "telemetry was not exported: can't read the CA bundle `/no/such/ca.pem`"
        );
    }
    assert!(collector.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_a_collector_repeats_are_masked_with_and_without_their_scheme() {
    for (header, repeated) in [
        ("authorization=Bearer%20hush-1234", "who is Bearer hush-1234?"),
        ("Authorization=Basic hush-1234", "who is hush-1234?"),
        ("x-key=hush-1234", "who is hush-1234?"),
    ] {
        let collector = Collector::start_with(repeated.as_bytes().to_vec(), |_| (401, None)).await;
        let variables = env(&[("ENDPOINT", "URL"), ("HEADERS", header)], &collector.url);
        let warning = export(&json!({}), variables).await.unwrap();
        assert!(
            warning.ends_with("answered 401 Unauthorized: who is ***?"),
            "{warning}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cannot_be_used_sends_nothing_elsewhere() {
    let variables = env(&[("TRACES_ENDPOINT", "ftp://hush")], "");
    assert_eq!(
        export(&json!({}), variables.clone()).await.unwrap(),
        "telemetry was not exported: the variable `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is not an `http://` or \
         `https://` URL"
    );
    let config = agent("anthropic", &observability(&json!({})))
        .config
        .observability
        .clone()
        .unwrap();
    let general = env(&[("ENDPOINT", "ftp://hush")], "");
    let telemetry = claude_env(&with_variables(&config, &general), "a", None);
    let none = |(name, value): &(String, String)| name == "OTEL_TRACES_EXPORTER" && value == "none";
    assert!(telemetry.vars.iter().any(none));
}

#[tokio::test]
async fn the_sdk_can_be_switched_off_by_its_variable() {
    let config = agent("anthropic", &observability(&json!({})))
        .config
        .observability
        .clone()
        .unwrap();
    for (value, is_on, is_clear) in [
        ("true", false, true),
        (" TRUE ", false, true),
        ("false", true, true),
        ("", true, true),
        ("1", true, false),
        ("yes", true, false),
    ] {
        let env: Env = [("OTEL_SDK_DISABLED", value)].into_iter().collect();
        let found = warnings(&json!({}), &env);
        assert_eq!(found.is_empty(), is_clear, "{value}: {found:?}");
        assert!(found.iter().all(|text| text.contains("`OTEL_SDK_DISABLED`")));
        let options = TelemetryOptions {
            env: env.clone(),
            ..options()
        };
        let telemetry = Telemetry::start(&agent("openai", &observability(&json!({}))), &options);
        assert_eq!(telemetry.is_on(), is_on, "{value}");
        let of_claude = claude_env(&with_variables(&config, &env), "a", None);
        assert_eq!(of_claude.vars.is_empty(), !is_on, "{value}");
    }
}

#[test]
fn the_cli_of_claude_gets_what_the_general_variables_say() {
    let config = agent("anthropic", &observability(&json!({})))
        .config
        .observability
        .clone()
        .unwrap();
    let variables = env(
        &[
            ("ENDPOINT", "http://c:1/base/v1/traces"),
            ("PROTOCOL", "http/protobuf"),
            ("COMPRESSION", "gzip"),
            ("TIMEOUT", "2500"),
            ("HEADERS", "authorization=Bearer%20x"),
        ],
        "",
    );
    let vars = claude_env(&with_variables(&config, &variables), "a", None).vars;
    for (setting, value) in [
        ("ENDPOINT", "http://c:1/base"),
        ("PROTOCOL", "http/protobuf"),
        ("COMPRESSION", "gzip"),
        ("TIMEOUT", "2500"),
        ("HEADERS", "authorization=Bearer x"),
    ] {
        let expected = (format!("{PREFIX}{setting}"), value.to_owned());
        assert!(vars.contains(&expected), "{setting}: {vars:?}");
    }
}
