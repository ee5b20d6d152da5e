//! Who may read: a program of this machine that has the cookie, which the printed link gives once.

use std::sync::{Mutex, PoisonError};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::server::App;

/// The secrets of a view.
#[derive(Debug)]
pub(crate) struct Access {
    port: u16,
    /// The token of the printed link, until it is used.
    token: Mutex<Option<String>>,
    cookie: String,
}

impl Access {
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            token: Mutex::new(Some(new_secret())),
            cookie: new_secret(),
        }
    }

    /// The address with the token; after its use, without. The parameter is not named `token`: the terminal masks those, and
    /// this one is there to be read.
    pub(crate) fn link(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let query = token
            .as_ref()
            .map_or_else(String::new, |token| format!("?once={token}"));
        format!("http://127.0.0.1:{}/{query}", self.port)
    }

    /// Takes the token if it is this one.
    fn redeem(&self, given: &str) -> bool {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = token.as_ref().is_some_and(|token| is_same(token, given));
        if fits {
            *token = None;
        }
        fits
    }

    /// Whether the request was addressed to this machine: a page of another name that leads here is refused.
    fn is_own_host(&self, host: &str) -> bool {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        names.iter().any(|name| host == format!("{name}:{}", self.port))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let name = self.cookie_name();
        pairs.any(|(own, value)| own == name && is_same(value, &self.cookie))
    }

    /// Ports share cookies, so the port is in the name.
    fn cookie_name(&self) -> String {
        format!("holodeck-view-{}", self.port)
    }
}

/// 244 random bits.
fn new_secret() -> String {
    format!(
        "{}{}",
        uuid::Uuid::new_v4().simple(),
        uuid::Uuid::new_v4().simple()
    )
}

/// Compares digests, so that the time does not tell how much is equal.
fn is_same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

/// Refuses what does not come from the person who started the view.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check(app.access(), &request) {
        Ok(()) => next.run(request).await,
        Err(response) => *response,
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
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

fn check(access: &Access, request: &Request) -> Result<(), Box<Response>> {
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
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "the view only reads\n"));
    }
    let query = request.uri().query().unwrap_or_default();
    let token = query.split('&').find_map(|pair| pair.strip_prefix("once="));
    if request.uri().path() == "/"
        && *request.method() == Method::GET
        && token.is_some_and(|token| access.redeem(token))
    {
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            access.cookie_name(),
            access.cookie
        );
        let headers = [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)];
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
