mod sync;

use holodeck_model::{McpServerRecord, Replayed, TestResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use sync::Syncer;

/// The format this version writes and reads.
pub const JOURNAL_VERSION: u64 = 1;

/// The first line of a journal: what is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The format.
    pub holodeck_journal: u64,
    /// The run.
    pub run_id: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// The agent.
    pub agent_name: String,
    /// Its file as typed.
    pub agent_path: String,
    /// Hash of everything that decides the outcome: a resumed run must find it unchanged.
    pub agent_hash: String,
    /// Our version.
    pub holodeck_version: String,
    /// The command line.
    pub cli_args: Vec<String>,
    /// Places in the file of the cases to run.
    pub selected: Selected,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Settings that a resumed run takes over.
    pub settings: Value,
    /// The MCP servers that were connected to when it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServerRecord>,
}

/// Which cases a run has; a range is kept short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selected {
    /// The first so many.
    First(usize),
    /// Just these.
    Only(Vec<usize>),
}

impl Selected {
    pub(crate) fn from_indices(indices: &[usize]) -> Self {
        if indices.iter().enumerate().all(|(place, &index)| place == index) {
            Self::First(indices.len())
        } else {
            Self::Only(indices.to_vec())
        }
    }

    /// The places, as far as there are so many `cases`: what a damaged file says must not decide how much memory is
    /// taken.
    pub(crate) fn indices(&self, cases: usize) -> Vec<usize> {
        match self {
            Self::First(count) => (0..cases.min(*count)).collect(),
            Self::Only(indices) => indices.iter().copied().filter(|&index| index < cases).collect(),
        }
    }
}

/// Every line after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<T> {
    Case(T),
    /// What a reader of every verdict must know; a run that is gone on with may add to it.
    Warning(String),
    End(End),
}

/// The last line of a run that came to its end, for people who look.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct End {
    ended: String,
    at: String,
}

/// Why a journal can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file can't be read or written.
    #[error("journal `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("journal `{path}`, line {line}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Written by a version this one does not know.
    #[error("journal `{path}` has format version {found}; this holodeck reads version {JOURNAL_VERSION}")]
    Version {
        /// The file.
        path: String,
        /// The version it says.
        found: u64,
    },
}

/// The record of a run: append-only JSON Lines. Cases stay in the file; memory holds only where they are.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    header: JournalHeader,
    file: Arc<File>,
    end: u64,
    /// Place of each finished case's line, by index in the agent's file. The last line of a case counts. A map: an
    /// index out of a damaged file must not decide how much memory is taken.
    places: BTreeMap<usize, (u64, u32)>,
    warnings: Vec<String>,
    syncer: Option<Syncer>,
}

