//! `holodeck chat`: a conversation with an agent, in a terminal or from a pipe.

mod editor;
mod slash;
mod talk;
mod view;
mod wrap;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck::{
    AnswerSource, Chat, ChatOptions, OpenOptions, RecordedCaseError,
    backend_api::Occasion,
    conversation::{Concurrency, LOCAL_USER, Thinking},
    event_store_path,
    events::{EventStore, MemoryStore, SessionInfo},
    file_vault,
    index::IndexSink,
    model::{Env, Presence, Provider, ResolvedAgent, io_reason, printable},
    open_events, recorded_case,
    runs::{ExitCode, StoreError},
    yaml::LoadedAgent,
};

use super::{as_argument, build_runtime, load, parse_seconds};
use crate::{
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    render::{IndexProgress, ProgressStyle},
    stdin,
    terminal::{KeptKeys, Terminal, Verbosity},
};

use editor::Editor;
use talk::Talk;
pub(super) use view::View;

/// Flags of `holodeck chat`.
#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    /// The agent file.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    agent: PathBuf,
    /// Continue the latest conversation with this agent.
    #[arg(long, conflicts_with = "session")]
    resume: bool,
    /// Continue this conversation, or begin it under this id.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Continue a case of a test run as a conversation: RUN is a run id, its beginning, `latest`, or the path of a journal
    /// or a report; CASE is the name of a case, or `#3` for the third.
    #[arg(long, value_name = "RUN:CASE", conflicts_with_all = ["session", "resume"])]
    from: Option<String>,
    /// Send one message, print the answer and exit; `-` reads all of stdin as the message.
    #[arg(long, value_name = "QUESTION")]
    once: Option<String>,
    /// Store the conversation of `--once`.
    #[arg(long, requires = "once")]
    save: bool,
    /// Attach a file to the first message; may be repeated.
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Search the files that were attached before, and attach those that match a message without files.
    #[arg(long)]
    auto_context: bool,
    /// Let the model reason before it answers, with at most this many tokens; `off`: not at all.
    #[arg(
        long,
        value_name = "TOKENS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10000",
        value_parser = parse_thinking
    )]
    thinking: Option<Thinking>,
    /// Answer from a recording instead of the model.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Time out each answer after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Write the result of each message as a line of JSON instead of the text of the answer.
    #[arg(long)]
    json: bool,
    /// Write the events of each answer as they are stored, one JSON object a line.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    events: Option<EventFormat>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum EventFormat {
    /// One JSON object a line.
    Ndjson,
}

/// The form of the output on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The text of the answer.
    Text,
    /// Its result, as JSON.
    Result,
    /// Its events, as JSON.
    Events,
}

/// The tokens for reasoning, or `off`. The range is checked with the message.
fn parse_thinking(text: &str) -> Result<Thinking, String> {
    match text {
        "off" => Ok(Thinking::Off),
        _ => text
            .parse()
            .map(Thinking::Budget)
            .map_err(|_| "expected a number of tokens, or `off`".to_owned()),
    }
}

impl ChatArgs {
    /// One question, as `holodeck run` asks it.
    pub(super) fn question(agent: PathBuf, question: String) -> Self {
        Self {
            agent,
            resume: false,
            session: None,
            from: None,
            once: Some(question),
            save: false,
            attach: Vec::new(),
            auto_context: false,
            thinking: None,
            replay: None,
            timeout: None,
            json: false,
            events: None,
        }
    }

    /// Stores the conversation of `--once`.
    pub(super) fn saved(mut self, save: bool) -> Self {
        self.save = save;
        self
    }

    /// Sets what is written, and the time limit.
    pub(super) fn writing(
        mut self,
        json: bool,
        events: Option<EventFormat>,
        timeout: Option<Duration>,
    ) -> Self {
        (self.json, self.events, self.timeout) = (json, events, timeout);
        self
    }

    fn output(&self) -> Output {
        match self.events {
            Some(EventFormat::Ndjson) => Output::Events,
            None if self.json => Output::Result,
            None => Output::Text,
        }
    }

    /// Whether the conversation is kept when the command ends.
    fn is_stored(&self) -> bool {
        self.once.is_none() || self.save || self.resume || self.session.is_some()
    }
}

