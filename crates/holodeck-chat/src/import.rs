//! Conversations that were held elsewhere, as runs.

use futures::stream;
use holodeck_backend_api::{BackendEvent, EventStream, ExecutionResult, HistoryItem, ResultFold};
use holodeck_model::events::StopReason;

/// The messages of the user with their answers. Messages that follow each other become one.
pub(crate) fn exchanges(history: Vec<HistoryItem>) -> Vec<(String, String)> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for item in history {
        match item {
            HistoryItem::User { text } => match exchanges.last_mut() {
                Some((message, answer)) if answer.is_empty() => append(message, &text),
                _ => exchanges.push((text, String::new())),
            },
            HistoryItem::Assistant { text } | HistoryItem::Partial { text } => match exchanges.last_mut() {
                Some((_, answer)) => append(answer, &text),
                // A conversation that the agent began.
                None => exchanges.push((String::new(), text)),
            },
            _ => {}
        }
    }
    exchanges
}

fn append(to: &mut String, text: &str) {
    if !to.is_empty() && !text.is_empty() {
        to.push_str("\n\n");
    }
    to.push_str(text);
}

/// The events of an answer that is known.
pub(crate) fn answered(text: String) -> EventStream<'static> {
    let mut fold = ResultFold::new();
    let mut events = Vec::new();
    if !text.is_empty() {
        events.push(BackendEvent::Text { text });
    }
    events.push(BackendEvent::TurnEnd {
        stop_reason: StopReason::EndTurn,
        message_id: None,
        model: None,
    });
    for event in &events {
        fold.observe(event);
    }
    events.push(BackendEvent::End(Box::new(
        fold.finish_answered(&StopReason::EndTurn),
    )));
    Box::pin(stream::iter(events.into_iter().map(Ok)))
}

/// A turn of a conversation that was recorded elsewhere, for instance by a test.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct PastTurn {
    /// The message of the person.
    pub message: String,
    /// The answer with its calls and their results.
    pub result: ExecutionResult,
}

/// The events of a turn whose result is known. A result has no text between calls, so that each call is a message of its
/// own.
pub(crate) fn replayed(result: ExecutionResult) -> EventStream<'static> {
    let end = |stop_reason| BackendEvent::TurnEnd {
        stop_reason,
        message_id: None,
        model: result.model.clone(),
    };
    let mut events = Vec::new();
    for (call, answer) in result.calls() {
        events.extend([BackendEvent::ToolCall(call.clone()), end(StopReason::ToolUse)]);
        events.extend(answer.cloned().map(BackendEvent::ToolResult));
    }
    if !result.response.is_empty() {
        let text = result.response.clone();
        events.extend([BackendEvent::Text { text }, end(StopReason::EndTurn)]);
    }
    events.extend(
        result
            .structured_output
            .clone()
            .map(BackendEvent::StructuredOutput),
    );
    events.push(BackendEvent::End(Box::new(result)));
    Box::pin(stream::iter(events.into_iter().map(Ok)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_follow_each_other_are_one() {
        let history = vec![
            HistoryItem::assistant("Welcome."),
            HistoryItem::user("a"),
            HistoryItem::user("b"),
            HistoryItem::assistant("c"),
            HistoryItem::user("d"),
        ];
        let pair = |message: &str, answer: &str| (message.to_owned(), answer.to_owned());
        assert_eq!(
            exchanges(history),
            [pair("", "Welcome."), pair("a\n\nb", "c"), pair("d", "")]
        );
    }
}
