//! The server of a model and its credentials: the same rules for every kind of request.

use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    Env, Provider,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL},
};

const OPENAI: &str = "https://api.openai.com";
const OLLAMA: &str = "http://localhost:11434";

/// The server of a model, from the YAML and the environment.
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

/// The settings of a model's server in a block of the YAML.
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
    /// The place of `endpoint` in the file, if known.
    pub at: Option<String>,
}

/// Where an endpoint comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointOrigin {
    /// `endpoint` in the YAML, with its place if known.
    Yaml(Option<String>),
    /// `OPENAI_BASE_URL`.
    Variable,
    /// The default of the provider.
    Default,
}

/// The path of a kind of request on the server of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRoute {
    /// The whole path.
    pub path: String,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
}

impl EndpointRoute {
    /// The pair of the query that it needs.
    pub fn query(&self) -> Option<(&'static str, &str)> {
        Some((API_VERSION, self.api_version.as_deref()?))
    }
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
    /// The provider uses another protocol.
    #[error("`provider: {0}` does not support Chat Completions")]
    OtherProtocol(Provider),
    /// The provider requires a key.
    #[error("`{variable}` is not set")]
    NoKey {
        /// The variable that would hold the key.
        variable: &'static str,
    },
}

impl EndpointError {
    /// The next step, if the message alone does not show it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoKey { variable } => Some(hint_for_missing_key(variable)),
            Self::Missing { .. } | Self::OtherProtocol(_) => None,
        }
    }
}

/// The next step for a key that is not there. The YAML is not named: it is in the repository.
pub fn hint_for_missing_key(variable: &str) -> String {
    format!("put `{variable}=…` into `.env` beside the agent file, or export it")
}

/// The name of the version of Azure's API in a query.
const API_VERSION: &str = "api-version";

/// The version of Azure's API for an address of a deployment without one.
const AZURE_VERSION: &str = "2024-10-21";

/// The same for the models of Azure AI Foundry.
const FOUNDRY_VERSION: &str = "2024-05-01-preview";

impl ModelEndpoint {
    /// The endpoint that `config` and `env` name; the YAML takes precedence.
    pub fn resolve(config: EndpointConfig, env: &Env) -> Result<Self, EndpointError> {
        let (base, origin) = find_base(&config, env)?;
        let key = find_key(&config, &origin, env)?;
        let version = config.api_version.filter(|version| !version.trim().is_empty());
        Ok(Self {
            api_version: version.or_else(|| version_of(&base)),
            base,
            key,
            origin,
            provider: config.provider,
            name: config.name,
            block: config.block,
        })
    }

    /// Its URL as written; may contain secrets.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The key that is sent with requests.
    pub fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// Who serves the model.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Where it comes from.
    pub fn origin(&self) -> &EndpointOrigin {
        &self.origin
    }

    /// Where `operation`, such as `chat/completions`, `embeddings` or `models`, is on the server of an address with this path. The
    /// address may be that of the server, of a version or of a deployment of it, or of any operation.
    pub fn route(&self, base_path: &str, operation: &str) -> EndpointRoute {
        let path = base_path.trim_end_matches('/');
        let (server, found) = self.split(path, operation);
        let is_whole = found.is_some_and(|found| found.eq_ignore_ascii_case(operation));
        if self.provider == Provider::AzureOpenai {
            return self.azure_route(server, found, operation);
        }
        let path = match self.provider {
            _ if is_whole => path.to_owned(),
            // Ollama's own operations are beside its `/v1`.
            Provider::Ollama if operation.starts_with("api/") => {
                let server = without_end(server, "v1").unwrap_or(server);
                format!("{}/{operation}", without_end(server, "api").unwrap_or(server))
            }
            Provider::Ollama if !segments(server).any(is_version) => format!("{server}/v1/{operation}"),
            _ if server.is_empty() => format!("/v1/{operation}"),
            _ => format!("{server}/{operation}"),
        };
        EndpointRoute {
            path,
            api_version: None,
        }
    }

