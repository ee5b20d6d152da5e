//! Copies the lines of units between journals: a merged run consists of those of its shards.

use super::{Journal, JournalError, Place, place::LinePosition};

impl Journal {
    /// Appends the record and the verdict of a unit of another journal. Both are copied as they are: they were masked
    /// when they were written.
    pub fn copy_unit(&mut self, unit: usize, from: &Self, place: usize) -> Result<(), JournalError> {
        let Some(lines) = from.places.get(place).copied() else {
            return Ok(());
        };
        let ran = lines.ran.map(|line| self.copy_line(from, line)).transpose()?;
        let graded = lines.graded.map(|line| self.copy_line(from, line)).transpose()?;
        self.update(unit, |copied| {
            *copied = Place { ran, graded };
        });
        Ok(())
    }

    fn copy_line(&mut self, from: &Self, line: LinePosition) -> Result<LinePosition, JournalError> {
        let object = from.read(line)?;
        self.append(&object)
    }
}
