//! The file: its tables, its connections and its errors.

use std::{
    io::Read as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, config::DbConfig};

use super::StoreError;

/// `HDev`: distinguishes a store of events from other programs' databases.
const APPLICATION: i64 = 0x4844_6576;

/// Migrations from each version of the tables to the next. Only ever append.
const MIGRATIONS: &[&str] = &[
    "
    -- A deleted session keeps its row with its owner, so that its id and numbers are never used again.
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        owner TEXT,
        next_index INTEGER NOT NULL,
        next_sequence INTEGER NOT NULL,
        -- Every index that was ever delivered is below it, also after a power loss.
        ceiling INTEGER NOT NULL,
        last_at INTEGER NOT NULL,
        deleted INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions (number),
        writer TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        client_message_id TEXT,
        first_index INTEGER NOT NULL,
        last_index INTEGER,
        ended_at INTEGER,
        pruned INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX open_runs ON runs (session) WHERE last_index IS NULL;
    CREATE UNIQUE INDEX sent ON runs (session, client_message_id) WHERE client_message_id IS NOT NULL;
    CREATE INDEX unpruned ON runs (ended_at) WHERE pruned = 0;
    CREATE TABLE events (
        session INTEGER NOT NULL REFERENCES sessions (number),
        event_index INTEGER NOT NULL,
        sequence_number INTEGER,
        event_id BLOB NOT NULL UNIQUE,
        run INTEGER REFERENCES runs (number),
        tool_use_id TEXT,
        class INTEGER NOT NULL,
        type TEXT NOT NULL,
        payload TEXT NOT NULL,
        PRIMARY KEY (session, event_index)
    );
    CREATE UNIQUE INDEX content ON events (session, sequence_number) WHERE sequence_number IS NOT NULL;
    CREATE UNIQUE INDEX tools ON events (run, tool_use_id, type) WHERE tool_use_id IS NOT NULL;
    -- `beat` grows while the writer lives.
    CREATE TABLE writers (
        writer TEXT PRIMARY KEY,
        process INTEGER NOT NULL,
        beat INTEGER NOT NULL
    ) WITHOUT ROWID;
",
    "
    -- What a list of sessions shows, so that it reads no events but the first.
    ALTER TABLE sessions ADD COLUMN agent TEXT;
    ALTER TABLE sessions ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN created_at INTEGER;
    UPDATE sessions SET
        agent = (SELECT json_extract(payload, '$.agentName') FROM events
            WHERE session = number AND type = 'session_start' ORDER BY event_index LIMIT 1),
        runs = (SELECT count(*) FROM events WHERE session = number AND type = 'user_message_confirmed'),
        messages = (SELECT count(*) FROM events WHERE session = number
            AND type IN ('user_message_confirmed', 'message')
            AND json_extract(payload, '$.parentToolUseId') IS NULL),
        created_at = (SELECT CAST(round(unixepoch(json_extract(payload, '$.timestamp'), 'subsec') * 1000) AS INTEGER)
            FROM events WHERE session = number ORDER BY event_index LIMIT 1)
        WHERE deleted = 0;
    CREATE TABLE approvals (
        approval_id TEXT PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (number),
        requested_index INTEGER NOT NULL,
        -- The event that resolved it; NULL while it is pending.
        resolved_index INTEGER,
        -- The tool, if the answer approves it for the rest of the session.
        approved_tool TEXT
    ) WITHOUT ROWID;
    CREATE INDEX approvals_of ON approvals (session);
    CREATE INDEX pending ON approvals (session) WHERE resolved_index IS NULL;
    INSERT OR IGNORE INTO approvals (approval_id, session, requested_index, resolved_index)
        SELECT json_extract(asked.payload, '$.approvalId'), asked.session, asked.event_index,
            (SELECT min(answer.event_index) FROM events AS answer
             WHERE answer.session = asked.session AND answer.type = 'approval_resolved'
             AND json_extract(answer.payload, '$.approvalId') = json_extract(asked.payload, '$.approvalId'))
        FROM events AS asked WHERE asked.type = 'approval_requested';
    -- Tools that an owner approved for all sessions with an agent. They do not belong to a session.
    CREATE TABLE always_approved (
        owner TEXT,
        agent TEXT NOT NULL,
        tool TEXT NOT NULL
    );
    CREATE INDEX always ON always_approved (agent, tool);
",
    "
    -- No query reads a whole table, however much was ever stored; the references between tables do not, either.
    CREATE INDEX latest ON sessions (last_at DESC, session_id) WHERE deleted = 0;
    CREATE INDEX latest_of ON sessions (owner, last_at DESC, session_id) WHERE deleted = 0;
    CREATE INDEX runs_of ON runs (session);
    CREATE INDEX running ON runs (writer) WHERE last_index IS NULL;
    CREATE INDEX events_of ON events (run);
    CREATE INDEX approved ON approvals (session) WHERE approved_tool IS NOT NULL;
    DROP INDEX always;
    CREATE INDEX always ON always_approved (agent, owner, tool);
    -- 1: the session is deleted, and rows of it remain.
    ALTER TABLE sessions ADD COLUMN leftovers INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX leftovers ON sessions (number) WHERE leftovers = 1;
",
    "
    -- Without runs that are open: they stood at its other end until they ended.
    DROP INDEX unpruned;
    CREATE INDEX unpruned ON runs (ended_at) WHERE pruned = 0 AND last_index IS NOT NULL;
",
];

