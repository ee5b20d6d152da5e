mod header;
mod place;
mod scan;
mod sync;
mod version_1;

use holodeck_model::{CaseIdentity, CaseState, UnitKey, match_cases};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use header::{JournalHeader, RunFlags, Selected};
use place::{Line, Place};
use sync::Syncer;

use crate::{
    Ended,
    record::{Grade, UnitRecord},
};

/// The format this version writes. It reads version 1 as well.
pub const JOURNAL_VERSION: u64 = 2;

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
    #[error(
        "journal `{path}` has format version {found}; this holodeck reads versions 1 and {JOURNAL_VERSION}"
    )]
    Version {
        /// The file.
        path: String,
        /// The version it says.
        found: u64,
    },
}

/// The record of a run: append-only JSON Lines. Records stay in the file; memory holds only where they are.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    header: JournalHeader,
    version: u64,
    file: Arc<File>,
    end: u64,
    /// Where the lines of each planned unit are, in the order of the plan. The last line of a unit counts.
    places: Vec<Place>,
    /// How many of them have a verdict.
    finished: usize,
    warnings: Vec<String>,
    ended: Option<Ended>,
    /// The run whose answers this one graded.
    answers: Option<Answers>,
    syncer: Option<Syncer>,
}

/// The records that a regrade reads from the run it grades.
#[derive(Debug)]
struct Answers {
    journal: Box<Journal>,
    /// For each unit its place in that journal's plan.
    of: Vec<Option<usize>>,
}

/// The payload of a line `ran`: a unit, and its grade where the checks had to see it before it was masked.
#[derive(Deserialize)]
struct Ran {
    unit: UnitRecord,
    #[serde(default)]
    grade: Option<Grade>,
}

#[derive(Serialize)]
struct RanRef<'a> {
    unit: &'a UnitRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    grade: Option<&'a Grade>,
}

/// The payload of a line `graded`.
#[derive(Serialize, Deserialize)]
struct Graded<G> {
    key: UnitKey,
    grade: G,
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
            places: vec![Place::default(); header.plan.len()],
            finished: 0,
            version: JOURNAL_VERSION,
            warnings: Vec::new(),
            ended: None,
            answers: None,
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

    /// Starts the journal of a regrade of the run in `base`.
    pub(crate) fn create_regrade(
        path: &Path,
        header: JournalHeader,
        base: Self,
    ) -> Result<Self, JournalError> {
        let mut journal = Self::create(path, header)?;
        journal.answers = Some(Answers::new(base, &journal.header.plan));
        Ok(journal)
    }

