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

use crate::{App, problem::Problem};

/// Bytes of an answer that needs no place.
const SMALL: u64 = 16 << 10;

/// A body with its place.
struct Held {
    body: Body,
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
    response.map(|body| Body::new(Held { body, _place: place }))
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
