//! An error that may be the refusal of a part of a request.

use holodeck_backend_api::BackendError;
use holodeck_http::HttpError;
use serde_json::Value;

use crate::failure::{self, ErrorDetails};

/// An error of the server about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: u16,
    /// In lower case.
    pub(crate) text: String,
    /// The parameter that it names.
    pub(crate) param: Option<String>,
    /// It repeats its status at most.
    says_nothing: bool,
}

impl Refusal {
    /// The refusal in an answer with an error status.
    pub(crate) fn of_http(error: &HttpError) -> Option<Self> {
        let text = error.body()?;
        let details = ErrorDetails::of_body(text);
        Some(Self {
            status: error.status()?,
            says_nothing: says_nothing(details.message.as_deref().unwrap_or(text)),
            text: without_input(text).to_lowercase(),
            param: details.param.filter(|param| names_a_field(param)),
        })
    }

    /// The refusal in an answer that began with 200: only the words of an error that it reports count, never its beginning or
    /// an address.
    pub(crate) fn of_answer(error: &BackendError) -> Option<Self> {
        let BackendError::Provider {
            status,
            explanation,
            param,
            ..
        } = error
        else {
            return None;
        };
        let failure::Reported(words) = explanation.source.as_ref()?.downcast_ref()?;
        Some(Self {
            status: (*status)?,
            says_nothing: false,
            text: words.to_lowercase(),
            param: param.clone().filter(|param| names_a_field(param)),
        })
    }

    /// Whether the server may have refused a part that the error does not name.
    pub(crate) fn is_vague(&self) -> bool {
        matches!(self.status, 400 | 422 | 500 | 501) && !self.is_about_something_else()
    }

    /// Whether the error is about the length or the content of the request, the key, or a limit of requests.
    fn is_about_something_else(&self) -> bool {
        failure::is_about_length(&self.text)
            || failure::is_about_content(&self.text)
            || failure::is_about_policy(&self.text)
            || failure::is_about_key(&self.text)
            || failure::is_about_quota(&self.text)
    }

    /// The refusal without the texts of the conversation that it quotes, whole or cut: their words name no part.
    pub(crate) fn without_quotes(mut self, body: &Value) -> Self {
        let messages = body.get("messages").and_then(Value::as_array);
        let texts = messages
            .into_iter()
            .flatten()
            .filter_map(|message| message.get("content")?.as_str());
        for text in texts {
            let text = text.trim().to_lowercase();
            let escaped = Value::from(text.as_str()).to_string();
            for quoted in [text.as_str(), escaped.trim_matches('"')] {
                remove_quote(&mut self.text, quoted);
            }
        }
        self
    }

    /// Whether the error names, as its parameter, another field that was sent: not that of the part, and not the tools, which may
    /// be refused together with one.
    pub(crate) fn is_about_another_field(&self, body: &Value, own: &[&str]) -> bool {
        let root = self
            .param
            .as_deref()
            .and_then(|param| segments(param).find(|segment| !is_envelope(segment)));
        root.is_some_and(|root| {
            let is_sent = body.get(root).is_some() || ["model", "stream", "stream_options"].contains(&root);
            is_sent && !own.contains(&root) && !root.starts_with("tool")
        })
    }

    /// Whether the error names the id of a call as its parameter.
    pub(crate) fn names_an_id(&self) -> bool {
        let segments: Vec<&str> = self.param.as_deref().into_iter().flat_map(segments).collect();
        segments.contains(&"tool_call_id")
            || (segments.contains(&"tool_calls") && segments.last() == Some(&"id"))
    }

    /// Whether the status says that the request is wrong, and not that the server failed.
    pub(crate) fn is_about_the_request(&self) -> bool {
        matches!(self.status, 400 | 422)
    }

    /// Whether the error is about a field that the server does not know.
    pub(crate) fn is_about_unknown_fields(&self) -> bool {
        let words = [
            "unsupported",
            "not supported",
            "n't supported",
            "not support",
            "n't support",
            "unrecognized",
            "unrecognised",
            "not recognized",
            "unknown",
            "unexpected",
            "extra",
            "additional propert",
            "invalid field",
            "invalid param",
            "invalid argument",
            "not permitted",
            "not allowed",
            "n't allowed",
            "forbidden",
            "not accept",
            "n't accept",
            "deprecated",
        ];
        words.iter().any(|word| self.text.contains(word)) && !self.is_about_a_value()
    }

