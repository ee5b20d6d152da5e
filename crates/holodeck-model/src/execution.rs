//! The execution of one command: what is asked, what was decided, and what came of it.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ExecutorKind, TaskRoute, UsageMetadata, value::JsonMap};

/// A command to execute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenContext")]
pub struct CommandContext {
    /// The command.
    pub command: Command,
    /// Correlates everything that is recorded about the execution.
    pub session_id: String,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// Whether evidence of the work is collected and checked.
    #[serde(default)]
    pub requires_evidence: bool,
    /// Whether tests must have been run.
    #[serde(default)]
    pub require_tests: bool,
    /// Whether files must have been changed.
    #[serde(default)]
    pub expects_file_changes: bool,
    /// Whether tests must have been run, for the loop.
    #[serde(default)]
    pub expects_tests: bool,
    /// Whether something must have been changed, run or tested.
    #[serde(default)]
    pub expects_execution_evidence: bool,
}

/// Names of fields that are reserved.
pub const RESERVED_FIELDS: [&str; 2] = ["resume_session", "mcp_servers"];

/// A command as it is written: reserved fields are refused.
#[derive(Deserialize)]
struct WrittenContext {
    command: Command,
    session_id: String,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    requires_evidence: bool,
    #[serde(default)]
    require_tests: bool,
    #[serde(default)]
    expects_file_changes: bool,
    #[serde(default)]
    expects_tests: bool,
    #[serde(default)]
    expects_execution_evidence: bool,
    #[serde(default, deserialize_with = "is_present")]
    resume_session: bool,
    #[serde(default, deserialize_with = "is_present")]
    mcp_servers: bool,
}

fn is_present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(field)?;
    Ok(true)
}

impl TryFrom<WrittenContext> for CommandContext {
    type Error = String;

    fn try_from(written: WrittenContext) -> Result<Self, String> {
        let given = [written.resume_session, written.mcp_servers];
        let reserved = RESERVED_FIELDS.into_iter().zip(given);
        if let Some((name, _)) = reserved.into_iter().find(|(_, is_given)| *is_given) {
            return Err(format!("the field `{name}` is reserved"));
        }
        Ok(Self {
            command: written.command,
            session_id: written.session_id,
            cwd: written.cwd,
            requires_evidence: written.requires_evidence,
            require_tests: written.require_tests,
            expects_file_changes: written.expects_file_changes,
            expects_tests: written.expects_tests,
            expects_execution_evidence: written.expects_execution_evidence,
        })
    }
}

/// The name of a command and what it is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The name; compared without case.
    pub name: String,
    /// The arguments, in order.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Named parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// Flags.
    #[serde(default)]
    pub flags: BTreeMap<String, bool>,
}

impl Command {
    /// The task: the arguments, then `key=value` for each parameter in the order of the keys.
    pub fn task(&self) -> String {
        let mut parts: Vec<String> = self.arguments.clone();
        parts.extend(self.parameters.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            other => format!("{key}={other}"),
        }));
        parts.join(" ")
    }
}

/// Why a command was executed by the agent's backend, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RoutingDecision {
    /// The backend executed it.
    SdkExecuted,
    /// The caller disabled the backend.
    SdkDisabledOverride,
    /// The CLI, endpoint or credential is missing.
    SdkUnavailable,
    /// Routing is off.
    SdkNotEnabled,
    /// The command is not in the list.
    CommandNotAllowed,
    /// There are no specialist agents.
    NoSelector,
    /// The selection found no agent.
    SelectionDeclined,
    /// The selection is not confident enough.
    LowConfidence,
    /// The selected agent has no definition.
    NoSdkDefinition,
    /// The model's side answered with an error.
    SdkErrorMessage,
    /// Something kept the model from answering.
    SdkException,
}

impl RoutingDecision {
    /// The code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SdkExecuted => "sdk_executed",
            Self::SdkDisabledOverride => "sdk_disabled_override",
            Self::SdkUnavailable => "sdk_unavailable",
            Self::SdkNotEnabled => "sdk_not_enabled",
            Self::CommandNotAllowed => "command_not_allowed",
            Self::NoSelector => "no_selector",
            Self::SelectionDeclined => "selection_declined",
            Self::LowConfidence => "low_confidence",
            Self::NoSdkDefinition => "no_sdk_definition",
            Self::SdkErrorMessage => "sdk_error_message",
            Self::SdkException => "sdk_exception",
        }
    }
}

impl RoutingDecision {
    /// Whether no specialist takes the message and its own backend was not asked, so that the agent itself can answer it.
    pub fn leaves_agent_itself(self) -> bool {
        matches!(
            self,
            Self::NoSelector | Self::SelectionDeclined | Self::LowConfidence | Self::NoSdkDefinition
        )
    }

    /// Whether it says which specialist fits: a selection took place.
    pub fn is_of_selection(self) -> bool {
        matches!(
            self,
            Self::SdkExecuted
                | Self::SelectionDeclined
                | Self::LowConfidence
                | Self::NoSdkDefinition
                | Self::SdkErrorMessage
                | Self::SdkException
        )
    }
}

