//! The stored conversations of the agents below a folder. The facade, which opens their stores, reads them; a request names
//! one by a digest, never by its id or a path.

use std::{cmp::Reverse, fmt, path::PathBuf};

use holodeck_reports::{ConversationEntry, ConversationTurn, ListedConversation, TurnState};
use sha2::{Digest as _, Sha256};

use crate::{AgentFile, Catalogue, folder::yaml_below};

/// Reads the conversations that agents keep.
pub trait Conversations: fmt::Debug + Send + Sync {
    /// The stores of the agents in these YAML files, each once. A file without an agent has only the store beside it, if
    /// there is one. A store that does not exist is left out.
    fn stores(&self, files: &[PathBuf]) -> Vec<ConversationStore>;

    /// Up to `limit` conversations of a store, newest first.
    fn list(&self, store: &ConversationStore, limit: usize) -> Result<Vec<StoredConversation>, String>;

    /// The id of the first conversation whose id is accepted.
    fn find(
        &self,
        store: &ConversationStore,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, String>;

    /// A conversation with its turns, unless it does not exist.
    fn read(
        &self,
        store: &ConversationStore,
        session: &str,
    ) -> Result<Option<(StoredConversation, Vec<ConversationTurn>)>, String>;
}

/// A store of conversations, which several agents may share.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ConversationStore {
    /// Distinguishes it from other stores.
    pub key: String,
    /// Its file; `None` for a database.
    pub file: Option<PathBuf>,
    /// A file whose settings lead to it.
    pub opened_by: PathBuf,
    /// The agents that use it.
    pub agents: Vec<AgentFile>,
}

/// A conversation as its store describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct StoredConversation {
    /// Its id.
    pub session: String,
    /// The first message of the person.
    pub first_message: Option<String>,
    /// The name of the agent, if its beginning names it.
    pub agent: Option<String>,
    /// When its last event was recorded, RFC 3339.
    pub last_at: String,
    /// The same in milliseconds, for the order.
    pub last_millis: i64,
    /// The messages of the person and of the agent.
    pub messages: u64,
    /// The runs.
    pub runs: u64,
    /// How far its last run is.
    pub state: TurnState,
}

/// A part of all conversations.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) entries: Vec<ConversationEntry>,
    /// The store of each entry.
    pub(crate) stores: Vec<ConversationStore>,
    pub(crate) has_more: bool,
}

/// A conversation that was asked for.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) about: ListedConversation,
    pub(crate) turns: Vec<ConversationTurn>,
    agents: Vec<AgentFile>,
}

impl Found {
    /// Reads a conversation; `None` if it does not exist.
    pub(crate) fn read(
        catalogue: &Catalogue,
        source: &dyn Conversations,
        store: &ConversationStore,
        session: &str,
    ) -> Result<Option<Self>, String> {
        let read = source.read(store, session)?;
        Ok(read.map(|(about, turns)| Self {
            about: listed(catalogue, store, about),
            turns,
            agents: store.agents.clone(),
        }))
    }

    /// The file of its agent; why not, if it is not certain.
    pub(crate) fn agent_file(&self) -> Result<&AgentFile, String> {
        let name = self.about.agent.as_deref();
        let name = name.ok_or("the conversation does not name its agent")?;
        match files_of(&self.agents, name).as_slice() {
            [file] => Ok(file),
            [] => Err(format!(
                "no agent file that leads to this conversation has the agent `{name}`"
            )),
            [..] => Err(format!("several files have the agent `{name}`")),
        }
    }
}

/// Conversations of a page of the list.
const PAGE_ROWS: usize = 100;

