//! Keeps the output of a program that is no message of the CLI: an update notice, a question, an error of a wrapper. It is
//! shown if the program does not start.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// How many lines to keep.
const LINES: usize = 5;
/// How much of a line to keep.
const CHARS: usize = 300;
/// How much of a line to look at.
const BYTES: usize = 4 * CHARS;

/// The last lines on standard output that are no messages.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    lines: Mutex<(VecDeque<String>, String)>,
    changed: Notify,
}

impl Printed {
    /// Keeps a line.
    pub(super) fn line(&self, line: &[u8]) {
        let text = shorten(line);
        let mut lines = self.lock();
        lines.1.clear();
        if text.is_empty() {
            return;
        }
        if lines.0.len() == LINES {
            lines.0.pop_front();
        }
        lines.0.push_back(text);
        self.changed.notify_one();
    }

    /// Keeps the beginning of a line, as of a question that waits for an answer.
    pub(super) fn beginning(&self, line: &[u8]) {
        let text = shorten(line);
        // A message begins with a brace.
        if !text.is_empty() && !text.starts_with('{') {
            self.lock().1 = text;
            self.changed.notify_one();
        }
    }

    /// The output, oldest first.
    pub(super) fn texts(&self) -> Vec<String> {
        let lines = self.lock();
        let beginning = Some(lines.1.clone()).filter(|text| !text.is_empty());
        lines.0.iter().cloned().chain(beginning).collect()
    }

    /// Waits until something was printed.
    pub(super) async fn wait(&self) {
        while self.texts().is_empty() {
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, (VecDeque<String>, String)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shorten(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.get(..BYTES).unwrap_or(line));
    let text = text.trim().chars().take(CHARS);
    text.map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}
