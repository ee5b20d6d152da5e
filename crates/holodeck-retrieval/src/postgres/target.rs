//! Finds the database, tables and kind of search in the `database` block of a tool.

use holodeck_model::DatabaseConfig;
use holodeck_postgres::{ConnectionString, Target as Database};
use secrecy::ExposeSecret as _;

use super::PROVIDER;
use super::names::{LONGEST, Names};
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
    pub(super) database: Database,
    pub(super) names: Names,
    pub(super) index: VectorIndex,
    /// The text search configuration in `pg_catalog`.
    pub(super) language: String,
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
        let in_string = |error| settings.error(format!("`connection_string` {error}"));
        let mut connection = match &database.connection_string {
            Some(text) => ConnectionString::parse(text.expose_secret()).map_err(in_string)?,
            None => ConnectionString::default(),
        };
        overlay(&mut connection, &settings)?;
        if connection.config_mut().get_hosts().is_empty() {
            return Err(
                settings.error("`connection_string` is missing (postgresql://user@host:5432/database)")
            );
        }
        let database = connection
            .into_target()
            .map_err(|error| settings.error(format!("the connection {error}")))?;
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
            names: Names::new(&schema, &table),
            index: vector_index(&settings)?,
            language: language(&settings)?,
            database,
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("{PROVIDER} {} {}", self.database.place(), self.names.shown)
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        RetrievalError::Store {
            store: self.describe(),
            reason: reason.into(),
        }
    }
}

fn overlay(connection: &mut ConnectionString, settings: &Settings<'_>) -> Result<(), RetrievalError> {
    let config = connection.config_mut();
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
            connection.set_tls(key, &value);
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

#[cfg(test)]
mod tests;
