//! Answers that are sent whole: a large one has its place among the bytes of all readers until its client has taken it. Must be
//! outside of everything that reads bodies.

use std::{
    pin::Pin,
    sync::Arc,
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

/// A body whose bytes have a place.
struct Held {
    body: Body,
    place: Arc<OwnedSemaphorePermit>,
}

/// Bytes with their place, which is free when they are written.
struct Placed {
    bytes: Bytes,
    _place: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Waits for a place for a large answer. If there is none in time, it is an error that says so.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
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
    response.map(|body| {
        Body::new(Held {
            body,
            place: Arc::new(place),
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
        let place = Arc::clone(&self.place);
        Pin::new(&mut self.body)
            .poll_frame(cx)
            .map_ok(|frame| frame.map_data(|bytes| Bytes::from_owner(Placed { bytes, _place: place })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{Router, middleware, routing::any};
    use holodeck_events::MemoryStore;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::ServeOptions;

    /// The answer to a request while others hold this number of bytes.
    async fn ask(method: Method, held: usize) -> Response {
        let options = ServeOptions {
            slow_consumer: Duration::from_millis(20),
            ..ServeOptions::default()
        };
        let app = App::new(Vec::new(), Arc::new(MemoryStore::new()), options);
        let _held = app.reader_bytes().take(held).await.unwrap();
        let router = Router::new()
            .route("/", any(|| async { vec![0_u8; PART + 1] }))
            .layer(middleware::from_fn_with_state(app.clone(), count));
        let request = http::Request::builder().method(method).uri("/");
        let request = request.body(Body::empty()).unwrap();
        TowerToHyperService::new(router).call(request).await.unwrap()
    }

    #[tokio::test]
    async fn a_large_answer_is_refused_if_others_hold_all_memory_and_says_whether_the_message_was_answered() {
        for (method, repeats) in [(Method::GET, None), (Method::POST, Some("false"))] {
            let refused = ask(method.clone(), usize::MAX).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{method}");
            let header = refused.headers().get("x-should-retry");
            assert_eq!(header.map(|value| value.to_str().unwrap()), repeats, "{method}");
            assert_eq!(ask(method, 1).await.status(), StatusCode::OK);
        }
    }
}
