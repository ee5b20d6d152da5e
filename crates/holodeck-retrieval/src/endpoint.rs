//! One kind of request to one server: URL, headers, pace, retries, and the meaning of its failures.

use std::{num::NonZeroU32, time::Duration};

use holodeck_backend_api::Explanation;
use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpUrl, Pacer, RetryPolicy, mask};
use holodeck_model::{EndpointConfig, Env, ModelEndpoint, Provider};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::RetrievalError;

/// How requests to an endpoint are sent.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// Retry policy.
    pub retry: RetryPolicy,
    /// Time limit of one request, including retries.
    pub timeout: Duration,
    /// Concurrent requests.
    pub concurrency: usize,
}

impl Default for EndpointOptions {
    /// Two minutes per request, because a model without a GPU is slow; four at a time.
    fn default() -> Self {
        Self {
            retry: RetryPolicy {
                never: quota_is_used_up,
                ..RetryPolicy::default()
            },
            timeout: Duration::from_mins(2),
            concurrency: 4,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    client: HttpClient,
    served: ModelEndpoint,
    url: HttpUrl,
    headers: Headers,
    call: CallOptions,
    key_hint: String,
}

/// The first bytes of an answer in which secrets are looked for.
const MASKED: usize = 4096;

/// Why a request returned no usable answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: Explanation,
    pub(crate) retryable: bool,
    pub(crate) retry_after: Option<Duration>,
    /// The server rejects this request's content, not requests in general.
    pub(crate) refused: bool,
}

impl Endpoint {
    /// The endpoint of `operation` on the server that `config` and `env` name.
    pub(crate) fn resolve(
        client: HttpClient,
        config: EndpointConfig,
        operation: &str,
        rpm: Option<u32>,
        env: &Env,
        options: &EndpointOptions,
    ) -> Result<Self, RetrievalError> {
        let served = ModelEndpoint::resolve(config, env).map_err(|error| {
            RetrievalError::setup(Explanation {
                hint: error.hint(),
                ..Explanation::new(error.to_string())
            })
        })?;
        let base = HttpUrl::parse(served.base())
            .map_err(|error| RetrievalError::setup(format!("{error}\n  {}", served.describe_origin())))?;
        let route = served.route(base.path(), operation);
        let url = base.at(&route.path, route.query());
        let mut headers = Headers::new();
        if let Some(key) = served.key() {
            match served.key_header() {
                Some(name) => headers.insert_secret(name, key),
                None => headers.bearer(key),
            }
            .map_err(|_error| {
                RetrievalError::setup(
                    Explanation::new(ModelEndpoint::BAD_KEY).with_hint(served.hint_for_bad_key()),
                )
            })?;
        }
        Ok(Self {
            client,
            key_hint: served.hint_for_key(),
            served,
            url,
            headers,
            call: CallOptions {
                timeout: Some(options.timeout),
                retry: options.retry.clone(),
                pacer: rpm.and_then(NonZeroU32::new).map(Pacer::per_minute),
            },
        })
    }

    /// Replaces the hint for a missing or rejected key, if keys come from somewhere else than the models' keys.
    pub(crate) fn with_key_hint(mut self, hint: &str) -> Self {
        hint.clone_into(&mut self.key_hint);
        self
    }

    /// Posts `body` and reads the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, body: &Value) -> Result<T, Failure> {
        let answer = self
            .client
            .post_json(&self.url, &self.headers, body, &self.call)
            .await;
        let bytes = match answer {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        let bytes = bytes.map_err(|error| self.failure(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&bytes, &error))
    }

    /// The failure for an answer with unexpected content.
    pub(crate) fn unusable(&self, what: &str) -> Failure {
        let message = format!(
            "{} answered with {what}\n  {}",
            self.url,
            self.served.describe_origin()
        );
        Failure {
            reason: message.into(),
            retryable: false,
            retry_after: None,
            refused: false,
        }
    }

    fn unreadable(&self, bytes: &[u8], error: &serde_json::Error) -> Failure {
        // Masked before it is cut, since a part of a secret is not found.
        let start = String::from_utf8_lossy(bytes.get(..MASKED).unwrap_or(bytes));
        let start = mask(&start, &self.url, &self.headers);
        let start: String = start.trim().chars().take(120).collect();
        let what = if start.is_empty() {
            "an empty body".to_owned()
        } else {
            format!("an unexpected body ({error}): `{start}`")
        };
        let mut failure = self.unusable(&what);
        failure.reason.hint = Some("is this the address of an API for such a model?".to_owned());
        failure
    }

    fn failure(&self, error: &HttpError) -> Failure {
        let mut reason = Explanation::new(error.to_string()).with_source(error.clone());
        if let Some(hint) = self.hint(error) {
            reason.message = format!("{error}\n  {}", self.served.describe_origin());
            reason.hint = Some(hint);
        }
        Failure {
            reason,
            retryable: error.retryable() && !quota_is_used_up(error),
            retry_after: error.retry_after(),
            refused: matches!(error.status(), Some(400 | 413 | 422)),
        }
    }

