//! Tests over every field of every answer: missing, null, of another type, twice, in another order.

use std::collections::HashSet;

use pretty_assertions::assert_eq;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, InitializeRequest,
    InitializeRequestParams, JsonRpcMessage, ListPromptsRequest, ListToolsRequest, NumberOrString,
    ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Value, json};

use super::*;
use crate::client::reader::{Reader, Reported};

const ID: i64 = 7;

fn request(asked: Asked) -> ClientJsonRpcMessage {
    let request = match asked {
        Asked::Initialize => {
            ClientRequest::InitializeRequest(InitializeRequest::new(InitializeRequestParams::default()))
        }
        Asked::Tools => ClientRequest::ListToolsRequest(ListToolsRequest::default()),
        Asked::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::default()),
        Asked::Call => {
            ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("weather")))
        }
        Asked::Prompt | Asked::Other => unreachable!("no test asks for it"),
    };
    ClientJsonRpcMessage::request(request, NumberOrString::Number(ID))
}

fn answer(asked: Asked) -> Value {
    let result = match asked {
        Asked::Initialize => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": { "listChanged": true }, "logging": {} },
            "serverInfo": { "name": "weather-server", "version": "1.4.2", "title": "Weather" },
            "instructions": "Ask for cities.",
        }),
        Asked::Tools => json!({
            "tools": [
                { "name": "city", "description": "Finds a city.", "inputSchema": { "type": "object" } },
                { "name": "weather", "title": "Weather", "description": "Says the weather.",
                  "inputSchema": { "type": "object", "properties": { "at": { "type": "string" } } },
                  "outputSchema": { "type": "object" },
                  "annotations": { "readOnlyHint": true, "title": "W" }, "_meta": { "a": 1 } },
            ],
            "nextCursor": "page-2",
        }),
        Asked::Prompts => json!({
            "prompts": [
                { "name": "brief", "description": "Be brief." },
                { "name": "greet", "title": "Greets", "description": "Says hello.",
                  "arguments": [{ "name": "who", "description": "Whom.", "required": true }] },
            ],
        }),
        Asked::Call => json!({
            "content": [
                { "type": "text", "text": "sunny", "annotations": { "priority": 1.0 } },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "demo://1", "mimeType": "text/plain", "text": "inside" } },
            ],
            "structuredContent": { "sky": "blue" },
            "isError": false,
        }),
        Asked::Prompt | Asked::Other => unreachable!("no test asks for it"),
    };
    json!({ "jsonrpc": "2.0", "id": ID, "result": result })
}

/// The paths of all fields of a value.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let path = format!("{at}/{field}");
                found.push(path.clone());
                paths(value, &path, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{at}/{index}");
                found.push(path.clone());
                paths(item, &path, found);
            }
        }
        _ => {}
    }
}

fn read(asked: Asked, text: &str) -> (ServerJsonRpcMessage, Vec<String>) {
    let reported = Reported::default();
    let reader = Reader::new(
        "demo",
        std::sync::Arc::clone(&reported),
        std::sync::Arc::new(str::to_owned),
    );
    reader.note(&request(asked));
    let messages = reader.messages(text.as_bytes());
    let [message] = messages.as_slice() else {
        panic!("{} messages of {text}", messages.len());
    };
    let faults: HashSet<String> = reported.lock().unwrap().clone();
    let mut faults: Vec<String> = faults.into_iter().collect();
    faults.sort();
    (message.clone(), faults)
}

/// The names of what an answer offers, or the texts of its parts; an error has none.
fn gist(message: &ServerJsonRpcMessage) -> Option<Vec<String>> {
    match message {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::InitializeResult(result) => Some(vec![result.protocol_version.to_string()]),
            ServerResult::ListToolsResult(list) => {
                Some(list.tools.iter().map(|tool| tool.name.to_string()).collect())
            }
            ServerResult::ListPromptsResult(list) => {
                Some(list.prompts.iter().map(|prompt| prompt.name.clone()).collect())
            }
            ServerResult::CallToolResult(result) => {
                Some(vec![super::super::content::of_call(result.clone()).text])
            }
            other => panic!("an answer of another kind: {other:?}"),
        },
        JsonRpcMessage::Error(_) => None,
        other => panic!("no answer: {other:?}"),
    }
}

