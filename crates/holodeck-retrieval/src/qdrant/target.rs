//! Finds the address, key and collection of a Qdrant server in the `database` block of a tool.

use holodeck_http::{Headers, HttpClient, HttpUrl};
use holodeck_model::DatabaseConfig;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::PROVIDER;
use super::api::Api;
use crate::RetrievalError;
use crate::payload::check_name;
use crate::rest::Rest;
use crate::settings::{Settings, collection_name};

const OPTIONS: &[&str] = &[
    "collection_name",
    "index",
    "api_key",
    "url",
    "host",
    "port",
    "prefer_grpc",
    "grpc_port",
];

/// Default port of the server.
const PORT: u16 = 6333;

pub(super) fn api(
    database: &DatabaseConfig,
    collection: &str,
    client: &HttpClient,
) -> Result<Api, RetrievalError> {
    let settings = Settings::new(PROVIDER, &database.options, OPTIONS)?;
    let mut url = url(database, &settings)?;
    let key = match settings.text(&["api_key"])? {
        Some(key) => Some(key),
        // As 0.7.1 reads it: in the position of a URL's user.
        None if !url.username().is_empty() => Some(percent_decode(url.username())),
        None => None,
    };
    // Otherwise it would be sent as a password.
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    cleared.map_err(|()| settings.error("`connection_string` names no server"))?;
    let mut headers = Headers::new();
    if let Some(key) = key {
        headers
            .insert_secret("api-key", &SecretString::from(key))
            .map_err(|error| settings.error(error.to_string()))?;
    }
    let name = match settings.text(&["collection_name"])? {
        Some(name) => {
            check_name(&name).map_err(|reason| settings.error(reason))?;
            name
        }
        None => collection_name(collection, 3..=200),
    };
    let exact = match settings.text(&["index"])?.as_deref() {
        None | Some("exact") => true,
        Some("hnsw") => false,
        Some(other) => {
            return Err(settings.error(format!("unknown index `{other}`; indexes: exact, hnsw")));
        }
    };
    let base = HttpUrl::parse(url.as_str()).map_err(|error| settings.error(error.to_string()))?;
    let store = format!("{PROVIDER} {} {name}", base.to_string().trim_end_matches('/'));
    Ok(Api::new(
        Rest::new(client.clone(), base, headers, store),
        &name,
        exact,
    ))
}

fn url(database: &DatabaseConfig, settings: &Settings<'_>) -> Result<Url, RetrievalError> {
    let grpc =
        || settings.error("gRPC is not supported; set the address of the REST API, such as http://host:6333");
    if settings.text(&["prefer_grpc"])?.as_deref() == Some("true") {
        return Err(grpc());
    }
    let host = settings.text(&["host"])?;
    let text = match (settings.text(&["url"])?, host, &database.connection_string) {
        (Some(url), _, _) => url,
        (None, Some(host), _) => format!(
            "http://{host}:{}",
            settings.number(&["port"])?.unwrap_or(PORT.into())
        ),
        (None, None, Some(text)) => text.expose_secret().trim().to_owned(),
        (None, None, None) => {
            return Err(settings.error("`connection_string` is missing (http://localhost:6333)"));
        }
    };
    if text == ":memory:" || text.starts_with('/') || text.starts_with("file:") {
        return Err(settings.error(
            "Qdrant without a server is part of its Python library; use `provider: in-memory`, which is also stored in a file",
        ));
    }
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| settings.error("`connection_string` must begin with http:// or https://"))?;
    let secure = rest
        .split(['/', '?'])
        .next()
        .is_some_and(|host| host.ends_with(":443"));
    let scheme = match scheme {
        "http" | "https" => scheme,
        "qdrant" if secure => "https",
        "qdrant" => "http",
        "qdrant+grpc" | "grpc" => return Err(grpc()),
        _ => return Err(settings.error("`connection_string` must begin with http:// or https://")),
    };
    // The value is not shown, because it may hold a key.
    let mut url = Url::parse(&format!("{scheme}://{rest}"))
        .map_err(|error| settings.error(format!("`connection_string` is not a valid URL: {error}")))?;
    // The parser drops an explicit port 80 or 443.
    let written = rest.split(['/', '?']).next().unwrap_or_default();
    let written = written.rsplit('@').next().unwrap_or_default();
    let has_port = written.rsplit(':').next().is_some_and(|port| {
        port.len() < written.len() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !has_port {
        let set = url.set_port(Some(PORT));
        set.map_err(|()| settings.error("`connection_string` names no server"))?;
    }
    Ok(url)
}

fn percent_decode(text: &str) -> String {
    let pair = format!("k={}", text.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(pair.as_bytes());
    pairs
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use holodeck_http::{HttpClient, HttpOptions};
    use holodeck_model::{DatabaseConfig, DatabaseProvider};
    use serde_json::{Value, json};

    use super::super::QdrantStore;
    use crate::VectorStore as _;

    fn describe_target(connection: Option<&str>, options: Value) -> String {
        let Value::Object(options) = options else {
            unreachable!()
        };
        let config = DatabaseConfig {
            provider: DatabaseProvider::Qdrant,
            connection_string: connection.map(Into::into),
            options,
        };
        let client = HttpClient::new(&HttpOptions::default()).unwrap();
        match QdrantStore::new(&config, "support_kb", &client) {
            Ok(store) => store.describe(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses_are_read_as_the_original_does() {
        let of = |text: &str| describe_target(Some(text), json!({}));
        assert_eq!(
            of("http://localhost:6333"),
            "qdrant http://localhost:6333 support_kb"
        );
        assert_eq!(of("http://localhost"), "qdrant http://localhost:6333 support_kb");
        assert_eq!(of("https://hush@q.test"), "qdrant https://q.test:6333 support_kb");
        assert_eq!(of("https://hush@q.test:443/"), "qdrant https://q.test support_kb");
        assert_eq!(of("qdrant://q.test:7000"), "qdrant http://q.test:7000 support_kb");
        assert_eq!(of("qdrant://hush@q.test:443"), "qdrant https://q.test support_kb");
        assert_eq!(
            describe_target(None, json!({"host": "q.test", "collection_name": "other"})),
            "qdrant http://q.test:6333 other"
        );
    }

    #[test]
    fn errors_show_no_secrets() {
        let mistakes = [
            describe_target(None, json!({})),
            describe_target(Some(":memory:"), json!({})),
            describe_target(Some("/data/qdrant"), json!({})),
            describe_target(Some("qdrant+grpc://hush@q.test:6334"), json!({})),
            describe_target(Some("hush"), json!({})),
            describe_target(Some("http://hush@:x"), json!({})),
            describe_target(Some("http://q.test"), json!({"api_key": "hu\nsh"})),
            describe_target(Some("http://q.test"), json!({"collection_name": "a/b"})),
            describe_target(Some("http://q.test"), json!({"index": "ivf"})),
            describe_target(Some("http://q.test"), json!({"apikey": "hush"})),
        ];
        for mistake in &mistakes {
            assert!(!mistake.contains("hush"), "{mistake}");
        }
        insta::assert_snapshot!(mistakes.join("\n"));
    }
}
