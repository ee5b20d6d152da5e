//! Shows the progress of work on indexes on stderr.

use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anstream::{AutoStream, ColorChoice};
use holodeck::{
    index::IndexEvent,
    reports::format::{count, printable},
};

use super::progress::Style;
use crate::terminal::{Region, Terminal, write_to_stderr};

/// The shortest time between two progress lines where there is no status line.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the events of a build. Shows nothing for an index that is up to date.
pub(crate) struct IndexProgress {
    style: Style,
    colour: ColorChoice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The status line while no index is being built.
    waiting: Option<String>,
    /// Present only while there is a status line.
    region: Option<Region>,
    last_line: Option<Instant>,
}

impl IndexProgress {
    pub(crate) fn new(style: Style, terminal: &Terminal) -> Self {
        Self {
            style,
            colour: terminal.stderr_colour(),
            state: Mutex::default(),
        }
    }

    /// Shows a status line `waiting for …` on a terminal until [`end`](Self::end).
    pub(crate) fn wait_for(&self, what: &str) {
        if self.style == Style::Live {
            let mut state = self.state();
            state.waiting = Some(format!("waiting for {what}"));
            self.show_waiting(&mut state);
        }
    }

    fn show_waiting(&self, state: &mut State) {
        if let Some(line) = state.waiting.clone() {
            let region = state.region.get_or_insert_with(|| Region::start(self.colour));
            region.set(&printable(&line));
        }
    }

    /// Removes the status line.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.waiting = None;
        state.region = None;
    }

    pub(crate) fn on(&self, event: &IndexEvent) {
        if self.style == Style::Quiet {
            return;
        }
        let mut state = self.state();
        match event {
            IndexEvent::Progress { .. } if self.style == Style::Live => {
                let region = state.region.get_or_insert_with(|| Region::start(self.colour));
                region.set(&line(event));
            }
            IndexEvent::Progress { .. } => {
                let now = Instant::now();
                if state
                    .last_line
                    .is_none_or(|last| now.duration_since(last) >= LINE_INTERVAL)
                {
                    state.last_line = Some(now);
                    self.print(&state, &line(event));
                }
            }
            IndexEvent::Note { tool, message } => {
                self.print(&state, &printable(&format!("note: index `{tool}`: {message}")));
            }
            IndexEvent::Failed { tool, message } => {
                self.print(&state, &printable(&format!("warning: index `{tool}`: {message}")));
            }
            IndexEvent::Built(build) => {
                state.region = None;
                state.last_line = None;
                if !build.is_unchanged() {
                    let mut holds = format!(
                        "{}, {}",
                        count(build.sources, "source"),
                        count(build.passages, "passage")
                    );
                    if !build.failed.is_empty() {
                        holds.push_str(&format!(", {} failed", build.failed.len()));
                    }
                    self.print(&state, &format!("indexed `{}`: {holds}", build.tool));
                }
                self.show_waiting(&mut state);
            }
        }
    }

    fn print(&self, state: &State, line: &str) {
        let line = format!("{line}\n");
        if let Some(region) = &state.region {
            region.add(&line);
            return;
        }
        // A closed stderr must not stop the build.
        let mut text = AutoStream::new(Vec::new(), self.colour);
        let _ = text.write_all(line.as_bytes());
        let _ = write_to_stderr(&text.into_inner());
        let _ = io::stderr().flush();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `indexing kb: 3 of 12 sources · 340 passages · docs/a.md`
fn line(event: &IndexEvent) -> String {
    let IndexEvent::Progress {
        tool,
        done,
        total,
        passages,
        source,
    } = event
    else {
        return String::new();
    };
    let mut line = format!("indexing `{tool}`: {done} of {}", count(*total, "source"));
    if *passages > 0 {
        line.push_str(&format!(" · {}", count(*passages, "passage")));
    }
    if let Some(source) = source {
        line.push_str(&format!(" · {}", printable(source)));
    }
    line
}
