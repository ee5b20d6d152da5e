//! WebSockets: a connection follows any number of conversations, sends messages and answers questions.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message as Frame, WebSocket, rejection::WebSocketUpgradeRejection},
    },
    response::Response,
};
use holodeck_events::Subscription;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, Receiver, Sender},
    },
    task::AbortHandle,
    time::{sleep, timeout},
};

use crate::{
    App,
    app::Follower,
    approvals::Answer,
    connection::Writing,
    guard::User,
    messages::{Message, start},
    metrics::OpenStream,
    own_ids::reveal_text,
    problem::{Problem, Result},
    runs::is_over,
};

/// The subprotocol that is chosen; the one with the token is never repeated.
const PROTOCOL: &str = "holodeck";
/// Conversations that one connection may follow.
const MAX_ROOMS: usize = 64;
/// Frames of one client that wait for its connection.
const QUEUED_FRAMES: usize = 2;
/// A client that takes no data is disconnected with this code.
const SLOW: u16 = 4408;
/// A frame is larger than the server reads.
const TOO_LARGE: u16 = 1009;
/// The server goes away.
const AWAY: u16 = 1001;
/// Time limit for the last frame to a client.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

pub(crate) async fn connect(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Extension(writing): Extension<Writing>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let upgrade = upgrade.map_err(|error| Problem::invalid(error.body_text()))?;
    let limit = app.options().max_body;
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .max_message_size(limit)
        .max_frame_size(limit);
    let tasks = app.tasks().clone();
    Ok(upgrade.on_upgrade(move |socket| async move {
        // Tracked, so that the end of the server waits for the last frame.
        let _ = tasks.spawn(converse(app, user, writing, socket)).await;
    }))
}

