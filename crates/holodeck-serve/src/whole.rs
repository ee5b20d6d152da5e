//! Bodies on the way to their connection: they are sent in parts, so that progress is seen, and a large answer that is sent whole
//! has its place among the bytes of all readers until its client has taken it. Must be outside of everything that reads frames.

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

use crate::{
    App,
    outlet::{PART, Progress},
    problem::Problem,
};

/// A body with its place.
struct Held {
    body: Body,
    /// The part of a piece that is not sent yet.
    rest: Bytes,
    progress: Option<Progress>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Held {
    fn body(body: Body, progress: Option<Progress>, place: Option<OwnedSemaphorePermit>) -> Body {
        Body::new(Self {
            body,
            rest: Bytes::new(),
            progress,
            _place: place,
        })
    }
}

/// Waits for a place for a large answer. If there is none in time, it is an error that says so.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = next.run(request).await;
    if let Some(progress) = response.extensions_mut().remove::<Progress>() {
        return response.map(|body| Held::body(body, Some(progress), None));
    }
    let Some(bytes) = response
        .body()
        .size_hint()
        .exact()
        .filter(|bytes| *bytes > PART as u64)
    else {
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
    response.map(|body| Held::body(body, None, Some(place)))
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
        if let Some(progress) = &self.progress {
            progress.note();
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
