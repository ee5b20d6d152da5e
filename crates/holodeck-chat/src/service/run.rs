//! One run in a conversation: waits for its place, asks the backend and records every event.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use futures::StreamExt as _;
use holodeck_backend_api::{Approver, BackendEvent, EventStream, HistoryItem, Spending, TurnRequest};
use holodeck_events::{EventSink, EventStore, NewRun, Recording, StoreError};
use holodeck_model::events::EventBody;
use tokio::sync::{OwnedMutexGuard, watch};

use super::{Inner, Queue};
use crate::{
    RunError, RunHandle,
    approvals::RunQuestions,
    asked_tools::AskedTools,
    causes::hide_causes,
    live::{Slot, Turn},
    masking::mask_events,
    run::{RunOutcome, RunSink, Seen},
};

/// The question for the backend.
pub(super) struct Question {
    pub(super) turn: TurnRequest,
    /// Remarks for the person about the answer.
    pub(super) warnings: Vec<String>,
    /// The conversation before it, where the log is not what counts.
    pub(super) opening: Option<Vec<HistoryItem>>,
}

/// The place of a message among those of its conversation.
pub(super) enum Place {
    /// The store refuses it if the conversation is busy.
    Any,
    /// It is the next one.
    Taken(#[expect(dead_code, reason = "held during the run")] OwnedMutexGuard<()>),
    /// Others come first.
    Waiting(Queue),
}

impl Inner {
    /// Answers a message when it is its turn, and records the answer.
    pub(super) async fn run(
        &self,
        handle: &RunHandle,
        place: Place,
        run: NewRun,
        question: Question,
        begun: watch::Sender<bool>,
        client: Option<Arc<dyn EventSink>>,
    ) -> RunOutcome {
        let _place = match place {
            Place::Waiting(queue) => {
                let taken = tokio::select! {
                    biased;
                    () = handle.cancel.cancelled() => {
                        return Err(RunError::refused("the message was withdrawn before it was answered"));
                    }
                    taken = queue.lock_owned() => taken,
                };
                Place::Taken(taken)
            }
            place => place,
        };
        let session_id = run.session_id.clone();
        let policy = self.options.policy.clone();
        let asked = AskedTools {
            tools: self.options.tools.clone(),
            scopes: self.options.scopes.clone(),
        };
        let questions = RunQuestions::new(
            handle.run_id.clone(),
            Arc::clone(&self.store),
            policy,
            self.options.patience,
            asked.clone(),
        );
        let questions = Arc::new(questions);
        let sink = RunSink {
            questions: Arc::clone(&questions),
            client,
            first: Arc::default(),
            begun,
            seen: Mutex::new(Seen::default()),
        };
        let Question {
            mut turn,
            warnings,
            opening,
        } = question;
        turn.approver = Some(Arc::clone(&questions) as Arc<dyn Approver>);
        let spending = turn.spending.clone();
        let slot = Slot::default();
        let events = Arc::clone(&self.live).turn(
            Arc::clone(&self.store),
            Turn {
                session_id: session_id.clone(),
                first: Arc::clone(&sink.first),
                request: turn,
                opening,
                slot: Arc::clone(&slot),
            },
        );
        let recording = Recording::new(&*self.store, &self.options.clock, &self.options.ids)
            .with_sink(&sink)
            .with_violations(&self.contract_violations)
            .with_chunk_interval(self.options.chunk_interval);
        let recording = match self.options.turns.as_ref().and_then(|turns| turns.timeout) {
            Some(limit) => recording.with_limit(limit),
            None => recording,
        };
        let owner = run.user_id.clone();
        let start = self.options.session.clone();
        recording.session(&session_id, owner.as_deref(), start).await?;
        // Tools that are always approved count in a new session, too.
        questions.remember(self.store.remembered_approvals(&session_id).await?);
        let recorded = {
            let notices = warnings
                .into_iter()
                .map(|message| Ok(BackendEvent::Notice { message }));
            let events: EventStream<'_> = Box::pin(futures::stream::iter(notices).chain(events));
            let events = asked.describe_events(events);
            let events = self.complete(events, spending);
            let record = recording.record(run, events);
            tokio::select! {
                recorded = record => recorded,
                never = watch_answers(&*self.store, &session_id, &sink) => match never {},
            }
        };
        let ignored = recorded?.trajectory.ignored().count();
        self.contract_violations
            .fetch_add(u64::try_from(ignored).unwrap_or(u64::MAX), Ordering::Relaxed);
        let (result, head, is_remembered) = {
            let seen = sink.seen();
            (seen.result(), seen.head, seen.is_remembered())
        };
        let session = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match session {
            Some(session) if is_remembered => self.live.park(&session_id, session, head).await,
            // It may know a message that the log leaves out; the next turn opens one from the log.
            Some(mut session) => {
                self.tasks.spawn(async move {
                    // However it closes, it is not used again.
                    let _ = session.close().await;
                });
            }
            None => {}
        }
        match result {
            Some(result) if result.success => Ok(result),
            Some(result) => Err(RunError::Execution(Box::new(result))),
            None => Err(RunError::refused("the run has no end")),
        }
    }

    /// Adds what the tools used to the result, and masks secrets.
    fn complete<'a>(&'a self, events: EventStream<'a>, spending: Spending) -> EventStream<'a> {
        let totals = self.options.turns.as_ref();
        let events: EventStream<'a> = Box::pin(events.map(move |event| match (event, totals) {
            (Ok(BackendEvent::End(mut result)), Some(turns)) => {
                turns.add_totals(&mut result, &spending.take());
                Ok(BackendEvent::End(result))
            }
            (event, _) => event,
        }));
        let events = match &self.options.redactor {
            Some(redactor) => mask_events(events, redactor),
            None => events,
        };
        match &self.options.causes {
            Some(sink) => hide_causes(events, sink),
            None => events,
        }
    }
}

/// Passes the answers of people to the run, also those that another process stored. Never ends.
async fn watch_answers(store: &dyn EventStore, session_id: &str, sink: &RunSink) -> std::convert::Infallible {
    let questions = &sink.questions;
    questions.wait_for_question().await;
    let first = *sink.first.lock().unwrap_or_else(PoisonError::into_inner);
    let follow = async {
        let mut events = store.subscribe(session_id, first).await?;
        while let Some(event) = events.next().await? {
            questions.observe(&event);
            if let EventBody::ApprovalResolved(_) = event.event().body {
                questions.remember(store.remembered_approvals(session_id).await?);
            }
        }
        Ok::<_, StoreError>(())
    };
    // If the store fails, the run ends when its next event cannot be stored.
    let _ = follow.await;
    std::future::pending().await
}
