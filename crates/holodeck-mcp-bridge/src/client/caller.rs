//! Requests to a remote server: with the headers of the YAML, and with the token of a login, which is renewed once if the
//! server refuses it.
//!
//! A token goes only to the server's own address.

use bytes::Bytes;
use holodeck_http::{Exchange, Headers, HttpClient, HttpError, HttpUrl, InvalidUrl, Upgrade, Upgraded, Verb};
use rmcp::transport::auth::WWWAuthenticateParams;
use secrecy::SecretString;
use url::Url;

use crate::client::plan::{Login, Remote};
use crate::login::LoginError;

/// Why a request to a remote server failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server refuses the token, or wants one.
    #[error("{0}")]
    Login(String),
}

impl From<InvalidUrl> for CallError {
    fn from(error: InvalidUrl) -> Self {
        Self::Http(error.into())
    }
}

impl From<LoginError> for CallError {
    fn from(error: LoginError) -> Self {
        Self::Login(error.to_string())
    }
}

/// Sends the requests of one connection.
#[derive(Clone)]
pub(crate) struct Caller {
    http: HttpClient,
    remote: Remote,
}

impl Caller {
    pub(crate) fn new(http: &HttpClient, remote: &Remote) -> Self {
        Self {
            http: http.clone(),
            remote: remote.clone(),
        }
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Sends a request with `more` headers, which replace those of the YAML. An answer of any status is one, except those that ask
    /// for a login.
    pub(crate) async fn exchange(
        &self,
        verb: Verb,
        url: &HttpUrl,
        more: &Headers,
        body: Option<Bytes>,
    ) -> Result<Exchange, CallError> {
        let token = self.token(url).await?;
        let answer = self.once(verb, url, more, body.clone(), token.as_ref()).await?;
        if answer.status() != 401 {
            return self.checked(url, answer, token.is_some());
        }
        let Some(token) = self.renewed(token).await? else {
            return self.checked(url, answer, false);
        };
        let answer = self.once(verb, url, more, body, Some(&token)).await?;
        self.checked(url, answer, true)
    }

    /// Asks to switch to the protocol that `more` names.
    pub(crate) async fn upgrade(&self, url: &HttpUrl, more: &Headers) -> Result<Upgraded, CallError> {
        let (mut token, mut renewed) = (self.token(url).await?, false);
        loop {
            let headers = self.headers(more, token.as_ref())?;
            let refusal = match self.http(token.as_ref()).upgrade(url, &headers).await? {
                Upgrade::Switched(connection) => return Ok(connection),
                Upgrade::Refused(refusal) => refusal,
            };
            let with_token = token.is_some();
            token = match refusal.status() {
                401 if !renewed => self.renewed(token).await?,
                _ => None,
            };
            renewed = true;
            if token.is_none() {
                return Err(self.checked(url, refusal, with_token)?.refusal().await.into());
            }
        }
    }

    async fn once(
        &self,
        verb: Verb,
        url: &HttpUrl,
        more: &Headers,
        body: Option<Bytes>,
        token: Option<&SecretString>,
    ) -> Result<Exchange, HttpError> {
        let headers = self.headers(more, token)?;
        self.http(token).exchange(verb, url, &headers, body).await
    }

    /// The client for a request with this token, or without.
    fn http(&self, token: Option<&SecretString>) -> &HttpClient {
        match (&self.remote.login, token) {
            (Login::Tokens { http, .. }, Some(_)) => http,
            _ => &self.http,
        }
    }

    fn headers(&self, more: &Headers, token: Option<&SecretString>) -> Result<Headers, HttpError> {
        let mut headers = self.remote.headers.clone();
        headers.extend(more);
        if let Some(token) = token {
            headers.bearer(token)?;
        }
        Ok(headers)
    }

    async fn token(&self, url: &HttpUrl) -> Result<Option<SecretString>, CallError> {
        match &self.remote.login {
            Login::Tokens { tokens, .. } => Ok(tokens.bearer(url).await?),
            Login::Own => Ok(None),
        }
    }

    /// The token after one that the server refused.
    async fn renewed(&self, refused: Option<SecretString>) -> Result<Option<SecretString>, CallError> {
        match (&self.remote.login, refused) {
            (Login::Tokens { tokens, .. }, Some(refused)) => Ok(Some(tokens.renewed(&refused).await?)),
            _ => Ok(None),
        }
    }

    /// The answer, unless it asks for a login or for more than the login allows.
    fn checked(&self, url: &HttpUrl, answer: Exchange, with_token: bool) -> Result<Exchange, CallError> {
        let reason = match answer.status() {
            401 if with_token => "the server refuses its login".to_owned(),
            401 if asks_for_a_token(&answer) => "it needs a login".to_owned(),
            403 => match missing_scopes(url, &answer) {
                Some(scopes) if with_token => format!("its login does not allow this: {scopes}"),
                _ => return Ok(answer),
            },
            _ => return Ok(answer),
        };
        match &self.remote.login {
            Login::Own => Ok(answer),
            Login::Tokens { tokens, .. } => Err(tokens.needed(reason).into()),
        }
    }
}

/// Whether a refusal could be of a missing token: some servers do not say what they want.
fn asks_for_a_token(answer: &Exchange) -> bool {
    let mut schemes = answer.all("www-authenticate").peekable();
    let is_bearer = |challenge: &str| {
        let scheme = challenge.trim_start().get(.."bearer".len());
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
    };
    schemes.peek().is_none() || schemes.any(is_bearer)
}

/// The scopes that a refusal names as missing.
fn missing_scopes(url: &HttpUrl, answer: &Exchange) -> Option<String> {
    let base = Url::parse(url.exposed()).ok()?;
    let challenges = answer.all("www-authenticate");
    challenges
        .map(|challenge| WWWAuthenticateParams::parse(challenge, &base))
        .find(WWWAuthenticateParams::is_insufficient_scope)
        .map(|challenge| match challenge.scope {
            Some(scopes) => format!("it lacks the scope {}", crate::login::foreign(&scopes)),
            None => "it lacks a scope".to_owned(),
        })
}
