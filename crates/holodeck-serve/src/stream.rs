//! Events to a client, as server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use holodeck_chat::{RunError, RunHandle};
use holodeck_events::{StoredEvent, Subscription};
use http::{HeaderValue, header};
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, Permit, Sender},
    },
    time::{Instant, sleep, timeout},
};

use crate::{
    App,
    app::Follower,
    problem::{Problem, Result},
};

/// How long a client may take no data while others wait for the memory that it holds.
const PRESSED: Duration = Duration::from_secs(1);

/// A frame, with its place among the bytes of all readers, which is free once the connection takes the next frame.
struct Held {
    frame: Bytes,
    place: Option<OwnedSemaphorePermit>,
}

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
        // One frame waits for the connection. What follows stays in the store.
        let (sender, receiver) = mpsc::channel(1);
        let follower = app.follow(&self.session_id);
        let task = produce(app.clone(), self, sender, follower);
        app.tasks().spawn(task);
        held_frames(receiver)
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
    respond(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
}

fn held_frames(mut receiver: mpsc::Receiver<Held>) -> Response {
    // The frame that the connection is writing.
    let mut writing = None;
    respond(futures::stream::poll_fn(move |cx| {
        receiver.poll_recv(cx).map(|held| {
            let (frame, place) = held.map(|held| (held.frame, held.place)).unzip();
            writing = place.flatten();
            let _ = &writing;
            frame
        })
    }))
}

fn respond(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Body::from_stream(frames.map(Ok::<_, Infallible>)).into_response();
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

async fn produce(app: App, mut feed: Feed, sender: Sender<Held>, follower: Follower) {
    let _open = app.metrics().open_stream();
    let mut frame = Bytes::from_static(b"retry: 2000\n\n");
    let (mut seen, mut is_over) = (false, false);
    let mut sent_at = Instant::now();
    // The next event is read from the store once the connection has taken the one before.
    loop {
        let Some(permit) = room(&app, &sender, sent_at).await else {
            if !sender.is_closed() {
                app.count_slow_consumer();
            }
            break;
        };
        let place = tokio::select! {
            biased;
            () = sender.closed() => break,
            place = app.reader_bytes().take(frame.len()) => place,
        };
        permit.send(Held { frame, place });
        sent_at = Instant::now();
        if is_over {
            break;
        }
        let step = async {
            // Its space first: an event that waits holds memory, too. A client is slow only if there is one.
            let _taken = room(&app, &sender, sent_at).await;
            feed.next(&app, &mut seen).await
        };
        let step = tokio::select! {
            biased;
            () = sender.closed() => break,
            step = step => step,
        };
        frame = match step {
            Step::Event(event) => event_frame(&event),
            Step::Heartbeat => HEARTBEAT,
            Step::Failed(problem) => {
                is_over = true;
                error_frame(&problem)
            }
            Step::Over => break,
        };
    }
    drop(follower);
}

/// Waits until the connection has taken the frame before, which was sent at this time; `None` if it does not.
async fn room<'a, T>(app: &App, sender: &'a Sender<T>, sent_at: Instant) -> Option<Permit<'a, T>> {
    let limit = app.options().slow_consumer;
    loop {
        let left = limit.saturating_sub(sent_at.elapsed());
        match timeout(left.min(PRESSED), sender.reserve()).await {
            Ok(permit) => return permit.ok(),
            Err(_) if sent_at.elapsed() >= limit || app.reader_bytes().is_short() => return None,
            Err(_) => {}
        }
    }
}

/// Whether the client took the frame, or can take it soon.
pub(crate) async fn send(app: &App, sender: &Sender<Bytes>, frame: Bytes) -> bool {
    let Ok(sent) = timeout(app.options().slow_consumer, sender.send(frame)).await else {
        app.count_slow_consumer();
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
