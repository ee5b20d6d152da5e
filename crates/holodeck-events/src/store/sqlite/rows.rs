//! The rows of the tables: how they are read and written.

use holodeck_model::events::{EventClass, UserMessage};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::approvals;
use crate::{
    Draft,
    store::{
        Counts, RunInfo, SessionInfo, StoreError, StoredEvent, agent_of,
        columns::{class_code, class_of, message_in, raise, repeated_in, time, tool_use_of},
        request::Done,
        session_of,
    },
};

/// The row of a session.
pub(super) struct Session {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) owner: Option<String>,
    pub(super) next_index: u64,
    pub(super) next_sequence: u64,
    pub(super) ceiling: u64,
    /// When its last event was recorded.
    last_at: i64,
}

/// An open run.
pub(super) struct OpenRun {
    pub(super) number: i64,
    pub(super) run_id: String,
    pub(super) session_id: String,
    pub(super) writer: String,
    pub(super) epoch: i64,
    pub(super) first_index: u64,
}

/// Numbers events and inserts them; the row of the session is written first. Returns the events of the drafts: in the
/// place of an answer to an approval that has one already, the stored one.
pub(super) fn add(
    transaction: &Transaction<'_>,
    session: &mut Session,
    run: Option<i64>,
    drafts: &[Draft],
    done: &mut Done,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut stored = Vec::with_capacity(drafts.len());
    let mut new = Vec::with_capacity(drafts.len());
    let mut counts = Counts::default();
    for draft in drafts {
        if let Some(earlier) = approvals::answer_to(transaction, session.number, &draft.event)? {
            stored.push(earlier);
            continue;
        }
        let number = (draft.class == EventClass::Stored).then_some(session.next_sequence);
        let event = StoredEvent::number(draft, session.next_index, number)?;
        session.next_index += 1;
        session.next_sequence += u64::from(number.is_some());
        session.last_at = session.last_at.max(draft.event.meta.timestamp.as_millisecond());
        counts.observe(event.event());
        stored.push(event.clone());
        new.push(event);
    }
    done.raised |= raise(&mut session.ceiling, session.next_index);
    transaction
        .prepare_cached(
            "UPDATE sessions SET next_index = ?, next_sequence = ?, ceiling = ?, last_at = ?,
                 runs = runs + ?, messages = messages + ?
             WHERE number = ?",
        )?
        .execute(params![
            session.next_index,
            session.next_sequence,
            session.ceiling,
            session.last_at,
            counts.runs,
            counts.messages,
            session.number
        ])?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO events
             (session, event_index, sequence_number, event_id, run, tool_use_id, class, type, payload)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for event in &new {
        let body = &event.event().body;
        insert.execute(params![
            session.number,
            event.index(),
            event.event().meta.sequence_number,
            event.event().meta.event_id.as_bytes(),
            run,
            tool_use_of(event.event()),
            class_code(event.class()),
            body.kind(),
            event.json()
        ])?;
        approvals::record(transaction, session.number, event)?;
    }
    done.publish.push((session.id.clone(), new));
    Ok(stored)
}

pub(super) fn session_row(
    transaction: &Transaction<'_>,
    session_id: &str,
) -> Result<Option<Session>, StoreError> {
    let row = transaction
        .prepare_cached(
            "SELECT number, owner, next_index, next_sequence, ceiling, last_at, deleted
             FROM sessions WHERE session_id = ?",
        )?
        .query_row([session_id], |row| {
            Ok((read_row(session_id, row)?, row.get::<_, bool>(6)?))
        })
        .optional()?;
    match row {
        Some((_, true)) => Err(StoreError::SessionDeleted {
            session_id: session_id.to_owned(),
        }),
        row => Ok(row.map(|(session, _)| session)),
    }
}

/// A session of its first six columns.
fn read_row(session_id: &str, row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        number: row.get(0)?,
        id: session_id.to_owned(),
        owner: row.get(1)?,
        next_index: row.get(2)?,
        next_sequence: row.get(3)?,
        ceiling: row.get(4)?,
        last_at: row.get(5)?,
    })
}

/// A run, open or not, of a session.
pub(super) struct Run {
    pub(super) number: i64,
    pub(super) writer: String,
    pub(super) epoch: i64,
    pub(super) is_open: bool,
}

/// A run of a session, with the session: what an append needs, in one query.
pub(super) fn run_row(
    transaction: &Transaction<'_>,
    session_id: &str,
    run_id: &str,
) -> Result<Option<(Run, Session)>, StoreError> {
    let row = transaction
        .prepare_cached(
            "SELECT sessions.number, owner, next_index, next_sequence, ceiling, last_at,
                 runs.number, writer, epoch, last_index IS NULL
             FROM runs JOIN sessions ON sessions.number = session
             WHERE run_id = ? AND session_id = ? AND deleted = 0",
        )?
        .query_row([run_id, session_id], |row| {
            let run = Run {
                number: row.get(6)?,
                writer: row.get(7)?,
                epoch: row.get(8)?,
                is_open: row.get(9)?,
            };
            Ok((run, read_row(session_id, row)?))
        })
        .optional()?;
    Ok(row)
}

/// A run as the store describes it.
pub(super) fn run_info(connection: &Connection, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
    let row = connection
        .prepare_cached(
            "SELECT session_id, owner, first_index, last_index,
                 CASE WHEN last_index IS NULL
                 THEN (SELECT process FROM writers WHERE writers.writer = runs.writer) END
             FROM runs JOIN sessions ON sessions.number = session
             WHERE run_id = ? AND deleted = 0",
        )?
        .query_row([run_id], |row| {
            Ok(RunInfo {
                run_id: run_id.to_owned(),
                session_id: row.get(0)?,
                owner: row.get(1)?,
                first_index: row.get(2)?,
                last_index: row.get(3)?,
                process: row.get(4)?,
            })
        })
        .optional()?;
    Ok(row)
}

