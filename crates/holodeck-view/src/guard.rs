//! Refuses requests that do not come from the person who started the view.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Method, StatusCode, header};

use crate::{access::Access, app::App};

/// Refuses what does not come from the person who started the view.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check(app.access(), app.catalogue().is_read_only(), &request) {
        Ok(()) => next.run(request).await,
        Err(response) => *response,
    };
    let headers = response.headers_mut();
    // With `no-referrer` a browser would not say with a form from which page it comes.
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'",
        ));
    response
}

fn check(access: &Access, is_read_only: bool, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status: StatusCode, text: &'static str| Box::new((status, text).into_response());
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts
        .next()
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    if hosts.next().is_some() || !access.is_own_host(host) {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "the request is addressed to another host\n",
        ));
    }
    let own = format!("http://{host}");
    if headers
        .get_all(header::ORIGIN)
        .iter()
        .any(|origin| origin.as_bytes() != own.as_bytes())
    {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "the request comes from another page\n",
        ));
    }
    let is_change = *request.method() == Method::POST && !is_read_only;
    if !is_change && !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "the view only reads\n"));
    }
    // A browser sends it with every form.
    if is_change && !headers.contains_key(header::ORIGIN) {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "the request does not say from which page it comes\n",
        ));
    }
    let query = request.uri().query().unwrap_or_default();
    let token = query.split('&').find_map(|pair| pair.strip_prefix("once="));
    if request.uri().path() == "/"
        && *request.method() == Method::GET
        && token.is_some_and(|token| access.redeem(token))
    {
        let headers = [
            (header::LOCATION, "/".to_owned()),
            (header::SET_COOKIE, access.cookie()),
        ];
        return Err(Box::new((StatusCode::SEE_OTHER, headers).into_response()));
    }
    if access.has_cookie(headers) {
        return Ok(());
    }
    Err(refuse(
        StatusCode::FORBIDDEN,
        "open the link that `holodeck view` printed; it works once, start the command again for another one\n",
    ))
}