    /// The path of the server in that of an address, and the operation that the address has beside it.
    fn split<'a>(&self, path: &'a str, operation: &'a str) -> (&'a str, Option<&'a str>) {
        let own: &[&str] = match self.provider {
            Provider::Ollama => &OF_OLLAMA,
            _ => &[],
        };
        let is_after_version = |rest: &str| {
            let mut parts = rest.rsplit('/');
            parts.next().is_some_and(is_version) || parts.next().is_some_and(is_deployments)
        };
        let mut anywhere = [operation]
            .into_iter()
            .chain(own.iter().chain(&OPERATIONS).copied());
        let found = anywhere.find_map(|operation| Some((without_operation(path, operation)?, operation)));
        let found = found.or_else(|| {
            let mut found = OF_VERSIONS
                .into_iter()
                .filter_map(|operation| Some((without_operation(path, operation)?, operation)));
            found.find(|(rest, _)| is_after_version(rest))
        });
        found.map_or((path, None), |(rest, operation)| (rest, Some(operation)))
    }

    /// The same for Azure, whose portal shows addresses of several kinds: what the path has already is not repeated. `found` is the
    /// operation that stood after `server`.
    fn azure_route(&self, server: &str, found: Option<&str>, operation: &str) -> EndpointRoute {
        let version = self.api_version.as_deref().map(str::trim);
        let version = version.filter(|text| !text.is_empty());
        let versioned = |path: String, default: &str| EndpointRoute {
            path,
            api_version: Some(version.unwrap_or(default).to_owned()),
        };
        let as_it_is = |path: String| EndpointRoute {
            path,
            api_version: version.map(str::to_owned),
        };
        let name = &self.name;
        let mut parts = server.rsplit('/');
        let (last, before) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let deployments = if is_deployments(last) {
            Some(server)
        } else if is_deployments(before) {
            server.rsplit_once('/').map(|(deployments, _)| deployments)
        } else {
            None
        };
        if let Some(deployments) = deployments {
            if operation == MODELS {
                // Deployments are not listed where they answer.
                let openai = deployments.rsplit_once('/').map_or("", |(openai, _)| openai);
                return versioned(format!("{openai}/{MODELS}"), AZURE_VERSION);
            }
            // The address of another kind of operation has a deployment of another kind of model.
            let is_of_another = found.is_some_and(|found| is_of_text(found) != is_of_text(operation));
            let deployment = if is_deployments(last) || is_of_another {
                name
            } else {
                last
            };
            return versioned(format!("{deployments}/{deployment}/{operation}"), AZURE_VERSION);
        }
        let is_openai = last.eq_ignore_ascii_case("openai");
        let is_foundry = last.eq_ignore_ascii_case(MODELS);
        if is_foundry || (operation == MODELS && found == Some(MODELS) && !is_openai && !is_version(last)) {
            let models = if is_foundry {
                server.to_owned()
            } else {
                format!("{server}/{MODELS}")
            };
            let path = if operation == MODELS {
                models
            } else {
                format!("{models}/{operation}")
            };
            return versioned(path, FOUNDRY_VERSION);
        }
        if found.is_some_and(|found| found.eq_ignore_ascii_case(operation)) || is_version(last) {
            // Here a version is optional.
            return as_it_is(format!("{server}/{operation}"));
        }
        let openai = if is_openai { "" } else { "/openai" };
        match version {
            Some(_) if operation == MODELS => versioned(format!("{server}{openai}/{MODELS}"), AZURE_VERSION),
            Some(_) => versioned(
                format!("{server}{openai}/deployments/{name}/{operation}"),
                AZURE_VERSION,
            ),
            None => as_it_is(format!("{server}{openai}/v1/{operation}")),
        }
    }

    /// The header for the key, unless the key is a bearer token.
    pub fn key_header(&self) -> Option<&'static str> {
        (self.provider == Provider::AzureOpenai).then_some("api-key")
    }

    /// Where it comes from, as a line of an error.
    pub fn describe_origin(&self) -> String {
        match &self.origin {
            EndpointOrigin::Yaml(Some(place)) => format!("configured at {place} (`{}.endpoint`)", self.block),
            EndpointOrigin::Yaml(None) => format!("configured as `{}.endpoint`", self.block),
            EndpointOrigin::Variable => format!("configured as `{OPENAI_BASE_URL}`"),
            EndpointOrigin::Default => format!("the default of `provider: {}`", self.provider),
        }
    }

    /// The next step when it does not answer.
    pub fn hint_when_down(&self) -> String {
        let block = &self.block;
        match (self.provider, &self.origin) {
            (Provider::Ollama, _) => {
                format!("is Ollama running? start it with `ollama serve`, or set `{block}.endpoint`")
            }
            (_, EndpointOrigin::Variable) => {
                format!("is the server running? check `{OPENAI_BASE_URL}`, or set `{block}.endpoint`")
            }
            (_, EndpointOrigin::Yaml(_)) => {
                format!("is the server running, and is `{block}.endpoint` right?")
            }
            (_, EndpointOrigin::Default) => {
                "check the network connection; a proxy is read from `HTTPS_PROXY`".to_owned()
            }
        }
    }

    /// Where to set a key.
    pub fn hint_for_key(&self) -> String {
        let block = &self.block;
        match Self::key_variable(self.provider) {
            Some(variable) if self.key.is_some() => {
                format!("check the key in `{variable}` or `{block}.api_key`")
            }
            Some(variable) => format!("set `{variable}` or `{block}.api_key`"),
            None => format!("set `{block}.api_key`"),
        }
    }

    /// The variable that may hold the key for a provider.
    pub fn key_variable(provider: Provider) -> Option<&'static str> {
        match provider {
            Provider::Openai => Some(OPENAI_API_KEY),
            Provider::AzureOpenai => Some(AZURE_OPENAI_API_KEY),
            Provider::Ollama | Provider::Anthropic => None,
        }
    }

    /// The message for a key that cannot be sent.
    pub const BAD_KEY: &str = "the key contains characters that are not allowed in an HTTP header";

    /// The next step for a key that is not allowed in a header.
    pub fn hint_for_bad_key(&self) -> String {
        let from = Self::key_variable(self.provider)
            .map_or_else(String::new, |variable| format!(" or `{variable}`"));
        format!("check `{}.api_key`{from}", self.block)
    }
}

