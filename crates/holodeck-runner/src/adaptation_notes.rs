//! Notes about what was adapted in the requests of a run, and about the files that its cases attach: each is shown once,
//! whichever model or case it concerns.

use std::collections::HashSet;

use holodeck_backend_api::Adaptations;
use holodeck_runs::{Journal, JournalError, UnitRecord};
use holodeck_turn::TurnRecord;

use crate::{RunEvent, RunSink};

/// Writes what was adapted to the journal, and shows each note once.
pub(crate) struct AdaptationNotes {
    adaptations: Adaptations,
    /// How many of them were written.
    written: usize,
    shown: HashSet<String>,
}

impl AdaptationNotes {
    pub(crate) fn new(adaptations: Adaptations) -> Self {
        Self {
            adaptations,
            written: 0,
            shown: HashSet::new(),
        }
    }

    /// Writes and shows what is new.
    pub(crate) fn update(
        &mut self,
        journal: &mut Journal,
        sink: &mut dyn RunSink,
    ) -> Result<(), JournalError> {
        for adaptation in self.adaptations.since(self.written) {
            self.written += 1;
            journal.adapted(&adaptation)?;
            if self.shown.insert(adaptation.note.clone()) {
                sink.on(&RunEvent::Notice {
                    message: adaptation.note,
                });
            }
        }
        Ok(())
    }

    /// Shows what is new of the notes on the files of a unit.
    pub(crate) fn show_files(&mut self, unit: &UnitRecord, sink: &mut dyn RunSink) {
        for message in unit.turns.iter().flat_map(TurnRecord::file_notes) {
            if self.shown.insert(message.clone()) {
                sink.on(&RunEvent::Notice { message });
            }
        }
    }

    /// Whether a message of a backend is a note that was shown.
    pub(crate) fn has_shown(&self, message: &str) -> bool {
        self.shown.contains(message)
    }
}
