//! A log line for each request, with `-v`. Never a token, a query or a body.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use tokio::time::Instant;

use crate::{
    App,
    guard::{User, token},
    masking::MASK,
    repeats::Peer,
};

/// The target of these lines.
const REQUESTS: &str = "holodeck_serve::requests";

/// Bytes of a path that are shown.
const MAX_PATH: usize = 200;

/// Says of each request what was asked, and what the answer is.
pub(crate) async fn log_request(State(app): State<App>, request: Request, next: Next) -> Response {
    if !tracing::enabled!(target: REQUESTS, tracing::Level::INFO) {
        return next.run(request).await;
    }
    let begin = Instant::now();
    let method = request.method().clone();
    let path = shown_path(&app, request.uri().path(), token(request.headers()));
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

/// A path without a token or another secret in it: a client may have sent one in the place of an id.
fn shown_path(app: &App, path: &str, token: Option<&str>) -> String {
    let parts = path.split('/').map(|part| {
        let plain = percent_decoded(part);
        let shown = match token.filter(|token| !token.is_empty()) {
            Some(token) => plain.replace(token, MASK),
            None => plain.clone(),
        };
        let shown = app.masked(&shown);
        if shown == plain { part.to_owned() } else { shown }
    });
    let mut path = parts.collect::<Vec<_>>().join("/");
    path.truncate(path.floor_char_boundary(MAX_PATH));
    path
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let coded = match (first, after) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: u8| {
                    char::from(byte)
                        .to_digit(16)
                        .and_then(|digit| u8::try_from(digit).ok())
                };
                digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low)
            }
            _ => None,
        };
        bytes.push(coded.unwrap_or(*first));
        rest = after
            .get(if coded.is_some() { 2 } else { 0 }..)
            .unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
