//! Merges the streamed pieces of a model message with its complete blocks, so that no text is emitted twice.

use holodeck_backend_api::{BackendEvent, StopReason, TokenUsage};

use crate::wire::{AssistantFrame, Block, Delta, WireUsage};

/// A model message while it arrives.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    usage: Option<WireUsage>,
    stop_reason: Option<String>,
    is_streamed: bool,
    is_stopped: bool,
    is_aborted: bool,
    calls_tools: bool,
    /// Streamed blocks whose complete form has not arrived yet.
    blocks: Vec<StreamedBlock>,
}

/// A block that arrives in pieces.
#[derive(Debug)]
struct StreamedBlock {
    kind: Kind,
    /// The text so far; for a tool call, the JSON of its arguments.
    text: String,
    signature: Option<String>,
    is_stopped: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Tool { id: String, name: String },
    Other,
}

impl Message {
    pub(super) fn new(id: Option<String>, model: Option<String>) -> Self {
        Self {
            id,
            model,
            ..Self::default()
        }
    }

    pub(super) fn mark_streamed(&mut self) {
        self.is_streamed = true;
    }

    pub(super) fn mark_stopped(&mut self) {
        self.is_stopped = true;
    }

    /// Whether its stream ended early.
    pub(super) fn is_cut(&self) -> bool {
        self.is_streamed && !self.is_stopped && self.stop_reason.is_none()
    }

    pub(super) fn usage(&self) -> Option<TokenUsage> {
        self.usage.map(WireUsage::tokens)
    }

    pub(super) fn stop_reason(&self) -> StopReason {
        match self.stop_reason.as_deref() {
            Some(reason) => StopReason::from(reason.to_owned()),
            // The CLI closes a message that it gives up, but without a stop reason.
            None if self.is_aborted || self.is_streamed => StopReason::aborted(),
            None if self.calls_tools => StopReason::ToolUse,
            None => StopReason::EndTurn,
        }
    }

