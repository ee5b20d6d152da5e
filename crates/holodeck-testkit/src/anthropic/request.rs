//! A received message request, with access to what the model would see.

use serde_json::Value;

use crate::received::ReceivedRequest;

/// A message request, as received.
#[derive(Clone, Debug)]
pub struct AnthropicRequest(ReceivedRequest);

/// The result of a tool call, as sent to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub tool_use_id: String,
    /// The texts of the result, one after the other.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl AnthropicRequest {
    pub(crate) fn new(request: ReceivedRequest) -> Self {
        Self(request)
    }

    /// The results of the model's last calls, in call order: the text without the CLI's additions, and whether it is an
    /// error.
    /// it is an error.
    pub fn last_results(&self) -> Vec<(String, bool)> {
        let calls = self
            .messages()
            .iter()
            .rfind(|message| message["role"] == "assistant");
        let calls = calls.and_then(|message| message["content"].as_array());
        let place = |id: &str| calls?.iter().position(|block| block["id"] == id);
        let mut results = self.tool_results();
        results.sort_by_key(|result| place(&result.tool_use_id));
        let own = |text: &str| {
            text.split("<system-reminder>")
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned()
        };
        results
            .into_iter()
            .map(|result| (own(&result.text), result.is_error))
            .collect()
    }

    /// Number of earlier message requests.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.header(name)
    }

    /// The body: `model`, `thinking`, `output_config`, `metadata`, ….
    pub fn body(&self) -> &Value {
        &self.0.body
    }

    /// The requested model; empty if the path contains it.
    pub fn model(&self) -> &str {
        self.body()["model"].as_str().unwrap_or_default()
    }

    /// The texts of the system prompt, block by block.
    pub fn system(&self) -> Vec<&str> {
        texts_of(&self.body()["system"])
    }

    /// The definitions of the tools.
    pub fn tools(&self) -> &[Value] {
        list(&self.body()["tools"])
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        let names = self.tools().iter().filter_map(|tool| tool["name"].as_str());
        names.collect()
    }

    /// The definition of one tool.
    pub fn tool(&self, name: &str) -> Option<&Value> {
        self.tools().iter().find(|tool| tool["name"] == name)
    }

    /// The conversation.
    pub fn messages(&self) -> &[Value] {
        list(&self.body()["messages"])
    }

    /// The texts of one role, message by message and block by block.
    pub fn texts(&self, role: &str) -> Vec<&str> {
        let own = self.messages().iter().filter(|message| message["role"] == role);
        own.flat_map(|message| texts_of(&message["content"])).collect()
    }

    /// The last user text: the prompt, after anything a client puts before it.
    pub fn prompt(&self) -> &str {
        self.texts("user").last().copied().unwrap_or_default()
    }

    /// The tool results in the last user message; a client may append instructions (`system`).
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let mut messages = self.messages().iter();
        let last = messages.rfind(|message| message["role"] != "system");
        let last = last.unwrap_or(&Value::Null);
        let blocks = list(&last["content"]).iter();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .map(|block| ToolResult {
                tool_use_id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                text: texts_of(&block["content"]).concat(),
                is_error: block["is_error"] == true,
            })
            .collect()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The texts of a content that is a text or a list of blocks.
fn texts_of(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        blocks => list(blocks)
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
    }
}
