//! Tool calls as servers send them, whole and in fragments. The deltas of an answer are tested with the assembler.

use holodeck_http::decode_sse;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{assemble::Assembler, wire::Chunk};

/// The name and arguments of each call, or why there are none.
type Read = Result<Vec<(String, Value)>, String>;

fn read(chunks: &[Vec<Value>], is_whole: bool) -> Result<Vec<ToolCall>, BackendError> {
    let mut calls = Calls::default();
    for chunk in chunks {
        let fragments = chunk
            .iter()
            .map(|fragment| serde_json::from_value(fragment.clone()).unwrap());
        if is_whole {
            calls.push_whole(fragments);
        } else {
            calls.push_chunk(fragments);
        }
    }
    calls.finish()
}

fn plain(calls: Result<Vec<ToolCall>, BackendError>) -> Read {
    let calls = calls.map_err(|error| error.to_string())?;
    Ok(calls
        .into_iter()
        .map(|call| (call.name, call.arguments))
        .collect())
}

fn streamed(fragments: &[Value]) -> Read {
    let chunks: Vec<_> = fragments.iter().map(|fragment| vec![fragment.clone()]).collect();
    plain(read(&chunks, false))
}

fn in_city(name: &str, city: &str) -> (String, Value) {
    (name.to_owned(), json!({ "city": city }))
}

macro_rules! dialect {
    ($file:literal) => {
        (
            $file,
            include_str!(concat!(
                "../../../../../fixtures/dialects/calls-without-ids/",
                $file
            )),
        )
    };
}

/// The calls of a whole answer or of a stream.
fn calls_of((file, text): (&str, &str)) -> Result<Vec<ToolCall>, BackendError> {
    let mut assembler = Assembler::default();
    let mut deltas = Vec::new();
    if std::path::Path::new(file)
        .extension()
        .is_some_and(|it| it == "json")
    {
        assembler.push_whole(serde_json::from_str(text).unwrap(), &mut deltas);
    } else {
        let events = decode_sse(text.as_bytes());
        let chunks = events.into_iter().filter(|event| event.data != "[DONE]");
        for event in chunks {
            let chunk: Chunk<'_> = serde_json::from_str(&event.data).unwrap();
            assembler.push(chunk, &mut deltas);
        }
    }
    deltas.extend(assembler.finish()?);
    let calls = deltas.into_iter().filter_map(|delta| match delta {
        holodeck_backend_api::ModelDelta::ToolCall(call) => Some(call),
        _ => None,
    });
    Ok(calls.collect())
}

#[test]
fn each_call_of_the_dialects_is_a_call_of_its_own() {
    let twice = vec![in_city("weather", "Paris"), in_city("weather", "Rome")];
    let two_names = vec![in_city("weather", "Paris"), in_city("clock", "Rome")];
    let one = vec![in_city("weather", "Paris")];
    for (file, expected) in [
        (dialect!("index-0-empty-id.sse"), twice.clone()),
        (dialect!("no-index-no-id-one-chunk.sse"), twice.clone()),
        (dialect!("no-id.json"), twice),
        (dialect!("no-index-two-names.sse"), two_names.clone()),
        (dialect!("no-id-two-names.json"), two_names.clone()),
        (dialect!("same-id-two-indexes.sse"), one.clone()),
        (dialect!("one-call-over-two-indexes.sse"), one),
        (dialect!("ids-are-the-text-null.sse"), two_names.clone()),
        (dialect!("fragments-without-index.sse"), two_names),
    ] {
        assert_eq!(plain(calls_of(file)), Ok(expected), "{}", file.0);
    }
    let file = dialect!("arguments-of-a-second-call-without-head.sse");
    let error = calls_of(file).unwrap_err().to_string();
    assert!(error.contains("cannot be distinguished"), "{error}");
}

#[test]
fn a_word_for_a_missing_id_is_no_id() {
    let calls = calls_of(dialect!("ids-are-the-text-null.sse")).unwrap();
    assert!(calls.iter().all(|call| call.call_id.is_empty()), "{calls:?}");
}

