//! Sends one request with its cookies, follows redirects, and decides which failures may be repeated.

use std::{sync::PoisonError, time::Duration};

use holodeck_http::{ConnectReason, Exchange, Headers, HttpError, HttpUrl, Verb};

use super::{HttpAsker, Request};
use crate::conversation::State;

/// How many redirects are followed.
const REDIRECTS: usize = 5;

impl HttpAsker {
    /// Sends a request; an answer that is not one of success is an error. Another origin gets neither headers nor cookies
    /// nor a body.
    pub(crate) async fn send(&self, request: &Request, state: &mut State) -> Result<Exchange, HttpError> {
        let Request {
            verb,
            url,
            headers,
            body,
        } = request;
        let (mut verb, mut url, mut body) = (*verb, url.clone(), body.clone());
        let mut own_headers = Some(headers.clone());
        for _ in 0..=REDIRECTS {
            let mut headers = own_headers.clone().unwrap_or_default();
            self.add_cookies(&mut headers, &url, state)?;
            let exchange = self.client.exchange(verb, &url, &headers, body.clone()).await?;
            self.keep_cookies(&exchange, &url, state);
            let status = exchange.status();
            let location = exchange.header("location").map(str::to_owned);
            let (true, Some(location)) = (matches!(status, 301 | 302 | 303 | 307 | 308), location) else {
                if exchange.is_success() {
                    return Ok(exchange);
                }
                return Err(exchange.refusal().await);
            };
            let next = url.redirected(&location)?;
            let refuse = |reason: String| HttpError::Request {
                url: url.clone(),
                reason,
            };
            if url.is_https() && !next.is_https() {
                return Err(refuse(format!("it redirects to {next}, which is not encrypted")));
            }
            let keeps_body = matches!(status, 307 | 308);
            if next.origin() != url.origin() {
                if keeps_body && body.is_some() {
                    return Err(refuse(format!(
                        "it redirects to {next}, another server, which would get the body of the request"
                    )));
                }
                own_headers = None;
            }
            if !keeps_body {
                verb = Verb::Get;
                body = None;
            }
            url = next;
        }
        Err(HttpError::Request {
            url,
            reason: format!("it redirects more than {REDIRECTS} times"),
        })
    }

    fn add_cookies(&self, headers: &mut Headers, url: &HttpUrl, state: &State) -> Result<(), HttpError> {
        let cookies = match &self.shared {
            Some(shared) => shared.lock().unwrap_or_else(PoisonError::into_inner).header(url),
            None => state.cookies.header(url),
        };
        cookies.map_or(Ok(()), |cookies| headers.insert_secret("cookie", &cookies.into()))
    }

    fn keep_cookies(&self, exchange: &Exchange, url: &HttpUrl, state: &mut State) {
        let set = exchange.all("set-cookie");
        match &self.shared {
            Some(shared) => shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .keep(url, set),
            None => state.cookies.keep(url, set),
        }
    }

    /// The wait before a request is sent again; `None` if it must not be. After a request was sent, only one without side
    /// effects may be repeated, unless the service says that it did not accept it.
    pub(crate) fn wait(&self, retries: u32, error: &HttpError) -> Option<Duration> {
        let was_refused = match error {
            HttpError::Connect { reason, .. } => *reason == ConnectReason::Refused,
            HttpError::Status {
                status, retry_after, ..
            } => matches!(status, 429 | 503) && retry_after.is_some(),
            _ => false,
        };
        let may_repeat = was_refused || self.is_harmless();
        may_repeat.then(|| self.retry.next_wait(retries, error)).flatten()
    }
}
