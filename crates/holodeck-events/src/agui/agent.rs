//! The open messages and reasoning of one agent in an AG-UI stream.

use holodeck_model::events::AgentMessage;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    AgUiBody, AgUiEvent,
    event::{AgUiMetadata, metadata},
};

/// The protocol version that the events follow.
const PROTOCOL_VERSION: &str = "1.0";

/// The events of an AG-UI run that are not taken yet.
pub(super) struct Output {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// RUN_STARTED is emitted.
    pub(super) is_started: bool,
    pub(super) time: Option<i64>,
    pub(super) events: Vec<AgUiEvent>,
}

impl Output {
    /// Emits RUN_STARTED, which must be the first event.
    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            let body = AgUiBody::RunStarted {
                thread_id: self.thread_id.clone(),
                run_id: self.run_id.clone(),
                protocol_version: PROTOCOL_VERSION,
            };
            self.events.push(AgUiEvent {
                body,
                timestamp: self.time,
                subagent_run_id: None,
                metadata: None,
            });
        }
    }

    pub(super) fn push(&mut self, agent: Option<&str>, body: AgUiBody) {
        self.push_with(agent, body, None);
    }

    pub(super) fn push_with(&mut self, agent: Option<&str>, body: AgUiBody, metadata: Option<AgUiMetadata>) {
        self.begin();
        self.events.push(AgUiEvent {
            body,
            timestamp: self.time,
            subagent_run_id: agent.map(ToOwned::to_owned),
            metadata,
        });
    }
}

/// The progress of a nested agent within the AG-UI run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its start is not emitted, or it was suspended by an interrupt.
    Idle,
    /// Its start is emitted, its end is not.
    Active,
    /// The call that started it has its result.
    Finished,
}

/// One agent of the run: its open streams, and the ids of its messages.
pub(super) struct Agent {
    /// The call that started it; `None` for the run's own agent.
    pub(super) id: Option<String>,
    /// Its `subagentRunId`.
    pub(super) tag: Option<String>,
    pub(super) stage: Stage,
    /// The prefix of the ids of its messages.
    prefix: String,
    turn: Option<u32>,
    /// The message within the turn: text after calls is a message of its own.
    part: u32,
    /// Text that follows belongs to another message.
    is_sealed: bool,
    text: Streamed,
    reasoning: Streamed,
}

#[derive(Default)]
struct Streamed {
    sent: Sent,
    is_open: bool,
}

/// The text of the message that the client has, by its length and digest: each client of a large message would hold a copy.
#[derive(Default)]
struct Sent {
    bytes: usize,
    digest: Sha256,
}

impl Sent {
    fn push(&mut self, delta: &str) {
        self.bytes += delta.len();
        self.digest.update(delta);
    }

    /// The rest of `content` after the text that was sent; `None` if it does not begin with that.
    fn missing<'a>(&self, content: &'a str) -> Option<&'a str> {
        let (begin, rest) = content.split_at_checked(self.bytes)?;
        (Sha256::digest(begin) == self.digest.clone().finalize()).then_some(rest)
    }
}

impl Agent {
    pub(super) fn new(id: Option<&str>, tag: Option<String>, run: &str) -> Self {
        let prefix = id.map_or_else(|| run.to_owned(), |id| format!("{run}/{id}"));
        Self {
            id: id.map(ToOwned::to_owned),
            tag,
            stage: Stage::Idle,
            prefix,
            turn: None,
            part: 0,
            is_sealed: false,
            text: Streamed::default(),
            reasoning: Streamed::default(),
        }
    }

    /// The id of the current message. The provider's id is known only when the message is complete, and the id must be
    /// the same in a replay without chunks.
    fn message_id(&self) -> String {
        let turn = self.turn.unwrap_or_default();
        match self.part {
            0 => format!("{}.{turn}", self.prefix),
            part => format!("{}.{turn}.{part}", self.prefix),
        }
    }

    fn reasoning_id(&self) -> String {
        format!("{}.reasoning", self.message_id())
    }

    fn enter_turn(&mut self, turn: u32, out: &mut Output) {
        if self.turn != Some(turn) {
            self.close(out);
            self.turn = Some(turn);
            self.part = 0;
            self.forget();
        }
    }

