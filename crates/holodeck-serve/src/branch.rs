//! The conversation of an AG-UI thread: the client's history counts. Where it differs from what is stored, a branch
//! begins, so that the model does not see what the client removed. Nothing that is stored is changed.

use holodeck_backend_api::HistoryItem;
use holodeck_chat::{AgentRunService, RunError};
use holodeck_events::{EventStore, StoreError, StoredEvent};
use holodeck_model::{
    digest_json,
    events::{CompleteReason, EventBody},
};

use crate::problem::{Problem, Result};

/// How often the history of a thread can be changed.
const MAX_BRANCHES: u32 = 10_000;
/// The length of an id that leaves room for the number of a branch.
const LONG_ID: usize = 100;

/// A message of the person with the text of its answer, both without white space.
#[derive(Debug, Default, PartialEq, Eq)]
struct Exchange {
    message: String,
    answer: String,
}

/// A run as it is stored.
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

/// The latest branch of a thread of `user`, and the number of the next one; `None` for an unknown thread. The thread itself
/// may belong to another user.
pub(crate) async fn latest(
    store: &dyn EventStore,
    user: &str,
    thread: &str,
) -> Result<Option<(String, u32)>> {
    let mut latest = None;
    for number in 0..MAX_BRANCHES {
        let id = branch_id(thread, number);
        let Some(session) = store.session(&id).await? else {
            break;
        };
        // A stranger can use the name of a branch as an id.
        if number == 0 || session.owner.as_deref() == Some(user) {
            latest = Some((id, number + 1));
        }
    }
    Ok(latest)
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
}

