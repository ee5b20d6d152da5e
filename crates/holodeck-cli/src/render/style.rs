//! The colours and text styles of all output, so that the same meaning has the same colour everywhere.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::text::wrap;

pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();
pub(super) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
pub(super) const ACTION: Style = AnsiColor::Cyan.on_default();
pub(super) const STRONG: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();

pub(super) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A hint on a line of its own.
pub(crate) fn hint(text: &str) -> String {
    format!("{}: {text}\n", paint(ACTION, "hint"))
}

/// A hint that breaks at spaces.
pub(super) fn wrapped_hint(text: &str, width: usize) -> String {
    let indent = "hint: ".len();
    let lines = wrap(text, width.saturating_sub(indent));
    hint(&lines.join(&format!("\n{}", " ".repeat(indent))))
}

/// Text that matters less.
pub(crate) fn dim(text: &str) -> String {
    paint(DIM, text)
}

/// Text that stands out.
pub(crate) fn strong(text: &str) -> String {
    paint(STRONG, text)
}

/// Text about an error.
pub(crate) fn failed_text(text: &str) -> String {
    paint(ERROR, text)
}
