use std::io::Write;

use holodeck::runner::{RunEvent, RunSink};

use super::tally::{Tally, draining, header};
use crate::{
    render::case,
    terminal::{Verbosity, masked},
};

/// A log has no edge; this keeps its lines readable.
const WIDTH: usize = 100;

/// One line for each case, where nothing moves.
pub(super) struct Plain<W> {
    out: W,
    verbosity: Verbosity,
    tally: Tally,
}

impl<W: Write + Send> Plain<W> {
    pub(super) fn new(out: W, verbosity: Verbosity) -> Self {
        Self {
            out,
            verbosity,
            tally: Tally::default(),
        }
    }
}

impl<W: Write + Send> RunSink for Plain<W> {
    fn on(&mut self, event: &RunEvent) {
        self.tally.on(event);
        let text = match event {
            RunEvent::Started {
                agent_name,
                model,
                total,
                already,
                concurrency,
                replayed,
                ..
            } => header(
                agent_name,
                model,
                *total,
                *already,
                *concurrency,
                replayed.as_ref(),
            ),
            RunEvent::CaseFinished { finished, result } => {
                let mut line = case::plain(result, *finished, self.tally.total());
                if self.verbosity >= Verbosity::Verbose {
                    line.push_str(&case::scores(result, WIDTH));
                }
                line
            }
            RunEvent::Notice { message } => format!("note: {}\n", case::one_line(message)),
            RunEvent::Draining { reason, running } => draining(reason, *running),
            RunEvent::Finished { .. } => "\n".to_owned(),
            _ => return,
        };
        // A stderr that nobody reads stops no run.
        let _ = self.out.write_all(masked(&text).as_bytes());
        let _ = self.out.flush();
    }
}
