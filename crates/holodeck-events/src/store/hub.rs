use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast::{self, error::RecvError};

use super::{EventStore, PAGE, StoreError, StoredEvent};

/// Events that a subscriber may be behind before it reads them from the store again.
const RING: usize = 256;

/// Delivers stored events to subscribers. It never waits for one.
#[derive(Debug, Default)]
pub(super) struct Hub(Mutex<HashMap<String, broadcast::Sender<Signal>>>);

#[derive(Clone, Debug)]
enum Signal {
    Stored(StoredEvent),
    /// Another process may have stored events.
    Changed,
}

impl Hub {
    /// Delivers events of a session. The caller keeps them in the order of their indices.
    pub(super) fn publish(&self, session_id: &str, events: &[StoredEvent]) {
        let mut rooms = self.rooms();
        let Some(room) = rooms.get(session_id) else {
            return;
        };
        for event in events {
            if room.send(Signal::Stored(event.clone())).is_err() {
                rooms.remove(session_id);
                return;
            }
        }
    }

    /// Ends all subscriptions.
    #[cfg(feature = "sqlite")]
    pub(super) fn close_all(&self) {
        self.rooms().clear();
    }

    /// Lets every subscriber look into the store.
    #[cfg(feature = "sqlite")]
    pub(super) fn wake(&self) {
        self.rooms().retain(|_, room| room.send(Signal::Changed).is_ok());
    }

    /// Whether anyone subscribes.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_used(&self) -> bool {
        self.rooms().values().any(|room| room.receiver_count() > 0)
    }

    /// Ends the subscriptions of a session that is deleted.
    pub(super) fn close(&self, session_id: &str) {
        self.rooms().remove(session_id);
    }

    /// A subscription to `session_id`, from after this index. The caller has checked both.
    pub(super) fn subscribe(
        &self,
        store: Arc<dyn EventStore>,
        session_id: &str,
        after: Option<u64>,
    ) -> Subscription {
        let mut rooms = self.rooms();
        let room = rooms
            .entry(session_id.to_owned())
            .or_insert_with(|| broadcast::Sender::new(RING));
        Subscription {
            live: room.subscribe(),
            store,
            session_id: session_id.to_owned(),
            after,
            page: VecDeque::new(),
            is_behind: true,
        }
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<String, broadcast::Sender<Signal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a session, first those that are stored and then each later one, without a gap and without a repeat.
///
/// It holds at most one page of the store, and a bounded number of events that all subscribers share. A subscriber that
/// is slower than that reads the store again.
pub struct Subscription {
    store: Arc<dyn EventStore>,
    session_id: String,
    /// The index of the last event returned.
    after: Option<u64>,
    page: VecDeque<StoredEvent>,
    /// Read the store before live events.
    is_behind: bool,
    live: broadcast::Receiver<Signal>,
}

impl Subscription {
    /// The next event; `None` once the session is deleted or its store closed. May be cancelled and called again.
    pub async fn next(&mut self) -> Result<Option<StoredEvent>, StoreError> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.after = Some(event.index());
                return Ok(Some(event));
            }
            if self.is_behind {
                let page = self.store.read_page(&self.session_id, self.after, PAGE).await?;
                self.is_behind = !page.is_empty();
                self.page = page.into();
                continue;
            }
            match self.live.recv().await {
                Ok(Signal::Stored(event)) if self.after.is_some_and(|after| event.index() <= after) => {}
                Ok(Signal::Stored(event)) => {
                    // Another process may have stored events before it.
                    let follows = self.after.map_or(0, |after| after.saturating_add(1));
                    if event.index() == follows {
                        self.after = Some(event.index());
                        return Ok(Some(event));
                    }
                    self.is_behind = true;
                }
                Ok(Signal::Changed) | Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("session_id", &self.session_id)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
