//! Tools that an agent can call, and the host that lists and runs them with time limits, cancellation and a size limit.

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

use crate::{BackendError, Conversation, ElicitationHost, Image, Spending, ToolCall};

/// Something an agent can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// How the model sees it.
    fn spec(&self) -> &ToolSpec;

    /// The kind of the tool.
    fn kind(&self) -> ToolKind {
        ToolKind::Function
    }

    /// Runs the tool. A failure of the tool itself is an `Ok` with `is_error`; an `Err` means that it could not run.
    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError>;
}

/// The tools of one agent: lists and calls them, and is the one place that applies time-out, cancellation and size
/// limit.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// All tools, in the order of the YAML.
    fn specs(&self) -> &[ToolSpec];

    /// The current tools: an MCP server may add and remove tools while an agent works.
    fn current(&self) -> Cow<'_, [ToolSpec]> {
        Cow::Borrowed(self.specs())
    }

    /// The tools to offer with a model request. They are part of the key of a recorded request.
    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        let _ = request;
        self.current()
    }

    /// Runs one call. An unknown name is an `Ok` with `is_error`, so that the model can correct it.
    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError>;
}

/// Which request to the model is made: a replay finds the offered tools by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct RequestPlace<'a> {
    /// The unit of the turn; see [`ToolCx::unit`].
    pub unit: Option<&'a str>,
    /// The trial of the turn; see [`ToolCx::trial`].
    pub trial: u32,
    /// The number of the request in its turn, from 0.
    pub message: u32,
}

/// Tools that may change while an agent works.
pub trait ToolSource: Send + Sync {
    /// A number that differs after each change.
    fn revision(&self) -> u64;

    /// The current tools.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}

/// How the model sees a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name.
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub parameters: Value,
    /// Whether the tool has side effects.
    pub side_effects: SideEffects,
}

/// The context of a tool call.
#[derive(Clone, Debug, Default)]
pub struct ToolCx {
    /// Stops the call.
    pub cancel: CancellationToken,
    /// The unit that the call belongs to, such as a test case; see [`ModelRequest::unit`](crate::ModelRequest::unit).
    pub unit: Option<String>,
    /// Which trial of its test case the call belongs to, from 0.
    pub trial: u32,
    /// The conversation of the call.
    pub conversation: Conversation,
    /// Collects the usage of model calls made for this call.
    pub spending: Spending,
    /// Reaches the person, if there is one.
    pub elicitation: Option<Arc<dyn ElicitationHost>>,
}

impl From<CancellationToken> for ToolCx {
    /// A call in a new conversation that `cancel` stops.
    fn from(cancel: CancellationToken) -> Self {
        Self {
            cancel,
            ..Self::default()
        }
    }
}

/// The output of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Images for the model, after the text.
    pub images: Vec<Image>,
    /// Whether the tool reported a failure.
    pub is_error: bool,
    /// Details of the call.
    pub details: CallDetails,
}

impl ToolOutput {
    /// A successful output.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The output as it is recorded: the text, and a placeholder for each image.
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

    /// A failure that is reported to the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }

    /// The output of a call that did not reach its tool.
    pub fn refused(refusal: CallRefusal, text: impl Into<String>) -> Self {
        let mut output = Self::error(text);
        output.details.refused = Some(refusal);
        output
    }

    /// A successful output with the retrieved passages, best first.
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
    /// The program, file or server is missing.
    #[error("tool `{name}` could not be run: {reason}")]
    Unavailable {
        /// The tool.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The call took longer than allowed.
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

impl ToolError {
    /// The reason, without the name of the tool.
    pub fn reason(&self) -> String {
        match self {
            Self::Unavailable { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }
}

/// Chooses which tools a turn offers to the model.
#[async_trait]
pub trait ToolFilter: Send + Sync {
    /// Names of the tools that fit a message. `used` counts the earlier calls of each tool in the conversation.
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
