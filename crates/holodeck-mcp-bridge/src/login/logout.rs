//! Ends a login: its tokens are removed from the user's folder, and revoked where the authorization server offers that.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use holodeck_http::{Headers, HttpError, HttpUrl, Verb};
use holodeck_model::{Env, McpTool};
use url::form_urlencoded;

use crate::login::address::origin_is_safe;
use crate::login::error::{LoginError, foreign};
use crate::login::flow::{http_client, url_of};
use crate::login::saved::Saved;
use crate::login::store::Logins;

/// How long the authorization server may take.
const LIMIT: Duration = Duration::from_secs(15);

/// A login that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOut {
    /// The authorization server; `None` if the file could not be read.
    pub issuer: Option<String>,
    /// Why the tokens may still be valid: the authorization server did not revoke them.
    pub not_revoked: Option<String>,
}

/// Removes the login to a server; `None` if there was none.
pub fn log_out<'a>(
    logins: &'a Logins,
    tool: &'a McpTool,
    env: &'a Env,
) -> BoxFuture<'a, Result<Option<LoggedOut>, LoginError>> {
    Box::pin(log_out_unboxed(logins, tool, env))
}

async fn log_out_unboxed(
    logins: &Logins,
    tool: &McpTool,
    env: &Env,
) -> Result<Option<LoggedOut>, LoginError> {
    let server = url_of(tool)?;
    if !logins.has(server.exposed()) {
        return Ok(None);
    }
    let lock = logins.lock(&server).await?;
    // One that can't be read is removed all the same.
    let saved = logins.find(&server).ok().flatten();
    logins.remove(&server)?;
    drop(lock);
    let not_revoked = match &saved {
        None => Some("its file could not be read".to_owned()),
        Some(saved) => revoke(saved, &server, env)
            .await
            .err()
            .map(|reason| foreign(&saved.without_secrets(&reason))),
    };
    Ok(Some(LoggedOut {
        issuer: saved.map(|saved| saved.issuer),
        not_revoked,
    }))
}

async fn revoke(saved: &Saved, server: &HttpUrl, env: &Env) -> Result<(), String> {
    let endpoint = saved.revocation_endpoint.as_ref();
    let endpoint = endpoint.ok_or("it offers no revocation")?;
    let url = HttpUrl::parse(endpoint).map_err(|error| error.to_string())?;
    if !origin_is_safe(&url, server) {
        return Err(format!("{url} is not encrypted"));
    }
    let http = http_client(env)?;
    let (headers, form) = request(saved).map_err(|error| error.to_string())?;
    let sent = http.exchange(Verb::Post, &url, &headers, Some(form.into()));
    let answer = tokio::time::timeout(LIMIT, sent).await;
    let answer = answer.map_err(|_elapsed| format!("no answer from {url}"))?;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.is_success() {
        Ok(())
    } else {
        Err(answer.refusal().await.to_string())
    }
}

/// The headers and the form of a revocation.
fn request(saved: &Saved) -> Result<(Headers, String), HttpError> {
    let (token, kind) = match &saved.refresh_token {
        Some(refresh) => (refresh, "refresh_token"),
        None => (&saved.access_token, "access_token"),
    };
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token)
        .append_pair("token_type_hint", kind);
    let mut headers = Headers::new();
    headers.insert("content-type", "application/x-www-form-urlencoded")?;
    match &saved.client_secret {
        Some(secret) => {
            let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&saved.client_id), encoded(secret));
            let basic = format!("Basic {}", BASE64_STANDARD.encode(pair));
            headers.insert_secret("authorization", &basic.into())?;
        }
        None => {
            form.append_pair("client_id", &saved.client_id);
        }
    }
    Ok((headers, form.finish()))
}
