//! Events to a client, as server-sent events.

use std::convert::Infallible;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::StreamExt as _;
use holodeck_chat::{RunError, RunHandle};
use holodeck_events::{StoredEvent, Subscription};
use http::{HeaderValue, header};
use tokio::{
    sync::mpsc::{self, Sender},
    time::{sleep, timeout},
};

use crate::{
    App,
    app::Follower,
    problem::{Problem, Result},
};

/// Frames of one client that wait for its connection. What it does not take stays in the store.
const QUEUED_FRAMES: usize = 2;

/// The name of an event's frame, and of an error's.
const EVENT: &str = "agent:event";
const ERROR: &str = "agent:error";

/// A comment, so that proxies keep an idle stream open.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b": idle\n\n");

/// Which events a client gets.
pub(crate) struct Feed {
    pub(crate) session_id: String,
    pub(crate) events: Subscription,
    pub(crate) until: Until,
    /// The run, if it is one that may end before its first event.
    pub(crate) run: Option<RunHandle>,
}

/// Where a feed ends.
pub(crate) enum Until {
    /// When the session is deleted or the server stops.
    Deleted,
    /// After this event; `None`: at once.
    Index(Option<u64>),
    /// With the end of this run, of which it has all events and no others.
    RunEnds(String),
}

/// The next action of a feed.
enum Step {
    Event(StoredEvent),
    Over,
    Heartbeat,
    Failed(Problem),
}

impl Feed {
    /// The answer to a request: server-sent events.
    pub(crate) fn respond(self, app: &App) -> Response {
        let (sender, receiver) = mpsc::channel(QUEUED_FRAMES);
        let follower = app.follow(&self.session_id);
        let task = produce(app.clone(), self, sender, follower);
        app.tasks().spawn(task);
        frames(receiver)
    }

    async fn next(&mut self, app: &App, seen: &mut bool) -> Step {
        loop {
            if let Until::Index(last) = self.until
                && last <= self.events.position()
            {
                return Step::Over;
            }
            let failed = async {
                match &mut self.run {
                    Some(run) => run.finish().await.err(),
                    None => std::future::pending().await,
                }
            };
            let is_ending = matches!(self.until, Until::Index(_));
            let next = tokio::select! {
                biased;
                next = self.events.next() => next,
                ended = failed => {
                    self.run = None;
                    match ended {
                        // Its end is an event.
                        None | Some(RunError::Execution(_)) => continue,
                        Some(RunError::Refused { .. }) if *seen => continue,
                        Some(error) => return Step::Failed(error.into()),
                    }
                }
                () = app.closing().cancelled(), if !is_ending => {
                    let head = app.store().session(&self.session_id).await;
                    let head = head.ok().flatten().and_then(|session| session.head);
                    self.until = Until::Index(head);
                    continue;
                }
                () = sleep(app.options().heartbeat) => return Step::Heartbeat,
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return Step::Over,
                Err(error) => return Step::Failed(error.into()),
            };
            if let Until::RunEnds(run_id) = &self.until {
                if event.event().meta.run_id.as_ref() != Some(run_id) {
                    continue;
                }
                if event.event().body.is_terminal() {
                    self.until = Until::Index(Some(event.index()));
                }
            }
            *seen = true;
            return Step::Event(event);
        }
    }
}

/// An answer whose frames arrive through a channel.
pub(crate) fn frames(mut receiver: mpsc::Receiver<Bytes>) -> Response {
    let frames = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)).map(Ok::<_, Infallible>);
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Some proxies collect an answer before they pass it on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn produce(app: App, mut feed: Feed, sender: Sender<Bytes>, follower: Follower) {
    let _open = app.metrics().open_stream();
    let mut is_open = send(&app, &sender, Bytes::from_static(b"retry: 2000\n\n")).await;
    let mut seen = false;
    while is_open {
        let step = tokio::select! {
            biased;
            () = sender.closed() => break,
            step = feed.next(&app, &mut seen) => step,
        };
        let frame = match step {
            Step::Event(event) => event_frame(&event),
            Step::Heartbeat => HEARTBEAT,
            Step::Failed(problem) => {
                send(&app, &sender, error_frame(&problem)).await;
                break;
            }
            Step::Over => break,
        };
        is_open = send(&app, &sender, frame).await;
    }
    drop(follower);
}

/// Whether the client took the frame, or can take it soon.
pub(crate) async fn send(app: &App, sender: &Sender<Bytes>, frame: Bytes) -> bool {
    let Ok(sent) = timeout(app.options().slow_consumer, sender.send(frame)).await else {
        app.metrics().count_slow_consumer();
        return false;
    };
    sent.is_ok()
}

fn event_frame(event: &StoredEvent) -> Bytes {
    format!(
        "id: {}\nevent: {EVENT}\ndata: {}\n\n",
        event.index(),
        event.json()
    )
    .into()
}

fn error_frame(problem: &Problem) -> Bytes {
    let error = serde_json::json!({
        "error": problem.detail(),
        "code": problem.code(),
        "status": problem.status().as_u16(),
    });
    format!("event: {ERROR}\ndata: {error}\n\n").into()
}

/// The event after which a client wants to continue: its own header is newer than the address it was given.
pub(crate) fn cursor(header: Option<&HeaderValue>, after: Option<&str>) -> Result<Option<u64>> {
    let header = header.map(|value| value.to_str().unwrap_or("?"));
    match header.or(after).map(str::trim) {
        None | Some("" | "-1") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Problem::invalid("an event index is a whole number; -1 is before the first event")),
    }
}
