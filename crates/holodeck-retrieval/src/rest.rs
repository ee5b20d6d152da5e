//! Requests to the HTTP API of a store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpUrl, Response, RetryPolicy};
use serde::Serialize;
use serde_json::Value;

use crate::{IndexInfo, RetrievalError};

/// An API at an address. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    client: HttpClient,
    base: HttpUrl,
    headers: Headers,
    call: CallOptions,
    store: String,
}

/// How this owner of a store was told that its index is made: what another one made otherwise meanwhile is then noticed.
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
    /// `store` is what its errors begin with. Every request here may be sent twice: it sets or deletes what it names.
    pub(crate) fn new(client: HttpClient, base: HttpUrl, mut headers: Headers, store: String) -> Self {
        // These two are characters that a header can carry.
        let _ = headers.insert("content-type", "application/json");
        let retry = RetryPolicy {
            max_retries: 2,
            first_wait: Duration::from_millis(200),
            // Something of this name is there already: it will be there the next time too.
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

    /// Nothing if the server says there is no such thing (404).
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, RetrievalError> {
        let url = self.base.join(path);
        let answered = self.client.get(&url, &self.headers, &self.call).await;
        self.read(answered).await
    }

    /// The same.
    pub(crate) async fn delete(&self, path: &str) -> Result<Option<Value>, RetrievalError> {
        let url = self.base.join(path);
        let answered = self.client.delete(&url, &self.headers, &self.call).await;
        self.read(answered).await
    }

    /// The same, with a body.
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

    /// What the server answered is not what its API says.
    pub(crate) fn unreadable(&self, what: &str) -> RetrievalError {
        self.error(format!("the server's answer holds no usable {what}"))
    }
}
