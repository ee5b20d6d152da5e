//! The rows that the tables of SQLite and PostgreSQL share: how they are read, and the values in their columns.
//!
//! The statements of both stores name the columns in the order in which they are read here.

use holodeck_model::events::{AgentEvent, EventBody, EventClass, UserMessage};
use jiff::Timestamp;

use super::{
    AlwaysApproved, Counts, RunInfo, SessionCursor, SessionInfo, StoreError, StoredEvent,
    approvals::Approval, error::repeated, user_message,
};
use crate::Draft;

/// Indices between two durable ceilings.
const BLOCK: u64 = 1024;

/// The columns of a row of either database.
pub(super) trait Columns {
    /// Why a column cannot be read.
    type Error: From<StoreError>;

    fn text(&self, column: usize) -> Result<Option<String>, Self::Error>;
    fn number(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn flag(&self, column: usize) -> Result<bool, Self::Error>;
}

fn present<T, E: From<StoreError>>(value: Option<T>) -> Result<T, E> {
    value.ok_or_else(|| StoreError::failed("a column of the store is empty").into())
}

pub(super) fn text<R: Columns>(row: &R, column: usize) -> Result<String, R::Error> {
    present(row.text(column)?)
}

pub(super) fn number<R: Columns>(row: &R, column: usize) -> Result<i64, R::Error> {
    present(row.number(column)?)
}

fn unsigned<R: Columns>(row: &R, column: usize) -> Result<u64, R::Error> {
    Ok(u64::try_from(number(row, column)?).map_err(StoreError::failed)?)
}

/// The row of a session, which the transaction has locked.
pub(super) struct SessionRow {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) owner: Option<String>,
    pub(super) next_index: u64,
    pub(super) next_sequence: u64,
    pub(super) ceiling: u64,
    /// When its last event was recorded.
    pub(super) last_at: i64,
    /// The database's server has started since it gave the last number.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "a file has no server"))]
    pub(super) is_restarted: bool,
}

impl SessionRow {
    /// A session without events, which was created at this time.
    pub(super) fn new(number: i64, id: &str, owner: Option<&str>, created_at: i64) -> Self {
        Self {
            number,
            id: id.to_owned(),
            owner: owner.map(ToOwned::to_owned),
            next_index: 0,
            next_sequence: 0,
            ceiling: 0,
            last_at: created_at,
            is_restarted: false,
        }
    }

    /// Of `number, owner, next_index, next_sequence, ceiling, last_at, restarted, deleted`. An error if it was deleted.
    pub(super) fn read<R: Columns>(row: &R, id: &str) -> Result<Self, R::Error> {
        if row.flag(7)? {
            return Err(StoreError::SessionDeleted {
                session_id: id.to_owned(),
            }
            .into());
        }
        Ok(Self {
            number: number(row, 0)?,
            id: id.to_owned(),
            owner: row.text(1)?,
            next_index: unsigned(row, 2)?,
            next_sequence: unsigned(row, 3)?,
            ceiling: unsigned(row, 4)?,
            last_at: number(row, 5)?,
            is_restarted: row.flag(6)?,
        })
    }
}

/// The row of a run, open or not.
pub(super) struct RunRow {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) writer: String,
    pub(super) epoch: i64,
    pub(super) first_index: i64,
    pub(super) is_open: bool,
}

impl RunRow {
    /// Of `number, run_id, writer, epoch, first_index, is open`, the first of which is the column `first`.
    pub(super) fn read<R: Columns>(row: &R, first: usize) -> Result<Self, R::Error> {
        Ok(Self {
            number: number(row, first)?,
            id: text(row, first + 1)?,
            writer: text(row, first + 2)?,
            epoch: number(row, first + 3)?,
            first_index: number(row, first + 4)?,
            is_open: row.flag(first + 5)?,
        })
    }
}

/// Where a page of the list of sessions begins: after this place, or before all.
pub(super) fn list_from(after: Option<&SessionCursor>) -> (i64, String) {
    after.map_or((i64::MAX, String::new()), |after| {
        (after.last_at.as_millisecond(), after.session_id.clone())
    })
}

/// An event of `payload, event_index, class`.
pub(super) fn read_event<R: Columns>(row: &R) -> Result<StoredEvent, R::Error> {
    let class = class_of(number(row, 2)?);
    Ok(StoredEvent::read(text(row, 0)?, unsigned(row, 1)?, class)?)
}

/// The event of two columns, `payload, event_index`, from `first` on; it belongs to an approval.
pub(super) fn read_answer<R: Columns>(row: &R, first: usize) -> Result<Option<StoredEvent>, R::Error> {
    let Some(payload) = row.text(first)? else {
        return Ok(None);
    };
    let index = unsigned(row, first + 1)?;
    Ok(Some(StoredEvent::read(payload, index, EventClass::Durable)?))
}

/// A tool of `owner, agent, tool` that is always approved.
pub(super) fn read_always<R: Columns>(row: &R) -> Result<AlwaysApproved, R::Error> {
    Ok(AlwaysApproved {
        owner: row.text(0)?,
        agent: text(row, 1)?,
        tool: text(row, 2)?,
    })
}

