//! Recognises the content of a file without reading it.

use std::{
    fs::{self, Metadata},
    path::Path,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

/// The identity of a file's content without reading it. The time of the last change of the inode cannot be set by a
/// program, other than that of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    modified: Option<u128>,
    changed: (i64, i64),
    inode: u64,
    length: u64,
}

impl FileVersion {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let modified = metadata.modified().ok();
        let since = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self {
            modified: since.map(|since| since.as_nanos()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            length: metadata.len(),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The version of a file, which is not a link.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        metadata.is_file().then(|| Self::of(&metadata))
    }
}
