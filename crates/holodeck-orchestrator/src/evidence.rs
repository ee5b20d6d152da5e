//! Folds the events of an execution into evidence: the same events, in a run or read again, give the same evidence.

use std::collections::{BTreeMap, HashMap, HashSet};

use holodeck_backend_api::{CallRefusal, SideEffects, ToolCall, ToolResult};
use holodeck_model::{CommandContext, EvidenceConfig, JsonMap, hex};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    command_line::test_runner,
    hooks::{HookEvent, HookPoint},
    test_report::{TestCounts, read_report},
};

/// The observed effects of an execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// Its tool calls, in order.
    pub tool_invocations: Vec<ToolInvocation>,
    /// The files it read.
    pub files_read: Vec<String>,
    /// The files it wrote as a whole.
    pub files_written: Vec<String>,
    /// The files it changed.
    pub files_edited: Vec<String>,
    /// The commands it ran.
    pub commands_run: Vec<CommandRun>,
    /// The tests it ran.
    pub tests: TestCounts,
    /// The calls that started nested agents.
    pub subagents: Vec<String>,
    /// The execution.
    pub session_id: String,
    /// When its first event happened.
    pub start_time: Option<Timestamp>,
    /// When its last event happened.
    pub end_time: Option<Timestamp>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolInvocation {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// SHA-256 of its arguments, hexadecimal.
    pub input_digest: String,
    /// Whether it succeeded; absent without an answer.
    pub success: Option<bool>,
    /// Why it did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<CallRefusal>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Milliseconds.
    pub duration_ms: Option<u64>,
    /// Whether it may have changed something outside.
    pub side_effects: SideEffects,
}

/// A command of a shell or of a tool that runs a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CommandRun {
    /// The command.
    pub command: String,
    /// Its exit code, if the tool reports one.
    pub exit_code: Option<i32>,
}

/// Facts about the tools of an agent that are known before they are called.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct KnownTools {
    /// Whether a tool may change something; one that is not listed may.
    pub side_effects: HashMap<String, SideEffects>,
    /// The programs that tools of the YAML run, with their arguments.
    pub commands: HashMap<String, String>,
}

/// Folds the events of an execution to its evidence.
pub(crate) struct EvidenceCollector {
    known: KnownTools,
    seen: HashSet<String>,
    /// The position of each call in the evidence.
    calls: BTreeMap<String, usize>,
    open: HashMap<String, Open>,
    evidence: Evidence,
}

/// A call without an answer.
struct Open {
    call: ToolCall,
    since: Timestamp,
}

impl EvidenceCollector {
    pub(crate) fn new(session_id: &str) -> Self {
        Self {
            known: KnownTools::default(),
            seen: HashSet::new(),
            calls: BTreeMap::new(),
            open: HashMap::new(),
            evidence: Evidence {
                session_id: session_id.to_owned(),
                ..Evidence::default()
            },
        }
    }

    /// Adds what is known about the tools of an agent that is about to run.
    pub(crate) fn learn(&mut self, tools: KnownTools) {
        self.known.side_effects.extend(tools.side_effects);
        self.known.commands.extend(tools.commands);
    }

    /// Takes an event. One that was taken before changes nothing.
    pub(crate) fn observe(&mut self, event: &HookEvent) {
        if !self.seen.insert(event.event_id.clone()) {
            return;
        }
        self.evidence.start_time.get_or_insert(event.at);
        self.evidence.end_time = self.evidence.end_time.max(Some(event.at));
        match &event.point {
            HookPoint::PreToolUse { call } => self.begin(call, event.at),
            HookPoint::PostToolUse { result } => self.end(result, event.at),
            HookPoint::SubagentStart { call_id } => self.evidence.subagents.push(call_id.clone()),
            HookPoint::SessionStart | HookPoint::SessionEnd | HookPoint::SubagentStop { .. } => {}
        }
    }

    fn begin(&mut self, call: &ToolCall, at: Timestamp) {
        let digest = Sha256::digest(call.arguments.to_string().as_bytes());
        self.calls
            .insert(call.call_id.clone(), self.evidence.tool_invocations.len());
        self.evidence.tool_invocations.push(ToolInvocation {
            id: call.call_id.clone(),
            name: call.name.clone(),
            input_digest: hex(&digest),
            success: None,
            refused: None,
            error: None,
            duration_ms: None,
            side_effects: self.class_of(&call.name),
        });
        self.open.insert(
            call.call_id.clone(),
            Open {
                call: call.clone(),
                since: at,
            },
        );
    }

