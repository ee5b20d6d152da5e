//! Progress on a terminal: lines that stay, and below them one that changes, with a spinner.

use std::{
    io::{self, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anstream::{ColorChoice, adapter::strip_str};
use indicatif::{ProgressBar, ProgressStyle};

use super::masking::mask_text;

const TICK: Duration = Duration::from_millis(120);

/// The frames of the spinner; the last one is its end.
const FRAMES: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ";

/// The changing lines on the terminal: log lines appear above them.
static CURRENT: Mutex<Option<Lines>> = Mutex::new(None);

/// The region of stderr. Its changing line is removed when the value is dropped.
pub(crate) struct Region(Lines);

impl Region {
    pub(crate) fn start(colour: ColorChoice) -> Self {
        let lines = Lines {
            bar: ProgressBar::new_spinner().with_style(style(colour)),
            colour,
        };
        lines.bar.enable_steady_tick(TICK);
        *current() = Some(lines.clone());
        Self(lines)
    }

    /// Adds lines that stay.
    pub(crate) fn add(&self, text: &str) {
        self.0.add(&mask_text(text));
    }

    /// Sets the line that changes.
    pub(crate) fn set(&self, line: &str) {
        self.0.bar.set_message(mask_text(line).into_owned());
    }

    /// Removes the line that changes.
    pub(crate) fn end(&mut self) {
        *current() = None;
        self.0.bar.finish_and_clear();
    }
}

impl Drop for Region {
    /// A run that is aborted leaves no spinner behind.
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes to stderr, above the line that changes if there is one.
pub(crate) fn write_to_stderr(text: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(text);
    let text = mask_text(&text);
    let shown = current().clone();
    match shown {
        Some(lines) => {
            lines.add(&text);
            Ok(())
        }
        None => io::stderr().write_all(text.as_bytes()),
    }
}

fn current() -> MutexGuard<'static, Option<Lines>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle of the library; clones write to the same place.
#[derive(Clone)]
struct Lines {
    bar: ProgressBar,
    colour: ColorChoice,
}

impl Lines {
    fn add(&self, text: &str) {
        let text = text.trim_end_matches('\n');
        if self.colour == ColorChoice::Never {
            self.bar.println(strip_str(text).to_string());
        } else {
            self.bar.println(text);
        }
    }
}

/// The style's own colours would follow the environment only; the choice also depends on flags.
fn style(colour: ColorChoice) -> ProgressStyle {
    let template = match colour {
        ColorChoice::Never => "{spinner} {wide_msg}",
        _ => "\u{1b}[2m{spinner} {wide_msg}\u{1b}[0m",
    };
    let style = ProgressStyle::with_template(template);
    style
        .unwrap_or_else(|_invalid| ProgressStyle::default_spinner())
        .tick_chars(FRAMES)
}
