//! Tests that frames of the real CLI are understood completely, and that hostile or unknown ones neither panic nor
//! disappear.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::recording::Recording;

fn read(value: &Value) -> Frame {
    parse(value.to_string().as_bytes()).unwrap()
}

#[test]
fn nothing_in_the_recordings_is_unknown() {
    for recording in Recording::all() {
        for frame in recording.frames() {
            match frame {
                Frame::Other { kind, .. } => panic!("{}: unknown {kind}", recording.name),
                Frame::System { subtype, .. } => assert!(
                    ["status", "task_updated", "task_progress", "thinking_tokens"]
                        .contains(&subtype.as_str()),
                    "{}: unknown system message {subtype}",
                    recording.name
                ),
                Frame::ControlRequest {
                    request: HostRequest::Other { subtype, .. },
                    ..
                } => panic!("{}: unknown request {subtype}", recording.name),
                Frame::StreamEvent(StreamFrame {
                    event: StreamEvent::Other { kind },
                    ..
                }) => panic!("{}: unknown event {kind}", recording.name),
                _ => {}
            }
        }
    }
}

#[test]
fn the_type_may_be_anywhere_and_unknown_fields_are_ignored() {
    let line = br#"{"zzz":[{"a":null}],"duration_api_ms":1,"is_error":false,"subtype":"success","type":"result","result":"ok"}"#;
    let Frame::Result(result) = parse(line).unwrap() else {
        panic!("not a result");
    };
    assert_eq!(result.result.as_deref(), Some("ok"));
    assert_eq!(result.usage, None);
}

#[test]
fn an_unknown_kind_is_preserved_completely() {
    let frame = read(&json!({"type": "telepathy", "a": {"b": 1}}));
    let Frame::Other { kind, body } = frame else {
        panic!("{frame:?}");
    };
    assert_eq!(kind, "telepathy");
    assert_eq!(body["a"], json!({"b": 1}));
    let frame = read(&json!({"type": "system", "subtype": "x", "a": 1}));
    assert!(matches!(frame, Frame::System { subtype, body } if subtype == "x" && body["a"] == 1));
}

#[test]
fn errors_do_not_contain_the_line() {
    for (line, reason) in [
        ("secret", "not JSON"),
        ("{\"type\":\"res", "incomplete JSON"),
        ("[]", "not an object"),
        ("{\"kind\":1}", "no `type`"),
        ("{\"type\":7}", "no `type`"),
        ("", "incomplete JSON"),
    ] {
        let error = parse(line.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("not a message of the CLI: {reason}"));
    }
}

#[test]
fn a_field_of_another_type_counts_as_absent() {
    let frame = read(&json!({
        "type": "result", "subtype": "success", "is_error": "no", "result": 7, "usage": [], "errors": {"a": 1},
        "api_error_status": 70_000, "permission_denials": [1, {"tool_name": "Bash"}], "origin": "x",
    }));
    let expected = ResultFrame {
        subtype: "success".to_owned(),
        denials: vec![outcome::Denial {
            tool_name: "Bash".to_owned(),
            call_id: None,
        }],
        ..ResultFrame::default()
    };
    assert_eq!(frame, Frame::Result(Box::new(expected)));
}

#[test]
fn half_a_character_is_replaced() {
    // The output of JavaScript for a text that was cut in the middle of an emoji.
    for (written, text) in [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude00b", "\u{fffd}b"),
        (
            r"\ud83d\ude00 \ud83d x \\ud83d \ud83d\n",
            "😀 \u{fffd} x \\ud83d \u{fffd}\n",
        ),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
    ] {
        let line = format!(r#"{{"type":"result","subtype":"success","result":"{written}"}}"#);
        let Frame::Result(result) = parse(line.as_bytes()).unwrap() else {
            panic!("not a result");
        };
        assert_eq!(result.result.as_deref(), Some(text), "{written}");
    }
    let Frame::Result(result) = parse(b"{\"type\":\"result\",\"result\":\"a\xffb\"}").unwrap() else {
        panic!("not a result");
    };
    assert_eq!(result.result.as_deref(), Some("a\u{fffd}b"));
}

#[test]
fn a_tool_result_is_its_text() {
    for (content, text) in [
        (json!("plain"), "plain"),
        (
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "a\nb",
        ),
        (
            json!([{"type": "image", "source": {}}, {"type": "text", "text": "a"}]),
            "[image]\na",
        ),
        (json!(null), ""),
        (json!([]), ""),
    ] {
        let frame = read(&json!({
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]},
        }));
        let Frame::User(frame) = frame else {
            panic!("{frame:?}")
        };
        let expected = Block::ToolResult {
            call_id: "t".to_owned(),
            text: text.to_owned(),
            is_error: false,
        };
        assert_eq!(frame.blocks, [expected]);
    }
}

