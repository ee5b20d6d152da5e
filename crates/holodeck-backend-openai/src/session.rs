use std::{pin::pin, sync::Arc};

use async_stream::stream;
use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, Conversation, EventStream, RunningTurn, SessionControl,
    SessionState, TurnRequest,
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
    running: RunningTurn,
    open: bool,
}

impl OpenAiSession {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            history: Vec::new(),
            conversation: Conversation::new(),
            running: RunningTurn::default(),
            open: true,
        }
    }
}

#[async_trait]
impl AgentSession for OpenAiSession {
    fn turn(&mut self, mut request: TurnRequest) -> EventStream<'_> {
        if !self.open {
            let closed = BackendError::Session {
                message: "the session is closed".to_owned(),
            };
            return Box::pin(futures::stream::iter([Err(closed)]));
        }
        // Its own token: interrupting this turn must not stop whatever else the caller's token stops.
        request.cancel = request.cancel.child_token();
        let running = self.running.begin(request.cancel.clone());
        let core = &self.core;
        let history = &mut self.history;
        let conversation = self.conversation.clone();
        Box::pin(stream! {
            let _running = running;
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
    }

    fn state(&self) -> SessionState {
        match (self.open, self.running.is_running()) {
            (false, _) => SessionState::Closed,
            (true, true) => SessionState::Processing,
            (true, false) => SessionState::Ready,
        }
    }

    fn control(&self) -> SessionControl {
        self.running.control()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        self.open = false;
        self.history = Vec::new();
        Ok(())
    }
}
