//! The end of a terminal: lines that stay, and below them one that changes.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use anstream::{AutoStream, ColorChoice};
use unicode_width::UnicodeWidthChar as _;

use super::masking::masked;

const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// To the beginning of the line, and everything on it away.
const CLEAR: &str = "\r\u{1b}[2K";

/// Where log lines go, if there is one.
static CURRENT: Mutex<Option<Shared>> = Mutex::new(None);

type Shared = Arc<Mutex<Lines<Box<dyn Write + Send>>>>;

/// The region of stderr. A thread moves the spinner; it ends with the value.
pub(crate) struct Region {
    lines: Shared,
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Region {
    pub(crate) fn start(colour: ColorChoice) -> Self {
        let out: Box<dyn Write + Send> = match colour {
            // Styles are for the lines; what moves the cursor is needed all the same.
            ColorChoice::Never => Box::new(io::stderr()),
            _ => Box::new(AutoStream::always_ansi(io::stderr())),
        };
        let lines = Arc::new(Mutex::new(Lines::new(out, colour)));
        let (stop, stopped) = mpsc::channel();
        let ticker = std::thread::spawn({
            let lines = Arc::clone(&lines);
            move || {
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    lock(&lines).tick(columns());
                }
            }
        });
        *lock(&CURRENT) = Some(Arc::clone(&lines));
        Self {
            lines,
            stop: Some(stop),
            ticker: Some(ticker),
        }
    }

    /// Adds lines that stay.
    pub(crate) fn add(&self, text: &str) {
        lock(&self.lines).add(&masked(text));
    }

    /// Sets the line that changes; it is drawn with the next tick.
    pub(crate) fn set(&self, line: &str) {
        lock(&self.lines).line = masked(line).into_owned();
    }

    /// Takes the line that changes away.
    pub(crate) fn end(&mut self) {
        drop(self.stop.take());
        if let Some(ticker) = self.ticker.take() {
            // It has nothing to tell.
            let _ = ticker.join();
            *lock(&CURRENT) = None;
            lock(&self.lines).clear();
        }
    }
}

impl Drop for Region {
    /// A run that broke off leaves no spinner behind.
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes to stderr, above the line that changes if there is one.
pub(crate) fn write_to_stderr(text: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(text);
    let text = masked(&text);
    let current = lock(&CURRENT).clone();
    match current {
        Some(lines) => {
            lock(&lines).add(&text);
            Ok(())
        }
        None => io::stderr().write_all(text.as_bytes()),
    }
}

fn columns() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is written, and what of it changes.
struct Lines<W> {
    out: W,
    colour: ColorChoice,
    line: String,
    frame: usize,
    drawn: bool,
}

impl<W: Write> Lines<W> {
    fn new(out: W, colour: ColorChoice) -> Self {
        Self {
            out,
            colour,
            line: String::new(),
            frame: 0,
            drawn: false,
        }
    }

    fn add(&mut self, text: &str) {
        self.clear();
        let text = text.trim_end_matches('\n');
        let text = if self.colour == ColorChoice::Never {
            anstream::adapter::strip_str(text).to_string()
        } else {
            text.to_owned()
        };
        // A terminal that went away stops no run.
        let _ = writeln!(self.out, "{text}");
        let _ = self.out.flush();
    }

    fn tick(&mut self, columns: usize) {
        if self.line.is_empty() {
            return;
        }
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or('·');
        self.frame = self.frame.wrapping_add(1);
        // One column is left free: a full line would wrap.
        let whole = format!("{frame} {}", self.line);
        let line = cut(&whole, columns.saturating_sub(1));
        let (dim, plain) = match self.colour {
            ColorChoice::Never => ("", ""),
            _ => ("\u{1b}[2m", "\u{1b}[0m"),
        };
        let _ = write!(self.out, "{CLEAR}{dim}{line}{plain}");
        let _ = self.out.flush();
        self.drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(self.out, "{CLEAR}");
            let _ = self.out.flush();
        }
    }
}

fn cut(line: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in line.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return line.get(..at).unwrap_or_default();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lines_that_stay_are_whole_lines_and_the_other_is_taken_away_first() {
        let mut lines = Lines::new(Vec::new(), ColorChoice::Never);
        lines.add("\u{1b}[32mheader\u{1b}[0m\n");
        lines.tick(80);
        lines.line = "3 running".to_owned();
        lines.tick(80);
        lines.tick(10);
        lines.add("one\ntwo");
        lines.add("three");
        lines.clear();
        assert_eq!(
            String::from_utf8(lines.out).unwrap(),
            "header\n\r\u{1b}[2K⠋ 3 running\r\u{1b}[2K⠙ 3 runni\r\u{1b}[2Kone\ntwo\nthree\n"
        );
    }

    #[test]
    fn styles_are_kept_where_they_are_welcome() {
        let mut lines = Lines::new(Vec::new(), ColorChoice::Always);
        lines.add("\u{1b}[32mgood\u{1b}[0m");
        lines.line = "x".to_owned();
        lines.tick(80);
        assert_eq!(
            String::from_utf8(lines.out).unwrap(),
            "\u{1b}[32mgood\u{1b}[0m\n\r\u{1b}[2K\u{1b}[2m⠋ x\u{1b}[0m"
        );
    }
}
