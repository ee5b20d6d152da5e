//! Opens a journal and finds its lines. It must not write: a file is not changed before it was read completely.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use holodeck_model::{CaseId, UnitKey};
use serde::Deserialize;

use super::{
    BaseRun, Break, JOURNAL_VERSION, Journal, JournalError, JournalHeader,
    chain::{self, Chain, LineDigest},
    error::{WITHOUT_CHAIN, io_error},
    place::{self, Line, LinePosition, Place},
};

/// The parts of a line `ran` that assign it to a unit.
#[derive(Deserialize)]
struct UnitSketch {
    unit: KeySketch,
}

#[derive(Deserialize)]
struct KeySketch {
    key: UnitKey,
}

pub(super) fn open(path: &Path) -> Result<Journal, JournalError> {
    let mut journal = open_file(path)?;
    if let Some(run) = &journal.header.regrades {
        let malformed = |reason: &str| JournalError::Malformed {
            path: path.display().to_string(),
            line: 1,
            reason: reason.to_owned(),
        };
        if run.contains(['/', '\\']) {
            return Err(malformed("`regrades` must be the id of a run"));
        }
        let base = open_file(&path.with_file_name(format!("{run}.jsonl")))?;
        if base.header.regrades.is_some() {
            return Err(malformed("`regrades` must name a run that is not a regrade"));
        }
        journal.base = Some(BaseRun::new(base, &journal.header.plan));
    }
    Ok(journal)
}

fn open_file(path: &Path) -> Result<Journal, JournalError> {
    let io = |source| io_error(path, source);
    let file = File::open(path).map_err(io)?;
    let mut lines = Lines::new(BufReader::with_capacity(1 << 16, file.try_clone().map_err(io)?));
    let (version, chain, header) = read_header(path, &mut lines)?;
    let mut journal = Journal {
        end: lines.offset,
        lines: 1,
        chain,
        ..Journal::empty(path, version, header, Arc::new(file))
    };
    journal.scan(&mut lines).map_err(io)?;
    journal.count_finished();
    Ok(journal)
}

/// Reads the first line: the version, the chain with it, and the header.
pub(super) fn read_header(
    path: &Path,
    lines: &mut Lines,
) -> Result<(u64, Chain, JournalHeader), JournalError> {
    #[derive(Deserialize)]
    struct Version {
        holodeck_journal: u64,
    }
    let malformed = |reason: String| JournalError::Malformed {
        path: path.display().to_string(),
        line: 1,
        reason,
    };
    if lines.next().map_err(|source| io_error(path, source))?.is_none() {
        return Err(malformed("the first line is incomplete".to_owned()));
    }
    let version: Version =
        serde_json::from_slice(&lines.line).map_err(|_| malformed("not the journal of a run".to_owned()))?;
    let version = version.holodeck_journal;
    let mut chain = Chain::default();
    match version {
        WITHOUT_CHAIN => {}
        JOURNAL_VERSION => {
            let link = chain.fit(&lines.line).ok_or_else(|| JournalError::Broken {
                path: path.display().to_string(),
                line: 1,
            })?;
            chain = link.chain;
            chain::strip(&mut lines.line);
        }
        found => {
            return Err(JournalError::Version {
                path: path.display().to_string(),
                found,
            });
        }
    }
    let header: JournalHeader =
        serde_json::from_slice(&lines.line).map_err(|error| malformed(error.to_string()))?;
    check_trials(&header).map_err(|reason| malformed(reason.to_owned()))?;
    Ok((version, chain, header))
}

fn check_trials(header: &JournalHeader) -> Result<(), &'static str> {
    if !header.trials.is_empty() && header.trials.len() != header.plan.len() {
        return Err("`trials` must have an entry for each case of the plan");
    }
    if !header.trials.iter().all(|trials| trials.is_valid()) {
        return Err("`trials` has invalid numbers");
    }
    Ok(())
}

