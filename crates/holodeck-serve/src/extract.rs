//! Reads requests, with errors in the form of all others.

use axum::{
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{App, problem::Problem};

/// The body of a request as JSON. A body without content is an empty object.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_encoding(request.headers())?;
        let limit = app.options().max_body;
        let too_large = || {
            let detail = format!("the body is larger than {limit} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", detail)
        };
        // What is announced need not arrive first.
        if announced(&request).is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let body = timeout(app.options().body_timeout, to_bytes(request.into_body(), limit)).await;
        let body = body.map_err(|_| {
            let detail = "the body did not arrive in time";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", detail)
        })?;
        let body = body.map_err(|error| {
            if std::error::Error::source(&error).is_some_and(|error| error.to_string().contains("limit")) {
                too_large()
            } else {
                Problem::invalid("the body did not arrive completely")
            }
        })?;
        let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
        // The fields of an object have names; a list would be read in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::invalid("the body must be a JSON object"));
        }
        let value = serde_json::from_slice(body);
        value
            .map(Self)
            .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
    }
}

/// Refuses a body that is compressed: its size is known only after all of it was read.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut named = headers.get_all(header::CONTENT_ENCODING).iter();
    let is_plain = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or("?").trim();
        value.is_empty() || value.eq_ignore_ascii_case("identity")
    };
    if named.all(is_plain) {
        return Ok(());
    }
    let detail = "the body must not be compressed; send it without `Content-Encoding`";
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UNSUPPORTED_MEDIA_TYPE",
        detail,
    ))
}

/// The length of the body as the head announces it.
fn announced(request: &Request) -> Option<usize> {
    let length = request.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// The part of an address that names something.
pub(crate) struct Segment(pub(crate) String);

impl FromRequestParts<App> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let segment = Path::<String>::from_request_parts(parts, app).await;
        segment
            .map(|Path(segment)| Self(segment))
            .map_err(|error| Problem::invalid(error.body_text()))
    }
}

/// The query of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, app).await;
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| Problem::invalid(error.body_text()))
    }
}
