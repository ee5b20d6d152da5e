//! The secrets of a view: the printed link, which works once, and the cookie that it gives.

use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};

/// The secrets of a view.
#[derive(Debug)]
pub(crate) struct Access {
    port: u16,
    /// The token of the printed link, until it is used.
    token: Mutex<Option<String>>,
    cookie: String,
    /// The token that each form carries.
    form: String,
}

impl Access {
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            token: Mutex::new(Some(new_secret())),
            cookie: new_secret(),
            form: new_secret(),
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
    pub(crate) fn redeem(&self, given: &str) -> bool {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = token.as_ref().is_some_and(|token| is_same(token, given));
        if fits {
            *token = None;
        }
        fits
    }

    /// Whether the request was addressed to this machine: a page of another name that leads here is refused.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        names.iter().any(|name| host == format!("{name}:{}", self.port))
    }

    pub(crate) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let name = self.cookie_name();
        pairs.any(|(own, value)| own == name && is_same(value, &self.cookie))
    }

    /// The token that each form carries.
    pub(crate) fn form_token(&self) -> &str {
        &self.form
    }

    pub(crate) fn is_form_token(&self, given: &str) -> bool {
        is_same(given, &self.form)
    }

    /// The cookie, as a response sets it.
    pub(crate) fn cookie(&self) -> String {
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie_name(),
            self.cookie
        )
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
