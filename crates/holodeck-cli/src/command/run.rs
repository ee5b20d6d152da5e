//! `holodeck run`: asks one question and streams the answer, or executes a command.

mod routed;

use std::{io, path::Path, sync::Arc, time::Duration};

use holodeck::{
    AskError,
    backend_api::{BackendEvent, ExecutionResult},
    index::IndexSink,
    is_routed,
    model::{Provider, RedactedStream, events::StopReason, shell_word},
    reports::format,
    runs::ExitCode,
    yaml::LoadedAgent,
};
use tokio::sync::Notify;

use super::{
    as_argument, build_runtime,
    chat::{self, ChatArgs, EventFormat},
    load, parse_seconds,
};
use crate::{
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    render::{IndexProgress, ProgressStyle},
    stdin,
    terminal::{Terminal, Verbosity, redactor, write_to_stderr},
};

/// Flags of `holodeck run`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "holodeck run [OPTIONS] [AGENT] QUESTION\n       holodeck run [OPTIONS] [AGENT] --command NAME [ARGS]..."
)]
pub(crate) struct RunArgs {
    /// The agent file (default: `agent.yaml`) and the question; `-` reads the question from stdin.
    // One list, so that flags are accepted between the two.
    #[arg(value_name = "[AGENT] QUESTION", required_unless_present = "command")]
    agent_and_question: Vec<String>,
    /// Write the whole result as one JSON object instead of streaming the answer.
    #[arg(long)]
    json: bool,
    /// Write the events of the answer, one JSON object a line.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    events: Option<EventFormat>,
    /// Store the question and the answer as a conversation.
    #[arg(long)]
    save: bool,
    /// Time out the answer after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    routing: routed::RoutingArgs,
}

/// Asks one question and prints the answer.
pub(crate) fn run(args: &RunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if args.routing.names_command() {
        return routed::run_command(args, terminal);
    }
    let (path, question) = match args.agent_and_question.as_slice() {
        [agent] if is_agent_argument(agent) => {
            let agent = shell_word(agent);
            return Err(Problem::config("the question is missing")
                .with_hint(format!(
                    "`holodeck run {agent} \"…\"`, with the question in quotes"
                ))
                .into());
        }
        [question] => (Path::new("agent.yaml"), question),
        [agent, question] => (Path::new(agent), question),
        _ => {
            return Err(
                Problem::config("expected an agent file and a question, found more arguments")
                    .with_hint("put the question in quotes")
                    .into(),
            );
        }
    };
    let env = holodeck::environment(path).map_err(Problem::from)?;
    if args.save || args.events.is_some() {
        routed::refuse_conversation(path, &env)?;
        let args = ChatArgs::question(path.to_path_buf(), question.clone())
            .saved(args.save)
            .writing(args.json, args.events, args.timeout);
        return chat::run(&args, terminal);
    }
    let mut agent = load(path, &env, terminal)?;
    if is_routed(&agent.config) {
        let question = read_question(question)?;
        return routed::run(args, agent, path, &env, vec![question], terminal);
    }
    args.routing.refuse_without_routing()?;
    let settings = &mut Arc::make_mut(&mut agent.agent).execution;
    settings.llm_timeout.override_with(args.timeout);
    let subject = Subject {
        argument: as_argument(path),
    };
    let question = read_question(question)?;
    let has_format = agent.response_format.is_some();
    let style = ProgressStyle::fitting(terminal, env.get("TERM"));
    let indexing = Arc::new(IndexProgress::new(style, terminal));
    let mut answer = Answer {
        progress: Arc::clone(&indexing),
        terminal,
        // With a response format only the final object is printed, without repaired attempts and text around it.
        streamed: !args.json && !has_format,
        text: RedactedStream::new(redactor()),
        written: 0,
        write_error: None,
    };
    let output_closed = Notify::new();
    let index_listener = Arc::clone(&indexing);
    let on_index = IndexSink::new(move |event| index_listener.on(event));
    let result = build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        indexing.wait_for(&describe_model(&agent));
        let ask = holodeck::ask_with_index_progress(agent, &env, &question, &on_index, |event| {
            if !answer.show(event) {
                output_closed.notify_one();
            }
        });
        tokio::select! {
            result = ask => Ok(result),
            () = output_closed.notified() => Err(Failure::Output(io::ErrorKind::BrokenPipe.into())),
            request = interrupts.next() => Err(request.problem().into()),
        }
    });
    indexing.end();
    answer.end()?;
    let result = match result? {
        Ok(result) => result,
        Err(AskError::Turn { error, partial }) => {
            if args.json {
                let partial = serde_json::to_value(&partial).map_err(io::Error::from)?;
                terminal.write_indented_json(partial)?;
            }
            return Err(subject.ask(AskError::Backend(error)).into());
        }
        Err(error) => return Err(subject.ask(error).into()),
    };
    if args.json {
        terminal.write_indented_json(serde_json::to_value(&result).map_err(io::Error::from)?)?;
    }
    if has_format && !args.json && !result.response.is_empty() {
        match result.structured_output.clone() {
            Some(object) => terminal.write_json(object)?,
            None if terminal.stdout_is_terminal() => {
                terminal.write_data(&format!("{}\n", format::printable(&result.response)))?;
            }
            None => terminal.write_data(&format!("{}\n", result.response))?,
        }
    }
    note_truncation(result.truncated_by.as_ref(), terminal);
    if terminal.verbosity() >= Verbosity::Verbose {
        terminal.write_message(&describe_usage(&result));
    }
    match result.error_reason() {
        None => Ok(ExitCode::Passed),
        Some(reason) => {
            let mut problem = Problem::new(ExitCode::Failed, reason);
            problem.details.extend(result.outcome.detail().map(str::to_owned));
            Err(problem.into())
        }
    }
}

