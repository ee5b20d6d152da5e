//! The file of the embedded store: its tables, its connections and its errors.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::{
    RetrievalError,
    sqlite_file::{self, Contents},
};

/// `HDix`: distinguishes an index from other programs' databases.
const APPLICATION: i64 = 0x4844_6978;

/// Migrations from each version of the tables to the next. Only ever append.
const MIGRATIONS: &[&str] = &["
    -- `next_row` only grows: a row number never comes to mean another passage.
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        generation INTEGER NOT NULL,
        next_row INTEGER NOT NULL,
        info TEXT
    );
    INSERT INTO state VALUES (1, 0, 1, NULL);
    -- A source's passages are the rows from `first` on.
    CREATE TABLE sources (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        hash TEXT NOT NULL,
        first INTEGER NOT NULL,
        passages INTEGER NOT NULL
    );
    CREATE TABLE passages (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        source INTEGER NOT NULL,
        metadata TEXT NOT NULL,
        context TEXT,
        text TEXT NOT NULL
    );
    CREATE TABLE vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
    -- The codes of a source's vectors, many in a row of the table: read whole, scanned in memory.
    CREATE TABLE codes (
        first INTEGER PRIMARY KEY,
        passages INTEGER NOT NULL,
        codes BLOB NOT NULL,
        bounds BLOB NOT NULL
    );
    CREATE VIRTUAL TABLE words USING fts5(
        text,
        content = '',
        contentless_delete = 1,
        tokenize = 'porter unicode61 remove_diacritics 2'
    );
"];

/// How long to wait for another process that is writing.
const PATIENCE: Duration = if cfg!(test) {
    Duration::from_millis(20)
} else {
    Duration::from_secs(5)
};

/// An index's file, or its in-memory equivalent.
pub(super) struct Database {
    place: Option<PathBuf>,
    writer: Mutex<Connection>,
    /// Idle connections. Readers of a file never wait for a writer.
    readers: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        let writer = connect_to_own(path).and_then(|mut writer| {
            migrate(&mut writer)?;
            Ok(writer)
        });
        Ok(Self {
            writer: Mutex::new(writer.map_err(|error| error.into_retrieval_error(Some(path)))?),
            place: Some(path.to_owned()),
            readers: Mutex::default(),
        })
    }

    /// An index that is dropped with its last owner.
    pub(super) fn in_memory() -> Result<Self, RetrievalError> {
        let writer = Connection::open_in_memory()
            .map_err(DatabaseError::from)
            .and_then(|mut writer| {
                migrate(&mut writer)?;
                Ok(writer)
            });
        Ok(Self {
            writer: Mutex::new(writer.map_err(|error| error.into_retrieval_error(None))?),
            place: None,
            readers: Mutex::default(),
        })
    }

    /// Name of the store in messages.
    pub(super) fn describe(&self) -> String {
        describe(self.place.as_deref())
    }

    /// Runs `work` on one consistent state of the index, unaffected by concurrent writes.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, DatabaseError>,
    ) -> Result<T, RetrievalError> {
        let Some(path) = &self.place else {
            return self.within(&mut lock(&self.writer), TransactionBehavior::Deferred, work);
        };
        let resting = lock(&self.readers).pop();
        let mut connection = match resting {
            Some(connection) => connection,
            None => connect(path).map_err(|error| self.describe_error(error))?,
        };
        let result = self.within(&mut connection, TransactionBehavior::Deferred, work);
        if result.is_ok() {
            lock(&self.readers).push(connection);
        }
        result
    }

    /// Runs `work` as one transaction and makes its result visible to every reader.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, DatabaseError>,
    ) -> Result<T, RetrievalError> {
        self.within(
            &mut lock(&self.writer),
            TransactionBehavior::Immediate,
            |transaction| {
                let done = work(transaction)?;
                transaction
                    .prepare_cached("UPDATE state SET generation = generation + 1")?
                    .execute([])?;
                Ok(done)
            },
        )
    }

    fn within<T>(
        &self,
        connection: &mut Connection,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, DatabaseError>,
    ) -> Result<T, RetrievalError> {
        let run = || -> Result<T, DatabaseError> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        run().map_err(|error| self.describe_error(error))
    }

    fn describe_error(&self, error: DatabaseError) -> RetrievalError {
        error.into_retrieval_error(self.place.as_deref())
    }
}

/// A panic while the lock was held only left a transaction that was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file that exists may be an index: it is empty, or a database with the mark of one or without tables.
pub(super) fn may_open(path: &Path) -> bool {
    sqlite_file::may_open(path, is_own)
}

