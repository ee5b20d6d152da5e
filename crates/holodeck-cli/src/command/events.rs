//! `holodeck events`: the recorded events of conversations.

mod answers;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use clap::Subcommand;
use holodeck::{
    events::{StoreError, StreamChecker, View},
    model::{
        events::{AgentEvent, EventBody},
        io_reason, printable,
    },
    reports::format::count,
    runs::ExitCode,
};
use serde::Serialize;
use serde_json::json;

use self::answers::Answers;
use super::{
    build_runtime,
    sessions::{SessionArg, StoreArgs, find, no_conversations, open_existing, read},
};
use crate::{
    failure::{Failure, Problem},
    interrupt::Interrupts,
    render::strong,
    terminal::Terminal,
};

/// Flags of `holodeck events`.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    place: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the events of a conversation as they are stored, one JSON object a line.
    Export {
        #[command(flatten)]
        session: SessionArg,
        /// Write the answers instead: a row for each message, as `target: {type: answers}` reads them.
        #[arg(long)]
        answers: bool,
        /// The file to write, which must not exist; without it, stdout.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write the events of a conversation, and those that follow, until Ctrl-C; one JSON object a line.
    Tail {
        #[command(flatten)]
        session: SessionArg,
        /// Only those after the event with this index.
        #[arg(long, value_name = "INDEX")]
        after: Option<u64>,
    },
    /// Count the runs, events, tokens and cost of a conversation.
    Stats {
        #[command(flatten)]
        session: SessionArg,
    },
    /// Check the invariants of recorded events.
    Check {
        /// A conversation, a file with one event a line, or `-` for stdin.
        #[arg(value_name = "SESSION|FILE|-")]
        what: String,
    },
}

pub(crate) fn run(args: &EventsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match &args.action {
        Action::Export {
            session,
            answers,
            output,
        } => export(args, session, *answers, output.as_deref(), terminal),
        Action::Tail { session, after } => tail(args, session, *after, terminal),
        Action::Stats { session } => stats(args, session, terminal),
        Action::Check { what } => {
            let lines = read_lines(args, what)?;
            check(what, &lines, args.place.json, terminal)
        }
    }
}

/// The events of a conversation, one a line, as they are stored.
fn stored_lines(args: &EventsArgs, session: &str) -> Result<String, Failure> {
    build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        let store = store.ok_or_else(|| no_conversations(&args.place))?;
        let info = find(&*store, session).await?;
        let mut lines = String::new();
        for event in read(&*store, &info).await? {
            lines += event.json();
            lines.push('\n');
        }
        Ok(lines)
    })
}

/// The answers of a conversation.
fn stored_answers(args: &EventsArgs, session: &str) -> Result<Answers, Failure> {
    build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        let store = store.ok_or_else(|| no_conversations(&args.place))?;
        let info = find(&*store, session).await?;
        let events = read(&*store, &info).await?;
        let events: Vec<AgentEvent> = events.iter().map(|event| event.event().clone()).collect();
        Ok(Answers::of(&info.session_id, &events))
    })
}

fn export(
    args: &EventsArgs,
    session: &SessionArg,
    answers: bool,
    output: Option<&Path>,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let lines = if answers {
        let answers = stored_answers(args, &session.session)?;
        if answers.unanswered > 0 {
            terminal.write_message(&format!(
                "warning: {} without an answer has no row\n",
                count(answers.unanswered, "message")
            ));
        }
        let lines = answers.rows.iter().map(|row| format!("{row}\n"));
        lines.collect()
    } else {
        stored_lines(args, &session.session)?
    };
    match output {
        // JSON escapes control characters, and secrets were masked before they were stored.
        None => terminal.write_raw(&lines)?,
        Some(path) => {
            let written = fs::File::create_new(path).and_then(|mut file| file.write_all(lines.as_bytes()));
            written.map_err(|error| {
                Problem::config(format!("cannot write {}: {}", path.display(), io_reason(&error)))
            })?;
        }
    }
    Ok(ExitCode::Passed)
}

fn tail(
    args: &EventsArgs,
    session: &SessionArg,
    after: Option<u64>,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let failed = |error: StoreError| Problem::execution(error.to_string());
    build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let store = open_existing(&args.place).await?;
        let store = store.ok_or_else(|| no_conversations(&args.place))?;
        let info = find(&*store, &session.session).await?;
        let mut events = store.subscribe(&info.session_id, after).await.map_err(failed)?;
        loop {
            let event = tokio::select! {
                event = events.next() => event.map_err(failed)?,
                request = interrupts.next() => return Err(request.problem().into()),
            };
            // The conversation was deleted.
            let Some(event) = event else {
                return Ok(ExitCode::Passed);
            };
            // JSON escapes control characters, and secrets were masked before they were stored.
            terminal.write_raw(&format!("{}\n", event.json()))?;
        }
    })
}

/// The contents of a conversation, counted.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    session_id: String,
    agent: Option<String>,
    /// Runs by how they ended; one that has not ended is `open`.
    runs: BTreeMap<String, usize>,
    events: BTreeMap<String, usize>,
    tools: BTreeMap<String, usize>,
    total_tokens: u64,
    cost_usd: Option<f64>,
    duration_ms: u64,
}

