//! The lock that lets only one run at a time write to an agent's folder.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::SystemTime,
};

use holodeck_model::io_reason;

/// Allows one writing run per agent folder. The kernel releases the lock when its holder ends, even by a crash.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Why the lock could not be acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another run holds it.
    #[error("another run is writing here: {holder}")]
    Held {
        /// The description that the holder wrote.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("lock `{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl RunLock {
    /// Acquires the lock at `path` and writes `holder` into it.
    pub fn acquire(path: &Path, holder: &str) -> Result<Self, LockError> {
        let io = |source| LockError::Io {
            path: path.display().to_string(),
            source,
        };
        if let Some(parent) = path.parent() {
            holodeck_model::create_private_folder(parent).map_err(io)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).map_err(io)?;
                file.seek(SeekFrom::Start(0)).map_err(io)?;
                file.write_all(holder.as_bytes()).map_err(io)?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The description is only shown, so it may be incomplete.
                let _ = file.read_to_string(&mut holder);
                Err(LockError::Held { holder })
            }
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}

/// When the command that holds this lock got it; `None` if none holds it. A reader never makes the file.
pub(crate) fn held_since(path: &Path) -> Option<SystemTime> {
    let file = File::open(path).ok()?;
    // Its holder writes to it once, when it got it.
    let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    file.metadata().ok()?.modified().ok().filter(|_| is_held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_reports_its_holder_and_a_dropped_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".holodeck/lock");
        let first = RunLock::acquire(&path, "run 1 (process 7)").unwrap();
        let error = RunLock::acquire(&path, "run 2").unwrap_err();
        assert_eq!(
            error.to_string(),
            "another run is writing here: run 1 (process 7)"
        );
        drop(first);
        RunLock::acquire(&path, "run 2").unwrap();
    }
}
