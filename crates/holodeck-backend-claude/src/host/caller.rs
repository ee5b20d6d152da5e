//! The turn on whose behalf a process calls tools.

use std::sync::{Arc, Mutex};

use holodeck_backend_api::{Approver, Conversation, Spending, ToolCx, TurnRequest};
use tokio_util::sync::CancellationToken;

use super::lock;

/// The turn on whose behalf a process calls tools.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<Mutex<TurnContext>>);

#[derive(Clone, Default)]
struct TurnContext {
    unit: Option<String>,
    trial: u32,
    conversation: Conversation,
    spending: Spending,
    approver: Option<Arc<dyn Approver>>,
}

impl Caller {
    pub(crate) fn set(&self, request: &TurnRequest, conversation: Conversation) {
        *lock(&self.0) = TurnContext {
            unit: request.unit.clone(),
            trial: request.trial,
            conversation,
            spending: request.spending.clone(),
            approver: request.approver.clone(),
        };
    }

    pub(super) fn cx(&self, cancel: CancellationToken) -> ToolCx {
        let context = lock(&self.0).clone();
        ToolCx {
            cancel,
            unit: context.unit,
            trial: context.trial,
            conversation: context.conversation,
            spending: context.spending,
            elicitation: None,
        }
    }

    pub(super) fn approver(&self) -> Option<Arc<dyn Approver>> {
        lock(&self.0).approver.clone()
    }
}