/// Marks a run as over, at the time of the last of `drafts`.
pub(super) fn end_run(
    transaction: &Transaction<'_>,
    run: i64,
    session: &Session,
    drafts: &[Draft],
) -> Result<(), StoreError> {
    let at = drafts.last().map(|draft| draft.event.meta.timestamp);
    transaction
        .prepare_cached("UPDATE runs SET last_index = ?, ended_at = ? WHERE number = ?")?
        .execute(params![
            session.next_index.saturating_sub(1),
            at.map_or(session.last_at, Timestamp::as_millisecond),
            run
        ])?;
    Ok(())
}

pub(super) fn create_session(
    transaction: &Transaction<'_>,
    first: &Draft,
    owner: Option<&str>,
) -> Result<Session, StoreError> {
    let session_id = session_of(&first.event.meta);
    transaction
        .prepare_cached(
            "INSERT INTO sessions
                 (session_id, owner, agent, created_at, next_index, next_sequence, ceiling, last_at)
             VALUES (?, ?, ?, ?, 0, 0, 0, 0)",
        )?
        .execute(params![
            session_id,
            owner,
            agent_of(&first.event),
            first.event.meta.timestamp.as_millisecond()
        ])?;
    Ok(Session {
        number: transaction.last_insert_rowid(),
        id: session_id.to_owned(),
        owner: owner.map(ToOwned::to_owned),
        next_index: 0,
        next_sequence: 0,
        ceiling: 0,
        last_at: 0,
    })
}

pub(super) fn delete_session(transaction: &Transaction<'_>, session: i64) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM approvals WHERE session = ?",
        "DELETE FROM events WHERE session = ?",
        "DELETE FROM runs WHERE session = ?",
        "UPDATE sessions SET deleted = 1, owner = NULL, agent = NULL WHERE number = ?",
    ] {
        transaction.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}

/// Refuses a message whose client's id was sent before in this session.
pub(super) fn refuse_repeated(
    transaction: &Transaction<'_>,
    session: &Session,
    client_message_id: &str,
    message: &UserMessage,
) -> Result<(), StoreError> {
    let sent: Option<(String, String)> = transaction
        .prepare_cached(
            "SELECT run_id, payload FROM runs
             JOIN events ON events.session = runs.session AND event_index = first_index
             WHERE runs.session = ? AND client_message_id = ?",
        )?
        .query_row(params![session.number, client_message_id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((run_id, payload)) = sent else {
        return Ok(());
    };
    Err(repeated_in(&payload, message, run_id)?)
}

pub(super) fn open_runs(
    transaction: &Transaction<'_>,
    session_id: Option<&str>,
) -> Result<Vec<OpenRun>, StoreError> {
    let runs = transaction
        .prepare_cached(
            "SELECT runs.number, run_id, session_id, writer, epoch, first_index
             FROM runs JOIN sessions ON sessions.number = session
             WHERE last_index IS NULL AND (?1 IS NULL OR session_id = ?1) ORDER BY runs.number",
        )?
        .query_map([session_id], |row| {
            Ok(OpenRun {
                number: row.get(0)?,
                run_id: row.get(1)?,
                session_id: row.get(2)?,
                writer: row.get(3)?,
                epoch: row.get(4)?,
                first_index: row.get(5)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(runs)
}

pub(super) fn process_of(transaction: &Transaction<'_>, writer: &str) -> Result<Option<u32>, StoreError> {
    let process = transaction
        .prepare_cached("SELECT process FROM writers WHERE writer = ?")?
        .query_row([writer], |row| row.get(0))
        .optional()?;
    Ok(process)
}

/// An event of `payload, event_index, class`.
pub(super) fn read_event(row: &Row<'_>) -> rusqlite::Result<Result<StoredEvent, StoreError>> {
    Ok(StoredEvent::read(row.get(0)?, row.get(1)?, class_of(row.get(2)?)))
}

/// The columns that [`read_session`] reads.
pub(super) const SESSION: &str = "SELECT session_id, owner, next_index, run_id, agent,
        (SELECT payload FROM events WHERE events.session = sessions.number
         AND type = 'user_message_confirmed' ORDER BY event_index LIMIT 1),
        runs, messages, created_at, last_at
    FROM sessions LEFT JOIN runs ON runs.session = sessions.number AND last_index IS NULL
    WHERE deleted = 0";

/// A session, unless it does not exist.
pub(super) fn session_info(
    connection: &Connection,
    session_id: &str,
) -> Result<Option<SessionInfo>, StoreError> {
    let sql = format!("{SESSION} AND session_id = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row([session_id], read_session).optional()?)
}

/// A session of the columns of [`SESSION`].
pub(super) fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    let next_index: u64 = row.get(2)?;
    let first: Option<String> = row.get(5)?;
    let last_at = row.get(9)?;
    let created_at: Option<i64> = row.get(8)?;
    Ok(SessionInfo {
        session_id: row.get(0)?,
        owner: row.get(1)?,
        head: next_index.checked_sub(1),
        open_run: row.get(3)?,
        agent: row.get(4)?,
        first_message: first.as_deref().and_then(message_in),
        runs: row.get(6)?,
        messages: row.get(7)?,
        created_at: time(created_at.unwrap_or(last_at)),
        last_at: time(last_at),
    })
}
