//! `holodeck serve`: agents behind HTTP.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::ValueEnum;
use holodeck::{
    AnswerSource, Chat, OpenOptions, ServeError, ServeFlags, Server, event_store_path,
    index::IndexSink,
    model::{EventStoreKind, EventsConfig, ServeProtocol, printable},
    runs::ExitCode,
};

use tokio::sync::mpsc;

use super::{as_argument, chat::describe_agent, load, parse_seconds};
use crate::{
    failure::{Failure, Problem, Subject},
    interrupt::{Interrupts, StopRequest, TerminateLimits},
    logging::LogFormat,
    render::{IndexProgress, ProgressStyle, dim, shown_path, strong},
    terminal::{Terminal, Verbosity, set_redactor},
};

/// Flags of `holodeck serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The agent files; the first one answers where a client names none.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    agents: Vec<PathBuf>,
    /// Listen on this address.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Listen on this port; 0 takes a free one.
    #[arg(short, long)]
    port: Option<u16>,
    /// The protocol that clients can use.
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Let web pages of these origins use the server; separated by commas.
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',')]
    cors_origins: Vec<String>,
    /// Answer from a recording instead of the model.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Time out each answer after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Let runs end for this many seconds before the server stops.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "10")]
    drain: Duration,
    /// Write where the server listens as a line of JSON.
    #[arg(long)]
    json: bool,
    /// The form of the log on stderr.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// The protocol that clients can use.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protocol {
    /// REST, server-sent events, WebSockets, and the endpoint for OpenAI clients.
    Rest,
    /// AG-UI.
    AgUi,
    /// All of it.
    Both,
}

/// Threads for reading files and databases.
const BLOCKING_THREADS: usize = 32;

/// Time for what comes after the runs: streams, agents, telemetry.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Serves until a signal arrives.
pub(crate) fn run(args: &ServeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let Some(first) = args.agents.first() else {
        return Err(Problem::config("no agent is named").into());
    };
    let mut agents = Vec::new();
    let mut environment = None;
    for path in &args.agents {
        let env = holodeck::environment(path).map_err(Problem::from)?;
        agents.push((path.clone(), load(path, &env, terminal)?));
        // One process has one environment: that of the first agent.
        environment.get_or_insert(env);
    }
    let env = environment.unwrap_or_default();
    let loaded = agents.iter().map(|(_, agent)| &**agent);
    let env = holodeck::shared_environment(loaded, &env);
    for (_, agent) in agents.iter().take(1) {
        set_redactor(holodeck::redactor(agent, &env));
    }
    let config = agents.first().map(|(_, agent)| agent.config.without_cases());
    let config = config.ok_or_else(|| Problem::config("no agent is named"))?;
    let style = ProgressStyle::fitting(terminal, env.get("TERM"));
    let progress = Arc::new(IndexProgress::new(style, terminal));
    let listener = Arc::clone(&progress);
    let flags = ServeFlags {
        host: args.host.clone(),
        port: args.port,
        cors_origins: args.cors_origins.clone(),
        protocol: args.protocol.map(|protocol| match protocol {
            Protocol::Rest => ServeProtocol::Rest,
            Protocol::AgUi => ServeProtocol::AgUi,
            Protocol::Both => ServeProtocol::Both,
        }),
        drain: Some(args.drain),
        timeout: args.timeout,
        open: OpenOptions {
            answers: args
                .replay
                .clone()
                .map_or(AnswerSource::AsConfigured, AnswerSource::Replay),
            on_index: IndexSink::new(move |event| listener.on(event)),
            ..OpenOptions::default()
        },
    };
    // Clients are independent of each other, so that more than one thread pays (docs/adr/0008).
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    let runtime = runtime.map_err(|error| Problem::execution(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut interrupts = Interrupts::listen_with(TerminateLimits {
            first: args.drain.saturating_add(CLOSE_LIMIT),
            again: CLOSE_LIMIT,
        })?;
        progress.wait_for(if agents.len() == 1 {
            "the agent"
        } else {
            "the agents"
        });
        let opened = tokio::select! {
            opened = Server::open(agents, &env, flags) => opened,
            request = interrupts.next() => return Err(request.problem().into()),
        };
        progress.end();
        let server = opened.map_err(failed)?;
        let kept = match config.events.clone().unwrap_or_default() {
            EventsConfig {
                store: EventStoreKind::Memory,
                ..
            } => "conversations end with the server".to_owned(),
            EventsConfig {
                store: EventStoreKind::Postgres,
                url_env,
                ..
            } => {
                format!("conversations are kept in the database of {url_env}")
            }
            EventsConfig {
                store: EventStoreKind::Sqlite,
                ..
            } => {
                let path = shown_path(&event_store_path(first, Some(&config)));
                format!("conversations are kept in {}", path.display())
            }
        };
        announce(&server, &kept, args, terminal)?;
        let mut stopped_by = None;
        let mut is_stopped = false;
        let (sender, signals) = mpsc::unbounded_channel();
        let stop = async {
            loop {
                let request = interrupts.next().await;
                let text = match stopped_by {
                    None => {
                        let seconds = args.drain.as_secs_f64();
                        format!("stopping: runs have {seconds} s to end; Ctrl-C again stops them now")
                    }
                    Some(_) => "stopping the runs that have not ended".to_owned(),
                };
                if !is_stopped {
                    say(&text, args.log_format, terminal);
                }
                is_stopped = stopped_by.is_some();
                stopped_by.get_or_insert(request);
                // Without a receiver the server has ended.
                let _ = sender.send(());
            }
        };
        tokio::select! {
            ended = server.run(signals) => ended.map_err(|error| Problem::execution(error.to_string()))?,
            () = stop => {}
        }
        Ok(match stopped_by {
            Some(StopRequest::Interrupt) => ExitCode::Interrupted,
            _ => ExitCode::Passed,
        })
    })
}

