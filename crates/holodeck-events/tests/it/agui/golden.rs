//! Runs that a reader can follow.

use holodeck_backend_api::{ApprovalDecision, BackendError, BackendEvent, Outcome, StopReason};
use holodeck_events::{AgUiEvent, AgUiOptions, AgUiRun};
use insta::{assert_json_snapshot, assert_snapshot};

use super::{all, approve, json, lines, thread};
use crate::{
    backend_events::{
        Emitted, answer, answered, ask, broken, call, ended, failed_result, nested, result, stop, text,
        thinking, usage,
    },
    session::{TestSession, record_run},
};

/// Two tools at a time, one of which is asked about.
fn refund() -> Vec<BackendEvent> {
    vec![
        thinking("an order, "),
        thinking("then a refund"),
        text("Let me "),
        text("look."),
        call("call_a", "order"),
        call("call_b", "refund"),
        stop(StopReason::ToolUse, "msg_1"),
        result("call_a", "order", "7 CHF"),
        ask("call_b", "refund"),
        answer("call_b", ApprovalDecision::approve()),
        result("call_b", "refund", "done"),
        text("Refunded."),
        usage(12, 5),
        stop(StopReason::EndTurn, "msg_2"),
    ]
}

/// An agent under a call that asks, and fails at last.
fn delegated() -> Vec<BackendEvent> {
    vec![
        call("t", "Agent"),
        nested("t", thinking("hm")),
        nested("t", text("looking")),
        nested("t", call("u", "search")),
        nested("t", stop(StopReason::ToolUse, "sub_1")),
        nested("t", ask("u", "search")),
        nested("t", answer("u", ApprovalDecision::reject("no"))),
        nested("t", failed_result("u", "search", "no")),
        nested("t", text("sorry")),
        nested("t", stop(StopReason::EndTurn, "sub_2")),
        stop(StopReason::ToolUse, "msg_1"),
        failed_result("t", "Agent", "it gave up"),
        text("It failed."),
        stop(StopReason::EndTurn, "msg_2"),
    ]
}

fn failed() -> Vec<Emitted> {
    broken([thinking("hm"), text("So far")], BackendError::ended_early())
}

fn cancelled() -> Vec<Emitted> {
    let begun = [text("Wait"), call("a", "f"), stop(StopReason::ToolUse, "msg_1")];
    broken(begun, BackendError::Cancelled)
}

/// The runs below, with and without chunks.
pub(super) fn threads() -> Vec<Vec<Vec<AgUiEvent>>> {
    let runs = [answered(refund()), answered(delegated()), failed(), cancelled()];
    let mut session = TestSession::new();
    for emitted in runs {
        session.run("go", emitted);
    }
    [session.events(), session.pruned()]
        .iter()
        .flat_map(|events| {
            [
                thread(events, all(), 0),
                thread(events, AgUiOptions::default(), 9),
            ]
        })
        .collect()
}

fn run_of(session: &TestSession) -> String {
    session.events()[0].meta.run_id.clone().unwrap()
}

/// One paragraph per AG-UI run.
fn outline(session: &TestSession, options: AgUiOptions) -> String {
    let run = run_of(session);
    let runs = thread(&session.events(), options, 0);
    let ids = session.events().into_iter().enumerate();
    let mut outline = runs
        .iter()
        .map(|run_events| lines(run_events, &run))
        .collect::<Vec<_>>()
        .join("\n\n");
    for (at, event) in ids {
        outline = outline.replace(&event.meta.event_id.to_string(), &format!("event-{at}"));
        if let Some(answer) = approve(&event) {
            outline = outline.replace(&answer.approval_id, "ask");
        }
    }
    let schema = serde_json::to_string(&response_schema(&runs)).unwrap();
    outline.replace(&schema, "SCHEMA")
}

fn response_schema(runs: &[Vec<AgUiEvent>]) -> serde_json::Value {
    let ends = runs.iter().filter_map(|run| run.last()).map(json);
    let mut schemas = ends.map(|end| end["outcome"]["interrupts"][0]["responseSchema"].clone());
    schemas.find(|schema| !schema.is_null()).unwrap_or_default()
}