impl Journal {
    /// Starts a journal.
    pub fn create(path: &Path, header: JournalHeader) -> Result<Self, JournalError> {
        let io = |source| io_error(path, source);
        if let Some(parent) = path.parent() {
            holodeck_model::create_private_folder(parent).map_err(io)?;
        }
        // It gets its name with its first line in it: what is killed in between is no run that `latest` could mean.
        let unnamed = path.with_extension("new");
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&unnamed)
            .map_err(io)?;
        let file = Arc::new(file);
        let mut journal = Self {
            path: path.to_owned(),
            places: BTreeMap::new(),
            warnings: Vec::new(),
            end: 0,
            syncer: Some(Syncer::start(Arc::clone(&file))),
            file,
            header,
        };
        let line = serde_json::to_vec(&journal.header).map_err(|error| io(error.into()))?;
        journal.append(line)?;
        std::fs::rename(&unnamed, path).map_err(io)?;
        Ok(journal)
    }

    /// Opens a journal to go on with. A line that a killed process left half-written is cut off.
    pub fn reopen(path: &Path) -> Result<Self, JournalError> {
        let mut journal = Self::scan(path, OpenOptions::new().read(true).write(true))?;
        journal
            .file
            .set_len(journal.end)
            .map_err(|source| io_error(path, source))?;
        journal.syncer = Some(Syncer::start(Arc::clone(&journal.file)));
        Ok(journal)
    }

    /// Opens a journal to read from.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::scan(path, OpenOptions::new().read(true))
    }

    fn scan(path: &Path, options: &OpenOptions) -> Result<Self, JournalError> {
        let io = |source| io_error(path, source);
        let malformed = |line: usize, reason: String| JournalError::Malformed {
            path: path.display().to_string(),
            line,
            reason,
        };
        let file = options.open(path).map_err(io)?;
        let mut reader = BufReader::with_capacity(1 << 16, file.try_clone().map_err(io)?);
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).map_err(io)?;
        let header = read_header(path, &line)?;
        let mut journal = Self {
            path: path.to_owned(),
            header,
            file: Arc::new(file),
            end: line.len() as u64,
            places: BTreeMap::new(),
            warnings: Vec::new(),
            syncer: None,
        };
        for number in 2.. {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(io)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let length = u32::try_from(line.len()).map_err(|_| malformed(number, "too long".to_owned()))?;
            let sketch: Line<Sketch> =
                serde_json::from_slice(&line).map_err(|error| malformed(number, error.to_string()))?;
            match sketch {
                Line::Case(case) => {
                    journal.places.insert(case.index, (journal.end, length));
                }
                Line::Warning(warning) => journal.warnings.push(warning),
                Line::End(_) => {}
            }
            journal.end += u64::from(length);
        }
        Ok(journal)
    }

    /// What is run.
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many cases are finished.
    pub fn finished(&self) -> usize {
        self.places.len()
    }

    /// Whether the case at `index` is finished.
    pub fn is_finished(&self, index: usize) -> bool {
        self.places.contains_key(&index)
    }

    /// Writes a finished case down. When this returns, killing the process loses nothing of it.
    pub fn record(&mut self, result: &TestResult) -> Result<(), JournalError> {
        let line =
            serde_json::to_vec(&Line::Case(result)).map_err(|error| io_error(&self.path, error.into()))?;
        let offset = self.end;
        let length = self.append(line)?;
        self.places.insert(result.index, (offset, length));
        Ok(())
    }

    /// Writes down what a reader of every verdict must know, once.
    pub fn warn(&mut self, warning: String) -> Result<(), JournalError> {
        if self.warnings.contains(&warning) {
            return Ok(());
        }
        let line = Line::<()>::Warning(warning.clone());
        let line = serde_json::to_vec(&line).map_err(|error| io_error(&self.path, error.into()))?;
        self.append(line)?;
        self.warnings.push(warning);
        Ok(())
    }

    /// What a reader of every verdict must know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the end down and waits until everything is on the disk.
    pub fn close(&mut self, ended: &str, at: &str) -> Result<(), JournalError> {
        let end = Line::<()>::End(End {
            ended: ended.to_owned(),
            at: at.to_owned(),
        });
        let line = serde_json::to_vec(&end).map_err(|error| io_error(&self.path, error.into()))?;
        self.append(line)?;
        self.syncer = None;
        self.file
            .sync_data()
            .map_err(|source| io_error(&self.path, source))
    }

    /// Finished cases in the order of the agent's file, read one at a time.
    pub fn results(&self) -> impl Iterator<Item = Result<TestResult, JournalError>> {
        self.places.values().map(|&place| self.read(place))
    }

    /// The finished case at `index`.
    pub fn result(&self, index: usize) -> Option<Result<TestResult, JournalError>> {
        self.places.get(&index).map(|&place| self.read(place))
    }

    fn read(&self, (offset, length): (u64, u32)) -> Result<TestResult, JournalError> {
        let mut bytes = vec![0; length as usize];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|source| io_error(&self.path, source))?;
        match serde_json::from_slice(&bytes) {
            Ok(Line::Case(result)) => Ok(result),
            Ok(Line::End(_) | Line::Warning(_)) => {
                Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into()))
            }
            Err(error) => Err(io_error(&self.path, error.into())),
        }
    }

    fn append(&mut self, mut line: Vec<u8>) -> Result<u32, JournalError> {
        let io = |source| io_error(&self.path, source);
        line.push(b'\n');
        let length = u32::try_from(line.len()).map_err(|_| io(std::io::ErrorKind::FileTooLarge.into()))?;
        self.file.write_all_at(&line, self.end).map_err(io)?;
        self.end += u64::from(length);
        if let Some(syncer) = &self.syncer {
            syncer.note()?;
        }
        Ok(length)
    }
}

/// Enough of a line to know where it belongs.
#[derive(Deserialize)]
struct Sketch {
    index: usize,
}

fn read_header(path: &Path, line: &[u8]) -> Result<JournalHeader, JournalError> {
    #[derive(Deserialize)]
    struct Version {
        holodeck_journal: u64,
    }
    let malformed = |reason: String| JournalError::Malformed {
        path: path.display().to_string(),
        line: 1,
        reason,
    };
    let version: Version =
        serde_json::from_slice(line).map_err(|_| malformed("this is not a journal of a run".to_owned()))?;
    if version.holodeck_journal != JOURNAL_VERSION {
        return Err(JournalError::Version {
            path: path.display().to_string(),
            found: version.holodeck_journal,
        });
    }
    serde_json::from_slice(line).map_err(|error| malformed(error.to_string()))
}

fn io_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