impl Journal {
    fn scan(&mut self, lines: &mut Lines) -> std::io::Result<()> {
        let plan = self.header.plan.iter().enumerate();
        let cases: HashMap<CaseId, usize> = plan.map(|(place, case)| (case.id, place)).collect();
        while let Some(mut position) = lines.next()? {
            let number = lines.number;
            let before = self.chain;
            if self.version == JOURNAL_VERSION {
                let Some(link) = self.chain.fit(&lines.line) else {
                    return self.lose(number, lines, &cases);
                };
                self.chain = link.chain;
                position.digest = link.digest;
                chain::strip(&mut lines.line);
            }
            let Ok(line) = serde_json::from_slice::<Line<UnitSketch, KeySketch>>(&lines.line) else {
                self.end = lines.offset;
                self.lines = number;
                self.warnings.push(format!(
                    "line {number} of the journal is damaged; its case has no result"
                ));
                continue;
            };
            if let Line::End(end) = &line
                && self.version == JOURNAL_VERSION
                && (end.lines, &end.digest) != (number - 1, &before.hex())
            {
                self.chain = before;
                return self.lose(number, lines, &cases);
            }
            self.end = lines.offset;
            self.lines = number;
            let key = match &line {
                Line::Ran(ran) => ran.unit.key,
                Line::Graded(graded) => graded.key,
                Line::Judged(judged) => {
                    if judged.key.is_none() {
                        self.shared_judgements.push(position);
                    }
                    let unit = judged.key.or(judged.asked_by);
                    if let Some(unit) = unit.and_then(|key| self.units.find(&cases, key)) {
                        self.judgements.entry(unit).or_default().push(position);
                    }
                    continue;
                }
                Line::Warning(warning) => {
                    self.warnings.push(warning.clone());
                    continue;
                }
                Line::Adapted(adaptation) => {
                    self.adapted.push(adaptation.clone());
                    continue;
                }
                Line::End(end) => {
                    self.ended = Some(end.ended.clone());
                    continue;
                }
            };
            let unit = self.units.find(&cases, key);
            let Some(place) = unit.and_then(|unit| self.places.get_mut(unit)) else {
                self.warnings.push(format!(
                    "line {number} of the journal is ignored; its case is not in the plan"
                ));
                continue;
            };
            match line {
                Line::Ran(_) => {
                    *place = Place {
                        ran: Some(position),
                        graded: None,
                    };
                }
                // Ignore a verdict if the line of its answer is damaged.
                _ if self.header.regrades.is_none() && !place.has_run() => {}
                _ => {
                    place.graded = Some(position);
                    if let Some(unit) = unit {
                        // Of an earlier verdict on the unit, nothing counts.
                        match self.judgements.remove(&unit) {
                            Some(calls) => self.decisive.insert(unit, calls),
                            None => self.decisive.remove(&unit),
                        };
                    }
                }
            }
            // Lines after an end belong to a resumed run.
            self.ended = None;
        }
        Ok(())
    }
}

impl Journal {
    /// Counts what is lost from the current line on. A run with lost lines has not ended.
    fn lose(
        &mut self,
        number: usize,
        lines: &mut Lines,
        cases: &HashMap<CaseId, usize>,
    ) -> std::io::Result<()> {
        let mut broken = Break {
            line: number,
            lines: 0,
            cases: 0,
        };
        let mut answered = HashSet::new();
        loop {
            broken.lines += 1;
            chain::strip(&mut lines.line);
            if let Ok(Line::Ran(ran)) = serde_json::from_slice::<Line<UnitSketch, KeySketch>>(&lines.line)
                && let Some(unit) = self.units.find(cases, ran.unit.key)
                && !self.places.get(unit).is_some_and(Place::has_run)
            {
                answered.insert(self.units.case_of(unit).0);
            }
            if lines.next()?.is_none() {
                break;
            }
        }
        broken.cases = answered.len();
        self.broken = Some(broken);
        self.ended = None;
        Ok(())
    }

    pub(super) fn count_finished(&mut self) {
        self.finished = self.places.iter().filter(|place| place.is_graded()).count();
        let cases = 0..self.header.plan.len();
        self.finished_cases = cases.filter(|&case| self.is_case_finished(case)).count();
    }
}

/// The complete lines of a file.
pub(super) struct Lines {
    reader: BufReader<File>,
    pub(super) line: Vec<u8>,
    /// From 1.
    pub(super) number: usize,
    /// The start of the next line.
    pub(super) offset: u64,
}

impl Lines {
    pub(super) fn new(reader: BufReader<File>) -> Self {
        Self {
            reader,
            line: Vec::new(),
            number: 0,
            offset: 0,
        }
    }

    /// Reads the next line and returns its position. An incomplete line is ignored.
    pub(super) fn next(&mut self) -> std::io::Result<Option<LinePosition>> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let length = place::length_of(&self.line)?;
        let position = LinePosition {
            offset: self.offset,
            length,
            digest: LineDigest::default(),
        };
        self.number += 1;
        self.offset += u64::from(length.get());
        Ok(Some(position))
    }
}