/// Holds a conversation.
pub(crate) fn run(args: &ChatArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let env = holodeck::environment(&args.agent).map_err(Problem::from)?;
    let agent = load(&args.agent, &env, terminal)?;
    let subject = Subject {
        argument: as_argument(&args.agent),
    };
    let recorded = args.from.as_deref().map(|from| recorded_case(&agent, from));
    let recorded = recorded.transpose().map_err(|error| no_case(&error, &subject))?;
    let once = args.once.as_deref().map(read_message).transpose()?;
    let is_interactive = once.is_none() && terminal.is_interactive() && args.output() == Output::Text;
    let style = ProgressStyle::fitting(terminal, env.get("TERM"));
    let progress = Arc::new(IndexProgress::new(style, terminal));
    let listener = Arc::clone(&progress);
    let options = ChatOptions {
        open: OpenOptions {
            answers: args
                .replay
                .clone()
                .map_or(AnswerSource::AsConfigured, AnswerSource::Replay),
            on_index: IndexSink::new(move |event| listener.on(event)),
            ..OpenOptions::default()
        },
        occasion: Occasion::Chat,
        timeout: args.timeout,
        presence: if is_interactive {
            Presence::Person
        } else {
            Presence::None
        },
        concurrency: Concurrency::Reject,
        files: args.is_stored().then(|| file_vault(&args.agent, &agent.config)),
    };
    build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let store = open_store(args, &agent, &env).await?;
        let (session_id, known) = find_session(args, &agent.config.name, &*store).await?;
        progress.wait_for("the agent");
        let opened = tokio::select! {
            opened = Chat::open(agent, &env, Arc::clone(&store), options) => opened,
            request = interrupts.next() => return Err(request.problem().into()),
        };
        progress.end();
        let chat = opened.map_err(|error| subject.prepare(error))?;
        // A conversation that begins here is the one of the local user, whom a server without tokens knows, too.
        let user = match &known {
            Some(known) => known.owner.clone(),
            None => Some(LOCAL_USER.to_owned()),
        };
        let mut talk = Talk::new(
            &chat,
            &env,
            session_id,
            user,
            terminal,
            &mut interrupts,
            args.output(),
        );
        talk.think(args.thinking);
        talk.search_files(args.auto_context);
        let held = async {
            if is_interactive {
                talk.greet(known.as_ref());
                if known.is_some() {
                    talk.show_conversation().await.map_err(Problem::execution)?;
                }
            } else {
                talk.warn();
            }
            if let Some(case) = recorded {
                talk.begin_with(case, is_interactive).await?;
            }
            for path in &args.attach {
                talk.attach(path).await.map_err(Problem::config)?;
            }
            match once {
                Some(message) => talk.send(&message, None).await.map(|()| talk.exit_code()),
                None if is_interactive => converse(&mut talk, &args.agent).await,
                None => talk_from_pipe(&mut talk).await,
            }
        };
        let ended = held.await;
        let session_id = talk.session_id().to_owned();
        let has_messages = talk.has_messages();
        let closed = chat.close().await;
        let ended = ended?;
        closed.map_err(|error| Problem::execution(error.to_string()))?;
        if args.is_stored() && has_messages && terminal.verbosity() > Verbosity::Quiet {
            terminal.write_message(&format!(
                "continue with `holodeck chat --session {session_id}{}`\n",
                subject.argument
            ));
        }
        Ok(ended)
    })
}

/// A conversation with a person at a terminal.
async fn converse(talk: &mut Talk<'_>, agent_file: &Path) -> Result<ExitCode, Failure> {
    let history = event_store_path(agent_file, None).with_file_name("chat_history");
    let mut editor = Editor::open(Some(history))?;
    // What is typed during an answer is read after it.
    let _keys = KeptKeys::begin();
    loop {
        let line = tokio::select! {
            line = editor.read_message() => line?,
            request = talk.interrupts.next() => return Err(request.problem().into()),
        };
        let Some(line) = line else {
            return Ok(ExitCode::Passed);
        };
        talk.interrupts.forget();
        match slash::Slash::parse(&line, talk.commands()) {
            None if line.trim().is_empty() => {}
            None => {
                talk.send(&line, Some(&mut editor)).await?;
                if talk.is_left() {
                    return Ok(ExitCode::Passed);
                }
            }
            Some(Ok(slash::Slash::Quit)) => return Ok(ExitCode::Passed),
            Some(Ok(command)) => talk.execute(command, &mut editor).await?,
            Some(Err(problem)) => talk.complain(&problem),
        }
    }
}

