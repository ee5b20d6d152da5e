//! Questions of MCP servers to the person during a tool call.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{
    ApprovalAsk, ApprovalDecision, Elicitation, ElicitationAnswer, ElicitationHost, ToolCall,
};
use tokio::sync::{mpsc, oneshot};

/// A question that waits for its answer.
pub(crate) struct Question {
    pub(crate) ask: ApprovalAsk,
    answer: oneshot::Sender<ApprovalDecision>,
}

impl Question {
    /// Passes the answer to the server, unless the call is over.
    pub(crate) fn answer(self, decision: ApprovalDecision) {
        let _ = self.answer.send(decision);
    }

    /// Waits until the call that asks is over.
    pub(crate) async fn withdrawn(&mut self) {
        self.answer.closed().await;
    }
}

/// Receives the questions of the calls that run.
pub(crate) struct Questions {
    sender: mpsc::UnboundedSender<Question>,
    receiver: mpsc::UnboundedReceiver<Question>,
}

impl Questions {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }

    /// Where calls ask.
    pub(crate) fn asker(&self) -> Asker {
        Asker(self.sender.clone())
    }

    /// The next question; never ends.
    pub(crate) async fn next(&mut self) -> Question {
        match self.receiver.recv().await {
            Some(question) => question,
            // There is a sender in `self`.
            None => std::future::pending().await,
        }
    }
}

/// Asks on behalf of calls.
#[derive(Clone)]
pub(crate) struct Asker(mpsc::UnboundedSender<Question>);

impl Asker {
    /// Asks on behalf of one call.
    pub(crate) fn of(&self, call: &ToolCall) -> Arc<dyn ElicitationHost> {
        Arc::new(CallAsker {
            asker: self.clone(),
            call_id: call.call_id.clone(),
        })
    }
}

struct CallAsker {
    asker: Asker,
    call_id: String,
}

#[async_trait]
impl ElicitationHost for CallAsker {
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer {
        let mut ask = ApprovalAsk::from(&question);
        ask.call_id.clone_from(&self.call_id);
        let blank = ask.arguments.clone();
        let (answer, decision) = oneshot::channel();
        if self.asker.0.send(Question { ask, answer }).is_err() {
            return ElicitationAnswer::Cancel;
        }
        match decision.await {
            Ok(decision) => decision.into_answer(blank),
            Err(_ended) => ElicitationAnswer::Cancel,
        }
    }
}
