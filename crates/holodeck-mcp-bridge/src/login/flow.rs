//! A login from beginning to end: the authorization server is found and checked, a person agrees in a browser, and the
//! tokens are kept.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use holodeck_http::{HttpClient, HttpOptions, HttpUrl};
use holodeck_model::{Env, McpOauth, McpTool, McpTransport, io_reason};
use rmcp::transport::auth::{AuthError, AuthorizationManager, OAuthClientConfig, OAuthTokenResponse};
use secrecy::ExposeSecret as _;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use url::Url;

use crate::login::address::{origin_is_safe, server_url};
use crate::login::callback::{Listener, Redirect};
use crate::login::error::{LoginError, foreign};
use crate::login::exchange::Exchanger;
use crate::login::issuer::Issuer;
use crate::login::metadata::find;
use crate::login::news::{Listening, LoginNews};
use crate::login::saved::{Saved, now};
use crate::login::store::{LoggedIn, Logins};

/// The name under which HoloDeck registers itself.
const APPLICATION: &str = "HoloDeck";

/// The largest answer of an authorization server.
const MAX_ANSWER: u64 = 1024 * 1024;

/// How long the browser may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// A login to begin.
#[derive(Debug)]
pub struct LoginRequest<'a> {
    /// The MCP server of the YAML.
    pub tool: &'a McpTool,
    /// The variables that say how servers are reached.
    pub env: &'a Env,
    /// How long to wait for the browser; ten minutes if absent.
    pub patience: Option<Duration>,
}

/// Logs in to a server and keeps the tokens. Dropping the future ends the login.
pub fn log_in<'a>(
    logins: &'a Logins,
    request: LoginRequest<'a>,
    news: Listening<'a>,
) -> BoxFuture<'a, Result<LoggedIn, LoginError>> {
    // The library writes answers to its log.
    Box::pin(log_in_unboxed(logins, request, news).with_subscriber(NoSubscriber::default()))
}

async fn log_in_unboxed(
    logins: &Logins,
    request: LoginRequest<'_>,
    news: Listening<'_>,
) -> Result<LoggedIn, LoginError> {
    let server = server_of(request.tool)?;
    let http = http_client(request.env).map_err(LoginError::Address)?;
    let exchanger = Exchanger::new(http, server.clone());
    let client = Arc::new(exchanger.clone());
    let manager = AuthorizationManager::new_with_oauth_http_client(server.exposed(), client);
    let mut manager = manager
        .await
        .map_err(|error| LoginError::Address(error.to_string()))?;
    let issuer = find(&mut manager, &server, &exchanger).await?;
    // The folder must be usable before a person is asked.
    drop(logins.lock(&server).await?);

    let mut flow = Flow {
        manager,
        exchanger,
        issuer,
        oauth: request.tool.oauth.as_ref(),
    };
    let port = flow.oauth.and_then(|oauth| oauth.redirect_port);
    let listening = Listener::bind(port).await;
    let mut listener = listening.map_err(|error| LoginError::Listen {
        port,
        reason: io_reason(&error),
    })?;
    let scopes = flow.scopes().await;
    let application = flow.application(&listener.redirect_uri(), &scopes).await?;
    let page = flow.page(&scopes).await?;
    news(LoginNews::Open {
        url: page.url.clone(),
        issuer: flow.issuer.id.clone(),
    });
    let patience = request.patience.unwrap_or(PATIENCE);
    let redirect = tokio::time::timeout(patience, listener.first(&page.state, news)).await;
    let redirect = redirect.map_err(|_elapsed| LoginError::TimedOut(patience))?;
    let answer = {
        let exchange = std::pin::pin!(flow.tokens(redirect, &page));
        let others = std::pin::pin!(listener.others(&page.state, news));
        match select(exchange, others).await {
            Either::Left((answer, _others)) => answer?,
            Either::Right((never, _)) => match never {},
        }
    };
    let mut saved = Saved {
        server: server.exposed().to_owned(),
        resource: page.resource,
        issuer: flow.issuer.id.clone(),
        authorization_endpoint: flow.issuer.authorization_endpoint.clone(),
        token_endpoint: flow.issuer.token_endpoint.clone(),
        revocation_endpoint: flow.issuer.revocation_endpoint.clone(),
        auth_methods: flow.issuer.auth_methods.clone(),
        client_id: application.client_id,
        client_secret: application.client_secret,
        scopes,
        access_token: String::new(),
        refresh_token: None,
        expires_at: None,
        since: now(),
    };
    saved.take(&answer).map_err(|reason| LoginError::NoToken {
        issuer: flow.issuer.id.clone(),
        reason: reason.to_owned(),
    })?;
    let _lock = logins.lock(&server).await?;
    logins.write(&server, &saved)?;
    Ok(logins.describe(&saved))
}

/// The parts of a login that a person answers.
struct Flow<'a> {
    manager: AuthorizationManager,
    exchanger: Exchanger,
    issuer: Issuer,
    oauth: Option<&'a McpOauth>,
}

/// The page that a person opens.
struct Page {
    url: String,
    state: String,
    resource: String,
}

