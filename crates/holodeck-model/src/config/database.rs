//! Where vectors and keywords are kept.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::value::{JsonMap, write_options, write_secret};

/// A vector database: settings, or the name of an entry of `vectorstores` in `config.yaml`.
#[derive(Clone, Debug)]
pub enum DatabaseRef {
    /// A name that no configuration defines: the embedded index is used.
    Name(String),
    /// Its settings.
    Config(DatabaseConfig),
}

/// Settings of a vector database. Further keys go to its connector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct DatabaseConfig {
    /// Which database.
    pub provider: DatabaseProvider,
    /// Connection string of the database.
    #[serde(serialize_with = "write_secret")]
    #[schemars(with = "Option<String>", regex(pattern = r"\S"))]
    pub connection_string: Option<SecretString>,
    /// Further settings.
    #[serde(serialize_with = "write_options")]
    #[schemars(skip)]
    pub options: JsonMap,
}

/// Vector databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DatabaseProvider {
    /// PostgreSQL with pgvector.
    Postgres,
    /// Azure AI Search.
    AzureAiSearch,
    /// Qdrant.
    Qdrant,
    /// Weaviate.
    Weaviate,
    /// Chroma.
    Chromadb,
    /// FAISS, replaced by the embedded index: both search exactly, in this process.
    Faiss,
    /// Azure Cosmos DB for MongoDB.
    AzureCosmosMongo,
    /// Azure Cosmos DB for NoSQL.
    AzureCosmosNosql,
    /// SQL Server.
    SqlServer,
    /// Pinecone.
    Pinecone,
    /// The embedded index in `.holodeck/index`.
    InMemory,
}

impl DatabaseProvider {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::AzureAiSearch => "azure-ai-search",
            Self::Qdrant => "qdrant",
            Self::Weaviate => "weaviate",
            Self::Chromadb => "chromadb",
            Self::Faiss => "faiss",
            Self::AzureCosmosMongo => "azure-cosmos-mongo",
            Self::AzureCosmosNosql => "azure-cosmos-nosql",
            Self::SqlServer => "sql-server",
            Self::Pinecone => "pinecone",
            Self::InMemory => "in-memory",
        }
    }

    /// Whether this version can use it.
    pub fn is_supported(self) -> bool {
        matches!(
            self,
            Self::Postgres | Self::Qdrant | Self::Chromadb | Self::Faiss | Self::InMemory
        )
    }
}

impl<'de> Deserialize<'de> for DatabaseRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrConfig;

        impl<'de> Visitor<'de> for NameOrConfig {
            type Value = DatabaseRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a vector store or its settings")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<DatabaseRef, E> {
                Ok(DatabaseRef::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DatabaseRef, A::Error> {
                DatabaseConfig::deserialize(MapAccessDeserializer::new(map)).map(DatabaseRef::Config)
            }
        }

        deserializer.deserialize_str(NameOrConfig)
    }
}

impl Serialize for DatabaseRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Config(config) => config.serialize(serializer),
        }
    }
}

impl JsonSchema for DatabaseRef {
    fn schema_name() -> Cow<'static, str> {
        "DatabaseRef".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let config = generator.subschema_for::<DatabaseConfig>();
        json_schema!({
            "description": "A vector database: settings, or the name of an entry of `vectorstores` in `config.yaml`.",
            "anyOf": [{ "type": "string", "pattern": "\\S" }, config],
        })
    }
}

impl<'de> Deserialize<'de> for DatabaseConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ConfigVisitor;

        impl<'de> Visitor<'de> for ConfigVisitor {
            type Value = DatabaseConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings of a vector database")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DatabaseConfig, A::Error> {
                let mut provider = None;
                let mut connection_string = None;
                let mut options = JsonMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "provider" => provider = Some(map.next_value()?),
                        "connection_string" => {
                            connection_string = map.next_value::<Option<String>>()?.map(SecretString::from);
                        }
                        _ => {
                            options.insert(key, map.next_value()?);
                        }
                    }
                }
                let provider = provider.ok_or_else(|| de::Error::missing_field("provider"))?;
                Ok(DatabaseConfig {
                    provider,
                    connection_string,
                    options,
                })
            }
        }

        deserializer.deserialize_map(ConfigVisitor)
    }
}

/// Where keywords are indexed. Further keys go to its connector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct KeywordIndexConfig {
    /// Which index.
    #[serde(default)]
    pub provider: KeywordIndexProvider,
    /// URL of the index; required for `opensearch`.
    pub endpoint: Option<String>,
    /// Name of the index; required for `opensearch`.
    pub index_name: Option<String>,
    /// User.
    pub username: Option<String>,
    /// Password.
    #[serde(serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub password: Option<SecretString>,
    /// Key.
    #[serde(serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// Whether certificates are checked.
    #[serde(default = "yes")]
    pub verify_certs: bool,
    /// Seconds a request may take.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 120))]
    pub timeout_seconds: u32,
    /// Further settings.
    #[serde(serialize_with = "write_options")]
    #[schemars(skip)]
    pub options: JsonMap,
}

/// Keyword indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeywordIndexProvider {
    /// Beside the vectors.
    #[default]
    InMemory,
    /// OpenSearch.
    Opensearch,
}

impl<'de> Deserialize<'de> for KeywordIndexConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ConfigVisitor;

        impl<'de> Visitor<'de> for ConfigVisitor {
            type Value = KeywordIndexConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings of a keyword index")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeywordIndexConfig, A::Error> {
                let mut config = KeywordIndexConfig {
                    provider: KeywordIndexProvider::default(),
                    endpoint: None,
                    index_name: None,
                    username: None,
                    password: None,
                    api_key: None,
                    verify_certs: yes(),
                    timeout_seconds: ten(),
                    options: JsonMap::new(),
                };
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "provider" => config.provider = map.next_value()?,
                        "endpoint" => config.endpoint = map.next_value()?,
                        "index_name" => config.index_name = map.next_value()?,
                        "username" => config.username = map.next_value()?,
                        "password" => {
                            config.password = map.next_value::<Option<String>>()?.map(SecretString::from);
                        }
                        "api_key" => {
                            config.api_key = map.next_value::<Option<String>>()?.map(SecretString::from);
                        }
                        "verify_certs" => config.verify_certs = map.next_value()?,
                        "timeout_seconds" => config.timeout_seconds = map.next_value()?,
                        _ => {
                            config.options.insert(key, map.next_value()?);
                        }
                    }
                }
                Ok(config)
            }
        }

        deserializer.deserialize_map(ConfigVisitor)
    }
}

fn yes() -> bool {
    true
}

fn ten() -> u32 {
    10
}
