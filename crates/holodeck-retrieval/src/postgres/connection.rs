//! Connections to one index for readers and its writer; work on a lost connection is repeated on another one.

use std::fmt::Write as _;

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use holodeck_postgres::Messages;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use super::failure::Failure;
use super::names::quote;
use super::target::{Target, VectorIndex};
use crate::{IndexInfo, RetrievalError};

/// Connections to one index: one for all readers, one for the writer.
pub(super) struct Connection {
    target: Target,
    /// Statements of several tasks are pipelined on it.
    reader: Mutex<Option<Arc<Client>>>,
    writer: Mutex<Option<Arc<Client>>>,
    prepared: StdMutex<Option<IndexInfo>>,
}

/// Work that can be restarted on another connection.
type Work<'w, 'f, T> = &'w (dyn Fn(Arc<Client>) -> BoxFuture<'f, Result<T, Failure>> + Send + Sync);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.target, f)
    }
}

impl Connection {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            reader: Mutex::default(),
            writer: Mutex::default(),
            prepared: StdMutex::default(),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Reads; `otherwise` is the result for an index that does not exist yet. A lost connection is reopened once.
    pub(super) async fn read_or<T: Send>(
        &self,
        otherwise: T,
        work: Work<'_, '_, T>,
    ) -> Result<T, RetrievalError> {
        let mut done = self.read_once(work).await;
        if matches!(&done, Err(failure) if failure.is_lost()) {
            tracing::debug!(store = %self.target.describe(), "the connection was lost; opening another");
            self.forget_readers().await;
            done = self.read_once(work).await;
        }
        match done {
            Err(failure) if failure.is_missing_table() => Ok(otherwise),
            done => done.map_err(|failure| failure.into_retrieval_error(&self.target)),
        }
    }

    async fn read_once<T>(&self, work: Work<'_, '_, T>) -> Result<T, Failure> {
        let client = {
            let mut slot = self.reader.lock().await;
            match &*slot {
                Some(client) if !client.is_closed() => Arc::clone(client),
                _ => {
                    let client = Arc::new(self.open().await?);
                    *slot = Some(Arc::clone(&client));
                    client
                }
            }
        };
        work(client).await
    }

    /// The next reader opens a new connection.
    pub(super) async fn forget_readers(&self) {
        self.reader.lock().await.take();
    }

    /// Writes in one transaction as the only writer of this index. Retried if the connection was lost, since the
    /// transaction is atomic and idempotent.
    pub(super) async fn write<T: Send>(&self, work: Work<'_, '_, T>) -> Result<T, RetrievalError> {
        self.transact(work)
            .await
            .map_err(|failure| failure.into_retrieval_error(&self.target))
    }

    /// As [`write`](Self::write), where an index that does not exist yet needs no work.
    pub(super) async fn write_or<T: Send>(
        &self,
        otherwise: T,
        work: Work<'_, '_, T>,
    ) -> Result<T, RetrievalError> {
        match self.transact(work).await {
            Err(failure) if failure.is_missing_table() => Ok(otherwise),
            done => done.map_err(|failure| failure.into_retrieval_error(&self.target)),
        }
    }

    async fn transact<T>(&self, work: Work<'_, '_, T>) -> Result<T, Failure> {
        let mut slot = self.writer.lock().await;
        let done = self.transact_once(&mut slot, work).await;
        match done {
            Err(failure) if failure.is_lost() => self.transact_once(&mut slot, work).await,
            done => done,
        }
    }

    /// A connection returns to the pool only if its transaction ended well: dropping one ends it on the server, with
    /// whatever an error or a cancelled call left open.
    async fn transact_once<T>(
        &self,
        slot: &mut Option<Arc<Client>>,
        work: Work<'_, '_, T>,
    ) -> Result<T, Failure> {
        let client = match slot.take() {
            Some(client) if !client.is_closed() => client,
            _ => Arc::new(self.open().await?),
        };
        let lock = self.target.names.lock;
        let begin = format!("BEGIN; SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock({lock})");
        client.batch_execute(&begin).await?;
        let done = work(Arc::clone(&client)).await?;
        client.batch_execute("COMMIT").await?;
        *slot = Some(client);
        Ok(done)
    }

    async fn open(&self) -> Result<Client, Failure> {
        let (client, messages) = self.target.database.connect().await?;
        tokio::spawn(drive(messages));
        set_up(&client, &self.target).await?;
        Ok(client)
    }

    pub(super) fn set_prepared(&self, info: &IndexInfo) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.clone());
    }

    pub(super) fn unprepared(&self) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How this process declared the index; other processes may declare it differently.
    pub(super) fn prepared_for(&self) -> Option<IndexInfo> {
        self.prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn drive(mut messages: Messages) {
    while let Some(message) = messages.next().await {
        if let Err(error) = message {
            // Every caller that waits for an answer gets the error.
            tracing::debug!(%error, "a PostgreSQL connection ended");
            return;
        }
    }
}

/// Adds the extension's schema to the search path, and removes settings that would disturb a scan.
async fn set_up(client: &Client, target: &Target) -> Result<(), tokio_postgres::Error> {
    let found = client
        .query_typed_opt(
            "SELECT n.nspname::text, e.extversion::text FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
            &[],
        )
        .await?;
    let mut set = String::from("SET jit = off");
    if let Some(row) = found {
        let schema: String = row.try_get(0)?;
        let _ = write!(set, "; SET search_path = pg_catalog, {}", quote(&schema));
        if let VectorIndex::Hnsw { ef_search, .. } = target.index {
            // Its settings exist once the library is loaded.
            let _ = write!(set, "; SELECT '[1]'::vector; SET hnsw.ef_search = {ef_search}");
            let version: String = row.try_get(1)?;
            if has_iterative_scan(&version) {
                set.push_str("; SET hnsw.iterative_scan = strict_order");
            }
        }
    }
    client.batch_execute(&set).await
}

/// Since pgvector 0.8 an index scan continues until it has enough results.
fn has_iterative_scan(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (0, 8)
}

#[cfg(test)]
mod tests {
    use super::has_iterative_scan;

    #[test]
    fn versions() {
        assert!(has_iterative_scan("0.8.5") && has_iterative_scan("0.10") && has_iterative_scan("1.0.0"));
        assert!(!has_iterative_scan("0.7.4") && !has_iterative_scan("0.5"));
    }
}
