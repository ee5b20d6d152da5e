//! Events to a client, as server-sent events.

use axum::response::Response;
use bytes::Bytes;
use holodeck_chat::{RunError, RunHandle};
use holodeck_events::{StoredEvent, Subscription};
use http::HeaderValue;
use tokio::time::sleep;

use crate::{
    App,
    app::Follower,
    outlet::Outlet,
    problem::{Problem, Result},
};

/// The name of an event's frame, and of an error's.
const EVENT: &str = "agent:event";
const ERROR: &str = "agent:error";

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
        let (outlet, response) = Outlet::open(app);
        let follower = app.follow(&self.session_id);
        app.tasks().spawn(produce(self, outlet, follower));
        response
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

async fn produce(mut feed: Feed, mut outlet: Outlet, follower: Follower) {
    let app = outlet.app().clone();
    let _open = app.metrics().open_stream();
    let mut seen = false;
    let mut is_open = outlet.send(Bytes::from_static(b"retry: 2000\n\n")).await;
    // The next event is read from the store once the connection has taken the one before.
    while is_open {
        outlet.ready().await;
        let step = tokio::select! {
            biased;
            () = outlet.closed() => break,
            step = feed.next(&app, &mut seen) => step,
        };
        is_open = match step {
            Step::Event(event) => {
                let frame = event_frame(&event);
                drop(event);
                outlet.send(frame).await
            }
            Step::Heartbeat => outlet.heartbeat().await,
            Step::Failed(problem) => {
                outlet.send(error_frame(&problem)).await;
                false
            }
            Step::Over => false,
        };
        feed.events.release();
    }
    drop(follower);
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
