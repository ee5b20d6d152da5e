//! Keeps backend sessions open between the turns of a conversation.
//!
//! Only a cache: the event log decides what belongs to the conversation, and a session that differs from it is not
//! used.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, HistoryItem, Opening, SessionState,
    TurnRequest,
};
use holodeck_events::{EventStore, StoredEvent, history};
use tokio_util::sync::CancellationToken;

use crate::files::Attachments;

/// Time limit for a backend to end a turn that was cancelled; then the turn is dropped, which ends its process.
const CANCEL_LIMIT: Duration = Duration::from_secs(4);

/// Sessions of the backend that are kept open between turns. They are only a cache: the log is what counts.
pub(crate) struct LiveSessions {
    backend: Arc<dyn AgentBackend>,
    limit: usize,
    files: Option<Attachments>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    sessions: HashMap<String, Parked>,
    /// Grows with each use.
    clock: u64,
}

/// A session that knows a conversation up to an event.
struct Parked {
    session: Box<dyn AgentSession>,
    head: u64,
    used: u64,
}

/// Where a turn leaves its session if it can be used again.
pub(crate) type Slot = Arc<Mutex<Option<Box<dyn AgentSession>>>>;

/// A turn in a conversation.
pub(crate) struct Turn {
    pub(crate) session_id: String,
    /// The index of the turn's first event. What comes before it is the conversation so far.
    pub(crate) first: Arc<Mutex<Option<u64>>>,
    pub(crate) request: TurnRequest,
    /// The conversation so far, if it is not what the log says.
    pub(crate) opening: Option<Vec<HistoryItem>>,
    pub(crate) slot: Slot,
}

impl LiveSessions {
    /// Keeps at most `limit` sessions open.
    pub(crate) fn new(backend: Arc<dyn AgentBackend>, limit: usize, files: Option<Attachments>) -> Self {
        Self {
            backend,
            limit,
            files,
            idle: Mutex::default(),
        }
    }

    /// The events of a turn. The session is opened when the stream is polled, so after the message is stored.
    pub(crate) fn turn(self: Arc<Self>, store: Arc<dyn EventStore>, turn: Turn) -> EventStream<'static> {
        let Turn {
            session_id,
            first,
            request,
            opening,
            slot,
        } = turn;
        Box::pin(stream! {
            let first = *first.lock().unwrap_or_else(PoisonError::into_inner);
            let cancel = request.cancel.clone();
            let opening = async {
                match opening {
                    Some(history) => self.backend.open_session(Opening::after(history)).await,
                    None => self.open(&*store, &session_id, first.unwrap_or_default()).await,
                }
            };
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(BackendError::Cancelled),
                opened = opening => opened,
            };
            let mut session = match opened {
                Ok(session) => session,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let end = {
                let mut events = session.turn(request);
                loop {
                    match next_unless_stuck(&mut events, &cancel).await {
                        Some(Ok(BackendEvent::End(result))) => break Some(Ok(BackendEvent::End(result))),
                        Some(Ok(event)) => yield Ok(event),
                        end => break end,
                    }
                }
            };
            let is_usable = matches!(&end, Some(Ok(_) | Err(BackendError::Cancelled)));
            if is_usable && session.state() == SessionState::Ready {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
            }
            match end {
                Some(end) => yield end,
                None if cancel.is_cancelled() => yield Err(BackendError::Cancelled),
                // The recorder reports that there is no result.
                None => {}
            }
        })
    }

    /// The session of a conversation as it was before the event `first`.
    async fn open(
        &self,
        store: &dyn EventStore,
        session_id: &str,
        first: u64,
    ) -> Result<Box<dyn AgentSession>, BackendError> {
        let parked = self.idle().sessions.remove(session_id);
        if let Some(mut parked) = parked {
            if parked.head.checked_add(1) == Some(first) {
                return Ok(parked.session);
            }
            // Another process continued the conversation. How the old session closes does not matter.
            let _ = parked.session.close().await;
        }
        let stored = store.read_after(session_id, None).await;
        let stored = stored.map_err(|error| BackendError::session(error.to_string()))?;
        let before = stored.iter().filter(|event| event.index() < first);
        let before = before.map(StoredEvent::event);
        let opening = match &self.files {
            Some(files) => {
                let enriched = files.enrich(before.cloned().collect()).await;
                Opening::after(history(&enriched))
            }
            None => Opening::after(history(before)),
        };
        self.backend.open_session(opening).await
    }

    /// Keeps a session for the next turn of its conversation, whose last event has the index `head`.
    pub(crate) async fn park(&self, session_id: &str, session: Box<dyn AgentSession>, head: u64) {
        let removed = {
            let mut idle = self.idle();
            idle.clock += 1;
            let parked = Parked {
                session,
                head,
                used: idle.clock,
            };
            let mut removed: Vec<_> = idle
                .sessions
                .insert(session_id.to_owned(), parked)
                .into_iter()
                .collect();
            while idle.sessions.len() > self.limit {
                let oldest = idle.sessions.iter().min_by_key(|(_, parked)| parked.used);
                let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                    break;
                };
                removed.extend(idle.sessions.remove(&oldest));
            }
            removed
        };
        for mut parked in removed {
            let _ = parked.session.close().await;
        }
    }

    /// Closes all sessions.
    pub(crate) async fn close(&self) {
        let closed: Vec<_> = self.idle().sessions.drain().map(|(_, parked)| parked).collect();
        for mut parked in closed {
            let _ = parked.session.close().await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next event; `None` for a turn that runs for too long after it was cancelled.
async fn next_unless_stuck(
    events: &mut EventStream<'_>,
    cancel: &CancellationToken,
) -> Option<Result<BackendEvent, BackendError>> {
    let stuck = async {
        cancel.cancelled().await;
        tokio::time::sleep(CANCEL_LIMIT).await;
    };
    tokio::select! {
        biased;
        event = events.next() => event,
        () = stuck => None,
    }
}
