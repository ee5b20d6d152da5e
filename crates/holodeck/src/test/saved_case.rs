//! Adds a test case to the file that has those of an agent, and keeps everything else in it: a conversation, as the messages
//! of the person and the tools that the agent called, or what a person wrote.
//!
//! The answers of a conversation are not part of it. They are what one model happened to say, and whether they are right is
//! for a person to decide.

use std::{
    io,
    path::{Path, PathBuf},
};

use holodeck_model::{
    Diagnostic, DiskFiles, Env, FileKind, Files, JsonMap, TestCase,
    events::{AgentEvent, CompleteReason, EventBody},
    io_reason, printable, printable_json, read_text_input,
    redact::MASK,
    shown_path,
};
use holodeck_reports::format::{count, one_line};
use holodeck_view::CaseFile;
use holodeck_yaml::{EditError, Load, LoadedAgent, add_test_case, item_lines};
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
    /// The line of the file where it begins.
    pub line: usize,
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
    /// The test cases are in a format to which nothing is added.
    #[error("`{path}` is a table, to which no case can be added; YAML and JSON Lines can be extended")]
    Table {
        /// The file.
        path: String,
    },
    /// The name or a question has no text.
    #[error("{what} is empty")]
    Blank {
        /// Which.
        what: &'static str,
    },
    /// The file belongs to another agent now.
    #[error("the agent in `{path}` is `{name}` now, which is another one")]
    OtherAgent {
        /// The file.
        path: String,
        /// Its agent.
        name: String,
    },
    /// The caller does not want this file to be changed.
    #[error("{why}")]
    Declined {
        /// Why.
        why: String,
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
    let Conversation { turns, notes } = Conversation::of(events, &mask);
    let first = turns.first().ok_or(SaveCaseError::Empty)?;
    let draft = Draft {
        name: choose_name(&agent, name, &first.message)?,
        is_conversation: true,
        turns,
    };
    write(&agent, agent_file, env, draft, notes, &|_| Ok(()))
}

/// The file that has the test cases of an agent.
pub(super) fn case_path(agent: &LoadedAgent, agent_file: &Path) -> PathBuf {
    match &agent.config.test_cases_file {
        Some(file) => file.path(),
        None => agent_file.to_owned(),
    }
}

/// Reads the file that has the test cases of an agent.
pub(super) fn read_case_file(agent: &LoadedAgent, agent_file: &Path) -> Result<CaseFile, SaveCaseError> {
    let path = case_path(agent, agent_file);
    match read_text_input(&path, MAX_BYTES) {
        Ok(text) => Ok(CaseFile { path, text }),
        Err(source) => Err(SaveCaseError::Io {
            path: shown_path(&path).display().to_string(),
            source,
        }),
    }
}

/// Adds the case, which `accept` may decline when it sees the file as it is.
pub(super) fn write(
    agent: &LoadedAgent,
    agent_file: &Path,
    env: &Env,
    draft: Draft,
    mut notes: Vec<String>,
    accept: &dyn Fn(&CaseFile) -> Result<(), String>,
) -> Result<SavedCase, SaveCaseError> {
    if draft.texts().any(|text| text.contains(MASK)) {
        notes.push(format!("a secret in it is masked as `{MASK}`"));
    }
    let file = read_case_file(agent, agent_file)?;
    accept(&file).map_err(|why| SaveCaseError::Declined { why })?;
    let CaseFile { path, text } = file;
    let shown = || shown_path(&path).display().to_string();
    let io = |source| SaveCaseError::Io {
        path: shown(),
        source,
    };
    let edited = match CaseFormat::of_agent(agent, &path) {
        CaseFormat::Yaml => {
            add_test_case(&text, &draft.written(escape)).map_err(|source| SaveCaseError::Edit {
                path: shown(),
                source,
            })?
        }
        CaseFormat::JsonLines => with_line(&text, &draft.json_line()),
        CaseFormat::Table => return Err(SaveCaseError::Table { path: shown() }),
    };
    let files = EditedFile {
        path: &path,
        text: &edited,
    };
    let checked = usable(load_from(agent_file, env, &files)).and_then(|agent| check(&agent, &draft));
    let metrics = checked.map_err(|problem| SaveCaseError::Invalid {
        path: shown(),
        problem,
    })?;
    if !metrics.is_empty() {
        let metrics: Vec<_> = metrics.iter().map(|metric| format!("`{metric}`")).collect();
        let metrics = metrics.join(", ");
        let place = if draft.is_conversation {
            " in each turn"
        } else {
            ""
        };
        notes.push(format!(
            "{metrics} needs a `ground_truth`{place}, else the test ends with an error"
        ));
    }
    if read_text_input(&path, MAX_BYTES).map_err(io)? != text {
        return Err(SaveCaseError::Changed { path: shown() });
    }
    replace_text(&path, &edited).map_err(io)?;
    Ok(SavedCase {
        name: draft.name,
        line: first_new_line(&text, &edited),
        path,
        expected_tools: draft.turns.into_iter().map(|turn| turn.tools).collect(),
        notes,
    })
}

/// The first line, from 1, that the text before did not have there.
fn first_new_line(before: &str, after: &str) -> usize {
    let same = before.lines().zip(after.lines());
    same.take_while(|(before, after)| before == after).count() + 1
}

