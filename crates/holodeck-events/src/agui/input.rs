//! Reads requests of AG-UI clients. Unknown fields and message kinds are skipped, so that other versions work.

use std::collections::{HashMap, HashSet};

use holodeck_backend_api::{HistoryItem, Opening, ToolCall, ToolResult};
use holodeck_model::{CallDetails, events::ApprovalScope, json_kind};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::AgUiOptions;
use crate::{ApprovalAnswer, Resolution};

/// The request of an AG-UI client. Unknown fields and unknown kinds of messages are skipped, so that clients of other
/// versions are served.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunAgentInput {
    /// The conversation.
    #[serde(default, deserialize_with = "or_default")]
    pub thread_id: String,
    /// The client's id of the AG-UI run.
    #[serde(default, deserialize_with = "or_default")]
    pub run_id: String,
    /// The protocol version of the client; absent before 1.0.
    #[serde(default)]
    pub protocol_version: Option<String>,
    /// The run that this one branches from.
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// The application's state. Agents have none.
    #[serde(default)]
    pub state: Value,
    /// The conversation as the client has it.
    #[serde(default, deserialize_with = "or_default")]
    pub messages: Vec<AgUiMessage>,
    /// Tools of the front end.
    #[serde(default, deserialize_with = "or_default")]
    pub tools: Vec<Value>,
    /// The context of the conversation.
    #[serde(default, deserialize_with = "or_default")]
    pub context: Vec<AgUiContext>,
    /// For the agent; `{"holodeck": {"events": true}}` requests every event.
    #[serde(default)]
    pub forwarded_props: Value,
    /// Answers to the interrupts of the run before.
    #[serde(default, deserialize_with = "or_default")]
    pub resume: Vec<AgUiResume>,
}

/// A message of any role.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgUiMessage {
    /// Its id.
    #[serde(default)]
    pub id: String,
    /// `user`, `assistant`, `tool`, `system`, `developer`, `reasoning`, `activity`.
    pub role: String,
    /// A string, or a list of parts.
    #[serde(default)]
    pub content: Value,
    /// Calls of an assistant message.
    #[serde(default, deserialize_with = "or_default")]
    pub tool_calls: Vec<AgUiToolCall>,
    /// The call that a tool message answers.
    #[serde(default, deserialize_with = "or_default")]
    pub tool_call_id: String,
    /// Why the tool failed.
    #[serde(default)]
    pub error: Option<String>,
    /// The nested agent that wrote it.
    #[serde(default)]
    pub subagent_run_id: Option<String>,
}

/// A call in an assistant message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct AgUiToolCall {
    /// Its id.
    pub id: String,
    /// The called function.
    pub function: AgUiFunction,
}

/// The tool of a call, and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct AgUiFunction {
    /// The tool.
    pub name: String,
    /// JSON.
    #[serde(default)]
    pub arguments: String,
}

/// An entry of `context`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct AgUiContext {
    /// Its description.
    #[serde(default)]
    pub description: String,
    /// The text.
    #[serde(default)]
    pub value: Value,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgUiResume {
    /// The interrupt: the id of the approval.
    pub interrupt_id: String,
    /// `resolved` or `cancelled`.
    pub status: String,
    /// The answer, as the interrupt's `responseSchema` describes it.
    #[serde(default)]
    pub payload: Value,
}

/// The parts of a [`RunAgentInput`] that are used.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AgUiRequest {
    /// The message to run. Absent only if there are answers and the conversation does not end with a message of the
    /// user.
    pub message: Option<AgUiUserMessage>,
    /// The conversation before it, for a thread that is not in the store.
    pub history: Vec<HistoryItem>,
    /// Answers to approvals, each for the thread as its session and without a user.
    pub answers: Vec<ApprovalAnswer>,
    /// Parts that are not used, each as a sentence.
    pub warnings: Vec<String>,
}

/// A message of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgUiUserMessage {
    /// The client's id; empty if it has none.
    pub id: String,
    /// The text.
    pub text: String,
}

/// Why a request cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` {problem}")]
#[non_exhaustive]
pub struct AgUiInputError {
    /// The field of the request.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// The request to send instead.
    pub hint: String,
}

impl RunAgentInput {
    /// The options of the run for this client.
    pub fn options(&self) -> AgUiOptions {
        let version = self.protocol_version.as_deref().unwrap_or_default();
        let major = version.split('.').next().and_then(|major| major.parse().ok());
        let events = self.forwarded_props.pointer("/holodeck/events");
        AgUiOptions {
            subagents: major.is_some_and(|major: u32| major >= 1),
            events: events.and_then(Value::as_bool).unwrap_or_default(),
        }
    }

