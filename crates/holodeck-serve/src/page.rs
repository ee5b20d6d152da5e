//! The page to talk to an agent.

use axum::response::{Html, IntoResponse as _, Response};
use http::{HeaderValue, header};

/// It loads nothing, and sends nothing anywhere else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

pub(crate) async fn page() -> Response {
    let mut response = Html(include_str!("page.html")).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}