#[test]
fn a_request_of_the_cli_is_typed() {
    let frame = read(&json!({
        "type": "control_request", "request_id": "1",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t"},
    }));
    let expected = HostRequest::CanUseTool(CanUseTool {
        tool_name: "Bash".to_owned(),
        input: json!({"command": "ls"}),
        tool_use_id: Some("t".to_owned()),
        ..CanUseTool::default()
    });
    assert_eq!(
        frame,
        Frame::ControlRequest {
            request_id: "1".to_owned(),
            request: expected
        }
    );
    let frame = read(
        &json!({"type": "control_request", "request_id": "2", "request": {"subtype": "sing", "key": "C"}}),
    );
    let Frame::ControlRequest {
        request: HostRequest::Other { subtype, body },
        ..
    } = frame
    else {
        panic!("{frame:?}");
    };
    assert_eq!((subtype.as_str(), &body["key"]), ("sing", &json!("C")));
    assert!(matches!(
        read(&json!({"type": "control_request"})),
        Frame::Other { .. }
    ));
    assert!(matches!(
        read(&json!({"type": "control_cancel_request", "request_id": "3"})),
        Frame::ControlCancel { request_id } if request_id == "3"
    ));
}

#[test]
fn an_answer_of_the_cli_is_a_value_or_an_error() {
    let success = read(&json!({
        "type": "control_response", "response": {"subtype": "success", "request_id": "1", "response": {"a": 1}},
    }));
    let expected = Frame::ControlResponse {
        request_id: "1".to_owned(),
        outcome: Ok(json!({"a": 1})),
    };
    assert_eq!(success, expected);
    let error = read(&json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": "1", "error": "no", "error_code": "invalid_mode"},
    }));
    let expected = Frame::ControlResponse {
        request_id: "1".to_owned(),
        outcome: Err(ControlError {
            message: "no".to_owned(),
            code: Some("invalid_mode".to_owned()),
        }),
    };
    assert_eq!(error, expected);
}

#[test]
fn what_is_written_is_one_line_each() {
    let written = [
        user_message("two\nlines", &[], Some("u-1"), Delivery::Verbatim),
        user_message("/clear", &[], None, Delivery::Interpreted),
        control_request("r1", &json!({"subtype": "initialize", "hooks": null})),
        control_success("r2", &json!({"behavior": "allow"})),
        control_error("r3", "no such tool"),
    ];
    for line in &written {
        assert_eq!(line.matches('\n').count(), 1, "{line}");
    }
    insta::assert_snapshot!(written.concat());
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&line);
    }

    #[test]
    fn random_text_in_a_message_survives(text in any::<String>()) {
        let frame = read(&json!({"type": "result", "result": text}));
        let Frame::Result(result) = frame else { panic!("{frame:?}") };
        prop_assert_eq!(result.result, Some(text));
    }

    #[test]
    fn a_message_with_any_field_replaced_is_still_parsed(
        recording in proptest::sample::select(vec!["thinking", "subagent", "permission_allow", "structured_output"]),
        at in any::<proptest::sample::Index>(),
        field in any::<proptest::sample::Index>(),
        with in proptest::sample::select(vec![json!(null), json!(7), json!("x"), json!([]), json!({"a": {}})]),
    ) {
        let output = String::from_utf8(Recording::read(recording).output()).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        let mut message: Value = serde_json::from_str(at.get::<&str>(&lines)).unwrap();
        let fields: Vec<String> = message.as_object().unwrap().keys().cloned().collect();
        let field: &String = field.get(&fields);
        message[field] = with;
        let is_frame = parse(message.to_string().as_bytes()).is_ok();
        prop_assert_eq!(is_frame, message["type"].is_string());
    }
}
