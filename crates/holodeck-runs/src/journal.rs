//! The append-only journal of a run in JSON Lines: the only source from which runs are resumed, regraded and reported.
//!
//! Each line ends with a digest of itself and of the line before. An incomplete last line is that of a killed process and
//! is cut off; from another line that does not fit on, nothing gives a verdict. Memory holds the positions of lines, never
//! the records.

mod append;
mod base;
mod chain;
mod copy;
mod error;
mod header;
mod index;
mod lines;
mod place;
mod scan;
mod sync;
mod units;
mod written;

use holodeck_eval::JudgedLine;
use holodeck_model::{Adaptation, CaseIdentity, CaseState, UnitKey};
use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    ops::Range,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub use append::RecordLine;
use base::BaseRun;
use chain::Chain;
pub(crate) use chain::fits_as_first;
use error::io_error;
pub use error::{JOURNAL_VERSION, JournalError};
pub use header::{JournalHeader, Sample, StoredCombination, StoredSelection, StoredShard, changed_parts};
pub use index::{JournalIndex, UnitLines};
use lines::{GradeLine, UnitLine};
use place::{Line, LinePosition, Place};
use sync::Syncer;
use units::Units;

use crate::{
    RunEnd, RunEndKind,
    record::{Grade, UnitRecord},
    trials::{CaseTrials, TrialCounts},
};

/// The first line that does not fit to the lines before it. From there on, nothing gives a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Break {
    /// The line, from 1.
    pub line: usize,
    /// How many lines there are from it on.
    pub lines: usize,
    /// How many cases only have an answer in one of these lines.
    pub cases: usize,
}

/// The journal of a run: append-only JSON Lines. Records stay in the file; memory holds only their positions.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    header: JournalHeader,
    version: u64,
    file: Arc<File>,
    /// The length of what was written, or read and fits.
    end: u64,
    /// How many lines that are.
    lines: usize,
    /// Their digest.
    chain: Chain,
    broken: Option<Break>,
    /// Whether another program wrote to the file while this process writes it.
    foreign: AtomicBool,
    units: Units,
    /// The positions of the lines of each planned unit, in their order. The last line of a unit counts.
    places: Vec<Place>,
    /// How many of them have a verdict.
    finished: usize,
    /// How many cases have a verdict on every trial.
    finished_cases: usize,
    warnings: Vec<String>,
    adapted: Vec<Adaptation>,
    ended: Option<RunEnd>,
    /// The run whose answers this one graded.
    base: Option<BaseRun>,
    /// The earlier grading of those answers whose verdicts this one may keep, if that is another run.
    verdicts: Option<BaseRun>,
    /// The answers of judges for the units of a resumed run that have no verdict.
    judgements: HashMap<usize, Vec<LinePosition>>,
    /// The calls of judges behind the verdicts.
    decisive: HashMap<usize, Vec<LinePosition>>,
    /// The answers of judges that serve every unit of a resumed run.
    shared_judgements: Vec<LinePosition>,
    syncer: Option<Syncer>,
    /// Whether only the positions of some lines are known.
    is_indexed: bool,
}

impl Journal {
    /// A journal without any line.
    fn empty(path: &Path, version: u64, header: JournalHeader, file: Arc<File>) -> Self {
        let units = Units::new(header.plan.len(), &header.trials);
        Self {
            path: path.to_owned(),
            places: vec![Place::default(); units.count()],
            units,
            finished: 0,
            finished_cases: 0,
            version,
            warnings: Vec::new(),
            adapted: Vec::new(),
            ended: None,
            base: None,
            verdicts: None,
            judgements: HashMap::new(),
            decisive: HashMap::new(),
            shared_judgements: Vec::new(),
            end: 0,
            lines: 0,
            chain: Chain::default(),
            broken: None,
            foreign: AtomicBool::new(false),
            syncer: None,
            is_indexed: false,
            file,
            header,
        }
    }

