use std::{
    io::{self, Read as _},
    sync::Arc,
    time::Duration,
};

use holodeck::{
    backend_api::{BackendEvent, ExecutionResult},
    index::IndexSink,
    model::RedactedStream,
    runner::{ExitCode, words},
};
use tokio::sync::Notify;

use super::{as_argument, load, runtime, seconds};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    render::{IndexProgress, ProgressStyle},
    terminal::{Terminal, Verbosity, redactor},
};

/// Flags of `holodeck run`.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// What to ask; `-` reads it from stdin.
    question: String,
    /// Write the whole result as one JSON object, instead of the answer as it comes.
    #[arg(long)]
    json: bool,
    /// The longest the answer may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// The longest question that is read from stdin; no model takes more.
const MAX_QUESTION: u64 = 16 * 1024 * 1024;

/// One question, one answer.
pub(crate) fn run(args: &RunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let mut agent = load(path, &env, terminal)?;
    agent.execution.llm_timeout.override_with(args.timeout);
    let subject = Subject {
        argument: as_argument(path),
    };
    let question = question(&args.question)?;
    let has_format = agent.response_format.is_some();
    let mut answer = Answer {
        terminal,
        // An object is printed whole: repaired attempts and text around it are not part of the answer.
        streamed: !args.json && !has_format,
        text: RedactedStream::new(redactor()),
        written: 0,
        broken: None,
    };
    let gone = Notify::new();
    let style = ProgressStyle::fitting(answer.terminal, env.get("TERM"));
    let indexing = Arc::new(IndexProgress::new(style, answer.terminal));
    let shown = Arc::clone(&indexing);
    let on_index = IndexSink::new(move |event| shown.on(event));
    let asked = runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let ask = holodeck::ask_showing(agent, &env, &question, &on_index, |event| {
            if !answer.show(event) {
                gone.notify_one();
            }
        });
        tokio::select! {
            asked = ask => asked.map_err(|error| Failure::from(subject.ask(error))),
            () = gone.notified() => Err(Failure::Output(io::ErrorKind::BrokenPipe.into())),
            ask = interrupts.next() => Err(ask.problem().into()),
        }
    });
    indexing.end();
    answer.end()?;
    let result = asked?;
    if args.json {
        terminal.indented_json(serde_json::to_value(&result).map_err(io::Error::from)?)?;
    }
    if has_format && !args.json && !result.response.is_empty() {
        match result.structured_output.clone() {
            Some(object) => terminal.json(object)?,
            None if terminal.stdout_is_terminal() => {
                terminal.data(&format!("{}\n", words::printable(&result.response)))?;
            }
            None => terminal.data(&format!("{}\n", result.response))?,
        }
    }
    if terminal.verbosity() >= Verbosity::Verbose {
        terminal.talk(&spent(&result));
    }
    match result.error_reason() {
        None => Ok(ExitCode::Passed),
        Some(reason) => Err(Problem::new(ExitCode::Failed, reason).into()),
    }
}

fn question(typed: &str) -> Result<String, Failure> {
    let mut question = typed.to_owned();
    if typed == "-" {
        question.clear();
        let read = io::stdin()
            .lock()
            .take(MAX_QUESTION)
            .read_to_string(&mut question);
        read.map_err(|error| Problem::config(format!("reading the question from stdin: {error}")))?;
    }
    if question.trim().is_empty() {
        return Err(Problem::config("the question is empty").into());
    }
    Ok(question)
}

/// The answer as it comes.
struct Answer<'a> {
    terminal: &'a mut Terminal,
    streamed: bool,
    text: RedactedStream,
    written: usize,
    broken: Option<io::Error>,
}

impl Answer<'_> {
    /// False when nobody reads any more.
    fn show(&mut self, event: &BackendEvent) -> bool {
        match event {
            BackendEvent::Text { text } if self.streamed => {
                self.written += text.len();
                let shown = self.text.push(text);
                if let Err(error) = self.write(&shown) {
                    self.broken = Some(error);
                    return false;
                }
            }
            BackendEvent::ToolCall(call) if self.terminal.verbosity() >= Verbosity::Verbose => {
                let call = format!("⚙ {} {}\n", call.name, call.arguments);
                self.terminal.talk(&words::printable(&call));
            }
            BackendEvent::Notice { message } if self.terminal.verbosity() > Verbosity::Quiet => {
                self.terminal
                    .talk(&words::printable(&format!("note: {message}\n")));
            }
            _ => {}
        }
        true
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        // A terminal obeys what a file only holds.
        let shown = if self.terminal.stdout_is_terminal() {
            words::printable(text)
        } else {
            text.into()
        };
        self.terminal.raw(&shown).and_then(|()| self.terminal.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let rest = self.text.finish();
        self.write(&rest)?;
        if self.written > 0 {
            self.terminal.data("\n")?;
            self.terminal.flush()?;
        }
        Ok(())
    }
}

/// `2 model calls · 512 tokens`
fn spent(result: &ExecutionResult) -> String {
    let calls = words::count(
        usize::try_from(result.num_turns).unwrap_or(usize::MAX),
        "model call",
    );
    match result.token_usage {
        Some(usage) => format!("{calls} · {} tokens\n", words::tokens(usage.total_tokens)),
        None => format!("{calls}\n"),
    }
}
