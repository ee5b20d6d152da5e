use std::collections::VecDeque;

use holodeck_backend_api::{ApprovalAsk, BackendEvent, StopReason, ToolCall, ToolResult};
use holodeck_model::events::{AgentMessage, EventBody, Interruption, ReasoningBlock};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{
    Ignored,
    book::{Answerer, Book, CallState, Place},
};

mod writing;

use writing::{Block, Seal, Writing, chunk};

/// One agent of a run: the run's own, or one that a call started. Turns what it says into events, in an order that
/// holds whatever the order it comes in.
#[derive(Default)]
pub(crate) struct Lane {
    /// The call that started it; nothing for the run's own.
    agent: Option<String>,
    turn: u32,
    /// The model message being written.
    writing: Option<Writing>,
    /// Calls without a result. Until they have one, nothing else may be told.
    open: Vec<String>,
    /// What was said meanwhile.
    waiting: VecDeque<BackendEvent>,
    /// How the last message ended.
    last_stop: Option<StopReason>,
    /// What was told last is JSON, as an answer with a form is.
    told_json: bool,
}

/// How a run ends, for those of its agents that are not done.
pub(crate) struct End<'a> {
    /// Why calls stay without an answer.
    pub(crate) reason: &'a str,
    /// Why a message is cut; `None` when the run ended well.
    pub(crate) interruption: Option<Interruption>,
}

impl Lane {
    pub(crate) fn of(agent: &str) -> Self {
        Self {
            agent: Some(agent.to_owned()),
            ..Self::default()
        }
    }

    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// How the last message ended.
    pub(crate) fn last_stop(&self) -> Option<StopReason> {
        self.last_stop.clone()
    }

    /// The agent said something, or something happened to one of its calls.
    pub(crate) fn hear(&mut self, event: &BackendEvent, book: &mut Book) {
        match event {
            BackendEvent::ToolResult(result) => self.answered(result, book),
            BackendEvent::ApprovalAsked(ask) => self.asked(ask, book),
            BackendEvent::ApprovalAnswered { call_id, decision } => {
                let known = book.resolve(call_id, decision);
                if !known {
                    book.ignore(Ignored::AnswerWithoutAsk { id: call_id.clone() });
                }
            }
            BackendEvent::Thinking { .. }
            | BackendEvent::ThinkingEnd { .. }
            | BackendEvent::Text { .. }
            | BackendEvent::ToolCall(_)
            | BackendEvent::Usage(_)
            | BackendEvent::TurnEnd { .. }
            | BackendEvent::StructuredOutput(_) => {
                if self.was_aborted() && !matches!(event, BackendEvent::Usage(_)) {
                    // Another message follows: the provider broke off, and was asked again.
                    self.seal(&Seal::Cut(Interruption::Error), book);
                }
                if self.must_wait(event) {
                    self.waiting.push_back(event.clone());
                } else {
                    self.say(event, book);
                }
            }
            _ => {}
        }
    }

    /// Something is about to be told that belongs under this call: the call has to be told before.
    pub(crate) fn tell_written(&mut self, id: &str, book: &mut Book) {
        if book.call(id).is_some_and(|call| call.state == CallState::Written) {
            self.seal(&Seal::Early, book);
        }
    }

    /// The run ends: closes calls, tells what waited, seals what was written.
    pub(crate) fn close(&mut self, end: &End<'_>, book: &mut Book) {
        loop {
            while let Some(id) = self.open.first().cloned() {
                book.close_call(&id, end.reason);
                self.closed(&id, book);
            }
            if self.was_aborted() || self.writing.as_ref().is_some_and(Writing::has_content) {
                let whole = Seal::Whole {
                    stop_reason: &StopReason::EndTurn,
                    message_id: None,
                    model: None,
                };
                let seal = match &end.interruption {
                    Some(interruption) => Seal::Cut(interruption.clone()),
                    None => whole,
                };
                self.seal(&seal, book);
            } else {
                self.writing = None;
            }
            if self.open.is_empty() {
                return;
            }
        }
    }

