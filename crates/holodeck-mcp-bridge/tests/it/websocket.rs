//! Tests of servers over WebSocket: their tools, their faults, and what ends a connection.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::{SinkExt as _, StreamExt as _};
use holodeck_mcp_bridge::McpServer;
use holodeck_model::McpTool;
use pretty_assertions::assert_eq;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::setup::{call, connect, names, options, text, tool, try_connect, until};

/// The answer of a server to a message: the frames of its answer; `None` ends the connection.
type Answer = fn(&Value) -> Option<Vec<Message>>;

/// A server on loopback, with the headers of the requests that opened connections, and the methods it was asked for.
struct Listening {
    port: u16,
    headers: Arc<Mutex<Vec<String>>>,
    methods: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Listening {
    async fn start(answer: Answer) -> Self {
        Self::with_protocol(answer, Some("mcp")).await
    }

    #[expect(clippy::result_large_err, reason = "the type of the library")]
    async fn with_protocol(answer: Answer, protocol: Option<&'static str>) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let (headers, methods) = <(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<String>>>)>::default();
        let (seen, asked) = (Arc::clone(&headers), Arc::clone(&methods));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                let seen = Arc::clone(&seen);
                let note = move |request: &Request, mut response: Response| {
                    seen.lock().unwrap().push(format!("{:?}", request.headers()));
                    if let Some(protocol) = protocol {
                        let value = HeaderValue::from_static(protocol);
                        response.headers_mut().insert("sec-websocket-protocol", value);
                    }
                    Ok(response)
                };
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, note).await else {
                        return;
                    };
                    while let Some(Ok(message)) = socket.next().await {
                        let Message::Text(message) = message else { continue };
                        let message: Value = serde_json::from_str(&message).unwrap();
                        let method = message["method"].as_str().unwrap_or_default().to_owned();
                        asked.lock().unwrap().push(method);
                        let Some(frames) = answer(&message) else { return };
                        for frame in frames {
                            if socket.send(frame).await.is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
        Self {
            port,
            headers,
            methods,
            task,
        }
    }

    fn tool(&self, more: &str) -> McpTool {
        tool(&format!(
            "name: prices\ntransport: websocket\nurl: ws://127.0.0.1:{}/mcp\nrequest_timeout: 20\n{more}",
            self.port
        ))
    }

    async fn connect(&self, more: &str) -> McpServer {
        connect(&self.tool(more), &options(Path::new("/"))).await
    }

    async fn reason(&self, more: &str) -> String {
        let mut connected = try_connect(&self.tool(more), &options(Path::new("/"))).await;
        connected.failed.remove(0).reason
    }

    fn methods(&self) -> Vec<String> {
        self.methods.lock().unwrap().clone()
    }
}

fn frame(value: &Value) -> Message {
    Message::text(value.to_string())
}

/// The result of a regular server with one tool.
fn result(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "prices", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [
            { "name": "price", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } },
        ] }),
        "tools/call" => {
            json!({ "content": [{ "type": "text", "text": format!("7 for {}", message["params"]["arguments"]["of"]) }] })
        }
        _ => return None,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "it is an `Answer`")]
fn regular(message: &Value) -> Option<Vec<Message>> {
    let Some(id) = message.get("id") else {
        return Some(Vec::new());
    };
    Some(vec![frame(&match result(message) {
        Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } }),
    })])
}

#[tokio::test]
async fn its_tools_answer_and_the_headers_of_the_yaml_are_sent() {
    for protocol in [Some("mcp"), Some("MCP"), None] {
        let listening = Listening::with_protocol(regular, protocol).await;
        let server = listening.connect("headers: {x-team: blue}").await;
        assert_eq!(names(&server), ["mcp__prices__price"]);
        assert_eq!(
            text(&server, "mcp__prices__price", json!({ "of": "tea" })).await,
            "7 for \"tea\""
        );
        server.close().await;
        let headers = listening.headers.lock().unwrap().join(" ");
        for expected in [
            r#""x-team": "blue""#,
            r#""sec-websocket-protocol": "mcp""#,
            r#""sec-websocket-version": "13""#,
        ] {
            assert!(headers.contains(expected), "{headers}");
        }
    }
}

#[tokio::test]
async fn faults_of_its_messages_are_mended_as_on_other_transports() {
    fn faulty(message: &Value) -> Option<Vec<Message>> {
        let Some(id) = message.get("id") else {
            return Some(Vec::new());
        };
        let mut result = result(message)?;
        if message["method"] == "tools/list" {
            result = json!({ "tools": [{ "name": "price", "inputSchema": null }, { "title": "nameless" }], "nextCursor": null });
        }
        let answer = json!([{ "id": id.to_string(), "result": result, "error": null }]);
        let bytes = answer.to_string().into_bytes();
        // Between frames that mean nothing.
        Some(vec![
            Message::Ping(b"?".to_vec().into()),
            Message::text("a log line"),
            Message::Binary(bytes.into()),
            Message::text("[]"),
        ])
    }
    let listening = Listening::start(|message| match message["method"].as_str() {
        Some("server/discover") => regular(message),
        _ => faulty(message),
    })
    .await;
    let server = listening.connect("").await;
    assert_eq!(names(&server), ["mcp__prices__price"]);
    assert_eq!(
        text(&server, "mcp__prices__price", json!({ "of": 1 })).await,
        "7 for 1"
    );
    server.close().await;
}

