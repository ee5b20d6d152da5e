//! An answer that a stream cuts or repeats in parts is the same as in one piece: letters that are two escapes, fields that go back, and numbers with
//! many digits.

use std::sync::Arc;

use holodeck_backend_api::{ModelDelta, ToolCall};
use holodeck_model::Env;
use holodeck_testkit::{ModelServer, Reply, ScriptedTools};
use pretty_assertions::assert_eq;
use serde_json::{Map, Value, json};

use crate::setup::{agent, agent_of, ask, calls, equipped};

/// The arguments of a call, and the fields of its message and of the call itself that go back.
type Call = (Value, Map<String, Value>, Map<String, Value>);

/// The parts of an answer that can be cut.
#[derive(Debug, Default, PartialEq)]
struct Read {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Call>,
}

fn decode(stream: &str) -> Result<Read, String> {
    let agent = agent("  provider: ollama\n  name: m", "");
    let driver = calls(&agent, &Env::empty()).unwrap();
    let deltas = driver
        .decode(stream.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut read = Read::default();
    for delta in deltas {
        match delta {
            ModelDelta::Text(text) => read.text.push_str(&text),
            ModelDelta::Reasoning(text) => read.reasoning.push_str(&text),
            ModelDelta::Refusal(text) => read.refusal.push_str(&text),
            ModelDelta::ToolCall(ToolCall {
                arguments,
                provider_fields,
                ..
            }) => {
                let fields = provider_fields.unwrap_or_default();
                read.calls.push((arguments, fields.message, fields.call));
            }
            _ => {}
        }
    }
    Ok(read)
}

/// A text as JSON of ASCII letters only, as Python writes it.
fn escaped(units: &[u16]) -> String {
    let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{}\"", escapes.concat())
}

/// A stream of deltas with a call, so that fields go back.
fn stream(deltas: &[String]) -> String {
    let chunk = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let named = r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}"#;
    let mut all = chunk(named);
    all.extend(deltas.iter().map(|delta| chunk(delta)));
    all + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
}

/// The places of a text in a delta.
const PLACES: [&str; 7] = [
    r#"{"content":@}"#,
    r#"{"reasoning_content":@}"#,
    r#"{"refusal":@}"#,
    r#"{"tool_calls":[{"index":0,"function":{"arguments":@}}]}"#,
    r#"{"x_state":@}"#,
    r#"{"reasoning_details":[{"index":0,"type":"reasoning.text","text":@}]}"#,
    r#"{"tool_calls":[{"index":0,"extra":{"state":@}}]}"#,
];

fn cut_at(place: &str, units: &[u16], cuts: &[usize]) -> Read {
    let mut deltas = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([units.len()]) {
        deltas.push(place.replace('@', &escaped(&units[from..to])));
        from = to;
    }
    decode(&stream(&deltas)).unwrap()
}

#[test]
fn a_letter_of_two_escapes_survives_every_cut() {
    let text = "{\"t\": \"a🎉😀b\"}";
    let units: Vec<u16> = text.encode_utf16().collect();
    for place in PLACES {
        let whole = cut_at(place, &units, &[]);
        assert!(format!("{whole:?}").contains("a🎉😀b"), "{whole:?}");
        for first in 1..units.len() {
            assert_eq!(cut_at(place, &units, &[first]), whole, "{place} {first}");
            for second in first + 1..units.len() {
                assert_eq!(
                    cut_at(place, &units, &[first, second]),
                    whole,
                    "{place} {first} {second}"
                );
            }
        }
    }
}

#[test]
fn half_a_letter_that_stays_alone_is_replaced() {
    for (units, expected) in [
        (vec![0x61, 0xd83c], "a\u{fffd}"),
        (vec![0xdf89, 0x61], "\u{fffd}a"),
        (vec![0xd83c, 0x61, 0xdf89], "\u{fffd}a\u{fffd}"),
        (vec![0xd83c, 0xd83c, 0xdf89], "\u{fffd}🎉"),
    ] {
        for cut in 0..units.len() {
            let cuts: Vec<usize> = (cut > 0).then_some(cut).into_iter().collect();
            assert_eq!(
                cut_at(PLACES[0], &units, &cuts).text,
                expected,
                "{units:x?} {cut}"
            );
            assert_eq!(cut_at(PLACES[1], &units, &cuts).reasoning, expected);
            let fields = &cut_at(PLACES[4], &units, &cuts).calls[0].1;
            assert_eq!(fields["x_state"], expected);
        }
    }
}