    /// Opens a journal to read from. Nothing is written to it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        scan::open(path)
    }

    /// Takes up writing where the journal ends. A line that a killed process left half-written is cut off; damaged
    /// lines stay, and what they held has no record.
    pub fn reopen(mut self) -> Result<Self, JournalError> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        self.file = Arc::new(file.map_err(|source| io_error(&self.path, source))?);
        self.file
            .set_len(self.end)
            .map_err(|source| io_error(&self.path, source))?;
        self.ended = None;
        self.syncer = Some(Syncer::start(Arc::clone(&self.file)));
        Ok(self)
    }

    /// What is run.
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format it is written in.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The units of the run, in their order.
    pub fn plan(&self) -> &[CaseIdentity] {
        &self.header.plan
    }

    /// How the run ended; absent if it was killed.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// How many units have a verdict.
    pub fn finished(&self) -> usize {
        self.finished
    }

    /// Whether the unit at this place in the plan has an answer.
    pub fn has_answer(&self, unit: usize) -> bool {
        match &self.answers {
            Some(answers) => answers
                .of(unit)
                .is_some_and(|place| answers.journal.has_answer(place)),
            None => self.places.get(unit).is_some_and(Place::has_run),
        }
    }

    /// Whether the unit at this place in the plan has a verdict.
    pub fn is_finished(&self, unit: usize) -> bool {
        self.places.get(unit).is_some_and(Place::is_graded)
    }

    /// Writes down that a unit ran. When this returns, killing the process does not lose the answer.
    pub(crate) fn record(
        &mut self,
        place: usize,
        unit: &UnitRecord,
        grade: Option<&Grade>,
    ) -> Result<(), JournalError> {
        let line = Line::<_, ()>::Ran(RanRef { unit, grade });
        let written = self.write(&line)?;
        self.update(place, |place| {
            *place = Place {
                ran: Some(written),
                graded: None,
                graded_with_run: grade.is_some(),
            };
        });
        Ok(())
    }

    /// Writes down the verdict on a unit.
    pub(crate) fn grade(&mut self, place: usize, grade: &Grade) -> Result<(), JournalError> {
        let Some(case) = self.header.plan.get(place).map(|case| case.id) else {
            return Ok(());
        };
        let key = UnitKey { case, trial: 0 };
        let line = Line::<(), _>::Graded(Graded { key, grade });
        let written = self.write(&line)?;
        self.update(place, |place| place.graded = Some(written));
        Ok(())
    }

    /// Writes down what a reader of every verdict must know, once.
    pub fn warn(&mut self, warning: String) -> Result<(), JournalError> {
        if self.warnings.contains(&warning) {
            return Ok(());
        }
        self.write(&Line::<(), ()>::Warning(warning.clone()))?;
        self.warnings.push(warning);
        Ok(())
    }

    /// What a reader of every verdict must know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the end down and waits until everything is on the disk.
    pub(crate) fn close(&mut self, ended: &Ended, at: &str) -> Result<(), JournalError> {
        self.write(&Line::<(), ()>::End(place::End {
            ended: ended.clone(),
            at: at.to_owned(),
        }))?;
        self.ended = Some(ended.clone());
        self.syncer = None;
        self.file
            .sync_data()
            .map_err(|source| io_error(&self.path, source))
    }

    /// The records of the units that ran, in the order of the plan, read one at a time.
    pub fn units(&self) -> impl Iterator<Item = Result<UnitRecord, JournalError>> {
        (0..self.places.len()).filter_map(|place| self.unit(place))
    }

    /// The record of a unit that ran.
    pub fn unit(&self, place: usize) -> Option<Result<UnitRecord, JournalError>> {
        let unit = match &self.answers {
            Some(answers) => answers.journal.unit(answers.of(place)?)?,
            None => self.ran(self.places.get(place)?.ran?).map(|ran| ran.unit),
        };
        // In a regrade the case may have another name now.
        let case = *self.header.plan.get(place)?;
        Some(unit.map(|unit| UnitRecord {
            key: UnitKey {
                case: case.id,
                ..unit.key
            },
            case,
            ..unit
        }))
    }

    /// What the checks found when a unit of the run that is graded again was graded first.
    pub(crate) fn first_verdict(&self, place: usize) -> Option<Result<Grade, JournalError>> {
        let answers = self.answers.as_ref()?;
        answers.journal.verdict(answers.of(place)?)
    }

    /// The verdict on a unit.
    pub fn verdict(&self, place: usize) -> Option<Result<Grade, JournalError>> {
        let lines = self.places.get(place)?;
        match lines.graded {
            Some(graded) => Some(self.graded(graded)),
            None if lines.graded_with_run => self.ran(lines.ran?).map(|ran| ran.grade).transpose(),
            None => None,
        }
    }

    /// Places in the plan of the units that did not pass, and of those without a verdict.
    pub(crate) fn not_passed(&self) -> Result<Vec<usize>, JournalError> {
        let mut places = Vec::new();
        for place in 0..self.places.len() {
            let state = self.verdict(place).transpose()?.map(|grade| grade.state);
            if !matches!(state, Some(CaseState::Passed | CaseState::Unchecked)) {
                places.push(place);
            }
        }
        Ok(places)
    }

    fn update(&mut self, place: usize, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.places.get_mut(place) {
            let before = usize::from(place.is_graded());
            change(place);
            self.finished = self.finished - before + usize::from(place.is_graded());
        }
    }

    fn ran(&self, place: place::Written) -> Result<Ran, JournalError> {
        if self.version == 1 {
            return version_1::read(&self.read(place)?).map_err(|error| io_error(&self.path, error.into()));
        }
        match self.parse::<Line<Ran, serde::de::IgnoredAny>>(place)? {
            Line::Ran(ran) => Ok(ran),
            _ => Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
        }
    }

    fn graded(&self, place: place::Written) -> Result<Grade, JournalError> {
        match self.parse::<Line<serde::de::IgnoredAny, Graded<Grade>>>(place)? {
            Line::Graded(graded) => Ok(graded.grade),
            _ => Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, place: place::Written) -> Result<T, JournalError> {
        serde_json::from_slice(&self.read(place)?).map_err(|error| io_error(&self.path, error.into()))
    }

    fn read(&self, place: place::Written) -> Result<Vec<u8>, JournalError> {
        let mut bytes = vec![0; place.length as usize];
        self.file
            .read_exact_at(&mut bytes, place.offset)
            .map_err(|source| io_error(&self.path, source))?;
        Ok(bytes)
    }

    fn write<R: Serialize, G: Serialize>(
        &mut self,
        line: &Line<R, G>,
    ) -> Result<place::Written, JournalError> {
        let line = serde_json::to_vec(line).map_err(|error| io_error(&self.path, error.into()))?;
        self.append(line)
    }

    fn append(&mut self, mut line: Vec<u8>) -> Result<place::Written, JournalError> {
        let io = |source| io_error(&self.path, source);
        line.push(b'\n');
        let length = u32::try_from(line.len()).map_err(|_| io(std::io::ErrorKind::FileTooLarge.into()))?;
        self.file.write_all_at(&line, self.end).map_err(io)?;
        let written = place::Written {
            offset: self.end,
            length,
        };
        self.end += u64::from(length);
        if let Some(syncer) = &self.syncer {
            syncer.note()?;
        }
        Ok(written)
    }
}

impl Answers {
    fn new(journal: Journal, plan: &[CaseIdentity]) -> Self {
        Self {
            of: match_cases(&journal.header.plan, plan),
            journal: Box::new(journal),
        }
    }

    fn of(&self, unit: usize) -> Option<usize> {
        self.of.get(unit).copied().flatten()
    }
}

fn io_error(path: &Path, source: std::io::Error) -> JournalError {
    JournalError::Io {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
