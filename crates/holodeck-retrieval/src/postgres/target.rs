use std::path::PathBuf;
use std::time::Duration;

use holodeck_http::Tls;
use holodeck_model::DatabaseConfig;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::PROVIDER;
use super::names::{LONGEST, Names};
use super::tls::Maker;
use crate::RetrievalError;
use crate::settings::{Settings, collection_name};

const OPTIONS: &[&str] = &[
    "schema",
    "db_schema",
    "table",
    "collection_name",
    "index",
    "ef_search",
    "ef_construction",
    "m",
    "language",
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "sslmode",
    "sslrootcert",
];

/// Where an index is, how to connect, and how to search it.
pub(super) struct Target {
    pub(super) config: Config,
    /// TLS; `None` disables it.
    pub(super) tls: Option<Maker>,
    pub(super) names: Names,
    pub(super) index: VectorIndex,
    /// The text search configuration in `pg_catalog`.
    pub(super) language: String,
    place: String,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// How vectors are searched without a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VectorIndex {
    /// Compares every vector.
    Exact,
    /// Uses a graph, which may miss some.
    Hnsw {
        m: u64,
        ef_construction: u64,
        ef_search: u64,
    },
}

/// pgvector's limit for the type `vector`.
pub(super) const HNSW_DIMENSIONS: usize = 2000;

impl Target {
    pub(super) fn new(database: &DatabaseConfig, collection: &str) -> Result<Self, RetrievalError> {
        let settings = Settings::new(PROVIDER, &database.options, OPTIONS)?;
        let (mut config, mut tls) = match &database.connection_string {
            Some(text) => parse(text, &settings)?,
            None => (Config::new(), TlsSettings::default()),
        };
        overlay(&mut config, &mut tls, &settings)?;
        if config.get_hosts().is_empty() {
            return Err(
                settings.error("`connection_string` is missing (postgresql://user@host:5432/database)")
            );
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        if config.get_application_name().is_none() {
            config.application_name("holodeck");
        }
        let tls = tls.into_connector(&mut config, &settings)?;
        let table = match settings.text(&["table", "collection_name"])? {
            Some(name) if name.is_empty() || name.len() > LONGEST || name.contains('\0') => {
                return Err(settings.error(format!("a table name must have 1 to {LONGEST} bytes")));
            }
            Some(name) => name,
            None => collection_name(collection, 1..=LONGEST),
        };
        let schema = settings
            .text(&["schema", "db_schema"])?
            .unwrap_or_else(|| "public".to_owned());
        Ok(Self {
            place: place(&config),
            names: Names::new(&schema, &table),
            index: vector_index(&settings)?,
            language: language(&settings)?,
            config,
            tls,
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("{PROVIDER} {} {}", self.place, self.names.shown)
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        RetrievalError::Store {
            store: self.describe(),
            reason: reason.into(),
        }
    }
}

/// The TLS settings of a connection string.
#[derive(Debug, Default)]
struct TlsSettings {
    mode: Option<String>,
    root: Option<String>,
}

impl TlsSettings {
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// Between machines, TLS is used where the server supports it, and its certificate must be valid.
    fn into_connector(
        self,
        config: &mut Config,
        settings: &Settings<'_>,
    ) -> Result<Option<Maker>, RetrievalError> {
        let mode = match self.mode.as_deref() {
            None if is_local(config) => SslMode::Disable,
            Some("disable") => SslMode::Disable,
            None | Some("allow" | "prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(settings.error(format!(
                    "unknown sslmode `{other}`; modes: disable, prefer, require, verify-ca, verify-full"
                )));
            }
        };
        config.ssl_mode(mode);
        if mode == SslMode::Disable {
            return Ok(None);
        }
        let root = self.root.filter(|root| root != "system").map(PathBuf::from);
        let tls =
            Tls::new(root.as_deref(), &["postgresql"]).map_err(|error| settings.error(error.to_string()))?;
        Ok(Some(Maker(tls)))
    }
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

/// Reads both forms of a connection string, without the keys that the driver does not support.
fn parse(text: &SecretString, settings: &Settings<'_>) -> Result<(Config, TlsSettings), RetrievalError> {
    let text = text.expose_secret().trim();
    let mut tls = TlsSettings::default();
    let rest = match text.split_once("://") {
        Some((scheme, rest)) => {
            // `postgresql+psycopg://` is the form of Python's libraries.
            let driverless = scheme.split('+').next().unwrap_or_default();
            if !matches!(driverless, "postgres" | "postgresql") {
                return Err(settings.error("`connection_string` must begin with postgresql://"));
            }
            if rest.split('?').next().unwrap_or_default().matches('@').count() > 1 {
                // Otherwise a part of the password would become the host name, which is shown.
                return Err(
                    settings.error("write `@` in the user or the password of `connection_string` as %40")
                );
            }
            format!("postgresql://{}", without_tls_query(rest, &mut tls))
        }
        None => without_tls_words(text, &mut tls)
            .ok_or_else(|| settings.error("`connection_string` is neither a URL nor a list of key=value"))?,
    };
    let config = rest.parse::<Config>().map_err(|error| {
        // For a list of words, the cause may repeat a piece of an unquoted password.
        let cause = std::error::Error::source(&error)
            .filter(|_| text.contains("://"))
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        settings.error(format!("`connection_string` can't be read{cause}"))
    })?;
    Ok((config, tls))
}

fn without_tls_query(url: &str, tls: &mut TlsSettings) -> String {
    let Some((before, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| {
            let mut decoded = url::form_urlencoded::parse(pair.as_bytes());
            !decoded.next().is_some_and(|(key, value)| tls.take(&key, &value))
        })
        .collect();
    if kept.is_empty() {
        before.to_owned()
    } else {
        format!("{before}?{}", kept.join("&"))
    }
}

/// Splits `key=value` and `key='va\'lue'`; `None` for any other syntax.
fn without_tls_words(text: &str, tls: &mut TlsSettings) -> Option<String> {
    let mut kept = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let whole = rest;
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, after) = if let Some(quoted) = after.strip_prefix('\'') {
            let mut value = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '\'') => break at + 1,
                    (_, '\\') => value.push(chars.next()?.1),
                    (_, c) => value.push(c),
                }
            };
            (value, quoted.get(end..)?)
        } else {
            let end = after.find(char::is_whitespace).unwrap_or(after.len());
            (after.get(..end)?.to_owned(), after.get(end..)?)
        };
        if !tls.take(key.trim(), &value) {
            kept.push_str(whole.get(..whole.len() - after.len())?);
            kept.push(' ');
        }
        rest = after.trim_start();
    }
    Some(kept)
}

