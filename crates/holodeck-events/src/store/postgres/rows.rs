//! The rows of the tables: how they are read and written.

use holodeck_model::events::{EventClass, UserMessage};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::{
    StoreError, approvals,
    connection::{Db, Failure, signed, unsigned},
};
use crate::{
    Draft,
    store::{
        Counts, PAGE_BYTES, RunInfo, SessionInfo, StoredEvent, agent_of,
        columns::{class_code, class_of, message_in, raise, repeated_in, time, tool_use_of},
        fill_page,
        request::Done,
        session_of,
    },
};

/// The row of a session, locked until the end of the transaction.
pub(super) struct Session {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) owner: Option<String>,
    pub(super) next_index: u64,
    pub(super) next_sequence: u64,
    pub(super) ceiling: u64,
    /// When its last event was recorded.
    pub(super) last_at: i64,
    /// The server has started since it gave the last number.
    pub(super) is_restarted: bool,
}

/// A run, open or not, of a session.
pub(super) struct Run {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) writer: String,
    pub(super) epoch: i64,
    pub(super) first_index: i64,
    pub(super) is_open: bool,
}

/// Locks a session, unless it does not exist.
pub(super) async fn lock_session(db: &Db, session_id: &str) -> Result<Option<Session>, Failure> {
    let row = db
        .query_opt(
            "SELECT number, owner, next_index, next_sequence, ceiling, last_at,
                 server <> (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, deleted
             FROM holodeck_sessions WHERE session_id = $1 FOR UPDATE",
            &[&session_id],
        )
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    if row.try_get(7)? {
        return Err(StoreError::SessionDeleted {
            session_id: session_id.to_owned(),
        }
        .into());
    }
    Ok(Some(Session {
        number: row.try_get(0)?,
        id: session_id.to_owned(),
        owner: row.try_get(1)?,
        next_index: unsigned(&row, 2)?,
        next_sequence: unsigned(&row, 3)?,
        ceiling: unsigned(&row, 4)?,
        last_at: row.try_get(5)?,
        is_restarted: row.try_get(6)?,
    }))
}

/// Creates a session and locks it; `None` if it exists, which then is not locked.
pub(super) async fn create_session(
    db: &Db,
    first: &Draft,
    owner: Option<&str>,
) -> Result<Option<Session>, Failure> {
    let session_id = session_of(&first.event.meta);
    let row = db
        .query_opt(
            "INSERT INTO holodeck_sessions (session_id, owner, agent, created_at, server)
             VALUES ($1, $2, $3, $4, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint)
             ON CONFLICT (session_id) DO NOTHING RETURNING number",
            &[
                &session_id,
                &owner,
                &agent_of(&first.event),
                &first.event.meta.timestamp.as_millisecond(),
            ],
        )
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Session {
        number: row.try_get(0)?,
        id: session_id.to_owned(),
        owner: owner.map(ToOwned::to_owned),
        next_index: 0,
        next_sequence: 0,
        ceiling: 0,
        last_at: 0,
        is_restarted: false,
    }))
}

