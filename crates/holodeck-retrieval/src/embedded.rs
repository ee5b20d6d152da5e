//! The store that needs no server: one SQLite file, searched exactly.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use rusqlite::Transaction;

use crate::store::source_by_source;
use crate::{
    Entry, Filter, IndexInfo, IndexStats, KeywordSearch, RetrievalError, Scored, SourceState, VectorStore,
};

mod allowed;
mod codes;
mod database;
mod nearest;
mod read;
mod words;
mod write;

use allowed::Filters;
use codes::CodesInMemory;
use database::{Database, DatabaseError};
use write::Prepared;

/// An index in one file, or in memory.
///
/// Search is exact: 8-bit codes rule out most vectors, the vectors themselves decide. One process writes at a time; any
/// number read meanwhile.
#[derive(Clone)]
pub struct EmbeddedStore(Arc<Inner>);

struct Inner {
    database: Database,
    /// The codes as of the last search; the next search updates them.
    codes: Mutex<Option<Arc<CodesInMemory>>>,
    filters: Filters,
    /// How this owner declared that the index is built.
    prepared: Mutex<Option<IndexInfo>>,
}

impl EmbeddedStore {
    /// Opens the file, or creates it and its folder.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, RetrievalError> {
        let path = path.as_ref().to_owned();
        blocking(move || {
            if let Some(folder) = path.parent() {
                // A problem with the folder is reported when the file is opened.
                let _ = holodeck_model::create_private_folder(folder);
            }
            Database::open(&path).map(Self::new)
        })
        .await
    }

    /// Whether a file that exists may be an index.
    pub fn may_open(path: &Path) -> bool {
        database::may_open(path)
    }

    /// Moves a damaged file aside, so that [`open`](Self::open) creates a new one, and returns its new path. A file
    /// that is not a HoloDeck index stays.
    pub async fn set_aside_if_damaged(path: impl AsRef<Path>) -> Result<Option<PathBuf>, RetrievalError> {
        let path = path.as_ref().to_owned();
        blocking(move || database::set_aside_if_damaged(&path)).await
    }

    /// An index that is dropped with its last clone.
    pub async fn in_memory() -> Result<Self, RetrievalError> {
        blocking(|| Database::in_memory().map(Self::new)).await
    }

    fn new(database: Database) -> Self {
        Self(Arc::new(Inner {
            database,
            codes: Mutex::default(),
            filters: Filters::default(),
            prepared: Mutex::default(),
        }))
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Transaction<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, RetrievalError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.database.read(|transaction| work(&inner, transaction))).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Transaction<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, RetrievalError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.database.write(|transaction| work(&inner, transaction))).await
    }

    fn refuse(&self, reason: String) -> RetrievalError {
        RetrievalError::Store {
            store: self.describe(),
            reason,
        }
    }
}

/// Runs SQLite, which waits for disks and locks, off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RetrievalError> + Send + 'static,
) -> Result<T, RetrievalError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| {
        Err(RetrievalError::Store {
            store: "embedded index".to_owned(),
            reason: error.to_string(),
        })
    })
}

#[async_trait]
impl VectorStore for EmbeddedStore {
    fn describe(&self) -> String {
        self.0.database.describe()
    }

    async fn info(&self) -> Result<Option<IndexInfo>, RetrievalError> {
        self.read(|_, transaction| write::info(transaction)).await
    }

    async fn prepare(&self, info: &IndexInfo) -> Result<(), RetrievalError> {
        let info = info.clone();
        self.write(move |inner, transaction| {
            write::prepare(transaction, &info)?;
            *inner.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
            Ok(())
        })
        .await
    }

    async fn sources(&self) -> Result<Vec<SourceState>, RetrievalError> {
        self.read(|_, transaction| read::sources(transaction)).await
    }

    async fn put(&self, parts: &[(&SourceState, &[Entry])]) -> Result<(), RetrievalError> {
        let sources: Result<Vec<_>, _> = parts
            .iter()
            .map(|(source, entries)| Prepared::new(source, entries))
            .collect();
        let sources = sources.map_err(|reason| self.refuse(reason))?;
        if sources.is_empty() {
            return Ok(());
        }
        self.write(move |inner, transaction| {
            let prepared = inner
                .prepared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            write::replace(transaction, prepared.as_ref(), &sources)
        })
        .await
    }

    async fn remove(&self, sources: &[String]) -> Result<(), RetrievalError> {
        let sources = sources.to_vec();
        self.write(move |_, transaction| {
            sources
                .iter()
                .try_for_each(|name| write::remove(transaction, name))
        })
        .await
    }

    async fn clear(&self) -> Result<(), RetrievalError> {
        self.write(|inner, transaction| {
            write::clear(transaction)?;
            *inner.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
            Ok(())
        })
        .await
    }

    async fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let query = write::query_of_length_one(query)?.into_owned();
        let filter = filter.clone();
        self.read(move |inner, transaction| nearest::nearest(inner, transaction, &query, limit, &filter))
            .await
    }

    fn keywords(&self) -> Option<&dyn KeywordSearch> {
        Some(self)
    }

    fn entries(&self) -> BoxStream<'_, Result<(SourceState, Vec<Entry>), RetrievalError>> {
        source_by_source(self.sources(), |source| {
            self.read(move |_, transaction| read::entries(transaction, &source.source))
        })
    }

    async fn stats(&self) -> Result<IndexStats, RetrievalError> {
        self.read(|_, transaction| read::stats(transaction)).await
    }
}

#[async_trait]
impl KeywordSearch for EmbeddedStore {
    async fn ranked(
        &self,
        query: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let (query, filter) = (query.to_owned(), filter.clone());
        self.read(move |inner, transaction| {
            words::ranked(
                transaction,
                &query,
                limit,
                &inner.filters.allowed(transaction, &filter)?,
            )
        })
        .await
    }

    async fn containing(
        &self,
        phrases: &[String],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Scored>, RetrievalError> {
        let (phrases, filter) = (phrases.to_vec(), filter.clone());
        self.read(move |inner, transaction| {
            words::containing(
                transaction,
                &phrases,
                limit,
                &inner.filters.allowed(transaction, &filter)?,
            )
        })
        .await
    }
}

#[cfg(test)]
mod tests;
