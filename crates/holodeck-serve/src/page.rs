//! The page to talk to an agent.

use std::sync::LazyLock;

use axum::response::{Html, IntoResponse as _, Response};
use base64::Engine as _;
use http::{HeaderValue, header};
use sha2::{Digest as _, Sha256};

const PAGE: &str = include_str!("page.html");

/// The page loads nothing, and sends nothing anywhere else. Only its own script and style are run: what a model or a file
/// writes into it can't be.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        hash_of("script"),
        hash_of("style")
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The hash of an element's content, as a policy names it.
fn hash_of(element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let content = PAGE
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close))
        .map_or("", |(content, _)| content);
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(content));
    format!("'sha256-{hash}'")
}

pub(crate) async fn page() -> Response {
    let mut response = Html(PAGE).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // The next version of the program has another one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
