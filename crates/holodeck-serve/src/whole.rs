//! Answers that are sent whole: a large one has its place among the bytes of all readers until its client has taken it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{Method, StatusCode};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::{App, outlet::PART, problem::Problem};

/// Bytes of an answer that needs no place.
const SMALL: u64 = 16 << 10;

/// A body with its place.
struct Held {
    body: Body,
    /// The part of a piece that is not sent yet.
    rest: Bytes,
    _place: OwnedSemaphorePermit,
}

/// Waits for a place for a large answer. If there is none in time, it is an error that says so.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
    let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > SMALL) else {
        return response;
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let place = timeout(app.options().slow_consumer, app.reader_bytes().take(bytes)).await;
    let Ok(Some(place)) = place else {
        app.count_slow_consumer();
        let detail = "other clients hold the memory for answers";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_BYTES", detail).retry_after(5);
        return if is_read { problem } else { problem.after_effect() }.into_response();
    };
    response.map(|body| {
        Body::new(Held {
            body,
            rest: Bytes::new(),
            _place: place,
        })
    })
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let part = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(self.body.size_hint().lower().saturating_add(left));
        if let Some(upper) = self.body.size_hint().upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}
