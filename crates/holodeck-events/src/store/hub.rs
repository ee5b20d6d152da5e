//! Delivers stored events to subscribers without waiting for them; a slow subscriber reads the rest from the store.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    broadcast::{self, error::RecvError},
};

use super::{EventStore, PAGE_BYTES, StoreError, StoredEvent, log, next_limit};

/// Events that a subscriber may be behind before it reads them from the store again.
const RING: usize = 256;

/// Rooms before the unused ones are removed for the first time.
const ROOMS: usize = 64;

/// Larger events are not kept for subscribers that are behind: these read them from the store. A ring holds 4 MiB at most.
const LARGE: usize = 16 << 10;

/// The events that a subscriber reads at first, before it knows how large they are.
const FIRST_PAGE: usize = 16;

/// Delivers stored events to subscribers. It never waits for one.
#[derive(Debug, Default)]
pub(super) struct Hub {
    rooms: Mutex<Rooms>,
    /// The failures of the store, for the log.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) failures: log::Failures,
}

#[derive(Debug, Default)]
struct Rooms {
    by_session: HashMap<String, broadcast::Sender<Signal>>,
    /// The number of rooms at which the unused ones are removed.
    limit: usize,
    is_closed: bool,
}

#[derive(Clone, Debug)]
enum Signal {
    Stored(StoredEvent),
    /// The store has a large event, another process may have stored some, or deleted the session.
    Changed,
}

impl Hub {
    /// Delivers events of a session. The caller keeps them in the order of their indices.
    pub(super) fn publish(&self, session_id: &str, events: &[StoredEvent]) {
        log::note_events(events);
        let mut rooms = self.rooms();
        let Some(room) = rooms.by_session.get(session_id) else {
            return;
        };
        for event in events {
            let signal = if event.json().len() > LARGE {
                Signal::Changed
            } else {
                Signal::Stored(event.clone())
            };
            if room.send(signal).is_err() {
                rooms.by_session.remove(session_id);
                return;
            }
        }
    }

    /// Ends all subscriptions, and every later one.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn close_all(&self) {
        let mut rooms = self.rooms();
        rooms.is_closed = true;
        rooms.by_session.clear();
    }

    /// Lets every subscriber look into the store.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn wake(&self) {
        let mut rooms = self.rooms();
        rooms
            .by_session
            .retain(|_, room| room.send(Signal::Changed).is_ok());
    }

    /// Lets the subscribers of a session look into the store.
    #[cfg(feature = "postgres")]
    pub(super) fn wake_session(&self, session_id: &str) {
        if let Some(room) = self.rooms().by_session.get(session_id) {
            let _ = room.send(Signal::Changed);
        }
    }

    /// Whether there is a subscriber.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_used(&self) -> bool {
        let rooms = self.rooms();
        rooms.by_session.values().any(|room| room.receiver_count() > 0)
    }

    /// Ends the subscriptions of a session that is deleted.
    pub(super) fn close(&self, session_id: &str) {
        self.rooms().by_session.remove(session_id);
    }

    /// A subscription to `session_id`, from after this index. The caller checks both.
    pub(super) fn subscribe(
        &self,
        store: Arc<dyn EventStore>,
        session_id: &str,
        after: Option<u64>,
    ) -> Subscription {
        Subscription {
            live: self.rooms().join(session_id),
            store,
            session_id: session_id.to_owned(),
            after,
            page: VecDeque::new(),
            page_limit: FIRST_PAGE,
            state: State::Behind,
            reads: None,
            reading: None,
        }
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn join(&mut self, session_id: &str) -> broadcast::Receiver<Signal> {
        if self.is_closed {
            // Its sender is dropped here, which ends the subscription.
            return broadcast::Sender::new(1).subscribe();
        }
        if self.by_session.len() >= self.limit.max(ROOMS) {
            self.by_session.retain(|_, room| room.receiver_count() > 0);
            self.limit = self.by_session.len().saturating_mul(2);
        }
        let room = self.by_session.entry(session_id.to_owned());
        room.or_insert_with(|| broadcast::Sender::new(RING)).subscribe()
    }
}

/// The events of a session, first those that are stored and then each later one, without a gap and without a repeat.
///
/// It holds at most one page of the store, whose bytes are bounded, and small events that all subscribers share. A subscriber that
/// is slower than that reads the store again.
pub struct Subscription {
    store: Arc<dyn EventStore>,
    session_id: String,
    /// The index of the last event returned.
    after: Option<u64>,
    page: VecDeque<StoredEvent>,
    /// The events to read at once: as many as fitted into the last page, twice.
    page_limit: usize,
    state: State,
    /// The permits to read the store, if they are limited.
    reads: Option<Arc<Semaphore>>,
    /// That of a page which is larger than others.
    reading: Option<OwnedSemaphorePermit>,
    live: broadcast::Receiver<Signal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Receive live events.
    Live,
    /// Read the store before live events.
    Behind,
    /// The same, and the session may not exist any more.
    Changed,
}

impl Subscription {
    /// Reads the store only with one of these permits. It is kept with a page that is larger than others, until the reader
    /// says that it no longer holds its event.
    #[must_use]
    pub fn with_reads(mut self, reads: &Arc<Semaphore>) -> Self {
        self.reads = Some(Arc::clone(reads));
        self
    }

    /// Says that the reader no longer holds the event that was returned last.
    pub fn release(&mut self) {
        self.reading = None;
    }

    /// The index of the last event it returned, or the one it began after.
    pub fn position(&self) -> Option<u64> {
        self.after
    }

    /// The next event; `None` once the session is deleted or its store closed. May be cancelled and called again.
    pub async fn next(&mut self) -> Result<Option<StoredEvent>, StoreError> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.after = Some(event.index());
                return Ok(Some(event));
            }
            if self.state != State::Live {
                self.release();
                let permit = match &self.reads {
                    Some(reads) => Arc::clone(reads).acquire_owned().await.ok(),
                    None => None,
                };
                let page = self
                    .store
                    .read_page(&self.session_id, self.after, self.page_limit)
                    .await?;
                if page.first().is_some_and(|event| event.json().len() > PAGE_BYTES) {
                    self.reading = permit;
                }
                self.page_limit = next_limit(page.len());
                if page.is_empty() {
                    if self.state == State::Changed && self.store.session(&self.session_id).await?.is_none() {
                        return Ok(None);
                    }
                    self.state = State::Live;
                }
                self.page = page.into();
                self.page.shrink_to_fit();
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
                    self.state = State::Behind;
                }
                // What was missed may be that the session changed.
                Ok(Signal::Changed) | Err(RecvError::Lagged(_)) => self.state = State::Changed,
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