#[test]
fn a_call_without_arguments_is_not_lost_beside_others() {
    for (fragments, expected) in [
        // The name is repeated in each fragment.
        (
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}),
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}),
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
            ],
            vec![("f", json!({"x": 1}))],
        ),
        (
            vec![
                json!({"function": {"name": "f"}}),
                json!({"function": {"name": "g"}}),
                json!({"function": {"name": "h", "arguments": "{}"}}),
            ],
            vec![("f", json!({})), ("g", json!({})), ("h", json!({}))],
        ),
        // The id comes late, or with a later fragment.
        (
            vec![
                json!({"index": 0, "function": {"name": "f", "arguments": "{"}}),
                json!({"index": 0, "id": "a", "function": {"arguments": "}"}}),
                json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
            ],
            vec![("f", json!({})), ("g", json!({}))],
        ),
        // One id for all calls.
        (
            vec![
                json!({"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}),
                json!({"index": 1, "id": "x", "function": {"name": "g", "arguments": ""}}),
                json!({"index": 0, "id": "x", "function": {"arguments": "{\"n\":1}"}}),
                json!({"index": 1, "id": "x", "function": {"arguments": "{\"n\":2}"}}),
            ],
            vec![("f", json!({"n": 1})), ("g", json!({"n": 2}))],
        ),
        // Name and arguments at two indexes, without ids.
        (
            vec![
                json!({"index": 0, "function": {"name": "f", "arguments": ""}}),
                json!({"index": 1, "function": {"name": "", "arguments": "{\"n\""}}),
                json!({"index": 1, "function": {"name": "", "arguments": ":1}"}}),
            ],
            vec![("f", json!({"n": 1}))],
        ),
        // A new id with each fragment.
        (
            vec![
                json!({"index": 0, "id": "p", "function": {"name": "f", "arguments": "{\"n\""}}),
                json!({"index": 0, "id": "q", "function": {"arguments": ":1}"}}),
            ],
            vec![("f", json!({"n": 1}))],
        ),
        // A fragment with nothing in it.
        (
            vec![
                json!({"index": 0, "id": "p", "function": {"name": "f", "arguments": "{}"}}),
                json!({"index": 1}),
                json!({}),
            ],
            vec![("f", json!({}))],
        ),
    ] {
        let expected = expected
            .into_iter()
            .map(|(name, arguments)| (name.to_owned(), arguments));
        assert_eq!(streamed(&fragments), Ok(expected.collect()), "{fragments:?}");
    }
}

#[test]
fn what_cannot_be_read_as_calls_is_an_error() {
    for fragments in [
        vec![json!({"index": 0, "id": "a"})],
        vec![json!({"function": {"arguments": "{}"}})],
        vec![json!({})],
        vec![json!({"function": "f"})],
        vec![json!({"type": "custom", "custom": {"name": "f"}})],
        vec![
            json!({"index": 0, "function": {"name": "f", "arguments": "{}"}}),
            json!({"index": 0, "function": {"arguments": "{}"}}),
        ],
        vec![
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
            json!({"index": 1, "id": "b", "function": {"arguments": "{\"n\":1}"}}),
        ],
    ] {
        assert!(streamed(&fragments).is_err(), "{fragments:?}");
        let answer = json!({"choices": [{"message": {"tool_calls": fragments}, "finish_reason": "stop"}]});
        if fragments.len() == 1 {
            assert!(
                calls_of(("a.json", &answer.to_string())).is_err(),
                "{fragments:?}"
            );
        }
    }
}

#[test]
fn arguments_with_a_key_twice_are_an_error() {
    for arguments in [
        r#"{"city": "Rome", "city": "Paris"}"#,
        r#"{"a": [{"b": {"c": 1, "c": 1}}]}"#,
    ] {
        for cut in [1, 7, 100] {
            let letters: Vec<char> = arguments.chars().collect();
            let pieces = letters.chunks(cut).map(String::from_iter);
            let head = json!({"index": 0, "id": "a", "function": {"name": "weather"}});
            let pieces = pieces.map(|piece| json!({"index": 0, "function": {"arguments": piece}}));
            let fragments: Vec<Value> = [head].into_iter().chain(pieces).collect();
            let error = streamed(&fragments).unwrap_err();
            assert!(
                error.contains("`weather`") && error.contains("appears twice"),
                "{error}"
            );
        }
    }
}

#[test]
fn calls_in_another_place_or_form_do_not_disappear() {
    let whole = |message: Value| {
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string()
    };
    let call = json!({"function": {"name": "f", "arguments": {"n": 1}}});
    let found = vec![("f".to_owned(), json!({"n": 1}))];
    for message in [
        json!({"tool_calls": [null, call]}),
        json!({"tool_calls": call}),
        json!({"function_call": {"name": "f", "arguments": "{\"n\":1}"}}),
    ] {
        let answer = whole(message);
        assert_eq!(
            plain(calls_of(("a.json", &answer))),
            Ok(found.clone()),
            "{answer}"
        );
    }
    for calls in [json!("f"), json!(1), json!(true), json!(["f"]), json!([[call]])] {
        let answer = whole(json!({"tool_calls": calls}));
        assert!(serde_json::from_str::<Chunk<'_>>(&answer).is_err(), "{answer}");
    }
}

/// How a server names the calls of an answer.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Absent,
    Null,
    Empty,
    AllZero,
    Correct,
    Late,
}

const SCHEMES: [Scheme; 6] = [
    Scheme::Absent,
    Scheme::Null,
    Scheme::Empty,
    Scheme::AllZero,
    Scheme::Correct,
    Scheme::Late,
];

/// The index of a fragment: the `place`-th call, and whether it is its first fragment.
fn index(scheme: Scheme, place: usize, is_first: bool) -> Option<Value> {
    match scheme {
        Scheme::Absent => None,
        Scheme::Null => Some(Value::Null),
        Scheme::Empty => Some(json!("")),
        Scheme::AllZero => Some(json!(0)),
        Scheme::Correct => Some(json!(place)),
        Scheme::Late => (!is_first).then(|| json!(place)),
    }
}

