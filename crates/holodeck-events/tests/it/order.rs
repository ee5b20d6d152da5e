//! Tests of the order of recorded events: reasoning, text, calls and results.

use holodeck_backend_api::{BackendEvent, StopReason};
use holodeck_model::events::{EventBody, EventClass};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{answered, call, result, stop, text, thinking, thought, usage},
    session::{TestSession, record_run},
};

#[test]
fn a_plain_prompt() {
    let session = record_run(answered([
        text("30 "),
        text("days"),
        stop(StopReason::EndTurn, "msg_1"),
    ]));
    assert_eq!(
        session.shape(),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"30 \"",
            "- message_chunk 0 \"days\"",
            "1 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn reasoning_before_text() {
    let emitted = [
        thinking("let me "),
        thinking("see"),
        thought("sig"),
        text("30 days"),
        stop(StopReason::EndTurn, "msg_1"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "- thinking_chunk 0 \"let me \"",
            "- thinking_chunk 0 \"see\"",
            "- thinking_complete 0 \"let me see\"",
            "- message_chunk 1 \"30 days\"",
            "1 thinking \"let me see\" signed sig",
            "2 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn what_a_client_does_not_get_whole_is_marked() {
    let mut long = result("toolu_1", "search", "30");
    let BackendEvent::ToolResult(cut) = &mut long else {
        unreachable!()
    };
    cut.details.truncated = true;
    let emitted = [
        thinking("hm"),
        thought("sig"),
        // The provider keeps the text of this block.
        thought("encrypted"),
        call("toolu_1", "search"),
        stop(StopReason::ToolUse, "msg_1"),
        long,
        text("30 days"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    let shape = record_run(answered(emitted)).shape();
    assert!(
        shape.contains(&r#"1 thinking "hm" in 2 blocks redacted"#.to_owned()),
        "{shape:#?}"
    );
    assert!(
        shape.contains(&r#"3 tool_result toolu_1 ok "30" truncated"#.to_owned()),
        "{shape:#?}"
    );
}

#[test]
fn one_tool() {
    let emitted = [
        text("let me look"),
        call("toolu_1", "search"),
        stop(StopReason::ToolUse, "msg_1"),
        result("toolu_1", "search", "30"),
        text("30 days"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"let me look\"",
            "1 message tool_use \"let me look\"",
            "2 tool_use toolu_1 search",
            "3 tool_result toolu_1 ok \"30\"",
            "- message_chunk 0 \"30 days\"",
            "4 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn a_call_without_text_has_no_message() {
    let emitted = [
        call("toolu_1", "search"),
        usage(10, 5),
        stop(StopReason::ToolUse, "msg_1"),
        result("toolu_1", "search", "30"),
        text("30 days"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use toolu_1 search",
            "2 tool_result toolu_1 ok \"30\"",
            "- message_chunk 0 \"30 days\"",
            "3 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn parallel_tools_in_the_order_they_finish() {
    let emitted = [
        call("a", "first"),
        call("b", "second"),
        stop(StopReason::ToolUse, "msg_1"),
        result("b", "second", "2"),
        result("a", "first", "1"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "1 tool_use a first",
            "2 tool_use b second",
            "3 tool_result b ok \"2\"",
            "4 tool_result a ok \"1\"",
            "- message_chunk 0 \"done\"",
            "5 message end_turn \"done\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn reasoning_of_each_turn_directly_before_its_message_or_tools() {
    let emitted = [
        thinking("one"),
        text("first"),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
        thinking("two"),
        call("b", "f"),
        stop(StopReason::ToolUse, "msg_2"),
        result("b", "f", "2"),
        thinking("three"),
        text("last"),
        stop(StopReason::EndTurn, "msg_3"),
    ];
    let session = record_run(answered(emitted));
    let pruned: Vec<_> = session.pruned().iter().map(crate::session::shape).collect();
    assert_eq!(
        pruned,
        [
            "0 user_message_confirmed go",
            "1 thinking \"one\"",
            "2 message tool_use \"first\"",
            "3 tool_use a f",
            "4 tool_result a ok \"1\"",
            "5 thinking \"two\"",
            "6 tool_use b f",
            "7 tool_result b ok \"2\"",
            "8 thinking \"three\"",
            "9 message end_turn \"last\"",
            "- complete success end_turn",
        ]
    );
    let turns: Vec<_> = session
        .pruned()
        .iter()
        .filter_map(|event| event.meta.turn)
        .collect();
    assert_eq!(turns, [1, 1, 1, 1, 2, 2, 2, 3, 3]);
}

#[test]
fn late_reasoning_is_stored_and_not_streamed() {
    let emitted = [
        thinking("early "),
        text("30 "),
        thinking("late"),
        text("days"),
        stop(StopReason::EndTurn, "msg_1"),
    ];
    assert_eq!(
        record_run(answered(emitted)).shape(),
        [
            "0 user_message_confirmed go",
            "- thinking_chunk 0 \"early \"",
            "- thinking_complete 0 \"early \"",
            "- message_chunk 1 \"30 \"",
            "- message_chunk 3 \"days\"",
            "1 thinking \"early late\" in 2 blocks",
            "2 message end_turn \"30 days\"",
            "- complete success end_turn",
        ]
    );
}

#[test]
fn no_chunk_has_a_sequence_number() {
    let emitted = [thinking("hm"), text("30"), stop(StopReason::EndTurn, "msg_1")];
    for event in record_run(answered(emitted)).stored() {
        let number = event.event().meta.sequence_number;
        assert_eq!(number.is_some(), event.class() == EventClass::Stored, "{event:?}");
    }
}

/// A backend gives whole characters: what is split inside of one is put together where bytes are read, and tested
/// there. Here a piece may be as short as a character.
#[test]
fn where_text_is_split_changes_only_the_chunks() {
    let whole = "für 30 Tage – 日本語 🦀";
    let pruned = |pieces: Vec<&str>| {
        let emitted = pieces
            .into_iter()
            .map(text)
            .chain([stop(StopReason::EndTurn, "msg_1")]);
        let session = record_run(answered(emitted));
        let pruned: Vec<_> = session.pruned().iter().map(crate::session::shape).collect();
        pruned
    };
    let expected = pruned(vec![whole]);
    for (at, _) in whole.char_indices() {
        let (left, right) = whole.split_at(at);
        assert_eq!(pruned(vec![left, right]), expected);
    }
    let each: Vec<_> = whole.split("").filter(|piece| !piece.is_empty()).collect();
    assert_eq!(pruned(each), expected);
}

#[test]
fn a_second_run_continues_the_numbers_of_its_session() {
    let mut session = TestSession::new();
    for answer in ["one", "two"] {
        session.run("go", answered([text(answer), stop(StopReason::EndTurn, "msg")]));
    }
    assert_eq!(
        session
            .pruned()
            .iter()
            .map(crate::session::shape)
            .collect::<Vec<_>>(),
        [
            "0 user_message_confirmed go",
            "1 message end_turn \"one\"",
            "- complete success end_turn",
            "2 user_message_confirmed go",
            "3 message end_turn \"two\"",
            "- complete success end_turn",
        ]
    );
    let indices: Vec<_> = session
        .stored()
        .iter()
        .map(holodeck_events::StoredEvent::index)
        .collect();
    assert_eq!(indices, (0..8).collect::<Vec<_>>());
}

#[test]
fn the_message_names_its_model_its_tokens_and_the_providers_id() {
    let session = record_run(answered([
        text("hi"),
        usage(10, 5),
        stop(StopReason::EndTurn, "msg_1"),
    ]));
    let events = session.events();
    let message = events.iter().find_map(|event| match &event.body {
        EventBody::Message(message) => Some(message),
        _ => None,
    });
    let message = message.unwrap();
    assert_eq!(message.message_id, "msg_1");
    assert_eq!(message.model.as_deref(), Some("m-1"));
    assert_eq!(message.usage.unwrap().total_tokens, 15);
}

#[test]
fn an_answer_as_an_object_is_a_message_unless_the_model_wrote_it() {
    let answer = || holodeck_backend_api::BackendEvent::StructuredOutput(serde_json::json!({"n": 1}));
    let shape = |emitted: Vec<_>| record_run(answered(emitted)).shape();
    assert_eq!(
        shape(vec![stop(StopReason::ToolUse, "msg_1"), answer()]),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"{\\\"n\\\":1}\"",
            "1 message end_turn \"{\\\"n\\\":1}\"",
            "- complete success end_turn",
        ]
    );
    assert_eq!(
        shape(vec![
            text("{\"n\": 1}"),
            stop(StopReason::EndTurn, "msg_1"),
            answer()
        ]),
        [
            "0 user_message_confirmed go",
            "- message_chunk 0 \"{\\\"n\\\": 1}\"",
            "1 message end_turn \"{\\\"n\\\": 1}\"",
            "- complete success end_turn",
        ]
    );
}
