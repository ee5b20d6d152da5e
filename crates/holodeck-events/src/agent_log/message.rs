//! Builds one model message from its pieces and decides when it is sealed.

use holodeck_backend_api::{StopFamily, StopReason, TokenUsage, ToolCall};
use holodeck_model::events::{Interruption, ReasoningBlock, TextChunk, Thinking};

/// A model message since it was last sealed. It is sealed before its end when one of its calls is asked about or
/// answered.
#[derive(Default)]
pub(super) struct MessageBuilder {
    /// Its text so far; empty without a store.
    pub(super) text: String,
    pub(super) has_text: bool,
    pub(super) reasoning: Vec<ReasoningBlock>,
    /// Reasoning was streamed, and its end was not.
    pub(super) reasoning_open: bool,
    /// Something other than reasoning was written: further reasoning is not streamed.
    pub(super) reasoning_over: bool,
    pub(super) calls: Vec<ToolCall>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) block: Option<Block>,
    /// The index of the latest block in the message.
    pub(super) block_index: Option<u32>,
    /// Calls of this message are already recorded.
    pub(super) calls_recorded: bool,
    /// It was cut off: its provider's id and model. The reason shows in what follows.
    pub(super) aborted: Option<(Option<String>, Option<String>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Reasoning,
    Text,
    Call,
}

/// Why a message is sealed.
pub(super) enum Seal<'a> {
    /// It is complete.
    Whole {
        stop_reason: &'a StopReason,
        message_id: Option<&'a str>,
        model: Option<&'a str>,
    },
    /// Something happens to one of its calls.
    Early,
    /// It was cut off.
    Cut(Interruption),
}

impl MessageBuilder {
    /// Continues in a block of this kind; true if the block is new.
    pub(super) fn enter(&mut self, block: Block) -> bool {
        let new = self.block != Some(block);
        if new {
            self.block_index = Some(self.block_index.map_or(0, |index| index + 1));
        }
        self.block = Some(block);
        new
    }

    /// Ends the block: what follows is another one, even of the same kind.
    pub(super) fn leave(&mut self) {
        self.block = None;
    }

    pub(super) fn has_content(&self) -> bool {
        self.has_text || !self.reasoning.is_empty() || !self.calls.is_empty()
    }

    pub(super) fn reasoning_text(&self) -> String {
        self.reasoning
            .iter()
            .map(|block| block.content.as_str())
            .collect()
    }

    pub(super) fn thinking(&mut self, message_id: &str) -> Thinking {
        let content = self.reasoning_text();
        let mut blocks = std::mem::take(&mut self.reasoning);
        let redacted = blocks
            .iter()
            .any(|block| block.content.is_empty() && block.signature.is_some());
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
            redacted,
            blocks,
        }
    }

    /// Why the message ended, and the provider's own reason where it differs. A message with calls always has
    /// `tool_use`.
    pub(super) fn stop_reason(&self, seal: &Seal<'_>) -> (StopReason, Option<String>) {
        let reason = match seal {
            Seal::Whole { stop_reason, .. } => stop_word(stop_reason),
            Seal::Early => (StopReason::ToolUse, None),
            Seal::Cut(_) => (StopReason::PauseTurn, None),
        };
        match reason {
            (StopReason::ToolUse, own) => (StopReason::ToolUse, own),
            (word, own) if !self.calls.is_empty() => {
                let own = own.or_else(|| matches!(seal, Seal::Whole { .. }).then(|| word.to_string()));
                (StopReason::ToolUse, own)
            }
            other => other,
        }
    }
}

/// The contract has six words; any other becomes the one of its family and is recorded beside it.
fn stop_word(reason: &StopReason) -> (StopReason, Option<String>) {
    let StopReason::Other(word) = reason else {
        return (reason.clone(), None);
    };
    let known = match reason.family() {
        StopFamily::End | StopFamily::Failure => StopReason::EndTurn,
        StopFamily::Calls => StopReason::ToolUse,
        StopFamily::Truncated | StopFamily::Unknown => StopReason::MaxTokens,
        StopFamily::Refusal => StopReason::Refusal,
    };
    (known, Some(word.clone()))
}

pub(super) fn chunk(text: &str, block_index: Option<u32>) -> TextChunk {
    TextChunk {
        content: text.to_owned(),
        block_index: block_index.unwrap_or(0),
        message_id: None,
    }
}