#[test]
fn a_letter_of_private_use_stays() {
    for text in [
        "icon \u{f1a00} and \u{10fffd}",
        "\u{fa03d}",
        "\u{fa03d}\u{fa400}",
        "\u{fa03c}\u{fa789}",
        "a\u{fa000}\u{fa3ff}🎉\u{fa400}\u{fa7ff}b",
        "\u{f9fff}\u{fa800} \\ \u{fa03d}",
        "\\\u{fa43d}\\udba8",
    ] {
        let units: Vec<u16> = text.encode_utf16().collect();
        let json = json!({"t": text}).to_string();
        let inner: Vec<u16> = json.encode_utf16().collect();
        for cut in 0..units.len() {
            let cuts: Vec<usize> = (cut > 0).then_some(cut).into_iter().collect();
            assert_eq!(cut_at(PLACES[0], &units, &cuts).text, text);
            assert_eq!(cut_at(PLACES[1], &units, &cuts).reasoning, text);
            assert_eq!(cut_at(PLACES[2], &units, &cuts).refusal, text);
            assert_eq!(cut_at(PLACES[3], &inner, &cuts).calls[0].0, json!({"t": text}));
            assert_eq!(cut_at(PLACES[4], &units, &cuts).calls[0].1["x_state"], text);
        }
        // As letters, and whole.
        for quoted in [json!(text).to_string(), escaped(&units)] {
            let raw = |place: &str| decode(&stream(&[place.replace('@', &quoted)])).unwrap();
            assert_eq!(raw(PLACES[0]).text, text);
            let key = PLACES[4].replace('@', &format!("{{{quoted}:{quoted}}}"));
            assert_eq!(raw(&key).calls[0].1["x_state"], json!({text: text}));
        }
    }
}

#[test]
fn a_letter_of_private_use_stays_beside_half_a_letter() {
    for (units, expected) in [
        (vec![0xd83c, 0xdba8, 0xdc3d], "\u{fffd}\u{fa03d}"),
        (vec![0xdba8, 0xdc3d, 0xdf89], "\u{fa03d}\u{fffd}"),
        (
            vec![0xd83c, 0xdf89, 0xdba9, 0xdc00, 0xd83c],
            "🎉\u{fa400}\u{fffd}",
        ),
    ] {
        for cut in 0..units.len() {
            let cuts: Vec<usize> = (cut > 0).then_some(cut).into_iter().collect();
            assert_eq!(
                cut_at(PLACES[0], &units, &cuts).text,
                expected,
                "{units:x?} {cut}"
            );
            assert_eq!(cut_at(PLACES[4], &units, &cuts).calls[0].1["x_state"], expected);
        }
    }
}

#[tokio::test]
async fn a_letter_of_private_use_stays_in_a_whole_answer() {
    let text = "a\u{fa03d}\u{fa400}🎉\u{fa43d}";
    let units: Vec<u16> = text.encode_utf16().collect();
    let inner = json!({"t": text}).to_string();
    let inner_units: Vec<u16> = inner.encode_utf16().collect();
    for (quoted, arguments) in [
        (json!(text).to_string(), json!(inner).to_string()),
        (escaped(&units), escaped(&inner_units)),
    ] {
        let call = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"x_state":@,
            "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":ARGUMENTS}}]},"finish_reason":"tool_calls"}]}"#
            .replace("ARGUMENTS", &arguments)
            .replace('@', &quoted);
        let last =
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":@},"finish_reason":"stop"}]}"#
                .replace('@', &quoted);
        let server = ModelServer::replies([call, last].map(|body| Reply::raw(200, "application/json", body)));
        let tools = Arc::new(ScriptedTools::default());
        let result = ask(&equipped(&agent_of(&server, ""), Arc::clone(&tools) as _), "go")
            .await
            .unwrap();
        assert_eq!(result.response, text);
        assert_eq!(result.tool_calls[0].arguments, json!({"t": text}));
        assert_eq!(server.finish()[1].messages()[2]["x_state"], text);
    }
}

