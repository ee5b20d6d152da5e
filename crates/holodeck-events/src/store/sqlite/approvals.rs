//! Reads and writes the table of approvals, in which the first answer counts, also across processes.

use holodeck_model::events::{AgentEvent, ApprovalScope, EventBody};
use rusqlite::params;

use super::{query::Tables, statements as sql};
use crate::store::{
    AlwaysApproved, ApprovalInfo, StoreError, StoredEvent,
    approvals::Approval,
    columns::{read_always, read_answer, read_approval, text},
    request::Done,
};

/// Remembers that later calls of its tool are approved.
pub(super) fn remember(
    tables: Tables<'_>,
    approval: &Approval,
    approval_id: &str,
    scope: &ApprovalScope,
) -> Result<(), StoreError> {
    tables.execute(sql::APPROVE_TOOL, [&*approval.tool(), approval_id])?;
    if *scope == ApprovalScope::Always {
        let values = params![approval.owner, approval.agent, approval.tool()];
        tables.execute(sql::APPROVE_ALWAYS, values)?;
    }
    Ok(())
}

/// Forgets that a tool is approved for a session, and for all sessions of its owner with its agent.
pub(super) fn forget(tables: Tables<'_>, session_id: &str, tool: &str) -> Result<Done, StoreError> {
    let mut forgotten = 0;
    for statement in [sql::FORGET_TOOL, sql::FORGET_ALWAYS] {
        forgotten += tables.execute(statement, [session_id, tool])?;
    }
    let mut done = Done::default();
    done.reply.forgot = forgotten > 0;
    Ok(done)
}

/// The tools that are always approved for an agent, by all owners or by one.
pub(super) fn always(
    tables: Tables<'_>,
    agent: &str,
    owner: Option<&str>,
) -> Result<Vec<AlwaysApproved>, StoreError> {
    tables.all(sql::ALWAYS_APPROVED, params![agent, owner], |row| {
        read_always(row)
    })
}

/// Forgets that a tool is always approved.
pub(super) fn revoke(tables: Tables<'_>, approved: &AlwaysApproved) -> Result<Done, StoreError> {
    let values = params![approved.owner, approved.agent, approved.tool];
    let mut done = Done::default();
    done.reply.forgot = tables.execute(sql::REVOKE_ALWAYS, values)? > 0;
    if done.reply.forgot {
        tables.execute(sql::REVOKE_IN_SESSIONS, values)?;
    }
    Ok(done)
}

/// The stored answer to the approval that this event answers.
pub(super) fn answer_to(
    tables: Tables<'_>,
    session: i64,
    event: &AgentEvent,
) -> Result<Option<StoredEvent>, StoreError> {
    let EventBody::ApprovalResolved(answer) = &event.body else {
        return Ok(None);
    };
    let values = params![answer.approval_id, session];
    let stored = tables.first(sql::ANSWER, values, |row| read_answer(row, 0))?;
    Ok(stored.flatten())
}

/// Writes the row of an approval that this event asks for or resolves.
pub(super) fn record(tables: Tables<'_>, session: i64, event: &StoredEvent) -> Result<(), StoreError> {
    let (statement, approval_id) = match &event.event().body {
        EventBody::ApprovalRequested(request) => (sql::INSERT_APPROVAL, &request.approval_id),
        EventBody::ApprovalResolved(answer) => (sql::RESOLVE_APPROVAL, &answer.approval_id),
        _ => return Ok(()),
    };
    tables.execute(statement, params![event.index(), session, approval_id])?;
    Ok(())
}

/// An approval by its id.
pub(super) fn find(tables: Tables<'_>, approval_id: &str) -> Result<Option<Approval>, StoreError> {
    tables.first(sql::APPROVAL, [approval_id], |row| read_approval(row))
}

/// Pending approvals, the oldest first.
pub(super) fn pending(
    tables: Tables<'_>,
    session_id: Option<&str>,
    owner: Option<&str>,
) -> Result<Vec<ApprovalInfo>, StoreError> {
    let pending = match session_id {
        Some(session_id) => tables.all(sql::PENDING_OF, params![owner, session_id], |row| {
            read_approval(row)
        })?,
        None => tables.all(sql::PENDING, [owner], |row| read_approval(row))?,
    };
    let mut pending: Vec<_> = pending.iter().filter_map(Approval::info).collect();
    pending.sort_by_key(|approval| approval.requested_at);
    Ok(pending)
}

/// The tools that are approved for a session.
pub(super) fn remembered_tools(tables: Tables<'_>, session_id: &str) -> Result<Vec<String>, StoreError> {
    tables.all(sql::APPROVED_TOOLS, [session_id], |row| text(row, 0))
}