/// An approval of `owner, agent`, its question and its answer, each as `payload, event_index`.
pub(super) fn read_approval<R: Columns>(row: &R) -> Result<Approval, R::Error> {
    Ok(Approval {
        owner: row.text(0)?,
        agent: row.text(1)?,
        asked: present(read_answer(row, 2)?)?,
        resolved: read_answer(row, 4)?,
    })
}

/// A session of `session_id, owner, next_index, run_id, agent, payload of the first message, runs, messages, created_at,
/// last_at`.
pub(super) fn read_session_info<R: Columns>(row: &R) -> Result<SessionInfo, R::Error> {
    let last_at = number(row, 9)?;
    Ok(SessionInfo {
        session_id: text(row, 0)?,
        owner: row.text(1)?,
        head: unsigned(row, 2)?.checked_sub(1),
        open_run: row.text(3)?,
        agent: row.text(4)?,
        first_message: row.text(5)?.as_deref().and_then(message_in),
        runs: unsigned(row, 6)?,
        messages: unsigned(row, 7)?,
        created_at: time(row.number(8)?.unwrap_or(last_at)),
        last_at: time(last_at),
    })
}

/// A run of `session_id, owner, first_index, last_index, process`.
pub(super) fn read_run_info<R: Columns>(row: &R, run_id: &str) -> Result<RunInfo, R::Error> {
    Ok(RunInfo {
        run_id: run_id.to_owned(),
        session_id: text(row, 0)?,
        owner: row.text(1)?,
        first_index: unsigned(row, 2)?,
        last_index: row.number(3)?.and_then(|last| u64::try_from(last).ok()),
        process: row.number(4)?.and_then(|process| u32::try_from(process).ok()),
    })
}

/// The events of an append with their numbers.
pub(super) struct Numbered {
    /// The events of the drafts: in the place of an answer to an approval that has one already, the stored one.
    pub(super) stored: Vec<StoredEvent>,
    pub(super) new: Vec<StoredEvent>,
    pub(super) counts: Counts,
    /// The ceiling of the session was raised.
    pub(super) raised: bool,
    /// Nothing of it is shown in a list of sessions: all of them are pieces of text.
    pub(super) is_pieces: bool,
}

/// Numbers the drafts of an append; `earlier` has the stored answer to the approval that a draft answers.
pub(super) fn number_drafts(
    session: &mut SessionRow,
    drafts: &[Draft],
    earlier: Vec<Option<StoredEvent>>,
) -> Result<Numbered, StoreError> {
    let mut numbered = Numbered {
        stored: Vec::with_capacity(drafts.len()),
        new: Vec::with_capacity(drafts.len()),
        counts: Counts::default(),
        raised: false,
        is_pieces: true,
    };
    for (draft, earlier) in drafts.iter().zip(earlier) {
        if let Some(earlier) = earlier {
            numbered.stored.push(earlier);
            continue;
        }
        let number = (draft.class == EventClass::Stored).then_some(session.next_sequence);
        let event = StoredEvent::number(draft, session.next_index, number)?;
        session.next_index += 1;
        session.next_sequence += u64::from(number.is_some());
        if draft.class != EventClass::Journaled {
            session.last_at = session.last_at.max(draft.event.meta.timestamp.as_millisecond());
            numbered.is_pieces = false;
        }
        numbered.counts.observe(event.event());
        numbered.stored.push(event.clone());
        numbered.new.push(event);
    }
    numbered.raised = raise(&mut session.ceiling, session.next_index);
    Ok(numbered)
}

/// Raises the ceiling of a session above its next index; returns whether that was necessary.
fn raise(ceiling: &mut u64, next_index: u64) -> bool {
    let is_reached = next_index > *ceiling;
    if is_reached {
        *ceiling = next_index.saturating_add(BLOCK);
    }
    is_reached
}

pub(super) fn class_code(class: EventClass) -> i16 {
    match class {
        EventClass::Stored => 0,
        EventClass::Durable => 1,
        EventClass::Journaled => 2,
    }
}

fn class_of(code: i64) -> EventClass {
    match code {
        0 => EventClass::Stored,
        1 => EventClass::Durable,
        _ => EventClass::Journaled,
    }
}

/// The call that an event is about.
pub(super) fn tool_use_of(event: &AgentEvent) -> Option<&str> {
    match &event.body {
        EventBody::ToolUse(call) => Some(&call.tool_use_id),
        EventBody::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    }
}

/// The text of the person's message, if this event is one.
fn message_in(payload: &str) -> Option<String> {
    let event: AgentEvent = serde_json::from_str(payload).ok()?;
    user_message(&event)
}

/// Why a message is refused whose client's id is that of the message in this event, which `run_id` answers.
pub(super) fn repeated_in(
    payload: &str,
    message: &UserMessage,
    run_id: String,
) -> Result<StoreError, StoreError> {
    let event: AgentEvent = serde_json::from_str(payload).map_err(StoreError::failed)?;
    Ok(match &event.body {
        EventBody::UserMessageConfirmed(sent) => repeated(sent, message, run_id),
        _ => StoreError::MessageIdReused { run_id },
    })
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or_default()
}
