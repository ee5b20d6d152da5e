//! Reads the stored conversations of agents for a view. A file is only read: no run is ended and nothing is migrated,
//! whatever writes it at the same time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_backend_api::Occasion;
use holodeck_events::{
    EventStore, RecordedTurn, SessionInfo, SqliteStore, StoreError, StoredEvent, recorded_turns,
};
use holodeck_model::{Digest, DiskFiles, Env, EventStoreKind, ExecutionState};
use holodeck_reports::{ConversationTurn, TurnState};
use holodeck_turn::TurnRecord;
use holodeck_view::{AgentFile, ConversationStore, Conversations, StoredConversation};
use holodeck_yaml::{LoadedAgent, load_agent};

use crate::{
    agent::{environment::environment, secrets::redactor},
    chat::event_store::{event_store_path, open_events},
};

/// The conversations of the agents on this machine.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it has no state")]
pub struct AgentConversations;

/// A larger YAML file is not looked at.
const MAX_YAML: u64 = 1 << 20;

/// Conversations that are read at once to find one.
const PAGE: usize = 500;

impl Conversations for AgentConversations {
    fn stores(&self, files: &[PathBuf]) -> Vec<ConversationStore> {
        let mut stores: Vec<ConversationStore> = Vec::new();
        for store in files.iter().filter_map(|file| store_of(file)) {
            match stores.iter_mut().find(|known| known.key == store.key) {
                Some(known) => known.agents.extend(store.agents),
                None => stores.push(store),
            }
        }
        stores
    }

    fn list(&self, store: &ConversationStore, limit: usize) -> Result<Vec<StoredConversation>, String> {
        block_on(async {
            let Some(opened) = Opened::open(store).await? else {
                return Ok(Vec::new());
            };
            let sessions = opened.store().sessions_page(None, None, limit).await;
            let mut listed = Vec::new();
            for info in sessions.map_err(reason)? {
                listed.push(opened.describe(info).await?);
            }
            Ok(listed)
        })
    }

    fn find(
        &self,
        store: &ConversationStore,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, String> {
        block_on(async {
            let Some(opened) = Opened::open(store).await? else {
                return Ok(None);
            };
            let mut after = None;
            loop {
                let page = opened.store().sessions_page(None, after.as_ref(), PAGE).await;
                let page = page.map_err(reason)?;
                let Some(last) = page.last() else {
                    return Ok(None);
                };
                after = Some(last.cursor());
                let found = page.into_iter().find(|info| is_wanted(&info.session_id));
                if let Some(found) = found {
                    return Ok(Some(found.session_id));
                }
            }
        })
    }

    fn read(
        &self,
        store: &ConversationStore,
        session: &str,
    ) -> Result<Option<(StoredConversation, Vec<ConversationTurn>)>, String> {
        block_on(async {
            let Some(opened) = Opened::open(store).await? else {
                return Ok(None);
            };
            let Some(info) = opened.store().session(session).await.map_err(reason)? else {
                return Ok(None);
            };
            let events = opened.store().read_after(session, None).await.map_err(reason)?;
            let mut turns = Vec::new();
            for turn in recorded_turns(events.iter().map(StoredEvent::event)) {
                let state = if turn.is_over {
                    TurnState::Over
                } else {
                    opened.state_of_open(&turn.run_id).await?
                };
                turns.push(shown(turn, state));
            }
            Ok(Some((opened.describe(info).await?, turns)))
        })
    }
}

/// The store of the agent in a YAML file, or the one beside the file, if there is one.
fn store_of(path: &Path) -> Option<ConversationStore> {
    let beside = event_store_path(path, None);
    let has_store = exists(&beside);
    let is_small = fs::metadata(path).is_ok_and(|about| about.len() <= MAX_YAML);
    // Most YAML files are not agents, and need not be parsed.
    let names_store = || fs::read_to_string(path).is_ok_and(|text| text.contains("events"));
    if !is_small || !(has_store || names_store()) {
        return None;
    }
    let Some((agent, env)) = loaded(path) else {
        return has_store.then(|| in_file(path, beside, Vec::new()));
    };
    let agents = vec![AgentFile::new(path.to_owned(), agent.config.name.clone())];
    let events = agent.config.events.clone().unwrap_or_default();
    if events.store == EventStoreKind::Postgres {
        // Without a URL, its row says so.
        let place = env.get(&events.url_env).unwrap_or_default().to_owned();
        let place = if place.is_empty() {
            path.display().to_string()
        } else {
            place
        };
        return Some(ConversationStore {
            // A URL can have a password.
            key: Digest::of(&place.into()).to_string(),
            file: None,
            opened_by: path.to_owned(),
            agents,
        });
    }
    let file = event_store_path(path, Some(&agent.config));
    exists(&file).then(|| in_file(path, file, agents))
}

fn in_file(opened_by: &Path, file: PathBuf, agents: Vec<AgentFile>) -> ConversationStore {
    let real = file.canonicalize();
    ConversationStore {
        key: real.as_deref().unwrap_or(&file).display().to_string(),
        file: Some(file),
        opened_by: opened_by.to_owned(),
        agents,
    }
}

/// Whether there is an entry, which can be a link to nothing.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn loaded(path: &Path) -> Option<(LoadedAgent, Env)> {
    let env = environment(path).ok()?;
    let agent = load_agent(path, &env, &DiskFiles).agent?;
    Some((agent, env))
}

