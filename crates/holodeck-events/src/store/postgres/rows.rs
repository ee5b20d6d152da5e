//! Writes the rows of sessions, runs and events, and finds them.

use holodeck_model::events::UserMessage;
use jiff::Timestamp;

use super::{
    StoreError, approvals,
    connection::{Db, Failure, signed},
    statements as sql,
};
use crate::{
    Draft,
    store::{
        PAGE_BYTES, RunInfo, SessionCursor, SessionInfo, StoredEvent, agent_of,
        columns::{
            RunRow, SessionRow, class_code, list_from, number, number_drafts, read_event, read_run_info,
            read_session_info, repeated_in, text, tool_use_of,
        },
        fill_page,
        request::Done,
        session_of,
    },
};

/// Locks a session, unless it does not exist. An error if it was deleted.
pub(super) async fn lock_session(db: &Db, session_id: &str) -> Result<Option<SessionRow>, Failure> {
    let row = db.query_opt(sql::SESSION, &[&session_id]).await?;
    row.map(|row| SessionRow::read(&row, session_id)).transpose()
}

/// Locks a session, unless it does not exist or was deleted.
pub(super) async fn lock_existing(db: &Db, session_id: &str) -> Result<Option<SessionRow>, Failure> {
    match lock_session(db, session_id).await {
        Err(Failure::Refused(StoreError::SessionDeleted { .. })) => Ok(None),
        locked => locked,
    }
}

/// Creates a session and locks it; `None` if it exists, which then is not locked.
pub(super) async fn create_session(
    db: &Db,
    first: &Draft,
    owner: Option<&str>,
) -> Result<Option<SessionRow>, Failure> {
    let session_id = session_of(&first.event.meta);
    let created_at = first.event.meta.timestamp.as_millisecond();
    let row = db
        .query_opt(
            sql::INSERT_SESSION,
            &[&session_id, &owner, &agent_of(&first.event), &created_at],
        )
        .await?;
    row.map(|row| Ok(SessionRow::new(number(&row, 0)?, session_id, owner, created_at)))
        .transpose()
}

/// Numbers events and inserts them. Returns the events of the drafts: in the place of an answer to an approval that has
/// one already, the stored one.
pub(super) async fn add(
    db: &Db,
    session: &mut SessionRow,
    run: Option<i64>,
    drafts: &[Draft],
    done: &mut Done,
) -> Result<Vec<StoredEvent>, Failure> {
    let mut earlier = Vec::with_capacity(drafts.len());
    for draft in drafts {
        earlier.push(approvals::answer_to(db, session.number, &draft.event).await?);
    }
    let numbered = number_drafts(session, drafts, earlier)?;
    done.raised |= numbered.raised;
    let (next_index, ceiling) = (signed(session.next_index), signed(session.ceiling));
    if numbered.is_pieces {
        db.execute(sql::NUMBER_PIECES, &[&next_index, &ceiling, &session.number])
            .await?;
    } else {
        db.execute(
            sql::NUMBER_EVENTS,
            &[
                &next_index,
                &ceiling,
                &signed(session.next_sequence),
                &session.last_at,
                &signed(numbered.counts.runs),
                &signed(numbered.counts.messages),
                &session.number,
            ],
        )
        .await?;
    }
    session.is_restarted = false;
    insert(db, session.number, run, &numbered.new).await?;
    for event in &numbered.new {
        approvals::record(db, session.number, event).await?;
    }
    done.publish.push((session.id.clone(), numbered.new));
    Ok(numbered.stored)
}

async fn insert(db: &Db, session: i64, run: Option<i64>, new: &[StoredEvent]) -> Result<(), Failure> {
    let indices: Vec<i64> = new.iter().map(|event| signed(event.index())).collect();
    let numbers: Vec<Option<i64>> = new
        .iter()
        .map(|event| event.event().meta.sequence_number.map(signed))
        .collect();
    let ids: Vec<&[u8]> = new
        .iter()
        .map(|event| &event.event().meta.event_id.as_bytes()[..])
        .collect();
    let tools: Vec<Option<&str>> = new.iter().map(|event| tool_use_of(event.event())).collect();
    let classes: Vec<i16> = new.iter().map(|event| class_code(event.class())).collect();
    let kinds: Vec<&str> = new.iter().map(|event| event.event().body.kind()).collect();
    let payloads: Vec<&str> = new.iter().map(StoredEvent::json).collect();
    db.execute(
        sql::INSERT_EVENTS,
        &[
            &session, &run, &indices, &numbers, &ids, &tools, &classes, &kinds, &payloads,
        ],
    )
    .await?;
    Ok(())
}

