//! The vector store in PostgreSQL with pgvector.
//!
//! Four tables per index: its description (`_info`), its sources, its passages with their words, and the vectors in a
//! separate table, so that an exact scan reads only vectors. A source is replaced in one transaction; writers of the
//! same index wait for each other on an advisory lock.

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::stream::BoxStream;
use holodeck_model::DatabaseConfig;

use self::connection::Connection;
use self::failure::Failure;
use self::target::Target;
use crate::store::source_by_source;
use crate::{
    Entry, Filter, IndexInfo, IndexStats, KeywordSearch, RetrievalError, Scored, SourceState, VectorStore,
};

mod connection;
mod failure;
mod names;
mod params;
mod read;
mod schema;
mod search;
mod target;
mod write;

/// Name of this store in the YAML.
pub(crate) const PROVIDER: &str = "postgres";

/// Stores entries in PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    connection: Connection,
}

impl PostgresStore {
    /// Configured by `config`; the tables are named `collection` unless `config` names one. Connects on first use.
    pub fn new(config: &DatabaseConfig, collection: &str) -> Result<Self, RetrievalError> {
        let target = Target::new(config, collection)?;
        Ok(Self {
            connection: Connection::new(target),
        })
    }
}

#[async_trait]
impl VectorStore for PostgresStore {
    fn describe(&self) -> String {
        self.connection.target().describe()
    }

    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .read_or(None, &|client| {
                async move { read::info(&client, names).await }.boxed()
            })
            .await
    }

    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        let target = self.connection.target();
        let ready = self
            .connection
            .read_or(false, &|client| {
                async move { schema::ready(&client, target, info).await }.boxed()
            })
            .await?;
        if !ready {
            self.connection
                .write(&|client| async move { schema::prepare(&client, target, info).await }.boxed())
                .await?;
            // The type `vector` may be new, and the search path must include it.
            self.connection.forget_readers().await;
        }
        self.connection.set_prepared(info);
        Ok(())
    }

    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .read_or(Vec::new(), &|client| {
                async move { read::sources(&client, names).await }.boxed()
            })
            .await
    }

    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        let names = &self.connection.target().names;
        let prepared = self.connection.prepared_for();
        let prepared = prepared.as_ref();
        self.connection
            .write(&|client| {
                async move {
                    let info = write::expect(&client, names, prepared).await?;
                    for (state, entries) in parts {
                        crate::vector::check_entries(&state.source, entries, info.dimensions)
                            .map_err(Failure::from)?;
                    }
                    write::replace(&client, names, parts).await
                }
                .boxed()
            })
            .await
    }

    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .write_or((), &|client| {
                async move { write::remove(&client, names, sources).await }.boxed()
            })
            .await
    }

    async fn clear(&self) -> Result<(), RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .write(&|client| async move { schema::drop_all(&client, names).await }.boxed())
            .await?;
        self.connection.unprepared();
        Ok(())
    }

    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        crate::vector::check_query(query)?;
        let names = &self.connection.target().names;
        self.connection
            .read_or(Vec::new(), &|client| {
                async move { search::nearest(&client, names, query, limit, filter).await }.boxed()
            })
            .await
    }

    fn keywords(&self) -> Option<&dyn KeywordSearch> {
        Some(self)
    }

    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>> {
        let names = &self.connection.target().names;
        source_by_source(self.sources(), move |state| async move {
            let source = &state.source;
            self.connection
                .read_or(None, &|client| {
                    async move { read::source(&client, names, source).await }.boxed()
                })
                .await
        })
    }

    async fn stats(&self) -> Result<IndexStats, RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .read_or(IndexStats::default(), &|client| {
                async move { read::stats(&client, names).await }.boxed()
            })
            .await
    }
}

#[async_trait]
impl KeywordSearch for PostgresStore {
    async fn ranked(
        &self,
        query: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let target = self.connection.target();
        self.connection
            .read_or(Vec::new(), &|client| {
                async move { search::ranked(&client, target, query, limit, filter).await }.boxed()
            })
            .await
    }

    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let names = &self.connection.target().names;
        self.connection
            .read_or(Vec::new(), &|client| {
                async move { search::containing(&client, names, phrases, limit, filter).await }.boxed()
            })
            .await
    }
}
