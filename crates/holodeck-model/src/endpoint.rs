//! Where a model is served and how one signs in there: the same rules for every kind of request.

use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    Env, Provider,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL},
};

const OPENAI: &str = "https://api.openai.com";
const OLLAMA: &str = "http://localhost:11434";

/// The server of a model, as the YAML and the environment name it.
#[derive(Clone, Debug)]
pub struct ModelEndpoint {
    base: String,
    key: Option<SecretString>,
    origin: EndpointOrigin,
    provider: Provider,
    name: String,
    api_version: Option<String>,
    block: String,
}

/// What a block of the YAML says of a model's server.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Who serves the model.
    pub provider: Provider,
    /// The model's name; for Azure the name of the deployment.
    pub name: String,
    /// `endpoint`.
    pub endpoint: Option<String>,
    /// `api_key`.
    pub api_key: Option<SecretString>,
    /// `api_version`.
    pub api_version: Option<String>,
    /// The block itself, such as `model` or `embedding_provider`.
    pub block: String,
    /// Where `endpoint` stands, if it is known.
    pub at: Option<String>,
}

/// Who named an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointOrigin {
    /// `endpoint` in the YAML, at this place if it is known.
    Yaml(Option<String>),
    /// `OPENAI_BASE_URL`.
    Variable,
    /// Nobody.
    Default,
}

/// What is appended to an endpoint's path for one kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRoute {
    /// Segments of the path; empty if the endpoint names the whole path.
    pub path: String,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
}

/// Why there is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// There is no default.
    #[error("`provider: {provider}` needs `{block}.endpoint`")]
    Missing {
        /// Who should serve the model.
        provider: Provider,
        /// The block of the YAML.
        block: String,
    },
    /// The provider is asked in another way.
    #[error("`provider: {0}` does not speak Chat Completions")]
    OtherProtocol(Provider),
    /// The provider wants a key.
    #[error("no key for `provider: {provider}`\n\nhint: set `{variable}`, or `{block}.api_key` in the YAML")]
    NoKey {
        /// Who serves the model.
        provider: Provider,
        /// The variable that would hold the key.
        variable: &'static str,
        /// The block of the YAML.
        block: String,
    },
}

impl ModelEndpoint {
    /// The endpoint that `config` and `env` name; the YAML comes first.
    pub fn resolve(config: EndpointConfig, env: &Env) -> Result<Self, EndpointError> {
        let (base, origin) = base(&config, env)?;
        let key = key(&config, &origin, env)?;
        Ok(Self {
            base,
            key,
            origin,
            provider: config.provider,
            name: config.name,
            api_version: config.api_version,
            block: config.block,
        })
    }

    /// Its URL as it was written; may hold secrets.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The key that requests carry.
    pub fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// Who serves the model.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Who named it.
    pub fn origin(&self) -> &EndpointOrigin {
        &self.origin
    }

    /// What `operation`, such as `chat/completions` or `embeddings`, appends to `base_path`, the path of the base URL.
    pub fn route(&self, base_path: &str, operation: &str) -> EndpointRoute {
        let plain = |path: String| EndpointRoute {
            path,
            api_version: None,
        };
        let path = base_path.trim_end_matches('/');
        if path.ends_with(operation) {
            return plain(String::new());
        }
        if self.provider == Provider::AzureOpenai {
            let version = self.api_version.as_deref().map(str::trim);
            if let Some(version) = version.filter(|text| !text.is_empty()) {
                return EndpointRoute {
                    path: format!("openai/deployments/{}/{operation}", self.name),
                    api_version: Some(version.to_owned()),
                };
            }
            let v1 = if path.ends_with("/openai/v1") {
                ""
            } else {
                "openai/v1/"
            };
            return plain(format!("{v1}{operation}"));
        }
        let v1 = if path.is_empty() { "v1/" } else { "" };
        plain(format!("{v1}{operation}"))
    }

