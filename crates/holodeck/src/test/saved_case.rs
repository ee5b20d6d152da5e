//! A conversation as a test case of its agent: the messages of the person, and the tools that the agent called.
//!
//! The answers are not part of it. They are what one model happened to say, and whether they are right is for a person
//! to decide.

use std::{
    io,
    path::{Path, PathBuf},
};

use holodeck_model::{
    Diagnostic, DiskFiles, Env, FileKind, Files, JsonMap,
    events::{AgentEvent, CompleteReason, EventBody},
    io_reason, printable, read_text_input,
    redact::MASK,
    shown_path,
};
use holodeck_reports::format::{count, one_line};
use holodeck_yaml::{EditError, Load, LoadedAgent, add_test_case};
use serde_json::{Value, json};

use crate::{agent::edited_file::replace_text, load::load_from, redactor};

/// The size limit of a file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Characters of a name that is made from a message.
const NAME_CHARS: usize = 50;

/// A test case that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedCase {
    /// Its name.
    pub name: String,
    /// The file that has it.
    pub path: PathBuf,
    /// The tools that each of its turns expects.
    pub expected_tools: Vec<Vec<String>>,
    /// Notes for the person about it.
    pub notes: Vec<String>,
}

/// Why a conversation cannot be added to the test cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveCaseError {
    /// It has no message that was answered.
    #[error("no message of this conversation was answered yet")]
    Empty,
    /// The agent has a test case of this name.
    #[error("there is a test case `{name}` already; choose another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// The test cases are in a format that has no conversations.
    #[error("`{path}` is a table, to which a conversation cannot be added; YAML and JSON Lines have `turns`")]
    Table {
        /// The file.
        path: String,
    },
    /// The agent file has errors of its own.
    #[error("{problem}; correct that first")]
    Unusable {
        /// The first one.
        problem: String,
    },
    /// The file would have errors with the case.
    #[error("`{path}` was not changed, because it would no longer be valid: {problem}")]
    Invalid {
        /// The file.
        path: String,
        /// The first error.
        problem: String,
    },
    /// The file is written in a form that cannot be edited.
    #[error("`{path}` was not changed: {source}")]
    Edit {
        /// The file.
        path: String,
        /// Why.
        source: EditError,
    },
    /// Another program changed the file.
    #[error("`{path}` was changed by another program in this moment; try again")]
    Changed {
        /// The file.
        path: String,
    },
    /// The file cannot be read or written.
    #[error("`{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Adds a conversation to the test cases of the agent in this file, under a name of its own or one made from its first
/// message. Everything else in the file stays as it is, and a file that would no longer be valid is not written.
pub fn save_conversation(
    agent_file: &Path,
    env: &Env,
    events: &[AgentEvent],
    name: Option<&str>,
) -> Result<SavedCase, SaveCaseError> {
    let agent = usable(load_from(agent_file, env, &DiskFiles))
        .map_err(|problem| SaveCaseError::Unusable { problem })?;
    let redactor = redactor(&agent, env);
    let mask = |text: &str| redactor.text(text).into_owned();
    let Conversation { turns, mut notes } = Conversation::of(events, &mask);
    let first = turns.first().ok_or(SaveCaseError::Empty)?;
    let name = choose_name(&agent, name, &first.message)?;
    if turns.iter().any(|turn| turn.message.contains(MASK)) {
        notes.push(format!("a secret in it is masked as `{MASK}`"));
    }

    let path = match &agent.config.test_cases_file {
        Some(file) => file.path(),
        None => agent_file.to_owned(),
    };
    let shown = || shown_path(&path).display().to_string();
    let io = |source| SaveCaseError::Io {
        path: shown(),
        source,
    };
    let text = read_text_input(&path, MAX_BYTES).map_err(io)?;
    let edited = match CaseFormat::of(&path, agent.config.test_cases_file.is_some()) {
        CaseFormat::Yaml => {
            let case = test_case(&name, &turns, escape);
            add_test_case(&text, &case).map_err(|source| SaveCaseError::Edit {
                path: shown(),
                source,
            })?
        }
        CaseFormat::JsonLines => with_line(&text, test_case(&name, &turns, str::to_owned)),
        CaseFormat::Table => return Err(SaveCaseError::Table { path: shown() }),
    };
    let files = EditedFile {
        path: &path,
        text: &edited,
    };
    let checked = usable(load_from(agent_file, env, &files)).and_then(|agent| check(&agent, &name, &turns));
    let metrics = checked.map_err(|problem| SaveCaseError::Invalid {
        path: shown(),
        problem,
    })?;
    if !metrics.is_empty() {
        let metrics: Vec<_> = metrics.iter().map(|metric| format!("`{metric}`")).collect();
        let metrics = metrics.join(", ");
        notes.push(format!(
            "{metrics} needs a `ground_truth` in each turn, else the test ends with an error"
        ));
    }
    if read_text_input(&path, MAX_BYTES).map_err(io)? != text {
        return Err(SaveCaseError::Changed { path: shown() });
    }
    replace_text(&path, &edited).map_err(io)?;
    Ok(SavedCase {
        name,
        path,
        expected_tools: turns.into_iter().map(|turn| turn.tools).collect(),
        notes,
    })
}