/// Says something to the person who started the server: a message, or a line of the log.
fn say(text: &str, format: LogFormat, terminal: &mut Terminal) {
    match format {
        LogFormat::Json => tracing::info!("{text}"),
        LogFormat::Text if terminal.verbosity() > Verbosity::Quiet => {
            terminal.write_message(&format!("{text}\n"));
        }
        LogFormat::Text => {}
    }
}

fn announce(server: &Server, kept: &str, args: &ServeArgs, terminal: &mut Terminal) -> Result<(), Failure> {
    let url = format!("http://{}", server.address());
    let is_log = args.log_format == LogFormat::Json;
    if is_log {
        tracing::info!(url, version = env!("CARGO_PKG_VERSION"), kept, "started");
    }
    for chat in server.chats() {
        let config = &chat.agent().config;
        if config.enabled_loop().is_some() && terminal.verbosity() > Verbosity::Quiet {
            let name = printable(&config.name);
            let note = format!(
                "note: `{name}` is served without its `quality_loop`; `holodeck test --without-loop` tests that"
            );
            say(&note, args.log_format, terminal);
        }
        for warning in chat.warnings() {
            if is_log {
                tracing::warn!("{warning}");
            } else {
                terminal.write_message(&format!("warning: {warning}\n"));
            }
        }
    }
    if args.json {
        let names: Vec<_> = server
            .chats()
            .iter()
            .map(|chat| chat.agent().config.name.clone())
            .collect();
        terminal.write_data(&format!(
            "{}\n",
            serde_json::json!({ "url": url, "agents": names })
        ))?;
        terminal.flush()?;
        return Ok(());
    }
    if is_log || terminal.verbosity() == Verbosity::Quiet {
        return Ok(());
    }
    let describe = |chat: &Chat| format!("{}\n", printable(&describe_agent(chat.agent())));
    let agents: String = server.chats().iter().map(describe).collect();
    let token = if server.needs_token() {
        "clients send a token"
    } else {
        "every program of this machine may use it; HOLODECK_TOKEN or `serve.auth` sets a token"
    };
    let more = dim(&format!("  {url}/docs lists the calls\n  {token}\n  {kept}\n"));
    let text = format!("{agents}listening on {}\n{more}", strong(&url));
    terminal.write_message(&text);
    Ok(())
}

fn failed(error: ServeError) -> Failure {
    let message = error.to_string();
    match error {
        ServeError::Agent { file, error } => {
            let argument = as_argument(&file);
            Subject { argument }.prepare(*error).into()
        }
        ServeError::Config { hint, .. } => Problem::config(message).with_hint(hint).into(),
        ServeError::Target(refused) => Problem::from(refused).into(),
        ServeError::Listen { .. } => Problem::execution(message)
            .with_hint("another program may use the port: choose another one with `--port`")
            .into(),
        _ => Problem::execution(message).into(),
    }
}
