//! The file of the embedded store: its tables, its connections, and what is said when it can't be used.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::RetrievalError;

/// `HDix`: so that another program's database is not taken for an index.
const APPLICATION: i64 = 0x4844_6978;

/// What makes each version of the tables out of the one before. Only ever appended to.
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

/// How long to wait for another process that writes.
const PATIENCE: Duration = if cfg!(test) {
    Duration::from_millis(20)
} else {
    Duration::from_secs(5)
};

/// An index's file, or the memory in its place.
pub(super) struct Database {
    place: Option<PathBuf>,
    writer: Mutex<Connection>,
    /// Connections at rest. Readers of a file never wait for a writer.
    readers: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        let writer = connect(path).and_then(|mut writer| {
            migrate(&mut writer)?;
            Ok(writer)
        });
        Ok(Self {
            writer: Mutex::new(writer.map_err(|trouble| trouble.told(Some(path)))?),
            place: Some(path.to_owned()),
            readers: Mutex::default(),
        })
    }

    /// An index that ends with its last owner.
    pub(super) fn in_memory() -> Result<Self, RetrievalError> {
        let writer = Connection::open_in_memory()
            .map_err(Trouble::from)
            .and_then(|mut writer| {
                migrate(&mut writer)?;
                Ok(writer)
            });
        Ok(Self {
            writer: Mutex::new(writer.map_err(|trouble| trouble.told(None))?),
            place: None,
            readers: Mutex::default(),
        })
    }

    /// As in messages.
    pub(super) fn describe(&self) -> String {
        describe(self.place.as_deref())
    }

    /// One state of the index, whatever is written meanwhile.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RetrievalError> {
        let Some(path) = &self.place else {
            return self.within(&mut lock(&self.writer), TransactionBehavior::Deferred, work);
        };
        let resting = lock(&self.readers).pop();
        let mut connection = match resting {
            Some(connection) => connection,
            None => connect(path).map_err(|trouble| self.told(trouble))?,
        };
        let result = self.within(&mut connection, TransactionBehavior::Deferred, work);
        if result.is_ok() {
            lock(&self.readers).push(connection);
        }
        result
    }

    /// All of `work` or nothing, and every reader learns of it.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
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
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RetrievalError> {
        let run = || -> Result<T, Trouble> {
            let transaction = connection.transaction_with_behavior(behavior)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        run().map_err(|trouble| self.told(trouble))
    }

    fn told(&self, trouble: Trouble) -> RetrievalError {
        trouble.told(self.place.as_deref())
    }
}

/// A panic while it was held left a transaction that was rolled back, nothing worse.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // SQLite makes its other files as this one is. Why one cannot be made shows when it is opened.
    let _ = holodeck_model::private_file().open(path);
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Wide pages hold several vectors each. Only a new file takes this.
    connection.pragma_update(None, "page_size", 16_384)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // In WAL mode a killed process loses nothing, a power cut at most the last transactions.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.pragma_update(None, "journal_size_limit", 1 << 26)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), Trouble> {
    let version = |connection: &Connection| -> Result<usize, Trouble> {
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let (application, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables > 0 && application != APPLICATION {
            return Err(Trouble::Foreign);
        }
        usize::try_from(version)
            .ok()
            .filter(|version| *version <= MIGRATIONS.len())
            .ok_or(Trouble::Newer)
    };
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Once more: another process may have been at it.
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
        reason: format!("the damaged file cannot be moved aside: {error}"),
    });
    moved?;
    // Of the old file; a new one would be read together with them.
    for more in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(more));
    }
    Ok(Some(aside))
}

fn is_damaged(path: &Path) -> bool {
    let check = || -> Result<bool, Trouble> {
        let mut connection = connect(path)?;
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
        Err(Trouble::Damaged(_)) => true,
        Err(Trouble::Sqlite(error)) => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
        // Foreign, newer, or not to be opened: what is in the way is said when it is opened.
        Err(_) => false,
    }
}

fn describe(place: Option<&Path>) -> String {
    match place {
        Some(path) => format!("embedded index `{}`", path.display()),
        None => "embedded index in memory".to_owned(),
    }
}

/// Why something did not work, before it is known of which index it is told.
#[derive(Debug)]
pub(super) enum Trouble {
    Sqlite(rusqlite::Error),
    /// What is in the tables contradicts itself.
    Damaged(&'static str),
    /// A database that is no index.
    Foreign,
    /// An index with tables that are not known yet.
    Newer,
    /// What was asked for is wrong, not the file.
    Refused(String),
    /// Already told.
    Told(RetrievalError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<RetrievalError> for Trouble {
    fn from(error: RetrievalError) -> Self {
        Self::Told(error)
    }
}

impl Trouble {
    fn told(self, place: Option<&Path>) -> RetrievalError {
        let damaged = |how: &str| format!("the file is damaged ({how}); delete it and build the index again");
        let reason = match self {
            Self::Told(error) => return error,
            Self::Refused(reason) => reason,
            Self::Damaged(how) => damaged(how),
            Self::Foreign => "the file is no index of HoloDeck but another database".to_owned(),
            Self::Newer => {
                "a newer version of HoloDeck made it; use that one, or delete it and build the index again"
                    .to_owned()
            }
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(&error.to_string()),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    "another process is writing to it; try again when that one has ended".to_owned()
                }
                Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
                Some(ErrorCode::ReadOnly) => {
                    "the file, or the folder it is in, can't be written to".to_owned()
                }
                Some(ErrorCode::CannotOpen) => {
                    "the file can't be opened; does its folder exist and may you write to it?".to_owned()
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