#[test]
fn a_run_with_reasoning_parallel_tools_and_a_question() {
    let session = record_run(answered(refund()));
    assert_snapshot!(outline(&session, AgUiOptions::default()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    REASONING_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_CONTENT {"delta":"an order, ","messageId":"R.1.reasoning"}
    REASONING_MESSAGE_CONTENT {"delta":"then a refund","messageId":"R.1.reasoning"}
    REASONING_MESSAGE_END {"messageId":"R.1.reasoning"}
    REASONING_END {"messageId":"R.1.reasoning"}
    TEXT_MESSAGE_START {"messageId":"R.1"}
    TEXT_MESSAGE_CONTENT {"delta":"Let me ","messageId":"R.1"}
    TEXT_MESSAGE_CONTENT {"delta":"look.","messageId":"R.1"}
    TEXT_MESSAGE_END {"messageId":"R.1","metadata":{"holodeck":{"messageId":"msg_1","stopReason":"tool_use"}}}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"call_a","toolCallName":"order"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"call_a\"}","toolCallId":"call_a"}
    TOOL_CALL_END {"toolCallId":"call_a"}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"call_b","toolCallName":"refund"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"call_b\"}","toolCallId":"call_b"}
    TOOL_CALL_END {"toolCallId":"call_b"}
    TOOL_CALL_RESULT {"content":"7 CHF","messageId":"event-10","toolCallId":"call_a"}
    RUN_FINISHED {"outcome":{"type":"interrupt","interrupts":[{"id":"ask","reason":"tool_call","message":"Run `refund`","toolCallId":"call_b","responseSchema":SCHEMA,"metadata":{"holodeck":{"toolName":"refund","args":{"q":"call_b"},"priority":"low"}}}]},"runId":"ag-0"}

    RUN_STARTED {"runId":"ag-1"}
    TOOL_CALL_RESULT {"content":"done","messageId":"event-13","toolCallId":"call_b"}
    TEXT_MESSAGE_START {"messageId":"R.2"}
    TEXT_MESSAGE_CONTENT {"delta":"Refunded.","messageId":"R.2"}
    TEXT_MESSAGE_END {"messageId":"R.2","metadata":{"holodeck":{"messageId":"msg_2","stopReason":"end_turn"}}}
    RUN_FINISHED {"outcome":{"type":"success"},"result":{"reason":"success","stopReason":"end_turn","model":"m-1","numTurns":2,"durationMs":16},"runId":"ag-1","usage":[{"model":"m-1","inputTokens":12,"outputTokens":5,"totalTokens":17,"reasoningTokens":0,"cachedInputTokens":0,"cacheWriteInputTokens":0}]}
    "#);
}

