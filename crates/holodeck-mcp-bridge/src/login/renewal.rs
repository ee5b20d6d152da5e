//! Renews the tokens of a login at the authorization server that issued them.

use std::sync::Arc;

use holodeck_http::{HttpClient, HttpUrl};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore as _, InMemoryCredentialStore, OAuthClientConfig,
    StoredCredentials,
};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::login::error::foreign;
use crate::login::exchange::Exchanger;
use crate::login::metadata::of_saved;
use crate::login::saved::Saved;

/// Why there are no new tokens.
#[derive(Debug)]
pub(crate) enum NotRenewed {
    /// The authorization server refuses for good.
    Refused(String),
    /// It may work later.
    Failed(String),
}

/// The login with new tokens. The caller holds its lock.
pub(crate) async fn renew(saved: &Saved, server: &HttpUrl, http: &HttpClient) -> Result<Saved, NotRenewed> {
    let exchanger = Exchanger::new(http.clone(), server.clone()).for_resource(&saved.resource);
    // The library writes answers to its log.
    let renewing = tokens(saved, exchanger).with_subscriber(NoSubscriber::default());
    renewing.await
}

async fn tokens(saved: &Saved, exchanger: Exchanger) -> Result<Saved, NotRenewed> {
    let failed = |error: AuthError| {
        let last = exchanger.last();
        let words = last
            .as_ref()
            .map_or_else(|| error.to_string(), |last| last.words.clone());
        let words = foreign(&saved.without_secrets(&words));
        // An application that is no longer known has no tokens either.
        let code = last.as_ref().and_then(|last| last.code.as_deref());
        if matches!(
            code,
            Some("invalid_grant" | "invalid_client" | "unauthorized_client")
        ) {
            NotRenewed::Refused(words)
        } else {
            NotRenewed::Failed(words)
        }
    };
    let damaged = || NotRenewed::Refused("its file is incomplete".to_owned());
    let client = Arc::new(exchanger.clone());
    let manager = AuthorizationManager::new_with_oauth_http_client(saved.server.as_str(), client);
    let mut manager = manager.await.map_err(failed)?;
    manager.set_metadata(of_saved(&saved.issuer()).ok_or_else(damaged)?);
    manager.configure_client(application(saved)).map_err(failed)?;
    let credentials = StoredCredentials::new(
        saved.client_id.clone(),
        saved.tokens(),
        saved.scopes.clone(),
        None,
    )
    .with_issuer(Some(saved.issuer.clone()));
    let memory = InMemoryCredentialStore::new();
    memory.save(credentials).await.map_err(failed)?;
    manager.set_credential_store(memory);
    let answer = manager.refresh_token().await.map_err(failed)?;
    let mut renewed = saved.clone();
    renewed
        .take(&answer)
        .map_err(|reason| NotRenewed::Failed(reason.to_owned()))?;
    Ok(renewed)
}

fn application(saved: &Saved) -> OAuthClientConfig {
    // A renewal has no redirect; the library only wants an address.
    let application = OAuthClientConfig::new(&saved.client_id, &saved.server);
    match &saved.client_secret {
        Some(secret) => application.with_client_secret(secret),
        None => application,
    }
}
