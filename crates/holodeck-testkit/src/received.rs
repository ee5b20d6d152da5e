//! Requests as a scripted server received them, and their violations.

use std::fmt;

use serde_json::Value;

/// A request, as received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, a form as an object of texts; `Null` when it is neither JSON nor a form.
    pub body: Value,
    /// Number of earlier requests.
    pub index: usize,
}

impl ReceivedRequest {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The path without the query.
    pub fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The conversation in the request.
    pub fn messages(&self) -> &[Value] {
        self.body
            .get("messages")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The text of each message of `role`, in order.
    pub fn texts(&self, role: &str) -> Vec<&str> {
        let own = self.messages().iter().filter(|message| message["role"] == role);
        own.filter_map(|message| message["content"].as_str()).collect()
    }

    /// The user and assistant texts, in order.
    pub fn conversation_texts(&self) -> Vec<&str> {
        let roles = [Value::from("user"), Value::from("assistant")];
        let own = self
            .messages()
            .iter()
            .filter(|message| roles.contains(&message["role"]));
        own.filter_map(|message| message["content"].as_str()).collect()
    }
}

/// A server's requests and violations.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// All requests, in order.
    pub requests: Vec<ReceivedRequest>,
    /// Violations.
    pub violations: Vec<String>,
}

impl Received {
    /// Panics if there are violations.
    pub fn assert(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the scripted server got requests it can't accept:")?;
        for violation in &self.violations {
            writeln!(f, "- {violation}")?;
        }
        Ok(())
    }
}
