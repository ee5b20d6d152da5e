//! Answers calls of mocked tools from the YAML, without running the real tool.

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{
    Passage, SideEffects, Tool, ToolCx, ToolError, ToolKind, ToolNames, ToolOutput, ToolSpec,
};
use holodeck_model::{
    JsonMap, McpMockConfig, McpTool, MockAnswer, MockConfig, MockOutcome, MockUsedUp, ToolConfig,
    parameters_schema,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::retrieval_spec;

/// A tool that answers from the YAML. The script starts over for each conversation.
#[derive(Debug)]
pub struct MockTool {
    spec: ToolSpec,
    kind: ToolKind,
    mock: MockConfig,
}

impl MockTool {
    /// The tools that a mocked tool of the YAML offers to the model: the same as the real one, but for an MCP server
    /// only those that its mock names. Empty if the tool is not mocked.
    pub fn of(config: &ToolConfig, names: &ToolNames) -> Vec<Self> {
        let kind = config.tool_kind();
        let mock_of = |spec: ToolSpec, mock: &Option<MockConfig>| {
            let mock = mock.clone();
            let tool = mock.map(|mock| Self { spec, kind, mock });
            tool.into_iter().collect()
        };
        match config {
            ToolConfig::Vectorstore(tool) => {
                mock_of(retrieval_spec(&tool.name, &tool.description), &tool.mock)
            }
            ToolConfig::HierarchicalDocument(tool) => {
                mock_of(retrieval_spec(&tool.name, &tool.description), &tool.mock)
            }
            ToolConfig::Function(tool) => mock_of(
                ToolSpec {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters_schema().unwrap_or_else(unknown_parameters),
                    side_effects: SideEffects::Possible,
                },
                &tool.mock,
            ),
            ToolConfig::Prompt(tool) => mock_of(
                ToolSpec {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters_schema(),
                    side_effects: SideEffects::None,
                },
                &tool.mock,
            ),
            ToolConfig::Mcp(tool) => match &tool.mock {
                Some(mock) => server_mocks(tool, mock, names),
                None => Vec::new(),
            },
        }
    }

    /// The time limit of a call: the same as for the real tool.
    pub fn timeout(config: &ToolConfig) -> Duration {
        const DEFAULT: Duration = Duration::from_mins(1);
        match config {
            ToolConfig::Function(tool) => tool.timeout(),
            ToolConfig::Mcp(tool) => tool.time_limit(),
            _ => DEFAULT,
        }
    }
}

fn server_mocks(server: &McpTool, mock: &McpMockConfig, names: &ToolNames) -> Vec<MockTool> {
    let allowed = server
        .config
        .as_ref()
        .and_then(|config| config.get("allowed_tools"));
    let allowed = allowed.and_then(Value::as_array);
    let is_allowed = |name: &str| allowed.is_none_or(|allowed| allowed.iter().any(|other| other == name));
    let tools = mock.tools.iter().filter(|(name, _)| is_allowed(name));
    tools
        .map(|(name, tool)| MockTool {
            spec: ToolSpec {
                name: names.tool_of_server(&server.name, name),
                description: tool
                    .description
                    .clone()
                    .unwrap_or_else(|| server.description.clone()),
                parameters: tool
                    .parameters
                    .as_ref()
                    .map_or_else(unknown_parameters, parameters_schema),
                side_effects: SideEffects::Possible,
            },
            kind: server.tools_kind(),
            mock: tool.mock.clone(),
        })
        .collect()
}

/// The schema if the parameters are unknown: inspecting the real tool would run a part of it.
fn unknown_parameters() -> Value {
    json!({ "type": "object", "properties": {} })
}

#[async_trait]
impl Tool for MockTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        self.kind
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let answer = cx.conversation.count_answers(&self.spec.name, |counts| {
            choose_answer(&self.mock, counts, &arguments).cloned()
        });
        let unavailable = |reason: Cow<'_, str>| ToolError::Unavailable {
            name: self.spec.name.clone(),
            reason: reason.into_owned(),
        };
        let Some(answer) = answer else {
            let reason = format!(
                "its mock has no answer left for {}",
                describe_arguments(&arguments)
            );
            return Err(unavailable(reason.into()));
        };
        if !answer.delay.is_zero() {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
                () = sleep(answer.delay) => {}
            }
        }
        match &answer.outcome {
            MockOutcome::Result(value) => {
                let mut output = ToolOutput::ok(text_of(value));
                if self.kind == ToolKind::Retrieval {
                    output.details.passages = passages(value);
                }
                Ok(output)
            }
            MockOutcome::Error(text) => Ok(ToolOutput::error(text)),
            MockOutcome::Unavailable(reason) => Err(unavailable(reason.into())),
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The passages of a mocked search: each item of a list, otherwise the whole answer.
fn passages(value: &Value) -> Vec<Passage> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        whole => std::slice::from_ref(whole),
    };
    items.iter().map(|item| Passage::of(text_of(item))).collect()
}

/// The answer to a call; `counts` says how often each answer was given in the conversation.
fn choose_answer<'m>(
    mock: &'m MockConfig,
    counts: &mut Vec<u32>,
    arguments: &Value,
) -> Option<&'m MockAnswer> {
    counts.resize(mock.answers.len(), 0);
    if let Some(answer) = next_answer(mock, counts, arguments) {
        return Some(answer);
    }
    match mock.when_used_up {
        MockUsedUp::Fail => None,
        MockUsedUp::RepeatLast => mock.answers.iter().rfind(|answer| answer.fits(arguments)),
        MockUsedUp::Restart => {
            counts.fill(0);
            next_answer(mock, counts, arguments)
        }
    }
}

/// The first matching answer that is not used up.
fn next_answer<'m>(mock: &'m MockConfig, counts: &mut [u32], arguments: &Value) -> Option<&'m MockAnswer> {
    let mut answers = mock.answers.iter().zip(counts);
    let (answer, count) = answers
        .find(|(answer, count)| answer.times.is_none_or(|times| **count < times) && answer.fits(arguments))?;
    *count = count.saturating_add(1);
    Some(answer)
}

fn describe_arguments(arguments: &Value) -> String {
    const MAX_BYTES: usize = 200;
    let empty = arguments.as_object().is_none_or(JsonMap::is_empty);
    let mut text = if empty {
        "a call without arguments".to_owned()
    } else {
        arguments.to_string()
    };
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('…');
    }
    text
}
