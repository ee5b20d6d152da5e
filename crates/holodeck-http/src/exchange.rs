//! Single requests whose every status is an answer, for protocols that give refusals a meaning. No retries.

use bytes::Bytes;
use futures::future::BoxFuture;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

use crate::client::{request_headers, secrets};
use crate::coding::Coding;
use crate::response::{KEPT, Secrets, is_event_stream};
use crate::retry::retry_after;
use crate::transport::classify;
use crate::{Body, Headers, HttpClient, HttpError, HttpUrl, SseStream};

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
}

/// An answer of any status whose body has not been read.
#[derive(Debug)]
pub struct Exchange {
    url: HttpUrl,
    status: u16,
    headers: HeaderMap,
    body: Body,
    max_response_bytes: u64,
    max_event_bytes: usize,
    secrets: Secrets,
}

impl HttpClient {
    /// Sends once and returns the head of the answer, whatever its status: for protocols whose refusals carry meaning
    /// and whose streams may be silent for long. The caller sets time-outs.
    pub fn exchange<'a>(
        &'a self,
        verb: Verb,
        url: &'a HttpUrl,
        headers: &'a Headers,
        body: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Exchange, HttpError>> {
        Box::pin(self.exchange_unboxed(verb, url, headers, body))
    }

    async fn exchange_unboxed(
        &self,
        verb: Verb,
        url: &HttpUrl,
        headers: &Headers,
        body: Option<Bytes>,
    ) -> Result<Exchange, HttpError> {
        let method = match verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Delete => Method::DELETE,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
        };
        let map = request_headers(headers, body.is_some());
        let client = self.0.connections.to(url)?;
        let mut request = client.request(method, url.as_url().clone()).headers(map);
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = sent(request, url).await?;
        Ok(self.exchanged(response, url, headers))
    }

    pub(crate) fn exchanged(
        &self,
        mut response: reqwest::Response,
        url: &HttpUrl,
        headers: &Headers,
    ) -> Exchange {
        let answered = std::mem::take(response.headers_mut());
        Exchange {
            url: url.clone(),
            status: response.status().as_u16(),
            body: Body::of(response, Coding::of(&answered), url.clone(), u64::MAX),
            headers: answered,
            max_response_bytes: self.0.max_response_bytes,
            max_event_bytes: self.0.max_event_bytes,
            secrets: secrets(url, headers),
        }
    }
}

/// The head of an answer of any status.
pub(crate) async fn sent(
    request: reqwest::RequestBuilder,
    url: &HttpUrl,
) -> Result<reqwest::Response, HttpError> {
    let started = Instant::now();
    let response = request.send().await.map_err(|error| classify(error, url))?;
    let status = response.status().as_u16();
    tracing::debug!(%url, status, ms = started.elapsed().as_millis(), "answer");
    Ok(response)
}

impl Exchange {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All values of a header that the answer may repeat.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.headers.get_all(name).into_iter();
        values.filter_map(|value| value.to_str().ok())
    }

    /// Whether the answer is an event stream according to its content type.
    pub fn is_event_stream(&self) -> bool {
        is_event_stream(&self.headers)
    }

    /// The events as they arrive: each of bounded size, and without end.
    pub fn events(self) -> SseStream {
        SseStream::new(self.body, self.max_event_bytes)
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, HttpError> {
        self.body.limited(self.max_response_bytes).collect().await
    }

    /// The answer as an error, with the start of its body.
    pub async fn refusal(self) -> HttpError {
        let retry_after = retry_after(&self.headers);
        let start = self.body.start(KEPT).await;
        HttpError::Status {
            url: self.url,
            status: self.status,
            body: self.secrets.excerpt_of(&start.bytes, start.is_cut),
            retry_after,
        }
    }
}
