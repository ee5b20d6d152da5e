//! How long work on an index goes on, told on stderr.

use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anstream::{AutoStream, ColorChoice};
use holodeck::{
    index::IndexEvent,
    runner::words::{count, printable},
};

use super::progress::Style;
use crate::terminal::{Region, Terminal, write_to_stderr};

/// Where nothing moves, a line at most so often.
const SELDOM: Duration = Duration::from_secs(5);

/// Shows events of building. Nothing is told of an index that is up to date.
pub(crate) struct IndexProgress {
    style: Style,
    colour: ColorChoice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// There is one only while there is something to do.
    region: Option<Region>,
    told: Option<Instant>,
}

impl IndexProgress {
    pub(crate) fn new(style: Style, terminal: &Terminal) -> Self {
        Self {
            style,
            colour: terminal.stderr_colour(),
            state: Mutex::default(),
        }
    }

    /// Takes what moves away.
    pub(crate) fn end(&self) {
        self.state().region = None;
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
                if state.told.is_none_or(|told| now.duration_since(told) >= SELDOM) {
                    state.told = Some(now);
                    self.say(&state, &line(event));
                }
            }
            IndexEvent::Note { tool, message } => {
                self.say(&state, &printable(&format!("note: index `{tool}`: {message}")));
            }
            IndexEvent::Failed { tool, message } => {
                self.say(&state, &printable(&format!("warning: index `{tool}`: {message}")));
            }
            IndexEvent::Built(build) => {
                state.region = None;
                state.told = None;
                if !build.is_unchanged() {
                    let mut holds = format!(
                        "{}, {}",
                        count(build.sources, "source"),
                        count(build.passages, "passage")
                    );
                    if !build.failed.is_empty() {
                        holds.push_str(&format!(", without {} that failed", build.failed.len()));
                    }
                    self.say(&state, &format!("indexed `{}`: {holds}", build.tool));
                }
            }
        }
    }

    fn say(&self, state: &State, line: &str) {
        let line = format!("{line}\n");
        if let Some(region) = &state.region {
            region.add(&line);
            return;
        }
        // A stderr that nobody reads stops nothing.
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
