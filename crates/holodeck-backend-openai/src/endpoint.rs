use std::fmt;

use holodeck_backend_api::BackendError;
use holodeck_http::{Headers, HttpUrl};
use holodeck_model::{
    Env, LoadedAgent, ModelConfig, Provider,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL},
};
use secrecy::{ExposeSecret as _, SecretString};

const OPENAI: &str = "https://api.openai.com";
const OLLAMA: &str = "http://localhost:11434";
const CHAT: &str = "chat/completions";

/// Where an agent's model is served and how one signs in there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) url: HttpUrl,
    pub(crate) headers: Headers,
    key: Option<SecretString>,
    origin: Origin,
    provider: Provider,
}

/// Who named the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// `model.endpoint`, at this place if it is known.
    Yaml(Option<String>),
    /// `OPENAI_BASE_URL`.
    Variable,
    /// Nobody.
    Default,
}

impl Endpoint {
    /// The endpoint of `agent`, with keys from the YAML or else from `env`.
    pub fn resolve(agent: &LoadedAgent, env: &Env) -> Result<Self, BackendError> {
        let at = agent
            .locate("model.endpoint")
            .map(|location| location.to_string());
        Self::of_model(&agent.config.model, at, env)
    }

    /// The key that requests carry, so that it can be kept out of whatever is written down.
    pub fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// The URL of chat completions, without secrets.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    fn of_model(model: &ModelConfig, at: Option<String>, env: &Env) -> Result<Self, BackendError> {
        let provider = model.provider;
        let (base, origin) = base(model, at, env)?;
        let base = HttpUrl::parse(&base)
            .map_err(|error| init(format!("{error}\n  {}", named(&origin, provider))))?;
        let key = key(model, &origin, env)?;
        let headers = headers(provider, key.as_ref())?;
        let url = chat_url(&base, model);
        Ok(Self {
            url,
            headers,
            key,
            origin,
            provider,
        })
    }

    /// Who named this endpoint, as a line of an error.
    pub(crate) fn origin(&self) -> String {
        named(&self.origin, self.provider)
    }

    /// What to do when it does not answer.
    pub(crate) fn hint_when_down(&self) -> &'static str {
        match (self.provider, &self.origin) {
            (Provider::Ollama, _) => "is Ollama running? `ollama serve`, or set `model.endpoint`",
            (_, Origin::Variable) => {
                "is the server running? check `OPENAI_BASE_URL`, or set `model.endpoint`"
            }
            (_, Origin::Yaml(_)) => "is the server running, and is `model.endpoint` right?",
            (_, Origin::Default) => "is the network up? a proxy is taken from `HTTPS_PROXY`",
        }
    }

    pub(crate) fn is_ollama(&self) -> bool {
        self.provider == Provider::Ollama
    }

    /// Where to set a key.
    pub(crate) fn hint_for_key(&self) -> String {
        match variable(self.provider) {
            Some(variable) if self.key.is_some() => {
                format!("check the key in `{variable}` or `model.api_key`")
            }
            Some(variable) => format!("set `{variable}` or `model.api_key`"),
            None => "set `model.api_key`".to_owned(),
        }
    }
}

fn base(model: &ModelConfig, at: Option<String>, env: &Env) -> Result<(String, Origin), BackendError> {
    if let Some(endpoint) = model.endpoint.as_deref().filter(|text| !text.trim().is_empty()) {
        return Ok((endpoint.to_owned(), Origin::Yaml(at)));
    }
    match model.provider {
        Provider::Openai => Ok(match env.non_blank(OPENAI_BASE_URL) {
            Some(url) => (url.to_owned(), Origin::Variable),
            None => (OPENAI.to_owned(), Origin::Default),
        }),
        Provider::Ollama => Ok((OLLAMA.to_owned(), Origin::Default)),
        Provider::AzureOpenai => Err(init("`provider: azure_openai` needs `model.endpoint`".to_owned())),
        Provider::Anthropic => Err(init(
            "`provider: anthropic` does not speak Chat Completions".to_owned(),
        )),
    }
}