    /// Reads the request out of the conversation.
    pub fn request(&self) -> Result<AgUiRequest, AgUiInputError> {
        for (name, id) in [("threadId", &self.thread_id), ("runId", &self.run_id)] {
            if id.is_empty() {
                let hint =
                    "send an id: the same for each request of a conversation, and a new one for each run";
                return Err(error(name, "is missing".to_owned(), hint));
            }
        }
        let mut warnings = Vec::new();
        if !self.tools.is_empty() {
            let names: Vec<_> = self.tools.iter().map(name_of).collect();
            warnings.push(format!(
                "`tools` are ignored, the agent has its own: {}",
                names.join(", ")
            ));
        }
        if !self.context.is_empty() {
            warnings.push("`context` is ignored".to_owned());
        }
        let answers = self.answers()?;
        let last = self.messages.iter().rposition(is_of_conversation);
        let message = last.and_then(|at| Some((at, self.messages.get(at)?)));
        let (at, message) = match message {
            Some((at, message)) if message.role == "user" => (at, Some(user_message(at, message)?)),
            _ if !answers.is_empty() => (self.messages.len(), None),
            found => match self.asked_again() {
                Some((at, message)) => (at, Some(user_message(at, message)?)),
                None => return Err(no_message(found.map(|(_, message)| message))),
            },
        };
        let earlier = self.messages.get(..at).unwrap_or_default();
        Ok(AgUiRequest {
            message,
            history: history(earlier, &mut warnings),
            answers,
            warnings,
        })
    }

    /// The message whose answer is asked for again from within: the conversation ends with results of the agent's tools.
    /// Clients that show what follows a tool as a message of its own leave out that message alone. A result of one of the
    /// client's tools is no such end: clients send it by themselves, again and again.
    fn asked_again(&self) -> Option<(usize, &AgUiMessage)> {
        let last = self
            .messages
            .iter()
            .rfind(|message| is_of_conversation(message))?;
        let at = self.messages.iter().rposition(|message| message.role == "user")?;
        let answer = self.messages.get(at + 1..)?;
        let calls = answer.iter().flat_map(|message| &message.tool_calls);
        let own: HashSet<_> = self.tools.iter().map(name_of).collect();
        let of_agent: HashSet<_> = calls
            .filter(|call| !own.contains(call.function.name.as_str()))
            .map(|call| call.id.as_str())
            .collect();
        let mut results = answer.iter().filter(|message| message.role == "tool");
        let is_meant =
            last.role == "tool" && results.all(|result| of_agent.contains(result.tool_call_id.as_str()));
        let message = self.messages.get(at).filter(|_| is_meant)?;
        Some((at, message))
    }

    fn answers(&self) -> Result<Vec<ApprovalAnswer>, AgUiInputError> {
        let mut seen = HashSet::new();
        let entries = self.resume.iter().enumerate();
        let answers = entries.map(|(at, entry)| {
            if !seen.insert(entry.interrupt_id.as_str()) {
                let problem = format!("answers `{}` a second time", entry.interrupt_id);
                return Err(error(
                    &format!("resume[{at}]"),
                    problem,
                    "send one entry per interrupt",
                ));
            }
            let mut answer = answer(at, entry)?;
            answer.session_id = Some(self.thread_id.clone());
            Ok(answer)
        });
        answers.collect()
    }
}

/// A conversation whose last message is this one has nothing to answer.
fn no_message(last: Option<&AgUiMessage>) -> AgUiInputError {
    let problem = match last {
        Some(message) => format!("must end with a message of the user, found `{}`", message.role),
        None => "has no message of the user".to_owned(),
    };
    error("messages", problem, "send the user's message as the last one")
}

fn answer(at: usize, entry: &AgUiResume) -> Result<ApprovalAnswer, AgUiInputError> {
    let id = entry.interrupt_id.as_str();
    match (entry.status.as_str(), &entry.payload) {
        ("cancelled", _) => {
            let mut answer = ApprovalAnswer::new(id, Resolution::Reject);
            answer.reason = Some("the user gave no answer".to_owned());
            Ok(answer)
        }
        ("resolved", Value::Object(payload)) => resolved(at, id, payload),
        ("resolved", other) => {
            let problem = format!("must be an object, found {}", json_kind(other));
            Err(payload_error(at, problem))
        }
        (other, _) => Err(error(
            &format!("resume[{at}].status"),
            format!("must be `resolved` or `cancelled`, found `{other}`"),
            "a refusal is `resolved` with the payload {\"approved\": false}",
        )),
    }
}

/// Every key counts: an edit that is not understood must not let the original call run.
fn resolved(at: usize, id: &str, payload: &Map<String, Value>) -> Result<ApprovalAnswer, AgUiInputError> {
    let wrong = |key: &str, value: &Value, wanted: &str| {
        payload_error(
            at,
            format!("must have {wanted} in `{key}`, found {}", json_kind(value)),
        )
    };
    let (mut approved, mut terminate, mut edited) = (None, false, None);
    let mut answer = ApprovalAnswer::new(id, Resolution::Reject);
    for (key, value) in payload {
        match (key.as_str(), value) {
            ("approved", Value::Bool(value)) => approved = Some(*value),
            ("editedArgs" | "reason" | "scope" | "terminate", Value::Null) => {}
            ("editedArgs", Value::Object(_)) => edited = Some(value.clone()),
            ("editedArgs", _) => return Err(wrong(key, value, "an object")),
            ("reason", Value::String(reason)) => answer.reason = Some(reason.clone()),
            ("reason", _) => return Err(wrong(key, value, "a text")),
            ("terminate", Value::Bool(value)) => terminate = *value,
            ("approved" | "terminate", _) => return Err(wrong(key, value, "a boolean")),
            ("scope", value) => match ApprovalScope::from(value.as_str().unwrap_or_default().to_owned()) {
                ApprovalScope::Other(_) => return Err(wrong(key, value, "`once`, `session` or `always`")),
                scope => answer.scope = scope,
            },
            _ => return Err(payload_error(at, format!("has the unknown key `{key}`"))),
        }
    }
    answer.decision = match (approved, terminate, edited) {
        (None, _, _) => return Err(payload_error(at, "must have `approved`".to_owned())),
        (Some(true), true, _) => {
            let problem = "has both `approved: true` and `terminate: true`".to_owned();
            return Err(payload_error(at, problem));
        }
        (Some(false), true, _) => Resolution::Terminate,
        (Some(false), false, _) => Resolution::Reject,
        (Some(true), false, Some(args)) => Resolution::Modify(args),
        (Some(true), false, None) => Resolution::Approve,
    };
    Ok(answer)
}