/// The conversation in which a message is answered after this history. Until the message is stored, the caller holds the
/// [`ThreadLock`](crate::threads::ThreadLock) of the thread: the same request at the same time finds it then.
pub(crate) async fn settle(
    service: &AgentRunService,
    user: &str,
    thread: &str,
    (message_id, message): (&str, &str),
    history: &[HistoryItem],
) -> Result<Settled> {
    let store = &**service.store();
    // The first number that no other process has taken meanwhile.
    let mut free = 0;
    loop {
        let Some((session_id, next)) = latest(store, user, thread).await? else {
            if history.is_empty() {
                return Ok(Settled::conversation(thread));
            }
            return match service.import(thread, Some(user), history.to_vec()).await {
                // Another request was faster.
                Ok(()) | Err(RunError::Store(StoreError::SessionExists { .. })) => {
                    Ok(Settled::conversation(thread))
                }
                Err(error) => Err(error.into()),
            };
        };
        let session = store.session(&session_id).await?;
        let is_own = session
            .as_ref()
            .is_none_or(|session| session.owner.as_deref() == Some(user));
        if !is_own {
            // Refused.
            return Ok(Settled::conversation(session_id));
        }
        let past = past_runs(&store.read_after(&session_id, None).await?);
        let mut same = past.iter();
        if let Some(same) = same.find(|run| run.message_id.as_deref() == Some(message_id)) {
            // The same request again; with another message, it is refused.
            let is_same = same.exchange.message == squeezed(&service.masked(message));
            let run_id = same.run_id.clone().filter(|_| is_same);
            return Ok(Settled { session_id, run_id });
        }
        if session.is_some_and(|session| session.open_run.is_some()) {
            // As `concurrency` says.
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
        let branch = branch_id(thread, free);
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
            Ok(()) => return Ok(Settled::conversation(branch)),
            // Another process was faster: its branch is the latest one now, and may have this very message.
            Err(RunError::Store(StoreError::SessionDeleted { .. } | StoreError::SessionExists { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The runs of a conversation, also the one in progress.
fn past_runs(events: &[StoredEvent]) -> Vec<Past> {
    let mut runs: Vec<Past> = Vec::new();
    for event in events {
        let index = event.index();
        let event = event.event();
        if let EventBody::UserMessageConfirmed(message) = &event.body {
            runs.push(Past {
                exchange: Exchange {
                    message: squeezed(&message.content),
                    answer: String::new(),
                },
                message_id: message.client_message_id.clone(),
                run_id: event.meta.run_id.clone(),
                ..Past::default()
            });
        }
        let Some(run) = runs.last_mut() else { continue };
        match &event.body {
            EventBody::Message(message) if event.meta.parent_tool_use_id.is_none() => {
                run.exchange.answer.push_str(&squeezed(&message.content));
            }
            EventBody::Complete(end) => {
                run.end = Some(index);
                run.is_whole = end.reason == CompleteReason::Success;
                run.is_seen = end.reason != CompleteReason::Error;
            }
            EventBody::Error(_) => {
                run.end = Some(index);
                // Of a run whose process ended, the next turn sees what had arrived.
                run.is_seen = !run.exchange.answer.is_empty();
            }
            _ => {}
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
                message: squeezed(&service.masked(text)),
                answer: String::new(),
            }),
            HistoryItem::Assistant { text } | HistoryItem::Partial { text } => {
                if exchanges.is_empty() {
                    // The agent began the conversation.
                    exchanges.push(Exchange::default());
                }
                if let Some(exchange) = exchanges.last_mut() {
                    exchange.answer.push_str(&squeezed(&service.masked(text)));
                }
            }
            _ => {}
        }
    }
    exchanges
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn compare(past: &[Past], history: &[Exchange]) -> Relation {
    let mut rest = history;
    let mut end = None;
    for run in past {
        match rest.split_first() {
            Some((exchange, after)) if run.is_like(exchange) => {
                rest = after;
                end = run.end;
            }
            // A client may leave out what failed; the model does not see it either.
            _ if !run.is_seen => {}
            Some(_) => return Relation::Other,
            None => return Relation::EndsAfter(end),
        }
    }
    if rest.is_empty() {
        Relation::Same
    } else {
        Relation::Other
    }
}

impl Past {
    /// Whether a client's exchange is this run. Of an answer that was cut off, a client may have another part.
    fn is_like(&self, exchange: &Exchange) -> bool {
        let (own, other) = (&self.exchange.answer, &exchange.answer);
        let is_answer = own == other
            || !self.is_whole && (own.starts_with(other.as_str()) || other.starts_with(own.as_str()));
        self.exchange.message == exchange.message && is_answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(text: &str) -> Exchange {
        let (message, answer) = text.split_once(' ').unwrap();
        Exchange {
            message: message.to_owned(),
            answer: answer.to_owned(),
        }
    }

    /// Runs that end with the events 0, 1, …; `~` begins one that was stopped, `!` one that failed.
    fn past(runs: &[&str]) -> Vec<Past> {
        let runs = runs.iter().enumerate();
        runs.map(|(index, text)| Past {
            exchange: exchange(text.trim_start_matches(['~', '!'])),
            message_id: None,
            run_id: None,
            end: Some(index as u64),
            is_whole: !text.starts_with(['~', '!']),
            is_seen: !text.starts_with('!'),
        })
        .collect()
    }

    #[test]
    fn a_history_is_the_same_ends_earlier_or_has_other_texts() {
        use Relation::{EndsAfter, Other, Same};
        for (stored, sent, expected) in [
            (&[][..], &[][..], Same),
            (&["a 1", "b 2"], &["a 1", "b 2"], Same),
            // The last answer again, an earlier message changed, all of them removed.
            (&["a 1", "b 2"], &["a 1"], EndsAfter(Some(0))),
            (&["a 1", "b 2", "c 3"], &["a 1"], EndsAfter(Some(0))),
            (&["a 1", "b 2"], &[], EndsAfter(None)),
            // Texts of the client's own.
            (&["a 1", "b 2"], &["a 1", "b 3"], Other),
            (&["a 1", "b 2"], &["a 9", "b 2"], Other),
            (&["a 1", "b 2"], &["b 2"], Other),
            (&["a 1"], &["a 1", "b 2"], Other),
            (&["a 1"], &["a "], Other),
            // Of what was stopped, the client has more or less.
            (&["a 1", "~b 23"], &["a 1", "b 2"], Same),
            (&["a 1", "~b 2"], &["a 1", "b 23"], Same),
            (&["a 1", "~b 2"], &["a 1", "b "], Same),
            (&["a 1", "~b 2"], &["a 1"], EndsAfter(Some(0))),
            (&["a 1", "~b 2"], &["a 1", "b 9"], Other),
            // What failed may be left out or not.
            (&["a 1", "!b ", "c 3"], &["a 1", "c 3"], Same),
            (&["a 1", "!b ", "c 3"], &["a 1", "b ", "c 3"], Same),
            (&["!b ", "c 3"], &[], EndsAfter(None)),
            (&["a 1", "!b "], &["a 1"], Same),
            (&["!a "], &[], Same),
        ] {
            let sent: Vec<Exchange> = sent.iter().map(|text| exchange(text)).collect();
            assert_eq!(compare(&past(stored), &sent), expected, "{stored:?} {sent:?}");
        }
    }

    #[test]
    fn every_branch_has_an_id_that_fits() {
        let long = "t".repeat(128);
        for thread in ["t", &long] {
            assert_eq!(branch_id(thread, 0), thread);
            for number in [1, 2, MAX_BRANCHES] {
                let id = branch_id(thread, number);
                assert!(
                    id.len() <= 128 && id.ends_with(&format!("branch-{number}")),
                    "{id}"
                );
            }
        }
    }
}
