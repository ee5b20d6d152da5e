//! The copy of a session up to the end of one of its runs.

use std::collections::HashMap;

use holodeck_model::events::{AgentEvent, EventBody, EventClass, ForkOrigin, SessionStart};

use super::{StoreError, StoredEvent};
use crate::{
    Clock, Draft, Ids,
    draft::{draft, meta},
};

/// The events of a new session.
pub(super) struct Fork {
    pub(super) start: Draft,
    /// Each run, with its id.
    pub(super) runs: Vec<(String, Vec<Draft>)>,
}

/// Copies `events`, which are those of the session `from`, up to the end of a run.
pub(super) fn fork(
    events: &[StoredEvent],
    from: &str,
    after: Option<u64>,
    session_id: &str,
    (clock, ids): (&dyn Clock, &dyn Ids),
) -> Result<Fork, StoreError> {
    let mut ends = events
        .iter()
        .rev()
        .filter(|event| event.event().body.is_terminal());
    let end = ends.find(|event| after.is_none_or(|after| event.index() == after));
    let Some(end) = end.map(StoredEvent::index) else {
        return Err(StoreError::NotAfterARun {
            session_id: from.to_owned(),
        });
    };
    let copied = events
        .iter()
        .filter(|event| event.index() <= end && event.class() != EventClass::Journaled);
    let mut start = SessionStart::default();
    let mut runs: Vec<(String, Vec<Draft>)> = Vec::new();
    let (mut latest, mut approvals) = (None, HashMap::new());
    for stored in copied {
        let mut event = stored.event().clone();
        match &mut event.body {
            EventBody::SessionStart(own) => {
                start = own.clone();
                continue;
            }
            // It names the message in the session to which the client sent it.
            EventBody::UserMessageConfirmed(message) => message.client_message_id = None,
            EventBody::ApprovalRequested(request) => {
                rename(&mut request.approval_id, &mut approvals, ids);
            }
            EventBody::ApprovalResolved(answer) => rename(&mut answer.approval_id, &mut approvals, ids),
            _ => {}
        }
        if runs.is_empty() || latest != event.meta.run_id {
            latest.clone_from(&event.meta.run_id);
            runs.push((ids.next().to_string(), Vec::new()));
        }
        if let Some((run_id, drafts)) = runs.last_mut() {
            drafts.push(copy(event, stored.class(), session_id, run_id, ids));
        }
    }
    start.forked_from = Some(ForkOrigin {
        session_id: from.to_owned(),
        event_index: end,
    });
    let mut meta = meta(clock, ids);
    meta.session_id = Some(session_id.to_owned());
    Ok(Fork {
        start: draft(meta, EventBody::SessionStart(start)),
        runs,
    })
}

fn copy(mut event: AgentEvent, class: EventClass, session_id: &str, run_id: &str, ids: &dyn Ids) -> Draft {
    event.meta.event_id = ids.next();
    event.meta.event_index = None;
    event.meta.sequence_number = None;
    event.meta.session_id = Some(session_id.to_owned());
    event.meta.run_id = Some(run_id.to_owned());
    Draft { event, class }
}

/// Replaces the id of an approval, in its question and in its answer.
fn rename(approval_id: &mut String, renamed: &mut HashMap<String, String>, ids: &dyn Ids) {
    let new = renamed.entry(std::mem::take(approval_id));
    approval_id.clone_from(new.or_insert_with(|| ids.next().to_string()));
}

/// Checks that `owner` may copy a session.
pub(super) fn check_owner(session_id: &str, of: Option<&str>, owner: Option<&str>) -> Result<(), StoreError> {
    if of == owner {
        return Ok(());
    }
    Err(StoreError::SessionNotFound {
        session_id: session_id.to_owned(),
    })
}