/// The executor of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a message has no other executors")]
pub enum Executor {
    /// The agent itself, without the facade of routing.
    Agent,
    /// The agent's backend with the definition of a specialist.
    Sdk,
    /// A skill.
    Skills,
    /// The legacy executor; without one, the agent itself after no specialist took a plain message.
    Legacy,
}

impl Executor {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Sdk => "sdk",
            Self::Skills => "skills",
            Self::Legacy => "legacy",
        }
    }
}

impl From<ExecutorKind> for Executor {
    fn from(kind: ExecutorKind) -> Self {
        match kind {
            ExecutorKind::Sdk => Self::Sdk,
            ExecutorKind::Skills => Self::Skills,
            ExecutorKind::Legacy => Self::Legacy,
        }
    }
}

/// Which executor answered a message of an agent with `routing:`, and why. Every report and every record has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ExecutorRecord {
    /// The command; that of a plain message is `run`.
    pub command_name: String,
    /// The executor; `None`: nothing executed it.
    pub executor: Option<Executor>,
    /// The agent that answered.
    pub agent: Option<String>,
    /// The specialist that was selected, if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Why a specialist was asked or not; `None`: `routing.chain` leaves the specialists out.
    pub decision: Option<RoutingDecision>,
    /// How confident the selection was, 0–1.
    #[serde(default)]
    pub confidence: f64,
    /// Whether the agent is only the default, because no other fits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// The reason as text, if no specialist answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The model that was asked, if it is not the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the answer of the model that should have selected the specialist was not usable, so that words did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_problem: Option<String>,
}

impl ExecutorRecord {
    /// Its texts, to mask what they hold.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self {
            command_name,
            executor: _,
            agent,
            selected,
            decision: _,
            confidence: _,
            by_default: _,
            reason,
            model,
            selection_problem,
        } = self;
        let optional = [agent, selected, reason, model, selection_problem];
        std::iter::once(command_name).chain(optional.into_iter().flatten())
    }

    /// `code-reviewer (sdk, confidence 0.87)`, `the agent itself (legacy, low_confidence)`.
    pub fn describe(&self) -> String {
        let decision = self
            .decision
            .map_or("not in `routing.chain`", RoutingDecision::as_str);
        let Some(executor) = self.executor else {
            return format!("nothing ({decision})");
        };
        let agent = self.agent.as_deref().unwrap_or("-");
        match executor {
            Executor::Sdk => format!(
                "{agent} ({}, confidence {:.2})",
                executor.as_str(),
                self.confidence
            ),
            _ => format!("{agent} ({}, {decision})", executor.as_str()),
        }
    }

    /// The route of a test case that expects an agent: only one that answered counts.
    pub fn route(&self) -> TaskRoute {
        let is_routed = self.executor == Some(Executor::Sdk);
        let decision = self
            .decision
            .map_or("sdk is not in `routing.chain`", RoutingDecision::as_str);
        let reason = match &self.reason {
            Some(reason) => format!("{decision}: {reason}"),
            None => decision.to_owned(),
        };
        let is_selection = self.decision.is_some_and(RoutingDecision::is_of_selection);
        // An agent that was asked and failed was routed: nothing abstained.
        let was_asked = matches!(
            self.decision,
            Some(RoutingDecision::SdkErrorMessage | RoutingDecision::SdkException)
        );
        TaskRoute {
            agent: if is_routed {
                self.agent.clone()
            } else {
                self.selected.clone()
            },
            by_default: self.by_default,
            refused: self
                .selected
                .as_ref()
                .filter(|_| !is_routed)
                .map(|_| reason.clone()),
            unselected: (!is_selection || (was_asked && !is_routed)).then(|| reason.clone()),
            confidence: self.confidence,
            reason,
        }
    }
}

/// How a message is to be executed by an agent with `routing:`. By default it is a plain message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct CommandRequest {
    /// The command that the message names; without one it is a plain message.
    pub name: Option<String>,
    /// The text that a specialist is selected for, if it is not the whole message, which may have files.
    pub task: Option<String>,
    /// The specialist that answered the same question before: it is asked again, without a selection.
    pub agent: Option<String>,
}

/// The command of a message that names none.
pub const PLAIN_COMMAND: &str = "run";

/// The commands that `holodeck chat` has itself: there, they come before those of `routing.commands`.
pub const CHAT_COMMANDS: [&str; 12] = [
    "help",
    "attach",
    "tools",
    "cost",
    "history",
    "export",
    "save-as-test",
    "fork",
    "retry",
    "clear",
    "quit",
    "exit",
];

/// Why an execution, or its loop, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TerminationReason {
    /// The score met the threshold.
    ThresholdMet,
    /// There was no loop.
    SingleIteration,
    /// The last allowed iteration.
    MaxIterations,
    /// The score did not rise enough.
    Stagnation,
    /// The score went up and down, or an answer repeated.
    Oscillation,
    /// The time was up.
    Timeout,
    /// The scorer failed.
    ScorerError,
    /// The execution failed.
    ExecutionError,
    /// Another executor was asked for.
    Fallback,
    /// The backend is not available.
    SdkUnavailable,
    /// A person or a signal stopped it.
    Cancelled,
    /// The budget was used up.
    BudgetExceeded,
    /// The judge declared that the goal can't be reached.
    Unachievable,
}

