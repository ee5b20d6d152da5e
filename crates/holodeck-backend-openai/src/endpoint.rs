use std::fmt;

use holodeck_backend_api::BackendError;
use holodeck_http::{Headers, HttpUrl};
use holodeck_model::{EndpointConfig, Env, LoadedAgent, ModelConfig, ModelEndpoint, Provider};
use secrecy::SecretString;

const CHAT: &str = "chat/completions";

/// Where an agent's model is served and how one signs in there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) url: HttpUrl,
    pub(crate) headers: Headers,
    served: ModelEndpoint,
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
        self.served.key()
    }

    /// The URL of chat completions, without secrets.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    fn of_model(model: &ModelConfig, at: Option<String>, env: &Env) -> Result<Self, BackendError> {
        let config = EndpointConfig {
            provider: model.provider,
            name: model.name.clone(),
            endpoint: model.endpoint.clone(),
            api_key: model.api_key.clone(),
            api_version: model.api_version.clone(),
            block: "model".to_owned(),
            at,
        };
        let served = ModelEndpoint::resolve(config, env).map_err(|error| init(error.to_string()))?;
        let base =
            HttpUrl::parse(served.base()).map_err(|error| init(format!("{error}\n  {}", served.named())))?;
        let headers = headers(&served)?;
        let route = served.route(base.path(), CHAT);
        let url = match (route.path.as_str(), &route.api_version) {
            ("", _) => base,
            (path, None) => base.join(path),
            (path, Some(version)) => base.join(path).with_query("api-version", version),
        };
        Ok(Self { url, headers, served })
    }

    /// Who named this endpoint, as a line of an error.
    pub(crate) fn origin(&self) -> String {
        self.served.named()
    }

    /// What to do when it does not answer.
    pub(crate) fn hint_when_down(&self) -> String {
        self.served.hint_when_down()
    }

    pub(crate) fn is_ollama(&self) -> bool {
        self.served.provider() == Provider::Ollama
    }

    /// Where to set a key.
    pub(crate) fn hint_for_key(&self) -> String {
        self.served.hint_for_key()
    }
}

fn headers(served: &ModelEndpoint) -> Result<Headers, BackendError> {
    let mut headers = Headers::new();
    if let Some(key) = served.key() {
        match served.key_header() {
            Some(name) => headers.insert_secret(name, key),
            None => headers.bearer(key),
        }
        .map_err(|_error| init(served.bad_key()))?;
    }
    Ok(headers)
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
    use secrecy::ExposeSecret as _;
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
