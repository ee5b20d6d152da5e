//! The summary of a run, kept beside its journal (of a run file, in `.holodeck/run-files/` of its agent) so that a list need not read every journal, nor the page of a case all
//! cases: a digest, a line for the run, and a line for each case with the place of its records in the journal.
//!
//! A summary is only a copy. One that is not of exactly this file, that was changed, or that another version made is
//! ignored, and the page of a case reads the case itself from the journal. It must not be believed more than that: who can
//! write it can write the journal too.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use holodeck_model::{CaseId, ReportHead, create_private_folder, hex};
use holodeck_reports::{CaseOutcome, RunChanges, RunTable, StoredRun};
use holodeck_runs::{JournalIndex, RunSeries};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{file_version::FileVersion, folder::RunPath};

/// The summary of a run, without its cases.
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
    /// Set if a case can be read without the others.
    pub(crate) index: Option<JournalIndex>,
    /// The digest of the lines of its cases.
    pub(crate) table: String,
    /// Their length.
    pub(crate) table_bytes: u64,
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

/// A larger line of a run is not a summary.
const MAX_LINE: u64 = 4 << 20;

/// Longer lines of cases are not read at once.
const MAX_TABLE: u64 = 256 << 20;

impl Summary {
    /// The kept summary of this journal, if it is current. Its cases are not read.
    pub(crate) fn read(run: &RunPath) -> Option<Self> {
        let (summary, _) = open(run)?;
        let is_current =
            summary.journal == run.version && summary.base == base_version(&run.path, &summary.head);
        is_current.then_some(summary)
    }

    /// The kept lines of its cases, if they are those of this summary.
    pub(crate) fn read_table(&self, run: &RunPath) -> Option<Vec<u8>> {
        let (kept, file) = open(run)?;
        if (&kept.journal, &kept.table) != (&self.journal, &self.table) {
            return None;
        }
        let mut table = Vec::new();
        let read = file.take(MAX_TABLE).read_to_end(&mut table);
        (read.is_ok() && hex(&Sha256::digest(&table)) == self.table).then_some(table)
    }

    /// The outcome of a case of this run; `None` if the run does not have it.
    pub(crate) fn outcome(&self, run: &RunPath, case: CaseId) -> Option<CaseOutcome> {
        let table = match self.read_table(run) {
            Some(table) => table,
            // A damaged run says so in the list.
            None => StoredRun::open_with_table(&run.path).ok()?.1.to_bytes().ok()?,
        };
        let (place, row) = RunTable::row_of(&table, case)?;
        Some(CaseOutcome::of(&row, place, &self.head))
    }

    /// Names the lines of its cases.
    pub(crate) fn set_table(&mut self, table: &RunTable) -> Option<Vec<u8>> {
        let table = table.to_bytes().ok()?;
        self.table = hex(&Sha256::digest(&table));
        self.table_bytes = table.len() as u64;
        Some(table)
    }

    /// Keeps it beside the journal, with the lines of its cases. A run that has not ended changes, so that it has none.
    pub(crate) fn keep(&self, run: &RunPath, table: &[u8]) -> io::Result<()> {
        if !self.is_ended {
            return Ok(());
        }
        let json = serde_json::to_string(&Content {
            holodeck: holodeck_version(),
            summary: self,
        })?;
        let path = path_of(run).ok_or(io::ErrorKind::NotFound)?;
        if let Some(folder) = path.parent().filter(|_| !run.is_journal) {
            create_private_folder(folder)?;
            if !is_folder(folder) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        // A command that sweeps removes it if this process is killed.
        let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(format!("{}\n{json}\n", digest_of(&run.path, &json)).as_bytes())?;
                file.write_all(table)
            })
            .and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// The kept summary of a run whose digest fits, and its file at the lines of the cases.
fn open(run: &RunPath) -> Option<(Summary, BufReader<File>)> {
    let path = path_of(run)?;
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut file = BufReader::new(File::open(&path).ok()?);
    let mut line = || {
        let mut line = String::new();
        (&mut file).take(MAX_LINE).read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| {
            line.pop();
            line
        })
    };
    let (digest, json) = (line()?, line()?);
    if digest != digest_of(&run.path, &json) {
        return None;
    }
    let content: Content<Summary> = serde_json::from_str(&json).ok()?;
    let lines = (digest.len() + json.len() + 2) as u64;
    // One that was cut is made again.
    if file.get_ref().metadata().ok()?.len() != lines + content.summary.table_bytes {
        return None;
    }
    (content.holodeck == holodeck_version()).then_some((content.summary, file))
}

/// The version of the journal whose answers a run grades again.
pub(crate) fn base_version(journal: &Path, head: &ReportHead) -> Option<FileVersion> {
    let base = head.regraded_from.as_ref()?;
    FileVersion::of_path(&journal.with_file_name(format!("{base}.jsonl")))
}

/// `RUN.summary` beside `RUN.jsonl`. Nothing is put beside run files and baselines, which people keep: theirs is in
/// `.holodeck/run-files/`, if their agent has a `.holodeck/`.
pub(crate) fn path_of(run: &RunPath) -> Option<PathBuf> {
    if run.is_journal {
        return Some(run.path.with_extension("summary"));
    }
    let agent = run.agent_folder()?;
    let stored = agent.join(".holodeck");
    let parts = run.path.strip_prefix(agent).ok()?.iter();
    let parts: Vec<&str> = parts.map(std::ffi::OsStr::to_str).collect::<Option<_>>()?;
    is_folder(&stored).then(|| {
        stored
            .join("run-files")
            .join(format!("{}.summary", parts.join("--")))
    })
}

/// Whether it is a folder and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
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
