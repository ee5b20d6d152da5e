//! Records what one agent of a run emits, in an order that satisfies the invariants whatever the order of the input.

use std::collections::VecDeque;

use holodeck_backend_api::{ApprovalAsk, BackendEvent, StopReason, ToolCall, ToolResult};
use holodeck_model::events::{AgentMessage, EventBody, Interruption, ReasoningBlock};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{
    Ignored,
    draft::Origin,
    run_log::{CallState, ResultSource, RunLog},
};

mod message;

use message::{Block, MessageBuilder, Seal, chunk};

/// One agent of a run: the run's own, or one that a call started. Turns what it emits into events whose order holds
/// the invariants, whatever the order of the input.
#[derive(Default)]
pub(crate) struct AgentLog {
    /// The call that started it; `None` for the run's own agent.
    agent: Option<String>,
    turn: u32,
    /// The model message being written.
    message: Option<MessageBuilder>,
    /// Calls without a result. Until they have one, nothing else may be recorded.
    open: Vec<String>,
    /// Events that arrived meanwhile.
    deferred: VecDeque<BackendEvent>,
    /// How the last message ended.
    last_stop: Option<StopReason>,
    /// The last message is JSON, as an answer in a `response_format` is.
    last_is_json: bool,
}

/// How a run ends, for those of its agents that are still working.
pub(crate) struct RunEnd<'a> {
    /// Why calls have no result.
    pub(crate) reason: &'a str,
    /// Why a message is cut off; `None` when the run ended well.
    pub(crate) interruption: Option<Interruption>,
}

impl RunEnd<'_> {
    /// Why a call that is still open has no result.
    fn source(&self) -> ResultSource {
        match self.interruption {
            Some(Interruption::UserCancelled) => ResultSource::Cancellation,
            _ => ResultSource::Interruption,
        }
    }
}

impl AgentLog {
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

    /// Takes in an event of the agent, or one about its calls.
    pub(crate) fn observe(&mut self, event: &BackendEvent, log: &mut RunLog) {
        match event {
            BackendEvent::ToolResult(result) => self.add_result(result, log),
            BackendEvent::ApprovalAsked(ask) => self.add_ask(ask, log),
            BackendEvent::ApprovalAnswered { call_id, decision } => {
                let was_open = log.resolve(call_id, decision);
                if !was_open {
                    log.ignore(Ignored::AnswerWithoutAsk { id: call_id.clone() });
                    // It may be what allowed the call, so it belongs to the trajectory all the same.
                    if let Some(approval) = event.approval() {
                        log.record_decision(self.agent(), approval);
                    }
                }
            }
            BackendEvent::ApprovalDecided(approval) => log.record_decision(self.agent(), approval.clone()),
            BackendEvent::Notice { message } => log.record_notice(self.agent(), message),
            BackendEvent::Thinking { .. }
            | BackendEvent::ThinkingEnd { .. }
            | BackendEvent::Text { .. }
            | BackendEvent::ToolCall(_)
            | BackendEvent::Usage(_)
            | BackendEvent::TurnEnd { .. }
            | BackendEvent::StructuredOutput(_) => {
                if self.was_aborted() && !matches!(event, BackendEvent::Usage(_)) {
                    // Another message follows: the provider broke off and was asked again.
                    self.seal(&Seal::Cut(Interruption::Error), log);
                }
                if self.must_defer(event) {
                    self.deferred.push_back(event.clone());
                } else {
                    self.add_content(event, log);
                }
            }
            _ => {}
        }
    }

    /// Records a call that is pending, because something that belongs under it follows.
    pub(crate) fn record_pending(&mut self, id: &str, log: &mut RunLog) {
        if self.own_call(id, log) == Some(CallState::Pending) {
            self.seal(&Seal::Early, log);
        }
    }

    /// Ends the agent with its run: closes calls, records what was deferred, seals the open message.
    pub(crate) fn close(&mut self, end: &RunEnd<'_>, log: &mut RunLog) {
        loop {
            while let Some(id) = self.open.first().cloned() {
                log.close_call(&id, end.reason, end.source());
                self.call_answered(&id, log);
            }
            if self.was_aborted() || self.message.as_ref().is_some_and(MessageBuilder::has_content) {
                let whole = Seal::Whole {
                    stop_reason: &StopReason::EndTurn,
                    message_id: None,
                    model: None,
                };
                let seal = match &end.interruption {
                    Some(interruption) => Seal::Cut(interruption.clone()),
                    None => whole,
                };
                self.seal(&seal, log);
            } else {
                self.message = None;
            }
            if self.open.is_empty() {
                return;
            }
        }
    }

