//! The token of a server during a run: read from the user's folder, renewed when it ends, sent to that server only.

use std::sync::{Arc, Mutex, PoisonError};

use holodeck_http::{HttpClient, HttpUrl};
use secrecy::{ExposeSecret as _, SecretString};

use crate::login::address::origin_is_safe;
use crate::login::error::LoginError;
use crate::login::renewal::{NotRenewed, renew};
use crate::login::saved::{Freshness, Saved};
use crate::login::store::Logins;

/// Shorter values are ordinary words that may occur anywhere.
pub(crate) const SHORTEST_SECRET: usize = 8;

/// The token of one server.
pub(crate) struct Tokens(Arc<Inner>);

struct Inner {
    logins: Logins,
    server: HttpUrl,
    http: HttpClient,
    /// The command that logs in.
    command: String,
    current: Mutex<Option<Saved>>,
    /// Everything that must not be shown, former tokens too.
    seen: Mutex<Vec<SecretString>>,
}

impl Tokens {
    pub(crate) fn new(logins: Logins, server: HttpUrl, http: HttpClient, command: String) -> Self {
        Self(Arc::new(Inner {
            logins,
            server,
            http,
            command,
            current: Mutex::default(),
            seen: Mutex::default(),
        }))
    }

    /// The token for a request to `target`; `None` if there is no login.
    pub(crate) async fn bearer(&self, target: &HttpUrl) -> Result<Option<SecretString>, LoginError> {
        if target.origin().exposed() != self.0.server.origin().exposed() {
            return Ok(None);
        }
        let current = self.0.current();
        let Some(saved) = current.map_or_else(|| self.0.load(), |saved| Ok(Some(saved)))? else {
            return Ok(None);
        };
        if !origin_is_safe(target, target) {
            return Err(LoginError::Insecure(target.clone()));
        }
        let token = SecretString::from(saved.access_token.as_str());
        match saved.freshness() {
            Freshness::Fresh => Ok(Some(token)),
            freshness => match self.renewed(&token).await {
                Err(LoginError::NoToken { .. }) if freshness == Freshness::Ending => Ok(Some(token)),
                renewed => renewed.map(Some),
            },
        }
    }

    /// Whether there was a login at the last request.
    pub(crate) fn has_login(&self) -> bool {
        self.0.current().is_some()
    }

    /// The token after `used`, which the server refused or which ends.
    pub(crate) async fn renewed(&self, used: &SecretString) -> Result<SecretString, LoginError> {
        let (inner, used) = (Arc::clone(&self.0), used.clone());
        // A caller that gives up must not lose the new tokens: the old ones are no longer valid then.
        let renewing = tokio::spawn(async move { inner.renew(&used).await });
        renewing
            .await
            .unwrap_or_else(|_ended| Err(self.needed("it was interrupted")))
    }

    /// A missing login, with the command to type.
    pub(crate) fn needed(&self, reason: impl Into<String>) -> LoginError {
        self.0.needed(reason)
    }

    /// Text without any token of the login.
    pub(crate) fn masked(&self, text: &str) -> Option<String> {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut masked: Option<String> = None;
        for secret in seen.iter().map(SecretString::expose_secret) {
            let text = masked.as_deref().unwrap_or(text);
            if text.contains(secret) {
                masked = Some(text.replace(secret, "***"));
            }
        }
        masked
    }
}

impl Inner {
    fn current(&self) -> Option<Saved> {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn load(&self) -> Result<Option<Saved>, LoginError> {
        let saved = self.logins.find(&self.server)?;
        if let Some(saved) = &saved {
            self.keep(saved);
        }
        Ok(saved)
    }

    fn keep(&self, saved: &Saved) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in saved.secrets() {
            let is_new = !seen
                .iter()
                .any(|other| other.expose_secret() == secret.expose_secret());
            if is_new && secret.expose_secret().len() >= SHORTEST_SECRET {
                seen.push(secret);
            }
        }
        drop(seen);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved.clone());
    }

    async fn renew(&self, used: &SecretString) -> Result<SecretString, LoginError> {
        let _lock = self.logins.lock(&self.server).await?;
        let Some(saved) = self.load()? else {
            return Err(self.needed("it is logged out"));
        };
        if saved.access_token != used.expose_secret() && saved.freshness() != Freshness::Ended {
            // Another process has renewed it.
            return Ok(saved.access_token.into());
        }
        if saved.refresh_token.is_none() {
            return Err(self.needed("its login has ended"));
        }
        let renewed = renew(&saved, &self.server, &self.http)
            .await
            .map_err(|error| match error {
                NotRenewed::Refused(reason) => self.needed(format!("its login can't be renewed: {reason}")),
                NotRenewed::Failed(reason) => LoginError::NoToken {
                    issuer: saved.issuer.clone(),
                    reason,
                },
            })?;
        self.keep(&renewed);
        self.logins.write(&self.server, &renewed)?;
        Ok(renewed.access_token.into())
    }

    fn needed(&self, reason: impl Into<String>) -> LoginError {
        LoginError::Needed {
            reason: reason.into(),
            command: self.command.clone(),
        }
    }
}
