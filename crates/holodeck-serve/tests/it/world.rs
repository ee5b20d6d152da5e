//! A running server over scripted backends, with an HTTP client that reads its streams.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use holodeck_serve::{
    Access, AnswerSettings, App, ServeOptions, ServedAgent, Token,
    conversation::{AgentRunService, Concurrency, ServiceOptions},
    events::{EventStore, MemoryStore},
};
use holodeck_testkit::{Asked, ScriptedBackend, ScriptedTurn};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::{net::TcpListener, net::TcpStream, sync::mpsc, task::JoinHandle};

/// A server that runs, and a client of it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) service: AgentRunService,
    stop: mpsc::UnboundedSender<()>,
    pub(crate) ended: JoinHandle<()>,
}

/// How a world differs from the usual one.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) service: ServiceOptions,
    pub(crate) options: ServeOptions,
    pub(crate) backend: Option<ScriptedBackend>,
    pub(crate) max_runs: usize,
    pub(crate) answers: AnswerSettings,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            service: ServiceOptions::default(),
            options: ServeOptions::default(),
            backend: None,
            max_runs: 8,
            answers: AnswerSettings {
                follows_wishes: true,
                ..AnswerSettings::default()
            },
        }
    }
}

/// The tokens of two users.
pub(crate) fn two_users() -> Access {
    let token = |user: &str| Token::new(user, &SecretString::from(format!("token-of-{user}")));
    Access::Tokens(vec![token("alice"), token("bob")])
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The status, and the code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{self:?}"
        );
        let body = self.json();
        assert_eq!(body["status"], self.status.as_u16());
        (self.status.as_u16(), body["code"].as_str().unwrap().to_owned())
    }
}

/// A frame of a stream of events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Frame {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }
}

/// An open stream. Dropping it disconnects.
pub(crate) struct Stream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    text: String,
    frames: VecDeque<String>,
    connection: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Stream {
    /// The next block of lines, comments included; `None` at the end.
    pub(crate) async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(block) = self.frames.pop_front() {
                return Some(block);
            }
            let data = self.body.frame().await?.ok()?.into_data().ok()?;
            let before = self.text.len().saturating_sub(1);
            self.text.push_str(std::str::from_utf8(&data).unwrap());
            // The text before has no end, unless a part of one.
            if !self.text[before..].contains("\n\n") {
                continue;
            }
            while let Some(end) = self.text.find("\n\n") {
                self.frames.push_back(self.text[..end].to_owned());
                self.text.drain(..end + 2);
            }
        }
    }

    /// Reads the rest, and returns its length; `None` if the server broke off.
    pub(crate) async fn length(mut self) -> Option<usize> {
        let mut length = 0;
        while let Some(frame) = self.body.frame().await {
            length += frame.ok()?.into_data().map_or(0, |data| data.len());
        }
        Some(length)
    }

    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| {
                let mut lines = block.lines();
                lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
            };
            if let Some(data) = field("data") {
                return Some(Frame {
                    id: field("id").map(|id| id.parse().unwrap()),
                    event: field("event").unwrap_or_default(),
                    data,
                });
            }
        }
    }

    /// All frames until the server ends the stream.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// The next frame of this type.
    pub(crate) async fn wait_for(&mut self, kind: &str) -> Frame {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("no {kind}"));
            if frame.kind() == kind {
                return frame;
            }
        }
    }
}

impl World {
    pub(crate) async fn new(script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        Self::with(Setup::default(), script).await
    }

    pub(crate) async fn with(
        setup: Setup,
        script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        let backend = setup
            .backend
            .unwrap_or_else(|| ScriptedBackend::answering(script));
        let backend = Arc::new(backend);
        let service = AgentRunService::new(backend.clone(), Arc::clone(&setup.store), setup.service.clone());
        let agent = |name: &str| ServedAgent {
            name: name.to_owned(),
            description: Some("Helps.".to_owned()),
            model: "scripted".to_owned(),
            tools: Vec::new(),
            service: service.clone(),
            unattended: {
                let (backend, options) = (backend.clone(), setup.service.clone());
                Arc::new(move |store| {
                    let options = ServiceOptions {
                        concurrency: Concurrency::Reject,
                        ..options.clone()
                    };
                    AgentRunService::new(backend.clone(), store, options)
                })
            },
            answers: setup.answers,
            max_runs: setup.max_runs,
        };
        let app = App::new(vec![agent("helper")], Arc::clone(&setup.store), setup.options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, signals) = mpsc::unbounded_channel();
        let ended = tokio::spawn(holodeck_serve::serve(app, listener, signals));
        Self {
            address,
            store: setup.store,
            service,
            stop,
            ended,
        }
    }

    /// Sends the signal to stop.
    pub(crate) fn stop(&self) {
        self.stop.send(()).unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, &[], &body.to_string()).await
    }

    pub(crate) async fn say(&self, session: &str, message: &str) -> Reply {
        self.post(
            &format!("/v1/sessions/{session}/messages"),
            json!({ "message": message }),
        )
        .await
    }

    /// As a user with a token.
    pub(crate) async fn send_as(&self, user: &str, method: Method, path: &str, body: Value) -> Reply {
        let token = format!("Bearer token-of-{user}");
        let body = if method == Method::GET {
            String::new()
        } else {
            body.to_string()
        };
        self.send(method, path, &[("authorization", &token)], &body).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut stream = self.open(method, path, headers, body).await;
        // A letter may be cut by the end of a part.
        let mut bytes = Vec::new();
        while let Some(frame) = stream.body.frame().await {
            bytes.extend(frame.unwrap().into_data().unwrap_or_default());
        }
        let text = String::from_utf8(bytes).unwrap();
        Reply {
            status: stream.status,
            headers: std::mem::take(&mut stream.headers),
            text,
        }
    }

    pub(crate) async fn stream(&self, path: &str, last: Option<u64>) -> Stream {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        let stream = self.open(Method::GET, path, &headers, "").await;
        assert_eq!(stream.status, StatusCode::OK);
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        stream
    }

    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Stream {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(async move {
            // The server may end first.
            let _ = connection.with_upgrades().await;
        });
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        Stream {
            status: head.status,
            headers: head.headers,
            body,
            text: String::new(),
            frames: VecDeque::new(),
            connection,
        }
    }

    /// The payloads of a conversation, as stored.
    pub(crate) async fn stored(&self, session: &str) -> Vec<(u64, String)> {
        let events = self.store.read_after(session, None).await.unwrap();
        events
            .iter()
            .map(|event| (event.index(), event.json().to_owned()))
            .collect()
    }
}

/// The frames that a client received, in the form of stored events.
pub(crate) fn payloads(frames: &[Frame]) -> Vec<(u64, String)> {
    frames
        .iter()
        .map(|frame| (frame.id.unwrap(), frame.data.clone()))
        .collect()
}
