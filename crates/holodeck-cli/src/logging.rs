//! What happens inside, on stderr, for those who ask.

use std::io;

use tracing_subscriber::{EnvFilter, fmt};

use crate::terminal::{Verbosity, write_to_stderr};

/// Log lines go beside the progress, so only `-vv` shows more than warnings.
pub(crate) fn start(verbosity: Verbosity) {
    // The library that speaks MCP warns of what is told here in our own words, with what servers said.
    let filter = match verbosity {
        Verbosity::Quiet => "error,rmcp=off",
        Verbosity::Normal => "warn,rmcp=off",
        // Why processes are shared between cases or not.
        Verbosity::Verbose => "warn,rmcp=off,holodeck_backend_claude::pool=info",
        Verbosity::Debug => {
            "info,holodeck=debug,holodeck_runner=debug,holodeck_http=debug,\
                             holodeck_backend_openai=debug,holodeck_tools=debug,holodeck_cassette=debug,\
                             holodeck_backend_claude=debug,holodeck_mcp_bridge=debug,rmcp=warn"
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

/// Log lines go above the line that moves, if there is one.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        write_to_stderr(buffer)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
