//! The tools that questions are about: the arguments that they accept, and what they are now.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{ApprovalAsk, BackendEvent, EventStream};
use holodeck_model::events::ApprovalScope;
use serde_json::Value;

/// Knows which arguments tools accept.
pub trait CheckArguments: Send + Sync {
    /// Says why a tool does not accept these arguments.
    fn check(&self, tool: &str, arguments: &Value) -> Result<(), String>;

    /// Says why an answer to the question of a server does not match its schema.
    fn check_answer(&self, schema: &Value, answer: &Value) -> Result<(), String> {
        let _ = (schema, answer);
        Ok(())
    }

    /// A text that changes with a tool: its program, its settings, its schema. `None` for a tool of the backend itself.
    fn digest(&self, tool: &str) -> Option<String> {
        let _ = tool;
        None
    }
}

/// The tools and scopes that the questions of a run are about.
#[derive(Clone)]
pub(crate) struct AskedTools {
    pub(crate) tools: Option<Arc<dyn CheckArguments>>,
    pub(crate) scopes: Vec<ApprovalScope>,
}

impl AskedTools {
    /// Adds what the tool is now, and how long an approval may count.
    pub(crate) fn describe(&self, ask: &mut ApprovalAsk) {
        // An answer to a server is about that question.
        if ask.answer_schema.is_none() {
            ask.tool_digest = self.digest(&ask.tool_name);
        }
        ask.scopes = (!self.scopes.is_empty()).then(|| self.scopes.clone());
    }

    /// A text that changes with a tool, as it is now.
    fn digest(&self, tool: &str) -> Option<String> {
        self.tools.as_ref().and_then(|tools| tools.digest(tool))
    }

    /// Says why the answer to a question about a call does not count: the tool is not the one with this digest any more.
    pub(crate) fn check_same(&self, ask: &ApprovalAsk, digest: Option<&str>) -> Result<(), String> {
        if ask.answer_schema.is_some() || self.digest(&ask.tool_name).as_deref() == digest {
            return Ok(());
        }
        Err(format!(
            "`{}` was changed after a person was asked about this call (its settings, its program, or a program that \
             its `args` name), so that the approval does not count for it",
            ask.tool_name
        ))
    }

    /// The events, whose questions say so.
    pub(crate) fn describe_events<'a>(&self, events: EventStream<'a>) -> EventStream<'a> {
        let asked = self.clone();
        Box::pin(events.map(move |event| {
            let mut event = event?;
            let mut inner = &mut event;
            while let BackendEvent::Nested { event, .. } = inner {
                inner = event;
            }
            if let BackendEvent::ApprovalAsked(ask) = inner {
                asked.describe(ask);
            }
            Ok(event)
        }))
    }
}