    fn hint(&self, error: &HttpError) -> Option<String> {
        let ollama = self.served.provider() == Provider::Ollama;
        match error {
            HttpError::Connect { reason, .. } => Some(
                reason
                    .hint()
                    .map_or_else(|| self.served.hint_when_down(), str::to_owned),
            ),
            HttpError::Status { status, .. } => match status {
                401 | 403 => Some(self.key_hint.clone()),
                404 if ollama => Some(
                    "check that the model is installed: `ollama list` shows installed models, `ollama pull` installs one"
                        .to_owned(),
                ),
                404 => Some("check the model's name and the endpoint".to_owned()),
                429 if quota_is_used_up(error) => Some("the account has no credit left".to_owned()),
                429 => Some("set `rpm` to what the account allows".to_owned()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Looks like a rate limit but does not pass with time.
fn quota_is_used_up(error: &HttpError) -> bool {
    let quota = ["insufficient_quota", "billing_hard_limit_reached"];
    error.status() == Some(429)
        && error
            .body()
            .is_some_and(|body| quota.iter().any(|code| body.contains(code)))
}

#[cfg(test)]
mod tests {
    use holodeck_http::HttpOptions;
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(provider: Provider, endpoint: &str, version: Option<&str>, operation: &str, url: &str) {
        let config = EndpointConfig {
            provider,
            name: "my model".to_owned(),
            endpoint: Some(endpoint.to_owned()),
            api_key: Some("k".into()),
            api_version: version.map(str::to_owned),
            block: "embedding_provider".to_owned(),
            at: None,
        };
        let client = HttpClient::new(&HttpOptions::default()).unwrap();
        let options = EndpointOptions::default();
        let endpoint = Endpoint::resolve(client, config, operation, None, &Env::empty(), &options).unwrap();
        assert_eq!(endpoint.url.to_string(), url);
    }

    #[test]
    fn the_url_of_each_provider() {
        for (endpoint, url) in [
            ("http://h:1", "http://h:1/v1/embeddings"),
            ("http://h:1/v1/", "http://h:1/v1/embeddings"),
            ("http://h:1/v1/chat/completions", "http://h:1/v1/embeddings"),
            ("http://h:1/api/v3/embeddings", "http://h:1/api/v3/embeddings"),
        ] {
            check(Provider::Openai, endpoint, None, "embeddings", url);
        }
        for endpoint in [
            "http://h:1",
            "http://h:1/v1",
            "http://h:1/v1/chat/completions",
            "http://h:1/api",
            "http://h:1/api/embed",
        ] {
            check(
                Provider::Ollama,
                endpoint,
                None,
                "api/embed",
                "http://h:1/api/embed",
            );
        }
        let azure = Provider::AzureOpenai;
        check(
            azure,
            "https://x.test",
            None,
            "embeddings",
            "https://x.test/openai/v1/embeddings",
        );
        check(
            azure,
            "https://x.test/openai/deployments/chat/chat/completions",
            Some("2024-10-21"),
            "embeddings",
            "https://x.test/openai/deployments/my%20model/embeddings",
        );
        check(
            Provider::Openai,
            "https://x.test/v2",
            None,
            "rerank",
            "https://x.test/v2/rerank",
        );
    }

    #[test]
    fn an_address_of_any_operation_names_the_server_of_embeddings() {
        let chat = [
            "",
            "/chat/completions",
            "/completions",
            "/responses",
            "/embeddings",
        ];
        for prefix in ["", "/proxy", "/a/b"] {
            for slash in ["", "/"] {
                for suffix in [
                    "",
                    "/api",
                    "/api/embed",
                    "/api/chat",
                    "/v1",
                    "/v1/embeddings",
                    "/v1/models",
                ] {
                    let endpoint = format!("http://h:1{prefix}{suffix}{slash}");
                    let url = format!("http://h:1{prefix}/api/embed");
                    check(Provider::Ollama, &endpoint, None, "api/embed", &url);
                }
                for suffix in chat {
                    let endpoint = format!("http://h:1{prefix}/v1{suffix}{slash}");
                    let url = format!("http://h:1{prefix}/v1/embeddings");
                    check(Provider::Openai, &endpoint, None, "embeddings", &url);
                    let endpoint = format!("http://h:1{prefix}/openai/v1{suffix}{slash}");
                    let url = format!("http://h:1{prefix}/openai/v1/embeddings");
                    check(Provider::AzureOpenai, &endpoint, None, "embeddings", &url);
                }
                for deployment in ["chat", "responses", "embeddings", "gpt"] {
                    let folder = format!("http://h:1{prefix}/openai/deployments");
                    let own = format!("{folder}/my%20model/embeddings");
                    // The deployment of a model that writes text does not embed.
                    for suffix in ["/chat/completions", "/responses"] {
                        let endpoint = format!("{folder}/{deployment}{suffix}{slash}");
                        check(Provider::AzureOpenai, &endpoint, Some("v"), "embeddings", &own);
                    }
                    for suffix in ["", "/embeddings"] {
                        let endpoint = format!("{folder}/{deployment}{suffix}{slash}");
                        let named = format!("{folder}/{deployment}/embeddings");
                        check(Provider::AzureOpenai, &endpoint, Some("v"), "embeddings", &named);
                    }
                }
            }
        }
    }
}
