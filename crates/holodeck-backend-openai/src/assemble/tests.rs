//! Tests that chunks give the same answer however they are split, and that malformed chunks never panic.

use holodeck_http::{SseDecoder, SseEvent};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::*;

fn deltas(chunks: &[Value]) -> Result<Vec<ModelDelta>, BackendError> {
    let mut assembler = Assembler::default();
    let mut deltas = Vec::new();
    for chunk in chunks {
        assembler.push(Chunk::deserialize(chunk).unwrap(), &mut deltas);
    }
    deltas.extend(assembler.finish()?);
    Ok(deltas)
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(chunks: &[Value]) -> Vec<(String, Value, String)> {
    let all = deltas(chunks).unwrap().into_iter();
    all.filter_map(|delta| match delta {
        ModelDelta::ToolCall(call) => Some((call.name, call.arguments, call.call_id)),
        _ => None,
    })
    .collect()
}

fn fragment(fragment: &Value) -> Value {
    delta(&json!({"tool_calls": [fragment]}))
}

#[test]
fn an_answer_with_everything() {
    let chunks = [
        json!({"id": "x1", "model": "m-1", "choices": [], "prompt_filter_results": []}),
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "hm", "reasoning": "hm"})),
        delta(&json!({"content": "Hel"})),
        delta(&json!({"content": "lo", "audio": null, "future": {"a": 1}})),
        end("stop"),
        json!({"id": "x1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
    ];
    assert_eq!(
        deltas(&chunks).unwrap(),
        [
            ModelDelta::Reasoning("hm".to_owned()),
            ModelDelta::Text("Hel".to_owned()),
            ModelDelta::Text("lo".to_owned()),
            ModelDelta::Usage(holodeck_backend_api::TokenUsage::new(1, 2)),
            ModelDelta::Finish {
                stop_reason: StopReason::EndTurn,
                message_id: Some("x1".to_owned()),
                model: Some("m-1".to_owned()),
                recorded: None,
            },
        ]
    );
}

/// The rows of a table of reasons: the word and its family.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let table = include_str!("../../../../fixtures/dialects/finish-reasons/reasons.tsv");
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?))
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 30, "{rows:?}");
    rows
}

#[test]
fn each_reason_of_the_table_ends_an_answer_as_its_family() {
    for (word, family) in reasons() {
        for spelling in [word.to_owned(), word.to_lowercase(), word.to_uppercase()] {
            let text = delta(&json!({"content": "a"}));
            let ended = deltas(&[text, end(&spelling)]);
            let (found, is_marked) = match &ended {
                Err(BackendError::Provider { explanation, .. }) => {
                    let is_of_calls = explanation.message.contains("tool calls but sent none");
                    assert!(
                        is_of_calls || explanation.message.contains(&spelling),
                        "{ended:?}"
                    );
                    (if is_of_calls { "calls" } else { "failure" }, false)
                }
                Ok(deltas) => match deltas.last() {
                    Some(ModelDelta::Finish { stop_reason, .. }) => {
                        let family = match stop_reason.family() {
                            StopFamily::End => "end",
                            StopFamily::Truncated => "truncated",
                            StopFamily::Refusal => "refusal",
                            other => panic!("{spelling}: {other:?}"),
                        };
                        (family, stop_reason.truncation().is_some())
                    }
                    other => panic!("{spelling}: {other:?}"),
                },
                Err(other) => panic!("{spelling}: {other:?}"),
            };
            assert_eq!((found, is_marked), (family, family == "truncated"), "{spelling}");
        }
    }
}

#[test]
fn an_unknown_reason_is_kept_and_counts_as_a_cut() {
    for (reason, word) in [
        (json!("OTHER"), "OTHER"),
        (json!(2), "2"),
        (json!(["length"]), "[\"length\"]"),
        (json!({"type": "stop"}), "{\"type\":\"stop\"}"),
        (json!(true), "true"),
    ] {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": reason}]});
        let last = deltas(&[chunk]).unwrap().pop();
        let Some(ModelDelta::Finish { stop_reason, .. }) = last else {
            panic!("{last:?}");
        };
        assert_eq!(stop_reason.as_str(), word);
        assert_eq!(stop_reason.truncation(), Some(&stop_reason));
    }
}

#[test]
fn a_later_reason_does_not_complete_a_cut_answer() {
    for (first, second, expected) in [
        ("length", "stop", Some("max_tokens")),
        ("MAX_TOKENS", "tool_calls", Some("MAX_TOKENS")),
        ("SAFETY", "stop", Some("SAFETY")),
        ("network_error", "stop", None),
        ("stop", "length", Some("max_tokens")),
        ("in_progress", "stop", Some("end_turn")),
        ("stop", "in_progress", Some("in_progress")),
    ] {
        let text = delta(&json!({"content": "a"}));
        let last = deltas(&[text, end(first), end(second)]);
        let found = last.ok().and_then(|deltas| match deltas.last() {
            Some(ModelDelta::Finish { stop_reason, .. }) => Some(stop_reason.to_string()),
            _ => None,
        });
        assert_eq!(found.as_deref(), expected, "{first}, then {second}");
    }
}