/// A conversation whose messages are the lines of stdin.
async fn talk_from_pipe(talk: &mut Talk<'_>) -> Result<ExitCode, Failure> {
    // A thread reads, so that a pipe without a writer cannot keep the program from ending.
    let (sender, mut lines) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let ended = line.is_err();
            if sender.blocking_send(line).is_err() || ended {
                return;
            }
        }
    });
    let mut is_first = true;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            request = talk.interrupts.next() => return Err(request.problem().into()),
        };
        let Some(line) = line else {
            return Ok(talk.exit_code());
        };
        let line =
            line.map_err(|error| Problem::config(format!("cannot read stdin: {}", io_reason(&error))))?;
        // A byte order mark is no part of the first message.
        let line = match line.strip_prefix('\u{feff}') {
            Some(rest) if is_first => rest,
            _ => line.as_str(),
        };
        is_first = false;
        match line.trim() {
            "" => {}
            "exit" | "quit" | "/exit" | "/quit" => return Ok(talk.exit_code()),
            message => talk.send(message, None).await?,
        }
        if talk.is_left() {
            return Ok(talk.exit_code());
        }
    }
}

async fn open_store(args: &ChatArgs, agent: &LoadedAgent, env: &Env) -> Result<Arc<dyn EventStore>, Failure> {
    if !args.is_stored() {
        return Ok(Arc::new(MemoryStore::new()));
    }
    Ok(open_events(&args.agent, agent, env, Occasion::Chat)
        .await
        .map_err(Problem::from)?)
}

/// The conversation to continue, with what is known of it, or the id of a new one.
async fn find_session(
    args: &ChatArgs,
    agent: &str,
    store: &dyn EventStore,
) -> Result<(Option<String>, Option<SessionInfo>), Failure> {
    let failed = |error: holodeck::events::StoreError| Problem::execution(error.to_string());
    let known = match &args.session {
        Some(id) => store.session(id).await.map_err(failed)?,
        None if args.resume => {
            let sessions = store.sessions(None).await.map_err(failed)?;
            let latest = sessions
                .into_iter()
                .find(|session| session.agent.as_deref() == Some(agent));
            Some(latest.ok_or_else(|| {
                Problem::config(format!("there is no conversation with `{agent}` to resume"))
                    .with_hint("without `--resume`, `holodeck chat` begins one")
            })?)
        }
        None => None,
    };
    if let Some(known) = &known {
        if let Some(other) = known.agent.as_deref().filter(|other| *other != agent) {
            return Err(Problem::config(format!(
                "session `{}` is a conversation with `{}`, not with `{agent}`",
                known.session_id,
                printable(other)
            ))
            .into());
        }
        if let Some(run) = &known.open_run {
            let process = store.run(run).await.map_err(failed)?.and_then(|run| run.process);
            let process = process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"));
            return Err(Problem::execution(format!(
                "session `{}` is being answered by {process}",
                known.session_id
            ))
            .with_hint("wait until it ends, or stop it there")
            .into());
        }
    }
    let id = known
        .as_ref()
        .map(|known| known.session_id.clone())
        .or_else(|| args.session.clone());
    Ok((id, known))
}

/// A case that cannot be continued.
fn no_case(error: &RecordedCaseError, subject: &Subject) -> Problem {
    let problem = Problem::config(error.to_string());
    match error {
        RecordedCaseError::Run(error) => {
            let problem = subject.store(error);
            match error {
                StoreError::SeveralMembers { .. } => problem.with_hint("give the id of one of its runs"),
                _ => problem,
            }
        }
        RecordedCaseError::Form { .. } => {
            problem.with_hint("write `--from RUN:CASE`, for instance `--from 'latest:refund policy'`")
        }
        RecordedCaseError::NoCase {
            similar: Some(name), ..
        } => problem.with_hint(format!("did you mean `{}`?", printable(name))),
        RecordedCaseError::NoCase { cases, .. } if !cases.is_empty() => {
            let names: Vec<_> = cases
                .iter()
                .map(|name| format!("`{}`", printable(name)))
                .collect();
            problem.with_hint(format!("it has {}", names.join(", ")))
        }
        RecordedCaseError::Ambiguous { places, .. } => {
            let places: Vec<_> = places.iter().map(|place| format!("`{place}`")).collect();
            problem.with_hint(format!("name one by its place: {}", places.join(", ")))
        }
        _ => problem,
    }
}

fn read_message(argument: &str) -> Result<String, Failure> {
    let mut message = argument.to_owned();
    if argument == "-" {
        if io::stdin().is_terminal() {
            return Err(
                Problem::config("`--once -` reads the message from a pipe, and stdin is a terminal").into(),
            );
        }
        message = stdin::read_text("message")?;
    }
    if message.trim().is_empty() {
        return Err(Problem::config("the message is empty").into());
    }
    Ok(message)
}

/// The agent and its model, in one line.
pub(super) fn describe_agent(agent: &ResolvedAgent) -> String {
    let provider = match agent.config.provider() {
        Some(Provider::Anthropic) | None => String::new(),
        Some(other) => format!("{other} "),
    };
    format!("{} · {provider}{}", agent.config.name, agent.config.answerer())
}
