//! Lists which parts of a turn were masked before it was stored, so that checks of masked text can be refused.

use holodeck_model::{Redactor, without_digests, without_digests_in};
use serde::{Deserialize, Serialize};

use crate::ExecutionResult;

/// Which parts of a turn were masked before they were stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "recordings and records construct it with `..Default::default()`"
)]
pub struct Redactions {
    /// The message of the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// The answer's text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer: bool,
    /// The answer as an object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub object: bool,
    /// The ids of calls with masked arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The ids of calls with a masked result or passage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
}

impl Redactions {
    /// The parts of `result` that `redactor` would mask.
    pub fn of(result: &ExecutionResult, redactor: &Redactor) -> Self {
        let hides_text = |text: &str| redactor.mask_text(&mut text.to_owned());
        let hides = |value: &serde_json::Value| redactor.mask_value(&mut value.clone());
        let calls = result.tool_calls.iter().filter(|call| hides(&call.arguments));
        let results = result.tool_results.iter().filter(|result| {
            let mut details = result.details.clone();
            hides_text(&result.result) || details.texts_mut().any(|text| redactor.mask_text(text))
        });
        Self {
            input: false,
            answer: hides_text(&result.response),
            object: result.structured_output.as_ref().is_some_and(hides),
            arguments: calls.map(|call| call.call_id.clone()).collect(),
            results: results.map(|result| result.call_id.clone()).collect(),
        }
    }

    /// Whether nothing was masked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether masking could change the outcome of checks.
    pub fn affects_checks(&self) -> bool {
        self.answer || self.object || !self.arguments.is_empty()
    }

    /// Whether a result of `result` with passages is listed.
    pub fn hides_passages(&self, result: &ExecutionResult) -> bool {
        let mut results = result.tool_results.iter();
        results.any(|result| !result.details.passages.is_empty() && self.results.contains(&result.call_id))
    }

    /// Adds the parts that `other` lists.
    pub fn add(&mut self, other: Self) {
        self.input |= other.input;
        self.answer |= other.answer;
        self.object |= other.object;
        for (all, more) in [
            (&mut self.arguments, other.arguments),
            (&mut self.results, other.results),
        ] {
            for id in more {
                if !all.contains(&id) {
                    all.push(id);
                }
            }
        }
    }

    /// Adds the next model message of a replayed turn. Only the last message is the answer.
    pub fn add_message(&mut self, message: Self) {
        self.answer = false;
        self.object = false;
        self.add(message);
    }

    /// Completes the list from the `result` of a replayed turn and replaces masks with digests in it by plain masks, as
    /// stored for the recorded turn.
    pub fn complete(&mut self, result: &mut ExecutionResult) {
        let plain = |text: &mut String| {
            if let std::borrow::Cow::Owned(plain) = without_digests(text) {
                *text = plain;
            }
        };
        for answer in &mut result.tool_results {
            if std::mem::take(&mut answer.details.redacted) {
                self.results.push(answer.call_id.clone());
            }
            if self.results.contains(&answer.call_id) {
                plain(&mut answer.result);
                answer.details.texts_mut().for_each(plain);
            }
        }
        let masked = |call: &&mut crate::ToolCall| self.arguments.contains(&call.call_id);
        for call in result.tool_calls.iter_mut().filter(masked) {
            without_digests_in(&mut call.arguments);
        }
        if self.answer {
            plain(&mut result.response);
            // The object was parsed from the text.
            self.object |= result.structured_output.is_some();
        }
        if let Some(object) = result.structured_output.as_mut().filter(|_| self.object) {
            without_digests_in(object);
        }
        let thinking = result.thinking.as_mut();
        thinking.filter(|_| result.recorded_latency.is_some()).map(plain);
    }
}