impl Stats {
    fn add(&mut self, event: &AgentEvent) {
        let count = |counts: &mut BTreeMap<String, usize>, name: &str| {
            *counts.entry(name.to_owned()).or_default() += 1;
        };
        count(&mut self.events, event.body.kind());
        let totals = match &event.body {
            EventBody::ToolUse(call) => return count(&mut self.tools, &call.tool_name),
            EventBody::UserMessageConfirmed(_) => return count(&mut self.runs, "open"),
            EventBody::Complete(end) => {
                count(&mut self.runs, end.reason.as_str());
                &end.totals
            }
            EventBody::Error(error) => {
                count(&mut self.runs, "error");
                &error.totals
            }
            _ => return,
        };
        if let Some(open) = self.runs.get_mut("open") {
            *open -= 1;
            if *open == 0 {
                self.runs.remove("open");
            }
        }
        self.total_tokens += totals.usage.as_ref().map_or(0, |usage| usage.total_tokens);
        self.duration_ms += totals.duration_ms.unwrap_or_default();
        if let Some(cost) = totals.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }
}

fn stats(args: &EventsArgs, session: &SessionArg, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let stats = build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        let store = store.ok_or_else(|| no_conversations(&args.place))?;
        let info = find(&*store, &session.session).await?;
        let mut stats = Stats {
            session_id: info.session_id.clone(),
            agent: info.agent.clone(),
            ..Stats::default()
        };
        for event in read(&*store, &info).await? {
            stats.add(event.event());
        }
        Ok::<_, Failure>(stats)
    })?;
    if args.place.json {
        terminal.write_json(serde_json::to_value(&stats).map_err(io::Error::from)?)?;
        return Ok(ExitCode::Passed);
    }
    let list = |counts: &BTreeMap<String, usize>| {
        let counts = counts
            .iter()
            .map(|(name, count)| format!("{} {count}", printable(name)));
        counts.collect::<Vec<_>>().join(", ")
    };
    let cost = stats
        .cost_usd
        .map_or_else(String::new, |cost| format!(" · ${cost:.4}"));
    let seconds = stats.duration_ms as f64 / 1000.0;
    terminal.write_data(&format!("{}\n", strong(&stats.session_id)))?;
    for (name, text) in [
        ("runs", list(&stats.runs)),
        ("events", list(&stats.events)),
        ("tools", list(&stats.tools)),
        (
            "total",
            format!("{} tokens{cost} · {seconds:.1} s", stats.total_tokens),
        ),
    ] {
        if !text.is_empty() {
            terminal.write_data(&format!("  {name:<7} {text}\n"))?;
        }
    }
    Ok(ExitCode::Passed)
}

fn read_lines(args: &EventsArgs, what: &str) -> Result<String, Failure> {
    let cannot =
        |error: io::Error| Problem::config(format!("cannot read {}: {}", printable(what), io_reason(&error)));
    if what == "-" {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map_err(cannot)?;
        return Ok(text);
    }
    let path = Path::new(what);
    if path.is_file() {
        return Ok(fs::read_to_string(path).map_err(cannot)?);
    }
    if path.is_dir() || what.contains(['/', '.']) {
        // The id of a conversation has neither.
        let why = if path.is_dir() {
            "is a folder"
        } else {
            "does not exist"
        };
        return Err(Problem::config(format!("{} {why}", printable(what)))
            .with_hint(
                "name a file with one event a line, or a conversation; `holodeck sessions list` lists them",
            )
            .into());
    }
    stored_lines(args, what)
}

fn check(what: &str, lines: &str, json: bool, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let mut events = Vec::new();
    for (number, line) in (1..)
        .zip(lines.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let event: AgentEvent = serde_json::from_str(line).map_err(|error| {
            let column = error.column();
            Problem::config(format!(
                "{}:{number}:{column}: not an event: {error}",
                printable(what)
            ))
        })?;
        events.push((number, event));
    }
    if events.is_empty() {
        return Err(Problem::config(format!("{} has no events", printable(what))).into());
    }
    // The store deletes pieces of text some time after their run.
    let has_pieces = events
        .iter()
        .any(|(_, event)| event.body.kind().ends_with("_chunk"));
    let mut checker = StreamChecker::new(if has_pieces { View::Live } else { View::Replay });
    for (_, event) in &events {
        checker.observe(event);
    }
    let violations = checker.finish();
    let found = violations.len();
    for violation in &violations {
        let line = violation
            .at
            .and_then(|at| events.get(at))
            .map(|(number, _)| *number);
        if json {
            terminal.write_json(json!({
                "invariant": violation.invariant.name(),
                "line": line,
                "message": violation.detail,
            }))?;
        } else {
            let place = line.map_or_else(|| "at the end".to_owned(), |line| format!("line {line}"));
            let message = printable(&violation.detail);
            terminal.write_data(&format!("{place}: {}: {message}\n", violation.invariant.name()))?;
        }
    }
    if !json {
        let result = if found == 0 {
            "no violation".to_owned()
        } else {
            count(found, "violation")
        };
        terminal.write_data(&format!("{}, {result}\n", count(events.len(), "event")))?;
    }
    Ok(if found == 0 {
        ExitCode::Passed
    } else {
        ExitCode::Failed
    })
}
