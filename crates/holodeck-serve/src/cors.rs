//! Pages of other origins: which of them may use the server, and the headers that tell their browsers so. Names no user.

use std::net::IpAddr;

use axum::extract::Request;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{Access, App, problem::Problem};

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// The headers of the answer that a page may read.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("retry-after, x-request-id, x-run-id, x-session-id, x-should-retry");

/// The question of a browser before a request of a page.
pub(crate) struct Preflight {
    /// The headers that the page will send, as the browser lists them.
    headers: Option<HeaderValue>,
}

impl Preflight {
    /// The question that a request is, if it is one.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let is_one = request.method() == Method::OPTIONS
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let asked = || {
            let lists = headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
            let names = lists
                .filter_map(|list| list.to_str().ok())
                .flat_map(|list| list.split(','));
            let names: Vec<_> = names
                .filter_map(|name| HeaderName::try_from(name.trim()).ok())
                .collect();
            let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
            HeaderValue::try_from(names.join(", "))
                .ok()
                .filter(|list| !list.is_empty())
        };
        is_one.then(|| Self { headers: asked() })
    }
}

/// Lets the page of an allowed origin read the answer, and send what it asked for. Which headers those are does not
/// matter: a server has no others than its own, and the token is checked.
pub(crate) fn allow(
    app: &App,
    headers: &mut HeaderMap,
    origin: Option<HeaderValue>,
    preflight: Option<Preflight>,
) {
    if app.options().cors_origins.is_empty() {
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let Some(origin) = origin else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    let Some(preflight) = preflight else { return };
    headers.append(
        header::VARY,
        HeaderValue::from_static("access-control-request-headers"),
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(asked) = preflight.headers {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
    }
}

/// The origin to allow in the answer, if a page of another one sent the request.
pub(crate) fn check_origin(app: &App, headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let refused = |detail: &str| Problem::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", detail);
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        // A proxy in front may have checked the other one.
        return Err(Problem::invalid("the request has more than one `Host`"));
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    // A name that points here does not make its page one of this machine (DNS rebinding).
    if matches!(app.options().access, Access::Open) && !is_loopback(host) {
        return Err(refused(
            "without a token, only `localhost` and loopback addresses are served",
        ));
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(None);
    };
    let text = origin.to_str().unwrap_or_default();
    let own = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    if !host.is_empty() && own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(None);
    }
    let mut allowed = app.options().cors_origins.iter();
    if allowed.any(|allowed| allowed.allows(text)) {
        return Ok(Some(origin.clone()));
    }
    Err(refused(
        "this page may not use the server; add its origin to `serve.cors_origins`",
    ))
}

/// Whether a `Host` header names this machine, and nothing that another machine's DNS decides.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => return false,
        },
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:8000", true),
            ("127.0.0.1:8000", true),
            ("127.9.9.9", true),
            ("[::1]:8000", true),
            ("[::1]", true),
            ("", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:8000", false),
            ("evil.example:8000", false),
            ("0.0.0.0:8000", false),
            ("[::1]evil.example", false),
            ("10.0.0.1:8000", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