fn is_own(contents: &Contents) -> bool {
    contents.mark == APPLICATION || contents.tables.is_empty()
}

/// Connects to a file that is not another program's: to open that for writing would change it.
fn connect_to_own(path: &Path) -> Result<Connection, DatabaseError> {
    if Contents::of(path).is_ok_and(|contents| !is_own(&contents)) {
        return Err(DatabaseError::Foreign);
    }
    connect(path)
}

fn connect(path: &Path) -> Result<Connection, DatabaseError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // SQLite gives its other files the permissions of this one. Errors are reported when it is opened.
    let _ = holodeck_model::private_file().open(path);
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Large pages hold several vectors each. Only a new file accepts this setting.
    connection.pragma_update(None, "page_size", 16_384)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // In WAL mode a killed process loses nothing, a power cut at most the last transactions.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.pragma_update(None, "journal_size_limit", 1 << 26)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), DatabaseError> {
    let version = |connection: &Connection| -> Result<usize, DatabaseError> {
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let (application, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables > 0 && application != APPLICATION {
            return Err(DatabaseError::Foreign);
        }
        usize::try_from(version)
            .ok()
            .filter(|version| *version <= MIGRATIONS.len())
            .ok_or(DatabaseError::Newer)
    };
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Check again: another process may have migrated it meanwhile.
    for migration in MIGRATIONS.iter().skip(version(&transaction)?) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn set_aside_if_damaged(path: &Path) -> Result<Option<PathBuf>, RetrievalError> {
    if !path.exists() || !is_damaged(path) {
        return Ok(None);
    }
    let beside = |more: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(more);
        PathBuf::from(name)
    };
    let aside = beside(".damaged");
    let moved = std::fs::rename(path, &aside).map_err(|error| RetrievalError::Store {
        store: describe(Some(path)),
        reason: format!(
            "the damaged file cannot be moved aside: {}",
            holodeck_model::io_reason(&error)
        ),
    });
    moved?;
    // These belong to the old file; SQLite would apply them to a new one.
    for more in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(more));
    }
    Ok(Some(aside))
}

fn is_damaged(path: &Path) -> bool {
    let check = || -> Result<bool, DatabaseError> {
        let mut connection = connect_to_own(path)?;
        migrate(&mut connection)?;
        let sound: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if sound != "ok" {
            return Ok(true);
        }
        connection.query_row("SELECT generation FROM state", [], |row| row.get::<_, i64>(0))?;
        Ok(false)
    };
    match check() {
        Ok(damaged) => damaged,
        Err(DatabaseError::Damaged(_)) => true,
        Err(DatabaseError::Sqlite(error)) => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
        // Foreign, newer or unreadable: the error is reported when the file is opened.
        Err(_) => false,
    }
}

fn describe(place: Option<&Path>) -> String {
    match place {
        Some(path) => format!("embedded index `{}`", holodeck_model::shown_path(path).display()),
        None => "embedded index in memory".to_owned(),
    }
}

/// Why an operation failed, before the index it concerns is added.
#[derive(Debug)]
pub(super) enum DatabaseError {
    Sqlite(rusqlite::Error),
    /// The tables contradict each other.
    Damaged(&'static str),
    /// A database that is not an index.
    Foreign,
    /// An index with newer tables than this version supports.
    Newer,
    /// The request is wrong, not the file.
    Refused(String),
    /// An error that already names its index.
    Described(RetrievalError),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<RetrievalError> for DatabaseError {
    fn from(error: RetrievalError) -> Self {
        Self::Described(error)
    }
}

impl DatabaseError {
    fn into_retrieval_error(self, place: Option<&Path>) -> RetrievalError {
        let damaged = |how: &str| format!("the file is damaged ({how}); delete it and rebuild the index");
        let reason = match self {
            Self::Described(error) => return error,
            Self::Refused(reason) => reason,
            Self::Damaged(how) => damaged(how),
            Self::Foreign => "the file is another program's database, not a HoloDeck index".to_owned(),
            Self::Newer => {
                "a newer version of HoloDeck made it; use that version, or delete it and rebuild the index"
                    .to_owned()
            }
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(&error.to_string()),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    "another process is writing to it; try again when it has finished".to_owned()
                }
                Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
                Some(ErrorCode::ReadOnly) => "the file or its folder is not writable".to_owned(),
                Some(ErrorCode::CannotOpen) => {
                    "the file can't be opened; check that its folder exists and is writable".to_owned()
                }
                _ => error.to_string(),
            },
        };
        RetrievalError::Store {
            store: describe(place),
            reason,
        }
    }
}
