//! The front matter of a specialist agent.

use std::sync::LazyLock;

use holodeck_model::{AgentMode, OneOrMany, Tier};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use crate::{schema::raw, shape::Shapes};

pub(super) static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| Shapes::kept(include_str!("../shape/agent_front_matter.json")));

/// The schema from which the shapes are made.
pub(crate) fn schema() -> Value {
    raw::<AgentFrontMatter>()
}

/// The front matter of a specialist agent. The keys of Claude Code that have no effect here are accepted too; the check of
/// the shape reports those that are unknown.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct AgentFrontMatter {
    /// Its name. Default: the name of the file.
    #[schemars(regex(pattern = r"\S"))]
    pub(super) name: Option<String>,
    /// Its purpose.
    #[schemars(regex(pattern = r"\S"))]
    pub(super) description: Option<String>,
    /// The tools that it may use; all of the agent if absent.
    #[schemars(schema_with = "words")]
    pub(super) tools: Option<OneOrMany>,
    /// The tools that it must not use, of those that it would have.
    #[serde(rename = "disallowedTools")]
    #[schemars(schema_with = "words")]
    pub(super) disallowed_tools: Option<OneOrMany>,
    /// The permission mode: `plan` takes away every tool that may change something, `dontAsk` rejects what would need a person.
    /// The others give nothing that the agent has not.
    #[serde(rename = "permissionMode")]
    pub(super) permission_mode: Option<AgentMode>,
    /// A model that overrides the agent's.
    #[schemars(regex(pattern = r"\S"))]
    pub(super) model: Option<String>,
    /// Its subject.
    #[schemars(regex(pattern = r"\S"))]
    pub(super) category: Option<String>,
    /// Whether it plans complex tasks or applies rules of thumb.
    #[schemars(with = "Option<TierWord>")]
    pub(super) tier: Option<Tier>,
    /// Whether it is a core agent.
    pub(super) core: Option<bool>,
    /// Words or phrases of tasks for it.
    #[schemars(schema_with = "words")]
    pub(super) triggers: Option<OneOrMany>,
    /// Commands for it.
    #[schemars(schema_with = "words")]
    pub(super) commands: Option<OneOrMany>,
    /// Files that it is for.
    #[schemars(schema_with = "words")]
    pub(super) globs: Option<OneOrMany>,
    /// Words that raise its score.
    pub(super) boosts: Option<BoostConfig>,
    /// Its colour in Claude Code.
    color: Option<Value>,
    #[serde(rename = "mcpServers")]
    #[schemars(extend("x-no-effect" = "the servers are those of the agent's `tools`"))]
    mcp_servers: Option<Value>,
    #[serde(rename = "maxTurns")]
    #[schemars(extend("x-no-effect" = "the agent's `claude.max_turns` or `openai.max_turns` holds"))]
    max_turns: Option<Value>,
    #[schemars(extend("x-no-effect" = "hooks of Claude Code are not run"))]
    hooks: Option<Value>,
    #[schemars(extend("x-no-effect" = "skills are those of `routing.skills`"))]
    skills: Option<Value>,
    #[schemars(extend("x-no-effect" = "an agent has no memory of its own"))]
    memory: Option<Value>,
    #[schemars(extend("x-no-effect" = "a command is always executed in the foreground"))]
    background: Option<Value>,
    #[schemars(extend("x-no-effect" = "a command runs in the agent's working directory"))]
    isolation: Option<Value>,
    #[schemars(extend("x-no-effect" = "the agent's `claude.effort` holds"))]
    effort: Option<Value>,
    #[serde(rename = "initialPrompt")]
    #[schemars(extend("x-no-effect" = "the prompt is the task"))]
    initial_prompt: Option<Value>,
}

/// Words that raise the score.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoostConfig {
    /// The words; one of them is enough.
    #[schemars(length(min = 1))]
    pub(super) keywords: Vec<String>,
    /// The number that is added to the score.
    #[serde(default = "half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) amount: f64,
}

/// A list, or a string with items between commas; it may be empty, unlike others.
fn words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" } },
        { "type": "null" },
    ] })
}

fn half() -> f64 {
    0.5
}

/// The names of [`Tier`], for the schema.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
enum TierWord {
    Strategist,
    HeuristicWrapper,
}
