//! A fixed set of tools with typical behaviours, and a list of their calls.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use holodeck_backend_api::{
    CallRefusal, Image, Passage, SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolKind, ToolOutput,
    ToolSpec,
};
use serde_json::json;
use tokio::sync::Barrier;

use crate::Gate;

/// Common tools for tests, and a list of the calls.
pub struct ScriptedTools {
    specs: Vec<ToolSpec>,
    called: Mutex<Vec<ToolCall>>,
    first: Gate,
    echoed: Gate,
    pair: Barrier,
}

/// The tool that the YAML declares as `shelf`: a search, so the model sees it under this name, and it has a third name
/// on the wire of the Claude CLI.
pub(crate) const SEARCH: &str = "shelf_search";

const TOOLS: [(&str, &str); 9] = [
    ("echo", "Gives its argument `text` back."),
    ("picture", "Answers with its argument `text` and a picture."),
    ("fails", "Reports an error."),
    ("missing", "Can't be run at all."),
    ("slow", "Does not answer in time."),
    ("pair", "Answers once two calls of it run at the same time."),
    ("last", "Answers once `echo` was called."),
    ("hang", "Never answers."),
    (SEARCH, "Finds `text` and then nothing better."),
];

impl Default for ScriptedTools {
    fn default() -> Self {
        let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        Self {
            specs: TOOLS
                .map(|(name, description)| ToolSpec {
                    name: name.to_owned(),
                    description: description.to_owned(),
                    parameters: parameters.clone(),
                    side_effects: SideEffects::None,
                })
                .into(),
            called: Mutex::default(),
            first: Gate::new(),
            echoed: Gate::new(),
            pair: Barrier::new(2),
        }
    }
}

impl ScriptedTools {
    /// The calls, in order.
    pub fn called(&self) -> Vec<ToolCall> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until something was called.
    pub async fn until_called(&self) {
        self.first.opened().await;
    }
}

#[async_trait]
impl ToolHost for ScriptedTools {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, _: ToolCx) -> Result<ToolOutput, ToolError> {
        self.called
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.clone());
        self.first.open();
        let text = call.arguments["text"].as_str().unwrap_or_default();
        match call.name.as_str() {
            "echo" => {
                self.echoed.open();
                Ok(ToolOutput::ok(text))
            }
            "last" => {
                self.echoed.opened().await;
                Ok(ToolOutput::ok(text))
            }
            "picture" => Ok(ToolOutput {
                images: vec![red_dot()],
                ..ToolOutput::ok(text)
            }),
            "fails" => Ok(ToolOutput::error("it failed")),
            "pair" => {
                self.pair.wait().await;
                Ok(ToolOutput::ok(text))
            }
            "missing" => Err(ToolError::Unavailable {
                name: call.name.clone(),
                reason: "its program is missing".to_owned(),
            }),
            "slow" => Err(ToolError::TimedOut {
                name: call.name.clone(),
                after: std::time::Duration::from_secs(5),
            }),
            "hang" => std::future::pending().await,
            SEARCH => {
                let passages = vec![Passage::of(text), Passage::of("second best")];
                let mut found = ToolOutput::retrieved(format!("1. {text}\n2. second best"), passages);
                found.details.kind = Some(ToolKind::Retrieval);
                found.details.side_effects = Some(SideEffects::None);
                Ok(found)
            }
            other => {
                let text = format!("there is no tool `{other}`");
                Ok(ToolOutput::refused(CallRefusal::Unknown, text))
            }
        }
    }
}

/// A picture of one pixel.
pub fn red_dot() -> Image {
    Image {
        media_type: "image/png".to_owned(),
        base64:
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
                .into(),
    }
}
