//! Finds and names the files of an agent's runs: journals, run files, baselines and the lock.
//!
//! Reads no content beyond the first line of a journal.

use std::{
    io::BufRead as _,
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};

/// The folders with the runs of an agent: `.holodeck/` and `results/` beside its file.
#[derive(Clone, Debug)]
pub struct RunStore {
    dir: PathBuf,
}

/// Why a run could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder cannot be read.
    #[error("`{path}`: {source}")]
    Io {
        /// The folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The folder contains no run.
    #[error("there is no run in `{path}` yet")]
    NoRuns {
        /// The folder.
        path: String,
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

    /// The journal of a run.
    pub fn journal_path(&self, run_id: &str) -> PathBuf {
        self.runs_dir().join(format!("{run_id}.jsonl"))
    }

    /// The path for a new run file; it does not exist yet.
    pub fn run_file_path(&self, agent_name: &str, at: Timestamp) -> PathBuf {
        let folder = self.dir.join("results").join(slug(agent_name));
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

    /// The journals of all runs, newest first.
    pub fn journals(&self) -> Result<Vec<PathBuf>, StoreError> {
        let runs = self.runs()?;
        if runs.is_empty() {
            return Err(StoreError::NoRuns {
                path: self.runs_dir().display().to_string(),
            });
        }
        Ok(runs.iter().rev().map(|run| self.journal_path(run)).collect())
    }

    /// The journal for `name`: a path, a run id or its beginning, or `latest`.
    pub fn find(&self, name: &str) -> Result<PathBuf, StoreError> {
        if Path::new(name)
            .extension()
            .is_some_and(|extension| extension == "jsonl")
            && Path::new(name).exists()
        {
            return Ok(PathBuf::from(name));
        }
        let runs = self.runs()?;
        let Some(latest) = runs.last() else {
            return Err(StoreError::NoRuns {
                path: self.runs_dir().display().to_string(),
            });
        };
        if name == "latest" {
            return Ok(self.journal_path(latest));
        }
        if name == LATEST_RESUMABLE {
            let resumable = runs
                .iter()
                .rev()
                .map(|run| self.journal_path(run))
                .find(|path| is_resumable(path));
            return resumable.ok_or_else(|| StoreError::NoRuns {
                path: self.runs_dir().display().to_string(),
            });
        }
        let matching: Vec<_> = runs.iter().filter(|run| run.starts_with(name)).collect();
        match matching.as_slice() {
            [run] => Ok(self.journal_path(run)),
            [] => Err(StoreError::Unknown {
                name: name.to_owned(),
                newest: runs.iter().rev().take(3).cloned().collect(),
            }),
            several => Err(StoreError::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
            }),
        }
    }

    /// As [`RunStore::find`] for several runs, each also a folder: then all journals in it and in its folders.
    pub fn find_shards(&self, names: &[String]) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        for name in names {
            let path = Path::new(name);
            if path.is_dir() {
                let before = found.len();
                add_journals(path, &mut found).map_err(|source| StoreError::Io {
                    path: name.clone(),
                    source,
                })?;
                found.get_mut(before..).unwrap_or_default().sort();
                if found.len() == before {
                    return Err(StoreError::NoRuns { path: name.clone() });
                }
            } else if name.contains('/') && !path.exists() {
                return Err(StoreError::Io {
                    path: name.clone(),
                    source: std::io::ErrorKind::NotFound.into(),
                });
            } else {
                found.push(self.find(name)?);
            }
        }
        Ok(found)
    }

    /// As [`RunStore::find`], for a run to resume: `latest` is the newest run that is neither a regrade nor merged.
    pub fn find_resumable(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.find(if name == "latest" { LATEST_RESUMABLE } else { name })
    }

    /// Removes journals of processes that were killed before the journal was renamed. The caller must hold the lock.
    pub(crate) fn sweep(&self) {
        let entries = std::fs::read_dir(self.runs_dir()).into_iter().flatten();
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if path.extension().is_some_and(|extension| extension == "new") {
                // A remaining file does no harm; the next run tries again.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn runs_dir(&self) -> PathBuf {
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

/// No run has this id.
const LATEST_RESUMABLE: &str = "latest resumable";

/// Whether the run of a journal is neither a regrade nor merged of shards.
fn is_resumable(journal: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Sketch {
        #[serde(default)]
        regrades: Option<String>,
        #[serde(default)]
        merged_from: Vec<String>,
    }
    let Ok(file) = std::fs::File::open(journal) else {
        return false;
    };
    let mut line = Vec::new();
    let read = std::io::BufReader::new(file).read_until(b'\n', &mut line);
    // For an unreadable journal, opening it reports the error.
    read.is_err()
        || serde_json::from_slice::<Sketch>(&line).map_or(true, |header| {
            header.regrades.is_none() && header.merged_from.is_empty()
        })
}

/// The id of a new run: its time, so that ids sort, and random characters, so that it is unique.
pub(crate) fn new_run_id(at: Timestamp) -> String {
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
    fn runs_are_found_by_beginning_and_latest() {
        let dir = tempfile::tempdir().unwrap();
        let store = RunStore::new(dir.path());
        assert!(matches!(store.find("latest"), Err(StoreError::NoRuns { .. })));
        std::fs::create_dir_all(dir.path().join(".holodeck/runs")).unwrap();
        for run in ["20260101T000000000-aaaaaa", "20260102T000000000-bbbbbb"] {
            std::fs::write(store.journal_path(run), "").unwrap();
        }
        assert_eq!(
            store.find("latest").unwrap(),
            store.journal_path("20260102T000000000-bbbbbb")
        );
        assert_eq!(
            store.find("20260101").unwrap(),
            store.journal_path("20260101T000000000-aaaaaa")
        );
        assert!(matches!(
            store.find("2026"),
            Err(StoreError::Ambiguous { count: 2, .. })
        ));
        assert!(matches!(store.find("nope"), Err(StoreError::Unknown { .. })));
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
