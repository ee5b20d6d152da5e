//! A conversation over stateless requests: the history is kept here and grows only by successful turns.

use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, Conversation, EventStream, HistoryFold, SessionControl,
    SessionCore, TurnRequest,
};
use serde_json::Value;

use crate::{
    core::Core,
    turn::{self, Step},
    wire_message,
};

/// A conversation. Its history is sent to the endpoint with each turn.
pub(crate) struct OpenAiSession {
    core: Arc<Core>,
    history: Vec<Value>,
    conversation: Conversation,
    session: SessionCore,
}

impl OpenAiSession {
    pub(crate) fn new(core: Arc<Core>, history: Vec<Value>) -> Self {
        Self {
            core,
            history,
            conversation: Conversation::new(),
            session: SessionCore::new(),
        }
    }
}

#[async_trait]
impl AgentSession for OpenAiSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let core = &self.core;
        let history = &mut self.history;
        let conversation = self.conversation.clone();
        self.session.turn(request, |request| {
            Box::pin(stream! {
                let mut partial = HistoryFold::new(&request.message);
                let mut steps = pin!(turn::run(core, history.clone(), request, conversation));
                while let Some(step) = steps.next().await {
                    match step {
                        Ok(Step::Event(event)) => {
                            partial.observe(&event);
                            yield Ok(event);
                        }
                        Ok(Step::End(end)) => {
                            // A failed turn does not change the history, so that it can be retried.
                            if let Some(conversation) = end.conversation {
                                *history = conversation;
                            }
                            yield Ok(BackendEvent::End(Box::new(end.result)));
                        }
                        Err(error) => {
                            if matches!(error, BackendError::Cancelled) {
                                history.extend(wire_message::history(&partial.interrupted(), &core.model));
                            }
                            yield Err(error);
                            return;
                        }
                    }
                }
            })
        })
    }

    fn control(&self) -> SessionControl {
        self.session.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.session.close();
        self.history = Vec::new();
        Ok(())
    }
}