/// Every answer with each field missing, null and of each other type, with what was changed.
fn changed(asked: Asked) -> Vec<(String, Value)> {
    let whole = answer(asked);
    let mut all = Vec::new();
    paths(&whole, "", &mut all);
    let mut changed = Vec::new();
    for path in all.iter().filter(|path| *path != "/id") {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let mut without = whole.clone();
        match without.pointer_mut(parent).unwrap() {
            Value::Object(fields) => drop(fields.remove(field)),
            Value::Array(items) => drop(items.remove(field.parse().unwrap())),
            _ => unreachable!("only these have fields"),
        }
        changed.push((format!("{path} missing"), without));
        for other in [
            json!(null),
            json!(true),
            json!(3.5),
            json!("x"),
            json!([1]),
            json!({ "k": 1 }),
        ] {
            let mut with = whole.clone();
            *with.pointer_mut(path).unwrap() = other.clone();
            changed.push((format!("{path} = {other}"), with));
        }
    }
    changed
}

#[test]
fn every_answer_with_any_field_missing_or_of_another_type_ends_the_request() {
    for asked in [Asked::Initialize, Asked::Tools, Asked::Prompts, Asked::Call] {
        let mut unread = Vec::new();
        for (what, value) in changed(asked) {
            let (message, _) = read(asked, &value.to_string());
            let id = match &message {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                other => panic!("{asked:?} {what}: {other:?}"),
            };
            assert_eq!(id, Some(NumberOrString::Number(ID)), "{asked:?} {what}");
            if gist(&message).is_none() {
                unread.push(what);
            }
        }
        // Only an answer whose whole result is missing or of another type is an error.
        unread.retain(|what| !what.starts_with("/result "));
        assert_eq!(unread, Vec::<String>::new(), "{asked:?}");
    }
}

#[test]
fn one_tool_that_cannot_be_used_costs_no_other() {
    for (asked, others, at) in [
        (Asked::Tools, "city", "/result/tools/1"),
        (Asked::Prompts, "brief", "/result/prompts/1"),
    ] {
        for (what, value) in changed(asked) {
            let (path, _) = what.split_once(' ').unwrap();
            if !path.starts_with(at) {
                continue;
            }
            let (message, faults) = read(asked, &value.to_string());
            let names = gist(&message).unwrap();
            assert!(names.contains(&others.to_owned()), "{what}: {names:?}");
            let is_absent = what.ends_with("missing") || what.ends_with("null");
            let is_left_out = names.len() == 1 && !(path == at && what.ends_with("missing"));
            if is_left_out {
                assert_eq!(faults.len(), 1, "{what}: {faults:?}");
                assert!(faults[0].contains("left out"), "{what}: {faults:?}");
            }
            let is_needed = ["name", "inputSchema", "arguments/0/name"]
                .iter()
                .any(|field| path == format!("{at}/{field}"));
            if is_absent && !is_needed && path != at {
                assert_eq!((names.len(), faults), (2, Vec::new()), "{what}");
            }
        }
    }
}

#[test]
fn a_tool_without_parameters_is_offered_and_one_without_a_name_is_named_and_left_out() {
    for schema in [None, Some(json!(null))] {
        let mut tool = json!({ "name": "now" });
        if let Some(schema) = schema {
            tool["inputSchema"] = schema;
        }
        let list =
            json!({ "jsonrpc": "2.0", "id": ID, "result": { "tools": [tool, { "inputSchema": {} }] } });
        let (message, faults) = read(Asked::Tools, &list.to_string());
        assert_eq!(gist(&message).unwrap(), ["now"]);
        assert_eq!(
            faults,
            [
                "demo: tool 2 has no `name` and is left out",
                "demo: tool `now`: `inputSchema` is missing; it is offered without parameters",
            ]
        );
    }
}

/// JSON with this number of levels.
fn nested(levels: usize) -> String {
    let object = "{\"type\":\"object\",\"properties\":{\"a\":";
    let pairs = levels / 2;
    let rest = if levels.is_multiple_of(2) { "1" } else { "[]" };
    format!("{}{rest}{}", object.repeat(pairs), "}}".repeat(pairs))
}

