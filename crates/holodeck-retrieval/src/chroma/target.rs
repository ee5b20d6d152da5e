//! Finds the address and collection of a Chroma server in the `database` block of a tool.

use holodeck_http::{Headers, HttpClient, HttpUrl};
use holodeck_model::DatabaseConfig;
use secrecy::{ExposeSecret as _, SecretString};

use super::PROVIDER;
use super::api::Api;
use crate::RetrievalError;
use crate::payload::check_name;
use crate::rest::Rest;
use crate::settings::{Settings, collection_name};

const OPTIONS: &[&str] = &[
    "collection_name",
    "tenant",
    "database",
    "headers",
    "ef_search",
    "persist_directory",
];

/// Default port of the server.
const PORT: u16 = 8000;

pub(super) fn api(
    database: &DatabaseConfig,
    collection: &str,
    client: &HttpClient,
) -> Result<Api, RetrievalError> {
    let settings = Settings::new(PROVIDER, &database.options, OPTIONS)?;
    let Some(text) = &database.connection_string else {
        return Err(settings.error(
            "Chroma without a server is a part of its Python library; give a `connection_string` \
             (http://localhost:8000), or use `provider: in-memory`, which is kept in a file too",
        ));
    };
    let base = base(text, &settings)?;
    let mut headers = Headers::new();
    for (name, value) in settings.texts(&["headers"])? {
        headers
            .insert_secret(&name, &SecretString::from(value))
            .map_err(|error| settings.error(error.to_string()))?;
    }
    let part = |key, otherwise: &str| -> Result<String, RetrievalError> {
        let name = settings.text(&[key])?.unwrap_or_else(|| otherwise.to_owned());
        check_name(&name).map_err(|reason| settings.error(format!("`{key}`: {reason}")))?;
        Ok(name)
    };
    let tenant = part("tenant", "default_tenant")?;
    let of = part("database", "default_database")?;
    let name = match settings.text(&["collection_name"])? {
        Some(name) => {
            check_name(&name).map_err(|reason| settings.error(reason))?;
            name
        }
        None => collection_name(collection, 3..=200),
    };
    let ef_search = match settings.number(&["ef_search"])? {
        Some(number @ 1..=10_000) => number,
        Some(_) => return Err(settings.error("`ef_search` is 1 to 10000")),
        None => 500,
    };
    let store = format!("{PROVIDER} {} {name}", base.to_string().trim_end_matches('/'));
    let base = base.join(&format!("api/v2/tenants/{tenant}/databases/{of}"));
    Ok(Api::new(
        Rest::new(client.clone(), base, headers, store),
        &name,
        ef_search,
    ))
}

fn base(text: &SecretString, settings: &Settings<'_>) -> Result<HttpUrl, RetrievalError> {
    let text = text.expose_secret().trim();
    // The value is not shown, because it may hold a password.
    let mut url = url::Url::parse(text)
        .map_err(|error| settings.error(format!("`connection_string` is not a valid URL: {error}")))?;
    if url.scheme() != "http" && url.scheme() != "https" {
        return Err(settings.error("`connection_string` must begin with http:// or https://"));
    }
    if url.scheme() == "http" && url.port().is_none() {
        let set = url.set_port(Some(PORT));
        set.map_err(|()| settings.error("`connection_string` names no server"))?;
    }
    HttpUrl::parse(url.as_str()).map_err(|error| settings.error(error.to_string()))
}

#[cfg(test)]
mod tests {
    use holodeck_http::{HttpClient, HttpOptions};
    use holodeck_model::{DatabaseConfig, DatabaseProvider};
    use serde_json::{Value, json};

    use super::super::ChromaStore;
    use crate::VectorStore as _;

    fn describe_target(connection: Option<&str>, options: Value) -> String {
        let Value::Object(options) = options else {
            unreachable!()
        };
        let config = DatabaseConfig {
            provider: DatabaseProvider::Chromadb,
            connection_string: connection.map(Into::into),
            options,
        };
        let client = HttpClient::new(&HttpOptions::default()).unwrap();
        match ChromaStore::new(&config, "support_kb", &client) {
            Ok(store) => store.describe(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses_are_read_as_the_original_does() {
        let of = |text: &str| describe_target(Some(text), json!({}));
        assert_eq!(
            of("http://localhost:9000"),
            "chromadb http://localhost:9000 support_kb"
        );
        assert_eq!(
            of("http://localhost"),
            "chromadb http://localhost:8000 support_kb"
        );
        assert_eq!(of("https://c.test"), "chromadb https://c.test support_kb");
        let options = json!({"tenant": "acme", "database": "kb1", "headers": {"x-chroma-token": "hush"}});
        assert_eq!(
            describe_target(Some("https://c.test"), options),
            "chromadb https://c.test support_kb"
        );
    }

    #[test]
    fn errors_show_no_secrets() {
        let mistakes = [
            describe_target(None, json!({"persist_directory": "/data"})),
            describe_target(Some("chroma://hush@c.test"), json!({})),
            describe_target(Some("hush"), json!({})),
            describe_target(Some("http://c.test"), json!({"headers": "hush"})),
            describe_target(Some("http://c.test"), json!({"headers": {"a": "hu\nsh"}})),
            describe_target(Some("http://c.test"), json!({"tenant": "a/b"})),
            describe_target(Some("http://c.test"), json!({"collection_name": "a"})),
            describe_target(Some("http://c.test"), json!({"ef_search": 0})),
        ];
        for mistake in &mistakes {
            assert!(!mistake.contains("hush"), "{mistake}");
        }
        insta::assert_snapshot!(mistakes.join("\n"));
    }
}
