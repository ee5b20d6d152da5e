//! Progress for logs: one line for each case.

use std::io::Write;

use holodeck::runner::{RunEvent, RunSink};

use super::{
    highlights::MAX_FAILURES,
    tally::{Tally, draining, header},
};
use crate::{
    render::case,
    terminal::{Outputs, Verbosity, mask_text},
};

/// A log has no width of its own; this keeps the lines readable.
const WIDTH: usize = 100;

/// Shows one line for each case, without a status line. Where one log has these lines and the summary, the reasons of the
/// failures that the summary lists stand there alone.
pub(super) struct Plain<W> {
    out: W,
    verbosity: Verbosity,
    tally: Tally,
    /// Where the summary is.
    outputs: Outputs,
    failures: usize,
}

impl<W: Write + Send> Plain<W> {
    pub(super) fn new(out: W, verbosity: Verbosity, outputs: Outputs) -> Self {
        Self {
            out,
            verbosity,
            tally: Tally::default(),
            outputs,
            failures: 0,
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
                trials,
                already,
                concurrency,
                replayed,
                ..
            } => header(
                agent_name,
                model,
                (*total, *trials),
                *already,
                *concurrency,
                replayed.as_ref(),
            ),
            RunEvent::CaseFinished {
                finished,
                case: report,
            } => {
                self.failures += usize::from(report.is_failure());
                let is_listed = report.is_failure() && self.failures <= MAX_FAILURES;
                let mut line = case::plain(report, *finished, self.tally.total());
                if !(is_listed && self.outputs == Outputs::OneLog) {
                    line.push_str(&case::reason(report));
                }
                line.push('\n');
                let verbose = self.verbosity >= Verbosity::Verbose;
                line.push_str(&case::calls(report, WIDTH, verbose));
                if verbose {
                    line.push_str(&case::conversation(report, WIDTH));
                    line.push_str(&case::scores(report, WIDTH));
                }
                line
            }
            RunEvent::Notice { message } => format!("note: {}\n", case::one_line(message)),
            RunEvent::Draining {
                reason,
                running,
                judging,
            } => draining(reason, *running, *judging),
            RunEvent::Finished { .. } => "\n".to_owned(),
            _ => return,
        };
        // A closed stderr must not stop the run.
        let _ = self.out.write_all(mask_text(&text).as_bytes());
        let _ = self.out.flush();
    }
}
