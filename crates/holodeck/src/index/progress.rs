//! Translates the progress of an ingest into the events that callers see, with the name of the tool.

use std::sync::{Mutex, PoisonError};

use holodeck_retrieval::{IngestEvent, IngestProgress};

use super::{IndexEvent, IndexSink};

/// Reports the progress of an ingest as events of a tool's index.
pub(super) struct ProgressReporter<'a> {
    tool: &'a str,
    sink: &'a IndexSink,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    done: usize,
    total: usize,
    passages: usize,
    source: Option<String>,
}

impl<'a> ProgressReporter<'a> {
    pub(super) fn new(tool: &'a str, sink: &'a IndexSink) -> Self {
        Self {
            tool,
            sink,
            state: Mutex::default(),
        }
    }

    fn note(&self, message: String) {
        self.sink.emit(&IndexEvent::Note {
            tool: self.tool.to_owned(),
            message,
        });
    }
}

impl IngestProgress for ProgressReporter<'_> {
    fn event(&self, event: IngestEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            IngestEvent::Planned(plan) => state.total = plan.to_read(),
            IngestEvent::Read { source, notes, .. } => {
                for note in notes {
                    self.note(format!("`{source}`: {note}"));
                }
                state.source = Some(source);
            }
            IngestEvent::Embedded { pieces } => state.passages = pieces,
            IngestEvent::Stored { done, .. } => state.done = done,
            IngestEvent::Failed(failure) => self.sink.emit(&IndexEvent::Failed {
                tool: self.tool.to_owned(),
                message: failure.to_string(),
            }),
            _ => return,
        }
        if state.total == 0 {
            return;
        }
        let State {
            done,
            total,
            passages,
            source,
        } = state.clone();
        drop(state);
        self.sink.emit(&IndexEvent::Progress {
            tool: self.tool.to_owned(),
            done,
            total,
            passages,
            source,
        });
    }
}
