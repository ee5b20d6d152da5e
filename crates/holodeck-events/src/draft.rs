//! Events without numbers, between the recorder that creates them and the store that accepts them.

use std::{sync::Arc, time::Duration};

use holodeck_model::events::{AgentEvent, EventBody, EventClass, EventMeta, PersistenceState};
use jiff::Timestamp;

use crate::{Clock, Ids};

/// An event that is not stored yet and has no numbers. Only a recorder creates one, only a store accepts it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub(crate) event: AgentEvent,
    pub(crate) class: EventClass,
}

impl Draft {
    /// The event as it will be stored, without its numbers.
    pub fn event(&self) -> &AgentEvent {
        &self.event
    }

    /// How it is stored.
    pub fn class(&self) -> EventClass {
        self.class
    }
}

/// The events of a run that are not stored yet.
pub(crate) struct Drafts {
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    started: Duration,
    /// Since when a person decides, and how long they took before.
    paused: Option<Duration>,
    away: Duration,
    /// How long a person may take to answer a question.
    pub(crate) approval_timeout: Option<Duration>,
    pub(crate) new: Vec<Draft>,
}

/// The agent that an event is about, and its turn.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) agent: Option<&'a str>,
    pub(crate) turn: Option<u32>,
}

impl Origin<'_> {
    /// The run itself.
    pub(crate) const RUN: Self = Origin {
        agent: None,
        turn: None,
    };
}

impl Drafts {
    pub(crate) fn new(session_id: String, run_id: String, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            session_id,
            run_id,
            started: clock.elapsed(),
            paused: None,
            away: Duration::ZERO,
            clock,
            ids,
            approval_timeout: None,
            new: Vec::new(),
        }
    }

    pub(crate) fn new_id(&self) -> String {
        self.ids.next().to_string()
    }

    /// The time from now on is that of a person.
    pub(crate) fn pause(&mut self) {
        let now = self.clock.elapsed();
        self.paused.get_or_insert(now);
    }

    pub(crate) fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            self.away += self.clock.elapsed().saturating_sub(since);
        }
    }

    /// How long the run took, without the time in which a person decided.
    pub(crate) fn duration_ms(&self) -> u64 {
        let until = self.paused.unwrap_or_else(|| self.clock.elapsed());
        let passed = until.saturating_sub(self.started).saturating_sub(self.away);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// An event of the run, without its numbers.
    pub(crate) fn draft(&self, origin: Origin<'_>, body: EventBody) -> Draft {
        let mut meta = meta(&*self.clock, &*self.ids);
        meta.session_id = Some(self.session_id.clone());
        meta.run_id = Some(self.run_id.clone());
        meta.parent_tool_use_id = origin.agent.map(ToOwned::to_owned);
        meta.turn = origin.turn;
        draft(meta, body)
    }
}

/// The metadata of a new event, without its run and its numbers.
pub(crate) fn meta(clock: &dyn Clock, ids: &dyn Ids) -> EventMeta {
    let now = clock.now();
    EventMeta {
        // As precise as the JSON, so that an event that is read back is equal.
        timestamp: Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now),
        event_id: ids.next(),
        persistence_state: PersistenceState::Transient,
        event_index: None,
        sequence_number: None,
        session_id: None,
        run_id: None,
        agent_id: None,
        parent_tool_use_id: None,
        turn: None,
    }
}

/// An event with the persistence state of its type.
pub(crate) fn draft(mut meta: EventMeta, body: EventBody) -> Draft {
    let class = body.class().unwrap_or(EventClass::Journaled);
    meta.persistence_state = match (&body, class) {
        (EventBody::ApprovalRequested(_), _) => PersistenceState::Pending,
        (_, EventClass::Stored) => PersistenceState::Persisted,
        (_, EventClass::Durable | EventClass::Journaled) => PersistenceState::Transient,
    };
    Draft {
        event: AgentEvent::new(meta, body),
        class,
    }
}