    pub(super) fn update_stop_reason(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.stop_reason = Some(reason.to_owned());
        }
    }

    pub(super) fn update_usage(&mut self, usage: Option<WireUsage>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().update(usage);
        }
    }

    /// Updates the message from a complete block. A streamed message takes its usage from the stream.
    pub(super) fn update_from_frame(&mut self, frame: &AssistantFrame) {
        self.is_aborted |= frame.aborted;
        self.update_stop_reason(frame.stop_reason.as_deref());
        // A synthetic message used no model.
        if !self.is_streamed && !frame.is_synthetic() {
            self.update_usage(frame.usage);
        }
    }

    pub(super) fn start_block(&mut self, block: &Block, emit: &mut dyn FnMut(BackendEvent)) {
        let (kind, text, signature) = match block {
            Block::Text(text) => (Kind::Text, text.as_str(), None),
            Block::Thinking { text, signature } => (Kind::Thinking, text.as_str(), signature.clone()),
            Block::ToolUse { id, name, .. } => {
                self.calls_tools = true;
                let kind = Kind::Tool {
                    id: id.clone(),
                    name: name.clone(),
                };
                (kind, "", None)
            }
            _ => (Kind::Other, "", None),
        };
        emit_piece(&kind, text, emit);
        self.blocks.push(StreamedBlock {
            kind,
            text: text.to_owned(),
            signature,
            is_stopped: false,
        });
    }

    /// Blocks come one after the other, so a piece belongs to the last one.
    pub(super) fn delta(&mut self, delta: &Delta, emit: &mut dyn FnMut(BackendEvent)) {
        let Some(block) = self.blocks.last_mut().filter(|block| !block.is_stopped) else {
            return;
        };
        match (delta, &block.kind) {
            (Delta::Text(piece), Kind::Text) | (Delta::Thinking(piece), Kind::Thinking) => {
                emit_piece(&block.kind, piece, emit);
                block.text.push_str(piece);
            }
            (Delta::InputJson(piece), Kind::Tool { .. }) => block.text.push_str(piece),
            (Delta::Signature(piece), Kind::Thinking) => {
                block.signature.get_or_insert_default().push_str(piece);
            }
            _ => {}
        }
    }

    /// Ends the last block. A tool call is not emitted here, because its block may have been given up.
    pub(super) fn stop_block(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        let Some(block) = self.blocks.last_mut().filter(|block| !block.is_stopped) else {
            return;
        };
        block.is_stopped = true;
        if block.kind == Kind::Thinking {
            emit(BackendEvent::ThinkingEnd {
                signature: block.signature.take(),
            });
        }
    }

    /// Takes the calls of a finished message that were only streamed, with the JSON of their arguments.
    pub(super) fn take_streamed_calls(&mut self) -> Vec<(String, String, String)> {
        if self.stop_reason.is_none() {
            return Vec::new();
        }
        let calls = self.blocks.drain(..).filter_map(|block| {
            let Kind::Tool { id, name } = block.kind else {
                return None;
            };
            Some((id, name, block.text))
        });
        calls.collect()
    }

    /// Adds a complete text: emits the part that was not streamed.
    pub(super) fn text(&mut self, text: &str, emit: &mut dyn FnMut(BackendEvent)) {
        let rest = match self.take_block(&Kind::Text) {
            Some(block) => rest_of(text, &block.text),
            None => text,
        };
        emit_piece(&Kind::Text, rest, emit);
    }

    /// Adds a complete block of reasoning: emits the part that was not streamed.
    pub(super) fn thinking(
        &mut self,
        text: &str,
        signature: Option<&str>,
        emit: &mut dyn FnMut(BackendEvent),
    ) {
        let block = self.take_block(&Kind::Thinking);
        let streamed = block.as_ref().map_or("", |block| block.text.as_str());
        emit_piece(&Kind::Thinking, rest_of(text, streamed), emit);
        let has_ended = block.as_ref().is_some_and(|block| block.is_stopped);
        if !has_ended {
            let signature = signature.map(str::to_owned);
            emit(BackendEvent::ThinkingEnd {
                signature: signature.or_else(|| block.and_then(|block| block.signature)),
            });
        }
    }

    /// Adds a complete tool call. Returns the JSON of its arguments as it was streamed.
    pub(super) fn tool_use(&mut self, id: &str) -> Option<String> {
        self.calls_tools = true;
        let is_call =
            |block: &StreamedBlock| matches!(&block.kind, Kind::Tool { id: streamed, .. } if streamed == id);
        let at = self.blocks.iter().position(is_call)?;
        Some(self.blocks.remove(at).text)
    }

    /// Ends reasoning that was cut short.
    pub(super) fn end_thinking(&mut self, emit: &mut dyn FnMut(BackendEvent)) {
        for block in &mut self.blocks {
            if block.kind == Kind::Thinking && !block.is_stopped {
                block.is_stopped = true;
                emit(BackendEvent::ThinkingEnd { signature: None });
            }
        }
    }

    /// Takes the streamed form of a complete block.
    fn take_block(&mut self, kind: &Kind) -> Option<StreamedBlock> {
        let at = self.blocks.iter().position(|block| block.kind == *kind)?;
        Some(self.blocks.remove(at))
    }
}

/// The part of `whole` after `streamed`; nothing if they differ, because emitted text cannot be withdrawn.
fn rest_of<'a>(whole: &'a str, streamed: &str) -> &'a str {
    whole.strip_prefix(streamed).unwrap_or_default()
}

fn emit_piece(kind: &Kind, piece: &str, emit: &mut dyn FnMut(BackendEvent)) {
    if piece.is_empty() {
        return;
    }
    let text = piece.to_owned();
    match kind {
        Kind::Text => emit(BackendEvent::Text { text }),
        Kind::Thinking => emit(BackendEvent::Thinking { text }),
        Kind::Tool { .. } | Kind::Other => {}
    }
}
