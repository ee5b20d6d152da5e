//! A log line for each request, with `-v`. Never a token, a query or a body.

use axum::{extract::Request, middleware::Next, response::Response};
use tokio::time::Instant;

use crate::{guard::User, repeats::Peer};

/// The target of these lines.
const REQUESTS: &str = "holodeck_serve::requests";

/// Bytes of a path that are shown.
const MAX_PATH: usize = 200;

/// Says of each request what was asked, and what the answer is.
pub(crate) async fn log_request(request: Request, next: Next) -> Response {
    if !tracing::enabled!(target: REQUESTS, tracing::Level::INFO) {
        return next.run(request).await;
    }
    let begin = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path();
    let path = path.get(..path.floor_char_boundary(MAX_PATH)).unwrap_or_default();
    let path = path.to_owned();
    let peer = request.extensions().get::<Peer>().copied();
    let response = next.run(request).await;
    let user = response.extensions().get::<User>();
    tracing::info!(
        target: REQUESTS,
        %method,
        path,
        status = response.status().as_u16(),
        ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
        user = user.map_or("", |user| user.0.as_str()),
        address = peer.map(|peer| peer.0.to_string()).unwrap_or_default(),
        "request"
    );
    response
}
