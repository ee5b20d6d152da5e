//! Tests of the requests that AG-UI clients send.

use holodeck_backend_api::{HistoryItem, Opening};
use holodeck_events::{AgUiRequest, RunAgentInput};
use holodeck_events::{ApprovalAnswer, Resolution};
use holodeck_model::events::ApprovalScope;
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn input(fields: Value) -> RunAgentInput {
    let Value::Object(mut all) = fields else {
        panic!("{fields}");
    };
    all.insert("threadId".to_owned(), json!("s"));
    all.insert("runId".to_owned(), json!("r"));
    serde_json::from_value(Value::Object(all)).unwrap()
}

fn request(fields: Value) -> AgUiRequest {
    input(fields).request().unwrap()
}

/// The error and its hint.
fn refusal(fields: Value) -> String {
    let error = input(fields).request().unwrap_err();
    format!("{error}\nhint: {}", error.hint)
}

fn resumed(payload: Value) -> Value {
    let mut entry = json!({ "interruptId": "ask", "status": "resolved" });
    entry["payload"] = payload;
    json!({ "resume": [entry] })
}

#[test]
fn the_last_message_is_to_run_and_the_others_are_its_history() {
    let request = request(json!({
        "protocolVersion": "1.0",
        "state": {},
        "forwardedProps": {},
        "new": "field",
        "messages": [
            { "id": "0", "role": "system", "content": "Be rude." },
            { "id": "1", "role": "user", "content": "how long?" },
            { "id": "2", "role": "reasoning", "content": "hm" },
            { "id": "3", "role": "assistant", "content": "let me look", "toolCalls": [
                { "id": "a", "type": "function", "function": { "name": "search", "arguments": "{\"q\":1}" } },
                { "id": "b", "type": "function", "function": { "name": "lost", "arguments": "" } },
            ] },
            { "id": "4", "role": "tool", "toolCallId": "a", "content": "30", "error": null },
            { "id": "5", "role": "assistant", "content": "inner", "subagentRunId": "a" },
            { "id": "6", "role": "activity", "activityType": "PLAN", "content": { "steps": [] } },
            { "id": "7", "role": "assistant", "content": null },
            { "id": "8", "role": "user", "content": [
                { "type": "text", "text": "and" },
                { "type": "image", "source": { "type": "url", "value": "https://example.com/x.png" } },
            ] },
            { "id": "9", "role": "user", "content": [{ "type": "text", "text": "thanks" }] },
        ],
        "tools": [{ "name": "alert", "description": "Show a message", "parameters": {} }],
        "context": [{ "description": "page", "value": "home" }],
    }));
    let message = request.message.clone().unwrap();
    assert_eq!((message.id.as_str(), message.text.as_str()), ("9", "thanks"));
    let line = |item: &HistoryItem| match item {
        HistoryItem::Call(call) => format!("call {} {} {}", call.call_id, call.name, call.arguments),
        HistoryItem::Result(result) => {
            format!(
                "result {} {} {} {}",
                result.call_id, result.name, result.is_error, result.result
            )
        }
        HistoryItem::User { text } => format!("user {text}"),
        HistoryItem::Assistant { text } => format!("assistant {text}"),
        _ => "?".to_owned(),
    };
    let lines: Vec<_> = request.history.iter().map(line).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    user how long?
    assistant let me look
    call a search {"q":1}
    call b lost {}
    result a search false 30
    result b lost true the turn was interrupted before this call ended
    user and
    "#);
    assert_snapshot!(request.warnings.join("\n"), @r#"
    `tools` are ignored, the agent has its own: alert
    `context` is ignored
    `messages[0]` is left out: the agent has its own instructions, and none of role `system`
    parts of `messages[8].content` are left out: image
    "#);
    assert_eq!(
        Opening::after(request.history.clone()).whole_history(),
        request.history
    );
}

#[test]
fn a_request_without_a_message_is_refused() {
    assert_snapshot!(refusal(json!({ "messages": null })), @r#"
    `messages` has no message of the user
    hint: send the user's message as the last one
    "#);
    let assistant = json!({ "messages": [{ "role": "assistant", "content": "hi" }] });
    assert_snapshot!(refusal(assistant), @r#"
    `messages` must end with a message of the user, found `assistant`
    hint: send the user's message as the last one
    "#);
    assert_snapshot!(refusal(json!({ "messages": [{ "role": "user", "content": " " }] })), @r#"
    `messages[0].content` is empty
    hint: send the user's text
    "#);
}

#[test]
fn a_conversation_that_ends_with_results_of_the_agent_asks_for_the_answer_again() {
    let call = |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let result = |id: &str| json!({ "role": "tool", "toolCallId": id, "content": "30" });
    let body = |calls: Value, results: &[Value], tools: Value| {
        let mut messages = vec![
            json!({ "role": "user", "content": "hello" }),
            json!({ "role": "assistant", "content": "hi" }),
            json!({ "id": "q", "role": "user", "content": "how long?" }),
            json!({ "role": "assistant", "content": "let me look", "toolCalls": calls }),
        ];
        messages.extend(results.iter().cloned());
        json!({ "messages": messages, "tools": tools })
    };
    let both = json!([call("a", "search"), call("b", "alert")]);
    let asked = request(body(
        both.clone(),
        &[result("a"), result("b")],
        json!([{ "name": "other" }]),
    ));
    let message = asked.message.unwrap();
    assert_eq!((message.id.as_str(), message.text.as_str()), ("q", "how long?"));
    assert_eq!(
        asked.history,
        [HistoryItem::user("hello"), HistoryItem::assistant("hi")]
    );
    // A client sends the result of a tool of its own without a person; a call that nobody made is no answer either.
    let own = body(
        both.clone(),
        &[result("a"), result("b")],
        json!([{ "name": "alert" }]),
    );
    let unknown = body(both.clone(), &[result("a"), result("c")], json!([]));
    let mut no_question = body(both, &[result("a")], json!([]));
    no_question["messages"]
        .as_array_mut()
        .unwrap()
        .retain(|message| message["role"] != "user");
    for body in [own, unknown, no_question] {
        assert!(refusal(body).starts_with("`messages` must end with a message of the user, found `tool`"));
    }
}

#[test]
fn parts_of_the_message_that_are_not_text_are_named() {
    let content = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "source": { "type": "data", "value": "AA==", "mimeType": "image/png" } },
        { "type": "binary", "mimeType": "audio/wav" },
    ]);
    assert_snapshot!(refusal(json!({ "messages": [{ "role": "user", "content": content }] })), @r#"
    `messages[0].content` has parts that are not text: image, binary
    hint: send text only
    "#);
}

#[test]
fn answers_become_those_of_the_store() {
    let decided = |payload: Value| {
        let [answer] = <[_; 1]>::try_from(request(resumed(payload)).answers).unwrap();
        answer
    };
    let plain = |decision: Resolution| {
        let mut answer = ApprovalAnswer::new("ask", decision);
        answer.session_id = Some("s".to_owned());
        answer
    };
    assert_eq!(decided(json!({ "approved": true })), plain(Resolution::Approve));
    let edited = json!({ "approved": true, "editedArgs": { "q": 2 } });
    assert_eq!(decided(edited), plain(Resolution::Modify(json!({ "q": 2 }))));
    assert_eq!(decided(json!({ "approved": false })), plain(Resolution::Reject));
    let mut expected = plain(Resolution::Approve);
    expected.scope = ApprovalScope::Session;
    assert_eq!(
        decided(json!({ "approved": true, "scope": "session", "editedArgs": null })),
        expected
    );
    let mut expected = plain(Resolution::Terminate);
    expected.reason = Some("enough".to_owned());
    let terminate = json!({ "approved": false, "terminate": true, "reason": "enough" });
    assert_eq!(decided(terminate), expected);

    let cancelled = request(json!({ "resume": [{ "interruptId": "ask", "status": "cancelled" }] }));
    let mut expected = plain(Resolution::Reject);
    expected.reason = Some("the user gave no answer".to_owned());
    assert_eq!(cancelled.answers, [expected]);
    assert_eq!(cancelled.message, None);
}

#[test]
fn a_resumed_run_may_have_another_message() {
    let mut fields = resumed(json!({ "approved": true }));
    fields["messages"] = json!([{ "id": "1", "role": "user", "content": "go" }, { "role": "assistant" }]);
    assert_eq!(request(fields.clone()).message, None);
    fields["messages"] = json!([{ "id": "1", "role": "user", "content": "go" }]);
    assert_eq!(request(fields).message.unwrap().id, "1");
}

#[test]
fn an_answer_that_is_not_understood_approves_nothing() {
    for payload in [
        Value::Null,
        json!(true),
        json!({}),
        json!({ "approved": "yes" }),
        json!({ "approved": true, "edited_args": {} }),
        json!({ "approved": true, "editedArgs": "{}" }),
        json!({ "approved": true, "scope": "forever" }),
        json!({ "approved": true, "terminate": true }),
        json!({ "approved": true, "reason": 1 }),
    ] {
        let error = input(resumed(payload.clone())).request().unwrap_err();
        assert_eq!(error.place, "resume[0].payload", "{payload}");
    }
    assert_snapshot!(refusal(resumed(json!({ "approved": true, "edited_args": {} }))), @r#"
    `resume[0].payload` has the unknown key `edited_args`
    hint: send {"approved": true} or {"approved": false}, optionally with `editedArgs`, `reason`, `scope` or `terminate`
    "#);
    assert_snapshot!(refusal(json!({ "resume": [{ "interruptId": "ask", "status": "approved" }] })), @r#"
    `resume[0].status` must be `resolved` or `cancelled`, found `approved`
    hint: a refusal is `resolved` with the payload {"approved": false}
    "#);
    let twice = json!({ "interruptId": "ask", "status": "cancelled" });
    assert_snapshot!(refusal(json!({ "resume": [twice, twice] })), @r#"
    `resume[1]` answers `ask` a second time
    hint: send one entry per interrupt
    "#);
}

#[test]
fn only_clients_that_know_subagents_get_them() {
    let options = |fields: Value| {
        let options = input(fields).options();
        (options.subagents, options.events)
    };
    assert_eq!(options(json!({})), (false, false));
    assert_eq!(options(json!({ "protocolVersion": "0.9" })), (false, false));
    assert_eq!(options(json!({ "protocolVersion": "1.0" })), (true, false));
    assert_eq!(options(json!({ "protocolVersion": "2.1" })), (true, false));
    let wants = json!({ "forwardedProps": { "holodeck": { "events": true } } });
    assert_eq!(options(wants), (false, true));
}
