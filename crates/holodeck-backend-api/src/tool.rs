use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use holodeck_model::{CallDetails, CallRefusal, Passage, SideEffects, ToolKind};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BackendError, Conversation, Image, Spending, ToolCall};

/// Something an agent can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// How the model sees it.
    fn spec(&self) -> &ToolSpec;

    /// What it is.
    fn kind(&self) -> ToolKind {
        ToolKind::Function
    }

    /// Runs it. A failure of the tool itself is an `Ok` with `is_error`; an `Err` means that it could not run.
    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError>;
}

/// The tools of one agent, as a backend gets them: listed and called, with time-out, cancellation and size limit
/// applied in one place.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// All tools, in the order of the YAML.
    fn specs(&self) -> &[ToolSpec];

    /// The tools as they are now: those of an MCP server may come and go while an agent works.
    fn current(&self) -> Cow<'_, [ToolSpec]> {
        Cow::Borrowed(self.specs())
    }

    /// The tools that a message is shown. `unit` is what asks, `message` the place of the message in its turn: by these a
    /// recording tells one from another.
    fn shown(&self, unit: Option<&str>, message: u32) -> Cow<'_, [ToolSpec]> {
        let _ = (unit, message);
        self.current()
    }

    /// Runs one call. An unknown name is an `Ok` with `is_error`, so that the model can mend it.
    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError>;
}

/// Tools that may change while an agent works.
pub trait ToolSource: Send + Sync {
    /// A number that is another one after each change.
    fn revision(&self) -> u64;

    /// The tools as they are now.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}

/// How the model sees a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub parameters: Value,
    /// Whether it changes anything.
    pub side_effects: SideEffects,
}

/// What a tool call is given beside its arguments.
#[derive(Clone, Debug, Default)]
pub struct ToolCx {
    /// Stops the call.
    pub cancel: CancellationToken,
    /// What asks, for instance a test case; see [`ModelRequest::unit`](crate::ModelRequest::unit).
    pub unit: Option<String>,
    /// The conversation in which the model calls.
    pub conversation: Conversation,
    /// Hears what models are asked for the call.
    pub spending: Spending,
}

impl From<CancellationToken> for ToolCx {
    /// A call that `cancel` stops, in a conversation of its own.
    fn from(cancel: CancellationToken) -> Self {
        Self {
            cancel,
            ..Self::default()
        }
    }
}

/// What a tool answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Pictures for the model, after the text.
    pub images: Vec<Image>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// What else is known of the call.
    pub details: CallDetails,
}

impl ToolOutput {
    /// An answer.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The answer as it is recorded: the text, and a word for each picture.
    pub fn into_record(self) -> String {
        let mut record = self.text;
        for _ in &self.images {
            if !record.is_empty() {
                record.push('\n');
            }
            record.push_str("[image]");
        }
        record
    }

    /// A failure that the model should hear of.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }

    /// The answer to a call that did not reach its tool.
    pub fn refused(refusal: CallRefusal, text: impl Into<String>) -> Self {
        let mut output = Self::error(text);
        output.details.refused = Some(refusal);
        output
    }

    /// An answer with what was retrieved, the best first.
    pub fn retrieved(text: impl Into<String>, passages: Vec<Passage>) -> Self {
        let mut output = Self::ok(text);
        output.details.passages = passages;
        output
    }
}

/// Why a tool could not be run at all.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Its program, file or server is missing.
    #[error("tool `{name}` could not be run: {reason}")]
    Unavailable {
        /// The tool.
        name: String,
        /// Why.
        reason: String,
    },
    /// It took longer than allowed.
    #[error("tool `{name}` did not answer within {} s", after.as_secs_f64())]
    TimedOut {
        /// The tool.
        name: String,
        /// The limit.
        after: Duration,
    },
    /// The turn was stopped.
    #[error("cancelled")]
    Cancelled,
}

/// Chooses which tools a turn shows the model.
#[async_trait]
pub trait ToolFilter: Send + Sync {
    /// Names of the tools that fit a message. `used` tells how often each was called earlier in the conversation.
    async fn choose(
        &self,
        message: &str,
        used: &HashMap<String, usize>,
    ) -> Result<HashSet<String>, BackendError>;
}

/// A host without tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

#[async_trait]
impl ToolHost for NoTools {
    fn specs(&self) -> &[ToolSpec] {
        &[]
    }

    async fn call(&self, call: &ToolCall, _: ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::refused(
            CallRefusal::Unknown,
            format!("there is no tool `{}`; this agent has none", call.name),
        ))
    }
}
