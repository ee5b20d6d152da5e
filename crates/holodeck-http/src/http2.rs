//! HTTP/2-only requests, and answers with trailers.

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use reqwest::header::HeaderMap;

use crate::client::{secrets, within};
use crate::response::Secrets;
use crate::transport::classify;
use crate::{CallOptions, ConnectReason, Headers, HttpClient, HttpError, HttpUrl, retry};

/// A complete 2xx answer.
#[derive(Debug)]
pub struct Http2Answer {
    headers: HeaderMap,
    body: Bytes,
    trailers: HeaderMap,
    secrets: Secrets,
}

impl Http2Answer {
    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A trailer field.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.get(name)?.to_str().ok()
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// A server's text without the request's secrets, which it may echo.
    pub fn without_secrets(&self, words: &str) -> String {
        self.secrets.excerpt(words.as_bytes())
    }
}

impl HttpClient {
    /// Posts `body` over HTTP/2 regardless of the server's preference: to an `http` URL with prior knowledge, which
    /// most proxies do not support. The rules are those of [`post_bytes`](Self::post_bytes), but retries apply until
    /// the whole answer has arrived, and no header is added to `headers`.
    pub fn post_http2<'a>(
        &'a self,
        url: &'a HttpUrl,
        headers: &'a Headers,
        body: Bytes,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Result<Http2Answer, HttpError>> {
        Box::pin(self.post_http2_unboxed(url, headers, body, options))
    }

    async fn post_http2_unboxed(
        &self,
        url: &HttpUrl,
        headers: &Headers,
        body: Bytes,
        options: &CallOptions,
    ) -> Result<Http2Answer, HttpError> {
        let secrets = secrets(url, headers);
        let client = self.0.connections.over_http2(url)?;
        let ((headers, body, trailers), _attempts) = retry::run(options, |deadline| {
            let request = || {
                client
                    .post(url.as_url().clone())
                    .headers(headers.map().clone())
                    .body(body.clone())
            };
            within(deadline, options, url, self.whole(request, url, &secrets))
        })
        .await?;
        Ok(Http2Answer {
            headers,
            body,
            trailers,
            secrets,
        })
    }

    async fn whole(
        &self,
        request: impl Fn() -> reqwest::RequestBuilder,
        url: &HttpUrl,
        secrets: &Secrets,
    ) -> Result<(HeaderMap, Bytes, HeaderMap), HttpError> {
        let limit = self.0.max_response_bytes;
        let mut response = loop {
            match self.head(request(), url, secrets, &[]).await {
                Err(error) if waited_for_another(&error) => {}
                answer => break answer?,
            }
        };
        let headers = std::mem::take(response.headers_mut());
        let mut rest = reqwest::Body::from(response);
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        while let Some(frame) = rest.frame().await {
            match frame.map_err(|error| classify(error, url))?.into_data() {
                Ok(bytes) => body.extend_from_slice(&bytes),
                Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
            }
            if body.len() as u64 > limit {
                let url = url.clone();
                return Err(HttpError::TooLarge { url, limit });
            }
        }
        Ok((headers, body.into(), trailers))
    }
}

/// Requests for the same connection wait for the one that opens it. If that fails, only that request gets the reason;
/// the others were not sent.
fn waited_for_another(error: &HttpError) -> bool {
    let HttpError::Connect { reason, .. } = error else {
        return false;
    };
    matches!(reason, ConnectReason::Other(words) if words == "request was canceled")
}