    /// Continues with text or reasoning of this turn.
    fn enter(&mut self, turn: u32, out: &mut Output) {
        self.enter_turn(turn, out);
        if self.is_sealed {
            self.close(out);
            self.part += 1;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.is_sealed = false;
        self.text.sent = Sent::default();
        self.reasoning.sent = Sent::default();
    }

    pub(super) fn add_reasoning(&mut self, turn: u32, delta: &str, out: &mut Output) {
        self.enter(turn, out);
        self.stream_reasoning(delta, out);
    }

    /// All reasoning of the message. The client gets what was not streamed.
    pub(super) fn complete_reasoning(&mut self, turn: u32, content: &str, out: &mut Output) {
        self.enter(turn, out);
        if let Some(missing) = self.reasoning.sent.missing(content) {
            self.stream_reasoning(missing, out);
        }
        self.end_reasoning(out);
    }

    pub(super) fn add_text(&mut self, turn: u32, delta: &str, out: &mut Output) {
        self.enter(turn, out);
        self.stream_text(delta, out);
    }

    /// The whole message. The client gets what was not streamed.
    pub(super) fn complete_message(&mut self, turn: u32, message: &AgentMessage, out: &mut Output) {
        self.enter(turn, out);
        self.end_reasoning(out);
        if let Some(missing) = self.text.sent.missing(&message.content) {
            self.stream_text(missing, out);
        } else {
            // The stored text is what counts, so it is not left out.
            self.close(out);
            self.part += 1;
            self.forget();
            self.stream_text(&message.content, out);
        }
        let mut about = json!({ "messageId": message.message_id, "stopReason": message.stop_reason });
        if let (Value::Object(about), true) = (&mut about, message.partial) {
            about.insert("partial".to_owned(), Value::Bool(true));
        }
        self.end_text(Some(about), out);
        self.is_sealed = true;
    }

    /// The id of the message that a call of this turn belongs to.
    pub(super) fn begin_call(&mut self, turn: u32, out: &mut Output) -> String {
        self.enter_turn(turn, out);
        self.close(out);
        self.is_sealed = true;
        self.message_id()
    }

    /// Ends what is open.
    pub(super) fn close(&mut self, out: &mut Output) {
        self.end_reasoning(out);
        self.end_text(None, out);
    }

    fn stream_reasoning(&mut self, delta: &str, out: &mut Output) {
        if delta.is_empty() {
            return;
        }
        let tag = self.tag.as_deref();
        let message_id = self.reasoning_id();
        if !std::mem::replace(&mut self.reasoning.is_open, true) {
            let id = message_id.clone();
            out.push(tag, AgUiBody::ReasoningStart { message_id: id });
            let start = AgUiBody::ReasoningMessageStart {
                message_id: message_id.clone(),
                role: "reasoning",
            };
            out.push(tag, start);
        }
        self.reasoning.sent.push(delta);
        let delta = delta.to_owned();
        out.push(tag, AgUiBody::ReasoningMessageContent { message_id, delta });
    }

    pub(super) fn end_reasoning(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.reasoning.is_open) {
            let (tag, message_id) = (self.tag.as_deref(), self.reasoning_id());
            let id = message_id.clone();
            out.push(tag, AgUiBody::ReasoningMessageEnd { message_id: id });
            out.push(tag, AgUiBody::ReasoningEnd { message_id });
        }
    }

    fn stream_text(&mut self, delta: &str, out: &mut Output) {
        if delta.is_empty() {
            return;
        }
        self.end_reasoning(out);
        let tag = self.tag.as_deref();
        let message_id = self.message_id();
        if !std::mem::replace(&mut self.text.is_open, true) {
            let start = AgUiBody::TextMessageStart {
                message_id: message_id.clone(),
                role: "assistant",
            };
            out.push(tag, start);
        }
        self.text.sent.push(delta);
        let delta = delta.to_owned();
        out.push(tag, AgUiBody::TextMessageContent { message_id, delta });
    }

    fn end_text(&mut self, about: Option<Value>, out: &mut Output) {
        if std::mem::take(&mut self.text.is_open) {
            let message_id = self.message_id();
            let body = AgUiBody::TextMessageEnd { message_id };
            out.push_with(self.tag.as_deref(), body, about.map(metadata));
        }
    }
}
