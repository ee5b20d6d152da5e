//! Frame sequences that no recording contains.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn results_wait_for_the_end_of_their_message() {
    let mut frames = vec![message_start("a")];
    for id in ["t1", "t2"] {
        let call = json!({"type": "tool_use", "id": id, "name": "mcp__holodeck_tools__f", "input": {}});
        frames.extend([
            block_start(&call),
            delta(&json!({"type": "input_json_delta", "partial_json": "{}"})),
            block("a", &call),
            block_stop(),
            tool_result(id),
        ]);
    }
    frames.extend(message_end("tool_use"));
    frames.push(tool_result("unknown"));
    let mut names = ToolNames::with_builtins();
    names.add_host_tool("f");
    let options = TranslateOptions {
        names,
        ..TranslateOptions::default()
    };
    assert_eq!(
        lines(&translate(options, &frames)),
        [
            "call t1 f {}",
            "call t2 f {}",
            "usage 9+4 cached 0/0 reasoning 0",
            "turn end ToolUse a m",
            "result t1 f \"ok\"",
            "result t2 f \"ok\"",
            "result unknown  \"ok\"",
        ]
    );
}

#[test]
fn a_block_that_never_arrives_complete_is_emitted() {
    let mut frames = vec![
        message_start("a"),
        block_start(&json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        delta(&json!({"type": "input_json_delta", "partial_json": "{\"a\""})),
        delta(&json!({"type": "input_json_delta", "partial_json": ":1}"})),
        block_stop(),
        // A repeated call is ignored, also after the message.
        block(
            "a",
            &json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}),
        ),
    ];
    frames.extend(message_end("tool_use"));
    frames.push(block("a", &json!({"type": "text", "text": "late"})));
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &frames)),
        [
            "call t f {\"a\":1}",
            "usage 9+4 cached 0/0 reasoning 0",
            "turn end ToolUse a m"
        ]
    );
}

#[test]
fn reasoning_that_only_the_provider_can_read_keeps_its_data() {
    let hidden = json!({"type": "redacted_thinking", "data": "opaque"});
    let mut frames = vec![
        message_start("a"),
        block_start(&hidden),
        block("a", &hidden),
        block_stop(),
        block_start(&json!({"type": "text", "text": "hi"})),
        block_stop(),
    ];
    frames.extend(message_end("end_turn"));
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &frames)),
        [
            "thinking end Some(\"opaque\")",
            "text \"hi\"",
            "usage 9+4 cached 0/0 reasoning 0",
            "turn end EndTurn a m",
        ]
    );
}

#[test]
fn reasoning_that_was_given_up_ends_once() {
    let frames = [
        message_start("a"),
        block_start(&json!({"type": "thinking", "thinking": ""})),
        delta(&json!({"type": "thinking_delta", "thinking": "hm"})),
        event(&json!({"type": "message_stop"})),
    ];
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &frames)),
        [
            "thinking \"hm\"",
            "thinking end None",
            "usage 9+0 cached 0/0 reasoning 0",
            "turn end Other(\"aborted\") a m"
        ]
    );
}

#[test]
fn a_call_that_was_given_up_is_not_emitted() {
    // How the CLI closes a message whose stream ended early.
    let frames = [
        message_start("a"),
        block_start(&json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        block_stop(),
        event(&json!({"type": "message_stop"})),
    ];
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &frames)),
        [
            "usage 9+0 cached 0/0 reasoning 0",
            "turn end Other(\"aborted\") a m"
        ]
    );
}

