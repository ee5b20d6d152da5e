//! State that tools keep for one conversation, which must neither outlive it nor be shared with others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The tool state of one conversation: how often each answer of a mocked tool was given. It is kept here and not in the
/// tool, so that concurrent conversations do not share it and it ends with its conversation. Clones share state.
#[derive(Clone, Debug, Default)]
pub struct Conversation(Arc<Mutex<HashMap<String, Vec<u32>>>>);

impl Conversation {
    /// A conversation in which no answer was given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Updates how often each answer of the mocked tool `tool` was given; the list is initially empty.
    pub fn count_answers<R>(&self, tool: &str, change: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(counts.entry(tool.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(conversation: &Conversation, tool: &str) -> usize {
        conversation.count_answers(tool, |counts| {
            counts.push(1);
            counts.len()
        })
    }

    #[test]
    fn each_conversation_and_tool_has_its_own_counts_and_clones_share_them() {
        let (one, other) = (Conversation::new(), Conversation::new());
        assert_eq!((count(&one, "a"), count(&one.clone(), "a")), (1, 2));
        assert_eq!((count(&one, "b"), count(&other, "a")), (1, 1));
    }
}
