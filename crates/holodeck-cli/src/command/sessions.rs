//! `holodeck sessions`: the conversations that are stored.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Subcommand;
use holodeck::{
    backend_api::Occasion,
    event_store_path,
    events::{EventStore, SessionInfo, StoreError, StoredEvent},
    model::{
        EventStoreKind,
        events::{AgentEvent, EventBody, TextChunk},
        printable,
    },
    open_event_store, open_events,
    reports::format::count,
    runs::ExitCode,
};
use serde_json::Value;
use tokio::time::sleep;

use super::{build_runtime, chat::View};
use crate::{
    failure::{Failure, Problem},
    interrupt::Interrupts,
    render::{conversation, cut, dim, strong},
    terminal::{Terminal, set_redactor},
};

/// Flags of `holodeck sessions`.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    place: StoreArgs,
}

/// Which conversations, and how they are shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The agent file whose conversations these are.
    #[arg(long, global = true, value_name = "AGENT", default_value = "agent.yaml")]
    pub(crate) agent: PathBuf,
    /// Write JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the conversations, the latest first.
    List,
    /// Show a conversation.
    Show(SessionArg),
    /// Show a conversation as it happened, with its pauses.
    Replay {
        #[command(flatten)]
        session: SessionArg,
        /// How many times faster than it was.
        #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
        speed: f64,
    },
    /// Delete a conversation with all its events.
    Delete {
        #[command(flatten)]
        session: SessionArg,
        /// Also while a process answers a message in it.
        #[arg(long)]
        force: bool,
    },
}

/// A conversation.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArg {
    /// The id of the conversation, its beginning, or `last`.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

pub(crate) fn run(args: &SessionsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    build_runtime()?.block_on(async {
        let store = open_existing(&args.place).await?;
        match (&args.action, store) {
            (Action::List, store) => list(store.as_deref(), args.place.json, terminal).await,
            (Action::Show(session), Some(store)) => {
                let info = find(&*store, &session.session).await?;
                show(&read(&*store, &info).await?, args.place.json, terminal)
            }
            (Action::Replay { session, speed }, Some(store)) => {
                let info = find(&*store, &session.session).await?;
                replay(&read(&*store, &info).await?, *speed, args.place.json, terminal).await
            }
            (Action::Delete { session, force }, Some(store)) => {
                let info = find(&*store, &session.session).await?;
                let deleted = store.delete_session(&info.session_id, *force).await;
                deleted.map_err(|error| match error {
                    StoreError::RunInProgress { .. } => Problem::execution(error.to_string())
                        .with_hint("wait until it ends, or delete it with `--force`"),
                    other => Problem::execution(other.to_string()),
                })?;
                terminal.write_message(&format!("deleted {}\n", info.session_id));
                Ok(ExitCode::Passed)
            }
            (_, None) => Err(no_conversations(&args.place).into()),
        }
    })
}

/// The store of the agent's conversations; `None` if there are none. It is not created. If the agent file has errors, the
/// conversations are in the default place.
pub(crate) async fn open_existing(place: &StoreArgs) -> Result<Option<Arc<dyn EventStore>>, Failure> {
    let env = holodeck::environment(&place.agent).map_err(Problem::from)?;
    let agent = holodeck::load(&place.agent, &env).agent;
    let config = agent.as_ref().map(|agent| &agent.config);
    if let (Some(agent), Some(config)) = (&agent, config)
        && config.events.as_ref().map(|events| events.store) == Some(EventStoreKind::Postgres)
    {
        set_redactor(holodeck::redactor(agent, &env));
        let store = open_events(&place.agent, agent, &env, Occasion::Chat).await;
        return Ok(Some(store.map_err(Problem::from)?));
    }
    let path = event_store_path(&place.agent, config);
    if !path.exists() {
        return Ok(None);
    }
    let store = open_event_store(&path).await;
    let store = store.map_err(|error| Problem::execution(error.to_string()))?;
    Ok(Some(Arc::new(store)))
}

pub(crate) fn no_conversations(place: &StoreArgs) -> Problem {
    let agent = place.agent.display();
    Problem::config(format!("there are no conversations with {agent}"))
        .with_hint("`holodeck chat` begins one; `--agent` names the agent file")
}

