//! The conversation of an AG-UI thread: the client's history counts. Where it differs from what is stored, a branch
//! begins, so that the model does not see what the client removed. Nothing that is stored is changed.

use holodeck_backend_api::HistoryItem;
use holodeck_chat::{AgentRunService, Concurrency, RunError, RunHandle};
use holodeck_events::{StoreError, StoredEvent};
use holodeck_model::{
    digest_json,
    events::{CompleteReason, EventBody},
};

use crate::{
    App,
    idempotency::reused,
    problem::{Problem, Result},
};

/// How often the history of a thread can be changed.
const MAX_BRANCHES: u32 = 10_000;
/// The length of an id that leaves room for the number of a branch.
const LONG_ID: usize = 100;

/// A message of the person with the texts of its answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Exchange {
    message: String,
    answer: Vec<String>,
}

/// A run as it is stored, or as it waits for its turn.
#[derive(Debug, Default)]
struct Past {
    exchange: Exchange,
    message_id: Option<String>,
    run_id: Option<String>,
    /// The index of its end.
    end: Option<u64>,
    /// Whether the answer is whole.
    is_whole: bool,
    /// Whether the next turn sees it.
    is_seen: bool,
}

/// How a history relates to what is stored.
#[derive(Debug, PartialEq, Eq)]
enum Relation {
    /// It is the same.
    Same,
    /// It ends after the run that ends with this event, and what is stored does not; `None`: before the first run.
    EndsAfter(Option<u64>),
    /// It has other texts.
    Other,
}

/// The id of the `number`th branch of a thread; the thread itself has the number 0.
fn branch_id(thread: &str, number: u32) -> String {
    match number {
        0 => thread.to_owned(),
        number if thread.len() <= LONG_ID => format!("{thread}:branch-{number}"),
        number => {
            let digest = digest_json(&thread.into());
            format!("{}:branch-{number}", digest.trim_start_matches("sha256:"))
        }
    }
}

/// The ids of a thread of `user` and of its branches, as they are stored, the first one first; none for an unknown thread.
pub(crate) async fn branches(app: &App, user: &str, thread: &str) -> Result<Vec<String>> {
    let mut branches = Vec::new();
    for number in 0..MAX_BRANCHES {
        // A stranger can use the name of a branch as an id.
        let id = app.stored_id(&branch_id(thread, number), user).await?;
        if app.store().session(&id).await?.is_none() {
            break;
        }
        branches.push(id);
    }
    Ok(branches)
}

/// Where a message is answered.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The thread, its latest branch, or a new one.
    pub(crate) session_id: String,
    /// The run that answers it, if the same request was sent before.
    pub(crate) run_id: Option<String>,
}

impl Settled {
    fn conversation(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            run_id: None,
        }
    }

    fn answered(session_id: impl Into<String>, run_id: String) -> Self {
        Self {
            session_id: session_id.into(),
            run_id: Some(run_id),
        }
    }
}

/// A message as a client sent it.
pub(crate) struct Sent<'a> {
    pub(crate) message: &'a str,
    /// Its id in the conversation.
    pub(crate) id: &'a str,
    /// The beginning of the ids of all messages that were sent with its `Idempotency-Key`.
    pub(crate) key: Option<&'a str>,
}

impl Sent<'_> {
    /// The run that answers it, if it was sent before. An error if another one was sent with its id or its key.
    fn run_in(&self, past: &[Past], service: &AgentRunService) -> Result<Option<String>> {
        let is_meant = |run: &&Past| {
            run.message_id.as_deref().is_some_and(|id| match self.key {
                Some(key) => id.starts_with(key),
                None => id == self.id,
            })
        };
        let Some(run) = past.iter().find(is_meant) else {
            return Ok(None);
        };
        if run.message_id.as_deref() != Some(self.id) {
            return Err(reused());
        }
        let run_id = run.run_id.clone().unwrap_or_default();
        if run.exchange.message != service.masked(self.message) {
            return Err(StoreError::MessageIdReused { run_id }.into());
        }
        Ok(Some(run_id))
    }
}