fn id(scheme: Scheme, place: usize, is_first: bool) -> Option<Value> {
    match scheme {
        Scheme::Absent => None,
        Scheme::Null => Some(json!("null")),
        // All the same would be the same call.
        Scheme::Empty | Scheme::AllZero => Some(json!("")),
        Scheme::Correct => Some(json!(format!("id{place}"))),
        Scheme::Late => (!is_first).then(|| json!(format!("id{place}"))),
    }
}

type Call = (&'static str, Value);

/// The fragments of calls, one after the other. The arguments are cut after `cut` letters each time.
fn fragments(calls: &[Call], indexes: Scheme, ids: Scheme, cut: usize, repeats: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for (place, (name, arguments)) in calls.iter().enumerate() {
        let letters: Vec<char> = arguments.to_string().chars().collect();
        let pieces = letters.chunks(cut.max(1)).map(String::from_iter);
        let pieces: Vec<String> = pieces.collect();
        for (number, piece) in pieces.iter().enumerate() {
            let is_first = number == 0;
            let mut function = json!({ "arguments": piece });
            if is_first || repeats {
                function["name"] = json!(name);
            }
            let mut fragment = json!({ "function": function });
            if let Some(index) = index(indexes, place, is_first) {
                fragment["index"] = index;
            }
            if let Some(id) = id(ids, place, is_first) {
                fragment["id"] = id;
            }
            all.push(fragment);
        }
    }
    all
}

fn call() -> impl Strategy<Value = Call> {
    let arguments = prop::sample::select(vec![
        json!({}),
        json!({"city": "Paris"}),
        json!({"city": "Rome", "deep": {"a": [1, {"b": "}{\"]["}], "c": "\\\""}}),
        json!({"text": "grüße 🎉 \u{0}"}),
    ]);
    (
        prop::sample::select(vec!["weather", "clock", "weatherclock"]),
        arguments,
    )
}

proptest! {
    #[test]
    fn an_answer_has_the_same_calls_whole_and_streamed(
        calls in prop::collection::vec(call(), 1..5),
        indexes in prop::sample::select(SCHEMES.to_vec()),
        ids in prop::sample::select(SCHEMES.to_vec()),
        cut in 1_usize..60,
        repeats: bool,
        together in 1_usize..6,
    ) {
        let expected: Vec<(String, Value)> =
            calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone())).collect();
        let whole = fragments(&calls, indexes, ids, usize::MAX, false);
        prop_assert_eq!(plain(read(&[whole], true)), Ok(expected.clone()));
        let cut = fragments(&calls, indexes, ids, cut, repeats);
        let chunks: Vec<Vec<Value>> = cut.chunks(together).map(<[Value]>::to_vec).collect();
        prop_assert_eq!(plain(read(&chunks, false)), Ok(expected));
    }

    #[test]
    fn fragments_of_calls_with_correct_indexes_come_in_any_order(
        calls in prop::collection::vec(call(), 2..5),
        ids in prop::sample::select(vec![Scheme::Absent, Scheme::Empty, Scheme::Correct]),
        order in prop::collection::vec(0_usize..5, 0..200),
    ) {
        let mut queues: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(place, call)| {
                let mut own = fragments(std::slice::from_ref(call), Scheme::Absent, Scheme::Absent, 3, false);
                for (number, fragment) in own.iter_mut().enumerate() {
                    fragment["index"] = json!(place);
                    if let Some(id) = id(ids, place, number == 0) {
                        fragment["id"] = id;
                    }
                }
                own.into_iter()
            })
            .collect();
        // The heads come in order, as the calls do.
        let mut chunks: Vec<Value> = queues.iter_mut().filter_map(Iterator::next).collect();
        for place in order {
            chunks.extend(queues.get_mut(place).and_then(Iterator::next));
        }
        chunks.extend(queues.into_iter().flatten());
        let expected = calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone()));
        prop_assert_eq!(streamed(&chunks), Ok(expected.collect()));
    }

    #[test]
    fn a_name_never_disappears(
        pieces in prop::collection::vec(
            (
                prop::option::of(0_u64..3),
                prop::sample::select(vec!["", "a", "b", "null"]),
                prop::sample::select(vec!["", "weather", "clock"]),
                prop::sample::select(vec!["", "{", "}", "{}", "{\"x\":1}", "\"", "1"]),
            ),
            0..12,
        ),
    ) {
        let fragments: Vec<Value> = pieces
            .iter()
            .map(|(index, id, name, arguments)| {
                json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        if let Ok(calls) = streamed(&fragments) {
            for (_, _, name, _) in pieces.iter().filter(|(_, _, name, _)| !name.is_empty()) {
                prop_assert!(calls.iter().any(|(called, _)| called == name), "{:?}: {:?}", name, calls);
            }
            for (called, _) in &calls {
                prop_assert!(["weather", "clock"].contains(&called.as_str()));
            }
        }
    }
}
