use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, NoProxy, Proxy, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;

use crate::response::{KEPT, Secrets};
use crate::transport::classify;
use crate::{
    Body, CallOptions, Headers, HttpError, HttpOptions, HttpUrl, LoopbackProxy, ProxyOptions, Response,
    SetupError, parse_retry_after, retry, tls,
};

/// Sends requests; clones share connections.
#[derive(Clone, Debug)]
pub struct HttpClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    max_response_bytes: u64,
    max_event_bytes: usize,
}

impl HttpClient {
    /// Builds a client. Reads the platform's certificates and the CA bundle, so build one and clone it.
    pub fn new(options: &HttpOptions) -> Result<Self, SetupError> {
        #[expect(clippy::disallowed_methods, reason = "the one place that builds a client")]
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::client_config(options.ca_bundle.as_deref())?)
            .connect_timeout(options.connect_timeout)
            .pool_max_idle_per_host(options.max_idle_per_host)
            .tcp_nodelay(true)
            .user_agent(options.user_agent.as_str())
            // A key must reach only the endpoint that the user named.
            .redirect(redirect::Policy::none())
            // One retry policy, and it is ours.
            .retry(reqwest::retry::never())
            .no_proxy();
        for proxy in proxies(&options.proxy)? {
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|error| SetupError::Client {
            reason: error.without_url().to_string(),
        })?;
        Ok(Self(Arc::new(Inner {
            client,
            max_response_bytes: options.max_response_bytes,
            max_event_bytes: options.max_event_bytes,
        })))
    }

    /// Posts JSON and returns the 2xx answer once its first bytes are there; until then, and only then, the request
    /// is sent again as `options.retry` says.
    pub async fn post_json(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        body: &Value,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::POST, url, headers, Some(body.to_string().into()), options)
            .await
    }

    /// Asks for a resource, with the same rules as [`post_json`](Self::post_json).
    pub async fn get(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::GET, url, headers, None, options).await
    }

    async fn send(
        &self,
        method: Method,
        url: &HttpUrl,
        headers: &Headers,
        body: Option<bytes::Bytes>,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        let secrets = secrets(url, headers);
        let map = request_headers(headers, body.is_some());
        let ((status, headers, body), attempts) = retry::run(options, |deadline| {
            let mut request = self
                .0
                .client
                .request(method.clone(), url.as_url().clone())
                .headers(map.clone());
            if let Some(body) = body.clone() {
                request = request.body(body);
            }
            let attempt = self.attempt(request, url, &secrets);
            async move {
                let Some(deadline) = deadline else {
                    return attempt.await;
                };
                let timeout = |_elapsed| HttpError::Timeout {
                    url: url.clone(),
                    after: options.timeout.unwrap_or_default(),
                };
                tokio::time::timeout_at(deadline, attempt)
                    .await
                    .map_err(timeout)?
            }
        })
        .await?;
        let body = match (attempts.deadline, options.timeout) {
            (Some(deadline), Some(timeout)) => body.until(deadline, timeout),
            _ => body,
        };
        Ok(Response::new(
            status,
            headers,
            body,
            attempts,
            self.0.max_event_bytes,
            secrets,
        ))
    }

    async fn attempt(
        &self,
        request: reqwest::RequestBuilder,
        url: &HttpUrl,
        secrets: &Secrets,
    ) -> Result<(u16, HeaderMap, Body), HttpError> {
        let started = Instant::now();
        let mut response = request.send().await.map_err(|error| classify(error, url))?;
        let status = response.status();
        tracing::debug!(%url, status = status.as_u16(), ms = started.elapsed().as_millis(), "answer");
        let headers = std::mem::take(response.headers_mut());
        if status.is_success() {
            let body = Body::begin(response, url.clone(), self.0.max_response_bytes).await?;
            return Ok((status.as_u16(), headers, body));
        }
        // Whatever its announced length, only its start is read.
        let body = match Body::begin(response, url.clone(), u64::MAX).await {
            Ok(body) => body.start(KEPT).await,
            Err(_broken) => Vec::new(),
        };
        Err(HttpError::Status {
            url: url.clone(),
            status: status.as_u16(),
            body: secrets.excerpt(&body),
            retry_after: retry_after(&headers),
        })
    }
}

fn request_headers(headers: &Headers, has_body: bool) -> HeaderMap {
    let mut map = headers.map().clone();
    if has_body {
        map.entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
    }
    map.entry(ACCEPT)
        .or_insert(HeaderValue::from_static("application/json, text/event-stream"));
    map
}

fn secrets(url: &HttpUrl, headers: &Headers) -> Secrets {
    let of_headers = headers.secrets().map(SecretString::from);
    Secrets(of_headers.chain(url.secrets().map(SecretString::from)).collect())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // OpenAI and Azure send the finer one beside the standard one.
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.trim().parse().ok()) {
        return Some(Duration::from_millis(milliseconds));
    }
    parse_retry_after(text(RETRY_AFTER.as_str())?, Timestamp::now())
}

fn proxies(options: &ProxyOptions) -> Result<Vec<Proxy>, SetupError> {
    let mut direct = options.no_proxy.clone().unwrap_or_default();
    if options.loopback == LoopbackProxy::Bypass {
        direct.push_str(",localhost,127.0.0.0/8,::1");
    }
    let mut proxies = Vec::new();
    if let Some(url) = &options.http {
        proxies.push(Proxy::http(proxy_url(url, "HTTP_PROXY")?).map_err(|_error| unusable("HTTP_PROXY"))?);
    }
    if let Some(url) = &options.https {
        proxies.push(Proxy::https(proxy_url(url, "HTTPS_PROXY")?).map_err(|_error| unusable("HTTPS_PROXY"))?);
    }
    let direct = NoProxy::from_string(&direct);
    Ok(proxies
        .into_iter()
        .map(|proxy| proxy.no_proxy(direct.clone()))
        .collect())
}

/// A proxy's URL; `http://` is understood where no scheme is given, as everywhere.
fn proxy_url(url: &SecretString, setting: &'static str) -> Result<reqwest::Url, SetupError> {
    let text = url.expose_secret().trim();
    let text = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = HttpUrl::parse(&text).map_err(|_error| unusable(setting))?;
    Ok(url.as_url().clone())
}

fn unusable(setting: &'static str) -> SetupError {
    SetupError::Proxy { setting }
}
