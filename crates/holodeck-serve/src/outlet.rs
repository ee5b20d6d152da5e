//! The frames of one answer on the way to their connection. Their bytes are counted, and a client that takes none is left.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, header};
use serde_json::Value;
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, Permit, Sender, error::SendError},
    },
    time::{Instant, timeout},
};

use crate::App;

/// How long a client may take no data while others wait for the memory that it holds.
const PRESSED: Duration = Duration::from_secs(1);

/// Bytes of text that are sent at once.
pub(crate) const PART: usize = 16 << 10;

/// A comment, so that proxies keep an idle stream open.
const HEARTBEAT: Bytes = Bytes::from_static(b": idle\n\n");

/// A place among the bytes of all readers. What is built from what it holds shares it.
type Space = Arc<OwnedSemaphorePermit>;

/// A frame, with its place, which is free once the connection asks for the next frame.
struct Held {
    frame: Bytes,
    place: Space,
}

/// When a frame of an answer was sent, or its connection took a part of one.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<Instant>>);

/// The sender of the frames of one answer.
pub(crate) struct Outlet {
    app: App,
    sender: Sender<Held>,
    moved_at: Progress,
    reserved: Option<Space>,
}

impl Outlet {
    /// One, and the answer to its client: server-sent events.
    pub(crate) fn open(app: &App) -> (Self, Response) {
        // One frame waits for the connection. What follows stays in the store.
        let (sender, mut receiver) = mpsc::channel::<Held>(1);
        let moved_at = Progress(Arc::new(Mutex::new(Instant::now())));
        let outlet = Self {
            app: app.clone(),
            sender,
            moved_at: moved_at.clone(),
            reserved: None,
        };
        let mut writing: Option<Space> = None;
        let frames = futures::stream::poll_fn(move |cx| {
            // It is asked again when the frame before is written, up to what a connection collects.
            drop(writing.take());
            receiver.poll_recv(cx).map(|held| {
                let (frame, place) = held.map(|held| (held.frame, held.place)).unzip();
                writing = place;
                frame
            })
        });
        let mut response = Body::from_stream(frames.map(Ok::<_, Infallible>)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Some proxies collect an answer before they pass it on.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response.extensions_mut().insert(moved_at);
        (outlet, response)
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Waits until the connection has taken the frame before: what is read for the next one holds memory, too. A client that
    /// does not take it in time is slow only if there is a next one.
    pub(crate) async fn ready(&self) {
        let _taken = self.room().await;
    }

    /// Sends a frame. Whether the client still takes data.
    pub(crate) async fn send(&mut self, frame: Bytes) -> bool {
        let place = match &self.reserved {
            Some(reserved) => Arc::clone(reserved),
            None => match self.space(frame.len()).await {
                Some(space) => space,
                None => return false,
            },
        };
        let permit = match self.room().await {
            Some(Ok(permit)) => permit,
            Some(Err(_)) => return false,
            None => {
                self.app.count_slow_consumer();
                return false;
            }
        };
        permit.send(Held { frame, place });
        self.moved_at.note();
        true
    }

    /// Sends JSON as data without a name.
    pub(crate) async fn data(&mut self, value: &Value) -> bool {
        self.send(format!("data: {value}\n\n").into()).await
    }

    /// Sends JSON with a name.
    pub(crate) async fn named(&mut self, name: &str, value: &Value) -> bool {
        self.send(format!("event: {name}\ndata: {value}\n\n").into())
            .await
    }

    pub(crate) async fn heartbeat(&mut self) -> bool {
        self.send(HEARTBEAT).await
    }

    /// Waits for the space of all that is sent until [`Self::release`]. Whether the client still takes data.
    pub(crate) async fn reserve(&mut self, bytes: usize) -> bool {
        // The frame before has a place of its own, which is free once it is taken.
        self.ready().await;
        self.reserved = self.space(bytes).await;
        self.reserved.is_some()
    }

    /// Gives back what is reserved, once it is sent.
    pub(crate) fn release(&mut self) {
        self.reserved = None;
    }

    /// A place for this number of bytes, unless the client leaves or others hold everything for too long.
    async fn space(&self, bytes: usize) -> Option<Space> {
        let taken = timeout(
            self.app.options().slow_consumer,
            self.app.reader_bytes().take(bytes),
        );
        let taken = tokio::select! {
            biased;
            () = self.sender.closed() => return None,
            taken = taken => taken,
        };
        let Ok(taken) = taken else {
            self.app.count_slow_consumer();
            return None;
        };
        taken.map(Arc::new)
    }

    /// Waits until the connection has taken the frame before; `None` if it does not.
    async fn room(&self) -> Option<Result<Permit<'_, Held>, SendError<()>>> {
        self.app
            .in_time(|| self.moved_at.at(), self.sender.reserve())
            .await
    }
}

impl Progress {
    /// Notes that something moved.
    pub(crate) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl App {
    /// Waits until a client has taken what was sent; `None` if it took nothing of it since `moved_at`. If others wait for the
    /// memory that it holds, it has less time.
    pub(crate) async fn in_time<T>(
        &self,
        moved_at: impl Fn() -> Instant,
        taken: impl Future<Output = T>,
    ) -> Option<T> {
        let limit = self.options().slow_consumer;
        let mut taken = pin!(taken);
        loop {
            // A server that was busy itself gives the connection a moment, too.
            let left = limit.saturating_sub(moved_at().elapsed()).max(limit / 4);
            if let Ok(taken) = timeout(left.min(PRESSED), &mut taken).await {
                return Some(taken);
            }
            let idle = moved_at().elapsed();
            if idle >= limit || idle >= PRESSED && self.reader_bytes().is_short() {
                return None;
            }
        }
    }
}
