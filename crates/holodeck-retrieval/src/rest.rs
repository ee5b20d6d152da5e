//! Requests to the HTTP API of a store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpUrl, Response, RetryPolicy};
use serde::Serialize;
use serde_json::Value;

use crate::{IndexInfo, RetrievalError};

/// The base URL of an API. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    client: HttpClient,
    base: HttpUrl,
    headers: Headers,
    call: CallOptions,
    store: String,
}

/// How this owner declared that the index is built, so that a later change by another owner is noticed.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<Option<IndexInfo>>);

impl Prepared {
    pub(crate) fn set(&self, info: Option<IndexInfo>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = info;
    }

    pub(crate) fn get(&self) -> Option<IndexInfo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Post,
    Put,
}

impl Rest {
    /// `store` begins every error. Every request can be retried, because it only sets or deletes what it names.
    pub(crate) fn new(client: HttpClient, base: HttpUrl, mut headers: Headers, store: String) -> Self {
        // Both characters are allowed in headers.
        let _ = headers.insert("content-type", "application/json");
        let retry = RetryPolicy {
            max_retries: 2,
            first_wait: Duration::from_millis(200),
            // A conflict with an existing name does not pass with time.
            never: |error| error.status() == Some(409),
            ..RetryPolicy::default()
        };
        Self {
            client,
            base,
            headers,
            call: CallOptions {
                timeout: Some(Duration::from_mins(2)),
                retry,
                pacer: None,
            },
            store,
        }
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// `None` if the server answers 404.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, RetrievalError> {
        let url = self.base.join(path);
        let answered = self.client.get(&url, &self.headers, &self.call).await;
        self.read(answered).await
    }

    /// As [`get`](Self::get).
    pub(crate) async fn delete(&self, path: &str) -> Result<Option<Value>, RetrievalError> {
        let url = self.base.join(path);
        let answered = self.client.delete(&url, &self.headers, &self.call).await;
        self.read(answered).await
    }

    /// As [`get`](Self::get), with a body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: Option<(&str, &str)>,
        body: &impl Serialize,
    ) -> Result<Option<Value>, RetrievalError> {
        let mut url = self.base.join(path);
        if let Some((name, value)) = query {
            url = url.with_query(name, value);
        }
        let body = serde_json::to_vec(body).map_err(|error| self.error(error.to_string()))?;
        let (headers, call) = (&self.headers, &self.call);
        let answered = match method {
            Method::Post => self.client.post_bytes(&url, headers, body.into(), call).await,
            Method::Put => self.client.put_bytes(&url, headers, body.into(), call).await,
        };
        self.read(answered).await
    }

    async fn read(&self, answered: Result<Response, HttpError>) -> Result<Option<Value>, RetrievalError> {
        let answered = match answered {
            Ok(response) => response.json().await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => {
                let hint = match error.status() {
                    Some(401 | 403) => "; check the key",
                    _ => "",
                };
                Err(self.error(format!("{error}{hint}")))
            }
        }
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        RetrievalError::Store {
            store: self.store.clone(),
            reason: reason.into(),
        }
    }

    /// The error for an answer that does not follow the API.
    pub(crate) fn unreadable(&self, what: &str) -> RetrievalError {
        self.error(format!("the server's answer contains no usable {what}"))
    }
}