/// A frame of a client.
#[derive(Debug, Deserialize)]
struct Request {
    event: String,
    #[serde(default)]
    data: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Join {
    session_id: String,
    /// -1 is before the first event.
    last_event_index: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Leave {
    session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stop {
    session_id: String,
    run_id: Option<String>,
}

/// A connection.
struct Client {
    app: App,
    user: String,
    rooms: HashMap<String, Followed>,
    frames: Sender<Held>,
}

/// A frame of a conversation, with its place among the bytes of all readers.
struct Held {
    text: String,
    place: Option<OwnedSemaphorePermit>,
}

/// A conversation that is followed. Dropping it ends that.
struct Followed {
    task: AbortHandle,
    /// Whether the conversation ended, for instance because it was deleted. Its place is free then.
    is_over: Arc<AtomicBool>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(app: App, user: String, writing: Writing, mut socket: WebSocket) {
    let (sender, frames) = mpsc::channel(QUEUED_FRAMES);
    let client = Client {
        app: app.clone(),
        user,
        rooms: HashMap::new(),
        frames: sender,
    };
    let close = exchange(&app, client, &writing, &mut socket, frames).await;
    // A client that does not take it is gone.
    let _ = timeout(CLOSE_LIMIT, async {
        if let Some((code, reason)) = close {
            let close = CloseFrame {
                code,
                reason: reason.into(),
            };
            socket.send(Frame::Close(Some(close))).await?;
        }
        // A close frame of the client is answered while its stream is read to the end.
        while socket.recv().await.transpose()?.is_some() {}
        Ok::<_, axum::Error>(())
    })
    .await;
}

/// Passes frames in both directions until one side ends; returns how to say so.
async fn exchange(
    app: &App,
    mut client: Client,
    writing: &Writing,
    socket: &mut WebSocket,
    mut frames: Receiver<Held>,
) -> Option<(u16, &'static str)> {
    let reveal = |text: String, user: &str| Frame::Text(reveal_text(text, user).into());
    loop {
        let mut place = None;
        let frame = tokio::select! {
            biased;
            received = socket.recv() => match received {
                Some(Ok(Frame::Text(text))) => match client.handle(&text).await {
                    Ok(Some(reply)) | Err(reply) => reveal(reply, &client.user),
                    Ok(None) => continue,
                },
                Some(Ok(Frame::Binary(_))) => {
                    let problem = Problem::invalid("frames are text");
                    Frame::Text(error_frame("agent:error", &problem, &Value::Null).into())
                }
                Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => continue,
                Some(Err(error)) if is_too_large(&error) => {
                    return Some((TOO_LARGE, "a frame has at most 1 MiB"));
                }
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return None,
            },
            Some(held) = frames.recv() => {
                place = held.place;
                reveal(held.text, &client.user)
            }
            () = app.closing().cancelled() => return Some((AWAY, "the server is stopping")),
            () = sleep(app.options().heartbeat) => Frame::Ping(Vec::new().into()),
        };
        let sent = tokio::select! {
            biased;
            sent = socket.send(frame) => sent.is_ok(),
            () = writing.too_slow(app) => {
                return Some((SLOW, "the client takes no data; resume with `lastEventIndex`"));
            }
        };
        drop(place);
        if !sent {
            return None;
        }
    }
}

/// Whether a connection can't be read because a frame or a message of it is too large. The library has no other sign.
fn is_too_large(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("too long") {
            return true;
        }
        cause = error.source();
    }
    false
}

impl Client {
    /// Handles a frame; returns what is answered at once, an error included.
    async fn handle(&mut self, text: &str) -> Result<Option<String>, String> {
        let refused = |why: &str| {
            let problem = Problem::invalid(format!("a frame is `{{\"event\", \"data\"}}`: {why}"));
            error_frame("agent:error", &problem, &Value::Null)
        };
        if !text.trim_start().starts_with('{') {
            return Err(refused("it must be a JSON object"));
        }
        let request: Request = serde_json::from_str(text).map_err(|error| refused(&error.to_string()))?;
        let kind = if request.event.starts_with("session:") {
            "session:error"
        } else {
            "agent:error"
        };
        let data = request.data.clone();
        let handled = self.execute(request).await;
        // It repeats ids that the client named.
        handled.map_err(|problem| self.app.masked(&error_frame(kind, &problem, &data)))
    }

    async fn execute(&mut self, request: Request) -> Result<Option<String>> {
        self.rooms.retain(|_, room| !room.is_over.load(Ordering::SeqCst));
        match request.event.as_str() {
            "session:join" => {
                let join: Join = read(request.data)?;
                let after = join.last_event_index.and_then(|index| u64::try_from(index).ok());
                let session_id = self.app.stored_id(&join.session_id, &self.user).await?;
                self.join(&session_id, after).await.map(Some)
            }
            "session:leave" => {
                let leave: Leave = read(request.data)?;
                let session_id = self.app.stored_id(&leave.session_id, &self.user).await?;
                self.rooms.remove(&session_id);
                Ok(Some(frame(
                    "session:left",
                    &json!({ "sessionId": leave.session_id }),
                )))
            }
            "chat:message" => self.send(request.data).await,
            "chat:stop" => {
                let stop: Stop = read(request.data)?;
                self.stop(&stop).await.map(|()| None)
            }
            "approval:response" => {
                let mut data = request.data;
                let id = data
                    .as_object_mut()
                    .and_then(|data| data.shift_remove("approvalId"));
                let Some(Value::String(id)) = id else {
                    return Err(Problem::invalid("`approvalId` is missing"));
                };
                let answer: Answer = read(data)?;
                self.app.answer(answer.into_answer(id, &self.user)?).await?;
                Ok(None)
            }
            other => Err(Problem::invalid(format!("there is no event `{other}`"))),
        }
    }

    /// Stops what is answered in a conversation. A run of another process is not stopped, which is an error.
    async fn stop(&self, stop: &Stop) -> Result<()> {
        let session = self.app.session(&stop.session_id, &self.user).await?;
        let is_meant = |run_id: &str| stop.run_id.as_deref().is_none_or(|id| id == run_id);
        let runs = self.app.runs_of(&session.session_id);
        for run in &runs {
            if is_meant(run.run_id()) {
                run.cancel();
            }
        }
        match session.open_run {
            Some(open) if is_meant(&open) && runs.iter().all(|run| run.run_id() != open) => {
                if is_over(&self.app, &open).await? {
                    return Ok(());
                }
                Err(Problem::run_elsewhere(&open))
            }
            _ => Ok(()),
        }
    }

    /// Refuses one more conversation than a connection may follow; without an id, it is a new one.
    fn check_room(&self, session_id: Option<&str>) -> Result<()> {
        if self.rooms.len() < MAX_ROOMS || session_id.is_some_and(|id| self.rooms.contains_key(id)) {
            return Ok(());
        }
        let detail = format!("a connection follows at most {MAX_ROOMS} conversations");
        let status = http::StatusCode::TOO_MANY_REQUESTS;
        Err(Problem::new(status, "TOO_MANY_ROOMS", detail))
    }

    /// Follows the conversation that is stored under this id, from after this event.
    async fn join(&mut self, session_id: &str, after: Option<u64>) -> Result<String> {
        let session = self.app.stored_session(session_id, &self.user).await?;
        self.check_room(Some(session_id))?;
        let events = self.app.subscribe(session_id, after).await?;
        let is_over = Arc::<AtomicBool>::default();
        let room = Room {
            session_id: session_id.to_owned(),
            events,
            head: session.head,
            frames: self.frames.clone(),
            is_over: Arc::clone(&is_over),
            app: self.app.clone(),
            _follower: self.app.follow(session_id),
            _open: self.app.metrics().open_stream(),
        };
        let task = self.app.tasks().spawn(room.follow()).abort_handle();
        self.rooms
            .insert(session_id.to_owned(), Followed { task, is_over });
        let joined = json!({ "sessionId": session_id, "headIndex": session.head });
        Ok(frame("session:joined", &joined))
    }

    /// Sends a message, and follows its conversation.
    async fn send(&mut self, mut data: Value) -> Result<Option<String>> {
        let session_id = data
            .as_object_mut()
            .and_then(|data| data.shift_remove("sessionId"));
        let session_id = match session_id {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(self.app.stored_id(&id, &self.user).await?),
            Some(_) => return Err(Problem::invalid("`sessionId` must be a text")),
        };
        let message: Message = read(data)?;
        // Before anything is done: a client that gets the refusal sends the message again.
        self.check_room(session_id.as_deref())?;
        let started = start(&self.app, &self.user, session_id, None, message).await?;
        if self.rooms.contains_key(&started.session_id) {
            return Ok(None);
        }
        let run = self.app.store().run(&started.run_id).await?;
        let before = run.and_then(|run| run.first_index.checked_sub(1));
        self.join(&started.session_id, before).await.map(Some)
    }
}

/// A conversation that a connection follows.
struct Room {
    session_id: String,
    events: Subscription,
    /// The last event when the connection joined.
    head: Option<u64>,
    frames: Sender<Held>,
    app: App,
    is_over: Arc<AtomicBool>,
    _follower: Follower,
    _open: OpenStream,
}

impl Room {
    async fn follow(mut self) {
        let mut is_ready = false;
        loop {
            if !is_ready && self.events.position() >= self.head {
                is_ready = true;
                let ready = json!({ "sessionId": self.session_id, "headIndex": self.head });
                if !self.send(frame("session:ready", &ready)).await {
                    return;
                }
            }
            // What is read holds memory: its place in the queue first.
            if self.frames.reserve().await.is_err() {
                return;
            }
            let text = match self.events.next().await {
                Ok(Some(event)) => format!(r#"{{"event":"agent:event","data":{}}}"#, event.json()),
                Ok(None) => frame("session:left", &json!({ "sessionId": self.session_id })),
                Err(error) => {
                    let data = json!({ "sessionId": self.session_id });
                    error_frame("session:error", &error.into(), &data)
                }
            };
            let is_event = text.starts_with(r#"{"event":"agent:event""#);
            if !is_event {
                // Before the client knows: it may need the place at once.
                self.is_over.store(true, Ordering::SeqCst);
            }
            if !self.send(text).await || !is_event {
                return;
            }
            self.events.release();
        }
    }

    /// Sends a frame. Whether the connection is open.
    async fn send(&self, text: String) -> bool {
        let place = self.app.reader_bytes().take(text.len()).await;
        self.frames.send(Held { text, place }).await.is_ok()
    }
}

fn read<T: DeserializeOwned>(data: Value) -> Result<T> {
    if !data.is_object() {
        return Err(Problem::invalid("`data` must be a JSON object"));
    }
    serde_json::from_value(data)
        .map_err(|error| Problem::invalid(format!("`data` is not what is expected: {error}")))
}

fn frame(event: &str, data: &Value) -> String {
    json!({ "event": event, "data": data }).to_string()
}

/// An error, with the fields of the request that tell which one failed.
fn error_frame(event: &str, problem: &Problem, request: &Value) -> String {
    let mut data = json!({
        "code": problem.code(),
        "error": problem.detail(),
        "status": problem.status().as_u16(),
    });
    if let Some(data) = data.as_object_mut() {
        for name in ["sessionId", "clientMessageId", "approvalId", "runId"] {
            if let Some(value) = request.get(name) {
                data.insert(name.to_owned(), value.clone());
            }
        }
    }
    frame(event, &data)
}