#[test]
fn a_complete_block_adds_only_what_was_not_streamed() {
    let mut frames = vec![
        message_start("a"),
        block_start(&json!({"type": "thinking", "thinking": ""})),
        delta(&json!({"type": "thinking_delta", "thinking": "h"})),
        delta(&json!({"type": "signature_delta", "signature": "s"})),
        block(
            "a",
            &json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        ),
        block_stop(),
        block_start(&json!({"type": "text", "text": ""})),
        delta(&json!({"type": "text_delta", "text": "one "})),
        block_stop(),
        block("a", &json!({"type": "text", "text": "one two"})),
        // Not streamed.
        block("a", &json!({"type": "text", "text": " three"})),
    ];
    frames.extend(message_end("max_tokens"));
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &frames)),
        [
            "thinking \"h\"",
            "thinking \"m\"",
            "thinking end Some(\"s\")",
            "text \"one \"",
            "text \"two\"",
            "text \" three\"",
            "usage 9+4 cached 0/0 reasoning 0",
            "turn end MaxTokens a m",
        ]
    );
}

#[test]
fn a_message_that_breaks_off_is_closed_before_the_next_and_not_counted() {
    let turn = translate(
        TranslateOptions::default(),
        &[
            message_start("a"),
            block_start(&json!({"type": "text", "text": ""})),
            delta(&json!({"type": "text_delta", "text": "half"})),
            json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": null}),
            block("b", &json!({"type": "text", "text": "whole"})),
            json!({
                "type": "result", "subtype": "success", "is_error": false, "result": "whole",
                "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 5},
            }),
        ],
    );
    assert_eq!(
        lines(&turn),
        [
            "text \"half\"",
            "turn end Other(\"aborted\") a m",
            "text \"whole\"",
            "turn end EndTurn b m",
            "other usage of -: 9+5 cached 0/0 reasoning 0",
        ]
    );
    assert_eq!(fold(&turn).finish(Outcome::Completed).response, "whole");
}

#[test]
fn tokens_of_the_cache_belong_to_the_prompt() {
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "",
        "usage": {
            "input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300,
            "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 7},
        },
    });
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &[result])),
        ["other usage of -: 321+50 cached 20/300 reasoning 7"]
    );
}

#[test]
fn tokens_and_cost_of_every_model_count() {
    let model = |input: u64, output: u64, usd: f64| json!({"inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 5, "costUSD": usd});
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "",
        "usage": {"input_tokens": 20, "output_tokens": 10}, "total_cost_usd": 99.5,
        "model_usage_since_last_result": {"main": model(20, 10, 0.25), "helper": model(900_000, 100_000, 2.5)},
    });
    assert_eq!(
        lines(&translate(TranslateOptions::default(), &[result])),
        [
            "other usage of helper: 900005+100000 cached 5/0 reasoning 0",
            "other usage of main: 25+10 cached 5/0 reasoning 0",
            "Cost { usd: 2.75 }"
        ]
    );
}

/// Older CLIs report only what the process used since its start.
#[test]
fn with_an_older_cli_each_turn_counts_what_was_added() {
    let spent =
        |input: u64, output: u64| json!({"inputTokens": input, "outputTokens": output, "costUSD": 0.5});
    let result = |models: Value| {
        json!({
            "type": "result", "subtype": "success", "is_error": false, "result": "",
            "usage": {"input_tokens": 20, "output_tokens": 10}, "modelUsage": models,
        })
    };
    let turns = [
        result(json!({"main": spent(20, 10), "helper": spent(7_000, 30)})),
        result(json!({"main": spent(40, 20), "helper": spent(7_500, 31)})),
        // The counts began again.
        result(json!({"main": spent(20, 10)})),
    ];
    let turn = translate(TranslateOptions::default(), &turns);
    assert_eq!(
        lines(&turn),
        [
            "other usage of helper: 7000+30 cached 0/0 reasoning 0",
            "other usage of main: 20+10 cached 0/0 reasoning 0",
            "Cost { usd: 1.0 }",
            "other usage of helper: 500+1 cached 0/0 reasoning 0",
            "other usage of main: 20+10 cached 0/0 reasoning 0",
            "Cost { usd: 0.0 }",
            "other usage of main: 20+10 cached 0/0 reasoning 0",
        ]
    );
}

