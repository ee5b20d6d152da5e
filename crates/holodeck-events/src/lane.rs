use std::collections::VecDeque;

use holodeck_backend_api::{ApprovalAsk, BackendEvent, StopReason, TokenUsage, ToolCall, ToolResult};
use holodeck_model::events::{
    AgentMessage, EventBody, Interruption, ReasoningBlock, StopReason as StopWord, Thinking, WrittenChunk,
};

use crate::{
    Ignored,
    book::{Answerer, Book, CallState, Place},
};

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
    last_stop: Option<StopWord>,
}

/// A model message being written, since it was sealed last: that happens in the middle of it when one of its calls
/// is asked about or answered before it is complete.
#[derive(Default)]
struct Writing {
    text: String,
    reasoning: Vec<ReasoningBlock>,
    /// Reasoning went out as chunks, and its end did not yet.
    reasoning_open: bool,
    /// Something else than reasoning was written: what reasoning still comes is not streamed.
    reasoning_over: bool,
    calls: Vec<ToolCall>,
    usage: Option<TokenUsage>,
    block: Option<Block>,
    /// The place of the latest block in the message.
    block_index: Option<u32>,
    /// Calls of this message were told already.
    told_calls: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Reasoning,
    Text,
    Call,
}

/// Why a message is sealed.
enum Seal<'a> {
    /// It is complete.
    Whole {
        stop_reason: &'a StopReason,
        message_id: Option<&'a str>,
        model: Option<&'a str>,
    },
    /// Something happens to one of its calls.
    Early,
    /// The run ends.
    Cut(Interruption),
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
    pub(crate) fn last_stop(&self) -> Option<StopWord> {
        self.last_stop.clone()
    }

    /// The agent said something, or something happened to one of its calls.
    pub(crate) fn hear(&mut self, event: &BackendEvent, book: &mut Book) {
        match event {
            BackendEvent::ToolResult(result) => self.answered(result, book),
            BackendEvent::ApprovalAsked(ask) => self.asked(ask, book),
            BackendEvent::ApprovalAnswered { call_id, decision } => {
                if !book.resolve(call_id, decision) {
                    book.ignore(Ignored::AnswerWithoutAsk { id: call_id.clone() });
                }
            }
            _ if self.must_wait(event) => self.waiting.push_back(event.clone()),
            _ => self.say(event, book),
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
            if self.writing.as_ref().is_some_and(Writing::has_content) {
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
                self.begin();
                let seal = Seal::Whole {
                    stop_reason,
                    message_id: message_id.as_deref(),
                    model: model.as_deref(),
                };
                self.seal(&seal, book);
            }
            _ => {}
        }
    }

    fn begin(&mut self) -> &mut Writing {
        if self.writing.is_none() {
            self.turn += 1;
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
        let Some(mut writing) = self.writing.take() else {
            return;
        };
        let message_id = match seal {
            Seal::Whole {
                message_id: Some(id), ..
            } => (*id).to_owned(),
            _ => book.new_id(),
        };
        let reasoned = writing
            .reasoning
            .iter()
            .any(|block| !block.content.is_empty() || block.signature.is_some());
        if reasoned {
            let thinking = writing.thinking(&message_id);
            book.write(self.place(), EventBody::Thinking(thinking));
        }
        // What says nothing but its calls needs no message.
        let only_calls = !writing.calls.is_empty() || (writing.told_calls && !reasoned);
        let silent = writing.text.is_empty() && (only_calls || !matches!(seal, Seal::Whole { .. }));
        let (stop_reason, provider_stop_reason) = writing.stop_reason(seal);
        self.last_stop = Some(stop_reason.clone());
        if !silent {
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
                model: match seal {
                    Seal::Whole { model, .. } => model.map(ToOwned::to_owned),
                    _ => None,
                },
                usage: writing.usage.map(Into::into),
                partial: interruption.is_some(),
                interruption,
            };
            book.write(self.place(), EventBody::Message(message));
        }
        for call in std::mem::take(&mut writing.calls) {
            self.tell_call(call, book);
        }
        if matches!(seal, Seal::Early) {
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

impl Writing {
    /// Goes on in a block of this kind; whether it is a new one.
    fn enter(&mut self, block: Block) -> bool {
        let new = self.block != Some(block);
        if new {
            self.block_index = Some(self.block_index.map_or(0, |index| index + 1));
        }
        self.block = Some(block);
        new
    }

    /// The block is complete; what follows is another one, of whatever kind.
    fn leave(&mut self) {
        self.block = None;
    }

    fn has_content(&self) -> bool {
        !self.text.is_empty() || !self.reasoning.is_empty() || !self.calls.is_empty()
    }

    fn reasoning_text(&self) -> String {
        self.reasoning
            .iter()
            .map(|block| block.content.as_str())
            .collect()
    }

    fn thinking(&mut self, message_id: &str) -> Thinking {
        let content = self.reasoning_text();
        let mut blocks = std::mem::take(&mut self.reasoning);
        let signature = match blocks.as_mut_slice() {
            [only] => only.signature.take(),
            _ => None,
        };
        if blocks.len() < 2 {
            blocks.clear();
        }
        Thinking {
            content,
            message_id: message_id.to_owned(),
            signature,
            blocks,
        }
    }

    /// Why the message ended, and what the provider said when that is another word. A message with calls always
    /// waits for them.
    fn stop_reason(&self, seal: &Seal<'_>) -> (StopWord, Option<String>) {
        let said = match seal {
            Seal::Whole { stop_reason, .. } => stop_word(stop_reason),
            Seal::Early => (StopWord::ToolUse, None),
            Seal::Cut(_) => (StopWord::PauseTurn, None),
        };
        match said {
            (StopWord::ToolUse, own) => (StopWord::ToolUse, own),
            (word, own) if !self.calls.is_empty() => {
                let own = own.or_else(|| matches!(seal, Seal::Whole { .. }).then(|| word.to_string()));
                (StopWord::ToolUse, own)
            }
            said => said,
        }
    }
}

/// How a run ends, for those of its agents that are not done.
pub(crate) struct End<'a> {
    /// Why calls stay without an answer.
    pub(crate) reason: &'a str,
    /// Why a message is cut; `None` when the run ended well.
    pub(crate) interruption: Option<Interruption>,
}

fn stop_word(reason: &StopReason) -> (StopWord, Option<String>) {
    match reason {
        StopReason::ToolUse => (StopWord::ToolUse, None),
        StopReason::MaxTokens => (StopWord::MaxTokens, None),
        StopReason::StopSequence => (StopWord::StopSequence, None),
        StopReason::Refusal => (StopWord::Refusal, None),
        StopReason::Other(word) if word == StopWord::PauseTurn.as_str() => (StopWord::PauseTurn, None),
        // The contract has six words; the seventh is told beside.
        StopReason::Other(word) => (StopWord::EndTurn, Some(word.clone())),
        _ => (StopWord::EndTurn, None),
    }
}

fn chunk(text: &str, block_index: Option<u32>) -> WrittenChunk {
    WrittenChunk {
        content: text.to_owned(),
        block_index: block_index.unwrap_or(0),
        message_id: None,
    }
}
