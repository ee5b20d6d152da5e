//! Addresses of servers that have logins: which one a login belongs to, and where tokens may be sent.

use holodeck_http::{HttpUrl, InvalidUrl};

/// The address of a server that has logins: without fragment, and with the scheme of HTTP also for a WebSocket.
pub(crate) fn server_url(url: &str) -> Result<HttpUrl, InvalidUrl> {
    let url = url.trim();
    let http = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
        _ => url.to_owned(),
    };
    HttpUrl::parse(http.split('#').next().unwrap_or_default())
}

/// Whether tokens may be sent to an address: over TLS, or to this machine if the server itself is on it.
pub(crate) fn origin_is_safe(url: &HttpUrl, server: &HttpUrl) -> bool {
    if url.is_loopback() {
        server.is_loopback()
    } else {
        url.is_https()
    }
}
