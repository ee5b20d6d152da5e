//! The summary of a run, kept beside its journal so that a list need not read every journal.
//!
//! A summary is only a copy: the page of a run and every command read the journal. One that is not of exactly this file, that
//! was changed, or that another version made is ignored. It must not be believed more than that: who can write it can write
//! the journal too.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use holodeck_model::{ReportHead, hex};
use holodeck_reports::RunChanges;
use holodeck_runs::RunSeries;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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

    /// The version of a file, which is not a link.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        metadata.is_file().then(|| Self::of(&metadata))
    }
}

/// The summary of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// The version of the journal.
    pub(crate) journal: FileVersion,
    /// The version of the journal whose answers it grades again.
    pub(crate) base: Option<FileVersion>,
    pub(crate) head: ReportHead,
    pub(crate) model: Option<String>,
    pub(crate) is_ended: bool,
    pub(crate) series: Option<RunSeries>,
    /// The differences to the run before.
    pub(crate) since: Option<Since>,
}

/// The differences to an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Since {
    /// The version of its file.
    pub(crate) before: FileVersion,
    /// Absent if it could not be compared.
    pub(crate) changes: Option<RunChanges>,
}

#[derive(Serialize, Deserialize)]
struct Content<S> {
    /// The version of the program: another one may count otherwise.
    holodeck: String,
    summary: S,
}

/// A larger file is not a summary.
const MAX_BYTES: u64 = 4 << 20;

impl Summary {
    /// The kept summary of this journal, if it is current.
    pub(crate) fn read(journal: &Path, version: FileVersion) -> Option<Self> {
        let path = path_of(journal);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return None;
        }
        let text = fs::read_to_string(&path).ok()?;
        let (digest, json) = text.split_once('\n')?;
        if digest != digest_of(journal, json) {
            return None;
        }
        let content: Content<Self> = serde_json::from_str(json).ok()?;
        let summary = content.summary;
        let is_current = content.holodeck == holodeck_version() && summary.journal == version;
        (is_current && summary.base == base_version(journal, &summary.head)).then_some(summary)
    }

    /// Keeps it beside the journal. A run that has not ended changes, so that it has none.
    pub(crate) fn keep(&self, journal: &Path) -> io::Result<()> {
        if !self.is_ended {
            return Ok(());
        }
        let json = serde_json::to_string(&Content {
            holodeck: holodeck_version(),
            summary: self,
        })?;
        let path = path_of(journal);
        // A command that sweeps removes it if this process is killed.
        let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&new)
            .and_then(|mut file| {
                io::Write::write_all(
                    &mut file,
                    format!("{}\n{json}", digest_of(journal, &json)).as_bytes(),
                )
            })
            .and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// The version of the journal whose answers a run grades again.
pub(crate) fn base_version(journal: &Path, head: &ReportHead) -> Option<FileVersion> {
    let base = head.regraded_from.as_ref()?;
    FileVersion::of_path(&journal.with_file_name(format!("{base}.jsonl")))
}

/// `RUN.summary` beside `RUN.jsonl`.
pub(crate) fn path_of(journal: &Path) -> PathBuf {
    journal.with_extension("summary")
}

fn holodeck_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// With the name of the journal, so that a summary is not taken for that of another run.
fn digest_of(journal: &Path, json: &str) -> String {
    let name = journal.file_name().unwrap_or_default();
    let mut hasher = Sha256::new();
    hasher.update(name.as_encoded_bytes());
    hasher.update([0]);
    hasher.update(json);
    hex(&hasher.finalize())
}
