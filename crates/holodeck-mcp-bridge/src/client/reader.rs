//! Reads the messages of a server over any transport, mends them and reports each fault once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holodeck_model::{cut_deep_json, long_integers, mend_json};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use serde_json::{Value, json};

use crate::client::mend::{Asked, Faults, mend, no_result};

/// Faults that were reported to a person.
pub(crate) type Reported = Arc<Mutex<HashSet<String>>>;

/// Removes secrets from a text of a server.
pub(crate) type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How a text came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A line of a program's output, which may also be one of its log.
    Line,
    /// A message of its own.
    Message,
    /// The body of a refusal, which need not be one.
    Refusal,
}

/// The reader of one connection.
#[derive(Clone)]
pub(crate) struct Reader {
    server: Arc<str>,
    reported: Reported,
    mask: Mask,
    /// The requests without an answer.
    asked: Arc<Mutex<HashMap<RequestId, Asked>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    pub(crate) fn new(server: &str, reported: Reported, mask: Mask) -> Self {
        Self {
            server: server.into(),
            reported,
            mask,
            asked: Arc::default(),
        }
    }

    /// Remembers a request, whose answer will be read as one, until it is answered or withdrawn.
    pub(crate) fn note(&self, message: &ClientJsonRpcMessage) {
        if let JsonRpcMessage::Notification(notification) = message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
        {
            let id = &cancelled.params.request_id;
            lock(&self.asked).retain(|asked, _| id.as_ref() != Some(asked));
        }
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        let asked = match request.request {
            ClientRequest::InitializeRequest(_) => Asked::Initialize,
            ClientRequest::ListToolsRequest(_) => Asked::Tools,
            ClientRequest::ListPromptsRequest(_) => Asked::Prompts,
            ClientRequest::CallToolRequest(_) => Asked::Call,
            ClientRequest::GetPromptRequest(_) => Asked::Prompt,
            _ => Asked::Other,
        };
        lock(&self.asked).insert(request.id.clone(), asked);
    }

    /// The messages of a text, each as JSON that can be read; none if it has none. A text with several is a list of them. `to` is the
    /// request that it answers, if that is known.
    pub(crate) fn texts(&self, text: &[u8], frame: Frame, to: Option<&RequestId>) -> Vec<String> {
        let messages = self.values(text, frame, None, to).into_iter();
        messages.map(|message| message.to_string()).collect()
    }

    /// The messages of a frame.
    pub(crate) fn messages(&self, text: &[u8]) -> Vec<ServerJsonRpcMessage> {
        let messages = self.values(text, Frame::Message, None, None).into_iter();
        messages
            .filter_map(|message| serde_json::from_value(message).ok())
            .collect()
    }

    /// The answer to a request that is the whole body of a response, whatever its id says.
    pub(crate) fn answer(
        &self,
        body: &[u8],
        frame: Frame,
        to: Option<&RequestId>,
    ) -> Option<ServerJsonRpcMessage> {
        let mut values = self.values(body, frame, to, to);
        let id = to.and_then(|id| serde_json::to_value(id).ok());
        let own = values
            .iter()
            .position(|value| value.get("method").is_none() && value.get("id") == id.as_ref());
        let place = own.unwrap_or_default();
        (place < values.len())
            .then(|| values.swap_remove(place))
            .and_then(|value| serde_json::from_value(value).ok())
    }

    /// How a text begins, without secrets.
    pub(crate) fn excerpt(&self, text: &[u8]) -> String {
        const SHOWN: usize = 120;
        // Masked before it is cut, since a part of a secret is not found.
        let start = String::from_utf8_lossy(text.get(..MASKED).unwrap_or(text));
        let start: String = (self.mask)(&start).chars().take(SHOWN).collect();
        start.trim().escape_debug().to_string()
    }

    /// The errors of the requests whose answer was lost.
    pub(crate) fn lost(&self, reason: &str) -> Vec<String> {
        let asked: Vec<RequestId> = lock(&self.asked).keys().cloned().collect();
        let errors = asked.iter().filter_map(|id| self.error(id, reason));
        errors.map(|error| error.to_string()).collect()
    }

    fn values(
        &self,
        text: &[u8],
        frame: Frame,
        only: Option<&RequestId>,
        to: Option<&RequestId>,
    ) -> Vec<Value> {
        let messages = match parse(text) {
            Some(Value::Array(messages)) => messages,
            Some(message @ Value::Object(_)) => vec![message],
            Some(_) => return Vec::new(),
            None => return self.unreadable(text, frame, to),
        };
        let is_alone = messages.len() == 1;
        let messages = messages.into_iter().filter(Value::is_object);
        messages
            .map(|mut message| {
                let own = self.only_asked(&message);
                if let Some(id) = only
                    .filter(|_| is_alone && message.get("method").is_none_or(Value::is_null))
                    .or(own.as_ref())
                    && let (Some(fields), Ok(id)) = (message.as_object_mut(), serde_json::to_value(id))
                {
                    fields.insert("id".to_owned(), id);
                }
                self.mended(message)
            })
            .collect()
    }

    /// The request that an answer without an id belongs to, if only one waits.
    fn only_asked(&self, message: &Value) -> Option<RequestId> {
        let is_set = |field: &str| message.get(field).is_some_and(|value| !value.is_null());
        if is_set("id") || is_set("method") || !(is_set("result") || is_set("error")) {
            return None;
        }
        let asked = lock(&self.asked);
        let mut asked = asked.keys();
        asked.next().filter(|_| asked.len() == 0).cloned()
    }

