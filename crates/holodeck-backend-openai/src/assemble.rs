//! Assembles the chunks of a streamed answer into text, tool calls, usage and the reason for its end.
//!
//! The meaning of a stop reason is decided in `holodeck-model`. A stream without a reason is complete only if the server
//! marked its end.

use std::borrow::Cow;

use holodeck_backend_api::{BackendError, ModelDelta, StopFamily, StopReason};

use holodeck_model::ReasoningInContent;
use serde_json::{Map, Value, json};

use self::{
    calls::Calls,
    choices::Choices,
    reasoning_tags::{Part, ReasoningTags},
};
use crate::{
    dialect::echo,
    failure,
    json::halves::{self, Joiner},
    number_odds::Tokens,
    wire::{CallFragment, Chunk, Message, Object, Reason, Usage},
};
pub(crate) use reasoning_tags::Tags;

mod calls;
mod choices;
mod completeness;
mod reasoning_tags;

/// Assembles the chunks of one answer: text is passed on at once; tool calls, usage and the end follow when the stream
/// is over.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    reason: Option<StopReason>,
    calls: Calls,
    choices: Choices,
    /// Finds the reasoning in the content; `None` if the content is the answer.
    tags: Option<ReasoningTags>,
    /// Fields of the message that may have to go back to the server.
    fields: Map<String, Value>,
    refused: bool,
    has_text: bool,
    /// The server said that nothing follows.
    is_done: bool,
    /// The last data was no part of an answer.
    ends_with_noise: bool,
    is_whole: bool,
    tokens: Tokens,
    halves: Halves,
}

/// The halves of letters at the ends of the pieces.
#[derive(Debug, Default)]
struct Halves {
    text: Joiner,
    reasoning: Joiner,
    refusal: Joiner,
}

impl Assembler {
    /// An assembler of a stream. With `holds_text`, text is passed on only when it cannot turn out to be reasoning; see
    /// [`ReasoningTags::new`] for the tags.
    pub(crate) fn new(reasoning: ReasoningInContent, holds_text: bool, tags: Tags) -> Self {
        Self {
            tags: match reasoning {
                ReasoningInContent::Auto => Some(ReasoningTags::new(holds_text, tags)),
                ReasoningInContent::Keep => None,
            },
            ..Self::default()
        }
    }

    /// Whether the content contained the end of reasoning without its beginning.
    pub(crate) fn has_lone_close(&self) -> bool {
        self.tags.as_ref().is_some_and(ReasoningTags::has_lone_close)
    }

