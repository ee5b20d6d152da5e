//! Log lines about what a store does by itself or for another process: answers to approvals, runs of dead processes that
//! it ends, and failures. It decides nothing.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use holodeck_model::events::{ApprovalResolved, Decision, EventBody, EventMeta, RunError};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::StoreError;
use super::{StoredEvent, run_of, session_of};
use crate::terminal::code;

/// How often a failure that lasts is said again.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const REPEAT: Duration = Duration::from_mins(1);

/// Says what an operator wants to know of events that were just stored.
pub(super) fn note_events(events: &[StoredEvent]) {
    for event in events {
        let meta = &event.event().meta;
        match &event.event().body {
            EventBody::ApprovalResolved(resolved) => note_decision(meta, resolved),
            EventBody::Error(RunError { code, .. }) if code == code::INTERRUPTED => {
                tracing::warn!(
                    session = session_of(meta),
                    run = run_of(meta),
                    "ended a run that no process continues"
                );
            }
            _ => {}
        }
    }
}

fn note_decision(meta: &EventMeta, resolved: &ApprovalResolved) {
    let decision = resolved.decision.as_ref().map_or("", Decision::as_str);
    tracing::info!(
        approval = resolved.approval_id,
        decision,
        user = resolved.decided_by.as_deref().unwrap_or_default(),
        scope = resolved.scope.as_ref().map_or("once", |scope| scope.as_str()),
        session = session_of(meta),
        run = run_of(meta),
        "a tool call was decided"
    );
}

/// Says when a store begins to fail, once a minute that it still does, and when it no longer does.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Option<Failing>>);

#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug)]
struct Failing {
    error: StoreError,
    count: u64,
    said_at: Instant,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Failures {
    /// Takes in the result of a write. A refusal is none of the store's failures.
    pub(super) fn observe(&self, error: Option<&StoreError>) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (error, &mut *failing) {
            (Some(error @ (StoreError::Full | StoreError::Failed { .. })), failing) => {
                let (known, count) = match failing {
                    Some(known) if known.error == *error && known.said_at.elapsed() < REPEAT => {
                        known.count += 1;
                        return;
                    }
                    Some(known) => (known.error == *error, known.count + 1),
                    None => (false, 1),
                };
                if known {
                    tracing::error!(failures = count, "the store still fails: {error}");
                } else {
                    tracing::error!("the store fails: {error}");
                }
                *failing = Some(Failing {
                    error: error.clone(),
                    count,
                    said_at: Instant::now(),
                });
            }
            (None, Some(known)) => {
                tracing::warn!(failures = known.count, "the store can be written again");
                *failing = None;
            }
            _ => {}
        }
    }
}