    /// The progress of a call that this agent made. A deferred event may be about a call that another agent has made
    /// meanwhile with the same id.
    fn own_call(&self, id: &str, log: &RunLog) -> Option<CallState> {
        let call = log.call(id)?;
        (call.agent == self.agent).then_some(call.state)
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            agent: self.agent.as_deref(),
            turn: Some(self.turn),
        }
    }

    /// While calls are open, only the rest of the message that made them may be recorded.
    fn must_defer(&self, event: &BackendEvent) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let same_message = self.deferred.is_empty()
            && self
                .message
                .as_ref()
                .is_some_and(|message| message.calls_recorded);
        !(same_message
            && matches!(
                event,
                BackendEvent::ToolCall(_) | BackendEvent::Usage(_) | BackendEvent::TurnEnd { .. }
            ))
    }

    fn add_content(&mut self, event: &BackendEvent, log: &mut RunLog) {
        match event {
            BackendEvent::Thinking { text } => self.add_reasoning(text, log),
            BackendEvent::ThinkingEnd { signature } => self.end_reasoning_block(signature.as_deref()),
            BackendEvent::Text { text } => self.add_text(text, log),
            BackendEvent::ToolCall(call) => self.add_call(call, log),
            BackendEvent::Usage(usage) => {
                if let Some(message) = &mut self.message {
                    match &mut message.usage {
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
                let message = self.open_message();
                if stop_reason.is_aborted() {
                    message.aborted = Some((message_id.clone(), model.clone()));
                    return;
                }
                let seal = Seal::Whole {
                    stop_reason,
                    message_id: message_id.as_deref(),
                    model: model.as_deref(),
                };
                self.seal(&seal, log);
            }
            BackendEvent::StructuredOutput(value) => self.add_structured_output(value, log),
            _ => {}
        }
    }

    /// Records an answer that is an object as a message of its own, unless the model wrote it as its last message: a
    /// reader of the record sees it like the answer of any other agent.
    fn add_structured_output(&mut self, value: &Value, log: &mut RunLog) {
        if self.last_is_json || self.message.is_some() || !log.has_store() {
            return;
        }
        self.open_message().text = value.to_string();
        log.write(self.origin(), || {
            EventBody::MessageChunk(chunk(&value.to_string(), None))
        });
        let seal = Seal::Whole {
            stop_reason: &StopReason::EndTurn,
            message_id: None,
            model: None,
        };
        self.seal(&seal, log);
    }

    fn was_aborted(&self) -> bool {
        self.message
            .as_ref()
            .is_some_and(|message| message.aborted.is_some())
    }

    /// The open message, or a new one.
    fn open_message(&mut self) -> &mut MessageBuilder {
        if self.message.is_none() {
            self.turn += 1;
            self.last_is_json = false;
        }
        self.message.get_or_insert_default()
    }

    fn add_reasoning(&mut self, text: &str, log: &mut RunLog) {
        let message = self.open_message();
        if text.is_empty() {
            return;
        }
        let is_new = message.enter(Block::Reasoning);
        let content = if log.has_store() { text } else { "" };
        match message.reasoning.last_mut() {
            Some(block) if !is_new => block.content.push_str(content),
            _ => message.reasoning.push(ReasoningBlock {
                content: content.to_owned(),
                signature: None,
            }),
        }
        // Late reasoning is not streamed: a reader already shows the answer.
        if !message.reasoning_over {
            message.reasoning_open = true;
            let index = message.block_index;
            log.write(self.origin(), || EventBody::ThinkingChunk(chunk(text, index)));
        }
    }

    fn end_reasoning_block(&mut self, signature: Option<&str>) {
        let message = self.open_message();
        if message.block == Some(Block::Reasoning) {
            if let Some(block) = message.reasoning.last_mut() {
                block.signature = signature.map(ToOwned::to_owned);
            }
            message.leave();
        } else if signature.is_some() {
            // Encrypted reasoning whose text the provider does not show.
            message.enter(Block::Reasoning);
            message.reasoning.push(ReasoningBlock {
                content: String::new(),
                signature: signature.map(ToOwned::to_owned),
            });
            message.leave();
        }
    }

    fn add_text(&mut self, text: &str, log: &mut RunLog) {
        self.open_message();
        if text.is_empty() {
            return;
        }
        self.complete_reasoning(log);
        let message = self.open_message();
        message.enter(Block::Text);
        message.has_text = true;
        if log.has_store() {
            message.text.push_str(text);
        }
        let index = message.block_index;
        log.write(self.origin(), || EventBody::MessageChunk(chunk(text, index)));
    }

    fn add_call(&mut self, call: &ToolCall, log: &mut RunLog) {
        self.open_message();
        let Some(call) = log.register_call(call, self.agent.as_deref(), self.turn) else {
            return;
        };
        self.complete_reasoning(log);
        let is_first = self.open.is_empty();
        let message = self.open_message();
        message.enter(Block::Call);
        if is_first {
            message.calls.push(call);
        } else {
            // Another call of this message is already running.
            message.calls_recorded = true;
            self.record_call(call, log);
        }
    }

    fn record_call(&mut self, call: ToolCall, log: &mut RunLog) {
        self.open.push(call.call_id.clone());
        log.record_call(call);
    }

    /// Ends the streamed reasoning when something else follows it.
    fn complete_reasoning(&mut self, log: &mut RunLog) {
        let Some(message) = &mut self.message else {
            return;
        };
        message.reasoning_over = true;
        if std::mem::take(&mut message.reasoning_open) && log.has_store() {
            let all = chunk(&message.reasoning_text(), message.block_index);
            log.write(self.origin(), || EventBody::ThinkingComplete(all));
        }
    }

    /// Records the message, or what there is of it, and then its calls.
    fn seal(&mut self, seal: &Seal<'_>, log: &mut RunLog) {
        self.complete_reasoning(log);
        let was_aborted = self.was_aborted();
        let Some(mut sealed) = self.message.take() else {
            return;
        };
        if log.has_store() {
            self.write_message(&mut sealed, seal, log);
        }
        for call in std::mem::take(&mut sealed.calls) {
            self.record_call(call, log);
        }
        if matches!(seal, Seal::Early) && !was_aborted {
            self.message = Some(MessageBuilder {
                block_index: sealed.block_index,
                block: sealed.block,
                calls_recorded: true,
                ..MessageBuilder::default()
            });
        }
    }

    fn write_message(&mut self, sealed: &mut MessageBuilder, seal: &Seal<'_>, log: &mut RunLog) {
        let ended = sealed.aborted.is_some() || matches!(seal, Seal::Whole { .. });
        let (provider_id, model) = match seal {
            Seal::Whole {
                message_id, model, ..
            } => (message_id.map(str::to_owned), model.map(str::to_owned)),
            Seal::Early | Seal::Cut(_) => sealed.aborted.take().unwrap_or_default(),
        };
        let message_id = provider_id.unwrap_or_else(|| log.new_id());
        let has_reasoning = sealed
            .reasoning
            .iter()
            .any(|block| !block.content.is_empty() || block.signature.is_some());
        if has_reasoning {
            let thinking = sealed.thinking(&message_id);
            log.write(self.origin(), || EventBody::Thinking(thinking));
        }
        let (stop_reason, provider_stop_reason) = sealed.stop_reason(seal);
        // A message that consists of calls, recorded or not, needs no event of its own.
        let awaits_results = stop_reason == StopReason::ToolUse || sealed.calls_recorded;
        let only_calls = !sealed.calls.is_empty() || (awaits_results && !has_reasoning);
        self.last_stop = Some(stop_reason.clone());
        if sealed.text.is_empty() && (only_calls || !ended) {
            return;
        }
        self.last_is_json = serde_json::from_str::<IgnoredAny>(&sealed.text).is_ok();
        let interruption = match seal {
            Seal::Cut(interruption) => Some(interruption.clone()),
            _ => None,
        };
        let citations = log.cite(&sealed.text);
        log.write(self.origin(), || {
            EventBody::Message(AgentMessage {
                message_id,
                role: "assistant".to_owned(),
                content: std::mem::take(&mut sealed.text),
                stop_reason,
                provider_stop_reason,
                model,
                usage: sealed.usage.map(Into::into),
                partial: interruption.is_some(),
                interruption,
                citations,
            })
        });
    }

    fn add_ask(&mut self, ask: &ApprovalAsk, log: &mut RunLog) {
        if self.is_deferred(&ask.call_id) {
            self.deferred
                .push_back(BackendEvent::ApprovalAsked(Box::new(ask.clone())));
            return;
        }
        if log.call(&ask.call_id).is_none() {
            // The question arrived before the model's message.
            let call = ToolCall {
                name: ask.tool_name.clone(),
                arguments: ask.arguments.clone(),
                call_id: ask.call_id.clone(),
                provider_fields: None,
            };
            self.add_call(&call, log);
        }
        self.record_pending(&ask.call_id, log);
        match self.own_call(&ask.call_id, log) {
            Some(CallState::Open) => log.record_ask(ask),
            _ => log.ignore(Ignored::AskAfterResult {
                id: ask.call_id.clone(),
            }),
        }
    }

    fn add_result(&mut self, result: &ToolResult, log: &mut RunLog) {
        if self.is_deferred(&result.call_id) {
            self.deferred.push_back(BackendEvent::ToolResult(result.clone()));
            return;
        }
        let id = result.call_id.clone();
        self.record_pending(&id, log);
        match self.own_call(&id, log) {
            Some(CallState::Open) => {
                log.record_result(result, ResultSource::Tool);
                self.call_answered(&id, log);
            }
            Some(_) => log.ignore(Ignored::RepeatedResult { id }),
            None => log.ignore(Ignored::ResultWithoutCall { id }),
        }
    }

    /// Whether the call of this id is among the deferred events.
    fn is_deferred(&self, id: &str) -> bool {
        let mut deferred = self.deferred.iter();
        deferred.any(|event| matches!(event, BackendEvent::ToolCall(call) if call.call_id == id))
    }

    /// A call has its result. After the last one, what was deferred is recorded.
    fn call_answered(&mut self, id: &str, log: &mut RunLog) {
        self.open.retain(|open| open != id);
        if !self.open.is_empty() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        while let Some(event) = deferred.pop_front() {
            self.observe(&event, log);
        }
    }
}