fn user_message(at: usize, message: &AgUiMessage) -> Result<AgUiUserMessage, AgUiInputError> {
    let place = format!("messages[{at}].content");
    let (text, others) = text_of(&message.content);
    if !others.is_empty() {
        let problem = format!("has parts that are not text: {}", others.join(", "));
        return Err(error(&place, problem, "send text only"));
    }
    if text.trim().is_empty() {
        return Err(error(&place, "is empty".to_owned(), "send the user's text"));
    }
    Ok(AgUiUserMessage {
        id: message.id.clone(),
        text,
    })
}

/// The messages in the form that sessions open from. What nested agents wrote belongs to the call that started them.
fn history(messages: &[AgUiMessage], warnings: &mut Vec<String>) -> Vec<HistoryItem> {
    let mut items = Vec::new();
    let mut names = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        if message.subagent_run_id.is_some() {
            continue;
        }
        let (text, others) = if is_of_conversation(message) {
            text_of(&message.content)
        } else {
            Default::default()
        };
        if !others.is_empty() {
            let others = others.join(", ");
            warnings.push(format!(
                "parts of `messages[{at}].content` are left out: {others}"
            ));
        }
        match message.role.as_str() {
            "user" if !text.is_empty() => items.push(HistoryItem::user(text)),
            "assistant" => {
                if !text.is_empty() {
                    items.push(HistoryItem::assistant(text));
                }
                for call in &message.tool_calls {
                    names.insert(call.id.as_str(), call.function.name.as_str());
                    items.push(HistoryItem::Call(tool_call(call)));
                }
            }
            "tool" => {
                let id = message.tool_call_id.as_str();
                items.push(HistoryItem::Result(ToolResult {
                    call_id: id.to_owned(),
                    name: names.get(id).copied().unwrap_or_default().to_owned(),
                    result: text,
                    is_error: message.error.is_some(),
                    duration_ms: None,
                    details: CallDetails::default(),
                }));
            }
            "user" | "reasoning" | "activity" => {}
            role => warnings.push(format!(
                "`messages[{at}]` is left out: the agent has its own instructions, and none of role `{role}`"
            )),
        }
    }
    Opening::after(items).whole_history()
}

fn tool_call(call: &AgUiToolCall) -> ToolCall {
    let written = call.function.arguments.as_str();
    let arguments = match written.trim() {
        "" => Value::Object(Map::new()),
        // What is no JSON is what the model wrote.
        json => serde_json::from_str(json).unwrap_or_else(|_| Value::String(written.to_owned())),
    };
    ToolCall {
        name: call.function.name.clone(),
        arguments,
        call_id: call.id.clone(),
        provider_fields: None,
    }
}

fn is_of_conversation(message: &AgUiMessage) -> bool {
    matches!(message.role.as_str(), "user" | "assistant" | "tool")
}

/// The text, and the types of the parts that are something else.
fn text_of(content: &Value) -> (String, Vec<&str>) {
    match content {
        Value::String(text) => (text.clone(), Vec::new()),
        Value::Array(parts) => {
            let mut texts = Vec::new();
            let mut others = Vec::new();
            for part in parts {
                let kind = part.get("type").and_then(Value::as_str);
                match (kind, part.get("text").and_then(Value::as_str)) {
                    (Some("text"), Some(text)) => texts.push(text),
                    (kind, _) => others.push(kind.unwrap_or("unknown")),
                }
            }
            (texts.join("\n"), others)
        }
        Value::Null => Default::default(),
        other => (String::new(), vec![json_kind(other)]),
    }
}

fn name_of(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or("?")
}

fn payload_error(at: usize, problem: String) -> AgUiInputError {
    error(
        &format!("resume[{at}].payload"),
        problem,
        "send {\"approved\": true} or {\"approved\": false}, optionally with `editedArgs`, `reason`, `scope` or \
         `terminate`",
    )
}

fn error(place: &str, problem: String, hint: &str) -> AgUiInputError {
    AgUiInputError {
        place: place.to_owned(),
        problem,
        hint: hint.to_owned(),
    }
}

/// Older clients send null for what they do not have.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
