//! The conversation so far, from which a session continues, in a form that every provider accepts.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{BackendEvent, CallDetails, ToolCall, ToolResult};

/// The result of an interrupted tool call: providers reject a conversation with a call that has no result.
const INTERRUPTED: &str = "the turn was interrupted before this call ended";

/// One item of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HistoryItem {
    /// A message of the user.
    User {
        /// The text.
        text: String,
    },
    /// Text of a complete model message.
    Assistant {
        /// The text.
        text: String,
    },
    /// A tool call of the model.
    Call(ToolCall),
    /// The result of a tool call.
    Result(ToolResult),
    /// Text of a model message that was interrupted.
    Partial {
        /// The text received before the interruption.
        text: String,
    },
}

impl HistoryItem {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// Text of a complete model message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into() }
    }

    /// The text of a user or model message.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::User { text } | Self::Assistant { text } | Self::Partial { text } => Some(text),
            Self::Call(_) | Self::Result(_) => None,
        }
    }
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

/// A conversation that a backend stores itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHandle {
    /// The backend that stores it.
    pub provider: String,
    /// The backend's own id of the conversation.
    pub id: String,
    /// The backend's own id of the conversation's last message.
    pub head: String,
}

/// The conversation from which a session continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opening {
    /// The conversation so far, oldest first.
    pub history: Vec<HistoryItem>,
    /// The same conversation in the backend's own store. It is used instead of `history` if the backend still has it
    /// with the same head.
    pub handle: Option<SessionHandle>,
}

impl Opening {
    /// A session that continues `history`.
    pub fn after(history: impl Into<Vec<HistoryItem>>) -> Self {
        Self {
            history: history.into(),
            handle: None,
        }
    }

    /// The history in the form that every provider accepts: each call has a result, and each result has a call.
    pub fn whole_history(&self) -> Vec<HistoryItem> {
        complete_history(self.history.clone())
    }
}

/// Collects what remains of a turn in its conversation, also of one that was interrupted.
#[derive(Debug)]
pub struct HistoryFold {
    items: Vec<HistoryItem>,
    text: String,
    /// The text is of a message that was cut off. If another message follows, the provider was asked again.
    is_cut: bool,
}

impl HistoryFold {
    /// A turn that begins with `message`.
    pub fn new(message: &str) -> Self {
        Self {
            items: vec![HistoryItem::user(message)],
            text: String::new(),
            is_cut: false,
        }
    }

    /// Processes one event.
    pub fn observe(&mut self, event: &BackendEvent) {
        match event {
            BackendEvent::Text { text } => {
                self.drop_cut_text();
                self.text.push_str(text);
            }
            BackendEvent::ToolCall(call) => {
                self.drop_cut_text();
                self.end_text();
                self.items.push(HistoryItem::Call(call.clone()));
            }
            BackendEvent::TurnEnd { stop_reason, .. } if stop_reason.is_aborted() => self.is_cut = true,
            BackendEvent::TurnEnd { .. } => {
                self.drop_cut_text();
                self.end_text();
            }
            BackendEvent::ToolResult(result) => self.items.push(HistoryItem::Result(result.clone())),
            _ => {}
        }
    }

    /// The items of a turn that was answered.
    pub fn answered(mut self) -> Vec<HistoryItem> {
        self.end_text();
        complete_history(self.items)
    }

    /// The items that remain of a turn that was interrupted; empty if nothing was received.
    pub fn interrupted(mut self) -> Vec<HistoryItem> {
        if !self.text.is_empty() {
            self.items.push(HistoryItem::Partial { text: self.text });
        }
        if self.items.len() == 1 {
            return Vec::new();
        }
        complete_history(self.items)
    }

    fn drop_cut_text(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.text.clear();
        }
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.items.push(HistoryItem::Assistant { text });
        }
    }
}

fn complete_history(history: Vec<HistoryItem>) -> Vec<HistoryItem> {
    let result_ids: HashSet<String> = history
        .iter()
        .filter_map(|item| match item {
            HistoryItem::Result(result) => Some(result.call_id.clone()),
            _ => None,
        })
        .collect();
    let mut complete = Vec::with_capacity(history.len());
    // By the place of their calls: a model gets the results of a message in the order of its calls.
    let mut call_ids = HashMap::new();
    let mut results: Vec<(usize, HistoryItem)> = Vec::new();
    // Results follow all calls of their message.
    let mut missing = Vec::new();
    for (place, item) in history.into_iter().enumerate() {
        match &item {
            HistoryItem::Result(result) => {
                if let Some(call) = call_ids.get(&result.call_id) {
                    results.push((*call, item));
                }
                continue;
            }
            HistoryItem::Call(call) => {
                append_sorted(&mut complete, &mut results);
                call_ids.insert(call.call_id.clone(), place);
                if !result_ids.contains(&call.call_id) {
                    let interrupted = HistoryItem::Result(ToolResult {
                        call_id: call.call_id.clone(),
                        name: call.name.clone(),
                        result: INTERRUPTED.to_owned(),
                        is_error: true,
                        duration_ms: None,
                        details: CallDetails::default(),
                    });
                    missing.push((place, interrupted));
                }
            }
            _ => {
                results.append(&mut missing);
                append_sorted(&mut complete, &mut results);
            }
        }
        complete.push(item);
    }
    results.append(&mut missing);
    append_sorted(&mut complete, &mut results);
    complete
}

