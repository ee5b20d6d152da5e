//! The handle of a running answer, and the state that its events leave.

use std::sync::{Arc, Mutex, PoisonError};

use holodeck_events::{Delivery, EventSink, StoredEvent, agent_execution_result, history};
use holodeck_model::events::{AgentExecutionResult, EventBody, EventClass};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{RunError, approvals::RunQuestions};

/// How a run ended.
pub(crate) type RunOutcome = Result<AgentExecutionResult, RunError>;

/// A run that was accepted. Dropping it does not stop the run.
#[derive(Clone, Debug)]
pub struct RunHandle {
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    /// The message as it is stored.
    pub(crate) message: Arc<str>,
    pub(crate) client_message_id: Option<Arc<str>>,
    /// Its place in the order in which messages were accepted.
    pub(crate) number: u64,
    pub(crate) cancel: CancellationToken,
    pub(crate) outcome: watch::Receiver<Option<RunOutcome>>,
}

impl RunHandle {
    /// The conversation.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The message that it answers, as it is stored.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The client's id of the message.
    pub fn client_message_id(&self) -> Option<&str> {
        self.client_message_id.as_deref()
    }

    /// Stops the run; the text that arrived is kept. Does nothing once the run is over.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether it was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits for the end of the run. A run that a person stopped is an error, as is one that failed.
    pub async fn finish(&mut self) -> Result<AgentExecutionResult, RunError> {
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(RunError::Closing)),
            Err(_) => Err(RunError::Closing),
        }
    }
}

/// Receives the events of a run, and passes them on.
pub(crate) struct RunSink {
    pub(crate) questions: Arc<RunQuestions>,
    pub(crate) client: Option<Arc<dyn EventSink>>,
    /// The index of the run's first event.
    pub(crate) first: Arc<Mutex<Option<u64>>>,
    pub(crate) begun: watch::Sender<bool>,
    pub(crate) seen: Mutex<Seen>,
}

/// The state of a run as its sink has seen it.
#[derive(Default)]
pub(crate) struct Seen {
    /// All but pieces of text.
    events: Vec<StoredEvent>,
    /// The index of its last event.
    pub(crate) head: u64,
}

impl RunSink {
    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// The result of a run that is over.
    pub(crate) fn result(&self) -> Option<AgentExecutionResult> {
        agent_execution_result(self.events.iter().map(StoredEvent::event))
    }

    /// Whether the conversation that the log describes contains the run.
    pub(crate) fn is_remembered(&self) -> bool {
        !history(self.events.iter().map(StoredEvent::event)).is_empty()
    }
}

impl EventSink for RunSink {
    fn deliver(&self, delivery: Delivery) {
        if let Delivery::Stored(event) = &delivery {
            let is_first = matches!(event.event().body, EventBody::UserMessageConfirmed(_));
            if is_first {
                *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(event.index());
            }
            if event.event().meta.run_id.is_some() {
                let mut seen = self.seen();
                seen.head = seen.head.max(event.index());
                if event.class() != EventClass::Journaled {
                    seen.events.push(event.clone());
                }
            }
            self.questions.observe(event);
            if is_first {
                self.begun.send_replace(true);
            }
        }
        if let Some(client) = &self.client {
            client.deliver(delivery);
        }
    }
}