fn chat_url(base: &HttpUrl, model: &ModelConfig) -> HttpUrl {
    let path = base.path().trim_end_matches('/');
    if path.ends_with(CHAT) {
        return base.clone();
    }
    if model.provider == Provider::AzureOpenai {
        if let Some(version) = model
            .api_version
            .as_deref()
            .filter(|text| !text.trim().is_empty())
        {
            let deployment = format!("openai/deployments/{}/{CHAT}", model.name);
            return base.join(&deployment).with_query("api-version", version.trim());
        }
        let v1 = if path.ends_with("/openai/v1") {
            ""
        } else {
            "openai/v1/"
        };
        return base.join(&format!("{v1}{CHAT}"));
    }
    let v1 = if path.is_empty() { "v1/" } else { "" };
    base.join(&format!("{v1}{CHAT}"))
}

fn key(model: &ModelConfig, origin: &Origin, env: &Env) -> Result<Option<SecretString>, BackendError> {
    let own = model.api_key.as_ref();
    if let Some(key) = own.filter(|key| !key.expose_secret().trim().is_empty()) {
        return Ok(Some(key.clone()));
    }
    let Some(variable) = variable(model.provider) else {
        return Ok(None);
    };
    if let Some(key) = env.non_blank(variable) {
        return Ok(Some(key.into()));
    }
    // A server of one's own may need no key; these two always do.
    if *origin == Origin::Default || model.provider == Provider::AzureOpenai {
        return Err(init(format!(
            "no key for `provider: {}`\n\nhint: set `{variable}`, or `model.api_key` in the YAML",
            model.provider
        )));
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

fn headers(provider: Provider, key: Option<&SecretString>) -> Result<Headers, BackendError> {
    let mut headers = Headers::new();
    if let Some(key) = key {
        match provider {
            Provider::AzureOpenai => headers.insert_secret("api-key", key),
            _ => headers.bearer(key),
        }
        .map_err(|_error| {
            let from = variable(provider).map_or_else(String::new, |variable| format!(" or `{variable}`"));
            init(format!(
                "the key has characters that no HTTP header can carry\n\nhint: check `model.api_key`{from}"
            ))
        })?;
    }
    Ok(headers)
}

fn named(origin: &Origin, provider: Provider) -> String {
    match origin {
        Origin::Yaml(Some(place)) => format!("configured at {place} (`model.endpoint`)"),
        Origin::Yaml(None) => "configured as `model.endpoint`".to_owned(),
        Origin::Variable => "configured as `OPENAI_BASE_URL`".to_owned(),
        Origin::Default => format!("the default of `provider: {provider}`"),
    }
}

fn init(message: String) -> BackendError {
    BackendError::Init { message }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn resolve(model: &Value, env: &[(&str, &str)]) -> Result<Endpoint, BackendError> {
        let model: ModelConfig = serde_json::from_value(model.clone()).unwrap();
        let at = model.endpoint.as_ref().map(|_| "agent.yaml:5:13".to_owned());
        let env = env.iter().copied().collect();
        Endpoint::of_model(&model, at, &env)
    }

    fn check(model: &Value, env: &[(&str, &str)], url: &str, headers: &str) {
        let endpoint = resolve(model, env).unwrap();
        assert_eq!(
            (endpoint.url(), format!("{:?}", endpoint.headers)),
            (url.to_owned(), headers.to_owned())
        );
    }

    #[test]
    fn the_url_of_each_provider() {
        let bearer = r#"["authorization"]"#;
        let key = [("OPENAI_API_KEY", "sk-1")];
        check(
            &json!({"provider": "openai", "name": "gpt-4o"}),
            &key,
            "https://api.openai.com/v1/chat/completions",
            bearer,
        );
        check(
            &json!({"provider": "ollama", "name": "llama"}),
            &key,
            "http://localhost:11434/v1/chat/completions",
            "[]",
        );
        for (endpoint, url) in [
            ("http://h:1", "http://h:1/v1/chat/completions"),
            ("http://h:1/", "http://h:1/v1/chat/completions"),
            ("http://h:1/api/v3/", "http://h:1/api/v3/chat/completions"),
            ("http://h:1/v1", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/chat/completions", "http://h:1/v1/chat/completions"),
        ] {
            check(
                &json!({"provider": "openai", "name": "m", "endpoint": endpoint}),
                &key,
                url,
                bearer,
            );
            check(
                &json!({"provider": "ollama", "name": "m", "endpoint": endpoint}),
                &[],
                url,
                "[]",
            );
        }
    }

    #[test]
    fn a_base_url_variable_stands_in_for_the_endpoint() {
        let env = [("OPENAI_BASE_URL", "http://proxy/v1")];
        check(
            &json!({"provider": "openai", "name": "m"}),
            &env,
            "http://proxy/v1/chat/completions",
            "[]",
        );
        check(
            &json!({"provider": "openai", "name": "m", "endpoint": "http://own"}),
            &env,
            "http://own/v1/chat/completions",
            "[]",
        );
    }

    #[test]
    fn azure_with_and_without_a_version() {
        let key = [("AZURE_OPENAI_API_KEY", "az")];
        let header = r#"["api-key"]"#;
        for (endpoint, version, url) in [
            (
                "https://x.test/",
                None,
                "https://x.test/openai/v1/chat/completions",
            ),
            (
                "https://x.test/openai/v1",
                None,
                "https://x.test/openai/v1/chat/completions",
            ),
            (
                "https://x.test",
                Some("2024-10-21"),
                "https://x.test/openai/deployments/my%20gpt/chat/completions",
            ),
        ] {
            let model = json!({
                "provider": "azure_openai", "name": "my gpt", "endpoint": endpoint, "api_version": version,
            });
            check(&model, &key, url, header);
        }
        let error = resolve(&json!({"provider": "azure_openai", "name": "m"}), &key).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`provider: azure_openai` needs `model.endpoint`"
        );
    }

    #[test]
    fn a_key_in_the_yaml_comes_first() {
        let model = json!({"provider": "openai", "name": "m", "api_key": "sk-yaml"});
        let endpoint = resolve(&model, &[("OPENAI_API_KEY", "sk-env")]).unwrap();
        assert_eq!(endpoint.key().unwrap().expose_secret(), "sk-yaml");
        assert!(!format!("{endpoint:?}").contains("sk-"));
    }

    #[test]
    fn a_missing_key_is_named() {
        let error = resolve(
            &json!({"provider": "openai", "name": "m"}),
            &[("OPENAI_API_KEY", " ")],
        );
        assert_snapshot!(error.unwrap_err(), @r"
        no key for `provider: openai`

        hint: set `OPENAI_API_KEY`, or `model.api_key` in the YAML
        ");
        let azure = json!({"provider": "azure_openai", "name": "m", "endpoint": "https://x.test"});
        assert!(
            resolve(&azure, &[])
                .unwrap_err()
                .to_string()
                .contains("`AZURE_OPENAI_API_KEY`")
        );
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_shown_without_secrets() {
        let model = json!({"provider": "openai", "name": "m", "endpoint": "localhost:11434?key=hush"});
        assert_snapshot!(resolve(&model, &[]).unwrap_err(), @r"
        invalid URL `localhost:11434`: scheme `localhost` is neither http nor https
          configured at agent.yaml:5:13 (`model.endpoint`)
        ");
        let model = json!({"provider": "openai", "name": "m", "api_key": "a\nb"});
        assert_snapshot!(resolve(&model, &[]).unwrap_err(), @r"
        the key has characters that no HTTP header can carry

        hint: check `model.api_key` or `OPENAI_API_KEY`
        ");
    }
}