/// Whether an argument alone names an agent file, and is no question.
fn is_agent_argument(argument: &str) -> bool {
    let path = Path::new(argument);
    let is_yaml = path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    let is_name = is_yaml && !argument.contains(char::is_whitespace);
    is_name || path.is_file() || path.join("agent.yaml").is_file()
}

/// Says that a part of the answer is missing or may be.
fn note_truncation(reason: Option<&StopReason>, terminal: &mut Terminal) {
    if let Some(reason) = reason
        && terminal.verbosity() > Verbosity::Quiet
    {
        let note = reason.truncation_note();
        terminal.write_message(&format!("note: {}\n", format::printable(&note)));
    }
}

fn read_question(argument: &str) -> Result<String, Failure> {
    let mut question = argument.to_owned();
    if argument == "-" {
        question = stdin::read_text("question")?;
    }
    if question.trim().is_empty() {
        return Err(Problem::config("the question is empty").into());
    }
    Ok(question)
}

/// Streams the answer to stdout.
struct Answer<'a> {
    /// Removed before the first text is written.
    progress: Arc<IndexProgress>,
    terminal: &'a mut Terminal,
    streamed: bool,
    text: RedactedStream,
    written: usize,
    write_error: Option<io::Error>,
}

/// Writes a line to stderr, above the status line if there is one.
fn report(line: &str) {
    // A closed stderr must not stop the answer.
    let _ = write_to_stderr(format::printable(line).as_bytes());
}

impl Answer<'_> {
    /// Returns false if stdout is closed.
    fn show(&mut self, event: &BackendEvent) -> bool {
        match event {
            BackendEvent::Text { text } if self.streamed => {
                self.written += text.len();
                self.progress.end();
                let masked = self.text.push(text);
                if let Err(error) = self.write(&masked) {
                    self.write_error = Some(error);
                    return false;
                }
            }
            BackendEvent::ToolCall(call) if self.terminal.verbosity() >= Verbosity::Verbose => {
                let call = format!("⚙ {} {}\n", call.name, call.arguments);
                report(&call);
            }
            BackendEvent::Notice { message } if self.terminal.verbosity() > Verbosity::Quiet => {
                report(&format!("note: {message}\n"));
            }
            _ => {}
        }
        true
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        // A terminal would interpret control characters.
        let output = if self.terminal.stdout_is_terminal() {
            format::printable(text)
        } else {
            text.into()
        };
        self.terminal
            .write_raw(&output)
            .and_then(|()| self.terminal.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(error) = self.write_error.take() {
            return Err(error);
        }
        let rest = self.text.finish();
        self.write(&rest)?;
        if self.written > 0 {
            self.terminal.write_data("\n")?;
            self.terminal.flush()?;
        }
        Ok(())
    }
}

/// The model as named in the status line.
fn describe_model(agent: &LoadedAgent) -> String {
    let name = agent.config.answerer();
    match agent.config.provider() {
        Some(Provider::Anthropic) => format!("the Claude Code CLI with {name}"),
        Some(provider) => format!("{provider} {name}"),
        None => name,
    }
}

/// `2 model calls · 512 tokens`
fn describe_usage(result: &ExecutionResult) -> String {
    let calls = format::count(
        usize::try_from(result.num_turns).unwrap_or(usize::MAX),
        "model call",
    );
    match result.token_usage {
        Some(usage) => format!("{calls} · {}\n", format::count_tokens(usage.total_tokens)),
        None => format!("{calls}\n"),
    }
}
