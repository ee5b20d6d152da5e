//! Opens a file only to read it, beside the processes that write it: no run is ended, no lease is taken, nothing is watched.

use std::path::Path;

use super::{SqliteStore, StoreError, database, lease, sql};

impl SqliteStore {
    /// Opens a file only to read it. Nothing is stored, migrated or ended, and each request that writes fails. `None` if
    /// there is no file, or nothing in it yet.
    pub async fn open_to_read(path: impl AsRef<Path>) -> Result<Option<Self>, StoreError> {
        let path = path.as_ref().to_owned();
        // Of the entry itself: a link to nothing is an error, as that of a file is.
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let looked_at = path.clone();
        let is_store = tokio::task::spawn_blocking(move || database::check_readable(&looked_at));
        let is_store = is_store.await.map_err(StoreError::failed)??;
        Ok(is_store.then(|| Self::reading(path)))
    }

    /// Whether a run is open and no process of this machine continues it. A store that writes ends such a run.
    pub async fn is_orphaned(&self, run_id: &str) -> Result<bool, StoreError> {
        let (run_id, path) = (run_id.to_owned(), self.shared.path.clone());
        self.read(move |tables| {
            let writer = tables.first(sql::WRITER_OF, [run_id], |row| Ok(row.get::<_, String>(0)?))?;
            Ok(writer.is_some_and(|writer| !lease::is_held(&path, &writer)))
        })
        .await
    }
}