#[test]
fn a_stream_with_its_end_but_without_a_reason_is_complete_if_it_has_content() {
    let ended = |chunks: &[Value], is_done| {
        let mut assembler = Assembler::default();
        let mut deltas = Vec::new();
        for chunk in chunks {
            assembler.push(Chunk::deserialize(chunk).unwrap(), &mut deltas);
        }
        if is_done {
            assembler.mark_done();
        }
        assembler.finish().map(|deltas| match deltas.last() {
            Some(ModelDelta::Finish { stop_reason, .. }) => stop_reason.to_string(),
            other => panic!("{other:?}"),
        })
    };
    let text = [delta(&json!({"content": "Hello there."}))];
    let call = [fragment(&json!({"id": "a", "function": {"name": "f"}}))];
    let null = [
        text[0].clone(),
        json!({"choices": [{"delta": {}, "finish_reason": null}]}),
    ];
    assert_eq!(ended(&text, true).unwrap(), "not_reported");
    assert_eq!(ended(&null, true).unwrap(), "not_reported");
    assert_eq!(ended(&call, true).unwrap(), "tool_use");
    for (chunks, is_done) in [(&text[..], false), (&call, false), (&null, false), (&[], true)] {
        let error = ended(chunks, is_done).unwrap_err();
        assert_eq!(error.to_string(), "the stream ended early");
    }
}

#[test]
fn fields_of_a_wrong_type_count_as_absent() {
    let odd = json!({
        "id": 7, "model": null, "usage": "none", "created": 1.5,
        "choices": [
            {"index": 0, "delta": {"content": "a", "refusal": false, "tool_calls": null}, "finish_reason": 0},
            {"index": 1, "delta": {"content": null}},
        ],
    });
    let found = deltas(&[odd, json!({"choices": null}), end("stop")]).unwrap();
    assert_eq!(found[0], ModelDelta::Text("a".to_owned()));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_word_for_no_reason_after_a_reason_changes_nothing() {
    let ended = |reasons: &[&str]| {
        let text = delta(&json!({"content": "a"}));
        let chunks: Vec<Value> = std::iter::once(text)
            .chain(reasons.iter().map(|reason| end(reason)))
            .collect();
        match deltas(&chunks).unwrap().pop() {
            Some(ModelDelta::Finish { stop_reason, .. }) => stop_reason.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for word in ["", "null"] {
        assert_eq!(ended(&["stop", word]), "end_turn", "{word:?}");
        assert_eq!(ended(&["length", word]), "max_tokens", "{word:?}");
        // Alone, it is a reason that is not known.
        assert_ne!(ended(&[word]), "end_turn", "{word:?}");
    }
}

#[test]
fn without_a_finish_reason_the_answer_is_incomplete() {
    let error = deltas(&[delta(&json!({"content": "half"}))]).unwrap_err();
    assert_eq!(error.to_string(), "the stream ended early");
}

#[test]
fn calls_in_fragments_by_index() {
    let chunks = [
        fragment(
            &json!({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
        ),
        fragment(&json!({"index": 1, "id": "b", "function": {"name": "g"}})),
        fragment(&json!({"index": 0, "function": {"arguments": "{\"x\""}})),
        fragment(&json!({"index": 1, "id": "", "function": {"name": "", "arguments": "{}"}})),
        fragment(&json!({"index": 0, "id": null, "function": {"name": null, "arguments": ":1}"}})),
        end("tool_calls"),
    ];
    assert_eq!(
        calls(&chunks),
        [
            ("f".to_owned(), json!({"x": 1}), "a".to_owned()),
            ("g".to_owned(), json!({}), "b".to_owned()),
        ]
    );
}

#[test]
fn calls_as_servers_misspell_them() {
    // Always index 0, one call a chunk; arguments as an object; no index at all; the name repeated.
    let same_index = [
        fragment(&json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})),
        fragment(&json!({"index": 0, "id": "b", "function": {"name": "f", "arguments": {"x": 1}}})),
        end("stop"),
    ];
    let no_index = [
        fragment(&json!({"id": "a", "function": {"name": "f", "arguments": "{"}})),
        fragment(&json!({"id": "a", "function": {"name": "f", "arguments": "}"}})),
        fragment(&json!({"id": "b", "function": {"name": "f", "arguments": "{\"x\""}})),
        fragment(&json!({"function": {"arguments": ":1}"}})),
        end("stop"),
    ];
    let expected = [
        ("f".to_owned(), json!({}), "a".to_owned()),
        ("f".to_owned(), json!({"x": 1}), "b".to_owned()),
    ];
    assert_eq!(calls(&same_index), expected);
    assert_eq!(calls(&no_index), expected);
}

#[test]
fn arguments_that_are_not_json_stay_text() {
    let chunks = [
        fragment(&json!({"index": 0, "function": {"name": "f", "arguments": "{\"x\": "}})),
        end("length"),
    ];
    assert_eq!(
        calls(&chunks),
        [("f".to_owned(), json!("{\"x\": "), String::new())]
    );
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let error = deltas(&[fragment(&json!({"index": 0, "id": "a"})), end("stop")]).unwrap_err();
    assert!(matches!(error, BackendError::Protocol { .. }));
}

#[test]
fn stop_with_calls_means_tools() {
    let chunks = [
        fragment(&json!({"index": 0, "id": "a", "function": {"name": "f"}})),
        end("stop"),
    ];
    let last = deltas(&chunks).unwrap().pop().unwrap();
    assert!(matches!(
        last,
        ModelDelta::Finish {
            stop_reason: StopReason::ToolUse,
            ..
        }
    ));
}

#[test]
fn a_whole_answer_reads_like_a_chunk() {
    let answer = json!({
        "id": "x", "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": null, "refusal": "no",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            "finish_reason": "tool_calls",
        }],
    });
    let found = deltas(&[answer]).unwrap();
    assert_eq!(found[0], ModelDelta::Refusal("no".to_owned()));
    assert!(matches!(&found[1], ModelDelta::ToolCall(call) if call.name == "f"));
    assert!(matches!(
        &found[3],
        ModelDelta::Finish {
            stop_reason: StopReason::Refusal,
            ..
        }
    ));
}

/// A stream as a server sends it, and the expected deltas.
fn stream() -> (Vec<u8>, Vec<ModelDelta>) {
    let arguments = ["{\"te", "xt\": \"ä", " 🎉\"", "}"];
    let mut chunks = vec![
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "hm\n"})),
        delta(&json!({"content": "grüß "})),
        delta(&json!({"content": "🎉"})),
        fragment(&json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
    ];
    chunks.extend(arguments.map(|piece| fragment(&json!({"index": 0, "function": {"arguments": piece}}))));
    chunks.push(end("tool_calls"));
    chunks.push(json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}));
    let expected = deltas(&chunks).unwrap();
    let data: String = chunks
        .iter()
        .flat_map(|chunk| ["data: ".to_owned(), chunk.to_string(), "\r\n\r\n".to_owned()])
        .collect();
    ((data + "data: [DONE]\n\n").into_bytes(), expected)
}

