use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, Conversation, EventStream, SessionControl, SessionCore,
    TurnRequest,
};
use serde_json::Value;

use crate::{
    core::Core,
    turn::{self, Step},
};

/// A conversation. Its history is what the endpoint is shown each time.
pub(crate) struct OpenAiSession {
    core: Arc<Core>,
    history: Vec<Value>,
    conversation: Conversation,
    session: SessionCore,
}

impl OpenAiSession {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            history: Vec::new(),
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
                let mut steps = pin!(turn::run(core, history.clone(), request, conversation));
                while let Some(step) = steps.next().await {
                    match step {
                        Ok(Step::Event(event)) => yield Ok(event),
                        Ok(Step::Done(done)) => {
                            // A turn that did not get here leaves the history as it was, so it can be tried again.
                            if let Some(conversation) = done.conversation {
                                *history = conversation;
                            }
                            yield Ok(BackendEvent::End(Box::new(done.result)));
                        }
                        Err(error) => yield Err(error),
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