/// Numbers events and inserts them. Returns the events of the drafts: in the place of an answer to an approval that has
/// one already, the stored one.
pub(super) async fn add(
    db: &Db,
    session: &mut Session,
    run: Option<i64>,
    drafts: &[Draft],
    done: &mut Done,
) -> Result<Vec<StoredEvent>, Failure> {
    let mut stored = Vec::with_capacity(drafts.len());
    let mut new = Vec::with_capacity(drafts.len());
    let mut counts = Counts::default();
    for draft in drafts {
        if let Some(earlier) = approvals::answer_to(db, session.number, &draft.event).await? {
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
    db.execute(
        "UPDATE holodeck_sessions SET next_index = $1, next_sequence = $2, ceiling = $3, last_at = $4,
             runs = runs + $5, messages = messages + $6,
             server = (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
         WHERE number = $7",
        &[
            &signed(session.next_index),
            &signed(session.next_sequence),
            &signed(session.ceiling),
            &session.last_at,
            &signed(counts.runs),
            &signed(counts.messages),
            &session.number,
        ],
    )
    .await?;
    session.is_restarted = false;
    insert(db, session.number, run, &new).await?;
    for event in &new {
        approvals::record(db, session.number, event).await?;
    }
    done.publish.push((session.id.clone(), new));
    Ok(stored)
}

/// Inserts events in one statement.
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
        "INSERT INTO holodeck_events
             (session, run, event_index, sequence_number, event_id, tool_use_id, class, type, payload)
         SELECT $1, $2, * FROM unnest(
             $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::smallint[], $8::text[], $9::text[])",
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
    session: &Session,
    run_id: &str,
    writer: &str,
    client_message_id: Option<&str>,
    pruned: bool,
) -> Result<i64, Failure> {
    let row = db
        .query_opt(
            "INSERT INTO holodeck_runs (run_id, session, writer, epoch, client_message_id, first_index, pruned)
             VALUES ($1, $2, $3, 0, $4, $5, $6) RETURNING number",
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
        Some(row) => Ok(row.try_get(0)?),
        None => Err(StoreError::failed("a run was not stored").into()),
    }
}

pub(super) async fn find_run(db: &Db, session: i64, run_id: &str) -> Result<Option<Run>, Failure> {
    let row = db
        .query_opt(
            "SELECT number, run_id, writer, epoch, first_index, last_index IS NULL
             FROM holodeck_runs WHERE run_id = $1 AND session = $2",
            &[&run_id, &session],
        )
        .await?;
    row.map(|row| read_run(&row)).transpose()
}

/// The open run of a session.
pub(super) async fn open_run(db: &Db, session: i64) -> Result<Option<Run>, Failure> {
    let row = db
        .query_opt(
            "SELECT number, run_id, writer, epoch, first_index, last_index IS NULL
             FROM holodeck_runs WHERE session = $1 AND last_index IS NULL",
            &[&session],
        )
        .await?;
    row.map(|row| read_run(&row)).transpose()
}

fn read_run(row: &Row) -> Result<Run, Failure> {
    Ok(Run {
        number: row.try_get(0)?,
        id: row.try_get(1)?,
        writer: row.try_get(2)?,
        epoch: row.try_get(3)?,
        first_index: row.try_get(4)?,
        is_open: row.try_get(5)?,
    })
}

/// A run as the store describes it.
pub(super) async fn run_info(db: &Db, run_id: &str) -> Result<Option<RunInfo>, Failure> {
    let row = db
        .query_opt(
            "SELECT session_id, owner, first_index, last_index FROM holodeck_runs AS runs
             JOIN holodeck_sessions AS sessions ON sessions.number = session
             WHERE run_id = $1 AND NOT deleted",
            &[&run_id],
        )
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let last: Option<i64> = row.try_get(3)?;
    Ok(Some(RunInfo {
        run_id: run_id.to_owned(),
        session_id: row.try_get(0)?,
        owner: row.try_get(1)?,
        first_index: unsigned(&row, 2)?,
        last_index: last.and_then(|last| u64::try_from(last).ok()),
        // It may be one of another machine.
        process: None,
    }))
}

/// Marks a run as over, at the time of the last of `drafts`.
pub(super) async fn end_run(db: &Db, run: i64, session: &Session, drafts: &[Draft]) -> Result<(), Failure> {
    let at = drafts.last().map(|draft| draft.event.meta.timestamp);
    let at = at.map_or(session.last_at, Timestamp::as_millisecond);
    db.execute(
        "UPDATE holodeck_runs SET last_index = $1, ended_at = $2 WHERE number = $3",
        &[&signed(session.next_index.saturating_sub(1)), &at, &run],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_session(db: &Db, session: i64) -> Result<(), Failure> {
    for sql in [
        "DELETE FROM holodeck_approvals WHERE session = $1",
        "DELETE FROM holodeck_events WHERE session = $1",
        "DELETE FROM holodeck_runs WHERE session = $1",
        "UPDATE holodeck_sessions SET deleted = true, owner = NULL, agent = NULL WHERE number = $1",
    ] {
        db.execute(sql, &[&session]).await?;
    }
    Ok(())
}

/// Refuses a message whose client's id was sent before in this session.
pub(super) async fn refuse_repeated(
    db: &Db,
    session: &Session,
    client_message_id: &str,
    message: &UserMessage,
) -> Result<(), Failure> {
    let sent = db
        .query_opt(
            "SELECT run_id, payload FROM holodeck_runs AS runs
             JOIN holodeck_events AS events ON events.session = runs.session AND event_index = first_index
             WHERE runs.session = $1 AND client_message_id = $2",
            &[&session.number, &client_message_id],
        )
        .await?;
    let Some(row) = sent else {
        return Ok(());
    };
    let run_id: String = row.try_get(0)?;
    Err(repeated_in(row.try_get(1)?, message, run_id)?.into())
}

/// An event of `payload, event_index, class`.
pub(super) fn read_event(row: &Row) -> Result<StoredEvent, Failure> {
    let class = class_of(row.try_get(2)?);
    Ok(StoredEvent::read(row.try_get(0)?, unsigned(row, 1)?, class)?)
}

/// A page, which the server ends where its bytes are too many.
pub(super) async fn page(
    db: &Db,
    session_id: &str,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<StoredEvent>, Failure> {
    let from = signed(after.map_or(0, |after| after.saturating_add(1)));
    let most = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let rows = db
        .query(
            "SELECT payload, event_index, class FROM (
                 SELECT payload, event_index, class,
                     sum(octet_length(payload)) OVER place AS bytes, row_number() OVER place AS nth
                 FROM (SELECT payload, event_index, class FROM holodeck_events
                     WHERE session = (SELECT number FROM holodeck_sessions WHERE session_id = $1)
                         AND event_index >= $2
                     ORDER BY event_index LIMIT $3) AS later
                 WINDOW place AS (ORDER BY event_index)) AS page
             WHERE bytes <= $4::bigint OR nth = 1 ORDER BY event_index",
            &[
                &session_id,
                &from,
                &most,
                &i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX),
            ],
        )
        .await?;
    fill_page(rows.iter().map(read_event), limit)
}

/// The columns that [`read_session`] reads.
macro_rules! session_sql {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, owner, next_index, run_id, agent,
                 (SELECT payload FROM holodeck_events AS said WHERE said.session = sessions.number
                  AND type = 'user_message_confirmed' ORDER BY event_index LIMIT 1),
                 sessions.runs, messages, created_at, last_at
             FROM holodeck_sessions AS sessions
             LEFT JOIN holodeck_runs AS open ON open.session = sessions.number AND last_index IS NULL
             WHERE NOT deleted ",
            $rest
        )
    };
}

/// A session, unless it does not exist.
pub(super) async fn session_info(db: &Db, session_id: &str) -> Result<Option<SessionInfo>, Failure> {
    let row = db
        .query_opt(session_sql!("AND session_id = $1"), &[&session_id])
        .await?;
    row.map(|row| read_session(&row)).transpose()
}

pub(super) async fn sessions(
    db: &Db,
    owner: Option<&str>,
    after: Option<(i64, &str)>,
    limit: i64,
) -> Result<Vec<SessionInfo>, Failure> {
    let (last_at, session_id) = after.unzip();
    let rows = db
        .query(
            session_sql!(
                "AND ($1::text IS NULL OR owner = $1)
                 AND ($2::bigint IS NULL OR last_at < $2 OR (last_at = $2 AND session_id > $3::text))
                 ORDER BY last_at DESC, session_id LIMIT $4"
            ),
            &[&owner, &last_at, &session_id, &limit],
        )
        .await?;
    rows.iter().map(read_session).collect()
}

fn read_session(row: &Row) -> Result<SessionInfo, Failure> {
    let first: Option<&str> = row.try_get(5)?;
    Ok(SessionInfo {
        session_id: row.try_get(0)?,
        owner: row.try_get(1)?,
        head: unsigned(row, 2)?.checked_sub(1),
        open_run: row.try_get(3)?,
        agent: row.try_get(4)?,
        first_message: first.and_then(message_in),
        runs: unsigned(row, 6)?,
        messages: unsigned(row, 7)?,
        created_at: time(row.try_get(8)?),
        last_at: time(row.try_get(9)?),
    })
}
