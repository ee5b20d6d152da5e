//! Reads and writes the table of approvals, in which the first answer counts.

use holodeck_model::events::{AgentEvent, ApprovalScope, EventBody, EventClass};
use tokio_postgres::Row;

use super::{
    StoreError,
    connection::{Db, Failure, signed, unsigned},
};
use crate::store::{ApprovalInfo, StoredEvent, approvals::Approval, request::Done};

/// The columns that [`read`] reads.
macro_rules! approval_sql {
    ($rest:literal) => {
        concat!(
            "SELECT owner, agent, asked.payload, asked.event_index, answer.payload, answer.event_index
             FROM holodeck_approvals AS approvals
             JOIN holodeck_sessions AS sessions ON sessions.number = approvals.session
             JOIN holodeck_events AS asked
                 ON asked.session = approvals.session AND asked.event_index = requested_index
             LEFT JOIN holodeck_events AS answer
                 ON answer.session = approvals.session AND answer.event_index = resolved_index ",
            $rest
        )
    };
}

/// An approval by its id.
pub(super) async fn find(db: &Db, approval_id: &str) -> Result<Option<Approval>, Failure> {
    let row = db
        .query_opt(approval_sql!("WHERE approval_id = $1"), &[&approval_id])
        .await?;
    row.map(|row| read(&row)).transpose()
}

/// Pending approvals, the oldest first.
pub(super) async fn pending(
    db: &Db,
    session_id: Option<&str>,
    owner: Option<&str>,
) -> Result<Vec<ApprovalInfo>, Failure> {
    let rows = db
        .query(
            approval_sql!(
                "WHERE resolved_index IS NULL
                 AND ($1::text IS NULL OR session_id = $1) AND ($2::text IS NULL OR owner = $2)
                 ORDER BY approvals.session, requested_index"
            ),
            &[&session_id, &owner],
        )
        .await?;
    let mut pending = Vec::new();
    for row in &rows {
        pending.extend(read(row)?.info());
    }
    pending.sort_by_key(|approval| approval.requested_at);
    Ok(pending)
}

/// Remembers that later calls of its tool are approved.
pub(super) async fn remember(
    db: &Db,
    approval: &Approval,
    approval_id: &str,
    scope: &ApprovalScope,
) -> Result<(), Failure> {
    let tool = approval.tool();
    db.execute(
        "UPDATE holodeck_approvals SET approved_tool = $1 WHERE approval_id = $2",
        &[&tool, &approval_id],
    )
    .await?;
    if *scope == ApprovalScope::Always {
        db.execute(
            "INSERT INTO holodeck_always_approved (owner, agent, tool)
             SELECT $1::text, $2::text, $3::text WHERE NOT EXISTS (
                 SELECT 1 FROM holodeck_always_approved
                 WHERE owner IS NOT DISTINCT FROM $1 AND agent = $2 AND tool = $3)",
            &[&approval.owner, &approval.agent, &tool],
        )
        .await?;
    }
    Ok(())
}

/// Forgets that a tool is approved for a session, and for all sessions of its owner with its agent.
pub(super) async fn forget(db: &Db, session_id: &str, tool: &str) -> Result<Done, Failure> {
    let mut forgotten = 0;
    for sql in [
        "UPDATE holodeck_approvals SET approved_tool = NULL
         WHERE session = (SELECT number FROM holodeck_sessions WHERE session_id = $1) AND approved_tool = $2",
        "DELETE FROM holodeck_always_approved AS always WHERE tool = $2 AND EXISTS (
             SELECT 1 FROM holodeck_sessions AS sessions WHERE session_id = $1
             AND sessions.owner IS NOT DISTINCT FROM always.owner AND sessions.agent = always.agent)",
    ] {
        forgotten += db.execute(sql, &[&session_id, &tool]).await?;
    }
    let mut done = Done::default();
    done.reply.forgot = forgotten > 0;
    Ok(done)
}

/// The stored answer to the approval that this event answers.
pub(super) async fn answer_to(
    db: &Db,
    session: i64,
    event: &AgentEvent,
) -> Result<Option<StoredEvent>, Failure> {
    let EventBody::ApprovalResolved(answer) = &event.body else {
        return Ok(None);
    };
    let row = db
        .query_opt(
            "SELECT payload, event_index FROM holodeck_approvals AS approvals
             JOIN holodeck_events AS events
                 ON events.session = approvals.session AND event_index = resolved_index
             WHERE approval_id = $1 AND approvals.session = $2",
            &[&answer.approval_id, &session],
        )
        .await?;
    match row {
        Some(row) => stored(&row, 0),
        None => Ok(None),
    }
}

/// Writes the row of an approval that this event asks for or resolves.
pub(super) async fn record(db: &Db, session: i64, event: &StoredEvent) -> Result<(), Failure> {
    let (sql, approval_id) = match &event.event().body {
        EventBody::ApprovalRequested(request) => (
            "INSERT INTO holodeck_approvals (requested_index, session, approval_id) VALUES ($1, $2, $3)",
            &request.approval_id,
        ),
        EventBody::ApprovalResolved(answer) => (
            "UPDATE holodeck_approvals SET resolved_index = $1
             WHERE session = $2 AND approval_id = $3 AND resolved_index IS NULL",
            &answer.approval_id,
        ),
        _ => return Ok(()),
    };
    db.execute(sql, &[&signed(event.index()), &session, approval_id])
        .await?;
    Ok(())
}

/// The tools that are approved for a session.
pub(super) async fn remembered_tools(db: &Db, session_id: &str) -> Result<Vec<String>, Failure> {
    let rows = db
        .query(
            "SELECT approved_tool FROM holodeck_approvals JOIN holodeck_sessions ON number = session
             WHERE session_id = $1 AND approved_tool IS NOT NULL
             UNION
             SELECT tool FROM holodeck_always_approved AS always JOIN holodeck_sessions AS sessions
                 ON always.owner IS NOT DISTINCT FROM sessions.owner AND always.agent = sessions.agent
             WHERE session_id = $1
             ORDER BY 1",
            &[&session_id],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn read(row: &Row) -> Result<Approval, Failure> {
    Ok(Approval {
        owner: row.try_get(0)?,
        agent: row.try_get(1)?,
        asked: stored(row, 2)?.ok_or_else(|| StoreError::failed("an approval has no event"))?,
        resolved: stored(row, 4)?,
    })
}

/// The event of two columns, `payload, event_index`, from `first` on.
fn stored(row: &Row, first: usize) -> Result<Option<StoredEvent>, Failure> {
    let payload: Option<String> = row.try_get(first)?;
    let Some(payload) = payload else {
        return Ok(None);
    };
    let index = unsigned(row, first + 1)?;
    Ok(Some(StoredEvent::read(payload, index, EventClass::Durable)?))
}