#[tokio::test]
async fn a_server_that_ends_the_connection_at_the_first_request_gets_the_handshake() {
    let listening = Listening::start(|message| match message["method"].as_str() {
        Some("initialize" | "notifications/initialized" | "tools/list" | "tools/call") => regular(message),
        _ => None,
    })
    .await;
    let server = listening.connect("").await;
    assert_eq!(
        text(&server, "mcp__prices__price", json!({ "of": 1 })).await,
        "7 for 1"
    );
    server.close().await;
}

#[tokio::test]
async fn a_lost_connection_is_opened_again_and_a_call_repeated_if_it_only_reads() {
    let listening = Listening::start(|message| {
        let is_last = message["params"]["arguments"]["of"] == "the last";
        if is_last { None } else { regular(message) }
    })
    .await;
    let server = listening.connect("").await;
    let error = call(&server, "mcp__prices__price", json!({ "of": "the last" }))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("was lost again"), "{error}");
    assert_eq!(
        text(&server, "mcp__prices__price", json!({ "of": 2 })).await,
        "7 for 2"
    );
    let calls = listening.methods();
    assert_eq!(
        calls.iter().filter(|method| *method == "tools/call").count(),
        3,
        "{calls:?}"
    );
    server.close().await;
}

#[tokio::test]
async fn a_connection_that_may_not_be_silent_ends() {
    let listening = Listening::start(|message| match message["method"].as_str() {
        Some("tools/call") => Some(Vec::new()),
        _ => regular(message),
    })
    .await;
    let server = listening.connect("sse_read_timeout: 0.3").await;
    let error = call(&server, "mcp__prices__price", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("was lost again"), "{error}");
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection_and_not_the_program() {
    let listening = Listening::start(|message| match message["method"].as_str() {
        Some("tools/call") => Some(vec![Message::text("x".repeat(17 << 20))]),
        _ => regular(message),
    })
    .await;
    let server = listening.connect("").await;
    let error = call(&server, "mcp__prices__price", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("was lost again"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_on_the_server() {
    let listening = Listening::start(|message| match message["method"].as_str() {
        Some("tools/call") => Some(Vec::new()),
        _ => regular(message),
    })
    .await;
    let server = listening.connect("").await;
    let calling = call(&server, "mcp__prices__price", json!({}));
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(300), calling).await;
    assert!(given_up.is_err());
    until("it is cancelled", || {
        listening
            .methods()
            .iter()
            .any(|method| method == "notifications/cancelled")
    })
    .await;
    server.close().await;
}

#[tokio::test]
async fn what_is_no_such_server_is_named() {
    let other = Listening::with_protocol(regular, Some("chat")).await;
    let reason = other.reason("").await;
    assert!(reason.contains("subprotocol `mcp`"), "{reason}");
    let gone = Listening::start(regular).await;
    gone.task.abort();
    until("it is gone", || {
        std::net::TcpStream::connect(("127.0.0.1", gone.port)).is_err()
    })
    .await;
    let reason = gone.reason("").await;
    assert!(reason.contains("connection refused"), "{reason}");
    let plain = holodeck_testkit::EndpointServer::answering(|_| holodeck_testkit::Reply::html(404, "none"));
    let url = plain.url().replace("http://", "ws://");
    let tool = tool(&format!("name: prices\ntransport: websocket\nurl: {url}/mcp"));
    let reason = try_connect(&tool, &options(Path::new("/")))
        .await
        .failed
        .remove(0)
        .reason;
    assert!(reason.contains("answered 404 Not Found"), "{reason}");
}

/// TLS for a server of `localhost`, and the PEM of the authority that signed its certificate.
fn acceptor() -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(leaf.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// A regular server behind TLS: its port, and its authority.
async fn start_encrypted() -> (u16, String) {
    let (acceptor, authority) = acceptor();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
                    return;
                };
                while let Some(Ok(message)) = socket.next().await {
                    let Message::Text(message) = message else { continue };
                    let message: Value = serde_json::from_str(&message).unwrap();
                    for frame in regular(&message).unwrap_or_default() {
                        if socket.send(frame).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (port, authority)
}

/// `wss` uses the certificates of the user, and trusts no other authority.
#[tokio::test]
async fn an_encrypted_server_is_reached_with_its_authority_and_not_without() {
    let (port, authority) = start_encrypted().await;
    let (_, other) = acceptor();
    let folder = tempfile::tempdir().unwrap();
    let at = |scheme: &str| {
        tool(&format!(
            "name: prices\ntransport: websocket\nurl: {scheme}://localhost:{port}/mcp\nrequest_timeout: 20\n"
        ))
    };
    let trusting = |pem: Option<&str>| {
        let mut options = options(Path::new("/"));
        if let Some(pem) = pem {
            let file = folder.path().join("ca.pem");
            std::fs::write(&file, pem).unwrap();
            options.env.set("SSL_CERT_FILE", file.display().to_string());
        }
        options
    };
    let server = connect(&at("wss"), &trusting(Some(&authority))).await;
    assert_eq!(
        text(&server, "mcp__prices__price", json!({ "of": "tea" })).await,
        "7 for \"tea\""
    );
    server.close().await;
    for (scheme, pem, expected) in [
        ("wss", Some(other.as_str()), "certificate"),
        ("wss", None, "certificate"),
        ("ws", Some(authority.as_str()), ""),
    ] {
        let connected = try_connect(&at(scheme), &trusting(pem)).await;
        assert!(connected.servers.is_empty(), "{scheme}");
        let reason = &connected.failed[0].reason;
        assert!(reason.contains(expected), "{scheme}: {reason}");
    }
}