    /// The header that carries the key, unless it is a bearer token.
    pub fn key_header(&self) -> Option<&'static str> {
        (self.provider == Provider::AzureOpenai).then_some("api-key")
    }

    /// Who named it, as a line of an error.
    pub fn named(&self) -> String {
        match &self.origin {
            EndpointOrigin::Yaml(Some(place)) => format!("configured at {place} (`{}.endpoint`)", self.block),
            EndpointOrigin::Yaml(None) => format!("configured as `{}.endpoint`", self.block),
            EndpointOrigin::Variable => format!("configured as `{OPENAI_BASE_URL}`"),
            EndpointOrigin::Default => format!("the default of `provider: {}`", self.provider),
        }
    }

    /// What to do when it does not answer.
    pub fn hint_when_down(&self) -> String {
        let block = &self.block;
        match (self.provider, &self.origin) {
            (Provider::Ollama, _) => {
                format!("is Ollama running? `ollama serve`, or set `{block}.endpoint`")
            }
            (_, EndpointOrigin::Variable) => {
                format!("is the server running? check `{OPENAI_BASE_URL}`, or set `{block}.endpoint`")
            }
            (_, EndpointOrigin::Yaml(_)) => {
                format!("is the server running, and is `{block}.endpoint` right?")
            }
            (_, EndpointOrigin::Default) => {
                "is the network up? a proxy is taken from `HTTPS_PROXY`".to_owned()
            }
        }
    }

    /// Where to set a key.
    pub fn hint_for_key(&self) -> String {
        let block = &self.block;
        match variable(self.provider) {
            Some(variable) if self.key.is_some() => {
                format!("check the key in `{variable}` or `{block}.api_key`")
            }
            Some(variable) => format!("set `{variable}` or `{block}.api_key`"),
            None => format!("set `{block}.api_key`"),
        }
    }

    /// What to say of a key that no header can carry.
    pub fn bad_key(&self) -> String {
        let from = variable(self.provider).map_or_else(String::new, |variable| format!(" or `{variable}`"));
        format!(
            "the key has characters that no HTTP header can carry\n\nhint: check `{}.api_key`{from}",
            self.block
        )
    }
}

fn base(config: &EndpointConfig, env: &Env) -> Result<(String, EndpointOrigin), EndpointError> {
    let own = config.endpoint.as_deref();
    if let Some(endpoint) = own.filter(|text| !text.trim().is_empty()) {
        return Ok((endpoint.to_owned(), EndpointOrigin::Yaml(config.at.clone())));
    }
    match config.provider {
        Provider::Openai => Ok(match env.non_blank(OPENAI_BASE_URL) {
            Some(url) => (url.to_owned(), EndpointOrigin::Variable),
            None => (OPENAI.to_owned(), EndpointOrigin::Default),
        }),
        Provider::Ollama => Ok((OLLAMA.to_owned(), EndpointOrigin::Default)),
        Provider::AzureOpenai => Err(EndpointError::Missing {
            provider: config.provider,
            block: config.block.clone(),
        }),
        Provider::Anthropic => Err(EndpointError::OtherProtocol(config.provider)),
    }
}

fn key(
    config: &EndpointConfig,
    origin: &EndpointOrigin,
    env: &Env,
) -> Result<Option<SecretString>, EndpointError> {
    let own = config.api_key.as_ref();
    if let Some(key) = own.filter(|key| !key.expose_secret().trim().is_empty()) {
        return Ok(Some(key.clone()));
    }
    let Some(variable) = variable(config.provider) else {
        return Ok(None);
    };
    if let Some(key) = env.non_blank(variable) {
        return Ok(Some(key.into()));
    }
    // A server of one's own may need no key; these two always do.
    if *origin == EndpointOrigin::Default || config.provider == Provider::AzureOpenai {
        return Err(EndpointError::NoKey {
            provider: config.provider,
            variable,
            block: config.block.clone(),
        });
    }
    Ok(None)
}

fn variable(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Openai => Some(OPENAI_API_KEY),
        Provider::AzureOpenai => Some(AZURE_OPENAI_API_KEY),
        Provider::Ollama | Provider::Anthropic => None,
    }
}