    fn place(&self) -> Place<'_> {
        Place {
            agent: self.agent.as_deref(),
            turn: Some(self.turn),
        }
    }

    /// While calls are open, only what belongs to the message that made them may be told.
    fn must_wait(&self, event: &BackendEvent) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let same_message = self.waiting.is_empty() && self.writing.as_ref().is_some_and(|own| own.told_calls);
        !(same_message
            && matches!(
                event,
                BackendEvent::ToolCall(_) | BackendEvent::Usage(_) | BackendEvent::TurnEnd { .. }
            ))
    }

    fn say(&mut self, event: &BackendEvent, book: &mut Book) {
        match event {
            BackendEvent::Thinking { text } => self.reason(text, book),
            BackendEvent::ThinkingEnd { signature } => self.reasoned(signature.as_deref()),
            BackendEvent::Text { text } => self.write_text(text, book),
            BackendEvent::ToolCall(call) => self.call(call.clone(), book),
            BackendEvent::Usage(usage) => {
                if let Some(writing) = &mut self.writing {
                    match &mut writing.usage {
                        Some(total) => *total += *usage,
                        none => *none = Some(*usage),
                    }
                }
            }
            BackendEvent::TurnEnd {
                stop_reason,
                message_id,
                model,
            } => {
                let writing = self.begin();
                if stop_reason.is_aborted() {
                    writing.aborted = Some((message_id.clone(), model.clone()));
                    return;
                }
                let seal = Seal::Whole {
                    stop_reason,
                    message_id: message_id.as_deref(),
                    model: model.as_deref(),
                };
                self.seal(&seal, book);
            }
            BackendEvent::StructuredOutput(value) => self.answer(value, book),
            _ => {}
        }
    }

    /// The answer as an object. Where it is not what the model wrote, by the rule of the result, it is told as a
    /// message of its own: a reader of the record sees the answer like that of any other agent.
    fn answer(&mut self, value: &Value, book: &mut Book) {
        if self.told_json || self.writing.is_some() {
            return;
        }
        self.begin().text = value.to_string();
        book.write(
            self.place(),
            EventBody::MessageChunk(chunk(&value.to_string(), None)),
        );
        let seal = Seal::Whole {
            stop_reason: &StopReason::EndTurn,
            message_id: None,
            model: None,
        };
        self.seal(&seal, book);
    }

    fn was_aborted(&self) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|writing| writing.aborted.is_some())
    }

    fn begin(&mut self) -> &mut Writing {
        if self.writing.is_none() {
            self.turn += 1;
            self.told_json = false;
        }
        self.writing.get_or_insert_default()
    }

    fn reason(&mut self, text: &str, book: &mut Book) {
        let writing = self.begin();
        if text.is_empty() {
            return;
        }
        let new = writing.enter(Block::Reasoning);
        match writing.reasoning.last_mut() {
            Some(block) if !new => block.content.push_str(text),
            _ => writing.reasoning.push(ReasoningBlock {
                content: text.to_owned(),
                signature: None,
            }),
        }
        // Late reasoning is not streamed: a reader has begun to show the answer.
        if !writing.reasoning_over {
            writing.reasoning_open = true;
            let chunk = chunk(text, writing.block_index);
            book.write(self.place(), EventBody::ThinkingChunk(chunk));
        }
    }

    fn reasoned(&mut self, signature: Option<&str>) {
        let writing = self.begin();
        if writing.block == Some(Block::Reasoning) {
            if let Some(block) = writing.reasoning.last_mut() {
                block.signature = signature.map(ToOwned::to_owned);
            }
            writing.leave();
        } else if signature.is_some() {
            // Sealed reasoning whose text the provider does not show.
            writing.enter(Block::Reasoning);
            writing.reasoning.push(ReasoningBlock {
                content: String::new(),
                signature: signature.map(ToOwned::to_owned),
            });
            writing.leave();
        }
    }

    fn write_text(&mut self, text: &str, book: &mut Book) {
        self.begin();
        if text.is_empty() {
            return;
        }
        self.end_reasoning(book);
        let writing = self.begin();
        writing.enter(Block::Text);
        writing.text.push_str(text);
        let chunk = chunk(text, writing.block_index);
        book.write(self.place(), EventBody::MessageChunk(chunk));
    }

    fn call(&mut self, call: ToolCall, book: &mut Book) {
        self.begin();
        let Some(call) = book.called(call, self.agent.as_deref(), self.turn) else {
            return;
        };
        self.end_reasoning(book);
        let alone = self.open.is_empty();
        let writing = self.begin();
        writing.enter(Block::Call);
        if alone {
            writing.calls.push(call);
        } else {
            // Its sister is running already.
            writing.told_calls = true;
            self.tell_call(call, book);
        }
    }

    fn tell_call(&mut self, call: ToolCall, book: &mut Book) {
        self.open.push(call.call_id.clone());
        book.tell_call(call);
    }

    /// The first thing that is no reasoning.
    fn end_reasoning(&mut self, book: &mut Book) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        writing.reasoning_over = true;
        if std::mem::take(&mut writing.reasoning_open) {
            let all = chunk(&writing.reasoning_text(), writing.block_index);
            book.write(self.place(), EventBody::ThinkingComplete(all));
        }
    }

    /// Tells the message, or what there is of it, and then its calls.
    fn seal(&mut self, seal: &Seal<'_>, book: &mut Book) {
        self.end_reasoning(book);
        let was_aborted = self.was_aborted();
        let Some(mut writing) = self.writing.take() else {
            return;
        };
        let (own_id, model) = match seal {
            Seal::Whole {
                message_id, model, ..
            } => (message_id.map(str::to_owned), model.map(str::to_owned)),
            Seal::Early | Seal::Cut(_) => writing.aborted.take().unwrap_or_default(),
        };
        let message_id = own_id.unwrap_or_else(|| book.new_id());
        let reasoned = writing
            .reasoning
            .iter()
            .any(|block| !block.content.is_empty() || block.signature.is_some());
        if reasoned {
            let thinking = writing.thinking(&message_id);
            book.write(self.place(), EventBody::Thinking(thinking));
        }
        let (stop_reason, provider_stop_reason) = writing.stop_reason(seal);
        // What says nothing but its calls, shown or not, needs no message.
        let waits = stop_reason == StopReason::ToolUse || writing.told_calls;
        let only_calls = !writing.calls.is_empty() || (waits && !reasoned);
        let ended = was_aborted || matches!(seal, Seal::Whole { .. });
        let silent = writing.text.is_empty() && (only_calls || !ended);
        self.last_stop = Some(stop_reason.clone());
        if !silent {
            self.told_json = serde_json::from_str::<IgnoredAny>(&writing.text).is_ok();
            let interruption = match seal {
                Seal::Cut(interruption) => Some(interruption.clone()),
                _ => None,
            };
            let message = AgentMessage {
                message_id,
                role: "assistant".to_owned(),
                content: std::mem::take(&mut writing.text),
                stop_reason,
                provider_stop_reason,
                model,
                usage: writing.usage.map(Into::into),
                partial: interruption.is_some(),
                interruption,
            };
            book.write(self.place(), EventBody::Message(message));
        }
        for call in std::mem::take(&mut writing.calls) {
            self.tell_call(call, book);
        }
        if matches!(seal, Seal::Early) && !was_aborted {
            self.writing = Some(Writing {
                block_index: writing.block_index,
                block: writing.block,
                told_calls: true,
                ..Writing::default()
            });
        }
    }

    fn asked(&mut self, ask: &ApprovalAsk, book: &mut Book) {
        if self.is_waiting_for(&ask.call_id) {
            self.waiting.push_back(BackendEvent::ApprovalAsked(ask.clone()));
            return;
        }
        if book.call(&ask.call_id).is_none() {
            // The asker is faster than the model's message.
            let call = ToolCall {
                name: ask.tool_name.clone(),
                arguments: ask.arguments.clone(),
                call_id: ask.call_id.clone(),
            };
            self.call(call, book);
        }
        self.tell_written(&ask.call_id, book);
        match book.call(&ask.call_id).map(|call| call.state) {
            Some(CallState::Open) => book.ask(ask.clone()),
            _ => book.ignore(Ignored::AskAfterResult {
                id: ask.call_id.clone(),
            }),
        }
    }

    fn answered(&mut self, result: &ToolResult, book: &mut Book) {
        if self.is_waiting_for(&result.call_id) {
            self.waiting.push_back(BackendEvent::ToolResult(result.clone()));
            return;
        }
        let id = result.call_id.clone();
        self.tell_written(&id, book);
        match book.call(&id).map(|call| call.state) {
            Some(CallState::Open) => {
                book.tell_result(&id, result.clone(), Answerer::Tool);
                self.closed(&id, book);
            }
            Some(_) => book.ignore(Ignored::RepeatedResult { id }),
            None => book.ignore(Ignored::ResultWithoutCall { id }),
        }
    }

    /// Whether a call of this id is among what waits.
    fn is_waiting_for(&self, id: &str) -> bool {
        let mut calls = self.waiting.iter();
        calls.any(|event| matches!(event, BackendEvent::ToolCall(call) if call.call_id == id))
    }

    /// A call has its result. After the last one, what waited is told.
    fn closed(&mut self, id: &str, book: &mut Book) {
        self.open.retain(|open| open != id);
        if !self.open.is_empty() {
            return;
        }
        let mut waited = std::mem::take(&mut self.waiting);
        while let Some(event) = waited.pop_front() {
            self.hear(&event, book);
        }
    }
}
