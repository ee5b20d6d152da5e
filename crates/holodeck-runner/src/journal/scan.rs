//! Opens a journal and finds its lines. Nothing is written here: a file is not changed before it is understood.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use holodeck_model::{CaseId, UnitKey};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    Answers, JOURNAL_VERSION, Journal, JournalError, JournalHeader, io_error,
    place::{Line, Place, Written},
    version_1,
};

/// Enough of a line `ran` to know where it belongs.
#[derive(Deserialize)]
struct RanSketch {
    unit: KeySketch,
    #[serde(default)]
    grade: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct KeySketch {
    key: UnitKey,
}

pub(super) fn open(path: &Path) -> Result<Journal, JournalError> {
    let mut journal = open_one(path)?;
    if let Some(run) = &journal.header.regrades {
        let malformed = |reason: &str| JournalError::Malformed {
            path: path.display().to_string(),
            line: 1,
            reason: reason.to_owned(),
        };
        if run.contains(['/', '\\']) {
            return Err(malformed("`regrades` must be the id of a run"));
        }
        let base = open_one(&path.with_file_name(format!("{run}.jsonl")))?;
        if base.header.regrades.is_some() {
            return Err(malformed("the run that it grades again asked nothing itself"));
        }
        journal.answers = Some(Answers::new(base, &journal.header.plan));
    }
    Ok(journal)
}

fn open_one(path: &Path) -> Result<Journal, JournalError> {
    #[derive(Deserialize)]
    struct Version {
        holodeck_journal: u64,
    }
    let io = |source| io_error(path, source);
    let malformed = |reason: String| JournalError::Malformed {
        path: path.display().to_string(),
        line: 1,
        reason,
    };
    let file = File::open(path).map_err(io)?;
    let mut lines = Lines {
        reader: BufReader::with_capacity(1 << 16, file.try_clone().map_err(io)?),
        line: Vec::new(),
        number: 0,
        offset: 0,
    };
    if lines.next().map_err(io)?.is_none() {
        return Err(malformed("the first line is not complete".to_owned()));
    }
    let version: Version = serde_json::from_slice(&lines.line)
        .map_err(|_| malformed("this is not a journal of a run".to_owned()))?;
    let parsed = match version.holodeck_journal {
        1 => version_1::header(&lines.line),
        JOURNAL_VERSION => serde_json::from_slice::<JournalHeader>(&lines.line),
        found => {
            return Err(JournalError::Version {
                path: path.display().to_string(),
                found,
            });
        }
    };
    let header = parsed.map_err(|error| malformed(error.to_string()))?;
    let mut journal = Journal {
        path: path.to_owned(),
        places: vec![Place::default(); header.plan.len()],
        finished: 0,
        version: version.holodeck_journal,
        header,
        file: Arc::new(file),
        end: lines.offset,
        warnings: Vec::new(),
        ended: None,
        answers: None,
        syncer: None,
    };
    if journal.version == 1 {
        version_1::scan(&mut journal, &mut lines).map_err(io)?;
    } else {
        journal.scan(&mut lines).map_err(io)?;
    }
    journal.finished = journal.places.iter().filter(|place| place.is_graded()).count();
    Ok(journal)
}

impl Journal {
    fn scan(&mut self, lines: &mut Lines) -> std::io::Result<()> {
        let plan = self.header.plan.iter().enumerate();
        let units: HashMap<CaseId, usize> = plan.map(|(place, case)| (case.id, place)).collect();
        while let Some(written) = lines.next()? {
            self.end = lines.offset;
            let number = lines.number;
            let Ok(line) = serde_json::from_slice::<Line<RanSketch, KeySketch>>(&lines.line) else {
                self.warnings.push(format!(
                    "line {number} of the journal is damaged; its case has no result"
                ));
                continue;
            };
            let key = match &line {
                Line::Ran(ran) => ran.unit.key,
                Line::Graded(graded) => graded.key,
                Line::Warning(warning) => {
                    self.warnings.push(warning.clone());
                    continue;
                }
                Line::End(end) => {
                    self.ended = Some(end.ended.clone());
                    continue;
                }
            };
            let unit = units.get(&key.case).filter(|_| key.trial == 0);
            let Some(place) = unit.and_then(|&unit| self.places.get_mut(unit)) else {
                self.warnings.push(format!(
                    "line {number} of the journal is of a case that was not planned; it is ignored"
                ));
                continue;
            };
            match line {
                Line::Ran(ran) => {
                    *place = Place {
                        ran: Some(written),
                        graded: None,
                        graded_with_run: ran.grade.is_some(),
                    };
                }
                // A verdict on an answer that is damaged is none.
                _ if self.header.regrades.is_none() && !place.has_run() => {}
                _ => place.graded = Some(written),
            }
            // A run that was resumed has not ended where it was interrupted.
            self.ended = None;
        }
        Ok(())
    }
}

/// The whole lines of a file.
pub(super) struct Lines {
    reader: BufReader<File>,
    pub(super) line: Vec<u8>,
    /// From 1.
    pub(super) number: usize,
    /// Where the next line begins.
    pub(super) offset: u64,
}

impl Lines {
    /// Reads the next line and returns where it is. A line without its end is none.
    pub(super) fn next(&mut self) -> std::io::Result<Option<Written>> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let length = u32::try_from(self.line.len())
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::FileTooLarge))?;
        let written = Written {
            offset: self.offset,
            length,
        };
        self.number += 1;
        self.offset += u64::from(length);
        Ok(Some(written))
    }
}