/// A store that was opened.
enum Opened {
    File(SqliteStore),
    Database(Arc<dyn EventStore>),
}

impl Opened {
    /// Opens a store; `None` if it is not there, or empty.
    async fn open(store: &ConversationStore) -> Result<Option<Self>, String> {
        if let Some(file) = &store.file {
            let opened = SqliteStore::open_to_read(file).await.map_err(reason)?;
            return Ok(opened.map(Self::File));
        }
        let path = &store.opened_by;
        let (agent, env) = loaded(path).ok_or("the agent file has errors")?;
        let opened = open_events(path, &agent, &env, Occasion::Chat).await;
        let opened = opened.map_err(|error| redactor(&agent, &env).text(&error.to_string()).into_owned())?;
        Ok(Some(Self::Database(opened)))
    }

    fn store(&self) -> &dyn EventStore {
        match self {
            Self::File(store) => store,
            Self::Database(store) => &**store,
        }
    }

    /// The state of a run without an end. A database that was opened has ended those whose processes are gone.
    async fn state_of_open(&self, run_id: &str) -> Result<TurnState, String> {
        let is_orphaned = match self {
            Self::File(store) => store.is_orphaned(run_id).await.map_err(reason)?,
            Self::Database(_) => false,
        };
        Ok(if is_orphaned {
            TurnState::Orphaned
        } else {
            TurnState::Running
        })
    }

    async fn describe(&self, info: SessionInfo) -> Result<StoredConversation, String> {
        let state = match &info.open_run {
            Some(run) => self.state_of_open(run).await?,
            None => TurnState::Over,
        };
        Ok(StoredConversation {
            session: info.session_id,
            first_message: info.first_message,
            agent: info.agent,
            last_at: info.last_at.to_string(),
            last_millis: info.last_at.as_millisecond(),
            messages: info.messages,
            runs: info.runs,
            state,
        })
    }
}

/// The turn as a page shows it.
fn shown(turn: RecordedTurn, state: TurnState) -> ConversationTurn {
    let RecordedTurn {
        run_id,
        message,
        at,
        result,
        duration_ms,
        trajectory,
        unanswered,
        ..
    } = turn;
    let elapsed = duration_ms.unwrap_or_default();
    let mut record = TurnRecord::of_result(message.content, result, trajectory, elapsed);
    if state != TurnState::Over {
        // Its state says why it has no answer.
        record.state = ExecutionState::Error;
        record.failures.clear();
    } else if record.state != ExecutionState::Completed && record.result.response.is_empty() {
        // Nothing arrived, which is no empty answer.
        record.state = ExecutionState::Error;
    }
    ConversationTurn {
        record,
        state,
        run_id,
        at: at.to_string(),
        files: message.attachments.into_iter().map(|file| file.name).collect(),
        waiting: unanswered.into_iter().map(|asked| asked.tool_name).collect(),
    }
}

/// Why a store cannot be read; that it could not be written either does not matter here.
fn reason(error: StoreError) -> String {
    match error {
        StoreError::Failed { reason } => reason,
        other => other.to_string(),
    }
}

/// Waits on a thread that may block.
fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests;
