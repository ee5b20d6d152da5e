//! Tests of addresses, keys and their errors.

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
        let model = json!({"provider": provider, "name": "m", "endpoint": endpoint, "api_version": version});
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
    `OPENAI_API_KEY` is not set

    hint: put `OPENAI_API_KEY=…` into `.env` beside the agent file, or export it
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

/// Every operation that an address may be of.
const SUFFIXES: [&str; 8] = [
    "chat/completions",
    "completions",
    "responses",
    "embeddings",
    "rerank",
    "chat",
    "messages",
    "models",
];

const HOSTS: [&str; 3] = ["http://h:1", "https://api.x.test", "http://[::1]:8080"];

/// The URLs of chat completions and of the list of models.
fn urls(provider: &str, endpoint: &str, version: Option<&str>) -> [String; 2] {
    let model = json!({"provider": provider, "name": "own", "endpoint": endpoint, "api_version": version, "api_key": "k"});
    let endpoint = resolve(&model, &[]).unwrap();
    [&endpoint.url, &endpoint.models].map(|url| url.exposed().to_owned())
}

/// The same path with and without a slash and a query.
fn spellings(path: &str) -> Vec<(String, &'static str)> {
    let mut spellings = Vec::new();
    for slash in ["", "/", "//"] {
        for query in ["", "?k=1"] {
            spellings.push((format!("{path}{slash}{query}"), query));
        }
    }
    spellings
}

#[test]
fn an_address_of_any_operation_names_its_server() {
    for host in HOSTS {
        for prefix in [
            "",
            "/proxy",
            "/a/b",
            "/chat",
            "/models",
            "/api",
            "/openai/deployments/chat",
        ] {
            for version in ["", "/v1", "/V2", "/api/v3", "/v1beta/openai", "/v1beta"] {
                let server = format!("{prefix}{version}");
                let ends_in_version = ["/v1", "/V2", "/api/v3", "/v1beta"].contains(&version);
                let is_deployment = prefix.contains("deployments") && version.is_empty();
                for suffix in [""].iter().chain(&SUFFIXES) {
                    // Elsewhere the word may be the name of the server.
                    let needs_version = ["chat", "messages", "models"].contains(suffix);
                    let is_operation = !needs_version || ends_in_version || is_deployment;
                    let is_another = server == "/chat" && *suffix == "completions";
                    if !is_operation || is_another {
                        continue;
                    }
                    let path = if suffix.is_empty() {
                        server.clone()
                    } else {
                        format!("{server}/{suffix}")
                    };
                    let base = match (server.as_str(), *suffix) {
                        ("", "chat/completions") => "",
                        ("", _) => "/v1",
                        (server, _) => server,
                    };
                    for (path, query) in spellings(&path) {
                        let [chat, _] = urls("openai", &format!("{host}{path}"), None);
                        assert_eq!(
                            chat,
                            format!("{host}{base}/chat/completions{query}"),
                            "{host}{path}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_address_of_ollama_names_its_server_wherever_it_is() {
    let own = [
        "",
        "/api",
        "/api/chat",
        "/api/generate",
        "/api/tags",
        "/api/embed",
        "/api/embeddings",
        "/api/show",
    ];
    let compatible = [
        "/v1",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/embeddings",
        "/v1/responses",
    ];
    for host in HOSTS {
        for prefix in ["", "/proxy", "/a/b", "/ollama", "/my-api"] {
            for suffix in own.iter().chain(&compatible) {
                for (path, query) in spellings(&format!("{prefix}{suffix}")) {
                    let expected =
                        ["chat/completions", "models"].map(|end| format!("{host}{prefix}/v1/{end}{query}"));
                    assert_eq!(
                        urls("ollama", &format!("{host}{path}"), None),
                        expected,
                        "{host}{path}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_deployment_has_any_name() {
    // Also that of an operation.
    let names =
        SUFFIXES
            .iter()
            .filter(|name| !name.contains('/'))
            .chain(&["d", "gpt-4o", "v1", "deployments-1"]);
    for name in names {
        for prefix in ["", "/gateway", "/api/projects/p"] {
            for folder in ["openai/deployments", "OpenAI/Deployments"] {
                for suffix in ["", "/chat/completions", "/completions", "/responses", "/chat"] {
                    for (version, query, sent) in [
                        (None, "", "2024-10-21"),
                        (Some("v"), "", "v"),
                        (None, "?api-version=w", "w"),
                        (Some("v"), "?api-version=w", "w"),
                    ] {
                        for slash in ["", "/"] {
                            let endpoint =
                                format!("https://x.test{prefix}/{folder}/{name}{suffix}{slash}{query}");
                            let server = format!("https://x.test{prefix}/{folder}");
                            let expected = [
                                format!("{server}/{name}/chat/completions?api-version={sent}"),
                                format!("{}/models?api-version={sent}", server.rsplit_once('/').unwrap().0),
                            ];
                            assert_eq!(
                                urls("azure_openai", &endpoint, version),
                                expected,
                                "{endpoint} {version:?}"
                            );
                        }
                    }
                }
                // The deployment of an embedder writes no text.
                let endpoint = format!("https://x.test{prefix}/{folder}/{name}/embeddings");
                let expected = format!("https://x.test{prefix}/{folder}/own/chat/completions?api-version=v");
                assert_eq!(
                    urls("azure_openai", &endpoint, Some("v"))[0],
                    expected,
                    "{endpoint}"
                );
            }
        }
    }
}

#[test]
fn an_address_of_azure_names_its_resource() {
    for prefix in ["", "/gateway", "/api/projects/p"] {
        for openai in ["", "/openai"] {
            for suffix in ["", "/responses", "/embeddings", "/completions"] {
                for slash in ["", "/"] {
                    let endpoint = format!("https://x.test{prefix}{openai}{suffix}{slash}");
                    let server = format!("https://x.test{prefix}/openai");
                    let newest = ["chat/completions", "models"].map(|end| format!("{server}/v1/{end}"));
                    assert_eq!(urls("azure_openai", &endpoint, None), newest, "{endpoint}");
                    let deployment = [
                        format!("{server}/deployments/own/chat/completions?api-version=v"),
                        format!("{server}/models?api-version=v"),
                    ];
                    assert_eq!(
                        urls("azure_openai", &endpoint, Some("v")),
                        deployment,
                        "{endpoint}"
                    );
                }
            }
        }
        for suffix in [""].iter().chain(&SUFFIXES) {
            for slash in ["", "/"] {
                let server = format!("https://x.test{prefix}/openai/v1");
                let endpoint = format!("{server}/{suffix}{slash}");
                let expected = ["chat/completions", "models"].map(|end| format!("{server}/{end}"));
                assert_eq!(urls("azure_openai", &endpoint, None), expected, "{endpoint}");
                let expected = expected.map(|url| format!("{url}?api-version=preview"));
                assert_eq!(
                    urls("azure_openai", &endpoint, Some("preview")),
                    expected,
                    "{endpoint}"
                );
            }
        }
    }
}
