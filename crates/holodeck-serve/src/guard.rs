//! The checks that every request must pass: the origin of the page that sends it, and the client's token.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::{
    Access, App,
    cors::{Preflight, allow, check_origin},
    problem::Problem,
    repeats::{Kind, Peer},
};

/// The authenticated user of a request. Nothing else in a request names its user.
#[derive(Clone, Debug)]
pub(crate) struct User(pub(crate) String);

/// Paths that need no token.
const OPEN_PATHS: [&str; 4] = ["/", "/docs", "/health", "/ready"];

/// The subprotocol of a WebSocket that carries the token: a page cannot set headers on one.
const TOKEN_PROTOCOL: &str = "holodeck.token.";

/// Refuses requests that another page makes a browser send, and those without a valid token.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let origin = match check_origin(&app, request.headers()) {
        Ok(origin) => origin,
        Err(problem) => return problem.into_response(),
    };
    let preflight = Preflight::of(&request);
    let mut response = if preflight.is_some() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        match authenticate(&app.options().access, &request) {
            Ok(user) => {
                if let Some(user) = &user {
                    request.extensions_mut().insert(user.clone());
                }
                let mut response = next.run(request).await;
                if let Some(user) = user {
                    // For the log.
                    response.extensions_mut().insert(user);
                }
                response
            }
            Err(problem) => {
                let peer = request.extensions().get::<Peer>();
                app.repeats().note(Kind::RefusedToken, peer.map(|peer| peer.0));
                problem.into_response()
            }
        }
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    allow(&app, headers, origin, preflight);
    response
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
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then_some(token.trim());
    }
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.iter().filter_map(|value| value.to_str().ok());
    let mut protocols = offered.flat_map(|value| value.split(',')).map(str::trim);
    protocols.find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL))
}
