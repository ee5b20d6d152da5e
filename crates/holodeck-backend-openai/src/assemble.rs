//! Assembles the chunks of a streamed answer into text, tool calls, usage and the reason for its end.
//!
//! An answer without a finish reason is incomplete and must be an error.

use std::borrow::Cow;

use holodeck_backend_api::{BackendError, ModelDelta, StopReason, ToolCall};
use serde_json::{Map, Value};

use crate::{
    driver::parse_lenient,
    failure,
    number_odds::Tokens,
    wire::{CallFragment, Chunk, Message, Usage},
};

/// Assembles the chunks of one answer: text is passed on at once; tool calls, usage and the end follow when the stream
/// is over.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    calls: Vec<PartialCall>,
    refused: bool,
    tokens: Tokens,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Assembler {
    /// Adds a chunk and appends the resulting deltas to `deltas`.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, deltas: &mut impl Extend<ModelDelta>) {
        // Some servers repeat these in each chunk, some send them empty in the first.
        update(&mut self.id, chunk.id);
        update(&mut self.model, chunk.model);
        if chunk.usage.is_some() {
            self.usage = chunk.usage;
        }
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(message) = choice.delta.or(choice.message) {
                self.push_message(*message, deltas);
            }
            self.tokens.push(choice.logprobs);
            update(&mut self.finish_reason, choice.finish_reason);
        }
    }

    /// Adds an answer that arrived in one piece. It cannot be truncated, so it is complete even without a reason.
    pub(crate) fn push_whole(&mut self, whole: Chunk<'_>, deltas: &mut impl Extend<ModelDelta>) {
        self.push(whole, deltas);
        self.finish_reason.get_or_insert_with(|| "stop".to_owned());
    }

    /// Whether the finish reason has arrived; only usage may follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Returns the remaining deltas when the stream is over.
    pub(crate) fn finish(self) -> Result<Vec<ModelDelta>, BackendError> {
        let Some(reason) = self.finish_reason else {
            return Err(BackendError::ended_early());
        };
        if matches!(
            reason.as_str(),
            "error" | "abort" | "aborted" | "cancelled" | "canceled"
        ) {
            return Err(failure::of_answer(format!(
                "the endpoint did not complete its answer (finish_reason `{reason}`)"
            )));
        }
        let stop_reason = match stop_reason(reason) {
            _ if self.refused => StopReason::Refusal,
            // Many servers send `stop` although they call tools.
            StopReason::EndTurn if !self.calls.is_empty() => StopReason::ToolUse,
            StopReason::ToolUse if self.calls.is_empty() => {
                return Err(failure::of_answer(
                    "the endpoint reported tool calls but sent none".to_owned(),
                ));
            }
            other => other,
        };
        let mut deltas = Vec::with_capacity(self.calls.len() + 3);
        let odds = self.tokens.number_odds();
        if !odds.is_empty() {
            deltas.push(ModelDelta::NumberOdds(odds));
        }
        for call in self.calls {
            deltas.push(ModelDelta::ToolCall(call.into_call()?));
        }
        deltas.extend(self.usage.and_then(|usage| usage.tokens()).map(ModelDelta::Usage));
        deltas.push(ModelDelta::Finish {
            stop_reason,
            message_id: self.id,
            model: self.model,
            recorded: None,
        });
        Ok(deltas)
    }

    fn push_message(&mut self, message: Message<'_>, deltas: &mut impl Extend<ModelDelta>) {
        let reasoning = [
            message.reasoning_content.text,
            message.reasoning.text,
            message.content.reasoning,
        ];
        let reasoning = reasoning.into_iter().find(|text| !text.is_empty());
        deltas.extend(reasoning.map(|text| ModelDelta::Reasoning(text.into_owned())));
        let text = Some(message.content.text).filter(|text| !text.is_empty());
        self.tokens.push_text(text.as_deref());
        deltas.extend(text.map(|text| ModelDelta::Text(text.into_owned())));
        if let Some(refusal) = message.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            deltas.extend([ModelDelta::Refusal(refusal.into_owned())]);
        }
        for fragment in message.tool_calls.into_iter().flatten() {
            self.push_fragment(fragment);
        }
    }

    fn push_fragment(&mut self, fragment: CallFragment) {
        let id = fragment.id.unwrap_or_default();
        let function = fragment.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let call = self.call_of(fragment.index, &id, &name);
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers repeat the name in each fragment, some split it.
        if call.name != name {
            call.name.push_str(&name);
        }
        match function.arguments {
            Value::String(piece) => call.arguments.push_str(&piece),
            Value::Null => {}
            // The complete object.
            whole => call.arguments = whole.to_string(),
        }
    }

    /// The call of a fragment: found by index, or by id if the server omits the index or always sends 0.
    fn call_of(&mut self, index: Option<u64>, id: &str, name: &str) -> &mut PartialCall {
        let known = match index {
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        let known = known.filter(|&place| {
            let another = |call: &PartialCall| {
                !id.is_empty() && !call.id.is_empty() && call.id != id && !name.is_empty()
            };
            !self.calls.get(place).is_some_and(another)
        });
        let place = known.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index,
                ..PartialCall::default()
            });
            self.calls.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut self.calls[place]
    }
}

impl PartialCall {
    /// Converts to a call. Arguments that are not JSON stay a string; running the call then reports the error to the
    /// model.
    fn into_call(self) -> Result<ToolCall, BackendError> {
        if self.name.is_empty() {
            return Err(BackendError::protocol(
                "the model called a tool without a name".to_owned(),
            ));
        }
        let arguments = if self.arguments.trim().is_empty() {
            Value::Object(Map::new())
        } else {
            parse_lenient(self.arguments.as_bytes()).unwrap_or(Value::String(self.arguments))
        };
        Ok(ToolCall {
            name: self.name,
            arguments,
            call_id: self.id,
        })
    }
}

fn stop_reason(text: String) -> StopReason {
    match text.as_str() {
        "stop" => StopReason::EndTurn,
        "length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other(text),
    }
}

/// Replaces the value unless the new one is empty.
fn update(old: &mut Option<String>, new: Option<Cow<'_, str>>) {
    if let Some(new) = new.filter(|text| !text.is_empty())
        && old.as_deref() != Some(&*new)
    {
        *old = Some(new.into_owned());
    }
}

#[cfg(test)]
mod tests;