fn append_sorted(complete: &mut Vec<HistoryItem>, results: &mut Vec<(usize, HistoryItem)>) {
    results.sort_by_key(|(call, _)| *call);
    complete.extend(results.drain(..).map(|(_, result)| result));
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::StopReason;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            name: "look".to_owned(),
            arguments: json!({}),
            call_id: id.to_owned(),
            provider_fields: None,
        }
    }

    fn result(id: &str, text: &str, is_error: bool) -> ToolResult {
        ToolResult {
            call_id: id.to_owned(),
            name: "look".to_owned(),
            result: text.to_owned(),
            is_error,
            duration_ms: None,
            details: CallDetails::default(),
        }
    }

    fn text(text: &str) -> BackendEvent {
        BackendEvent::Text {
            text: text.to_owned(),
        }
    }

    #[test]
    fn an_interrupted_turn_keeps_its_text_and_every_call_has_a_result() {
        let mut fold = HistoryFold::new("go");
        for event in [
            text("let me "),
            text("look"),
            BackendEvent::ToolCall(call("a")),
            BackendEvent::ToolCall(call("b")),
            BackendEvent::TurnEnd {
                stop_reason: StopReason::ToolUse,
                message_id: None,
                model: None,
            },
            BackendEvent::ToolResult(result("b", "seen", false)),
            text("so f"),
        ] {
            fold.observe(&event);
        }
        assert_eq!(
            fold.interrupted(),
            [
                HistoryItem::user("go"),
                HistoryItem::assistant("let me look"),
                HistoryItem::Call(call("a")),
                HistoryItem::Call(call("b")),
                HistoryItem::Result(result("a", INTERRUPTED, true)),
                HistoryItem::Result(result("b", "seen", false)),
                HistoryItem::Partial {
                    text: "so f".to_owned()
                },
            ]
        );
        assert_eq!(HistoryFold::new("go").interrupted(), []);
    }

    #[test]
    fn a_message_that_was_cut_off_is_replaced_by_the_next_one() {
        let cut = BackendEvent::TurnEnd {
            stop_reason: StopReason::aborted(),
            message_id: None,
            model: None,
        };
        let mut fold = HistoryFold::new("go");
        for event in [text("it is pro"), cut, text("it is probably")] {
            fold.observe(&event);
        }
        assert_eq!(
            fold.answered(),
            [HistoryItem::user("go"), HistoryItem::assistant("it is probably")]
        );
    }

    #[test]
    fn a_result_without_its_call_is_removed() {
        let opening = Opening::after([
            HistoryItem::Result(result("lost", "x", false)),
            HistoryItem::user("go"),
        ]);
        assert_eq!(opening.whole_history(), [HistoryItem::user("go")]);
    }

    #[test]
    fn results_have_the_order_of_their_calls() {
        let history = [
            HistoryItem::user("go"),
            HistoryItem::Call(call("a")),
            HistoryItem::Call(call("b")),
            HistoryItem::Result(result("b", "2", false)),
            HistoryItem::Result(result("a", "1", false)),
            HistoryItem::Call(call("a")),
            HistoryItem::Result(result("a", "3", false)),
        ];
        let ordered = Opening::after(history.to_vec()).whole_history();
        let texts = ordered.iter().filter_map(|item| match item {
            HistoryItem::Result(result) => Some(result.result.as_str()),
            _ => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["1", "2", "3"]);
    }

    #[test]
    fn items_have_stable_names() {
        let items = [
            HistoryItem::user("u"),
            HistoryItem::assistant("a"),
            HistoryItem::Call(call("c")),
            HistoryItem::Result(result("c", "r", false)),
            HistoryItem::Partial { text: "p".to_owned() },
        ];
        let stored = serde_json::to_value(&items).unwrap();
        assert_eq!(
            stored,
            json!([
                {"type": "user", "text": "u"},
                {"type": "assistant", "text": "a"},
                {"type": "call", "name": "look", "arguments": {}, "call_id": "c"},
                {"type": "result", "call_id": "c", "name": "look", "result": "r", "is_error": false},
                {"type": "partial", "text": "p"},
            ])
        );
        assert_eq!(serde_json::from_value::<Vec<HistoryItem>>(stored).unwrap(), items);
    }
}