/// Whether a file may be a store of events, without opening it as one: its header names this application, or nothing yet.
pub(super) fn may_be_store(path: &Path) -> bool {
    const HEADER: usize = 100;
    let mut header = [0; HEADER];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || !header.starts_with(b"SQLite format 3\0") {
        return false;
    }
    let number = |from: usize, length: usize| {
        let bytes = header.get(from..from + length).unwrap_or_default();
        bytes
            .iter()
            .fold(0_i64, |number, byte| number << 8 | i64::from(*byte))
    };
    let application = number(68, 4);
    // The first tables of a store may still be in the file beside it.
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = Path::new(&log).exists();
    let is_one_page =
        std::fs::metadata(path).is_ok_and(|about| i64::try_from(about.len()) == Ok(number(16, 2)));
    application == APPLICATION || application == 0 && (has_log || is_one_page)
}

/// How long to wait for another process that is writing.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before another try.
const PAUSE: Duration = Duration::from_millis(5);

/// More than the statements of this crate.
const STATEMENTS: usize = 64;

pub(super) fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    connect_with(path, OpenFlags::SQLITE_OPEN_CREATE)
}

fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Otherwise a query of a table with partial indices is prepared again each time it is executed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// A connection that cannot write, and creates no file.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = connect_with(path, OpenFlags::empty())?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Checks that a file has the tables of this version. Whether it has any.
pub(super) fn check_readable(path: &Path) -> Result<bool, StoreError> {
    // Others, such as a pipe, could hold up the reader.
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(StoreError::failed(format_args!(
            "`{}` is not a file",
            path.display()
        )));
    }
    let connection = connect_reader(path).map_err(|error| in_file(path, &error))?;
    match version(&connection, path)? {
        0 => Ok(false),
        known if known == MIGRATIONS.len() => Ok(true),
        _ => Err(StoreError::Older {
            path: path.display().to_string(),
        }),
    }
}

/// The connection that writes, with the tables of this version.
pub(super) fn connect_writer(path: &Path, max_pages: Option<u32>) -> Result<Connection, StoreError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            StoreError::failed(format_args!(
                "`{}` cannot be created: {}",
                folder.display(),
                holodeck_model::io_reason(&error)
            ))
        })?;
    }
    // SQLite gives its other files the permissions of this one. Errors are reported when it is opened.
    let _ = holodeck_model::private_file().open(path);
    let mut connection = connect(path).map_err(|error| in_file(path, &error))?;
    migrate(&mut connection, path)?;
    let set = || {
        use_wal(&connection)?;
        connection.pragma_update(None, "journal_size_limit", 1 << 26)?;
        // What is deleted does not stay in free pages.
        connection.pragma_update(None, "secure_delete", true)?;
        if let Some(pages) = max_pages {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        }
        Ok(())
    };
    set().map_err(|error| in_file(path, &error))?;
    Ok(connection)
}

/// Makes the file one with a write-ahead log. SQLite does not wait when two processes do so at the same time, because each
/// has a lock that the other needs.
fn use_wal(connection: &Connection) -> Result<(), rusqlite::Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error) if is_busy(&error) && Instant::now() < end => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| in_file(path, &error);
    if version(connection, path)? == MIGRATIONS.len() {
        return Ok(());
    }
    use_wal(connection).map_err(failed)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    // Check again: another process may have migrated it meanwhile.
    for migration in MIGRATIONS.iter().skip(version(&transaction, path)?) {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    let finish = || {
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", MIGRATIONS.len())
    };
    finish().map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// The version of the file's tables; 0 for an empty file.
fn version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let read = || -> rusqlite::Result<(i64, i64, i64)> {
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((number("application_id")?, number("user_version")?, tables))
    };
    let (application, version, tables) = read().map_err(|error| in_file(path, &error))?;
    if tables > 0 && application != APPLICATION {
        return Err(StoreError::failed(format_args!(
            "`{}` is another program's database, not a HoloDeck store of events",
            path.display()
        )));
    }
    let known = usize::try_from(version).ok();
    known
        .filter(|version| *version <= MIGRATIONS.len())
        .ok_or_else(|| StoreError::Newer {
            path: path.display().to_string(),
        })
}

fn in_file(path: &Path, error: &rusqlite::Error) -> StoreError {
    match StoreError::from(reason(error)) {
        StoreError::Failed { reason } => StoreError::failed(format_args!("`{}`: {reason}", path.display())),
        full => full,
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        reason(&error).into()
    }
}

impl From<Reason> for StoreError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Full => Self::Full,
            Reason::Other(reason) => Self::Failed { reason },
        }
    }
}

enum Reason {
    Full,
    Other(String),
}

fn reason(error: &rusqlite::Error) -> Reason {
    Reason::Other(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => return Reason::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process is writing to the store; try again when it has finished".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            format!("the file is damaged ({error}); restore it from a copy, or move it away")
        }
        Some(ErrorCode::ConstraintViolation) => format!("an event of the append is stored already ({error})"),
        Some(ErrorCode::ReadOnly) => "the file or its folder is not writable".to_owned(),
        Some(ErrorCode::CannotOpen) => {
            "the file cannot be opened; check that its folder exists and is writable".to_owned()
        }
        _ => error.to_string(),
    })
}