#[test]
fn a_tool_whose_schema_has_too_many_levels_is_left_out_alone() {
    for levels in [60, 96, 97, 100, 118, 122, 126, 128, 130, 1_000, 100_000] {
        let deep = format!(r#"{{"name":"deep","inputSchema":{}}}"#, nested(levels));
        for tools in [
            format!("[{deep},@]"),
            format!("[@,{deep}]"),
            format!("[@,{deep},{deep}]"),
        ] {
            let tools = tools.replace('@', r#"{"name":"plain","inputSchema":{"type":"object"}}"#);
            let text = format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"tools":{tools}}}}}"#);
            let (message, faults) = read(Asked::Tools, &text);
            let mut names = gist(&message).unwrap();
            names.sort();
            names.dedup();
            if levels > 96 {
                assert_eq!(names, ["plain"], "{levels}");
                let fault = "demo: tool `deep`: `inputSchema` has more than 96 levels; the tool is left out";
                assert_eq!(faults, [fault], "{levels}");
            } else {
                assert_eq!(
                    (names, faults),
                    (vec!["deep".to_owned(), "plain".to_owned()], vec![]),
                    "{levels}"
                );
            }
        }
        // Another field is no reason to lose the tool.
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}},"_meta":{{"a":{}}}}}]}}}}"#,
            nested(levels)
        );
        let (message, faults) = read(Asked::Tools, &text);
        assert_eq!(gist(&message).unwrap(), ["t"], "{levels}");
        assert_eq!(faults.len(), usize::from(levels > 95), "{levels}: {faults:?}");
    }
}

#[test]
fn a_part_with_too_many_levels_does_not_take_the_others_along() {
    for levels in [97, 122, 128, 1_000] {
        let answer = |result: String| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{result}}}"#);
            let (message, faults) = read(Asked::Call, &text);
            let text = serde_json::to_value(&message).unwrap().to_string();
            (text, faults)
        };
        let sunny = r#"{"type":"text","text":"sunny"}"#;
        let deep = nested(levels);
        let (text, faults) = answer(format!(
            r#"{{"content":[{sunny},{{"type":"text","text":"x","_meta":{deep}}}]}}"#
        ));
        assert!(
            text.contains("sunny") && text.contains("cannot be read"),
            "{levels}: {text}"
        );
        assert!(
            faults.iter().any(|fault| fault.contains("`content[1]`")),
            "{faults:?}"
        );
        let (text, faults) = answer(format!(r#"{{"content":[{sunny}],"structuredContent":{deep}}}"#));
        assert!(text.contains("sunny"), "{levels}: {text}");
        assert!(
            faults.iter().any(|fault| fault.contains("`structuredContent`")),
            "{faults:?}"
        );
        // Nothing else is left.
        let (text, _) = answer(format!(r#"{{"content":[],"structuredContent":{deep}}}"#));
        assert!(
            text.contains("\"error\"") && text.contains("levels"),
            "{levels}: {text}"
        );
    }
}

#[test]
fn half_a_letter_does_not_take_a_list_along() {
    let text = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"t","description":"a\ud83d","inputSchema":{}},{"name":"u","inputSchema":{}}]}}"#;
    let (message, faults) = read(Asked::Tools, text);
    assert_eq!(
        (gist(&message).unwrap(), faults),
        (vec!["t".to_owned(), "u".to_owned()], vec![])
    );
}

fn call(result: impl Into<Value>) -> (String, bool, Vec<String>) {
    let result: Value = result.into();
    let answer = json!({ "jsonrpc": "2.0", "id": ID, "result": result });
    let (message, faults) = read(Asked::Call, &answer.to_string());
    match message {
        JsonRpcMessage::Response(response) => {
            let ServerResult::CallToolResult(result) = response.result else {
                panic!("another result");
            };
            let output = super::super::content::of_call(result);
            (output.text, output.is_error, faults)
        }
        JsonRpcMessage::Error(error) => (error.error.message.into_owned(), true, faults),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_that_can_be_read_reach_the_model_and_others_are_named() {
    let text = |value: Value| json!({ "type": "text", "text": value });
    assert_eq!(
        call(json!({ "content": "sunny" })),
        ("sunny".to_owned(), false, vec![])
    );
    assert_eq!(call(json!("sunny")), ("sunny".to_owned(), false, vec![]));
    assert_eq!(call(json!({ "content": [text(json!(5)), "b"] })).0, "5\nb");
    let (shown, is_error, faults) =
        call(json!({ "content": [text(json!("a")), { "type": "hologram", "beam": 1 }, null] }));
    assert_eq!(
        shown,
        "a\n[content of the type `hologram` that cannot be read]\n[content that cannot be read]"
    );
    assert!(!is_error);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0].starts_with("demo: `content[1]` of the type `hologram`"),
        "{faults:?}"
    );
    let (reason, is_error, _) = call(json!({ "content": [{ "type": "image", "data": "AAAA" }] }));
    assert!(is_error);
    assert!(
        reason.contains("`content[0]` of the type `image`") && reason.contains("mimeType"),
        "{reason}"
    );
}

