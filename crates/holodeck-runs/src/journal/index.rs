//! The positions of a journal's lines in a form that is kept beside it, so that one case is read without the others.
//!
//! They must not be believed: a line that is read by its position must have its digest, and the key of its unit.

use std::{fs::File, io::BufReader, path::Path, sync::Arc};

use holodeck_model::Adaptation;
use serde::{Deserialize, Serialize};

use super::{
    Journal, JournalError, io_error,
    place::{LinePosition, Place},
    scan,
};
use crate::RunEnd;

/// Everything of a journal between its first line and its end, except the units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalIndex {
    ended: RunEnd,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    adapted: Vec<Adaptation>,
}

/// The positions of the lines of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitLines {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ran: Option<LinePosition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    graded: Option<LinePosition>,
    /// Of the calls of judges for its verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    judged: Vec<LinePosition>,
}

impl UnitLines {
    /// The end of its last line in the file.
    fn end(&self) -> u64 {
        let lines = self.ran.iter().chain(&self.graded).chain(&self.judged);
        lines.map(LinePosition::end).max().unwrap_or_default()
    }
}

impl Journal {
    /// The index of a journal that has ended and of which every line fits. That of a regrade would be that of two files, so
    /// that there is none.
    pub fn index(&self) -> Option<JournalIndex> {
        if self.base.is_some() || self.is_without_chain() || self.broken.is_some() {
            return None;
        }
        Some(JournalIndex {
            ended: self.ended.clone()?,
            warnings: self.warnings.clone(),
            adapted: self.adapted.clone(),
        })
    }

    /// The positions of the lines of each trial of a case.
    pub fn lines_of(&self, case: usize) -> Vec<UnitLines> {
        let places = self.places.get(self.units_of(case)).unwrap_or_default();
        let units = self.units_of(case).zip(places);
        units
            .map(|(unit, place)| UnitLines {
                ran: place.ran,
                graded: place.graded,
                judged: self.decisive.get(&unit).cloned().unwrap_or_default(),
            })
            .collect()
    }

    /// Opens a journal for reading these cases, each with the positions of its lines: no other line is read, and the other
    /// cases have no result. The caller ensures that the file is the one of the index.
    pub fn open_indexed(
        path: &Path,
        file: File,
        index: &JournalIndex,
        cases: impl IntoIterator<Item = (usize, Vec<UnitLines>)>,
    ) -> Result<Self, JournalError> {
        let io = |source| io_error(path, source);
        let mut lines = scan::Lines::new(BufReader::with_capacity(1 << 16, file.try_clone().map_err(io)?));
        let (version, _, header) = scan::read_header(path, &mut lines)?;
        let mut journal = Self {
            ended: Some(index.ended.clone()),
            warnings: index.warnings.clone(),
            adapted: index.adapted.clone(),
            is_indexed: true,
            ..Self::empty(path, version, header, Arc::new(file))
        };
        let changed = || JournalError::Changed {
            path: path.display().to_string(),
        };
        if journal.is_without_chain() || journal.header.regrades.is_some() {
            return Err(changed());
        }
        let length = journal.file.metadata().map_err(io)?.len();
        for (case, lines) in cases {
            let units = journal.units_of(case);
            // Memory is taken for a line before it is read.
            if units.len() != lines.len() || lines.iter().any(|lines| lines.end() > length) {
                return Err(changed());
            }
            for (unit, lines) in units.zip(lines) {
                if let Some(place) = journal.places.get_mut(unit) {
                    *place = Place {
                        ran: lines.ran,
                        graded: lines.graded,
                    };
                    journal.decisive.insert(unit, lines.judged);
                }
            }
        }
        journal.count_finished();
        Ok(journal)
    }
}
