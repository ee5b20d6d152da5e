//! Resolves the URL, headers and key of a model's endpoint from the YAML and the environment.

use std::fmt;

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{Headers, HttpUrl, mask};
use holodeck_model::{EndpointConfig, Env, Location, ModelConfig, ModelEndpoint, Provider};
use secrecy::SecretString;

const CHAT: &str = "chat/completions";

/// The URL and credentials of an agent's model.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) url: HttpUrl,
    pub(crate) headers: Headers,
    models: HttpUrl,
    target: ModelEndpoint,
}

impl Endpoint {
    /// Resolves the endpoint of `model`, with keys from the YAML or `env`. `block` is where the YAML has the model, as
    /// in `evaluations.model`, and `at` the place of its endpoint, for errors.
    pub fn resolve(
        model: &ModelConfig,
        block: &str,
        at: Option<&Location>,
        env: &Env,
    ) -> Result<Self, BackendError> {
        let config = EndpointConfig {
            provider: model.provider,
            name: model.name.clone(),
            endpoint: model.endpoint.clone(),
            api_key: model.api_key.clone(),
            api_version: model.api_version.clone(),
            block: block.to_owned(),
            at: at.map(ToString::to_string),
        };
        let model_endpoint = ModelEndpoint::resolve(config, env).map_err(|error| {
            BackendError::init(Explanation {
                hint: error.hint(),
                ..Explanation::new(error.to_string())
            })
        })?;
        let base = HttpUrl::parse(model_endpoint.base()).map_err(|error| {
            BackendError::init(format!("{error}\n  {}", model_endpoint.describe_origin()))
        })?;
        let headers = headers(&model_endpoint)?;
        let [url, models] = [CHAT, "models"].map(|operation| {
            let route = model_endpoint.route(base.path(), operation);
            base.at(&route.path, route.query())
        });
        Ok(Self {
            url,
            headers,
            models,
            target: model_endpoint,
        })
    }

    /// The URL that lists the models of the server. Requesting it is free.
    pub fn models_url(&self) -> &HttpUrl {
        &self.models
    }

    /// The headers of every request.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The endpoint as configured in the YAML and the environment.
    pub fn model_endpoint(&self) -> &ModelEndpoint {
        &self.target
    }

    /// The key that requests contain, so that callers can redact it.
    pub fn key(&self) -> Option<&SecretString> {
        self.target.key()
    }

    /// The URL of chat completions, without secrets.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    /// A text of the server without the secrets of its request.
    pub(crate) fn mask(&self, text: &str) -> String {
        mask(text, &self.url, &self.headers)
    }

    /// How a text of the server begins, without secrets.
    pub(crate) fn excerpt(&self, text: &str) -> String {
        self.mask(text).chars().take(120).collect()
    }

    /// Where this endpoint is configured, as a line of an error.
    pub(crate) fn origin(&self) -> String {
        self.target.describe_origin()
    }

    /// The hint for an endpoint that does not answer.
    pub(crate) fn hint_when_down(&self) -> String {
        self.target.hint_when_down()
    }

    pub(crate) fn is_ollama(&self) -> bool {
        self.target.provider() == Provider::Ollama
    }

    /// The hint for a missing or rejected key.
    pub(crate) fn hint_for_key(&self) -> String {
        self.target.hint_for_key()
    }
}

fn headers(endpoint: &ModelEndpoint) -> Result<Headers, BackendError> {
    let mut headers = Headers::new();
    if let Some(key) = endpoint.key() {
        match endpoint.key_header() {
            Some(name) => headers.insert_secret(name, key),
            None => headers.bearer(key),
        }
        .map_err(|_error| {
            BackendError::init(ModelEndpoint::BAD_KEY).with_hint(endpoint.hint_for_bad_key())
        })?;
    }
    Ok(headers)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests;
