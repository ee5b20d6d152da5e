//! Where the conversations with an agent are kept.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use holodeck_events::{SqliteOptions, SqliteStore, StoreError};

/// The file with the conversations of the agent in this file: beside its runs.
pub fn event_store_path(agent_file: &Path) -> PathBuf {
    let folder = agent_file.parent().map(Path::to_path_buf).unwrap_or_default();
    folder.join(".holodeck/events.db")
}

/// Opens the store, or creates it readable only by its owner, and ends the runs whose processes are gone.
pub async fn open_event_store(path: &Path) -> Result<SqliteStore, StoreError> {
    create_private(path).map_err(|error| StoreError::Failed {
        reason: format!("{}: {error}", path.display()),
    })?;
    SqliteStore::open(path, SqliteOptions::default()).await
}

/// Creates the file. SQLite gives the files beside it the same mode.
fn create_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(file) => file.sync_all(),
        Err(_) if fs::metadata(path).is_ok() => Ok(()),
        Err(error) => Err(error),
    }
}