#[test]
fn a_field_that_each_piece_repeats_is_one() {
    let pieces = ["{\"a\"", ": 1", "}"];
    let deltas: Vec<String> = pieces
        .iter()
        .map(|piece| {
            json!({"provider": "Nebula", "tier": 2, "is_cached": true, "state": {"region": "eu", "n": 1},
                "reasoning_content": "ha",
                "tool_calls": [{"index": 0, "namespace": "shop", "function": {"arguments": piece, "kind": "plain"}}]})
            .to_string()
        })
        .collect();
    let read = decode(&stream(&deltas)).unwrap();
    let message = json!({"provider": "Nebula", "tier": 2, "is_cached": true, "state": {"region": "eu", "n": 1},
        "reasoning_content": "hahaha"});
    let call = json!({"namespace": "shop", "function": {"kind": "plain"}});
    assert_eq!(read.reasoning, "hahaha");
    assert_eq!(
        (
            json!(read.calls[0].0),
            json!(read.calls[0].1),
            json!(read.calls[0].2)
        ),
        (json!({"a": 1}), message, call)
    );
}

#[test]
fn the_same_name_without_arguments_in_two_chunks_is_no_single_call() {
    let fragment =
        |function: Value, id: Value| json!({"tool_calls": [{"index": 0, "id": id, "function": function}]});
    let first = |arguments: Value| json!({"name": "f", "arguments": arguments});
    for empty in [json!(""), Value::Null, json!(" ")] {
        let deltas = [fragment(first(empty.clone()), Value::Null).to_string()];
        let error = decode(&stream(&deltas).replace("\"c1\"", "null")).unwrap_err();
        assert!(error.contains("`f` twice"), "{error}");
        // The same id is the same call.
        let deltas = [fragment(first(empty), json!("c1")).to_string()];
        assert_eq!(decode(&stream(&deltas)).unwrap().calls.len(), 1);
    }
    for whole in [json!("{}"), json!({})] {
        let fragments = [first(whole.clone()), first(whole.clone())];
        let deltas = fragments.map(|function| fragment(function, Value::Null).to_string());
        let chunks = stream(&deltas);
        let (head, rest) = chunks.split_once("\n\n").unwrap();
        assert!(head.contains("\"name\":\"f\""));
        let read = decode(rest).unwrap();
        let found: Vec<&Value> = read.calls.iter().map(|(arguments, ..)| arguments).collect();
        assert_eq!(found, [&json!({}), &json!({})], "{whole}");
    }
}

#[test]
fn the_word_for_no_arguments_and_then_arguments_are_one_call_or_an_error() {
    let given = json!({"name": "f", "arguments": "{\"a\":1}"});
    let none = json!({"name": "f", "arguments": "null"});
    let read = |id: Value, first: &Value, second: &Value| {
        let chunk = |function: &Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": id, "function": function}]}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        decode(&format!(
            "data: {}\n\ndata: {}\n\ndata: {end}\n\ndata: [DONE]\n\n",
            chunk(first),
            chunk(second)
        ))
    };
    let calls: Vec<Value> = read(json!("c1"), &none, &given)
        .unwrap()
        .calls
        .into_iter()
        .map(|(arguments, ..)| arguments)
        .collect();
    assert_eq!(calls, [json!({"a": 1})]);
    for second in [&given, &none] {
        let error = read(Value::Null, &none, second).unwrap_err();
        assert!(error.contains("`f` twice"), "{error}");
    }
}

#[test]
fn a_call_whose_arguments_an_answer_may_have_lost_is_an_error() {
    for reason in ["length", "max_tokens", "weird"] {
        for arguments in ["", "null"] {
            let call = json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": arguments}});
            let chunk =
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": reason}]});
            let error = decode(&format!("data: {chunk}\n\ndata: [DONE]\n\n")).unwrap_err();
            assert!(
                error.contains("before the arguments of a call"),
                "{reason}: {error}"
            );
        }
    }
}

