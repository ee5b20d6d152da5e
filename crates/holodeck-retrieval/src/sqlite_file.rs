//! Whose database a file is, before it is opened for writing. It must not change the file: only opening it for writing can.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// The mark of the program that made a database, and its tables.
pub(crate) struct Contents {
    /// The `application_id`; 0 without one.
    pub(crate) mark: i64,
    pub(crate) tables: Vec<String>,
}

impl Contents {
    /// Reads them from a file. An error if it is no database.
    pub(crate) fn of(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mark = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let mut statement = connection.prepare("SELECT tbl_name FROM sqlite_schema")?;
        let tables = statement.query_map([], |row| row.get(0))?;
        Ok(Self {
            mark,
            tables: tables.collect::<Result<_, _>>()?,
        })
    }
}

/// Whether a file is empty, or a database of which this holds.
pub(crate) fn may_open(path: &Path, is_own: impl Fn(&Contents) -> bool) -> bool {
    let about = std::fs::metadata(path);
    about.is_ok_and(|about| {
        about.is_file() && (about.len() == 0 || Contents::of(path).is_ok_and(|contents| is_own(&contents)))
    })
}
