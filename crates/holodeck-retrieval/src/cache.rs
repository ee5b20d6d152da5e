//! Caches vectors and contexts that models computed, so that an interrupted ingest pays for nothing twice.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holodeck_model::{create_private_folder, private_file};
use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::{RetrievalError, sqlite_file::may_open};

/// Vectors and contexts that models have computed, by a hash of everything they depend on.
///
/// One SQLite file beside the index: an answer is saved immediately, while a source enters the index only when it is
/// complete. After a kill, only requests in flight are repeated; after an edit, only the edited chunks are sent. The
/// file can be deleted at any time. Clones share it.
#[derive(Clone)]
pub struct ModelCache(Arc<Inner>);

struct Inner {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// The kind of a cached value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CachedKind {
    Vector,
    Context,
}

impl CachedKind {
    fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Context => "context",
        }
    }
}

/// A hash of everything a cached value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    kept: CachedKind,
    hash: [u8; 32],
}

impl CacheKey {
    pub(crate) fn of(kept: CachedKind, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The length prefix keeps two lists of parts from producing the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let hash = hash.finalize().into();
        Self { kept, hash }
    }
}

/// `HDmc`: distinguishes a cache from other programs' databases.
const APPLICATION: i64 = 0x4844_6d63;
/// Version of the file's layout; a file with another version is replaced by an empty one.
const LAYOUT: i64 = 1;
/// The only table of a cache.
const TABLE: &str = "kept";
/// If the file is larger than this when it is opened, the older half is deleted.
const MOST_BYTES: u64 = 2 * 1024 * 1024 * 1024;

impl ModelCache {
    /// Whether a file that exists may be a cache: it is empty, has the mark of one, or, as earlier builds wrote none, its
    /// table and no other.
    pub fn may_open(path: &Path) -> bool {
        may_open(path, |contents| {
            let is_table = |table: &String| table == TABLE;
            contents.mark == APPLICATION || contents.mark == 0 && contents.tables.iter().all(is_table)
        })
    }

    /// Opens `path`, or creates it with its folders. A file that is not a cache is refused.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RetrievalError> {
        let path = path.into();
        let at = path.clone();
        let opened = tokio::task::spawn_blocking(move || {
            if let Some(folder) = at.parent() {
                create_private_folder(folder).map_err(|error| failed(&at, &error))?;
            }
            if at.exists() && !Self::may_open(&at) {
                let reason = "it exists and is not a cache of HoloDeck; move it, or name another folder in \
                              `execution.cache_dir`";
                return Err(failed(&at, &reason));
            }
            open(&at).map_err(|error| failed(&at, &error))
        });
        let connection = opened.await.map_err(|error| failed(&path, &error))??;
        let connection = Mutex::new(connection);
        Ok(Self(Arc::new(Inner { path, connection })))
    }

    /// Deletes every vector, so that an ingest embeds everything again. Contexts stay.
    pub async fn forget_vectors(&self) -> Result<(), RetrievalError> {
        self.with(|connection| {
            connection.execute("DELETE FROM kept WHERE kind = ?1", [CachedKind::Vector.name()])?;
            connection.execute_batch("VACUUM")
        })
        .await
    }

    pub(crate) async fn get(&self, keys: Vec<CacheKey>) -> Result<Vec<Option<Vec<u8>>>, RetrievalError> {
        self.with(move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT value FROM kept WHERE key = ?1 AND kind = ?2")?;
            let values = keys.iter().map(|key| {
                statement
                    .query_row((key.hash.as_slice(), key.kept.name()), |row| row.get(0))
                    .optional()
            });
            values.collect()
        })
        .await
    }

    pub(crate) async fn put(&self, values: Vec<(CacheKey, Vec<u8>)>) -> Result<(), RetrievalError> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            {
                let mut statement = transaction
                    .prepare_cached("INSERT OR IGNORE INTO kept (key, kind, value) VALUES (?1, ?2, ?3)")?;
                for (key, value) in &values {
                    statement.execute((key.hash.as_slice(), key.kept.name(), value))?;
                }
            }
            transaction.commit()
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RetrievalError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = inner.connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        });
        match done.await {
            Ok(done) => done.map_err(|error| failed(&self.0.path, &error)),
            Err(error) => Err(failed(&self.0.path, &error)),
        }
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // A failure to create the folder is reported when the file is opened.
    let _ = private_file().open(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    // A power cut can lose the last answers; they are requested again.
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if layout != LAYOUT {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; DROP TABLE IF EXISTS {TABLE}; PRAGMA user_version = {LAYOUT}; COMMIT"
        ))?;
    }
    let mark: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if mark != APPLICATION {
        connection.pragma_update(None, "application_id", APPLICATION)?;
    }
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS kept (
             number INTEGER PRIMARY KEY,
             key BLOB NOT NULL UNIQUE,
             kind TEXT NOT NULL,
             value BLOB NOT NULL
         );",
    )?;
    let size: u64 = connection.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| row.get::<_, i64>(0).map(i64::unsigned_abs),
    )?;
    if size > MOST_BYTES {
        connection.execute_batch(
            "DELETE FROM kept WHERE number <= (SELECT (min(number) + max(number)) / 2 FROM kept); VACUUM",
        )?;
    }
    Ok(connection)
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> RetrievalError {
    RetrievalError::Store {
        store: format!("the cache `{}`", path.display()),
        reason: error.to_string(),
    }
}