fn read(pieces: &[&[u8]]) -> Vec<ModelDelta> {
    let mut decoder = SseDecoder::new(usize::MAX);
    let mut events: Vec<SseEvent> = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events).unwrap();
    }
    events.extend(decoder.finish());
    assert_eq!(events.pop().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(&event.data).unwrap())
        .collect();
    deltas(&chunks).unwrap()
}

#[test]
fn a_stream_split_at_every_byte_gives_the_same_deltas() {
    let (bytes, expected) = stream();
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(read(&[left, right]), expected, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single), expected);
}

proptest! {
    #[test]
    fn splits_never_matter(mut cuts in prop::collection::vec(0_usize..2000, 0..12)) {
        let (bytes, expected) = stream();
        cuts.retain(|cut| *cut < bytes.len());
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[start..cut]);
            start = cut;
        }
        prop_assert_eq!(read(&pieces), expected);
    }

    #[test]
    fn arguments_in_any_pieces_are_the_same_arguments(cuts in prop::collection::vec(1_usize..6, 1..20)) {
        let arguments = json!({"text": "grüße 🎉", "n": [1, 2.5, null], "deep": {"a": {"b": "\"\\"}}});
        let text: Vec<char> = arguments.to_string().chars().collect();
        let mut chunks = vec![fragment(&json!({"index": 0, "id": "a", "function": {"name": "f"}}))];
        let mut rest = text.as_slice();
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, left) = rest.split_at(cut.min(rest.len()));
            rest = left;
            let piece = String::from_iter(piece);
            chunks.push(fragment(&json!({"index": 0, "function": {"arguments": piece}})));
        }
        chunks.push(end("tool_calls"));
        prop_assert_eq!(calls(&chunks), vec![("f".to_owned(), arguments, "a".to_owned())]);
    }

    #[test]
    fn any_json_is_read_or_refused(
        keys in prop::collection::vec("(choices|delta|message|content|tool_calls|function|arguments|index|id|usage|finish_reason|error)", 0..8),
        leaf in prop::sample::select(vec![json!(null), json!(1.5), json!(-1), json!("x"), json!([]), json!({}), json!([[{}]])]),
    ) {
        let value = keys.iter().rev().fold(leaf, |inner, key| match key.as_str() {
            "choices" | "tool_calls" => json!({key: [inner]}),
            key => json!({key: inner}),
        });
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        if let Ok(chunk) = Chunk::deserialize(&value) {
            assembler.push(chunk, &mut found);
            let _ = assembler.finish();
        }
    }
}