    /// Adds a chunk and appends the resulting deltas to `deltas`.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, deltas: &mut impl Extend<ModelDelta>) {
        self.ends_with_noise = false;
        // Some servers repeat these in each chunk, some send them empty in the first.
        update(&mut self.id, chunk.id);
        update(&mut self.model, chunk.model);
        let timings = chunk.timings.filter(|_| self.usage.is_none());
        let usage = chunk.usage.or(chunk.x_groq.and_then(|nested| nested.usage));
        self.update_usage(usage.or(timings.map(|timings| timings.usage())));
        let choices = chunk.choices.into_iter().flatten();
        for Object(mut choice) in choices {
            self.update_usage(choice.usage.take());
            if let Some(message) = self.choices.message_of(&mut choice) {
                self.push_message(*message, deltas);
            }
            self.tokens.push(choice.logprobs);
            self.update_reason(choice.finish_reason);
        }
    }

    /// Adds an answer that arrived in one piece. It cannot be cut by the connection, so it is complete even without a
    /// reason.
    pub(crate) fn push_whole(&mut self, whole: Chunk<'_>, deltas: &mut impl Extend<ModelDelta>) {
        self.is_whole = true;
        self.push(whole, deltas);
    }

    /// Whether the finish reason has arrived; only usage may follow.
    pub(crate) fn is_finished(&self) -> bool {
        let family = self.reason.as_ref().map(StopReason::family);
        family.is_some_and(|family| family != StopFamily::Unknown)
    }

    /// Notes data that is no part of an answer.
    pub(crate) fn push_noise(&mut self) {
        self.ends_with_noise = true;
    }

    /// The server said that nothing follows. That is no end of the answer if the last data was no part of it, which may be the
    /// reason why nothing follows.
    pub(crate) fn mark_done(&mut self) {
        self.is_done = !self.ends_with_noise;
    }

    /// Keeps counts. Some servers end with zeros, which do not replace them.
    fn update_usage(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage
            && (usage.counts_something() || self.usage.is_none())
        {
            self.usage = Some(usage);
        }
    }

    /// Keeps a reason. A later one counts, but does not make a cut or failed answer a complete one.
    fn update_reason(&mut self, reason: Option<Reason>) {
        // Some servers write a word for none after the reason.
        let is_known = self.reason.is_some();
        let reason = reason.filter(|Reason(word)| !is_known || !matches!(word.as_str(), "" | "null"));
        let Some(reason) = reason.map(|Reason(word)| stop_reason(word)) else {
            return;
        };
        let ends_well = |reason: &StopReason| {
            matches!(
                reason.family(),
                StopFamily::End | StopFamily::Calls | StopFamily::Unknown
            )
        };
        if self.reason.as_ref().is_none_or(ends_well) {
            self.reason = Some(reason);
        }
    }

    /// Returns the remaining deltas when the stream is over.
    pub(crate) fn finish(mut self) -> Result<Vec<ModelDelta>, BackendError> {
        let mut rest = Vec::new();
        self.finish_halves(&mut rest);
        let mut parts = Vec::new();
        if let Some(tags) = &mut self.tags {
            tags.finish(&mut parts);
        }
        self.choices.check()?;
        let has_content = self.has_text || self.refused || !self.calls.is_empty();
        let reason = match self.reason {
            Some(reason) => reason,
            None if self.is_whole || (self.is_done && has_content) => StopReason::not_reported(),
            None => return Err(BackendError::ended_early()),
        };
        let family = reason.family();
        if family == StopFamily::Failure {
            return Err(failure::of_answer(
                format!("the endpoint did not complete its answer (finish_reason `{reason}`)"),
                failure::SERVER_FAILED,
            ));
        }
        if matches!(family, StopFamily::Truncated | StopFamily::Unknown) && self.calls.has_cut() {
            return Err(failure::of_answer(
                format!("the answer ended before the arguments of a call (finish_reason `{reason}`)"),
                failure::CUT_HINT,
            ));
        }
        let mut calls = self.calls.finish()?;
        echo::attach(&mut calls, self.fields);
        let stop_reason = match family {
            _ if self.refused => StopReason::Refusal,
            // Many servers send `stop` although they call tools.
            StopFamily::End if !calls.is_empty() => StopReason::ToolUse,
            StopFamily::Calls if calls.is_empty() => {
                return Err(failure::of_answer(
                    "the endpoint reported tool calls but sent none",
                    failure::CALLS_HINT,
                ));
            }
            _ => reason,
        };
        let mut deltas = rest;
        deltas.reserve(parts.len() + calls.len() + 3);
        deltas.extend(parts.into_iter().map(delta_of));
        let odds = self.tokens.number_odds();
        if !odds.is_empty() {
            deltas.push(ModelDelta::NumberOdds(odds));
        }
        deltas.extend(calls.into_iter().map(ModelDelta::ToolCall));
        // An answer with content has tokens.
        let usage = self.usage.and_then(|usage| usage.tokens());
        let usage = usage.filter(|tokens| tokens.completion_tokens > 0 || !has_content);
        deltas.extend(usage.map(ModelDelta::Usage));
        deltas.push(ModelDelta::Finish {
            stop_reason,
            message_id: self.id,
            model: self.model,
            recorded: None,
        });
        Ok(deltas)
    }

    /// Keeps what the server sent beside the answer.
    fn keep_fields(&mut self, message: &mut Message<'_>) {
        let mut fields = std::mem::take(&mut message.others);
        let reasoning = [
            ("reasoning_content", &message.reasoning_content),
            ("reasoning", &message.reasoning),
        ];
        for (name, content) in reasoning {
            if let Some(content) = content {
                fields.insert(name.to_owned(), Value::from(content.text.as_ref()));
            }
        }
        // A later piece may be text alone.
        let continues = self.fields.contains_key("content") && !message.content.text.is_empty();
        if !message.content.parts.is_empty() {
            fields.insert(
                "content".to_owned(),
                Value::from(std::mem::take(&mut message.content.parts)),
            );
        } else if continues {
            let part = json!({"type": "text", "text": message.content.text});
            fields.insert("content".to_owned(), json!([part]));
        }
        if !fields.is_empty() {
            echo::merge_fields(&mut self.fields, fields);
        }
    }

    fn push_text(&mut self, text: &str, deltas: &mut impl Extend<ModelDelta>) {
        match &mut self.tags {
            _ if text.is_empty() => {}
            Some(tags) => {
                let mut parts = Vec::new();
                tags.push(text, &mut parts);
                deltas.extend(parts.into_iter().map(delta_of));
            }
            None => deltas.extend([ModelDelta::Text(text.to_owned())]),
        }
    }

    /// Passes on what no other half followed.
    fn finish_halves(&mut self, deltas: &mut impl Extend<ModelDelta>) {
        deltas.extend(self.halves.reasoning.finish().map(ModelDelta::Reasoning));
        deltas.extend(self.halves.refusal.finish().map(ModelDelta::Refusal));
        if let Some(text) = self.halves.text.finish() {
            self.push_text(&text, deltas);
        }
        halves::join_fields(&mut self.fields);
    }

    fn push_message(&mut self, mut message: Message<'_>, deltas: &mut impl Extend<ModelDelta>) {
        self.keep_fields(&mut message);
        let reasoning = [
            message
                .reasoning_content
                .map(|content| content.text)
                .unwrap_or_default(),
            message.reasoning.map(|content| content.text).unwrap_or_default(),
            message.content.reasoning,
        ];
        let reasoning = reasoning.into_iter().find(|text| !text.is_empty());
        if let Some(text) = reasoning {
            let text = self.halves.reasoning.push(text);
            deltas.extend([ModelDelta::Reasoning(text.into_owned())]);
        }
        let text = Some(message.content.text).filter(|text| !text.is_empty());
        self.tokens.push_text(text.as_deref());
        self.has_text |= text.is_some();
        if let Some(text) = text {
            let text = self.halves.text.push(text);
            self.push_text(&text, deltas);
        }
        let refusals = [message.refusal.unwrap_or_default(), message.content.refusal];
        if let Some(refusal) = refusals.into_iter().find(|text| !text.is_empty()) {
            self.refused = true;
            let refusal = self.halves.refusal.push(refusal);
            deltas.extend([ModelDelta::Refusal(refusal.into_owned())]);
        }
        // Some servers send a call in both forms.
        let functions = message.tool_calls.iter().map(|call| &call.function);
        let is_repeated = functions
            .clone()
            .any(|function| *function == message.function_call);
        let older = message.function_call.filter(|_| !is_repeated);
        let calls = message.tool_calls.into_iter();
        let calls = calls.chain(older.map(CallFragment::of_function));
        if self.is_whole {
            self.calls.push_whole(calls);
        } else {
            self.calls.push_chunk(calls);
        }
    }
}

fn delta_of(part: Part) -> ModelDelta {
    match part {
        Part::Reasoning(text) => ModelDelta::Reasoning(text),
        Part::Text(text) => ModelDelta::Text(text),
        Part::TextWasReasoning => ModelDelta::TextWasReasoning,
    }
}

/// OpenAI's own words become those of the events; the words of other providers stay.
fn stop_reason(word: String) -> StopReason {
    match word.as_str() {
        "stop" => StopReason::EndTurn,
        "length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::from(word),
    }
}

/// Replaces the value unless the new one is empty.
fn update(old: &mut Option<String>, new: Option<Cow<'_, str>>) {
    if let Some(new) = new.filter(|text| !text.is_empty()) {
        let new = halves::join(&new);
        if old.as_deref() != Some(&*new) {
            *old = Some(new.into_owned());
        }
    }
}

#[cfg(test)]
mod same_answer;
#[cfg(test)]
mod tests;