impl Flow<'_> {
    async fn scopes(&self) -> Vec<String> {
        match self
            .oauth
            .map(|oauth| &oauth.scopes)
            .filter(|scopes| !scopes.is_empty())
        {
            Some(scopes) => scopes.clone(),
            None => self.manager.select_initial_scopes(&[]).await,
        }
    }

    /// The application of the YAML, or a registration of this one.
    async fn application(
        &mut self,
        redirect: &str,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, LoginError> {
        let unusable = |issuer: &Issuer, reason: String| LoginError::Unusable {
            issuer: foreign(&issuer.id),
            reason,
        };
        if let Some(id) = self.oauth.and_then(|oauth| oauth.client_id.as_ref()) {
            let mut application = OAuthClientConfig::new(id, redirect);
            if let Some(secret) = self.oauth.and_then(|oauth| oauth.client_secret.as_ref()) {
                application = application.with_client_secret(secret.expose_secret());
            }
            self.manager
                .configure_client(application.clone())
                .map_err(|error| unusable(&self.issuer, error.to_string()))?;
            return Ok(application);
        }
        if !self.issuer.registers {
            return Err(LoginError::NoRegistration(foreign(&self.issuer.id)));
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = self.manager.register_client(APPLICATION, redirect, &scopes).await;
        registered.map_err(|_error| {
            let last = self.exchanger.last().map(|last| last.words).unwrap_or_default();
            unusable(
                &self.issuer,
                format!("registering HoloDeck failed: {}", foreign(&last)),
            )
        })
    }

    async fn page(&self, scopes: &[String]) -> Result<Page, LoginError> {
        let unusable = |reason: String| LoginError::Unusable {
            issuer: foreign(&self.issuer.id),
            reason,
        };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = self.manager.get_authorization_url(&scopes).await;
        let url = url.map_err(|error| unusable(error.to_string()))?;
        let parsed = Url::parse(&url).map_err(|error| unusable(error.to_string()))?;
        // An address of the authorization server may have parameters of its own before ours.
        let last = |name: &str| {
            let pairs = parsed.query_pairs().filter(|(own, _)| own == name);
            pairs.last().map(|(_, value)| value.into_owned())
        };
        match (last("state"), last("resource"), last("code_challenge_method")) {
            (Some(state), Some(resource), Some(method)) if method == "S256" => {
                Ok(Page { url, state, resource })
            }
            _ => Err(unusable(
                "its `authorization_endpoint` cannot be extended by parameters".to_owned(),
            )),
        }
    }

    async fn tokens(&self, redirect: Redirect, page: &Page) -> Result<OAuthTokenResponse, LoginError> {
        let issuer = match &redirect {
            Redirect::Code { issuer, .. } | Redirect::Error { issuer, .. } => issuer.as_deref(),
        };
        if let Some(received) = issuer.filter(|received| *received != self.issuer.id) {
            return Err(LoginError::OtherIssuer {
                expected: foreign(&self.issuer.id),
                received: foreign(received),
            });
        }
        let code = match &redirect {
            Redirect::Code { code, .. } => code,
            Redirect::Error { reason, .. } => {
                return Err(LoginError::Refused {
                    issuer: foreign(&self.issuer.id),
                    reason: reason.clone(),
                });
            }
        };
        let exchanging = self
            .manager
            .exchange_code_for_token_with_issuer(code, &page.state, issuer);
        exchanging.await.map_err(|error| {
            let reason = match error {
                AuthError::AuthorizationServerMissingIssuer { .. } => {
                    "its answer has no `iss`, though its metadata announces one".to_owned()
                }
                AuthError::TokenExchangeFailed(_) => {
                    self.exchanger.last().map(|last| last.words).unwrap_or_default()
                }
                other => other.to_string(),
            };
            LoginError::NoToken {
                issuer: foreign(&self.issuer.id),
                reason: foreign(&reason.replace(code.as_str(), "***")),
            }
        })
    }
}

/// The address of a server that can have a login.
fn server_of(tool: &McpTool) -> Result<HttpUrl, LoginError> {
    let server = url_of(tool)?;
    if tool.has_own_token() {
        return Err(LoginError::OwnHeader(tool.name.clone()));
    }
    if !origin_is_safe(&server, &server) {
        return Err(LoginError::Insecure(server));
    }
    Ok(server)
}

/// The address of a server that is no program.
pub(crate) fn url_of(tool: &McpTool) -> Result<HttpUrl, LoginError> {
    match (&tool.url, tool.transport) {
        (_, McpTransport::Stdio) => Err(LoginError::NotRemote(tool.name.clone())),
        (None, _) => Err(LoginError::Address("`url` is missing".to_owned())),
        (Some(url), _) => server_url(url).map_err(|error| LoginError::Address(error.to_string())),
    }
}

/// The client for requests with tokens. What decides how servers are reached is not taken from a file that came with the agent.
pub(crate) fn http_client(env: &Env) -> Result<HttpClient, String> {
    let of_user = |name: &str| env.get(name).filter(|_| env.file_of(name).is_none());
    let options = HttpOptions {
        max_response_bytes: MAX_ANSWER,
        ..HttpOptions::from_variables(|name| of_user(name).map(str::to_owned))
    };
    HttpClient::new(&options).map_err(|error| error.to_string())
}