/// The conversation that becomes a test case.
struct Conversation {
    turns: Vec<SavedTurn>,
    notes: Vec<String>,
}

struct SavedTurn {
    message: String,
    /// The tools that were called successfully, by name, in the order of their first calls.
    tools: Vec<String>,
}

impl Conversation {
    fn of(events: &[AgentEvent], mask: &dyn Fn(&str) -> String) -> Self {
        let mut turns = Vec::new();
        let (mut left_out, mut attached) = (0, 0);
        let is_message = |event: &AgentEvent| matches!(event.body, EventBody::UserMessageConfirmed(_));
        let begins = events.iter().enumerate().filter(|(_, event)| is_message(event));
        for (at, event) in begins {
            let EventBody::UserMessageConfirmed(message) = &event.body else {
                continue;
            };
            let rest = events.get(at + 1..).unwrap_or_default();
            let end = rest.iter().position(is_message).unwrap_or(rest.len());
            let run = rest.get(..end).unwrap_or_default();
            if !has_answer(run) {
                left_out += 1;
                continue;
            }
            attached += message.attachments.len();
            turns.push(SavedTurn {
                message: mask(&message.content),
                tools: called_tools(run),
            });
        }
        let mut notes = Vec::new();
        if left_out > 0 {
            notes.push(format!(
                "{} left out that had no answer",
                count(left_out, "message")
            ));
        }
        if attached > 0 {
            notes.push(format!(
                "{} left out; add `files` to its turns",
                count(attached, "attached file")
            ));
        }
        Self { turns, notes }
    }
}

/// Whether the agent answered, or at least did something. What a person stopped cannot be repeated.
fn has_answer(run: &[AgentEvent]) -> bool {
    match run
        .iter()
        .map(|event| &event.body)
        .find(|body| body.is_terminal())
    {
        Some(EventBody::Complete(end)) => end.reason != CompleteReason::UserCancelled,
        Some(_) => run
            .iter()
            .any(|event| matches!(event.body, EventBody::Message(_) | EventBody::ToolUse(_))),
        None => false,
    }
}

/// The tools that the agent itself called successfully; a nested agent is a part of the call that started it.
fn called_tools(run: &[AgentEvent]) -> Vec<String> {
    let succeeded = |id: &str| {
        run.iter().any(|event| match &event.body {
            EventBody::ToolResult(result) => result.tool_use_id == id && result.success,
            _ => false,
        })
    };
    let mut tools: Vec<String> = Vec::new();
    for event in run.iter().filter(|event| event.meta.parent_tool_use_id.is_none()) {
        if let EventBody::ToolUse(call) = &event.body
            && !tools.contains(&call.tool_name)
            && succeeded(&call.tool_use_id)
        {
            tools.push(call.tool_name.clone());
        }
    }
    tools
}

