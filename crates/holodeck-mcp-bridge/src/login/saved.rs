//! The tokens of a login with all that renews them, as they are kept in a file. Shows no secret.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::OAuthTokenResponse;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::login::issuer::Issuer;

/// A token that ends sooner is renewed before it is used.
const MARGIN: Duration = Duration::from_secs(30);

/// The tokens of a server, with all that is needed to renew them. `Debug` shows none.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The address of the MCP server: the only one that gets the token.
    pub(crate) server: String,
    /// The resource that the token was issued for (RFC 8707).
    pub(crate) resource: String,
    /// The authorization server.
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) auth_methods: Vec<String>,
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    pub(crate) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// In seconds since 1970; absent if the authorization server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    /// In seconds since 1970.
    pub(crate) since: u64,
}

/// The fields of a token endpoint's answer.
#[derive(Serialize, Deserialize)]
struct Tokens {
    access_token: String,
    token_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// Whether a token can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// It ends within moments.
    Ending,
    Ended,
}

impl Saved {
    pub(crate) fn freshness(&self) -> Freshness {
        let Some(expires_at) = self.expires_at else {
            return Freshness::Fresh;
        };
        let now = now();
        if now >= expires_at {
            Freshness::Ended
        } else if now + MARGIN.as_secs() >= expires_at {
            Freshness::Ending
        } else {
            Freshness::Fresh
        }
    }

    /// Takes the tokens of an answer. A refresh token stays if the answer has none. The error has no part of the answer.
    pub(crate) fn take(&mut self, answer: &OAuthTokenResponse) -> Result<(), &'static str> {
        let tokens = serde_json::to_value(answer).and_then(serde_json::from_value::<Tokens>);
        let tokens = tokens.map_err(|_error| "its answer has no token that can be read")?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") {
            return Err("its token is not of the type `Bearer`");
        }
        let is_header = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_header(&tokens.access_token) {
            return Err("its token has characters that no header may have");
        }
        self.access_token = tokens.access_token;
        self.refresh_token = tokens.refresh_token.or(self.refresh_token.take());
        if let Some(scopes) = tokens.scope {
            self.scopes = scopes.split_whitespace().map(str::to_owned).collect();
        }
        self.since = now();
        self.expires_at = tokens.expires_in.map(|left| self.since.saturating_add(left));
        Ok(())
    }

    /// The tokens in the form of the OAuth library.
    pub(crate) fn tokens(&self) -> Option<OAuthTokenResponse> {
        serde_json::to_value(Tokens {
            access_token: self.access_token.clone(),
            token_type: "bearer".to_owned(),
            refresh_token: self.refresh_token.clone(),
            expires_in: None,
            scope: None,
        })
        .and_then(serde_json::from_value)
        .ok()
    }

    pub(crate) fn issuer(&self) -> Issuer {
        Issuer {
            id: self.issuer.clone(),
            authorization_endpoint: self.authorization_endpoint.clone(),
            token_endpoint: self.token_endpoint.clone(),
            registers: false,
            revocation_endpoint: self.revocation_endpoint.clone(),
            auth_methods: self.auth_methods.clone(),
        }
    }

    /// Text without the login's secrets.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets().filter(|secret| !secret.expose_secret().is_empty()) {
            text = text.replace(secret.expose_secret(), "***");
        }
        text
    }

    /// All that must never be shown.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let optional = [&self.refresh_token, &self.client_secret].into_iter().flatten();
        std::iter::once(&self.access_token)
            .chain(optional)
            .map(|secret| secret.as_str().into())
    }
}

impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved")
            .field("resource", &self.resource)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