    /// Whether the error is about the value of a field that the server knows.
    fn is_about_a_value(&self) -> bool {
        let words = [
            "too large",
            "too high",
            "too big",
            "too many",
            "at most",
            "at least",
            "must be",
            "more than",
            "less than",
            "greater than",
            "maximum",
            "limit is",
            "limit of",
            "exceed",
            "out of range",
            "value",
            "between",
        ];
        // FastAPI's word for a field that it does not know.
        let text = self.text.replace("value_error.extra", "");
        words.iter().any(|word| text.contains(word))
    }

    /// Whether the text has the name of a field of the request.
    pub(crate) fn names_part_of(&self, body: &Value) -> bool {
        failure::named_parameter(self.status, &self.text, body).is_some()
    }

    /// Whether the request is refused without any reason.
    pub(crate) fn is_bare(&self) -> bool {
        self.says_nothing && self.param.is_none() && self.is_about_the_request()
    }

    /// Whether the status says that the server does not have what is asked for, such as a stream, and the error adds nothing.
    pub(crate) fn lacks_the_method(&self) -> bool {
        matches!(self.status, 405 | 501) && self.param.is_none() && self.says_nothing
    }

    /// Whether the server may have refused a part that the error names.
    pub(crate) fn may_name(&self) -> bool {
        matches!(self.status, 200 | 400 | 403 | 404 | 405 | 415 | 422 | 500 | 501)
            && !self.is_about_something_else()
    }

    /// Whether the error names streaming.
    pub(crate) fn names_streaming(&self) -> bool {
        let is_param = self.param.is_some();
        self.names("stream", &[]) || (!is_param && failure::refuses_streaming(self.status, &self.text))
    }

    /// Whether the error names this parameter or a part of it, or has one of the words.
    pub(crate) fn names(&self, param: &str, words: &[&str]) -> bool {
        if let Some(named) = &self.param {
            // A part of it, or its place in the body.
            return segments(named).any(|segment| segment == param);
        }
        words.iter().any(|word| self.text.contains(word))
    }
}

/// The names in the path of a field, such as `body.stream_options` or `$.tools[0]`.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .filter(|segment| !segment.is_empty())
}

/// Whether a path names more than the request as a whole.
fn names_a_field(path: &str) -> bool {
    segments(path).any(|segment| !is_envelope(segment))
}

/// Whether the first name of a path is one for the request as a whole.
fn is_envelope(segment: &str) -> bool {
    let whole = [
        "body", "request", "json", "input", "payload", "data", "null", "none",
    ];
    whole.contains(&segment.to_ascii_lowercase().as_str())
}

/// The body of an error without the refused values that FastAPI repeats beside their place.
fn without_input(text: &str) -> String {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if fields.contains_key("loc") {
                    fields.shift_remove("input");
                }
                fields.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    remove(&mut value);
    value.to_string()
}

/// The shortest text of a conversation that is recognised where an error quotes it.
const SHORTEST_QUOTE: usize = 16;

/// Removes a quoted text, or as much of its beginning as is there.
fn remove_quote(text: &mut String, quoted: &str) {
    let ends: Vec<usize> = quoted
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .filter(|end| *end >= SHORTEST_QUOTE)
        .collect();
    // A word alone may be the name of a part.
    if !quoted.contains(' ') {
        return;
    }
    let is_there = |end: &usize| quoted.get(..*end).is_some_and(|begin| text.contains(begin));
    let longest = ends.partition_point(is_there).checked_sub(1);
    let begin = longest
        .and_then(|at| ends.get(at))
        .and_then(|end| quoted.get(..*end));
    if let Some(begin) = begin {
        *text = text.replace(begin, " ");
    }
}

/// Whether an error has no words but those of its status.
fn says_nothing(message: &str) -> bool {
    let title = || {
        message
            .split_once("<title>")?
            .1
            .split_once("</title>")
            .map(|(title, _)| title)
    };
    let message = title().unwrap_or(message);
    let words = message.split(|c: char| !c.is_ascii_alphabetic());
    let known = [
        "http",
        "error",
        "status",
        "code",
        "bad",
        "invalid",
        "request",
        "method",
        "not",
        "allowed",
        "implemented",
        "unprocessable",
        "entity",
        "content",
        "detail",
        "message",
        "null",
        "",
    ];
    words
        .map(str::to_ascii_lowercase)
        .all(|word| known.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_only_repeats_its_status_says_nothing() {
        for bare in [
            "",
            "{}",
            "Bad Request",
            "422 Unprocessable Entity",
            "Not Implemented",
            "Method Not Allowed",
            "<html><head><title>405 Not Allowed</title></head><body>nginx</body></html>",
            "{\"error\":null}",
        ] {
            assert!(says_nothing(bare), "{bare}");
        }
        for named in [
            "grammar went wrong",
            "temperature",
            "<html><title>Sign in</title></html>",
        ] {
            assert!(!says_nothing(named), "{named}");
        }
    }
}
