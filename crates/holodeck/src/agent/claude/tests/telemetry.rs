//! The CLI's own telemetry.

use holodeck_backend_api::AgentBackend as _;
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use tempfile::tempdir;

use super::{http::Http, setup::agent_at};

fn contains(collector: &Http, bytes: &[u8]) -> bool {
    let requests = collector.requests();
    let mut bodies = requests.iter().map(|request| &request.body);
    bodies.any(|body| body.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test]
async fn the_cli_exports_measurements_without_text() {
    for with_prompts in [false, true] {
        let folder = tempdir().unwrap();
        let server = AnthropicServer::replies([AnthropicReply::text("a private answer")]);
        let collector = Http::start(|_| ("200 OK", String::new())).await;
        let mut yaml = agent_at(&server.url(), folder.path(), "");
        let variables = [
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "1"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_LOGS_EXPORT_INTERVAL", "60000"),
            (
                "TRACEPARENT",
                "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01",
            ),
            ("OTEL_LOG_USER_PROMPTS", if with_prompts { "1" } else { "0" }),
        ];
        yaml.variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let backend = ClaudeBackend::new(yaml.options().unwrap()).unwrap();
        let mut session = backend.create_session().await.unwrap();
        session.send("a private question").await.unwrap();
        // The CLI exports its telemetry when it ends.
        session.close().await.unwrap();
        for path in ["/v1/metrics", "/v1/logs", "/v1/traces"] {
            let line = format!("POST {path} ");
            let requests = collector.requests();
            assert!(
                requests.iter().any(|request| request.line.starts_with(&line)),
                "{path}"
            );
        }
        assert!(contains(&collector, b"claude_code.token.usage"));
        assert!(
            contains(&collector, &(0x01..=0x10).collect::<Vec<u8>>()),
            "the parent is another one"
        );
        assert_eq!(contains(&collector, b"a private question"), with_prompts);
        assert!(!contains(&collector, b"sk-ant-yaml-key"));
        server.finish();
    }
}