#[test]
fn whether_a_call_failed_is_read_from_text_and_unknown_is_failed() {
    let failed =
        |flag: Value| call(json!({ "content": [{ "type": "text", "text": "a" }], "isError": flag })).1;
    for (flag, expected) in [
        (json!(null), false),
        (json!("false"), false),
        (json!("true"), true),
        (json!(0), false),
        (json!(1), true),
        (json!("maybe"), true),
        (json!({}), true),
    ] {
        assert_eq!(failed(flag.clone()), expected, "{flag}");
    }
}

#[test]
fn null_is_the_same_as_absent() {
    let content = json!([{ "type": "text", "text": "sunny", "annotations": null, "_meta": null }]);
    let (text, is_error, faults) =
        call(json!({ "content": content, "structuredContent": null, "isError": null, "_meta": null }));
    assert_eq!((text.as_str(), is_error, faults), ("sunny", false, vec![]));
    let beside =
        json!({ "jsonrpc": "2.0", "id": ID, "error": null, "result": { "tools": [], "nextCursor": null } });
    assert_eq!(
        gist(&read(Asked::Tools, &beside.to_string()).0).unwrap(),
        Vec::<String>::new()
    );
    let refused =
        json!({ "jsonrpc": "2.0", "id": ID, "result": null, "error": { "code": "-32601", "message": null } });
    let (message, _) = read(Asked::Tools, &refused.to_string());
    let JsonRpcMessage::Error(error) = message else {
        panic!("{message:?}")
    };
    assert_eq!(error.error.code.0, -32601);
}

#[test]
fn ids_that_are_texts_or_decimals_find_their_request() {
    for id in [json!("7"), json!(7.0), json!(" 7 ")] {
        let mut list = answer(Asked::Tools);
        list["id"] = id.clone();
        assert_eq!(
            gist(&read(Asked::Tools, &list.to_string()).0).unwrap(),
            ["city", "weather"],
            "{id}"
        );
    }
}

#[test]
fn the_order_of_fields_and_a_field_that_comes_twice_change_nothing() {
    let reversed = r#"{"result":{"nextCursor":"page-2","tools":[{"inputSchema":{"type":"object"},"name":"city","name":"city"}]},"id":7,"jsonrpc":"2.0"}"#;
    assert_eq!(gist(&read(Asked::Tools, reversed).0).unwrap(), ["city"]);
    assert_eq!(
        gist(
            &read(
                Asked::Call,
                r#"{"result":{"isError":true,"isError":false,"content":[]},"id":7}"#
            )
            .0
        )
        .unwrap(),
        [""]
    );
}

#[test]
fn a_list_of_messages_is_each_of_them_and_what_is_none_is_dropped() {
    let reader = Reader::new("demo", Reported::default(), std::sync::Arc::new(str::to_owned));
    let both = json!([answer(Asked::Tools), { "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": null, "id": null }]);
    reader.note(&request(Asked::Tools));
    let texts = reader.texts(
        both.to_string().as_bytes(),
        crate::client::reader::Frame::Line,
        None,
    );
    assert_eq!(texts.len(), 2);
    assert!(!texts[1].contains("null"), "{}", texts[1]);
    for log in ["starting…", "[info] ready", "42", "null", "", "{\"level\":"] {
        assert_eq!(
            reader.texts(log.as_bytes(), crate::client::reader::Frame::Line, None),
            Vec::<String>::new(),
            "{log}"
        );
    }
}
