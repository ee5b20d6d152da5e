//! A session of the store, and what it keeps of its events.

use std::collections::{BTreeSet, HashSet};

use holodeck_model::events::{AgentEvent, EventBody, EventClass};
use jiff::Timestamp;
use uuid::Uuid;

use crate::{
    Draft,
    store::{
        Counts, SessionInfo, StoreError, StoredEvent, agent_of, approvals::Approval, run_of, user_message,
    },
};

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) owner: Option<String>,
    pub(super) events: Vec<StoredEvent>,
    pub(super) next_index: u64,
    pub(super) next_sequence: u64,
    /// The run that is open.
    pub(super) open: Option<String>,
    /// When its first event was recorded.
    pub(super) created_at: Option<Timestamp>,
    /// When its last event was recorded.
    pub(super) last_at: Timestamp,
    pub(super) agent: Option<String>,
    pub(super) counts: Counts,
    /// The keys of events that are stored at most once.
    pub(super) unique: HashSet<Unique>,
    /// By id, in the order in which they were asked.
    pub(super) approvals: Vec<Question>,
    /// Tools that are approved for the rest of it.
    pub(super) approved: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) approval_id: String,
    pub(super) asked: StoredEvent,
    pub(super) resolved: Option<StoredEvent>,
}

/// The identity of an event that is stored at most once.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Unique {
    Event(Uuid),
    Call { run_id: String, tool_use_id: String },
    Result { run_id: String, tool_use_id: String },
    Question(String),
    Answer(String),
}

impl Unique {
    pub(super) fn of(event: &AgentEvent) -> impl Iterator<Item = Self> {
        let run_id = || run_of(&event.meta).to_owned();
        let tool = match &event.body {
            EventBody::ToolUse(call) => Some(Self::Call {
                run_id: run_id(),
                tool_use_id: call.tool_use_id.clone(),
            }),
            EventBody::ToolResult(result) => Some(Self::Result {
                run_id: run_id(),
                tool_use_id: result.tool_use_id.clone(),
            }),
            EventBody::ApprovalRequested(request) => Some(Self::Question(request.approval_id.clone())),
            EventBody::ApprovalResolved(answer) => Some(Self::Answer(answer.approval_id.clone())),
            _ => None,
        };
        tool.into_iter().chain([Self::Event(event.meta.event_id)])
    }
}

impl Session {
    /// Numbers and stores: the numbers are used only if all events are stored. Returns the events of the drafts, and
    /// those of them that are new.
    pub(super) fn append(
        &mut self,
        drafts: &[Draft],
    ) -> Result<(Vec<StoredEvent>, Vec<StoredEvent>), StoreError> {
        let (mut index, mut sequence) = (self.next_index, self.next_sequence);
        let (mut stored, mut new) = (Vec::with_capacity(drafts.len()), Vec::with_capacity(drafts.len()));
        let mut unique = HashSet::new();
        for draft in drafts {
            if let Some(earlier) = self.answer_to(&draft.event) {
                stored.push(earlier);
                continue;
            }
            for key in Unique::of(&draft.event) {
                if self.unique.contains(&key) || !unique.insert(key) {
                    return Err(StoreError::failed("an event of the append is stored already"));
                }
            }
            let number = (draft.class == EventClass::Stored).then_some(sequence);
            let event = StoredEvent::number(draft, index, number)?;
            stored.push(event.clone());
            new.push(event);
            index += 1;
            sequence += u64::from(number.is_some());
        }
        (self.next_index, self.next_sequence) = (index, sequence);
        self.unique.extend(unique);
        for event in &new {
            self.observe(event);
        }
        self.events.extend(new.iter().cloned());
        Ok((stored, new))
    }

    /// Takes in an event that is stored.
    fn observe(&mut self, stored: &StoredEvent) {
        let event = stored.event();
        self.created_at.get_or_insert(event.meta.timestamp);
        if stored.class() != EventClass::Journaled {
            self.last_at = self.last_at.max(event.meta.timestamp);
        }
        self.counts.observe(event);
        if let Some(agent) = agent_of(event) {
            self.agent = Some(agent.to_owned());
        }
        match &event.body {
            EventBody::ApprovalRequested(request) => self.approvals.push(Question {
                approval_id: request.approval_id.clone(),
                asked: stored.clone(),
                resolved: None,
            }),
            EventBody::ApprovalResolved(answer) => {
                let mut approvals = self.approvals.iter_mut();
                if let Some(known) = approvals.find(|known| known.approval_id == answer.approval_id) {
                    known.resolved = Some(stored.clone());
                }
            }
            body if body.is_terminal() => self.open = None,
            _ => {}
        }
    }

    /// The stored answer to the approval that this event answers.
    fn answer_to(&self, event: &AgentEvent) -> Option<StoredEvent> {
        let EventBody::ApprovalResolved(answer) = &event.body else {
            return None;
        };
        let mut approvals = self.approvals.iter();
        let known = approvals.find(|known| known.approval_id == answer.approval_id)?;
        known.resolved.clone()
    }

    pub(super) fn approval(&self, known: &Question) -> Approval {
        Approval {
            owner: self.owner.clone(),
            agent: self.agent.clone(),
            asked: known.asked.clone(),
            resolved: known.resolved.clone(),
        }
    }

    pub(super) fn head(&self) -> Option<u64> {
        self.next_index.checked_sub(1)
    }

    pub(super) fn info(&self, session_id: &str) -> SessionInfo {
        SessionInfo {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            head: self.head(),
            open_run: self.open.clone(),
            agent: self.agent.clone(),
            first_message: self.events.iter().find_map(|event| user_message(event.event())),
            runs: self.counts.runs,
            messages: self.counts.messages,
            created_at: self.created_at.unwrap_or_default(),
            last_at: self.last_at,
        }
    }
}