/// Operations of such servers; an address may be that of any of them.
const OPERATIONS: [&str; 5] = [
    "chat/completions",
    "completions",
    "responses",
    "embeddings",
    "rerank",
];

/// The same after a version or a deployment; elsewhere the word may be the name of the server.
const OF_VERSIONS: [&str; 3] = ["chat", "messages", "models"];

/// Operations of Ollama's own API, which is beside the other one.
const OF_OLLAMA: [&str; 7] = [
    "api/chat",
    "api/generate",
    "api/embed",
    "api/embeddings",
    "api/tags",
    "api/show",
    "api",
];

/// The operation that lists what a server has.
const MODELS: &str = "models";

/// Whether an operation is of models that write text.
fn is_of_text(operation: &str) -> bool {
    !["embeddings", "rerank", MODELS].contains(&operation)
}

/// A path without this operation at its end. After `deployments` stands the name of one, whatever it is.
fn without_operation<'a>(path: &'a str, operation: &str) -> Option<&'a str> {
    without_end(path, operation).filter(|rest| !segments(rest).next_back().is_some_and(is_deployments))
}

fn is_deployments(segment: &str) -> bool {
    segment.eq_ignore_ascii_case("deployments")
}

/// Whether a segment of a path is a version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix(['v', 'V']).unwrap_or_default();
    number.starts_with(|digit: char| digit.is_ascii_digit())
}

fn segments(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// A path without these segments at its end.
fn without_end<'a>(path: &'a str, segments: &str) -> Option<&'a str> {
    let (rest, end) = path.split_at_checked(path.len().checked_sub(segments.len())?)?;
    let is_end = end.eq_ignore_ascii_case(segments) && rest.ends_with('/');
    is_end.then(|| rest.trim_end_matches('/'))
}

/// The version of Azure's API in the query of an address.
fn version_of(base: &str) -> Option<String> {
    let query = base.split_once('?')?.1;
    let query = query.split('#').next().unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, version) = pairs.find(|(name, _)| *name == API_VERSION)?;
    (!version.is_empty()).then(|| version.to_owned())
}

fn find_base(config: &EndpointConfig, env: &Env) -> Result<(String, EndpointOrigin), EndpointError> {
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

fn find_key(
    config: &EndpointConfig,
    origin: &EndpointOrigin,
    env: &Env,
) -> Result<Option<SecretString>, EndpointError> {
    let own = config.api_key.as_ref();
    if let Some(key) = own.filter(|key| !key.expose_secret().trim().is_empty()) {
        return Ok(Some(key.clone()));
    }
    let Some(variable) = ModelEndpoint::key_variable(config.provider) else {
        return Ok(None);
    };
    if let Some(key) = env.non_blank(variable) {
        return Ok(Some(key.into()));
    }
    // A self-hosted server may not need a key; these two always do.
    if *origin == EndpointOrigin::Default || config.provider == Provider::AzureOpenai {
        return Err(EndpointError::NoKey { variable });
    }
    Ok(None)
}
