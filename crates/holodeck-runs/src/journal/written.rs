//! While a run lives: whether the file is what this process wrote. It must find every change, also one whose author
//! computed the digests: it compares with what was kept in memory, never with what the file says of itself.

use std::{
    fs::File,
    io::{BufReader, Seek as _},
    os::unix::fs::MetadataExt as _,
    sync::atomic::Ordering,
};

use super::{Journal, JournalError, chain::Chain, io_error, place::Place, scan::Lines};

impl Journal {
    /// Cuts off what another program appended.
    pub(super) fn remove_foreign_end(&mut self) -> Result<(), JournalError> {
        let io = |source| io_error(&self.path, source);
        let length = self.file.metadata().map_err(io)?.len();
        if length == self.end {
            return Ok(());
        }
        self.foreign.store(true, Ordering::Relaxed);
        if length > self.end {
            self.file.set_len(self.end).map_err(io)?;
        }
        Ok(())
    }

    /// Compares the whole file with what this process wrote. From the first line on that differs, nothing gives a
    /// verdict. Returns whether another program wrote to it or replaced it.
    pub fn check_written(&mut self) -> Result<bool, JournalError> {
        self.remove_foreign_end()?;
        let io = |source| io_error(&self.path, source);
        let own = self.file.metadata().map_err(io)?;
        let is_replaced = std::fs::metadata(&self.path)
            .map_or(true, |found| (found.dev(), found.ino()) != (own.dev(), own.ino()));
        let mut copy = self.file.try_clone().map_err(io)?;
        copy.rewind().map_err(io)?;
        let fits = self.fitting(copy).map_err(io)?;
        if fits < self.end {
            self.forget_from(fits);
        }
        let is_foreign = is_replaced || fits < self.end;
        Ok(self.foreign.fetch_or(is_foreign, Ordering::Relaxed) || is_foreign)
    }

    /// The length of the lines that fit. If all do and their digest is not that of what was written, none does.
    fn fitting(&self, file: File) -> std::io::Result<u64> {
        let mut lines = Lines::new(BufReader::with_capacity(1 << 16, file));
        let mut chain = Chain::default();
        let mut fits = 0;
        while fits < self.end && lines.next()?.is_some() {
            let Some(link) = chain.fit(&lines.line) else {
                return Ok(fits);
            };
            chain = link.chain;
            fits = lines.offset;
        }
        Ok(if chain == self.chain || fits < self.end {
            fits
        } else {
            0
        })
    }

    fn forget_from(&mut self, offset: u64) {
        for place in &mut self.places {
            let is_lost = |line: Option<super::LinePosition>| line.is_some_and(|line| line.offset >= offset);
            if is_lost(place.ran) {
                *place = Place::default();
            } else if is_lost(place.graded) {
                place.graded = None;
            }
        }
        self.count_finished();
    }
}
