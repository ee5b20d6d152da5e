//! The files of the runs of a folder: journals, run files, baselines and the lock. It must not choose between runs; that
//! is [`AgentRuns`](crate::AgentRuns).

use std::path::{Path, PathBuf};

use holodeck_model::{Combination, io_reason};
use jiff::{Timestamp, tz::TimeZone};

use crate::{RunOwner, lock::held_since};

/// The folders with runs beside an agent file, `.holodeck/` and `results/`. All agents in the folder share them.
#[derive(Clone, Debug)]
pub struct RunStore {
    dir: PathBuf,
}

/// Why a run could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder cannot be read.
    #[error("`{path}`: {}", io_reason(source))]
    Io {
        /// The folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The agent has no run.
    #[error("there is no run of {owner} in `{path}` yet")]
    NoRuns {
        /// The folder.
        path: String,
        /// The agent.
        owner: RunOwner,
    },
    /// A folder contains no journal.
    #[error("there is no run in `{path}`")]
    NoJournals {
        /// The folder.
        path: String,
    },
    /// A path names no file.
    #[error("there is no file `{path}`")]
    NoFile {
        /// The path.
        path: String,
    },
    /// The first line of a journal cannot be read, so that it may be the newest run of any agent.
    #[error("the journal `{path}` does not say whose run it is: {reason}")]
    Unreadable {
        /// The journal.
        path: String,
        /// Why.
        reason: String,
    },
    /// The run belongs to another agent.
    #[error("run `{run_id}` belongs to another agent: {owner}")]
    OtherAgent {
        /// The run.
        run_id: String,
        /// Its agent.
        owner: RunOwner,
    },
    /// The agent file cannot be read, and the runs are of several agents.
    #[error("`{file}` had agents of several names, and which one it has now cannot be read")]
    UnknownAgent {
        /// The agent file.
        file: String,
    },
    /// The newest run is one of several of a matrix.
    #[error("`latest` is one of the {} runs of a matrix", members.len())]
    SeveralMembers {
        /// Their combinations.
        members: Vec<Combination>,
    },
    /// The matrix has no such combination.
    #[error("no run has these values of `--matrix`")]
    NotAMember {
        /// The combinations of the newest run.
        members: Vec<Combination>,
    },
    /// The command that was to run the combination ended before.
    #[error("combination {member} was not run by the newest command that was to run it")]
    MemberNotRun {
        /// The combination.
        member: Combination,
    },
    /// No run matches the name.
    #[error("there is no run `{name}`; the newest are {}", newest.iter().map(|run| format!("`{run}`")).collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The newest runs.
        newest: Vec<String>,
    },
    /// Several runs match the name.
    #[error("`{name}` matches {count} runs; give more characters of the run id")]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The number of matching runs.
        count: usize,
    },
}

impl RunStore {
    /// The runs of the agent in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The lock file of a writing run.
    pub fn lock_path(&self) -> PathBuf {
        self.dir.join(".holodeck/lock")
    }

    /// The store in which a journal lies, if it lies in one.
    pub fn of_journal(journal: &Path) -> Option<Self> {
        let dir = journal.parent()?.parent()?.parent()?;
        let store = Self::new(dir);
        (journal.parent() == Some(store.runs_dir().as_path())).then_some(store)
    }