impl std::fmt::Debug for ModelCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ModelCache").field(&self.0.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn what_was_put_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cache.db");
        let of = |text: &[u8]| CacheKey::of(CachedKind::Vector, &[text]);
        let (one, two) = (of(b"1"), of(b"2"));
        let context = CacheKey::of(CachedKind::Context, &[b"1", b"context"]);
        let cache = ModelCache::open(&path).await.unwrap();
        cache.put(vec![(one, vec![7]), (one, vec![8])]).await.unwrap();
        drop(cache);
        let cache = ModelCache::open(&path).await.unwrap();
        assert_eq!(cache.get(vec![two, one]).await.unwrap(), [None, Some(vec![7])]);
        cache.put(vec![(context, vec![9])]).await.unwrap();
        cache.forget_vectors().await.unwrap();
        assert_eq!(
            cache.get(vec![one, context]).await.unwrap(),
            [None, Some(vec![9])]
        );
    }

    /// A database of another program.
    fn database(path: &Path, batch: &str) {
        Connection::open(path).unwrap().execute_batch(batch).unwrap();
    }

    #[tokio::test]
    async fn what_is_not_a_cache_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("text"), "not a database, despite the file name".repeat(100)).unwrap();
        std::fs::write(at("cut"), "SQLite format 3\0").unwrap();
        database(&at("other"), "CREATE TABLE mine (a); INSERT INTO mine VALUES (7)");
        database(&at("marked"), "PRAGMA application_id = 5; CREATE TABLE kept (a)");
        database(
            &at("similar"),
            "PRAGMA user_version = 1; CREATE TABLE kept (a); CREATE TABLE mine (a)",
        );
        database(&at("wal"), "PRAGMA journal_mode = WAL; CREATE TABLE mine (a)");
        std::os::unix::fs::symlink("other", at("link")).unwrap();
        for name in ["text", "cut", "other", "marked", "similar", "wal", "link"] {
            let before = std::fs::read(at(name)).unwrap();
            let refused = ModelCache::open(at(name)).await.unwrap_err().to_string();
            assert!(
                refused.contains(name) && refused.contains("execution.cache_dir"),
                "{refused}"
            );
            assert_eq!(std::fs::read(at(name)).unwrap(), before, "{name}");
        }
        std::fs::create_dir(at("folder")).unwrap();
        assert!(ModelCache::open(at("folder")).await.is_err());
    }

    #[tokio::test]
    async fn a_cache_without_a_mark_is_one_if_it_has_no_other_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.db");
        let key = CacheKey::of(CachedKind::Vector, &[]);
        let cache = ModelCache::open(&path).await.unwrap();
        cache.put(vec![(key, vec![7])]).await.unwrap();
        drop(cache);
        database(&path, "PRAGMA application_id = 0");
        let cache = ModelCache::open(&path).await.unwrap();
        assert_eq!(cache.get(vec![key]).await.unwrap(), [Some(vec![7])]);
        std::fs::write(folder.path().join("empty.db"), "").unwrap();
        ModelCache::open(folder.path().join("empty.db")).await.unwrap();
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: &[&[u8]]| CacheKey::of(CachedKind::Vector, parts);
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ab", b""]));
    }
}
