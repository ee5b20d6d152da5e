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
    assert!(warning.ends_with("within 0.3 s"), "{warning}");
}

#[test]
fn a_variable_that_cannot_be_used_is_named_without_its_value() {
    for signal in ["", "TRACES_", "METRICS_"] {
        for (setting, value) in [
            ("PROTOCOL", "http/json"),
            ("PROTOCOL", "hush"),
            ("COMPRESSION", "hush"),
            ("COMPRESSION", "zstd"),
            ("TIMEOUT", "hush"),
            ("TIMEOUT", "0"),
            ("TIMEOUT", "-1"),
            ("TIMEOUT", "1.5"),
            ("HEADERS", "hush"),
            ("HEADERS", "a b=hush"),
            ("HEADERS", "x=hu%0Ash"),
            ("HEADERS", "x-team=blue,=hush"),
            ("ENDPOINT", "ftp://me:hush@c?hush=hush"),
            ("ENDPOINT", "http://hush:hush"),
            ("CERTIFICATE", "/hush"),
            ("CLIENT_KEY", "/hush"),
            ("CLIENT_CERTIFICATE", "/hush"),
            ("INSECURE", "hush"),
        ] {
            let name = format!("{signal}{setting}");
            let found = warnings(&json!({}), &env(&[(&name, value)], ""));
            let [warning] = found.as_slice() else {
                panic!("{name}={value}: {found:?}")
            };
            assert!(warning.contains(&format!("`{PREFIX}{name}`")), "{warning}");
            assert!(!warning.contains("hush"), "{warning}");
        }
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
