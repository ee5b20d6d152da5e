//! Answers turns from a recording instead of running the agent, its tools and their servers.

use std::{sync::Arc, time::Duration};

use async_stream::stream;
use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, ModelRequest, Opening,
    SessionControl, SessionCore, TurnRequest,
};
use holodeck_model::Redactor;

use super::{AgentContext, ConversationKey, user_message};
use crate::{Cassette, entry::Entry, replayer::ReplayCursor, turn_events};

/// Answers turns from a recording, without running the agent, its tools or their servers. The n-th equal turn gets the
/// n-th recorded answer; later ones get the last answer again.
pub struct ReplayedAgent {
    context: Arc<AgentContext>,
    cursor: Arc<ReplayCursor>,
}

impl ReplayedAgent {
    /// Replays `cassette` for an agent whose model would see `context`. `redactor` must equal the one used for
    /// recording.
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>, context: AgentContext) -> Self {
        Self {
            context: Arc::new(context),
            cursor: Arc::new(ReplayCursor::new(cassette, redactor)),
        }
    }
}

#[async_trait]
impl AgentBackend for ReplayedAgent {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let conversation = ConversationKey::default();
        let model_request = self.context.request(&request, &conversation);
        Box::pin(stream! {
            if request.cancel.is_cancelled() {
                yield Err(BackendError::Cancelled);
                return;
            }
            match next_entry(&self.cursor, &model_request) {
                Ok(entry) => {
                    entry.response.replay_spending(&request.spending);
                    for event in events(entry) {
                        yield Ok(event);
                    }
                }
                Err(error) => yield Err(error),
            }
        })
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(ReplayedSession {
            context: Arc::clone(&self.context),
            cursor: Arc::clone(&self.cursor),
            conversation: ConversationKey::from_history(&opening.history),
            core: SessionCore::new(),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

struct ReplayedSession {
    context: Arc<AgentContext>,
    cursor: Arc<ReplayCursor>,
    conversation: ConversationKey,
    core: SessionCore,
}

#[async_trait]
impl AgentSession for ReplayedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let model_request = self.context.request(&request, &self.conversation);
        let (cursor, conversation) = (&self.cursor, &mut self.conversation);
        self.core.turn(request, |request| {
            Box::pin(stream! {
                if request.cancel.is_cancelled() {
                    yield Err(BackendError::Cancelled);
                    return;
                }
                match next_entry(cursor, &model_request) {
                    Ok(entry) => {
                        entry.response.replay_spending(&request.spending);
                        let outcome = turn_events::outcome(&entry.response.stop_reason);
                        conversation.add(user_message(&request), &entry.response.events, &outcome);
                        for event in events(entry) {
                            yield Ok(event);
                        }
                    }
                    Err(error) => yield Err(error),
                }
            })
        })
    }

    fn control(&self) -> SessionControl {
        self.core.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.core.close();
        Ok(())
    }
}

fn next_entry(cursor: &ReplayCursor, request: &ModelRequest) -> Result<Entry, BackendError> {
    cursor.next(request).map_err(|problem| cursor.explain(problem))
}

/// The events of a recorded turn, including its end.
fn events(entry: Entry) -> Vec<BackendEvent> {
    let outcome = turn_events::outcome(&entry.response.stop_reason);
    let mut events = entry.response.events;
    events.push(BackendEvent::Replayed {
        latency: Duration::from_millis(entry.latency_ms),
        redacted: entry.response.redacted,
    });
    let result = turn_events::result(&events, outcome);
    events.push(BackendEvent::End(Box::new(result)));
    events
}
