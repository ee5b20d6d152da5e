//! Reads and writes the table of approvals, in which the first answer counts, also across processes.

use holodeck_model::events::{AgentEvent, ApprovalScope, EventBody, EventClass};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use crate::store::{ApprovalInfo, StoreError, StoredEvent, approvals::Approval, request::Done};

/// The columns that [`read`] reads.
const APPROVAL: &str =
    "SELECT owner, agent, asked.payload, asked.event_index, answer.payload, answer.event_index
    FROM approvals
    JOIN sessions ON sessions.number = approvals.session
    JOIN events AS asked ON asked.session = approvals.session AND asked.event_index = requested_index
    LEFT JOIN events AS answer ON answer.session = approvals.session AND answer.event_index = resolved_index";

/// Remembers that later calls of its tool are approved.
pub(super) fn remember(
    transaction: &Transaction<'_>,
    approval: &Approval,
    approval_id: &str,
    scope: &ApprovalScope,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE approvals SET approved_tool = ? WHERE approval_id = ?")?
        .execute([&*approval.tool(), approval_id])?;
    if *scope == ApprovalScope::Always {
        transaction
            .prepare_cached(
                "INSERT INTO always_approved (owner, agent, tool) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (
                     SELECT 1 FROM always_approved WHERE owner IS ?1 AND agent = ?2 AND tool = ?3)",
            )?
            .execute(params![approval.owner, approval.agent, approval.tool()])?;
    }
    Ok(())
}

/// Forgets that a tool is approved for a session, and for all sessions of its owner with its agent.
pub(super) fn forget(
    transaction: &Transaction<'_>,
    session_id: &str,
    tool: &str,
) -> Result<Done, StoreError> {
    let of_session = "session = (SELECT number FROM sessions WHERE session_id = ?1)";
    let always = "EXISTS (SELECT 1 FROM sessions WHERE session_id = ?1
        AND sessions.owner IS always_approved.owner AND sessions.agent = always_approved.agent)";
    let mut forgotten = 0;
    for sql in [
        format!("UPDATE approvals SET approved_tool = NULL WHERE {of_session} AND approved_tool = ?2"),
        format!("DELETE FROM always_approved WHERE {always} AND tool = ?2"),
    ] {
        forgotten += transaction.prepare_cached(&sql)?.execute([session_id, tool])?;
    }
    let mut done = Done::default();
    done.reply.forgot = forgotten > 0;
    Ok(done)
}

/// The stored answer to the approval that this event answers.
pub(super) fn answer_to(
    transaction: &Transaction<'_>,
    session: i64,
    event: &AgentEvent,
) -> Result<Option<StoredEvent>, StoreError> {
    let EventBody::ApprovalResolved(answer) = &event.body else {
        return Ok(None);
    };
    let stored = transaction
        .prepare_cached(
            "SELECT payload, event_index FROM approvals
             JOIN events ON events.session = approvals.session AND event_index = resolved_index
             WHERE approval_id = ? AND approvals.session = ?",
        )?
        .query_row(params![answer.approval_id, session], |row| stored(row, 0))
        .optional()?;
    Ok(stored.transpose()?.flatten())
}

/// Writes the row of an approval that this event asks for or resolves.
pub(super) fn record(
    transaction: &Transaction<'_>,
    session: i64,
    event: &StoredEvent,
) -> Result<(), StoreError> {
    let (sql, approval_id) = match &event.event().body {
        EventBody::ApprovalRequested(request) => (
            "INSERT INTO approvals (requested_index, session, approval_id) VALUES (?, ?, ?)",
            &request.approval_id,
        ),
        EventBody::ApprovalResolved(answer) => (
            "UPDATE approvals SET resolved_index = ?
             WHERE session = ? AND approval_id = ? AND resolved_index IS NULL",
            &answer.approval_id,
        ),
        _ => return Ok(()),
    };
    transaction
        .prepare_cached(sql)?
        .execute(params![event.index(), session, approval_id])?;
    Ok(())
}

/// An approval by its id.
pub(super) fn find(connection: &Connection, approval_id: &str) -> Result<Option<Approval>, StoreError> {
    let sql = format!("{APPROVAL} WHERE approval_id = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([approval_id], read).optional()?.transpose()
}

/// Pending approvals, the oldest first.
pub(super) fn pending(
    connection: &Connection,
    session_id: Option<&str>,
    owner: Option<&str>,
) -> Result<Vec<ApprovalInfo>, StoreError> {
    let sql = format!(
        "{APPROVAL} WHERE resolved_index IS NULL
         AND (?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR owner = ?2)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut pending = Vec::new();
    for approval in statement.query_map([session_id, owner], read)? {
        pending.extend(approval??.info());
    }
    pending.sort_by_key(|approval| approval.requested_at);
    Ok(pending)
}

/// The tools that are approved for a session.
pub(super) fn remembered_tools(connection: &Connection, session_id: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT approved_tool FROM approvals JOIN sessions ON number = session
         WHERE session_id = ?1 AND approved_tool IS NOT NULL
         UNION
         SELECT tool FROM always_approved JOIN sessions
             ON always_approved.owner IS sessions.owner AND always_approved.agent = sessions.agent
         WHERE session_id = ?1
         ORDER BY 1",
    )?;
    let tools = statement.query_map([session_id], |row| row.get(0))?;
    Ok(tools.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Approval, StoreError>> {
    let (owner, agent) = (row.get(0)?, row.get(1)?);
    let (asked, resolved) = (stored(row, 2)?, stored(row, 4)?);
    let approval = || {
        Ok(Approval {
            owner,
            agent,
            asked: asked?.ok_or_else(|| StoreError::failed("an approval has no event"))?,
            resolved: resolved?,
        })
    };
    Ok(approval())
}

/// The event of two columns, `payload, event_index`, from `first` on.
fn stored(row: &Row<'_>, first: usize) -> rusqlite::Result<Result<Option<StoredEvent>, StoreError>> {
    let payload: Option<String> = row.get(first)?;
    let Some(payload) = payload else {
        return Ok(Ok(None));
    };
    let index = row.get(first + 1)?;
    Ok(StoredEvent::read(payload, index, EventClass::Durable).map(Some))
}