    /// Starts a journal.
    pub fn create(path: &Path, header: JournalHeader) -> Result<Self, JournalError> {
        let io = |source| io_error(path, source);
        if let Some(parent) = path.parent() {
            holodeck_model::create_private_folder(parent).map_err(io)?;
        }
        // The file is renamed after its first line is written, so that `latest` never selects a run killed before.
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
            syncer: Some(Syncer::start(Arc::clone(&file))),
            ..Self::empty(path, JOURNAL_VERSION, header, file)
        };
        let line = serde_json::to_vec(&journal.header).map_err(|error| io(error.into()))?;
        journal.append(&line)?;
        std::fs::rename(&unnamed, path).map_err(io)?;
        Ok(journal)
    }

    /// Starts the journal of a regrade of the run in `base`. `verdicts` is the regrade whose verdicts may be kept, if not
    /// that run itself.
    pub fn create_regrade(
        path: &Path,
        header: JournalHeader,
        base: Self,
        verdicts: Option<Self>,
    ) -> Result<Self, JournalError> {
        let mut journal = Self::create(path, header)?;
        journal.base = Some(BaseRun::new(base, &journal.header.plan));
        journal.verdicts = verdicts.map(|run| BaseRun::new(run, &journal.header.plan));
        Ok(journal)
    }

    /// The verdict on a unit in the run that this one grades again.
    pub fn earlier_verdict(&self, place: usize) -> Option<Result<Grade, JournalError>> {
        let earlier = self.verdicts.as_ref().or(self.base.as_ref())?;
        earlier.journal.verdict(earlier.unit_of(&self.units, place)?)
    }

    /// Opens a journal for reading.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        scan::open(path)
    }

    /// Reopens the journal for appending. What does not fit at its end is removed, and a last line that a killed process
    /// left incomplete.
    pub fn reopen(mut self) -> Result<Self, JournalError> {
        if self.is_indexed {
            return Self::open(&self.path)?.reopen();
        }
        if self.version != JOURNAL_VERSION {
            return Err(self.without_chain());
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        self.file = Arc::new(file.map_err(|source| io_error(&self.path, source))?);
        self.file
            .set_len(self.end)
            .map_err(|source| io_error(&self.path, source))?;
        self.ended = None;
        self.broken = None;
        self.syncer = Some(Syncer::start(Arc::clone(&self.file)));
        Ok(self)
    }

    /// Where the journal is broken, if it is.
    pub fn broken(&self) -> Option<Break> {
        self.broken
    }

    /// Whether its lines have no digests.
    pub fn is_without_chain(&self) -> bool {
        self.version != JOURNAL_VERSION
    }

    /// Refuses a journal, or the one that it regrades, of which not every line fits.
    pub fn check_whole(&self) -> Result<(), JournalError> {
        if let Some(broken) = self.broken {
            return Err(JournalError::Broken {
                path: self.path.display().to_string(),
                line: broken.line,
            });
        }
        self.base
            .as_ref()
            .map_or(Ok(()), |base| base.journal.check_whole())
    }

    /// Refuses a journal that gives no verdict: its lines must have digests, and fit.
    pub fn check_trusted(&self) -> Result<(), JournalError> {
        if self.is_without_chain() {
            return Err(self.without_chain());
        }
        if let Some(base) = &self.base {
            base.journal.check_trusted()?;
        }
        self.check_whole()
    }

    fn without_chain(&self) -> JournalError {
        JournalError::WithoutChain {
            run_id: self.header.run_id.clone(),
            path: self.path.display().to_string(),
        }
    }

    /// The first line of the journal.
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cases of the run, in their order.
    pub fn plan(&self) -> &[CaseIdentity] {
        &self.header.plan
    }

    /// The end of the run; absent if it was killed.
    pub fn ended(&self) -> Option<&RunEnd> {
        self.ended.as_ref()
    }

    /// Whether the run was completed.
    pub fn is_completed(&self) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|end| end.how == RunEndKind::Completed)
    }

    /// The number of units: of the trials of all cases.
    pub fn unit_count(&self) -> usize {
        self.units.count()
    }

    /// The units of the case at this place in the plan, one for each trial.
    pub fn units_of(&self, case: usize) -> Range<usize> {
        self.units.of(case)
    }

    /// The place in the plan of the case of a unit.
    pub fn case_of(&self, unit: usize) -> usize {
        self.units.case_of(unit).0
    }

    /// How often the case at this place in the plan runs.
    pub fn trials_of(&self, case: usize) -> CaseTrials {
        self.header.trials.get(case).copied().unwrap_or(CaseTrials::ONCE)
    }

    /// The identity of the case of a unit, and which trial of the case the unit is.
    pub fn identity_of(&self, unit: usize) -> Option<(CaseIdentity, u32)> {
        let (case, trial) = self.units.case_of(unit);
        Some((*self.header.plan.get(case)?, u32::try_from(trial).ok()?))
    }

    /// How many units have a verdict.
    pub fn finished(&self) -> usize {
        self.finished
    }

    /// How many cases have a verdict on every trial.
    pub fn finished_cases(&self) -> usize {
        self.finished_cases
    }

    /// Whether every trial of the case at this place in the plan has a verdict.
    pub fn is_case_finished(&self, case: usize) -> bool {
        self.units_of(case).all(|unit| self.is_finished(unit))
    }

    /// Whether a unit has an answer.
    pub fn has_answer(&self, unit: usize) -> bool {
        match &self.base {
            Some(base) => base
                .unit_of(&self.units, unit)
                .is_some_and(|place| base.journal.has_answer(place)),
            None => self.places.get(unit).is_some_and(Place::has_run),
        }
    }

    /// Whether a unit has a verdict.
    pub fn is_finished(&self, unit: usize) -> bool {
        self.places.get(unit).is_some_and(Place::is_graded)
    }

    /// Writes calls of judges. After this returns, their answers are not asked for again.
    pub fn judged(&mut self, lines: Vec<JudgedLine>) -> Result<(), JournalError> {
        let objects = lines.into_iter().map(|line| {
            let line = Line::<(), ()>::Judged(Box::new(line));
            self.to_object(&line)
        });
        let objects: Vec<Vec<u8>> = objects.collect::<Result<_, _>>()?;
        // One write: there are several for each unit.
        self.append_all(&objects, |_| {})
    }

    /// The calls of judges for a unit that a killed run did not grade. Returns them once.
    pub fn judgements(&mut self, unit: usize) -> Result<Vec<JudgedLine>, JournalError> {
        let positions = self.judgements.remove(&unit).unwrap_or_default();
        self.read_judgements(&positions)
    }

    /// The calls of judges for the verdict on a unit, in their order, without those whose answer serves every unit and that
    /// another unit made.
    pub fn judged_by(&self, unit: usize) -> Result<Vec<JudgedLine>, JournalError> {
        let positions = self.decisive.get(&unit).map_or(&[][..], Vec::as_slice);
        let calls = self.read_judgements(positions)?;
        for call in &calls {
            match call.key.or(call.asked_by) {
                Some(key) => self.check_key(unit, key)?,
                None => return Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
            }
        }
        Ok(calls)
    }

    /// The answers of judges that serve every unit.
    pub fn shared_judgements(&self) -> Result<Vec<JudgedLine>, JournalError> {
        self.read_judgements(&self.shared_judgements)
    }

    fn read_judgements(&self, positions: &[LinePosition]) -> Result<Vec<JudgedLine>, JournalError> {
        let lines = positions.iter().map(|&position| {
            match self.parse::<Line<serde::de::IgnoredAny, serde::de::IgnoredAny>>(position)? {
                Line::Judged(line) => Ok(*line),
                _ => Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
            }
        });
        lines.collect()
    }

    /// Writes a warning that concerns every verdict, once.
    pub fn warn(&mut self, warning: String) -> Result<(), JournalError> {
        if self.warnings.contains(&warning) {
            return Ok(());
        }
        self.write(&Line::<(), ()>::Warning(warning.clone()))?;
        self.warnings.push(warning);
        Ok(())
    }

    /// Writes a part of requests that was adapted, once.
    pub fn adapted(&mut self, adaptation: &Adaptation) -> Result<(), JournalError> {
        if !self.adapted.contains(adaptation) {
            self.write(&Line::<(), ()>::Adapted(adaptation.clone()))?;
            self.adapted.push(adaptation.clone());
        }
        Ok(())
    }

    /// The parts of requests to models that were adapted.
    pub fn adaptations(&self) -> &[Adaptation] {
        &self.adapted
    }

    /// Warnings that concern every verdict.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the end of the run and waits until everything is on disk.
    pub fn close(&mut self, ended: &RunEnd, at: &str) -> Result<(), JournalError> {
        self.write(&Line::<(), ()>::End(place::End {
            ended: ended.clone(),
            at: at.to_owned(),
            lines: self.lines,
            digest: self.chain.hex(),
        }))?;
        self.ended = Some(ended.clone());
        self.syncer = None;
        self.file
            .sync_data()
            .map_err(|source| io_error(&self.path, source))
    }

    /// The records of the executed units, in the order of the plan, read one at a time.
    pub fn units(&self) -> impl Iterator<Item = Result<UnitRecord, JournalError>> {
        (0..self.places.len()).filter_map(|place| self.unit(place))
    }

    /// The record of an executed unit.
    pub fn unit(&self, place: usize) -> Option<Result<UnitRecord, JournalError>> {
        let unit = if let Some(base) = &self.base {
            base.journal.unit(base.unit_of(&self.units, place)?)?
        } else {
            let line = self.present(self.read_unit(self.places.get(place)?.ran?))?;
            line.map(|line| line.unit)
                .and_then(|unit| self.check_key(place, unit.key).map(|()| unit))
        };
        // In a regrade, the identity of the case may have changed.
        let (case, trial) = self.identity_of(place)?;
        Some(unit.map(|unit| UnitRecord {
            key: UnitKey { case: case.id, trial },
            case,
            ..unit
        }))
    }

    /// The checks of a unit before it was masked, else the first verdict on it, in this run or in the run that it regrades.
    pub fn checks(&self, place: usize) -> Option<Result<Grade, JournalError>> {
        if let Some(base) = &self.base {
            return base.journal.checks(base.unit_of(&self.units, place)?);
        }
        let ran = self.places.get(place)?.ran?;
        let with_run = self.present(self.read_unit(ran))?;
        let with_run = with_run.map(|line| line.checks).transpose();
        with_run.or_else(|| self.verdict(place))
    }

    /// The verdict on a unit.
    pub fn verdict(&self, place: usize) -> Option<Result<Grade, JournalError>> {
        let graded = self.places.get(place)?.graded?;
        let line = self.present(self.read_grade(graded))?;
        Some(line.and_then(|line| self.check_key(place, line.key).map(|()| line.grade)))
    }

    /// Refuses the line of another unit, to which a position that was kept outside may lead.
    fn check_key(&self, unit: usize, key: UnitKey) -> Result<(), JournalError> {
        let own = self.identity_of(unit);
        let is_own = own.is_some_and(|(case, trial)| UnitKey { case: case.id, trial } == key);
        is_own.then_some(()).ok_or_else(|| JournalError::Changed {
            path: self.path.display().to_string(),
        })
    }

    /// Places in the plan of the cases that did not pass or have no verdict.
    pub fn not_passed(&self) -> Result<Vec<usize>, JournalError> {
        let mut places = Vec::new();
        for place in 0..self.header.plan.len() {
            let state = self.case_state(place)?;
            if !matches!(state, Some(CaseState::Passed | CaseState::Unchecked)) {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// The verdict over all trials of a case; `None` if one has no verdict.
    pub fn case_state(&self, case: usize) -> Result<Option<CaseState>, JournalError> {
        let mut counts = TrialCounts::default();
        let mut min_passes = self.trials_of(case).min_passes;
        for unit in self.units_of(case) {
            match self.verdict(unit).transpose()? {
                Some(grade) => {
                    counts.add(grade.state);
                    min_passes = grade.min_passes.unwrap_or(min_passes);
                }
                None => return Ok(None),
            }
        }
        Ok(Some(counts.verdict(min_passes)))
    }

    fn update(&mut self, unit: usize, change: impl FnOnce(&mut Place)) {
        let case = self.case_of(unit);
        let case_before = usize::from(self.is_case_finished(case));
        if let Some(place) = self.places.get_mut(unit) {
            let before = usize::from(place.is_graded());
            change(place);
            self.finished = self.finished - before + usize::from(place.is_graded());
            self.finished_cases =
                self.finished_cases - case_before + usize::from(self.is_case_finished(case));
        }
    }

    fn read_unit(&self, position: LinePosition) -> Result<UnitLine, JournalError> {
        match self.parse::<Line<UnitLine, serde::de::IgnoredAny>>(position)? {
            Line::Ran(unit) => Ok(unit),
            _ => Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
        }
    }

    fn read_grade(&self, position: LinePosition) -> Result<GradeLine<Grade>, JournalError> {
        match self.parse::<Line<serde::de::IgnoredAny, GradeLine<Grade>>>(position)? {
            Line::Graded(line) => Ok(line),
            _ => Err(io_error(&self.path, std::io::ErrorKind::InvalidData.into())),
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, position: LinePosition) -> Result<T, JournalError> {
        serde_json::from_slice(&self.read(position)?).map_err(|error| io_error(&self.path, error.into()))
    }

    /// While this process writes the journal, a line that another program changed counts as absent.
    fn present<T>(&self, read: Result<T, JournalError>) -> Option<Result<T, JournalError>> {
        match read {
            Err(JournalError::Changed { .. }) if self.syncer.is_some() => {
                self.foreign.store(true, Ordering::Relaxed);
                None
            }
            read => Some(read),
        }
    }

    /// The JSON object of a line, if the line is still the same.
    fn read(&self, position: LinePosition) -> Result<Vec<u8>, JournalError> {
        let mut bytes = vec![0; position.length.get() as usize];
        let read = self.file.read_exact_at(&mut bytes, position.offset);
        let is_short = |error: &std::io::Error| error.kind() == std::io::ErrorKind::UnexpectedEof;
        let is_changed = match &read {
            Err(error) => is_short(error),
            Ok(()) => self.version == JOURNAL_VERSION && !chain::is_unchanged(&bytes, position.digest),
        };
        if is_changed {
            return Err(JournalError::Changed {
                path: self.path.display().to_string(),
            });
        }
        read.map_err(|source| io_error(&self.path, source))?;
        chain::strip(&mut bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
