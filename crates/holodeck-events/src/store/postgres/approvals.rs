//! Reads and writes the table of approvals, in which the first answer counts.

use holodeck_model::events::{AgentEvent, ApprovalScope, EventBody};

use super::{
    connection::{Db, Failure, signed},
    statements as sql,
};
use crate::store::{
    AlwaysApproved, ApprovalInfo, StoredEvent,
    approvals::Approval,
    columns::{read_always, read_answer, read_approval, text},
    request::Done,
};

/// An approval by its id.
pub(super) async fn find(db: &Db, approval_id: &str) -> Result<Option<Approval>, Failure> {
    let row = db.query_opt(sql::APPROVAL, &[&approval_id]).await?;
    row.map(|row| read_approval(&row)).transpose()
}

/// Pending approvals, the oldest first.
pub(super) async fn pending(
    db: &Db,
    session_id: Option<&str>,
    owner: Option<&str>,
) -> Result<Vec<ApprovalInfo>, Failure> {
    let rows = match session_id {
        Some(session_id) => db.query(sql::PENDING_OF, &[&owner, &session_id]).await?,
        None => db.query(sql::PENDING, &[&owner]).await?,
    };
    let mut pending = Vec::new();
    for row in &rows {
        pending.extend(read_approval(row)?.info());
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
    db.execute(sql::APPROVE_TOOL, &[&tool, &approval_id]).await?;
    if *scope == ApprovalScope::Always {
        let values = [&approval.owner as _, &approval.agent as _, &tool as _];
        db.execute(sql::APPROVE_ALWAYS, &values).await?;
    }
    Ok(())
}

/// Forgets that a tool is approved for a session, and for all sessions of its owner with its agent.
pub(super) async fn forget(db: &Db, session_id: &str, tool: &str) -> Result<Done, Failure> {
    let mut forgotten = 0;
    for statement in [sql::FORGET_TOOL, sql::FORGET_ALWAYS] {
        forgotten += db.execute(statement, &[&session_id, &tool]).await?;
    }
    let mut done = Done::default();
    done.reply.forgot = forgotten > 0;
    Ok(done)
}

/// The tools that are always approved for an agent, by all owners or by one.
pub(super) async fn always(
    db: &Db,
    agent: &str,
    owner: Option<&str>,
) -> Result<Vec<AlwaysApproved>, Failure> {
    let rows = db.query(sql::ALWAYS_APPROVED, &[&agent, &owner]).await?;
    rows.iter().map(read_always).collect()
}

/// Forgets that a tool is always approved.
pub(super) async fn revoke(db: &Db, approved: &AlwaysApproved) -> Result<Done, Failure> {
    let values = [&approved.owner as _, &approved.agent as _, &approved.tool as _];
    let mut done = Done::default();
    done.reply.forgot = db.execute(sql::REVOKE_ALWAYS, &values).await? > 0;
    if done.reply.forgot {
        if approved.owner.is_some() {
            db.execute(sql::REVOKE_IN_SESSIONS, &values).await?;
        } else {
            let values = [&approved.agent as _, &approved.tool as _];
            db.execute(sql::REVOKE_IN_UNOWNED, &values).await?;
        }
    }
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
        .query_opt(sql::ANSWER, &[&answer.approval_id, &session])
        .await?;
    match row {
        Some(row) => read_answer(&row, 0),
        None => Ok(None),
    }
}

/// Writes the row of an approval that this event asks for or resolves.
pub(super) async fn record(db: &Db, session: i64, event: &StoredEvent) -> Result<(), Failure> {
    let (statement, approval_id) = match &event.event().body {
        EventBody::ApprovalRequested(request) => (sql::INSERT_APPROVAL, &request.approval_id),
        EventBody::ApprovalResolved(answer) => (sql::RESOLVE_APPROVAL, &answer.approval_id),
        _ => return Ok(()),
    };
    db.execute(statement, &[&signed(event.index()), &session, approval_id])
        .await?;
    Ok(())
}

/// The tools that are approved for a session.
pub(super) async fn remembered_tools(db: &Db, session_id: &str) -> Result<Vec<String>, Failure> {
    let rows = db.query(sql::APPROVED_TOOLS, &[&session_id]).await?;
    rows.iter().map(|row| text(row, 0)).collect()
}