/// A test case before it is written.
pub(super) struct Draft {
    pub(super) name: String,
    /// Whether it is written as `turns`, also if it has only one.
    pub(super) is_conversation: bool,
    pub(super) turns: Vec<SavedTurn>,
}

impl Draft {
    /// Its texts, from which secrets are masked.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let turns = self.turns.iter();
        let turns =
            turns.flat_map(|turn| std::iter::once(turn.message.as_str()).chain(turn.expected.as_deref()));
        std::iter::once(self.name.as_str()).chain(turns)
    }

    /// The case as it is written; `write` makes a text of the file from a text of the case.
    fn written(&self, write: fn(&str) -> String) -> JsonMap {
        let mut case = JsonMap::from_iter([("name".to_owned(), write(&self.name).into())]);
        let mut turns = self.turns.iter().map(|turn| turn.written(write));
        if self.is_conversation {
            let turns = turns.map(Value::Object).collect();
            case.insert("turns".to_owned(), Value::Array(turns));
        } else if let Some(turn) = turns.next() {
            case.extend(turn);
        }
        case
    }

    /// A line of JSON, with hidden characters as escapes.
    fn json_line(&self) -> String {
        let line = Value::Object(self.written(str::to_owned)).to_string();
        printable_json(&line).into_owned()
    }

    /// The text that a person can paste into the file, if the file has a form for it.
    pub(super) fn to_paste(&self, agent: &LoadedAgent, agent_file: &Path) -> String {
        match CaseFormat::of_agent(agent, &case_path(agent, agent_file)) {
            CaseFormat::JsonLines => self.json_line() + "\n",
            CaseFormat::Yaml | CaseFormat::Table => item_lines(&self.written(escape)),
        }
    }

    fn is(&self, case: &TestCase) -> bool {
        let are_same = |own: &SavedTurn, input: &str, expected: &Option<String>| {
            own.message == input && own.expected == *expected
        };
        match self.turns.as_slice() {
            [turn] if !self.is_conversation => {
                let input = case.input.as_deref().unwrap_or_default();
                case.turns.is_empty() && are_same(turn, input, &case.ground_truth)
            }
            turns => {
                let mut pairs = turns.iter().zip(&case.turns);
                turns.len() == case.turns.len()
                    && pairs.all(|(own, turn)| are_same(own, &turn.input, &turn.ground_truth))
            }
        }
    }
}

/// The conversation that becomes a test case.
struct Conversation {
    turns: Vec<SavedTurn>,
    notes: Vec<String>,
}

pub(super) struct SavedTurn {
    pub(super) message: String,
    /// The right answer, if a person knows one.
    pub(super) expected: Option<String>,
    /// The tools that were called successfully, by name, in the order of their first calls.
    pub(super) tools: Vec<String>,
}

impl SavedTurn {
    fn written(&self, write: fn(&str) -> String) -> JsonMap {
        let mut written = JsonMap::from_iter([("input".to_owned(), write(&self.message).into())]);
        if let Some(expected) = &self.expected {
            written.insert("ground_truth".to_owned(), write(expected).into());
        }
        if !self.tools.is_empty() {
            written.insert("expected_tools".to_owned(), json!(self.tools));
        }
        written
    }
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
                expected: None,
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
    let Some(name) = name else {
        return Ok(free_name(agent, &one_line(&printable(message), NAME_CHARS)));
    };
    let name = name.trim();
    if is_taken(agent, name) {
        return Err(SaveCaseError::Exists {
            name: name.to_owned(),
        });
    }
    Ok(name.to_owned())
}

/// Whether a test case of the agent has this name.
pub(super) fn is_taken(agent: &LoadedAgent, name: &str) -> bool {
    agent.config.test_cases.names().any(|other| other == name)
}

/// This name, or with a number one that no case of the agent has.
pub(super) fn free_name(agent: &LoadedAgent, name: &str) -> String {
    let numbered = (2_u32..).map(|number| format!("{name} {number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names
        .find(|name| !is_taken(agent, name))
        .unwrap_or_else(|| name.to_owned())
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
    fn of_agent(agent: &LoadedAgent, path: &Path) -> Self {
        Self::of(path, agent.config.test_cases_file.is_some())
    }

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
fn with_line(text: &str, line: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let before = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        end
    };
    format!("{text}{before}{line}{end}")
}

/// The agent, or the first error with its place.
pub(super) fn usable(load: Load) -> Result<LoadedAgent, String> {
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

/// Checks that the case is exactly the one that was to be written. Returns the agent's metrics that cannot judge it yet.
fn check(agent: &LoadedAgent, draft: &Draft) -> Result<Vec<String>, String> {
    let mut cases = agent.config.test_cases.iter();
    let case = cases.find(|case| case.name.as_deref() == Some(&draft.name));
    let case = case
        .filter(|case| draft.is(case))
        .ok_or_else(|| "its texts would change".to_owned())?;
    let turns = case.turns.iter().map(Some);
    let alone = case.turns.is_empty().then_some(None);
    let mut metrics: Vec<String> = Vec::new();
    for (turn, own) in turns.chain(alone).zip(&draft.turns) {
        if own.expected.is_some() {
            continue;
        }
        for metric in agent.config.metrics_for(&case, turn) {
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
