//! What happens inside, on stderr, for those who ask.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use indicatif::ProgressBar;
use tracing_subscriber::{EnvFilter, fmt};

use crate::terminal::Verbosity;

/// Log lines go beside the progress, so only `-vv` shows more than warnings.
pub(crate) fn start(verbosity: Verbosity) {
    let filter = match verbosity {
        Verbosity::Quiet => "error",
        Verbosity::Normal | Verbosity::Verbose => "warn",
        Verbosity::Debug => {
            "info,holodeck=debug,holodeck_runner=debug,holodeck_http=debug,\
                             holodeck_backend_openai=debug,holodeck_tools=debug,holodeck_cassette=debug"
        }
    };
    // A second call, as in a test, changes nothing.
    let _ = fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| Lines)
        .with_ansi(false)
        .with_target(verbosity == Verbosity::Debug)
        .without_time()
        .try_init();
}

/// The line that moves, if there is one: log lines go above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Tells which line moves from now on.
pub(crate) fn beside(bar: Option<&ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar.cloned();
}

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match bar {
            Some(bar) => bar.suspend(|| io::stderr().write(buffer)),
            None => io::stderr().write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