fn overlay(
    config: &mut Config,
    tls: &mut TlsSettings,
    settings: &Settings<'_>,
) -> Result<(), RetrievalError> {
    if let Some(host) = settings.text(&["host"])? {
        config.host(&host);
    }
    if let Some(port) = settings.number(&["port"])? {
        config.port(u16::try_from(port).map_err(|_large| settings.error("`port` is 65535 at most"))?);
    }
    if let Some(name) = settings.text(&["dbname"])? {
        config.dbname(&name);
    }
    if let Some(user) = settings.text(&["user"])? {
        config.user(&user);
    }
    if let Some(password) = settings.text(&["password"])? {
        config.password(password);
    }
    for key in ["sslmode", "sslrootcert"] {
        if let Some(value) = settings.text(&[key])? {
            tls.take(key, &value);
        }
    }
    Ok(())
}

fn vector_index(settings: &Settings<'_>) -> Result<VectorIndex, RetrievalError> {
    let number = |name, otherwise, least, most| match settings.number(&[name])? {
        None => Ok(otherwise),
        Some(number) if (least..=most).contains(&number) => Ok(number),
        Some(_) => Err(settings.error(format!("`{name}` is {least} to {most}"))),
    };
    match settings.text(&["index"])?.as_deref() {
        None | Some("exact") => Ok(VectorIndex::Exact),
        Some("hnsw") => Ok(VectorIndex::Hnsw {
            m: number("m", 16, 2, 100)?,
            ef_construction: number("ef_construction", 64, 4, 1000)?,
            ef_search: number("ef_search", 100, 1, 1000)?,
        }),
        Some(other) => Err(settings.error(format!("unknown index `{other}`; indexes: exact, hnsw"))),
    }
}

fn language(settings: &Settings<'_>) -> Result<String, RetrievalError> {
    let language = settings
        .text(&["language"])?
        .unwrap_or_else(|| "english".to_owned());
    let plain = language.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && !language.is_empty() {
        Ok(language.to_ascii_lowercase())
    } else {
        Err(settings.error("`language` must be a text search configuration, such as english or simple"))
    }
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests;
