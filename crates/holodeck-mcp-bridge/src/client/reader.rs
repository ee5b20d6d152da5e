//! Reads the messages of a server over any transport, mends them and reports each fault once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holodeck_model::{cut_deep_json, mend_json};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

use crate::client::mend::{Asked, Faults, mend, no_result};

/// Faults that were reported to a person.
pub(crate) type Reported = Arc<Mutex<HashSet<String>>>;

/// The reader of one connection.
#[derive(Clone)]
pub(crate) struct Reader {
    server: Arc<str>,
    reported: Reported,
    /// The requests without an answer.
    asked: Arc<Mutex<HashMap<RequestId, Asked>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    pub(crate) fn new(server: &str, reported: Reported) -> Self {
        Self {
            server: server.into(),
            reported,
            asked: Arc::default(),
        }
    }

    /// Remembers a request, whose answer will be read as one.
    pub(crate) fn note(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        let asked = match request.request {
            ClientRequest::InitializeRequest(_) => Asked::Initialize,
            ClientRequest::ListToolsRequest(_) => Asked::Tools,
            ClientRequest::ListPromptsRequest(_) => Asked::Prompts,
            ClientRequest::CallToolRequest(_) => Asked::Call,
            ClientRequest::GetPromptRequest(_) => Asked::Prompt,
            _ => return,
        };
        lock(&self.asked).insert(request.id.clone(), asked);
    }

    /// The messages of a text, each as JSON that can be read; none if it has none. A text with several is a list of them.
    pub(crate) fn texts(&self, text: &[u8]) -> Vec<String> {
        let messages = self.values(text, None).into_iter();
        messages.map(|message| message.to_string()).collect()
    }

    /// The messages of a text.
    pub(crate) fn messages(&self, text: &[u8]) -> Vec<ServerJsonRpcMessage> {
        let messages = self.values(text, None).into_iter();
        messages
            .filter_map(|message| serde_json::from_value(message).ok())
            .collect()
    }

    /// The answer to a request that is the whole body of a response, whatever its id says.
    pub(crate) fn answer(&self, body: &[u8], to: Option<&RequestId>) -> Option<ServerJsonRpcMessage> {
        let mut values = self.values(body, to);
        let id = to.and_then(|id| serde_json::to_value(id).ok());
        let own = values
            .iter()
            .position(|value| value.get("method").is_none() && value.get("id") == id.as_ref());
        let place = own.unwrap_or_default();
        (place < values.len())
            .then(|| values.swap_remove(place))
            .and_then(|value| serde_json::from_value(value).ok())
    }

    fn values(&self, text: &[u8], only: Option<&RequestId>) -> Vec<Value> {
        let messages = match parse(text) {
            Some(Value::Array(messages)) => messages,
            Some(message @ Value::Object(_)) => vec![message],
            Some(_) | None => return Vec::new(),
        };
        let is_alone = messages.len() == 1;
        let messages = messages.into_iter().filter(Value::is_object);
        messages
            .map(|mut message| {
                if let Some(id) =
                    only.filter(|_| is_alone && message.get("method").is_none_or(Value::is_null))
                    && let (Some(fields), Ok(id)) = (message.as_object_mut(), serde_json::to_value(id))
                {
                    fields.insert("id".to_owned(), id);
                }
                self.mended(message)
            })
            .collect()
    }

    fn mended(&self, mut message: Value) -> Value {
        let mut faults = Faults::new();
        let take = |id: &Value| {
            let id = serde_json::from_value::<RequestId>(id.clone()).ok()?;
            lock(&self.asked).remove(&id)
        };
        mend(&mut message, take, &mut faults);
        for fault in faults {
            self.report(&fault);
        }
        let is_answer = message.get("method").is_none() && message.get("id").is_some();
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

/// The JSON of a text. A part that no parser takes, such as a schema with very many levels, is cut and not the whole text.
fn parse(text: &[u8]) -> Option<Value> {
    let read = |text: &str| serde_json::from_str(text).ok();
    let as_sent = serde_json::from_slice(text).ok();
    as_sent
        .or_else(|| read(&mend_json(text)?))
        .or_else(|| read(&cut_deep_json(std::str::from_utf8(text).ok()?)?))
        .or_else(|| read(&cut_deep_json(&mend_json(text)?)?))
}
