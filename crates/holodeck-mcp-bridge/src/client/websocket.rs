//! WebSocket: one message per frame, with the subprotocol `mcp`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use holodeck_http::{Headers, HttpClient, HttpError, HttpUrl, Upgraded};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::client::caller::{CallError, Caller};
use crate::client::plan::Remote;
use crate::client::reader::Reader;

/// The largest message of a server.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// How long a server may take to read the end of a session.
const CLOSING: Duration = Duration::from_secs(1);

const SUBPROTOCOL: &str = "mcp";

type Frames = WebSocketStream<Upgraded>;

pub(crate) struct WebsocketTransport {
    url: HttpUrl,
    to_server: Arc<Mutex<SplitSink<Frames, Message>>>,
    from_server: SplitStream<Frames>,
    silence: Option<Duration>,
    reader: Reader,
    /// Messages of a frame that had several.
    waiting: VecDeque<ServerJsonRpcMessage>,
}

impl WebsocketTransport {
    pub(crate) async fn open(http: &HttpClient, remote: &Remote, reader: Reader) -> Result<Self, CallError> {
        let url = remote.url.clone();
        let key = generate_key();
        let mut headers = Headers::new();
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", &key),
            ("sec-websocket-protocol", SUBPROTOCOL),
        ] {
            headers.insert(name, value)?;
        }
        let connection = Caller::new(http, remote).upgrade(&url, &headers).await?;
        if !is_accepted(&connection, &key) {
            let reason = "its answer is not that of a WebSocket server with the subprotocol `mcp`".to_owned();
            return Err(HttpError::Request { url, reason }.into());
        }
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let frames = Frames::from_raw_socket(connection, Role::Client, Some(limits)).await;
        let (to_server, from_server) = frames.split();
        Ok(Self {
            url,
            to_server: Arc::new(Mutex::new(to_server)),
            from_server,
            silence: remote.silence,
            reader,
            waiting: VecDeque::new(),
        })
    }

    /// The next frame; `None` at the end, after an error and after too much silence.
    async fn frame(&mut self) -> Option<Message> {
        let next = self.from_server.next();
        let frame = match self.silence {
            Some(limit) => match timeout(limit, next).await {
                Ok(frame) => frame,
                Err(_elapsed) => {
                    tracing::debug!(url = %self.url, "a WebSocket was silent for too long");
                    return None;
                }
            },
            None => next.await,
        };
        match frame? {
            Ok(frame) => Some(frame),
            Err(error) => {
                tracing::debug!(url = %self.url, %error, "a WebSocket was interrupted");
                None
            }
        }
    }
}

/// Whether the server has switched to the protocol that was asked for. Some servers name no subprotocol.
fn is_accepted(connection: &Upgraded, key: &str) -> bool {
    let is = |name: &str, expected: &str| {
        let found = connection.header(name);
        found.is_some_and(|found| found.eq_ignore_ascii_case(expected))
    };
    let no_protocol = connection.header("sec-websocket-protocol").is_none();
    connection.header("sec-websocket-accept") == Some(derive_accept_key(key.as_bytes()).as_str())
        && is("upgrade", "websocket")
        && (no_protocol || is("sec-websocket-protocol", SUBPROTOCOL))
}

impl Transport<RoleClient> for WebsocketTransport {
    type Error = CallError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), CallError>> + Send + 'static {
        let (to_server, url) = (Arc::clone(&self.to_server), self.url.clone());
        async move {
            let failed = |reason: String| HttpError::Request {
                url: url.clone(),
                reason,
            };
            let text = serde_json::to_string(&item).map_err(|error| failed(error.to_string()))?;
            let sent = to_server.lock().await.send(Message::text(text)).await;
            sent.map_err(|error| failed(error.to_string()).into())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            match self.frame().await? {
                Message::Text(text) => self.waiting.extend(self.reader.messages(text.as_bytes())),
                Message::Binary(bytes) => self.waiting.extend(self.reader.messages(&bytes)),
                Message::Close(_) => return None,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), CallError> {
        let closing = async { self.to_server.lock().await.close().await };
        // The connection ends in any case.
        let _ = timeout(CLOSING, closing).await;
        Ok(())
    }
}
