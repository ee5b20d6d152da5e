//! The checks that every request must pass: the origin of the page that sends it, and the client's token.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::{Access, App, problem::Problem};

/// The authenticated user of a request. Nothing else in a request names its user.
#[derive(Clone, Debug)]
pub(crate) struct User(pub(crate) String);

/// Paths that need no token.
const OPEN_PATHS: [&str; 3] = ["/", "/health", "/ready"];

/// The subprotocol of a WebSocket that carries the token: a page cannot set headers on one.
const TOKEN_PROTOCOL: &str = "holodeck.token.";

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const ALLOWED_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, last-event-id");
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, x-run-id, x-session-id");

/// Refuses requests that another page makes a browser send, and those without a valid token.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let origin = match check_origin(&app, request.headers()) {
        Ok(origin) => origin,
        Err(problem) => return problem.into_response(),
    };
    let mut response = if is_preflight(&request) {
        StatusCode::NO_CONTENT.into_response()
    } else {
        match authenticate(&app.options().access, &request) {
            Ok(user) => {
                if let Some(user) = user {
                    request.extensions_mut().insert(user);
                }
                next.run(request).await
            }
            Err(problem) => problem.into_response(),
        }
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if !app.options().cors_origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}

fn is_preflight(request: &Request) -> bool {
    let asks = header::ACCESS_CONTROL_REQUEST_METHOD;
    request.method() == Method::OPTIONS && request.headers().contains_key(asks)
}

fn authenticate(access: &Access, request: &Request) -> Result<Option<User>, Problem> {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return Ok(None);
    }
    let user = access.user_of(token(request.headers()));
    user.map(|user| Some(User(user.to_owned()))).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "send the token as `Authorization: Bearer TOKEN`",
        )
    })
}

/// The token of a request, from its header or from the subprotocols of a WebSocket.
fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then_some(token.trim());
    }
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.iter().filter_map(|value| value.to_str().ok());
    let mut protocols = offered.flat_map(|value| value.split(',')).map(str::trim);
    protocols.find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL))
}

/// The origin to allow in the answer, if a page of another one sent the request.
fn check_origin(app: &App, headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let refused = |detail: &str| Problem::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", detail);
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
    let allowed = &app.options().cors_origins;
    if allowed
        .iter()
        .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(text))
    {
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