/// The conversations of a page of the list, which is counted from 1, or all. A store that cannot be read is the first row of
/// the first page.
pub(crate) fn list(
    catalogue: &Catalogue,
    source: &dyn Conversations,
    number: Option<usize>,
    page: &dyn Fn(&str) -> String,
) -> Listed {
    let end = number.map_or(usize::MAX, |number| number.saturating_mul(PAGE_ROWS));
    let (mut entries, mut stores_of) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for store in stores(catalogue, source) {
        let listed = is_below(catalogue, &store).and_then(|()| source.list(&store, end.saturating_add(1)));
        match listed {
            Ok(listed) => found.extend(listed.into_iter().map(|about| (about, store.clone()))),
            Err(problem) if number.is_none_or(|number| number <= 1) => {
                entries.push(ConversationEntry {
                    page: None,
                    store: shown(catalogue, &store),
                    conversation: Err(problem),
                });
                stores_of.push(store);
            }
            Err(_) => {}
        }
    }
    found.sort_by(|(a, _), (b, _)| {
        (Reverse(a.last_millis), &a.session).cmp(&(Reverse(b.last_millis), &b.session))
    });
    let has_more = found.len() > end;
    let first = number.map_or(0, |_| end - PAGE_ROWS);
    for (about, store) in found.into_iter().take(end).skip(first) {
        entries.push(ConversationEntry {
            page: Some(page(&id_of(&store, &about.session))),
            store: shown(catalogue, &store),
            conversation: Ok(listed(catalogue, &store, about)),
        });
        stores_of.push(store);
    }
    Listed {
        entries,
        stores: stores_of,
        has_more,
    }
}

/// The conversation with this digest; why not, if it cannot be found.
pub(crate) fn find(catalogue: &Catalogue, source: &dyn Conversations, id: &str) -> Result<Found, String> {
    let mut problems = Vec::new();
    for store in stores(catalogue, source) {
        let is_wanted = |session: &str| id_of(&store, session) == id;
        let read = || {
            is_below(catalogue, &store)?;
            let Some(session) = source.find(&store, &is_wanted)? else {
                return Ok(None);
            };
            Found::read(catalogue, source, &store, &session)
        };
        match read() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(problem) => problems.push(format!("; `{}`: {problem}", shown(catalogue, &store))),
        }
    }
    Err(format!(
        "there is no conversation `{id}`; it may have been deleted{}",
        problems.concat()
    ))
}

fn stores(catalogue: &Catalogue, source: &dyn Conversations) -> Vec<ConversationStore> {
    source.stores(&yaml_below(catalogue.folder()))
}

/// Refuses a file outside of the folder, to which a setting or a link may lead.
fn is_below(catalogue: &Catalogue, store: &ConversationStore) -> Result<(), String> {
    let Some(file) = &store.file else {
        return Ok(());
    };
    match file.canonicalize() {
        Ok(file) if file.starts_with(catalogue.folder()) => Ok(()),
        Ok(_) => {
            Err("the store is outside of the folder of this view: start it in a folder above both".to_owned())
        }
        Err(error) => Err(holodeck_model::io_reason(&error)),
    }
}

fn listed(catalogue: &Catalogue, store: &ConversationStore, about: StoredConversation) -> ListedConversation {
    let files = files_of(&store.agents, about.agent.as_deref().unwrap_or_default());
    let files: Vec<String> = files
        .iter()
        .map(|file| catalogue.shown_path(&file.path))
        .collect();
    ListedConversation {
        session: about.session,
        first_message: about.first_message,
        agent: about.agent,
        file: (!files.is_empty()).then(|| files.join(", ")),
        last_at: about.last_at,
        messages: about.messages,
        runs: about.runs,
        state: about.state,
    }
}

fn files_of<'a>(agents: &'a [AgentFile], name: &str) -> Vec<&'a AgentFile> {
    agents.iter().filter(|file| file.agent == name).collect()
}

/// The store as it is shown: its file, or the file whose settings lead to the database.
fn shown(catalogue: &Catalogue, store: &ConversationStore) -> String {
    match &store.file {
        Some(file) => catalogue.shown_path(file),
        None => format!("the database of {}", catalogue.shown_path(&store.opened_by)),
    }
}

/// Names a conversation in addresses: a digest of its store and its id.
fn id_of(store: &ConversationStore, session: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(&store.key);
    digest.update([0]);
    digest.update(session);
    holodeck_model::hex_prefix(&digest.finalize(), 16)
}

#[cfg(test)]
mod tests;