#[test]
fn an_interrupt_says_what_is_asked_and_what_may_be_answered() {
    let session = record_run(answered(refund()));
    let mut event = json(thread(&session.events(), all(), 0)[0].last().unwrap());
    event["outcome"]["interrupts"][0]["id"] = "ask".into();
    assert_json_snapshot!(event, @r#"
    {
      "type": "RUN_FINISHED",
      "threadId": "s",
      "runId": "ag-0",
      "outcome": {
        "type": "interrupt",
        "interrupts": [
          {
            "id": "ask",
            "reason": "tool_call",
            "message": "Run `refund`",
            "toolCallId": "call_b",
            "responseSchema": {
              "type": "object",
              "description": "Any other field is refused",
              "properties": {
                "approved": {
                  "type": "boolean"
                },
                "editedArgs": {
                  "type": "object",
                  "description": "Replaces all arguments of the call"
                },
                "reason": {
                  "type": "string",
                  "description": "Shown to the agent if the call is refused"
                },
                "scope": {
                  "enum": [
                    "once",
                    "session",
                    "always"
                  ],
                  "description": "How long an approval counts"
                },
                "terminate": {
                  "type": "boolean",
                  "description": "With approved: false, end the run"
                }
              },
              "required": [
                "approved"
              ]
            },
            "metadata": {
              "holodeck": {
                "toolName": "refund",
                "args": {
                  "q": "call_b"
                },
                "priority": "low"
              }
            }
          }
        ]
      },
      "timestamp": 1795000000011
    }
    "#);
}

#[test]
fn without_chunks_each_message_arrives_as_a_whole() {
    let session = record_run(answered([
        thinking("so"),
        text("a"),
        text("b"),
        stop(StopReason::MaxTokens, "msg_1"),
    ]));
    let run = run_of(&session);
    let events = thread(&session.pruned(), all(), 0).concat();
    assert_snapshot!(lines(&events, &run), @r#"
    RUN_STARTED {"runId":"ag-0"}
    REASONING_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_CONTENT {"delta":"so","messageId":"R.1.reasoning"}
    REASONING_MESSAGE_END {"messageId":"R.1.reasoning"}
    REASONING_END {"messageId":"R.1.reasoning"}
    TEXT_MESSAGE_START {"messageId":"R.1"}
    TEXT_MESSAGE_CONTENT {"delta":"ab","messageId":"R.1"}
    TEXT_MESSAGE_END {"messageId":"R.1","metadata":{"holodeck":{"messageId":"msg_1","stopReason":"max_tokens"}}}
    RUN_FINISHED {"outcome":{"type":"success"},"result":{"reason":"success","stopReason":"max_tokens","warnings":["answer truncated at max_tokens"],"truncated":true,"numTurns":1,"durationMs":7,"model":"m-1"},"runId":"ag-0"}
    "#);
}

#[test]
fn a_message_continues_where_the_question_of_another_agent_interrupted_it() {
    // Two agents work at the same time; one asks while the other one writes.
    let session = record_run(answered([
        call("s", "Agent"),
        call("t", "Agent"),
        stop(StopReason::ToolUse, "msg_1"),
        nested("s", text("half ")),
        nested("t", call("u", "search")),
        nested("t", ask("u", "search")),
        nested("s", text("done")),
        nested("t", answer("u", ApprovalDecision::approve())),
        nested("t", result("u", "search", "30")),
        nested("s", stop(StopReason::EndTurn, "s_1")),
        result("s", "Agent", "half done"),
        result("t", "Agent", "30"),
        text("30"),
        stop(StopReason::EndTurn, "msg_2"),
    ]));
    assert_snapshot!(outline(&session, all()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"s","toolCallName":"Agent"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"s\"}","toolCallId":"s"}
    TOOL_CALL_END {"toolCallId":"s"}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"t","toolCallName":"Agent"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"t\"}","toolCallId":"t"}
    TOOL_CALL_END {"toolCallId":"t"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"s","subagentRunId":"s"}
    TEXT_MESSAGE_START {"messageId":"R/s.1","subagentRunId":"s"}
    TEXT_MESSAGE_CONTENT {"delta":"half ","messageId":"R/s.1","subagentRunId":"s"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"t","subagentRunId":"t"}
    TOOL_CALL_START {"parentMessageId":"R/t.1","subagentRunId":"t","toolCallId":"u","toolCallName":"search"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"u\"}","subagentRunId":"t","toolCallId":"u"}
    TOOL_CALL_END {"subagentRunId":"t","toolCallId":"u"}
    TEXT_MESSAGE_END {"messageId":"R/s.1","subagentRunId":"s"}
    SUBAGENT_FINISHED {"outcome":{"type":"suspended","interruptIds":["ask"]},"subagentRunId":"t"}
    SUBAGENT_FINISHED {"outcome":{"type":"suspended"},"subagentRunId":"s"}
    RUN_FINISHED {"outcome":{"type":"interrupt","interrupts":[{"id":"ask","reason":"tool_call","message":"Run `search`","toolCallId":"u","subagentRunId":"t","responseSchema":SCHEMA,"metadata":{"holodeck":{"toolName":"search","args":{"q":"u"},"priority":"low"}}}]},"runId":"ag-0"}

    RUN_STARTED {"runId":"ag-1"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"s","subagentRunId":"s"}
    TEXT_MESSAGE_START {"messageId":"R/s.1","subagentRunId":"s"}
    TEXT_MESSAGE_CONTENT {"delta":"done","messageId":"R/s.1","subagentRunId":"s"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"t","subagentRunId":"t"}
    TOOL_CALL_RESULT {"content":"30","messageId":"event-8","subagentRunId":"t","toolCallId":"u"}
    TEXT_MESSAGE_END {"messageId":"R/s.1","metadata":{"holodeck":{"messageId":"s_1","stopReason":"end_turn"}},"subagentRunId":"s"}
    SUBAGENT_FINISHED {"subagentRunId":"s"}
    TOOL_CALL_RESULT {"content":"half done","messageId":"event-10","toolCallId":"s"}
    SUBAGENT_FINISHED {"subagentRunId":"t"}
    TOOL_CALL_RESULT {"content":"30","messageId":"event-11","toolCallId":"t"}
    TEXT_MESSAGE_START {"messageId":"R.2"}
    TEXT_MESSAGE_CONTENT {"delta":"30","messageId":"R.2"}
    TEXT_MESSAGE_END {"messageId":"R.2","metadata":{"holodeck":{"messageId":"msg_2","stopReason":"end_turn"}}}
    RUN_FINISHED {"outcome":{"type":"success"},"result":{"reason":"success","stopReason":"end_turn","numTurns":2,"durationMs":14,"model":"m-1"},"runId":"ag-1"}
    "#);
}

#[test]
fn an_agent_under_a_call_is_a_subagent() {
    let session = record_run(answered(delegated()));
    assert_snapshot!(outline(&session, all()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"t","toolCallName":"Agent"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"t\"}","toolCallId":"t"}
    TOOL_CALL_END {"toolCallId":"t"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"t","subagentRunId":"t"}
    REASONING_START {"messageId":"R/t.1.reasoning","subagentRunId":"t"}
    REASONING_MESSAGE_START {"messageId":"R/t.1.reasoning","subagentRunId":"t"}
    REASONING_MESSAGE_CONTENT {"delta":"hm","messageId":"R/t.1.reasoning","subagentRunId":"t"}
    REASONING_MESSAGE_END {"messageId":"R/t.1.reasoning","subagentRunId":"t"}
    REASONING_END {"messageId":"R/t.1.reasoning","subagentRunId":"t"}
    TEXT_MESSAGE_START {"messageId":"R/t.1","subagentRunId":"t"}
    TEXT_MESSAGE_CONTENT {"delta":"looking","messageId":"R/t.1","subagentRunId":"t"}
    TEXT_MESSAGE_END {"messageId":"R/t.1","metadata":{"holodeck":{"messageId":"sub_1","stopReason":"tool_use"}},"subagentRunId":"t"}
    TOOL_CALL_START {"parentMessageId":"R/t.1","subagentRunId":"t","toolCallId":"u","toolCallName":"search"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"u\"}","subagentRunId":"t","toolCallId":"u"}
    TOOL_CALL_END {"subagentRunId":"t","toolCallId":"u"}
    SUBAGENT_FINISHED {"outcome":{"type":"suspended","interruptIds":["ask"]},"subagentRunId":"t"}
    RUN_FINISHED {"outcome":{"type":"interrupt","interrupts":[{"id":"ask","reason":"tool_call","message":"Run `search`","toolCallId":"u","subagentRunId":"t","responseSchema":SCHEMA,"metadata":{"holodeck":{"toolName":"search","args":{"q":"u"},"priority":"low"}}}]},"runId":"ag-0"}

    RUN_STARTED {"runId":"ag-1"}
    SUBAGENT_STARTED {"name":"Agent","parentToolCallId":"t","subagentRunId":"t"}
    TOOL_CALL_RESULT {"content":"no","messageId":"event-10","metadata":{"holodeck":{"success":false,"error":"no"}},"subagentRunId":"t","toolCallId":"u"}
    TEXT_MESSAGE_START {"messageId":"R/t.2","subagentRunId":"t"}
    TEXT_MESSAGE_CONTENT {"delta":"sorry","messageId":"R/t.2","subagentRunId":"t"}
    TEXT_MESSAGE_END {"messageId":"R/t.2","metadata":{"holodeck":{"messageId":"sub_2","stopReason":"end_turn"}},"subagentRunId":"t"}
    SUBAGENT_ERROR {"message":"it gave up","subagentRunId":"t"}
    TOOL_CALL_RESULT {"content":"it gave up","messageId":"event-13","metadata":{"holodeck":{"success":false,"error":"it gave up"}},"toolCallId":"t"}
    TEXT_MESSAGE_START {"messageId":"R.2"}
    TEXT_MESSAGE_CONTENT {"delta":"It failed.","messageId":"R.2"}
    TEXT_MESSAGE_END {"messageId":"R.2","metadata":{"holodeck":{"messageId":"msg_2","stopReason":"end_turn"}}}
    RUN_FINISHED {"outcome":{"type":"success"},"result":{"reason":"success","stopReason":"end_turn","numTurns":2,"durationMs":16,"model":"m-1"},"runId":"ag-1"}
    "#);
}

#[test]
fn older_clients_see_only_the_call_of_a_nested_agent_and_its_questions() {
    let session = record_run(answered(delegated()));
    assert_snapshot!(outline(&session, AgUiOptions::default()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"t","toolCallName":"Agent"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"t\"}","toolCallId":"t"}
    TOOL_CALL_END {"toolCallId":"t"}
    RUN_FINISHED {"outcome":{"type":"interrupt","interrupts":[{"id":"ask","reason":"confirmation","message":"Run `search`","responseSchema":SCHEMA,"metadata":{"holodeck":{"toolName":"search","args":{"q":"u"},"priority":"low"}}}]},"runId":"ag-0"}

    RUN_STARTED {"runId":"ag-1"}
    TOOL_CALL_RESULT {"content":"it gave up","messageId":"event-13","metadata":{"holodeck":{"success":false,"error":"it gave up"}},"toolCallId":"t"}
    TEXT_MESSAGE_START {"messageId":"R.2"}
    TEXT_MESSAGE_CONTENT {"delta":"It failed.","messageId":"R.2"}
    TEXT_MESSAGE_END {"messageId":"R.2","metadata":{"holodeck":{"messageId":"msg_2","stopReason":"end_turn"}}}
    RUN_FINISHED {"outcome":{"type":"success"},"result":{"reason":"success","stopReason":"end_turn","numTurns":2,"durationMs":16,"model":"m-1"},"runId":"ag-1"}
    "#);
}

#[test]
fn an_error_in_the_middle_of_a_message_closes_it() {
    assert_snapshot!(outline(&record_run(failed()), all()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    REASONING_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_START {"messageId":"R.1.reasoning"}
    REASONING_MESSAGE_CONTENT {"delta":"hm","messageId":"R.1.reasoning"}
    REASONING_MESSAGE_END {"messageId":"R.1.reasoning"}
    REASONING_END {"messageId":"R.1.reasoning"}
    TEXT_MESSAGE_START {"messageId":"R.1"}
    TEXT_MESSAGE_CONTENT {"delta":"So far","messageId":"R.1"}
    TEXT_MESSAGE_END {"messageId":"R.1","metadata":{"holodeck":{"messageId":"00000000-0000-4000-8000-000000000006","stopReason":"pause_turn","partial":true}}}
    RUN_ERROR {"code":"STREAM_TRUNCATED","message":"the stream ended early"}
    "#);
}

#[test]
fn a_cancelled_run_keeps_what_there_is() {
    assert_snapshot!(outline(&record_run(cancelled()), all()), @r#"
    RUN_STARTED {"runId":"ag-0"}
    TEXT_MESSAGE_START {"messageId":"R.1"}
    TEXT_MESSAGE_CONTENT {"delta":"Wait","messageId":"R.1"}
    TEXT_MESSAGE_END {"messageId":"R.1","metadata":{"holodeck":{"messageId":"msg_1","stopReason":"tool_use"}}}
    TOOL_CALL_START {"parentMessageId":"R.1","toolCallId":"a","toolCallName":"f"}
    TOOL_CALL_ARGS {"delta":"{\"q\":\"a\"}","toolCallId":"a"}
    TOOL_CALL_END {"toolCallId":"a"}
    TOOL_CALL_RESULT {"content":"not answered: cancelled","messageId":"event-4","metadata":{"holodeck":{"success":false,"error":"cancelled"}},"toolCallId":"a"}
    RUN_FINISHED {"outcome":{"type":"cancelled"},"runId":"ag-0"}
    "#);
}

#[test]
fn what_is_no_answer_is_no_success() {
    let refused = [text("No."), stop(StopReason::Refusal, "msg_1")];
    let session = record_run(ended(refused, Outcome::Refused));
    let end = |session: &TestSession| {
        let last = json(thread(&session.events(), all(), 0).concat().last().unwrap());
        format!(
            "{} {} {} {}",
            last["type"], last["code"], last["outcome"]["type"], last["result"]["reason"]
        )
    };
    assert_snapshot!(end(&session), @r#""RUN_ERROR" "REFUSED" null null"#);
    let limit = record_run(ended(
        [text("so"), stop(StopReason::EndTurn, "m")],
        Outcome::MaxTurns,
    ));
    assert_snapshot!(end(&limit), @r#""RUN_FINISHED" null "success" "max_turns""#);
    let empty = record_run(ended([], Outcome::EmptyResponse));
    assert_snapshot!(end(&empty), @r#""RUN_ERROR" "BACKEND_ERROR" null null"#);
}

#[test]
fn questions_that_are_known_together_are_one_interrupt_and_an_answered_one_is_none() {
    let calls = [
        call("a", "f"),
        call("b", "f"),
        call("c", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        ask("a", "f"),
        ask("b", "f"),
        ask("c", "f"),
        answer("a", ApprovalDecision::approve()),
    ];
    let session = record_run(broken(calls, BackendError::ended_early()));
    let events = session.events();
    let asked: Vec<_> = events.iter().filter_map(approve).collect();
    // Up to the answer about `a`.
    let known = events
        .iter()
        .position(|event| event.body.kind() == "approval_resolved")
        .unwrap();
    let mut run = AgUiRun::start("s", "ag", all());
    let projected = run.project_all(&events[..=known]);
    assert!(run.is_interrupted());
    let ids = [&asked[1].approval_id, &asked[2].approval_id];
    assert_eq!(super::interrupts(&projected).iter().collect::<Vec<_>>(), ids);
    // Both are answered by one request.
    let answers = &asked[1..];
    let (mut next, projected) = AgUiRun::resume("s", "ag-2", all(), &events[..=known], answers).unwrap();
    assert!(!next.is_over());
    assert_snapshot!(lines(&projected, "no run"), @r#"RUN_STARTED {"runId":"ag-2"}"#);
    let rest = next.project_all(&events[known + 1..]);
    assert_eq!(json(rest.last().unwrap())["type"], "RUN_ERROR");
    // Who answers what is not asked here continues nothing.
    let unknown = [holodeck_events::ApprovalAnswer::new(
        "?",
        holodeck_events::Resolution::Approve,
    )];
    assert!(AgUiRun::resume("s", "ag-2", all(), &events, &unknown).is_none());
}

#[test]
fn a_message_that_was_never_completed_ends_before_its_calls() {
    let session = record_run(answered(refund()));
    let mut events = session.events();
    events.retain(|event| event.body.kind() != "message");
    let mut kinds: Vec<_> = thread(&events, all(), 0)
        .concat()
        .iter()
        .map(|event| json(event)["type"].clone())
        .collect();
    kinds.truncate(12);
    let end = kinds.iter().position(|kind| kind == "TEXT_MESSAGE_END");
    let call = kinds.iter().position(|kind| kind == "TOOL_CALL_START");
    assert!(end.is_some() && end < call, "{kinds:?}");
}

#[test]
fn ids_that_were_created_here_differ_between_runs() {
    let mut session = TestSession::new();
    for _ in 0..2 {
        let calls = [
            call("", "f"),
            stop(StopReason::ToolUse, "m"),
            result("", "f", "1"),
            text("so"),
        ];
        session.run("go", answered(calls));
    }
    let client = super::rules::client_of(&thread(&session.events(), all(), 0)).unwrap();
    let [first, second] = client.calls.as_slice() else {
        panic!("{client:?}");
    };
    assert!(
        first[0].ends_with("/hd_1") && second[0].ends_with("/hd_1"),
        "{client:?}"
    );
    assert_ne!(first[0], second[0]);
    assert_eq!(client.results[1][1], second[0]);
}
