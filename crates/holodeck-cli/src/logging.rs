//! Log events on stderr: warnings in the form of other messages, all events with `-vv`.

use std::{
    fmt::{self, Write as _},
    io,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use crate::terminal::{Verbosity, write_to_stderr};

/// Log lines are written above the progress, so only `-vv` shows more than warnings.
pub(crate) fn start(verbosity: Verbosity) {
    // Warnings of the MCP library are reported by this project, together with the server's stderr.
    let filter = match verbosity {
        // How a command ended is an error of this program.
        Verbosity::Quiet => "error,rmcp=off,holodeck::routing::result=off",
        Verbosity::Normal => "warn,rmcp=off,holodeck::routing::result=off",
        // Includes why cases share processes or not.
        Verbosity::Verbose => {
            "warn,rmcp=off,holodeck::routing::result=off,holodeck_backend_claude::pool=info"
        }
        Verbosity::Debug => {
            "info,holodeck=debug,holodeck_runner=debug,holodeck_http=debug,\
                             holodeck_backend_openai=debug,holodeck_tools=debug,holodeck_cassette=debug,\
                             holodeck_backend_claude=debug,holodeck_mcp_bridge=debug,rmcp=warn"
        }
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| Lines)
        .with_ansi(false);
    // A second call, as in a test, changes nothing.
    let _ = if verbosity == Verbosity::Debug {
        lines.without_time().try_init()
    } else {
        lines.event_format(Messages).try_init()
    };
}

/// `warning: the index is damaged: unexpected end of file (path: .holodeck/index)`
struct Messages;

impl<S, N> FormatEvent<S, N> for Messages
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let kind = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        writeln!(writer, "{kind}: {}", parts.sentence())
    }
}

/// The fields of an event as text.
#[derive(Default)]
struct Parts {
    message: String,
    error: Option<String>,
    others: Vec<String>,
}

impl Parts {
    fn sentence(&self) -> String {
        let mut text = self.message.clone();
        if let Some(error) = &self.error {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {error}");
        }
        if !self.others.is_empty() {
            let _ = write!(text, " ({})", self.others.join(", "));
        }
        text
    }

    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "error" | "reason" => self.error = Some(value),
            name => self.others.push(format!("{}: {value}", name.replace('_', " "))),
        }
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

/// Writes log lines above the progress line, if there is one.
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