/// The name that was asked for, or one made from the first message that no other case has.
fn choose_name(agent: &LoadedAgent, name: Option<&str>, message: &str) -> Result<String, SaveCaseError> {
    let is_taken = |name: &str| agent.config.test_cases.names().any(|other| other == name);
    if let Some(name) = name {
        let name = name.trim();
        return if is_taken(name) {
            Err(SaveCaseError::Exists {
                name: name.to_owned(),
            })
        } else {
            Ok(name.to_owned())
        };
    }
    let made = one_line(&printable(message), NAME_CHARS);
    let numbered = (2_u32..).map(|number| format!("{made} {number}"));
    let mut names = std::iter::once(made.clone()).chain(numbered);
    Ok(names.find(|name| !is_taken(name)).unwrap_or(made))
}

/// The case as it is written; `write` makes a text of the file from a text of the conversation.
fn test_case(name: &str, turns: &[SavedTurn], write: fn(&str) -> String) -> JsonMap {
    let turns = turns.iter().map(|turn| {
        let mut written = JsonMap::new();
        written.insert("input".to_owned(), write(&turn.message).into());
        if !turn.tools.is_empty() {
            written.insert("expected_tools".to_owned(), json!(turn.tools));
        }
        Value::Object(written)
    });
    let turns = Value::Array(turns.collect());
    JsonMap::from_iter([
        ("name".to_owned(), write(name).into()),
        ("turns".to_owned(), turns),
    ])
}

/// A text that YAML replaces no variable in.
fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

/// The format of a file of test cases.
enum CaseFormat {
    Yaml,
    JsonLines,
    Table,
}

impl CaseFormat {
    fn of(path: &Path, is_case_file: bool) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
            _ if !is_case_file => Self::Yaml,
            "jsonl" | "ndjson" => Self::JsonLines,
            "csv" | "xlsx" => Self::Table,
            _ => Self::Yaml,
        }
    }
}

/// The text with one more line.
fn with_line(text: &str, case: JsonMap) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let before = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        end
    };
    format!("{text}{before}{}{end}", Value::Object(case))
}

/// The agent, or the first error with its place.
fn usable(load: Load) -> Result<LoadedAgent, String> {
    let error = load.diagnostics.iter().find(|diagnostic| diagnostic.is_error());
    match (error, load.agent) {
        (None, Some(agent)) => Ok(agent),
        (Some(error), _) => Err(describe(error)),
        (None, None) => Err("the agent cannot be loaded".to_owned()),
    }
}

fn describe(error: &Diagnostic) -> String {
    match &error.primary {
        Some(place) => format!("{place}: {}", error.message),
        None => error.message.clone(),
    }
}

/// Checks that the case asks exactly what the person asked. Returns the agent's metrics that cannot judge it yet.
fn check(agent: &LoadedAgent, name: &str, turns: &[SavedTurn]) -> Result<Vec<String>, String> {
    let mut cases = agent.config.test_cases.iter();
    let changed = || "the messages would change".to_owned();
    let case = cases
        .find(|case| case.name.as_deref() == Some(name))
        .ok_or_else(changed)?;
    let inputs = case.turns.iter().map(|turn| turn.input.as_str());
    if !inputs.eq(turns.iter().map(|turn| turn.message.as_str())) {
        return Err(changed());
    }
    let mut metrics: Vec<String> = Vec::new();
    for turn in &case.turns {
        for metric in agent.config.metrics_for(&case, Some(turn)) {
            let name = metric.name();
            if metric.enabled() && metric.needs_ground_truth() && !metrics.iter().any(|known| known == name) {
                metrics.push(name.to_owned());
            }
        }
    }
    Ok(metrics)
}

/// The files of this machine, one of them with another text.
struct EditedFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Files for EditedFile<'_> {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let is_same = |other: &Path| {
            let (one, other) = (self.path.canonicalize(), other.canonicalize());
            one.is_ok() && one.ok() == other.ok()
        };
        if path == self.path || is_same(path) {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            return Ok(self.text.as_bytes().iter().copied().take(limit).collect());
        }
        DiskFiles.read(path, limit)
    }

    fn kind(&self, path: &Path) -> FileKind {
        DiskFiles.kind(path)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        DiskFiles.absolute(path)
    }
}

#[cfg(test)]
mod tests;
