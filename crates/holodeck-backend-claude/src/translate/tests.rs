//! Split by the source of the frames: recordings, or the test itself.

mod frames;
mod recordings;

use std::fmt::Write as _;

use holodeck_backend_api::{ResultFold, TokenUsage};
use serde_json::{Value, json};

use super::*;
use crate::{
    recording::{Recording, Turn},
    wire::parse,
};

/// Formats events and endings readably.
fn format_turns(turns: &[Turn]) -> String {
    let mut text = String::new();
    for turn in turns {
        for event in &turn.events {
            writeln!(text, "{}", event_line(event)).unwrap();
        }
        match &turn.ending {
            Some(ending) => writeln!(text, "=> {ending:?}").unwrap(),
            None => text.push_str("=> nothing more came\n"),
        }
        if turn.background > 0 {
            writeln!(text, "   {} subagents continue", turn.background).unwrap();
        }
    }
    text
}

fn event_line(event: &BackendEvent) -> String {
    match event {
        BackendEvent::Nested {
            parent_call_id,
            event,
        } => format!("  [{parent_call_id}] {}", event_line(event)),
        BackendEvent::Text { text } => format!("text {text:?}"),
        BackendEvent::Thinking { text } => format!("thinking {text:?}"),
        BackendEvent::ThinkingEnd { signature } => format!("thinking end {signature:?}"),
        BackendEvent::StructuredOutput(value) => format!("structured {value}"),
        BackendEvent::ToolCall(call) => format!("call {} {} {}", call.call_id, call.name, call.arguments),
        BackendEvent::ToolResult(result) => format!(
            "result {} {} {:?}{}",
            result.call_id,
            result.name,
            result.result,
            if result.is_error { " error" } else { "" }
        ),
        BackendEvent::Usage(usage) => usage_line("usage", usage),
        BackendEvent::OtherUsage { model, usage } => {
            let of = format!("other usage of {}:", model.as_deref().unwrap_or("-"));
            usage_line(&of, usage)
        }
        BackendEvent::TurnEnd {
            stop_reason,
            message_id,
            model,
        } => format!(
            "turn end {stop_reason:?} {} {}",
            message_id.as_deref().unwrap_or("-"),
            model.as_deref().unwrap_or("-")
        ),
        BackendEvent::SessionStarted { session_id, model } => {
            format!("session {session_id} {}", model.as_deref().unwrap_or("-"))
        }
        other => format!("{other:?}"),
    }
}

fn usage_line(title: &str, usage: &TokenUsage) -> String {
    format!(
        "{title} {}+{} cached {}/{} reasoning {}",
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cache_read_tokens,
        usage.cache_creation_tokens,
        usage.reasoning_tokens
    )
}

fn main_events(turn: &Turn) -> Vec<&BackendEvent> {
    let is_main = |event: &&BackendEvent| !matches!(event, BackendEvent::Nested { .. });
    turn.events.iter().filter(is_main).collect()
}

fn fold(turn: &Turn) -> ResultFold {
    let mut fold = ResultFold::new();
    for event in &turn.events {
        fold.observe(event);
    }
    fold
}

fn text_of(events: &[&BackendEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        BackendEvent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn lines(turn: &Turn) -> Vec<String> {
    turn.events.iter().map(event_line).collect()
}

/// Translates frames that a test defines.
fn translate(options: TranslateOptions, frames: &[Value]) -> Turn {
    let mut translator = Translator::new(options);
    let mut turn = Turn::default();
    for frame in frames {
        let frame = parse(frame.to_string().as_bytes()).unwrap();
        let ending = translator.observe(&frame, &mut |event| turn.events.push(event));
        turn.ending = turn.ending.or(ending);
    }
    turn
}

fn block(id: &str, block: &Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "m", "content": [block], "stop_reason": null}})
}

fn event(event: &Value) -> Value {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null})
}

fn message_start(id: &str) -> Value {
    event(
        &json!({"type": "message_start", "message": {"id": id, "model": "m", "usage": {"input_tokens": 9}}}),
    )
}

fn block_start(block: &Value) -> Value {
    event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
}

fn delta(delta: &Value) -> Value {
    event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

fn block_stop() -> Value {
    event(&json!({"type": "content_block_stop", "index": 0}))
}

fn message_end(stop_reason: &str) -> [Value; 2] {
    [
        event(
            &json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 4}}),
        ),
        event(&json!({"type": "message_stop"})),
    ]
}

fn tool_result(id: &str) -> Value {
    json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]}})
}

fn success() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "stop_reason": "end_turn"})
}