    fn end(&mut self, result: &ToolResult, at: Timestamp) {
        let Some(open) = self.open.remove(&result.call_id) else {
            return;
        };
        let invocation = self.calls.get(&result.call_id);
        let invocation = invocation.and_then(|place| self.evidence.tool_invocations.get_mut(*place));
        let Some(invocation) = invocation else { return };
        let did_run = result.details.refused.is_none();
        let waited = at.duration_since(open.since).as_millis();
        invocation.success = Some(did_run && !result.is_error);
        invocation.refused = result.details.refused;
        invocation.error = result.is_error.then(|| first_line(&result.result));
        invocation.duration_ms = result.duration_ms.or_else(|| u64::try_from(waited).ok());
        if let Some(class) = result.details.side_effects {
            invocation.side_effects = class;
        }
        if !did_run {
            invocation.side_effects = SideEffects::None;
            return;
        }
        self.add_command(&open.call, result);
        if !result.is_error {
            self.add_files(&open.call);
        }
    }

    fn class_of(&self, tool: &str) -> SideEffects {
        let known = self.known.side_effects.get(tool).copied();
        known.unwrap_or(SideEffects::Possible)
    }

    fn add_command(&mut self, call: &ToolCall, result: &ToolResult) {
        let of_tool = self.known.commands.get(&call.name).cloned();
        let command = of_tool.or_else(|| {
            let is_shell = SHELLS.contains(&bare_name(&call.name));
            is_shell.then(|| text_argument(&call.arguments, &["command", "cmd"]))?
        });
        let Some(command) = command else { return };
        if let Some(runner) = test_runner(&command)
            && let Some(report) = read_report(runner, &command, &result.result)
        {
            self.evidence.tests.add(&report);
        }
        self.evidence.commands_run.push(CommandRun {
            command,
            exit_code: exit_code(result),
        });
    }

    fn add_files(&mut self, call: &ToolCall) {
        let name = bare_name(&call.name);
        let list = if READERS.contains(&name) {
            &mut self.evidence.files_read
        } else if WRITERS.contains(&name) {
            &mut self.evidence.files_written
        } else if EDITORS.contains(&name) {
            &mut self.evidence.files_edited
        } else {
            return;
        };
        let keys = ["file_path", "notebook_path", "path", "destination"];
        let paths = call.arguments.get("paths").and_then(Value::as_array);
        let paths = paths
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned);
        for path in text_argument(&call.arguments, &keys).into_iter().chain(paths) {
            if !list.contains(&path) {
                list.push(path);
            }
        }
    }

    pub(crate) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// How many calls may have changed something.
    pub(crate) fn calls_with_side_effects(&self) -> usize {
        let calls = self.evidence.tool_invocations.iter();
        calls
            .filter(|call| call.side_effects == SideEffects::Possible)
            .count()
    }

    /// The tools that may have changed something: they ran, or it is not known how they ended.
    pub(crate) fn side_effects(&self) -> Vec<String> {
        self.side_effects_since(0)
    }

    /// The same of the calls after the first `calls`.
    pub(crate) fn side_effects_since(&self, calls: usize) -> Vec<String> {
        let mut tools = Vec::new();
        for call in self.evidence.tool_invocations.iter().skip(calls) {
            if call.side_effects == SideEffects::Possible && !tools.contains(&call.name) {
                tools.push(call.name.clone());
            }
        }
        tools
    }
}

impl Evidence {
    /// Files that were written or changed, without repetitions.
    pub fn changed_files(&self) -> Vec<String> {
        let mut files = self.files_edited.clone();
        files.extend(
            self.files_written
                .iter()
                .filter(|file| !self.files_edited.contains(file))
                .cloned(),
        );
        files
    }

    /// Whether something was changed, run or tested.
    pub fn has_execution_evidence(&self) -> bool {
        !self.changed_files().is_empty() || !self.commands_run.is_empty() || self.tests.run > 0
    }

    /// The most important numbers.
    pub fn summary(&self) -> JsonMap {
        let summary = json!({
            "tool_count": self.tool_invocations.len(),
            "files_read": self.files_read.len(),
            "files_written": self.files_written.len(),
            "files_edited": self.files_edited.len(),
            "commands_run": self.commands_run.len(),
            "tests_run": self.tests.run > 0,
            "test_passed": self.tests.passed,
            "test_failed": self.tests.failed,
            "test_coverage": self.tests.coverage,
            "subagents_spawned": self.subagents.len(),
            "has_file_modifications": !self.changed_files().is_empty(),
            "has_execution_evidence": self.has_execution_evidence(),
            "session_id": self.session_id,
        });
        match summary {
            Value::Object(fields) => fields,
            _ => JsonMap::new(),
        }
    }

    /// The record with its summary and what is missing, as an attempt contains it.
    pub(crate) fn to_json(&self, issues: &[EvidenceIssue]) -> JsonMap {
        let mut fields = match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => JsonMap::new(),
        };
        fields.insert("tests".to_owned(), Value::Object(self.tests.to_json()));
        fields.insert("summary".to_owned(), Value::Object(self.summary()));
        if !issues.is_empty() {
            let issues = issues.iter().map(ToString::to_string).collect::<Vec<_>>();
            fields.insert("issues".to_owned(), json!(issues));
        }
        fields
    }
}