impl TerminationReason {
    /// The code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ThresholdMet => "threshold_met",
            Self::SingleIteration => "single_iteration",
            Self::MaxIterations => "max_iterations",
            Self::Stagnation => "stagnation",
            Self::Oscillation => "oscillation",
            Self::Timeout => "timeout",
            Self::ScorerError => "scorer_error",
            Self::ExecutionError => "execution_error",
            Self::Fallback => "fallback",
            Self::SdkUnavailable => "sdk_unavailable",
            Self::Cancelled => "cancelled",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Unachievable => "unachievable",
        }
    }
}

/// An attempt to execute a command with the agent's backend. Only `--explain`, telemetry and stored runs show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionAttempt {
    /// Whether it was executed and has an output.
    pub success: bool,
    /// On success `status`, `execution_mode`, `agent`, `output`, `message_count`.
    pub output: JsonMap,
    /// Whether another executor should take over.
    pub should_fallback: bool,
    /// Why it was executed or not.
    pub routing_decision: RoutingDecision,
    /// The reason as text, if another executor should take over.
    pub fallback_reason: Option<String>,
    /// The selected agent.
    pub agent_used: Option<String>,
    /// How confident the selection was, 0–1.
    pub confidence: f64,
    /// The evidence that was observed, also if the attempt failed.
    pub evidence: Option<JsonMap>,
    /// The kind of error.
    pub error_type: Option<String>,
    /// Why it ended.
    pub termination_reason: Option<TerminationReason>,
    /// How many outputs were scored, at least 1.
    pub iteration_count: u32,
    /// The output that arrived before an error; never part of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// The session of the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_context: Option<Value>,
    /// Tokens and cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<UsageMetadata>,
}

/// The result of a command for its caller; it does not show how the command was routed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    /// Whether the command did what it was asked for.
    pub success: bool,
    /// The command.
    pub command_name: String,
    /// The answer, with `execution_mode`.
    pub output: JsonMap,
    /// The errors.
    pub errors: Vec<String>,
    /// Seconds.
    pub execution_time: f64,
    /// The agents that took part.
    pub agents_used: Vec<String>,
    /// The tools that ran.
    pub executed_operations: Vec<String>,
    /// The files that were changed.
    pub applied_changes: Vec<String>,
    /// The files that were written.
    pub artifacts: Vec<String>,
    /// `ok` or `error`.
    pub status: String,
}

impl CommandResult {
    /// Says whether the command did what it was asked for.
    pub fn set_success(&mut self, success: bool) {
        self.success = success;
        let status = if success { "ok" } else { "error" };
        status.clone_into(&mut self.status);
    }
}

/// The result of one iteration of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationRecord {
    /// The number of the iteration, from 0.
    pub iteration: u32,
    /// The score before it, 0–100.
    pub input_quality: Option<f64>,
    /// Its score, 0–100.
    pub output_quality: f64,
    /// The improvements that the next iteration was asked for, at most five.
    pub improvements_applied: Vec<String>,
    /// Seconds.
    pub time_taken: f64,
    /// Whether its score meets the threshold.
    pub success: bool,
    /// Why the loop ended here.
    pub termination_reason: Option<TerminationReason>,
    /// Whether the scorer gave no score: none, not a number, or outside of its range. It counts as 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub score_invalid: bool,
    /// Why it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
    /// A summary of the observed evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_summary: Option<JsonMap>,
    /// The tokens, cost and calls of the iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageMetadata>,
    /// SHA-256 of the output, hexadecimal.
    pub output_digest: String,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_fields_are_refused_by_name() {
        let context = CommandContext {
            session_id: "s".to_owned(),
            ..CommandContext::default()
        };
        let mut written = serde_json::to_value(&context).unwrap();
        assert_eq!(
            serde_json::from_value::<CommandContext>(written.clone()).unwrap(),
            context
        );
        for name in RESERVED_FIELDS {
            let mut with = written.clone();
            with[name] = json!(null);
            let error = serde_json::from_value::<CommandContext>(with).unwrap_err();
            assert_eq!(error.to_string(), format!("the field `{name}` is reserved"));
        }
        written["later"] = json!(1);
        assert!(serde_json::from_value::<CommandContext>(written).is_ok());
    }

    #[test]
    fn the_task_is_the_arguments_and_then_the_parameters_in_order() {
        let command = Command {
            name: "review".to_owned(),
            arguments: vec!["look".to_owned(), "at src".to_owned()],
            parameters: [("z".to_owned(), json!(1)), ("a".to_owned(), json!("x y"))].into(),
            flags: [("deep".to_owned(), true)].into(),
        };
        assert_eq!(command.task(), "look at src a=x y z=1");
    }
}