/// The conversation in which a message is answered after this history. Until the message is stored, the caller holds the
/// [`ThreadLock`](crate::threads::ThreadLock) of the thread: the same request at the same time finds it then.
pub(crate) async fn settle(
    (app, service): (&App, &AgentRunService),
    user: &str,
    thread: &str,
    sent: &Sent<'_>,
    history: &[HistoryItem],
) -> Result<Settled> {
    let store = &**service.store();
    let mut has_recovered = false;
    // The first number that no other process has taken meanwhile.
    let mut free = 0;
    loop {
        let mut earlier = branches(app, user, thread).await?;
        let next = u32::try_from(earlier.len()).unwrap_or(MAX_BRANCHES);
        let Some(session_id) = earlier.pop() else {
            let thread = app.stored_id(thread, user).await?;
            if history.is_empty() {
                return Ok(Settled::conversation(thread));
            }
            return match service.import(&thread, Some(user), history.to_vec()).await {
                // Another request was faster.
                Ok(()) | Err(RunError::Store(StoreError::SessionExists { .. })) => {
                    Ok(Settled::conversation(thread))
                }
                Err(error) => Err(error.into()),
            };
        };
        if sent.key.is_some() {
            // A key counts in the whole thread.
            for branch in &earlier {
                let past = past_runs(&store.read_after(branch, None).await?, &service.runs_of(branch));
                if let Some(run_id) = sent.run_in(&past, service)? {
                    return Ok(Settled::answered(branch, run_id));
                }
            }
        }
        // First: one that begins meanwhile is stored.
        let active = service.runs_of(&session_id);
        let session = store.session(&session_id).await?;
        let past = past_runs(&store.read_after(&session_id, None).await?, &active);
        if let Some(run_id) = sent.run_in(&past, service)? {
            return Ok(Settled::answered(session_id, run_id));
        }
        let open = session.and_then(|session| session.open_run);
        if let Some(open) = &open
            && !has_recovered
            && active.iter().all(|run| run.run_id() != open)
        {
            // Its process may be gone: then it is over.
            store.recover().await?;
            has_recovered = true;
            continue;
        }
        if open.is_some() && service.concurrency() == Concurrency::Reject {
            return Ok(Settled::conversation(session_id));
        }
        let relation = compare(&past, &exchanges(service, history));
        if relation == Relation::Same {
            return Ok(Settled::conversation(session_id));
        }
        free = free.max(next);
        if free >= MAX_BRANCHES {
            return Err(Problem::invalid(
                "the history of this thread was changed too often; begin another one",
            ));
        }
        let branch = app.stored_id(&branch_id(thread, free), user).await?;
        free += 1;
        let begun = match relation {
            Relation::EndsAfter(Some(end)) => {
                let forked = store
                    .fork_session(&session_id, Some(end), &branch, Some(user))
                    .await;
                forked.map(|_| ()).map_err(RunError::Store)
            }
            _ => service.import(&branch, Some(user), history.to_vec()).await,
        };
        match begun {
            Ok(()) => {
                if service.concurrency() == Concurrency::Interrupt {
                    stop(active).await;
                }
                return Ok(Settled::conversation(branch));
            }
            // Another process was faster: its branch is the latest one now, and may have this very message.
            Err(RunError::Store(StoreError::SessionDeleted { .. } | StoreError::SessionExists { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stops what the client has removed: with `interrupt`, a message takes the place of the one before, also in another branch.
async fn stop(runs: Vec<RunHandle>) {
    for run in &runs {
        run.cancel();
    }
    for mut run in runs {
        // However it ended, it is over.
        let _ = run.finish().await;
    }
}

/// The runs of a conversation, also the one in progress, and those that wait for it.
fn past_runs(events: &[StoredEvent], active: &[RunHandle]) -> Vec<Past> {
    let mut runs: Vec<Past> = Vec::new();
    // The text of a message that has no end yet.
    let mut unfinished = String::new();
    for event in events {
        let index = event.index();
        let event = event.event();
        if let EventBody::UserMessageConfirmed(message) = &event.body {
            unfinished.clear();
            runs.push(Past {
                exchange: Exchange {
                    message: message.content.clone(),
                    answer: Vec::new(),
                },
                message_id: message.client_message_id.clone(),
                run_id: event.meta.run_id.clone(),
                // The next turn sees what the one in progress leaves.
                is_seen: true,
                ..Past::default()
            });
        }
        let Some(run) = runs.last_mut() else { continue };
        match &event.body {
            EventBody::MessageChunk(chunk) if event.meta.parent_tool_use_id.is_none() => {
                unfinished.push_str(&chunk.content);
            }
            EventBody::Message(message) if event.meta.parent_tool_use_id.is_none() => {
                unfinished.clear();
                run.exchange.answer.push(message.content.clone());
            }
            EventBody::Complete(end) => {
                unfinished.clear();
                run.end = Some(index);
                run.is_whole = end.reason == CompleteReason::Success;
                run.is_seen = end.reason != CompleteReason::Error;
            }
            EventBody::Error(_) => {
                unfinished.clear();
                run.end = Some(index);
                // Of a run whose process ended, the next turn sees what had arrived.
                run.is_seen = run.exchange.answer.iter().any(|text| !text.is_empty());
            }
            _ => {}
        }
    }
    if let Some(run) = runs.last_mut() {
        run.exchange.answer.push(unfinished);
    }
    for run in active {
        if runs
            .iter()
            .all(|past| past.run_id.as_deref() != Some(run.run_id()))
        {
            runs.push(Past {
                exchange: Exchange {
                    message: run.message().to_owned(),
                    answer: Vec::new(),
                },
                message_id: run.client_message_id().map(ToOwned::to_owned),
                run_id: Some(run.run_id().to_owned()),
                is_seen: true,
                ..Past::default()
            });
        }
    }
    runs
}

/// The exchanges of a client's history, as they would be stored.
fn exchanges(service: &AgentRunService, history: &[HistoryItem]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for item in history {
        match item {
            HistoryItem::User { text } => exchanges.push(Exchange {
                message: service.masked(text),
                answer: Vec::new(),
            }),
            HistoryItem::Assistant { text } | HistoryItem::Partial { text } => {
                if exchanges.is_empty() {
                    // The agent began the conversation.
                    exchanges.push(Exchange::default());
                }
                if let Some(exchange) = exchanges.last_mut() {
                    exchange.answer.push(service.masked(text));
                }
            }
            _ => {}
        }
    }
    exchanges
}

fn compare(past: &[Past], history: &[Exchange]) -> Relation {
    let mut rest = history;
    let mut last: Option<&Past> = None;
    for run in past {
        match run.count_in(rest) {
            Some(count) => {
                rest = rest.get(count..).unwrap_or_default();
                last = Some(run);
            }
            // A client may leave out what failed; the model does not see it either.
            None if !run.is_seen => {}
            None if !rest.is_empty() => return Relation::Other,
            None => {
                return match last.map(|last| last.end) {
                    None => Relation::EndsAfter(None),
                    Some(Some(end)) => Relation::EndsAfter(Some(end)),
                    // What has no end can't be copied.
                    Some(None) => Relation::Other,
                };
            }
        }
    }
    if rest.is_empty() {
        Relation::Same
    } else {
        Relation::Other
    }
}

impl Past {
    /// How many of a client's exchanges are this run: messages without an answer are stored as one with the next.
    fn count_in(&self, exchanges: &[Exchange]) -> Option<usize> {
        let mut message = Vec::new();
        for (at, exchange) in exchanges.iter().enumerate() {
            message.push(exchange.message.as_str());
            if self.is_message(&message) && self.is_answer(&exchange.answer) {
                return Some(at + 1);
            }
            if !exchange.answer.is_empty() {
                break;
            }
        }
        None
    }

    fn is_message(&self, message: &[&str]) -> bool {
        let own = self.exchange.message.as_str();
        match message {
            [one] => plain(own).trim_end() == plain(one).trim_end(),
            several => match_texts(&[own], several) == Match::Same,
        }
    }

    /// Of an answer that was cut off, a client may have another part.
    fn is_answer(&self, answer: &[String]) -> bool {
        match match_texts(&self.exchange.answer, answer) {
            Match::Same => true,
            Match::Begins => !self.is_whole,
            Match::Differs => false,
        }
    }
}

/// How the texts of two messages relate.
#[derive(Debug, PartialEq, Eq)]
enum Match {
    Same,
    /// One is the beginning of the other.
    Begins,
    Differs,
}

/// Compares texts that follow each other. Clients join or trim messages: white space where a text begins or ends makes no
/// difference, any other does.
fn match_texts(own: &[impl AsRef<str>], other: &[impl AsRef<str>]) -> Match {
    let texts = |texts: &[String]| -> Vec<String> {
        texts
            .iter()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    };
    let own: Vec<String> = own.iter().map(|text| plain(text.as_ref())).collect();
    let other: Vec<String> = other.iter().map(|text| plain(text.as_ref())).collect();
    let (own, other) = (texts(&own), texts(&other));
    let (mut own, mut other) = (own.iter(), other.iter());
    let (mut left, mut right) = ("", "");
    loop {
        if left.is_empty() {
            left = own.next().map_or("", String::as_str);
        }
        if right.is_empty() {
            right = other.next().map_or("", String::as_str);
        }
        match (left.is_empty(), right.is_empty()) {
            (true, true) => return Match::Same,
            (true, false) | (false, true) => return Match::Begins,
            (false, false) => {}
        }
        if let Some(rest) = left.strip_prefix(right) {
            (left, right) = (rest.trim_start(), "");
        } else if let Some(rest) = right.strip_prefix(left) {
            (left, right) = ("", rest.trim_start());
        } else {
            return Match::Differs;
        }
    }
}

/// A text with the line ends that are stored by most clients.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests;