#[test]
fn a_long_number_as_content_is_text_and_an_unknown_object_an_error() {
    let chunk =
        |content: Value| json!({"choices": [{"index": 0, "delta": {"content": content}}]}).to_string();
    for content in [
        LONG.to_owned(),
        format!("[{{\"type\":\"text\",\"text\":{LONG}}}]"),
        format!("[{LONG}]"),
    ] {
        let number = chunk(json!("NUMBER")).replace("\"NUMBER\"", &content);
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let first = chunk(json!("it is "));
        let read = decode(&format!(
            "data: {first}\n\ndata: {number}\n\ndata: {end}\n\ndata: [DONE]\n\n"
        ))
        .unwrap();
        assert_eq!(read.text, format!("it is {LONG}"), "{content}");
    }
    // What is in it may be a part of the answer.
    let unknown = chunk(json!({"foo": "zzz"}));
    assert!(decode(&format!("data: {unknown}\n\ndata: [DONE]\n\n")).is_err());
}

const LONG: &str = "123456789012345678901234567890";

#[tokio::test]
async fn a_number_with_many_digits_is_not_rounded_silently() {
    let message = |arguments: &str| {
        format!(
            r#"{{"role":"assistant","serial":{LONG},"tool_calls":[{{"index":0,"id":"c1","type":"function","trace":{{"n":-{LONG}}},"function":{{"name":"echo","arguments":{arguments}}}}}]}}"#
        )
    };
    let as_text = format!("{{\"n\": {LONG}}}");
    for arguments in [json!(as_text).to_string(), as_text.clone()] {
        let whole = format!(
            r#"{{"choices":[{{"index":0,"message":{},"finish_reason":"tool_calls"}}]}}"#,
            message(&arguments)
        );
        let streamed = whole.replace("\"message\"", "\"delta\"");
        for reply in [
            Reply::raw(200, "application/json", whole.clone()),
            Reply::events([streamed.as_str(), "[DONE]"]),
        ] {
            let server = ModelServer::replies([reply, Reply::text("done")]);
            let tools = Arc::new(ScriptedTools::default());
            let result = ask(&equipped(&agent_of(&server, ""), Arc::clone(&tools) as _), "go").await;
            let requests = server.finish();
            let call = &result.unwrap().tool_calls[0];
            assert!(call.arguments.as_str().unwrap().contains(LONG), "{call:?}");
            assert_eq!(tools.called().len(), 0);
            let said = requests[1].texts("tool")[0].to_owned();
            assert!(
                said.contains(LONG) && said.contains("send it as a text"),
                "{said}"
            );
            let sent = &requests[1].messages()[2];
            let expected: Value = serde_json::from_str(LONG).unwrap();
            assert_eq!(sent["serial"], expected);
            assert_eq!(
                sent["tool_calls"][0]["trace"]["n"].as_f64(),
                expected.as_f64().map(|n| -n)
            );
        }
    }
}

#[tokio::test]
async fn arguments_with_too_many_levels_are_refused_by_name() {
    for (levels, is_run) in [
        (96, true),
        (97, false),
        (126, false),
        (128, false),
        (5_000, false),
    ] {
        let within = levels - 1;
        let arguments = format!("{{\"text\":{}{}}}", "[".repeat(within), "]".repeat(within));
        let call = Reply::nothing().and_tool_call("c1", "echo", &arguments);
        let server = ModelServer::replies([call, Reply::text("done")]);
        let tools = Arc::new(ScriptedTools::default());
        let result = ask(&equipped(&agent_of(&server, ""), Arc::clone(&tools) as _), "go").await;
        assert_eq!(result.unwrap().response, "done", "{levels}");
        assert_eq!(tools.called().len(), usize::from(is_run), "{levels}");
        let said = server.finish()[1].texts("tool")[0].to_owned();
        assert_eq!(said.contains("more than 96 levels"), !is_run, "{levels}: {said}");
    }
}
