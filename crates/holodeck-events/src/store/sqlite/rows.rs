//! Writes the rows of sessions, runs and events, and finds them.

use holodeck_model::events::UserMessage;
use jiff::Timestamp;
use rusqlite::params;

use super::{approvals, query::Tables, statements as sql};
use crate::{
    Draft,
    store::{
        RunInfo, SessionInfo, StoreError, StoredEvent, agent_of,
        columns::{
            RunRow, SessionRow, class_code, number_drafts, read_run_info, read_session_info, repeated_in,
            text, tool_use_of,
        },
        request::Done,
        session_of,
    },
};

/// Numbers events and inserts them; the row of the session is written first. Returns the events of the drafts: in the
/// place of an answer to an approval that has one already, the stored one.
pub(super) fn add(
    tables: Tables<'_>,
    session: &mut SessionRow,
    run: Option<i64>,
    drafts: &[Draft],
    done: &mut Done,
) -> Result<Vec<StoredEvent>, StoreError> {
    let earlier = drafts
        .iter()
        .map(|draft| approvals::answer_to(tables, session.number, &draft.event));
    let earlier = earlier.collect::<Result<_, _>>()?;
    let numbered = number_drafts(session, drafts, earlier)?;
    done.raised |= numbered.raised;
    if numbered.is_pieces {
        let values = params![session.next_index, session.ceiling, session.number];
        tables.execute(sql::NUMBER_PIECES, values)?;
    } else {
        tables.execute(
            sql::NUMBER_EVENTS,
            params![
                session.next_index,
                session.ceiling,
                session.next_sequence,
                session.last_at,
                numbered.counts.runs,
                numbered.counts.messages,
                session.number
            ],
        )?;
    }
    for event in &numbered.new {
        let body = &event.event().body;
        tables.execute(
            sql::INSERT_EVENT,
            params![
                session.number,
                event.index(),
                event.event().meta.sequence_number,
                event.event().meta.event_id.as_bytes(),
                run,
                tool_use_of(event.event()),
                class_code(event.class()),
                body.kind(),
                event.json()
            ],
        )?;
        approvals::record(tables, session.number, event)?;
    }
    done.publish.push((session.id.clone(), numbered.new));
    Ok(numbered.stored)
}

/// A session, unless it does not exist. An error if it was deleted.
pub(super) fn find_session(tables: Tables<'_>, session_id: &str) -> Result<Option<SessionRow>, StoreError> {
    tables.first(sql::SESSION, [session_id], |row| {
        SessionRow::read(row, session_id)
    })
}

/// A session, unless it does not exist or was deleted.
pub(super) fn find_existing(tables: Tables<'_>, session_id: &str) -> Result<Option<SessionRow>, StoreError> {
    match find_session(tables, session_id) {
        Err(StoreError::SessionDeleted { .. }) => Ok(None),
        found => found,
    }
}

/// A run of a session, with the session: what an append needs, in one query.
pub(super) fn find_run(
    tables: Tables<'_>,
    session_id: &str,
    run_id: &str,
) -> Result<Option<(SessionRow, RunRow)>, StoreError> {
    tables.first(sql::RUN, [run_id, session_id], |row| {
        Ok((SessionRow::read(row, session_id)?, RunRow::read(row, 8)?))
    })
}

/// The open run of a session.
pub(super) fn open_run(tables: Tables<'_>, session: i64) -> Result<Option<RunRow>, StoreError> {
    tables.first(sql::OPEN_RUN, [session], |row| RunRow::read(row, 0))
}

/// A run as the store describes it.
pub(super) fn run_info(tables: Tables<'_>, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
    tables.first(sql::RUN_INFO, [run_id], |row| read_run_info(row, run_id))
}

/// Inserts a run that begins with the next event of the session.
pub(super) fn insert_run(
    tables: Tables<'_>,
    session: &SessionRow,
    run_id: &str,
    writer: &str,
    client_message_id: Option<&str>,
    pruned: bool,
) -> Result<i64, StoreError> {
    tables.insert(
        sql::INSERT_RUN,
        params![
            run_id,
            session.number,
            writer,
            client_message_id,
            session.next_index,
            pruned
        ],
    )
}

/// Marks a run as over, at the time of the last of `drafts`.
pub(super) fn end_run(
    tables: Tables<'_>,
    run: i64,
    session: &SessionRow,
    drafts: &[Draft],
) -> Result<(), StoreError> {
    let at = drafts.last().map(|draft| draft.event.meta.timestamp);
    let at = at.map_or(session.last_at, Timestamp::as_millisecond);
    tables.execute(
        sql::END_RUN,
        params![session.next_index.saturating_sub(1), at, run],
    )?;
    Ok(())
}

pub(super) fn create_session(
    tables: Tables<'_>,
    first: &Draft,
    owner: Option<&str>,
) -> Result<SessionRow, StoreError> {
    let session_id = session_of(&first.event.meta);
    let created_at = first.event.meta.timestamp.as_millisecond();
    let values = params![session_id, owner, agent_of(&first.event), created_at];
    let number = tables.insert(sql::INSERT_SESSION, values)?;
    Ok(SessionRow::new(number, session_id, owner, created_at))
}

/// Refuses a message whose client's id was sent before in this session.
pub(super) fn refuse_repeated(
    tables: Tables<'_>,
    session: &SessionRow,
    client_message_id: &str,
    message: &UserMessage,
) -> Result<(), StoreError> {
    let values = params![session.number, client_message_id];
    let sent = tables.first(sql::SENT_BEFORE, values, |row| Ok((text(row, 0)?, text(row, 1)?)))?;
    match sent {
        Some((run_id, payload)) => Err(repeated_in(&payload, message, run_id)?),
        None => Ok(()),
    }
}

/// A session, unless it does not exist.
pub(super) fn session_info(tables: Tables<'_>, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
    tables.first(sql::SESSION_INFO, [session_id], |row| read_session_info(row))
}
