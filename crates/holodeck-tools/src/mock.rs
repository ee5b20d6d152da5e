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

/// A tool that answers from the YAML. Each conversation has the script from its beginning.
#[derive(Debug)]
pub struct MockTool {
    spec: ToolSpec,
    kind: ToolKind,
    mock: MockConfig,
}

impl MockTool {
    /// The tools that a mocked tool of the YAML gives the model: as the real one would, but of an MCP server those
    /// that its mock names. None if the tool is not mocked.
    pub fn of(config: &ToolConfig, names: &ToolNames) -> Vec<Self> {
        let kind = config.tool_kind();
        let one = |spec: ToolSpec, mock: &Option<MockConfig>| {
            let mock = mock.clone();
            let tool = mock.map(|mock| Self { spec, kind, mock });
            tool.into_iter().collect()
        };
        match config {
            ToolConfig::Vectorstore(tool) => one(retrieval_spec(&tool.name, &tool.description), &tool.mock),
            ToolConfig::HierarchicalDocument(tool) => {
                one(retrieval_spec(&tool.name, &tool.description), &tool.mock)
            }
            ToolConfig::Function(tool) => one(
                ToolSpec {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters_schema().unwrap_or_else(anything),
                    side_effects: SideEffects::Possible,
                },
                &tool.mock,
            ),
            ToolConfig::Prompt(tool) => one(
                ToolSpec {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters_schema(),
                    side_effects: SideEffects::None,
                },
                &tool.mock,
            ),
            ToolConfig::Mcp(tool) => match &tool.mock {
                Some(mock) => of_server(tool, mock, names),
                None => Vec::new(),
            },
        }
    }

    /// How long its calls may take: as long as those of the real one.
    pub fn timeout(config: &ToolConfig) -> Duration {
        const DEFAULT: Duration = Duration::from_mins(1);
        match config {
            ToolConfig::Function(tool) => tool.timeout(),
            ToolConfig::Mcp(tool) => tool.time_limit(),
            _ => DEFAULT,
        }
    }
}

fn of_server(server: &McpTool, mock: &McpMockConfig, names: &ToolNames) -> Vec<MockTool> {
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
                parameters: tool.parameters.as_ref().map_or_else(anything, parameters_schema),
                side_effects: SideEffects::Possible,
            },
            kind: server.tools_kind(),
            mock: tool.mock.clone(),
        })
        .collect()
}

/// Of arguments nothing is known: looking into the real tool would be running a part of it.
fn anything() -> Value {
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
        let chosen = cx.conversation.keep(&self.spec.name, |given: &mut Given| {
            given.choose(&self.mock, &arguments).cloned()
        });
        let unavailable = |reason: Cow<'_, str>| ToolError::Unavailable {
            name: self.spec.name.clone(),
            reason: reason.into_owned(),
        };
        let Some(answer) = chosen else {
            let reason = format!("its mock has no answer left for {}", short(&arguments));
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

/// What a mocked search found: each item of a list, else the answer as a whole.
fn passages(value: &Value) -> Vec<Passage> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        whole => std::slice::from_ref(whole),
    };
    items.iter().map(|item| Passage::of(text_of(item))).collect()
}

/// How often each answer was given in a conversation.
#[derive(Default)]
struct Given(Vec<u32>);

impl Given {
    fn choose<'m>(&mut self, mock: &'m MockConfig, arguments: &Value) -> Option<&'m MockAnswer> {
        self.0.resize(mock.answers.len(), 0);
        if let Some(answer) = self.next(mock, arguments) {
            return Some(answer);
        }
        match mock.when_used_up {
            MockUsedUp::Fail => None,
            MockUsedUp::RepeatLast => mock.answers.iter().rfind(|answer| answer.fits(arguments)),
            MockUsedUp::Restart => {
                self.0.fill(0);
                self.next(mock, arguments)
            }
        }
    }

    /// The first answer that is left and fits.
    fn next<'m>(&mut self, mock: &'m MockConfig, arguments: &Value) -> Option<&'m MockAnswer> {
        let mut answers = mock.answers.iter().zip(&mut self.0);
        let (answer, given) = answers.find(|(answer, given)| {
            answer.times.is_none_or(|times| **given < times) && answer.fits(arguments)
        })?;
        *given = given.saturating_add(1);
        Some(answer)
    }
}

fn short(arguments: &Value) -> String {
    const LONGEST: usize = 200;
    let empty = arguments.as_object().is_none_or(JsonMap::is_empty);
    let mut text = if empty {
        "a call without arguments".to_owned()
    } else {
        arguments.to_string()
    };
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}