    /// Of these journals of the store, which have no end, the one that a command writes now: the one that was written last, if a
    /// command holds the lock and wrote to it since then. The others are those of killed runs.
    pub fn written_now<'p>(&self, unended: impl IntoIterator<Item = &'p Path>) -> Option<&'p Path> {
        let since = held_since(&self.lock_path())?;
        let written = unended.into_iter().filter_map(|journal| {
            let at = std::fs::metadata(journal).ok()?.modified().ok()?;
            Some((at, journal))
        });
        let (at, journal) = written.max_by_key(|(at, _)| *at)?;
        (at >= since).then_some(journal)
    }

    /// The journal of a run.
    pub fn journal_path(&self, run_id: &str) -> PathBuf {
        self.runs_dir().join(format!("{run_id}.jsonl"))
    }

    /// The folder of an agent's run files.
    pub fn run_files(&self, agent_name: &str) -> PathBuf {
        self.dir.join("results").join(slug(agent_name))
    }

    /// The path for a new run file; it does not exist yet.
    pub fn run_file_path(&self, agent_name: &str, at: Timestamp) -> PathBuf {
        let folder = self.run_files(agent_name);
        let stamp = at
            .to_zoned(TimeZone::UTC)
            .strftime("%Y-%m-%dT%H-%M-%S%.3fZ")
            .to_string();
        let plain = folder.join(format!("{stamp}.json"));
        if !plain.exists() {
            return plain;
        }
        let more = uuid::Uuid::new_v4().simple().to_string();
        folder.join(format!("{stamp}-{}.json", more.get(..4).unwrap_or("")))
    }

    /// The baseline of this name, which a repository keeps.
    pub fn baseline_path(&self, name: &str) -> PathBuf {
        self.dir.join("baselines").join(format!("{name}.json"))
    }

    /// All runs, oldest first: their ids sort by time.
    pub fn runs(&self) -> Result<Vec<String>, StoreError> {
        let dir = self.runs_dir();
        let io = |source| StoreError::Io {
            path: dir.display().to_string(),
            source,
        };
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let mut runs = Vec::new();
        for entry in entries {
            let name = entry.map_err(io)?.file_name();
            if let Some(run) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
                runs.push(run.to_owned());
            }
        }
        runs.sort();
        Ok(runs)
    }

    /// The journals in a folder and in its folders, sorted.
    pub fn journals_in(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        let path = folder.display().to_string();
        add_journals(folder, &mut found).map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        found.sort();
        if found.is_empty() {
            return Err(StoreError::NoJournals { path });
        }
        Ok(found)
    }

    /// Removes journals of processes that were killed before the journal was renamed. The caller must hold the lock.
    pub fn sweep(&self) {
        let entries = std::fs::read_dir(self.runs_dir()).into_iter().flatten();
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if path.extension().is_some_and(|extension| extension == "new") {
                // A remaining file does no harm; the next run tries again.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// The folder of the journals.
    pub fn runs_dir(&self) -> PathBuf {
        self.dir.join(".holodeck/runs")
    }
}

/// Adds the journals in a folder and in its folders. Links to folders are not followed, so that there is no end in a
/// circle.
fn add_journals(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            add_journals(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl") && !is_report(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a file of JSON Lines is not a journal but a report, which may be in the same folder.
fn is_report(path: &Path) -> bool {
    let mut beginning = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_string(&mut std::io::Read::take(file, 64), &mut beginning));
    // Opening a damaged journal reports the error.
    read.is_ok() && !beginning.is_empty() && !beginning.contains("\"holodeck_journal\"")
}

/// The id of a new run: its time, so that ids sort, and random characters, so that it is unique.
pub fn new_run_id(at: Timestamp) -> String {
    let stamp = at
        .to_zoned(TimeZone::UTC)
        .strftime("%Y%m%dT%H%M%S%.3f")
        .to_string()
        .replace('.', "");
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{stamp}-{}", random.get(..6).unwrap_or("000000"))
}

/// A safe length: file systems limit a file name to 255 bytes.
const MAX_SLUG_LENGTH: usize = 100;

/// Lower-case letters and digits; other characters become a single `-`, and none at the ends.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.to_lowercase().chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    // The text is ASCII, so any length is a character boundary.
    slug.truncate(MAX_SLUG_LENGTH);
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "agent".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_plain() {
        assert_eq!(slug("Customer Support — v2!"), "customer-support-v2");
        assert_eq!(slug("日本"), "agent");
        assert_eq!(slug(&"long name ".repeat(40)).len(), 99);
    }

    #[test]
    fn unnamed_journals_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = RunStore::new(dir.path());
        store.sweep();
        let complete = store.journal_path("20260101T000000000-aaaaaa");
        let unnamed = store
            .journal_path("20260102T000000000-bbbbbb")
            .with_extension("new");
        std::fs::create_dir_all(dir.path().join(".holodeck/runs")).unwrap();
        for path in [&complete, &unnamed] {
            std::fs::write(path, "").unwrap();
        }
        store.sweep();
        assert_eq!((complete.exists(), unnamed.exists()), (true, false));
    }

    #[test]
    fn ids_sort_by_time() {
        let early = new_run_id(Timestamp::from_second(1).unwrap());
        let late = new_run_id(Timestamp::from_second(2_000_000_000).unwrap());
        assert!(early < late, "{early} {late}");
    }
}
