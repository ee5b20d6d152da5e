//! The registry of MCP servers: searches it and converts entries to tools of the YAML.

use std::time::Duration;

use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpUrl};
use serde_json::Value;

mod entry;

pub use entry::{RegistryServer, Unusable};

/// The official registry.
pub const REGISTRY_URL: &str = "https://registry.modelcontextprotocol.io";

/// Time limit of an interactive search.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum entries per page.
const PAGE: usize = 100;
/// Bounds the search in an endless registry.
const MOST_PAGES: usize = 20;

/// A client of a registry with the published API `v0.1`.
#[derive(Clone, Debug)]
pub struct Registry {
    client: HttpClient,
    base: HttpUrl,
}

/// Why a registry request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The registry could not be reached, or refused.
    #[error("the MCP registry request failed: {0}")]
    Http(#[from] HttpError),
    /// It has no such server.
    #[error("the MCP registry has no server `{name}`{}", version.as_ref().map(|version| format!(" in version {version}")).unwrap_or_default())]
    NotFound {
        /// The requested name.
        name: String,
        /// The requested version.
        version: Option<String>,
    },
    /// The answer does not follow the API.
    #[error("{url} is not an MCP registry")]
    Strange {
        /// The requested URL.
        url: String,
    },
}

impl Registry {
    /// The registry at `base`, without the API version.
    pub fn new(client: HttpClient, base: &str) -> Result<Self, RegistryError> {
        let base = HttpUrl::parse(base).map_err(HttpError::from)?;
        Ok(Self { client, base })
    }

    /// The newest versions of servers whose name contains `query`, at most `limit`.
    pub async fn search(&self, query: &str, limit: usize) -> Result<Vec<RegistryServer>, RegistryError> {
        let mut found: Vec<RegistryServer> = Vec::new();
        let mut cursor: Option<String> = None;
        for _page in 0..MOST_PAGES {
            let mut url = self.base.join("v0.1/servers").with_query("version", "latest");
            if !query.trim().is_empty() {
                url = url.with_query("search", query.trim());
            }
            url = url.with_query("limit", &(limit - found.len()).min(PAGE).to_string());
            if let Some(cursor) = &cursor {
                url = url.with_query("cursor", cursor);
            }
            let page = self.get(&url).await?;
            let servers = page.get("servers").and_then(Value::as_array);
            let servers = servers.ok_or_else(|| strange(&url))?;
            for server in servers.iter().filter_map(RegistryServer::read) {
                // Some registries return old versions anyway.
                if !found.iter().any(|other| other.name == server.name) {
                    found.push(server);
                }
            }
            found.truncate(limit);
            let next = page.pointer("/metadata/nextCursor").and_then(Value::as_str);
            let next = next.filter(|next| !next.is_empty() && Some(*next) != cursor.as_deref());
            match next {
                Some(next) if found.len() < limit && !servers.is_empty() => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        Ok(found)
    }

    /// One server, in its newest version unless one is given.
    pub async fn server(&self, name: &str, version: Option<&str>) -> Result<RegistryServer, RegistryError> {
        let url = self.base.join(&format!(
            "v0.1/servers/{}/versions/{}",
            escaped(name),
            escaped(version.unwrap_or("latest"))
        ));
        let answer = match self.get(&url).await {
            Err(RegistryError::Http(error)) if error.status() == Some(404) => {
                return Err(RegistryError::NotFound {
                    name: name.to_owned(),
                    version: version.map(str::to_owned),
                });
            }
            answer => answer?,
        };
        RegistryServer::read(&answer).ok_or_else(|| strange(&url))
    }

    async fn get(&self, url: &HttpUrl) -> Result<Value, RegistryError> {
        let options = CallOptions {
            timeout: Some(PATIENCE),
            ..CallOptions::default()
        };
        let response = self.client.get(url, &Headers::new(), &options).await?;
        response.json().await.map_err(|_no_json| strange(url))
    }
}

fn strange(url: &HttpUrl) -> RegistryError {
    RegistryError::Strange { url: url.to_string() }
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}
