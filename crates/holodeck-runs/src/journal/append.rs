//! Appends lines to a journal: records of units and verdicts on them.

use std::os::unix::fs::FileExt as _;

use holodeck_model::UnitKey;
use serde::Serialize;

use super::{
    Journal, JournalError, io_error,
    lines::{GradeLine, UnitLineRef},
    place::{self, Line, LinePosition, Place},
};
use crate::{Grade, UnitRecord};

/// The line of a unit's record, not yet written.
#[derive(Debug)]
pub struct RecordLine(Vec<u8>);

impl Journal {
    /// The line of a unit's record, for [`write_record`](Self::write_record) and
    /// [`write_graded`](Self::write_graded).
    pub fn record_line(&self, unit: &UnitRecord, checks: Option<&Grade>) -> Result<RecordLine, JournalError> {
        let line = Line::<_, ()>::Ran(UnitLineRef { unit, checks });
        Ok(RecordLine(self.to_object(&line)?))
    }

    /// Writes the record of a unit. After this returns, killing the process does not lose the answer.
    pub fn write_record(&mut self, place: usize, line: &RecordLine) -> Result<(), JournalError> {
        let position = self.append(&line.0)?;
        self.update(place, |place| {
            *place = Place {
                ran: Some(position),
                graded: None,
            };
        });
        Ok(())
    }

    /// Writes a prepared line and the verdict on its unit in one go.
    pub fn write_graded(
        &mut self,
        place: usize,
        line: &RecordLine,
        grade: &Grade,
    ) -> Result<(), JournalError> {
        let Some(verdict) = self.grade_line(place, grade)? else {
            return self.write_record(place, line);
        };
        let mut positions = Vec::with_capacity(2);
        self.append_all(&[&line.0, &verdict], |position| positions.push(position))?;
        let mut positions = positions.into_iter();
        let written = Place {
            ran: positions.next(),
            graded: positions.next(),
        };
        self.update(place, |place| *place = written);
        Ok(())
    }

    /// Writes the verdict on a unit.
    pub fn grade(&mut self, place: usize, grade: &Grade) -> Result<(), JournalError> {
        let Some(line) = self.grade_line(place, grade)? else {
            return Ok(());
        };
        let position = self.append(&line)?;
        self.update(place, |place| place.graded = Some(position));
        Ok(())
    }

    /// The line of a verdict; `None` if the unit is not in the plan.
    fn grade_line(&self, place: usize, grade: &Grade) -> Result<Option<Vec<u8>>, JournalError> {
        let Some((case, trial)) = self.identity_of(place) else {
            return Ok(None);
        };
        let key = UnitKey { case: case.id, trial };
        self.to_object(&Line::<(), _>::Graded(GradeLine { key, grade }))
            .map(Some)
    }

    pub(super) fn write<R: Serialize, G: Serialize>(
        &mut self,
        line: &Line<R, G>,
    ) -> Result<LinePosition, JournalError> {
        let object = self.to_object(line)?;
        self.append(&object)
    }

    pub(super) fn to_object<R: Serialize, G: Serialize>(
        &self,
        line: &Line<R, G>,
    ) -> Result<Vec<u8>, JournalError> {
        serde_json::to_vec(line).map_err(|error| io_error(&self.path, error.into()))
    }

    pub(super) fn append(&mut self, object: &[u8]) -> Result<LinePosition, JournalError> {
        let mut appended = None;
        self.append_all(&[object], |position| appended = Some(position))?;
        appended.ok_or_else(|| io_error(&self.path, std::io::ErrorKind::InvalidInput.into()))
    }

    /// Appends JSON objects, each as a line, in one write. Calls `on_line` with the position of each.
    pub(super) fn append_all<O: AsRef<[u8]>>(
        &mut self,
        objects: &[O],
        mut on_line: impl FnMut(LinePosition),
    ) -> Result<(), JournalError> {
        self.remove_foreign_end()?;
        let io = |source| io_error(&self.path, source);
        let mut text = Vec::new();
        let mut chain = self.chain;
        for object in objects {
            let start = text.len();
            let link = chain.append(object.as_ref(), &mut text);
            chain = link.chain;
            on_line(LinePosition {
                offset: self.end + start as u64,
                length: place::length_of(text.get(start..).unwrap_or_default()).map_err(io)?,
                digest: link.digest,
            });
        }
        self.file.write_all_at(&text, self.end).map_err(io)?;
        self.end += text.len() as u64;
        self.lines += objects.len();
        self.chain = chain;
        if let Some(syncer) = &self.syncer {
            syncer.notify()?;
        }
        Ok(())
    }
}