    /// The errors of the requests that a text without JSON may answer: without them, they would wait until their limit.
    fn unreadable(&self, text: &[u8], frame: Frame, to: Option<&RequestId>) -> Vec<Value> {
        let start = String::from_utf8_lossy(text.get(..MASKED).unwrap_or(text));
        let start = start.trim_start_matches('\u{feff}').trim_start();
        if !may_answer(start, frame) {
            return Vec::new();
        }
        let reason = format!(
            "the MCP server `{}` sent something that is no JSON, which begins with `{}`; its log may say why",
            self.server,
            self.excerpt(text)
        );
        if is_of_server(start) {
            self.report(&reason);
            return Vec::new();
        }
        let asked: Vec<RequestId> = if let Some(to) = to {
            vec![to.clone()]
        } else {
            let asked = lock(&self.asked);
            let named = asked.keys().filter_map(|id| Some((place_of(id, start)?, id)));
            let named = named.min_by_key(|(place, _)| *place).map(|(_, id)| id.clone());
            named.map_or_else(|| asked.keys().cloned().collect(), |id| vec![id])
        };
        if asked.is_empty() {
            self.report(&reason);
        }
        asked.iter().filter_map(|id| self.error(id, &reason)).collect()
    }

    /// The error in place of the answer to a request.
    fn error(&self, id: &RequestId, reason: &str) -> Option<Value> {
        lock(&self.asked).remove(id);
        let id = serde_json::to_value(id).ok()?;
        Some(json!({ "jsonrpc": "2.0", "id": id, "error": no_result(reason) }))
    }

    fn mended(&self, mut message: Value) -> Value {
        let mut faults = Faults::new();
        let take = |id: &Value| -> Option<Asked> {
            let id = serde_json::from_value::<RequestId>(id.clone()).ok()?;
            lock(&self.asked).remove(&id)
        };
        mend(&mut message, take, &mut faults);
        for fault in faults {
            self.report(&fault);
        }
        let is_answer = message.get("method").is_none() && message.get("id").is_some();
        if is_answer && let Some(id) = message.get("id") {
            // Also where the answer is an error.
            let _ = take(id);
        }
        if is_answer
            && let Err(error) = serde_json::from_value::<ServerJsonRpcMessage>(message.clone())
            && let Some(fields) = message.as_object_mut()
        {
            // The request must not wait until its limit.
            fields.retain(|field, _| matches!(field.as_str(), "jsonrpc" | "id"));
            fields.insert("error".to_owned(), no_result(&error.to_string()));
        }
        message
    }

    fn report(&self, fault: &str) {
        let text = format!("{}: {fault}", self.server);
        if lock(&self.reported).insert(text) {
            tracing::warn!(
                server = &*self.server,
                "an answer of an MCP server has a fault: {fault}"
            );
        }
    }
}

/// The first bytes of a text in which secrets and the names of fields are looked for.
const MASKED: usize = 4096;

/// Whether a text that is no JSON may be an answer: a line of a log is none.
fn may_answer(text: &str, frame: Frame) -> bool {
    let is_json = text.starts_with(['{', '[']);
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    match frame {
        Frame::Refusal => false,
        Frame::Message => is_json,
        Frame::Line => {
            let is_message = has("jsonrpc") || (has("id") && (has("result") || has("error")));
            let is_json = text.starts_with('{') || is_list(text);
            // An answer on several lines.
            (is_json && is_message) || text.starts_with("\"jsonrpc\"")
        }
    }
}

/// Whether a text begins as a list of messages.
fn is_list(text: &str) -> bool {
    text.strip_prefix('[')
        .is_some_and(|rest| rest.trim_start().starts_with('{'))
}

/// Whether a text that is no JSON is a request or a notification of the server.
fn is_of_server(text: &str) -> bool {
    let place = |name: &str| text.find(&format!("\"{name}\"")).unwrap_or(usize::MAX);
    place("method") < place("result").min(place("error"))
}

/// The place where a text has this id.
fn place_of(id: &RequestId, text: &str) -> Option<usize> {
    let id = serde_json::to_string(id).ok()?;
    let fields = text.match_indices("\"id\"").filter_map(|(place, name)| {
        let value = text.get(place + name.len()..)?.trim_start().strip_prefix(':')?;
        let rest = value.trim_start().strip_prefix(&*id)?;
        (!rest.starts_with(|c: char| c.is_ascii_digit())).then_some(place)
    });
    fields.min()
}

/// The JSON of a text. A part that no parser takes, such as a schema with very many levels, is cut and not the whole text.
fn parse(text: &[u8]) -> Option<Value> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut value = parse_rounded(text)?;
    // Only what becomes text keeps its digits: a schema needs numbers.
    if value.get("result").is_some()
        && let Some(wrapped) = std::str::from_utf8(text).ok().and_then(long_integers::wrap)
        && let Some(mut exact) = parse_rounded(wrapped.as_bytes())
        && let (Some(result), Some(exact)) = (value.get_mut("result"), exact.get_mut("result"))
    {
        for (name, spells) in [("structuredContent", false), ("content", true)] {
            if let (Some(rounded), Some(exact)) = (result.get_mut(name), exact.get_mut(name)) {
                *rounded = exact.take();
                if spells {
                    long_integers::spell(rounded);
                }
            }
        }
    }
    Some(value)
}

/// The same, with integers that a value cannot hold as floating-point numbers.
fn parse_rounded(text: &[u8]) -> Option<Value> {
    let read = |text: &str| serde_json::from_str(text).ok();
    let as_sent = serde_json::from_slice(text).ok();
    as_sent
        .or_else(|| read(&mend_json(text)?))
        .or_else(|| read(&cut_deep_json(std::str::from_utf8(text).ok()?)?))
        .or_else(|| read(&cut_deep_json(&mend_json(text)?)?))
}
