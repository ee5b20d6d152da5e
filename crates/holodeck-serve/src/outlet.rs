//! The frames of one answer on the way to their connection. Their bytes are counted, and a client that takes none is left.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
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
        Notify, OwnedSemaphorePermit,
        mpsc::{self, Sender},
    },
    time::timeout,
};

use crate::App;

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

/// The sender of the frames of one answer.
pub(crate) struct Outlet {
    app: App,
    sender: Sender<Held>,
    reserved: Option<Space>,
    /// The place of the last frame, until the connection has taken it, which is notified.
    last: Weak<OwnedSemaphorePermit>,
    taken: Arc<Notify>,
}

impl Outlet {
    /// One, and the answer to its client: server-sent events.
    pub(crate) fn open(app: &App) -> (Self, Response) {
        // One frame waits for the connection. What follows stays in the store.
        let (sender, mut receiver) = mpsc::channel::<Held>(1);
        let taken = Arc::new(Notify::new());
        let outlet = Self {
            app: app.clone(),
            sender,
            reserved: None,
            last: Weak::new(),
            taken: Arc::clone(&taken),
        };
        let mut writing: Option<Space> = None;
        let frames = futures::stream::poll_fn(move |cx| {
            // It is asked again when the frame before is written, up to what a connection collects.
            if writing.take().is_some() {
                taken.notify_one();
            }
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
        (outlet, response)
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Waits until there is room for a frame: what is read for the next one holds memory, too.
    pub(crate) async fn ready(&self) {
        let _room = self.sender.reserve().await;
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
        let last = Arc::downgrade(&place);
        if self.sender.send(Held { frame, place }).await.is_err() {
            return false;
        }
        self.last = last;
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
        self.reserved = self.space(bytes).await;
        self.reserved.is_some()
    }

    /// Gives back what is reserved, once it is sent.
    pub(crate) fn release(&mut self) {
        self.reserved = None;
    }

    /// A place for this number of bytes, unless the client leaves or others hold everything for too long.
    async fn space(&self, bytes: usize) -> Option<Space> {
        let places = self.app.reader_bytes();
        if let Some(taken) = places.try_take(bytes) {
            return Some(Arc::new(taken));
        }
        let taken = async {
            // Clients that wait for memory while they hold some would wait for each other, and for themselves.
            while self.last.strong_count() > 0 {
                self.taken.notified().await;
            }
            timeout(self.app.options().slow_consumer, places.take(bytes)).await
        };
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
}
