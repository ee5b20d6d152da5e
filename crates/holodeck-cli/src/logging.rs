//! Log events on stderr: warnings in the form of other messages, all events with `-vv`. A server writes lines with a time,
//! or JSON.

use std::{
    fmt::{self, Write as _},
    io,
};

use clap::ValueEnum;
use holodeck::model::printable;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    registry::LookupSpan,
};

use crate::terminal::{Verbosity, write_to_stderr};

/// The form of a server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text with its time.
    Text,
    /// An object per line: `time`, `level`, `message`, and the fields of the message.
    Json,
}

/// Log lines are written above the progress, so only `-vv` shows more than warnings. `server` is the form of the log of a
/// command that serves.
pub(crate) fn start(verbosity: Verbosity, server: Option<LogFormat>) {
    let filter = match server {
        None => filter_of_command(verbosity).to_owned(),
        Some(_) => format!("{},{}", filter_of_command(verbosity), filter_of_server(verbosity)),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| Lines)
        .with_ansi(false);
    // A second call, as in a test, changes nothing.
    let _ = match server {
        Some(format) => lines.event_format(ServerLines(format)).try_init(),
        None if verbosity == Verbosity::Debug => lines.without_time().try_init(),
        None => lines.event_format(Messages).try_init(),
    };
}

/// The filter for a server, besides that of a command.
fn filter_of_server(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::Quiet => "holodeck_events=error",
        Verbosity::Normal => {
            "holodeck_cli=info,holodeck_serve=info,holodeck_events=info,holodeck_chat=info,\
             holodeck_serve::requests=off"
        }
        // With a line for each request.
        Verbosity::Verbose | Verbosity::Debug => {
            "holodeck_cli=info,holodeck_serve=info,holodeck_events=info,holodeck_chat=info"
        }
    }
}

fn filter_of_command(verbosity: Verbosity) -> &'static str {
    // Warnings of the MCP library are reported by this project, together with the server's stderr. A command reports
    // the errors of its store itself.
    match verbosity {
        // How a command ended is an error of this program.
        Verbosity::Quiet => "error,rmcp=off,holodeck::routing::result=off,holodeck_events=off",
        Verbosity::Normal => "warn,rmcp=off,holodeck::routing::result=off,holodeck_events=off",
        // Includes why cases share processes or not.
        Verbosity::Verbose => {
            "warn,rmcp=off,holodeck::routing::result=off,holodeck_events=off,holodeck_backend_claude::pool=info"
        }
        Verbosity::Debug => {
            "info,holodeck=debug,holodeck_runner=debug,holodeck_http=debug,\
                             holodeck_backend_openai=debug,holodeck_tools=debug,holodeck_cassette=debug,\
                             holodeck_backend_claude=debug,holodeck_mcp_bridge=debug,rmcp=warn"
        }
    }
}

/// `2026-11-26T17:20:00.123456Z warning: refused requests without a valid token (address: 10.0.0.7, count: 3)`
struct ServerLines(LogFormat);

impl<S, N> FormatEvent<S, N> for ServerLines
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
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        match self.0 {
            LogFormat::Text => {
                let mut parts = Parts::default();
                event.record(&mut parts);
                // No value begins a line of its own.
                let sentence = parts.sentence();
                let lines: Vec<&str> = sentence.lines().map(str::trim).collect();
                writeln!(writer, "{time} {level}: {}", printable(&lines.join("; ")))
            }
            LogFormat::Json => {
                let mut fields = Fields(Map::new());
                event.record(&mut fields);
                let mut line = Map::new();
                line.insert("time".to_owned(), time.into());
                line.insert("level".to_owned(), level.into());
                line.extend(fields.0);
                // A line is masked as a text, where a secret that has become a key is found, too.
                writeln!(writer, "{}", Value::Object(line))
            }
        }
    }
}

/// The fields of an event as JSON.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            name @ ("time" | "level") => format!("{name}_"),
            name => name.to_owned(),
        };
        self.0.insert(name, value.into());
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
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