/// Evidence that an execution should have produced and did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(clippy::exhaustive_enums, reason = "the codes are fixed")]
pub enum EvidenceIssue {
    /// Fewer files were changed than required.
    #[error("MISSING_FILE_CHANGES: {changed} files were changed, {required} are required")]
    MissingFileChanges {
        /// How many were.
        changed: usize,
        /// How many must be.
        required: usize,
    },
    /// No test run was seen.
    #[error("NO_TESTS_RUN: no recognised test runner reported a result")]
    NoTestsRun,
    /// Nothing was changed, run or tested.
    #[error("NO_EXECUTION_EVIDENCE: no file was changed, and no command or test was run")]
    NoExecutionEvidence,
}

/// The missing evidence of a command; `required` are the issues that make it fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingEvidence {
    pub(crate) required: Vec<EvidenceIssue>,
    pub(crate) expected: Vec<EvidenceIssue>,
}

impl MissingEvidence {
    pub(crate) fn all(&self) -> Vec<EvidenceIssue> {
        let mut all = self.required.clone();
        all.extend(
            self.expected
                .iter()
                .filter(|issue| !self.required.contains(issue))
                .cloned(),
        );
        all
    }
}

/// The expectations of the command that a [summary](Evidence::summary) of evidence does not show, for the next
/// iteration of a loop.
pub fn missing_expectations(context: &CommandContext, summary: &JsonMap) -> Vec<EvidenceIssue> {
    let shows = |key: &str| summary.get(key).and_then(Value::as_bool) == Some(true);
    let issues = [
        (
            context.expects_file_changes && !shows("has_file_modifications"),
            EvidenceIssue::MissingFileChanges {
                changed: 0,
                required: 1,
            },
        ),
        (
            context.expects_tests && !shows("tests_run"),
            EvidenceIssue::NoTestsRun,
        ),
        (
            context.expects_execution_evidence && !shows("has_execution_evidence"),
            EvidenceIssue::NoExecutionEvidence,
        ),
    ];
    issues
        .into_iter()
        .filter_map(|(is_missing, issue)| is_missing.then_some(issue))
        .collect()
}

/// Compares the evidence with what the command and the YAML require. `None`: none could be collected.
pub(crate) fn check_evidence(
    evidence: Option<&Evidence>,
    context: &CommandContext,
    config: EvidenceConfig,
) -> MissingEvidence {
    let changed = evidence.map_or(0, |evidence| evidence.changed_files().len());
    let ran_tests = evidence.is_some_and(|evidence| evidence.tests.run > 0);
    let has_evidence = evidence.is_some_and(Evidence::has_execution_evidence);
    let files = |required: usize| {
        (changed < required).then_some(EvidenceIssue::MissingFileChanges { changed, required })
    };
    let tests = |needed: bool| (needed && !ran_tests).then_some(EvidenceIssue::NoTestsRun);
    let any = |needed: bool| (needed && !has_evidence).then_some(EvidenceIssue::NoExecutionEvidence);
    let least = usize::try_from(config.min_file_changes).unwrap_or(usize::MAX);
    MissingEvidence {
        required: any(context.requires_evidence || config.required)
            .into_iter()
            .chain(files(least))
            .chain(tests(context.require_tests || config.require_tests))
            .collect(),
        expected: files(usize::from(context.expects_file_changes))
            .into_iter()
            .chain(tests(context.expects_tests))
            .chain(any(context.expects_execution_evidence))
            .collect(),
    }
}

const SHELLS: [&str; 6] = [
    "Bash",
    "bash",
    "shell",
    "run_command",
    "execute_command",
    "run_shell_command",
];
const READERS: [&str; 5] = [
    "Read",
    "read_file",
    "read_text_file",
    "read_media_file",
    "read_multiple_files",
];
const WRITERS: [&str; 3] = ["Write", "write_file", "create_file"];
const EDITORS: [&str; 6] = [
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "edit_file",
    "move_file",
    "str_replace",
];

/// A tool's name without its server.
fn bare_name(name: &str) -> &str {
    name.rsplit("__").next().unwrap_or(name)
}

fn text_argument(arguments: &Value, keys: &[&str]) -> Option<String> {
    keys.iter()
        .find_map(|key| arguments.get(key).and_then(Value::as_str))
        .map(ToOwned::to_owned)
}

/// The exit code of a command: 0 of one that succeeded, else what the result says.
fn exit_code(result: &ToolResult) -> Option<i32> {
    if !result.is_error {
        return Some(0);
    }
    let text = result.result.trim_start().to_ascii_lowercase();
    let rest = text.strip_prefix("error: ").unwrap_or(&text);
    let rest = rest.strip_prefix("exit code")?.trim_start_matches([':', ' ']);
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn first_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(LONGEST).collect()
}