#[test]
fn a_conversation_that_was_shortened_is_a_notice() {
    let frames = [
        json!({"type": "system", "subtype": "status", "status": "compacting"}),
        json!({"type": "system", "subtype": "status", "status": null, "compact_result": "success"}),
        json!({"type": "system", "subtype": "compact_boundary",
            "compact_metadata": {"trigger": "auto", "pre_tokens": 195_006, "post_tokens": 176}}),
        json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": "many"}}),
        json!({"type": "system", "subtype": "status", "compact_result": "failed", "compact_error": "no room"}),
    ];
    let shown = lines(&translate(TranslateOptions::default(), &frames)).join("\n");
    let summary = "the conversation filled the model's context, and the CLI put a summary in its place";
    assert_eq!(shown.matches("Notice").count(), 3, "{shown}");
    assert!(
        shown.contains(&format!("{summary} (195006 tokens became 176)")),
        "{shown}"
    );
    assert!(shown.contains(&format!("{summary}\"")), "{shown}");
    assert!(
        shown.contains("could not put a summary in its place: no room"),
        "{shown}"
    );
}

/// Without totals by model, what the messages say is all there is.
#[test]
fn without_totals_the_messages_of_subagents_are_counted() {
    let nested = json!({
        "type": "assistant", "parent_tool_use_id": "p", "session_id": "s",
        "message": {"id": "n", "model": "m", "role": "assistant", "content": [{"type": "text", "text": "x"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 7000, "output_tokens": 30}},
    });
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "",
        "usage": {"input_tokens": 20, "output_tokens": 10},
    });
    let turn = translate(TranslateOptions::default(), &[nested, result]);
    let folded = fold(&turn).finish(Outcome::Completed);
    assert_eq!(folded.token_usage.unwrap().total_tokens, 7060);
    assert_eq!(folded.cost_usd, None);
}

#[test]
fn an_answer_that_is_too_long_is_not_an_endpoint_error() {
    let turn = translate(
        TranslateOptions::default(),
        &[
            json!({
                "type": "assistant", "error": "max_output_tokens",
                "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "too long"}]},
            }),
            json!({"type": "result", "subtype": "success", "is_error": true, "result": "too long"}),
        ],
    );
    assert!(matches!(&turn.ending, Some(Ending::Ended(Outcome::Failed { reason })) if reason == "too long"));
}

#[test]
fn a_refusal_is_not_a_missing_object() {
    let mut frames = vec![message_start("a")];
    frames.extend(message_end("refusal"));
    frames.push(json!({"type": "result", "subtype": "success", "is_error": false, "result": ""}));
    let options = TranslateOptions {
        structured: true,
        ..TranslateOptions::default()
    };
    let turn = translate(options, &frames);
    assert!(matches!(
        turn.ending,
        Some(Ending::Answered {
            stop_reason: StopReason::Refusal,
            structured: None
        })
    ));
}

