//! The programs that observe the conversations of an agent on Claude.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::value::{OneOrMany, PathRef, nullable};

/// Programs that observe the conversations of the agent: each event is JSON on the standard input of a process of its own.
/// Neither what a program writes nor how it ends changes an answer, a decision or a verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "PascalCase")]
#[schemars(extend("x-refused" = json!({
    "PreCompact": "a compaction is known when it is over; `Notification` reports it",
    "PostCompact": "`Notification` reports a compaction",
    "PermissionRequest": "`approvals` decides about calls; `Notification` reports a question to a person",
})))]
pub struct HooksConfig {
    /// A conversation began.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub session_start: Vec<HookConfig>,
    /// A message reached the agent.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub user_prompt_submit: Vec<HookConfig>,
    /// The model called a tool. The call does not wait for the program.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub pre_tool_use: Vec<HookConfig>,
    /// A call has a result; a rejected one too.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub post_tool_use: Vec<HookConfig>,
    /// A notice, such as one about a compaction, or a question to a person about a call.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub notification: Vec<HookConfig>,
    /// A sub-agent answered.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub subagent_stop: Vec<HookConfig>,
    /// The agent answered, or failed to.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub stop: Vec<HookConfig>,
    /// A conversation ended.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HookConfig>>")]
    pub session_end: Vec<HookConfig>,
}

/// A program that observes an event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-refused" = json!({
    "matcher": "write the names of tools in `tools`, as in a rule of `approvals`",
    "hooks": "each program is an item of its own, with `command`, `args` and `tools`",
    "type": "every hook is a program; remove it",
    "timeout": "write `timeout_ms`, in milliseconds",
})))]
pub struct HookConfig {
    /// The program: a name to be found on the path, or a path. No shell reads it.
    pub command: PathRef,
    /// Arguments of the program.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Only calls of these tools; names as in a rule of `approvals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<OneOrMany>,
    /// Milliseconds the program may run for one event; 30,000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u64>,
}

impl HookConfig {
    /// How long the program may run for one event.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(30_000))
    }
}

/// An event that a hook observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A conversation began.
    SessionStart,
    /// A message reached the agent.
    UserPromptSubmit,
    /// The model called a tool.
    PreToolUse,
    /// A call has a result.
    PostToolUse,
    /// A notice, or a question to a person.
    Notification,
    /// A sub-agent answered.
    SubagentStop,
    /// The agent answered, or failed to.
    Stop,
    /// A conversation ended.
    SessionEnd,
}

impl HookEvent {
    /// Its name in the YAML and in what the program reads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::Notification => "Notification",
            Self::SubagentStop => "SubagentStop",
            Self::Stop => "Stop",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// Whether it is about a call, so that a hook may name tools.
    pub fn has_tool(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PostToolUse)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl HooksConfig {
    /// The hooks of each event.
    pub fn events(&self) -> [(HookEvent, &[HookConfig]); 8] {
        [
            (HookEvent::SessionStart, &self.session_start),
            (HookEvent::UserPromptSubmit, &self.user_prompt_submit),
            (HookEvent::PreToolUse, &self.pre_tool_use),
            (HookEvent::PostToolUse, &self.post_tool_use),
            (HookEvent::Notification, &self.notification),
            (HookEvent::SubagentStop, &self.subagent_stop),
            (HookEvent::Stop, &self.stop),
            (HookEvent::SessionEnd, &self.session_end),
        ]
    }

    /// Every hook with its event and its place in the YAML, as in `claude.hooks.Stop.0`.
    pub fn each(&self) -> impl Iterator<Item = (HookEvent, String, &HookConfig)> {
        self.events().into_iter().flat_map(|(event, hooks)| {
            let hooks = hooks.iter().enumerate();
            hooks.map(move |(index, hook)| (event, format!("claude.hooks.{event}.{index}"), hook))
        })
    }
}