/// The conversation that an argument means.
pub(crate) async fn find(store: &dyn EventStore, named: &str) -> Result<SessionInfo, Failure> {
    let failed = |error: StoreError| Problem::execution(error.to_string());
    if let Some(session) = store.session(named).await.map_err(failed)? {
        return Ok(session);
    }
    let mut sessions = store.sessions(None).await.map_err(failed)?;
    if named != "last" {
        sessions.retain(|session| session.session_id.starts_with(named));
        if sessions.len() > 1 {
            let ids: Vec<_> = sessions
                .iter()
                .map(|session| session.session_id.as_str())
                .collect();
            return Err(
                Problem::config(format!("`{}` may mean {}", printable(named), ids.join(" or "))).into(),
            );
        }
    }
    sessions.into_iter().next().ok_or_else(|| {
        Problem::config(format!("there is no conversation `{}`", printable(named)))
            .with_hint("`holodeck sessions list` lists them")
            .into()
    })
}

pub(crate) async fn read(store: &dyn EventStore, session: &SessionInfo) -> Result<Vec<StoredEvent>, Failure> {
    let events = store.read_after(&session.session_id, None).await;
    Ok(events.map_err(|error| Problem::execution(error.to_string()))?)
}

async fn list(
    store: Option<&dyn EventStore>,
    json: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let sessions = match store {
        Some(store) => store
            .sessions(None)
            .await
            .map_err(|error| Problem::execution(error.to_string()))?,
        None => Vec::new(),
    };
    if json {
        terminal.write_json(serde_json::to_value(&sessions).map_err(std::io::Error::from)?)?;
    } else if sessions.is_empty() {
        terminal.write_message("no conversations yet\n");
    }
    let width = terminal.width();
    for session in sessions.iter().filter(|_| !json) {
        let runs = usize::try_from(session.runs).unwrap_or(usize::MAX);
        let state = if session.open_run.is_some() {
            ", being answered"
        } else {
            ""
        };
        let about = format!(
            "  {} · {} · {}{state}",
            session.last_at.strftime("%Y-%m-%d %H:%M"),
            printable(session.agent.as_deref().unwrap_or("unknown agent")),
            count(runs, "message"),
        );
        let first = session.first_message.as_deref().unwrap_or_default();
        let first = cut(&printable(&first.replace('\n', " ")), width.saturating_sub(2));
        terminal.write_data(&format!(
            "{}\n{}\n  {first}\n",
            strong(&session.session_id),
            dim(&about)
        ))?;
    }
    Ok(ExitCode::Passed)
}

fn show(events: &[StoredEvent], json: bool, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if json {
        for event in events {
            let event: Value = serde_json::from_str(event.json()).map_err(std::io::Error::from)?;
            terminal.write_json(event)?;
        }
    } else {
        let events: Vec<&AgentEvent> = events.iter().map(StoredEvent::event).collect();
        terminal.write_data(&conversation(&events))?;
    }
    Ok(ExitCode::Passed)
}

/// Longer pauses, such as those of a person, are cut.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Shows events in the order and at the pace in which they were recorded.
async fn replay(
    events: &[StoredEvent],
    speed: f64,
    json: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut view = View::new(terminal, json);
    let mut last = None;
    let mut has_pieces = false;
    for stored in events {
        let event = stored.event();
        let at = event.meta.timestamp;
        let pause = last.map_or(Duration::ZERO, |last| {
            let passed = at.duration_since(last).unsigned_abs();
            passed.min(LONGEST_PAUSE).div_f64(speed)
        });
        last = Some(at);
        tokio::select! {
            () = sleep(pause) => {}
            request = interrupts.next() => return Err(request.problem().into()),
        }
        if json {
            terminal.write_raw(&format!("{}\n", stored.json()))?;
            continue;
        }
        match &event.body {
            EventBody::UserMessageConfirmed(message) => {
                view.end_line(terminal)?;
                terminal.write_data(&format!("you › {}\n", printable(&message.content)))?;
            }
            EventBody::MessageChunk(_) => has_pieces = true,
            // The pieces of an old message are deleted: it appears at once.
            EventBody::Message(message) if !std::mem::take(&mut has_pieces) => {
                let piece = TextChunk {
                    content: message.content.clone(),
                    ..TextChunk::default()
                };
                let piece = AgentEvent::new(event.meta.clone(), EventBody::MessageChunk(piece));
                view.show(&piece, terminal)?;
            }
            _ => {}
        }
        view.show(event, terminal)?;
    }
    view.end_line(terminal)?;
    Ok(ExitCode::Passed)
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if speed.is_finite() && speed > 0.0 {
        Ok(speed)
    } else {
        Err("must be more than 0".to_owned())
    }
}