/// A structured answer that the model sent as these texts, one call each, and that the CLI read as `read`.
fn structured_answer(written: &[&str], read: &str, is_complete: bool) -> Option<String> {
    let mut frames = Vec::new();
    for (at, written) in written.iter().enumerate() {
        let (message, call) = (format!("m{at}"), format!("t{at}"));
        let call = |input: Value| json!({"type": "tool_use", "id": call, "name": "StructuredOutput", "input": input});
        frames.extend([message_start(&message), block_start(&call(json!({})))]);
        let (start, end) = written.split_at(written.len() / 2);
        for piece in [start, end] {
            frames.push(delta(&json!({"type": "input_json_delta", "partial_json": piece})));
        }
        if is_complete {
            frames.push(block(&message, &call(json!({"as": "JavaScript has it"}))));
        }
        frames.push(block_stop());
        frames.extend(message_end("tool_use"));
    }
    let options = TranslateOptions {
        structured: true,
        ..TranslateOptions::default()
    };
    let mut translator = Translator::new(options);
    let lines = frames.iter().map(Value::to_string);
    let result =
        format!(r#"{{"type":"result","subtype":"success","is_error":false,"structured_output":{read}}}"#);
    let endings = lines.chain([result]).map(|line| {
        let frame = parse(line.as_bytes()).unwrap();
        translator.observe(&frame, &mut |_| {})
    });
    match endings.last().flatten() {
        Some(Ending::Answered { structured, .. }) => structured,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_structured_answer_has_the_digits_that_the_model_sent() {
    let of = |score: &str| format!(r#"{{"reason":"a {{ \" b","score":{score}}}"#);
    for is_complete in [true, false] {
        for (sent, read) in [
            ("9.99999999999999999", "10"),
            ("10.0000000000000000001", "10"),
            ("1e1", "10"),
            ("1e-400", "0"),
            ("18446744073709551616", "18446744073709552000"),
            ("8", "8"),
        ] {
            let (sent, read) = (of(sent), of(read));
            let answer = |written: &[&str]| structured_answer(written, &read, is_complete);
            assert_eq!(answer(&[&sent]), Some(sent.clone()), "{sent}");
            // Other attempts, before and after, are not the one that the CLI took.
            let others = [of("3"), of("1e400"), "{\"score\"".to_owned()];
            for other in &others {
                assert_eq!(answer(&[other, &sent]), Some(sent.clone()), "{other}");
                assert_eq!(answer(&[&sent, other]), Some(sent.clone()), "{other}");
            }
        }
        // What JSON does not allow, and the CLI takes.
        for (sent, read) in [("a\nb", r"a\nb"), (r"a\ud800b", r"a\ud800b")] {
            let of = |reason: &str, score: &str| format!("{{\"reason\":\"{reason}\",\"score\":{score}}}");
            let sent = of(sent, "9.99999999999999999");
            assert_eq!(
                structured_answer(&[&sent], &of(read, "10"), is_complete),
                Some(sent)
            );
        }
        // What was not streamed is what the CLI wrote, also where no value holds its number.
        for read in ["10", "9.99999999999999999", "1e400", "18446744073709551616"].map(of) {
            assert_eq!(structured_answer(&[], &read, is_complete), Some(read.clone()));
            assert_eq!(
                structured_answer(&[&of("3")], &read, is_complete),
                Some(read.clone())
            );
        }
    }
}

/// E-34: a CLI that repeats the conversation before it continues.
#[test]
fn of_a_turn_that_repeats_the_conversation_only_what_is_new_is_emitted() {
    let call = json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}});
    let first = [
        json!({"type": "user", "message": {"content": [{"type": "text", "text": "one"}]}}),
        block(
            "a",
            &json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        ),
        block("a", &call),
        tool_result("t1"),
        block("b", &json!({"type": "text", "text": "It is a."})),
    ];
    let new = [
        json!({"type": "user", "message": {"content": [{"type": "text", "text": "two"}]}}),
        block("c", &json!({"type": "text", "text": "And b."})),
        success(),
    ];
    let mut translator = Translator::new(TranslateOptions::default());
    let mut emitted = |frames: &[Value]| {
        let mut turn = Turn::default();
        for frame in frames {
            let frame = parse(frame.to_string().as_bytes()).unwrap();
            translator.observe(&frame, &mut |event| turn.events.push(event));
        }
        lines(&turn)
    };
    let mut frames = first.to_vec();
    frames.push(success());
    assert!(emitted(&frames).contains(&"text \"It is a.\"".to_owned()));
    // A result without its call is ignored by the recorder.
    let repeated: Vec<Value> = first.iter().chain(&new).cloned().collect();
    let emitted: Vec<_> = emitted(&repeated)
        .into_iter()
        .filter(|line| !line.starts_with("result"))
        .collect();
    assert_eq!(emitted, ["text \"And b.\"", "turn end EndTurn c m"]);
}