/// Inserts a run that begins with the next event of the session.
pub(super) async fn insert_run(
    db: &Db,
    session: &SessionRow,
    run_id: &str,
    writer: &str,
    client_message_id: Option<&str>,
    pruned: bool,
) -> Result<i64, Failure> {
    let row = db
        .query_opt(
            sql::INSERT_RUN,
            &[
                &run_id,
                &session.number,
                &writer,
                &client_message_id,
                &signed(session.next_index),
                &pruned,
            ],
        )
        .await?;
    match row {
        Some(row) => number(&row, 0),
        None => Err(StoreError::failed("a run was not stored").into()),
    }
}

pub(super) async fn find_run(db: &Db, session: i64, run_id: &str) -> Result<Option<RunRow>, Failure> {
    let row = db.query_opt(sql::RUN, &[&run_id, &session]).await?;
    row.map(|row| RunRow::read(&row, 0)).transpose()
}

/// The open run of a session.
pub(super) async fn open_run(db: &Db, session: i64) -> Result<Option<RunRow>, Failure> {
    let row = db.query_opt(sql::OPEN_RUN, &[&session]).await?;
    row.map(|row| RunRow::read(&row, 0)).transpose()
}

/// A run as the store describes it, without its process, which may be one of another machine.
pub(super) async fn run_info(db: &Db, run_id: &str) -> Result<Option<RunInfo>, Failure> {
    let row = db.query_opt(sql::RUN_INFO, &[&run_id]).await?;
    row.map(|row| read_run_info(&row, run_id)).transpose()
}

/// Marks a run as over, at the time of the last of `drafts`.
pub(super) async fn end_run(
    db: &Db,
    run: i64,
    session: &SessionRow,
    drafts: &[Draft],
) -> Result<(), Failure> {
    let at = drafts.last().map(|draft| draft.event.meta.timestamp);
    let at = at.map_or(session.last_at, Timestamp::as_millisecond);
    let last_index = signed(session.next_index.saturating_sub(1));
    db.execute(sql::END_RUN, &[&last_index, &at, &run]).await?;
    Ok(())
}

/// Refuses a message whose client's id was sent before in this session.
pub(super) async fn refuse_repeated(
    db: &Db,
    session: &SessionRow,
    client_message_id: &str,
    message: &UserMessage,
) -> Result<(), Failure> {
    let sent = db
        .query_opt(sql::SENT_BEFORE, &[&session.number, &client_message_id])
        .await?;
    match sent {
        Some(row) => Err(repeated_in(&text(&row, 1)?, message, text(&row, 0)?)?.into()),
        None => Ok(()),
    }
}

pub(super) async fn page(
    db: &Db,
    session_id: &str,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<StoredEvent>, Failure> {
    let from = signed(after.map_or(0, |after| after.saturating_add(1)));
    let most = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let bytes = i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX);
    let rows = db.query(sql::PAGE, &[&session_id, &from, &most, &bytes]).await?;
    fill_page(rows.iter().map(read_event), limit)
}

/// Whether a session of another user has this id, or had it before it was deleted.
pub(super) async fn is_taken(db: &Db, session_id: &str, user: &str) -> Result<bool, Failure> {
    let row = db.query_opt(sql::TAKEN, &[&session_id, &user]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

/// A session, unless it does not exist.
pub(super) async fn session_info(db: &Db, session_id: &str) -> Result<Option<SessionInfo>, Failure> {
    let row = db.query_opt(sql::SESSION_INFO, &[&session_id]).await?;
    row.map(|row| read_session_info(&row)).transpose()
}

pub(super) async fn sessions(
    db: &Db,
    owner: Option<&str>,
    after: Option<&SessionCursor>,
    limit: i64,
) -> Result<Vec<SessionInfo>, Failure> {
    let (last_at, session_id) = list_from(after);
    let rows = match owner {
        Some(owner) => {
            db.query(sql::SESSIONS_OF, &[&last_at, &session_id, &limit, &owner])
                .await?
        }
        None => db.query(sql::SESSIONS, &[&last_at, &session_id, &limit]).await?,
    };
    rows.iter().map(read_session_info).collect()
}
