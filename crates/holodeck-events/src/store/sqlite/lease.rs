//! Whether a writer lives. No time of day takes part in it.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::StoreError;

/// The lock that a writer holds while its process lives. The kernel releases it with the process.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: File,
    path: PathBuf,
}

impl WriterLock {
    /// Creates and takes the lock of `writer`. Its row may be written only afterwards.
    pub(super) fn take(database: &Path, writer: &str) -> Result<Self, StoreError> {
        let path = lock_path(database, writer);
        let take = || {
            if let Some(folder) = path.parent() {
                private_folder(folder)?;
            }
            let file = holodeck_model::private_file().open(&path)?;
            file.lock()?;
            Ok::<_, std::io::Error>(file)
        };
        let file = take().map_err(|error| {
            let reason = holodeck_model::io_reason(&error);
            StoreError::failed(format_args!("`{}` cannot be locked: {reason}", path.display()))
        })?;
        Ok(Self { _file: file, path })
    }
}

/// Creates the folder of the locks, or takes the rights of others on it away.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    holodeck_model::create_private_folder(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & 0o077 != 0 {
        // It may belong to another user, who shares it.
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    }
    Ok(())
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A file that stays is removed by the next writer.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process of `writer` is gone; also removes its lock then.
pub(super) fn is_gone(database: &Path, writer: &str) -> bool {
    let path = lock_path(database, writer);
    let Ok(file) = File::open(&path) else {
        return !path.exists();
    };
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(&path);
            true
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// Whether the process of `writer` lives, without removing the lock of one that is gone.
pub(super) fn is_held(database: &Path, writer: &str) -> bool {
    // Shared: another process that looks at the same time sees no writer in this one.
    match File::open(lock_path(database, writer)).map(|file| file.try_lock_shared()) {
        Ok(locked) => locked.is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

fn lock_path(database: &Path, writer: &str) -> PathBuf {
    let mut folder = database.as_os_str().to_owned();
    folder.push("-writers");
    PathBuf::from(folder).join(writer)
}

/// Observes the beats of other writers by this process's own monotonic time.
#[derive(Debug)]
pub(super) struct Observer {
    lease: Duration,
    /// The last beat of a writer, and when it was first seen.
    seen: HashMap<String, (i64, Duration)>,
}

impl Observer {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            lease,
            seen: HashMap::new(),
        }
    }

    /// Whether `writer` has not moved for a lease, which this process has watched from its beginning to its end.
    pub(super) fn has_stopped(&mut self, writer: &str, beat: i64, now: Duration) -> bool {
        match self.seen.get(writer) {
            Some((seen, since)) if *seen == beat => now.saturating_sub(*since) >= self.lease,
            _ => {
                self.seen.insert(writer.to_owned(), (beat, now));
                false
            }
        }
    }

    /// Forgets writers that have no open run.
    pub(super) fn retain(&mut self, writers: &[&str]) {
        self.seen.retain(|writer, _| writers.contains(&writer.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Observer;

    #[test]
    fn only_a_lease_that_was_watched_completely_is_over() {
        let mut observer = Observer::new(Duration::from_secs(10));
        let at = Duration::from_secs;
        assert!(!observer.has_stopped("a", 5, at(1000)));
        assert!(!observer.has_stopped("a", 5, at(1009)));
        assert!(!observer.has_stopped("a", 6, at(1011)));
        assert!(!observer.has_stopped("a", 6, at(1020)));
        assert!(observer.has_stopped("a", 6, at(1021)));
        assert!(!observer.has_stopped("b", 6, at(1021)));
        observer.retain(&["b"]);
        assert!(!observer.has_stopped("a", 6, at(2000)));
        assert!(observer.has_stopped("b", 6, at(2000)));
    }
}
