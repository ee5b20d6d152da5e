//! The CLI's own telemetry.

use std::sync::{Arc, Mutex};

use holodeck_backend_api::AgentBackend as _;
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::setup::options;

/// Takes whatever is sent to it.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<Vec<u8>>>>);

impl Sink {
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sink = Self::default();
        let own = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().take(stream));
            }
        });
        (sink, url)
    }

    async fn take(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        while !is_whole(&bytes) {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        }
        self.0.lock().unwrap().push(bytes);
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(reply).await;
    }

    fn requests_to(&self, path: &str) -> usize {
        let start = format!("POST {path} ");
        let requests = self.0.lock().unwrap();
        requests
            .iter()
            .filter(|bytes| bytes.starts_with(start.as_bytes()))
            .count()
    }

    fn holds(&self, text: &str) -> bool {
        let requests = self.0.lock().unwrap();
        requests
            .iter()
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => bytes.len() >= head + 4 + length,
        None => bytes.ends_with(b"0\r\n\r\n"),
    }
}

#[tokio::test]
async fn the_cli_sends_what_it_measures_and_no_text() {
    for with_prompts in [false, true] {
        let server = AnthropicServer::replies([AnthropicReply::text("a private answer")]);
        let (sink, url) = Sink::start().await;
        let mut options = options(&server);
        for (name, value) in [
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_LOGS_EXPORT_INTERVAL", "60000"),
        ] {
            options = options.env(name, value.to_owned());
        }
        if with_prompts {
            options = options.env("OTEL_LOG_USER_PROMPTS", "1");
        }
        let backend = ClaudeBackend::new(options).unwrap();
        let mut session = backend.create_session().await.unwrap();
        session.send("a private question").await.unwrap();
        // At its end the CLI sends what it has.
        session.close().await.unwrap();
        assert!(sink.requests_to("/v1/metrics") > 0);
        assert!(sink.requests_to("/v1/logs") > 0);
        assert!(sink.holds("claude_code.token.usage"));
        assert_eq!(sink.holds("a private question"), with_prompts);
        assert!(!sink.holds("sk-ant-test-key"));
        server.finish();
    }
}
