//! Tests of servers over HTTP: both transports, sessions, restarts and silent streams.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holodeck_mcp_bridge::McpServer;
use holodeck_process::{ChildEnv, ChildProcess, ProcessSpec};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::setup::{call, connect, env, names, options, real, text, tool, try_connect, until};

/// The everything server, listening.
struct Listening {
    _child: ChildProcess,
    port: u16,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Listening {
    async fn start(transport: &str) -> Self {
        let port = free_port();
        Self::start_at(transport, port).await
    }

    async fn start_at(transport: &str, port: u16) -> Self {
        let path = env().get("PATH").unwrap().to_owned();
        let env: ChildEnv = [
            ("PATH".into(), path.into()),
            ("PORT".into(), port.to_string().into()),
        ]
        .into_iter()
        .collect();
        let spec = ProcessSpec::new("node", env).args([real("everything"), transport.to_owned()]);
        let mut child = ChildProcess::spawn(&spec).unwrap();
        let mut stdout = child.take_stdout().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        tokio::spawn(async move {
            let mut part = [0; 1024];
            while let Ok(count @ 1..) = stdout.read(&mut part).await {
                sink.lock().unwrap().extend_from_slice(&part[..count]);
            }
        });
        until("it listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self {
            _child: child,
            port,
            log,
        }
    }

    /// The `mcp` tool that reaches it.
    async fn connect(&self, transport: &str, more: &str) -> McpServer {
        connect(&tool(&self.yaml(transport, more)), &options(Path::new("/"))).await
    }

    fn yaml(&self, transport: &str, more: &str) -> String {
        let place = if transport == "sse" { "sse" } else { "mcp" };
        let port = self.port;
        format!("name: everything\ntransport: {transport}\nurl: http://127.0.0.1:{port}/{place}\n{more}")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap()).into_owned()
    }
}

/// A recently free port.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn tools_work(server: &McpServer) {
    let info = server.info();
    assert_eq!((info.protocol.as_str(), info.process), ("2025-11-25", None));
    assert_eq!(
        text(
            server,
            "mcp__everything__echo",
            json!({ "message": "gingerbread" })
        )
        .await,
        "Echo: gingerbread"
    );
    let picture = call(server, "mcp__everything__get-tiny-image", json!({}))
        .await
        .unwrap();
    assert_eq!(picture.images[0].media_type, "image/png");
    // The server asks the client during the call.
    let elicitation = "mcp__everything__trigger-elicitation-request";
    until("the list is another", || {
        names(server).iter().any(|name| name == elicitation)
    })
    .await;
    let answer = text(server, elicitation, json!({})).await;
    assert!(answer.contains("declined"), "{answer}");
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let listening = Listening::start("streamableHttp").await;
    let server = listening
        .connect("http", "headers: {Authorization: Bearer hush-hush}")
        .await;
    tools_work(&server).await;
    server.close().await;
    // The session was ended on the server too.
    until("the session ends", || {
        listening.log().contains("session termination request")
    })
    .await;
}

#[tokio::test]
async fn a_session_is_kept_if_the_yaml_asks_for_it() {
    let listening = Listening::start("streamableHttp").await;
    let server = listening.connect("http", "terminate_on_close: false").await;
    server.close().await;
    let other = listening.connect("http", "").await;
    other.close().await;
    until("a session ends", || {
        listening.log().contains("session termination request")
    })
    .await;
    let log = listening.log();
    assert_eq!(
        log.matches("Received session termination request").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn everything_over_server_sent_events() {
    let listening = Listening::start("sse").await;
    let server = listening.connect("sse", "").await;
    tools_work(&server).await;
    server.close().await;
}

#[tokio::test]
async fn a_server_that_was_started_again_is_connected_again() {
    for (their_name, ours) in [("streamableHttp", "http"), ("sse", "sse")] {
        let first = Listening::start(their_name).await;
        let server = first.connect(ours, "").await;
        let port = first.port;
        drop(first);
        until("it is gone", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        })
        .await;
        let gone = call(&server, "mcp__everything__echo", json!({ "message": "x" })).await;
        let error = gone.unwrap_err().to_string();
        assert!(error.contains("connection refused"), "{error}");
        let _second = Listening::start_at(their_name, port).await;
        assert_eq!(
            text(&server, "mcp__everything__echo", json!({ "message": "x" })).await,
            "Echo: x",
            "{ours}"
        );
    }
}

#[tokio::test]
async fn other_servers_are_reported() {
    let listening = Listening::start("sse").await;
    let port = free_port();
    let mut short = options(Path::new("/"));
    short.startup = Duration::from_secs(20);
    for (yaml, expected) in [
        (
            format!("name: x\ntransport: http\nurl: http://127.0.0.1:{port}/mcp"),
            format!("can't connect to http://127.0.0.1:{port}/mcp: connection refused"),
        ),
        (
            format!("name: x\ntransport: sse\nurl: http://127.0.0.1:{port}/sse?key=hush"),
            format!("can't connect to http://127.0.0.1:{port}/sse: connection refused"),
        ),
        (
            format!(
                "name: x\ntransport: sse\nurl: http://127.0.0.1:{}/nowhere",
                listening.port
            ),
            format!(
                "http://127.0.0.1:{}/nowhere answered 404 Not Found",
                listening.port
            ),
        ),
    ] {
        let connected = try_connect(&tool(&yaml), &short).await;
        let reason = &connected.failed[0].reason;
        assert!(reason.starts_with(&expected), "{reason}");
    }
}

#[tokio::test]
async fn silence_ends_a_stream_that_may_not_be_silent() {
    let listening = Listening::start("sse").await;
    let server = listening.connect("sse", "sse_read_timeout: 0.3").await;
    let slow = json!({ "duration": 30, "steps": 1 });
    let error = call(&server, "mcp__everything__trigger-long-running-operation", slow)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("was lost again"), "{error}");
}
