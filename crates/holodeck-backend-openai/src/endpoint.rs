//! Resolves the URL, headers and key of a model's endpoint from the YAML and the environment.

use std::fmt;

use holodeck_backend_api::{BackendError, Explanation};
use holodeck_http::{Headers, HttpUrl, mask};
use holodeck_model::{EndpointConfig, EndpointRoute, Env, Location, ModelConfig, ModelEndpoint, Provider};
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
        let server_of = |operation: &str| base.with_path(model_endpoint.server_path(base.path(), operation));
        let server = server_of(CHAT);
        let url = append_route(&server, &model_endpoint.route(server.path(), CHAT));
        let server = server_of("models");
        let models = append_route(&server, &model_endpoint.models_route(server.path()));
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

fn append_route(base: &HttpUrl, route: &EndpointRoute) -> HttpUrl {
    match (route.path.as_str(), &route.api_version) {
        ("", _) => base.clone(),
        (path, None) => base.join(path),
        (path, Some(version)) => base.join(path).with_query("api-version", version),
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
mod tests {
    use std::path::Path;

    use holodeck_model::Span;
    use insta::assert_snapshot;
    use pretty_assertions::assert_eq;
    use secrecy::ExposeSecret as _;
    use serde_json::{Value, json};

    use super::*;

    fn resolve(model: &Value, env: &[(&str, &str)]) -> Result<Endpoint, BackendError> {
        let model: ModelConfig = serde_json::from_value(model.clone()).unwrap();
        let at = model.endpoint.as_ref().map(|_| Location {
            path: Path::new("agent.yaml").into(),
            line: 5,
            column: 13,
            span: Span::default(),
        });
        let env = env.iter().copied().collect();
        Endpoint::resolve(&model, "model", at.as_ref(), &env)
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
            (
                "http://h:1/v1/chat/completions/",
                "http://h:1/v1/chat/completions",
            ),
            ("http://h:1/V1/Chat/Completions", "http://h:1/V1/Chat/Completions"),
            ("http://h:1/chat/completions", "http://h:1/chat/completions"),
            ("http://h:1/v1/responses", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/Responses/", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/completions", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/chat", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/models", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/messages", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/embeddings", "http://h:1/v1/chat/completions"),
            (
                "http://h:1/v1beta/openai/models",
                "http://h:1/v1beta/openai/models/chat/completions",
            ),
            ("http://h:1/responses", "http://h:1/v1/chat/completions"),
            ("http://h:1/completions/", "http://h:1/v1/chat/completions"),
            (
                "http://h:1/x/v4/responses?k=1",
                "http://h:1/x/v4/chat/completions",
            ),
            // A part of a word, and the name of a server.
            ("http://h:1/v1/mychat", "http://h:1/v1/mychat/chat/completions"),
            (
                "http://h:1/xchat/completions",
                "http://h:1/xchat/chat/completions",
            ),
            ("http://h:1/models", "http://h:1/models/chat/completions"),
            ("http://h:1/chat", "http://h:1/chat/chat/completions"),
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
    fn an_address_of_ollamas_own_api_names_its_server() {
        for path in [
            "/api",
            "/api/",
            "/api/chat",
            "/api/generate",
            "/api/tags",
            "/v1/models",
            "",
        ] {
            check(
                &json!({"provider": "ollama", "name": "m", "endpoint": format!("http://h:1{path}")}),
                &[],
                "http://h:1/v1/chat/completions",
                "[]",
            );
        }
        // Elsewhere it may be where the server is.
        check(
            &json!({"provider": "openai", "name": "m", "endpoint": "http://h:1/api"}),
            &[],
            "http://h:1/api/chat/completions",
            "[]",
        );
    }

    #[test]
    fn the_list_of_models_of_each_provider() {
        for (provider, endpoint, version, url) in [
            ("openai", "http://h:1", None, "http://h:1/v1/models"),
            ("openai", "http://h:1/api/v3/", None, "http://h:1/api/v3/models"),
            (
                "openai",
                "http://h:1/v1/chat/completions",
                None,
                "http://h:1/v1/models",
            ),
            ("openai", "http://h:1/v1/responses", None, "http://h:1/v1/models"),
            ("openai", "http://h:1/v1/models", None, "http://h:1/v1/models"),
            ("ollama", "http://h:1/v1", None, "http://h:1/v1/models"),
            ("ollama", "http://h:1/api/chat", None, "http://h:1/v1/models"),
            (
                "azure_openai",
                "https://x.test",
                None,
                "https://x.test/openai/v1/models",
            ),
            (
                "azure_openai",
                "https://x.test",
                Some("2024-10-21"),
                "https://x.test/openai/models",
            ),
        ] {
            let model =
                json!({"provider": provider, "name": "m", "endpoint": endpoint, "api_version": version});
            let endpoint = resolve(&model, &[("AZURE_OPENAI_API_KEY", "az")]).unwrap();
            assert_eq!(endpoint.models_url().to_string(), url);
            let query = endpoint
                .models_url()
                .exposed()
                .split_once('?')
                .map(|(_, query)| query);
            assert_eq!(query, version.map(|_| "api-version=2024-10-21"));
        }
    }

    #[test]
    fn a_base_url_variable_replaces_the_default_endpoint() {
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
    fn no_part_of_an_azure_address_is_doubled() {
        let paths = [
            ("/openai/v1/responses", None, "/openai/v1/chat/completions"),
            ("/openai/v1/completions", None, "/openai/v1/chat/completions"),
            ("/openai/v1/models", None, "/openai/v1/chat/completions"),
            (
                "/openai/responses?api-version=w",
                None,
                "/openai/deployments/d/chat/completions?api-version=w",
            ),
            (
                "?api-version=w",
                None,
                "/openai/deployments/d/chat/completions?api-version=w",
            ),
            (
                "/openai/responses",
                Some("v"),
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
            (
                "/openai/deployments/d/completions?api-version=w",
                None,
                "/openai/deployments/d/chat/completions?api-version=w",
            ),
            (
                "/openai/deployments/d/chat?api-version=w",
                None,
                "/openai/deployments/d/chat/completions?api-version=w",
            ),
            (
                "/api/projects/p/openai/v1/responses",
                None,
                "/api/projects/p/openai/v1/chat/completions",
            ),
            ("", None, "/openai/v1/chat/completions"),
            ("/openai", None, "/openai/v1/chat/completions"),
            ("/openai/v1", None, "/openai/v1/chat/completions"),
            (
                "/openai/v1",
                Some("preview"),
                "/openai/v1/chat/completions?api-version=preview",
            ),
            (
                "",
                Some("v"),
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
            (
                "/openai",
                Some("v"),
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
            (
                "/openai/deployments",
                Some("v"),
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
            (
                "/openai/deployments/d",
                Some("v"),
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
            (
                "/openai/deployments/d",
                None,
                "/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            (
                "/openai/v1?api-version=preview",
                Some("v"),
                "/openai/v1/chat/completions?api-version=preview",
            ),
            (
                "/models?api-version=w",
                None,
                "/models/chat/completions?api-version=w",
            ),
            ("/models", Some("v"), "/models/chat/completions?api-version=v"),
            (
                "/models",
                None,
                "/models/chat/completions?api-version=2024-05-01-preview",
            ),
            (
                "/openai/deployments/d/chat/completions?api-version=v",
                None,
                "/openai/deployments/d/chat/completions?api-version=v",
            ),
        ];
        for (path, version, expected) in paths {
            for end in ["", "/"] {
                if path.contains('?') && end == "/" {
                    continue;
                }
                let model = json!({
                    "provider": "azure_openai", "name": "d", "endpoint": format!("https://x.test{path}{end}"),
                    "api_version": version,
                });
                let endpoint = resolve(&model, &[("AZURE_OPENAI_API_KEY", "az")]).unwrap();
                let url = endpoint.url.exposed().to_owned();
                assert_eq!(
                    url,
                    format!("https://x.test{expected}"),
                    "{path}{end} {version:?}"
                );
            }
        }
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
        assert_snapshot!(error.unwrap_err().explanation().text(), @r"
        no key for `provider: openai`

        hint: set `OPENAI_API_KEY`, or `model.api_key` in the YAML
        ");
        let azure = json!({"provider": "azure_openai", "name": "m", "endpoint": "https://x.test"});
        assert!(
            resolve(&azure, &[])
                .unwrap_err()
                .explanation()
                .text()
                .contains("`AZURE_OPENAI_API_KEY`")
        );
    }

    #[test]
    fn an_invalid_endpoint_url_is_shown_without_secrets() {
        let model = json!({"provider": "openai", "name": "m", "endpoint": "localhost:11434?key=hush"});
        assert_snapshot!(resolve(&model, &[]).unwrap_err(), @r"
        invalid URL `localhost:11434`: scheme `localhost` is neither http nor https
          configured at agent.yaml:5:13 (`model.endpoint`)
        ");
        let model = json!({"provider": "openai", "name": "m", "api_key": "a\nb"});
        assert_snapshot!(resolve(&model, &[]).unwrap_err().explanation().text(), @r"
        the key contains characters that are not allowed in an HTTP header

        hint: check `model.api_key` or `OPENAI_API_KEY`
        ");
    }
}
