//! Sends requests with retries, pacing and time limits, and accepts only the expected statuses.

use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde::Serialize;
use tokio::time::Instant;

use crate::body::Start;
use crate::coding::Coding;
use crate::connections::{Connections, Pools};
use crate::response::{KEPT, Secrets};
use crate::transport::classify;
use crate::{Body, CallOptions, Headers, HttpError, HttpOptions, HttpUrl, Response, SetupError, retry};

/// Sends requests; clones share connections.
#[derive(Clone, Debug)]
pub struct HttpClient(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) connections: Box<dyn Pools>,
    pub(crate) max_response_bytes: u64,
    pub(crate) max_event_bytes: usize,
}

impl HttpClient {
    /// Builds a client; clone it rather than building another.
    pub fn new(options: &HttpOptions) -> Result<Self, SetupError> {
        Ok(Self(Arc::new(Inner {
            connections: Box::new(Connections::new(options)?),
            max_response_bytes: options.max_response_bytes,
            max_event_bytes: options.max_event_bytes,
        })))
    }

    /// Posts JSON and returns the 2xx answer once its first bytes have arrived; until then, `options.retry` applies.
    pub async fn post_json(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        body: &(impl Serialize + Sync + ?Sized),
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        let body = serde_json::to_vec(body).map_err(|error| HttpError::Request {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        self.send(Method::POST, url, headers, Some(body.into()), options, &[])
            .await
    }

    /// Posts `body` unchanged, with its content type in `headers`, under the rules of [`post_json`](Self::post_json).
    pub async fn post_bytes(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        body: bytes::Bytes,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::POST, url, headers, Some(body), options, &[])
            .await
    }

    /// Puts `body`, with its content type in `headers`, under the rules of [`post_json`](Self::post_json).
    pub async fn put_bytes(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        body: bytes::Bytes,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::PUT, url, headers, Some(body), options, &[])
            .await
    }

    /// Deletes a resource under the rules of [`post_json`](Self::post_json).
    pub async fn delete(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::DELETE, url, headers, None, options, &[]).await
    }

    /// Gets a resource under the rules of [`post_json`](Self::post_json).
    pub async fn get(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        options: &CallOptions,
    ) -> Result<Response, HttpError> {
        self.send(Method::GET, url, headers, None, options, &[]).await
    }

    /// As [`get`](Self::get); an answer with one of `statuses`, such as 304, is not an error.
    pub async fn get_or(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        options: &CallOptions,
        statuses: &[u16],
    ) -> Result<Response, HttpError> {
        self.send(Method::GET, url, headers, None, options, statuses)
            .await
    }

    /// Boxed, because it is large, and because the compiler would check for each future that awaits it whether all layers
    /// of the HTTP client can be sent between threads (see "Fast to compile" in `ARCHITECTURE.md`).
    fn send<'a>(
        &'a self,
        method: Method,
        url: &'a HttpUrl,
        headers: &'a Headers,
        body: Option<bytes::Bytes>,
        options: &'a CallOptions,
        statuses: &'a [u16],
    ) -> BoxFuture<'a, Result<Response, HttpError>> {
        Box::pin(self.send_unboxed(method, url, headers, body, options, statuses))
    }

    async fn send_unboxed(
        &self,
        method: Method,
        url: &HttpUrl,
        headers: &Headers,
        body: Option<bytes::Bytes>,
        options: &CallOptions,
        statuses: &[u16],
    ) -> Result<Response, HttpError> {
        let secrets = secrets(url, headers);
        let map = request_headers(headers, body.is_some());
        let client = self.0.connections.to(url)?;
        let ((status, headers, body), attempts) = retry::run(options, |deadline| {
            let mut request = client
                .request(method.clone(), url.as_url().clone())
                .headers(map.clone());
            if let Some(body) = body.clone() {
                request = request.body(body);
            }
            within(
                deadline,
                options,
                url,
                self.attempt(request, url, &secrets, statuses),
            )
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
        statuses: &[u16],
    ) -> Result<(u16, HeaderMap, Body), HttpError> {
        let mut response = self.head(request, url, secrets, statuses).await?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let coding = Coding::of(&headers);
        let body = Body::begin(response, coding, url.clone(), self.0.max_response_bytes).await?;
        Ok((status, headers, body))
    }

    /// Sends once and returns the head of a 2xx answer, or of one with one of `statuses`.
    pub(crate) async fn head(
        &self,
        request: reqwest::RequestBuilder,
        url: &HttpUrl,
        secrets: &Secrets,
        statuses: &[u16],
    ) -> Result<reqwest::Response, HttpError> {
        let started = Instant::now();
        let response = request.send().await.map_err(|error| classify(error, url))?;
        let status = response.status();
        tracing::debug!(%url, status = status.as_u16(), ms = started.elapsed().as_millis(), "answer");
        if status.is_success() || statuses.contains(&status.as_u16()) {
            return Ok(response);
        }
        let retry_after = retry::retry_after(response.headers());
        // Only the start is read, whatever length the server announces.
        let coding = Coding::of(response.headers());
        let start = match Body::begin(response, coding, url.clone(), u64::MAX).await {
            Ok(body) => body.start(KEPT).await,
            Err(broken) => Start::without(&broken),
        };
        Err(HttpError::Status {
            url: url.clone(),
            status: status.as_u16(),
            retry_after: retry_after.or_else(|| retry::retry_after_in(&start.bytes)),
            body: secrets.excerpt_of(&start.bytes, start.is_cut),
        })
    }
}

/// One attempt, which ends at the call's deadline.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    options: &CallOptions,
    url: &HttpUrl,
    attempt: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
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

pub(crate) fn request_headers(headers: &Headers, has_body: bool) -> HeaderMap {
    let mut map = headers.map().clone();
    if has_body {
        map.entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
    }
    map.entry(ACCEPT)
        .or_insert(HeaderValue::from_static("application/json, text/event-stream"));
    map
}

/// Removes the secrets of requests to `url` with `headers` from a text of the server, which may echo them.
pub fn mask(text: &str, url: &HttpUrl, headers: &Headers) -> String {
    secrets(url, headers).excerpt(text.as_bytes())
}

pub(crate) fn secrets(url: &HttpUrl, headers: &Headers) -> Secrets {
    let of_headers = headers.secrets().map(SecretString::from);
    Secrets(of_headers.chain(url.secrets().map(SecretString::from)).collect())
}
