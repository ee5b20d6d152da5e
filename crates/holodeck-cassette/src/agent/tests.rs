//! Tests that a recorded turn is replayed with all its events and no secret, and that a changed agent misses.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend, AgentSession, ApprovalAsk, ApprovalDecision, BackendError, CallDetails, EventStream,
    ExecutionResult, Opening, ResultFold, SessionControl, SessionState, StopReason, TokenUsage, ToolCall,
    ToolResult,
};
use holodeck_model::Redactor;
use pretty_assertions::assert_eq;

use super::*;
use crate::{Cassette, RecordMode, Tape};

const SECRET: &str = "hunter2-secret";

/// Calls a tool in each turn, and ends as the message says.
struct Live;

fn live_events(message: &str) -> Vec<BackendEvent> {
    let call = ToolCall {
        name: "look_up".to_owned(),
        arguments: json!({"query": message, "key": SECRET}),
        call_id: "c1".to_owned(),
        provider_fields: None,
    };
    let usage = TokenUsage {
        prompt_tokens: 5,
        completion_tokens: 2,
        total_tokens: 7,
        ..TokenUsage::default()
    };
    let end = |stop_reason| BackendEvent::TurnEnd {
        stop_reason,
        message_id: Some("m1".to_owned()),
        model: Some("sonnet-1".to_owned()),
    };
    let text = |text: &str| BackendEvent::Text {
        text: text.to_owned(),
    };
    let nested = |event| BackendEvent::Nested {
        parent_call_id: "c1".to_owned(),
        event: Box::new(event),
    };
    vec![
        BackendEvent::Notice {
            message: "only in the live run".to_owned(),
        },
        BackendEvent::SessionStarted {
            session_id: "s1".to_owned(),
            model: None,
        },
        BackendEvent::Thinking { text: "H".to_owned() },
        BackendEvent::Thinking { text: "m".to_owned() },
        BackendEvent::ThinkingEnd {
            signature: Some("sig".to_owned()),
        },
        BackendEvent::ToolCall(call.clone()),
        BackendEvent::Usage(usage),
        end(StopReason::ToolUse),
        BackendEvent::ApprovalAsked(Box::new(ApprovalAsk {
            tool_name: call.name.clone(),
            arguments: call.arguments.clone(),
            call_id: call.call_id.clone(),
            description: Some(format!("with {SECRET}")),
            agent_id: None,
            answer_schema: Some(Box::new(json!({"type": "object"}))),
            paths: Vec::new(),
            reason: None,
            zone: holodeck_model::Zone::Inside,
            tool_digest: None,
            scopes: None,
            is_followed: false,
        })),
        BackendEvent::ApprovalAnswered {
            call_id: call.call_id.clone(),
            decision: ApprovalDecision::Reject {
                reason: format!("no {SECRET}"),
            },
        },
        nested(text("in")),
        nested(text("ner")),
        BackendEvent::ToolResult(ToolResult {
            call_id: call.call_id,
            name: call.name,
            result: format!("found {SECRET}"),
            is_error: false,
            duration_ms: None,
            details: CallDetails::default(),
        }),
        text("You said "),
        text(message),
        BackendEvent::Usage(usage),
        end(StopReason::EndTurn),
        BackendEvent::StructuredOutput(json!({"said": message})),
    ]
}

/// The result of the turn without a recording.
fn result(message: &str) -> ExecutionResult {
    let mut fold = ResultFold::new();
    for event in live_events(message) {
        fold.observe(&event);
    }
    fold.finish(match message {
        "too long" => Outcome::MaxTurns,
        "odd" => Outcome::Failed {
            reason: "it is odd".to_owned(),
        },
        _ => Outcome::Completed,
    })
}

fn stream_turn(request: TurnRequest) -> EventStream<'static> {
    let message = request.message;
    Box::pin(async_stream::stream! {
        yield Ok(BackendEvent::Paused);
        tokio::time::sleep(Duration::from_mins(1)).await;
        yield Ok(BackendEvent::Resumed);
        tokio::time::sleep(Duration::from_secs(2)).await;
        for event in live_events(&message) {
            yield Ok(event);
        }
        if message == "break" {
            yield Err(BackendError::ended_early());
        } else {
            yield Ok(BackendEvent::End(Box::new(result(&message))));
        }
    })
}

#[async_trait]
impl AgentBackend for Live {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        stream_turn(request)
    }

    async fn open_session(&self, _: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(Self))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl AgentSession for Live {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        stream_turn(request)
    }

    fn control(&self) -> SessionControl {
        SessionControl::default()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([SECRET.to_owned()]))
}

fn context(instructions: &str) -> AgentContext {
    AgentContext {
        provider: "anthropic".to_owned(),
        model: "sonnet".to_owned(),
        content: json!({"instructions": instructions}),
    }
}

fn request(message: &str, unit: &str) -> TurnRequest {
    TurnRequest {
        unit: Some(unit.to_owned()),
        ..TurnRequest::new(message)
    }
}

type Events = Vec<Result<BackendEvent, BackendError>>;

async fn collect(stream: EventStream<'_>) -> Events {
    stream.collect().await
}

fn end_of(events: &Events) -> ExecutionResult {
    match events.last() {
        Some(Ok(BackendEvent::End(result))) => (**result).clone(),
        other => panic!("{other:?}"),
    }
}

fn miss_in(events: &Events) -> String {
    match events.as_slice() {
        [Err(BackendError::ReplayMiss(explanation))] => explanation.message.clone(),
        other => panic!("{other:?}"),
    }
}

fn recording(path: &Path) -> (RecordedAgent, Arc<Tape>) {
    let tape = Tape::create(path, redactor()).unwrap();
    let agent = RecordedAgent::new(Arc::new(Live), Arc::clone(&tape), context("Be kind."));
    (agent, tape)
}

fn replaying(path: &Path, instructions: &str) -> ReplayedAgent {
    let cassette = Arc::new(Cassette::open(path).unwrap());
    assert_eq!(cassette.info().models, ["sonnet-1"]);
    ReplayedAgent::new(cassette, redactor(), context(instructions))
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_replayed_with_all_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let (agent, tape) = recording(&path);
    for message in ["hi", "too long", "odd"] {
        let events = collect(agent.start(request(message, "a"))).await;
        assert_eq!(end_of(&events), result(message), "the live run gets every event");
    }
    assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 3);

    let agent = replaying(&path, "Be kind.");
    for message in ["hi", "too long", "odd"] {
        let events = collect(agent.start(request(message, "a"))).await;
        let mut expected = result(message);
        for call in &mut expected.tool_calls {
            redactor().value(&mut call.arguments);
        }
        expected.tool_results[0].result = "found ***".to_owned();
        expected.recorded_latency = Some(Duration::from_secs(2));
        assert_eq!(end_of(&events), expected);
    }
    let tape = std::fs::read_to_string(&path).unwrap();
    assert!(!tape.contains(SECRET) && tape.contains("no ***"), "{tape}");
    let entry = tape.lines().find(|line| line.contains("\"too long\"")).unwrap();
    let entry: Value = serde_json::from_str(entry).unwrap();
    insta::assert_json_snapshot!(json!({"request": entry["request"], "response": entry["response"]}));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_model_would_see_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let (agent, tape) = recording(&path);
    let picture = |content: &str| {
        vec![Image {
            media_type: "image/png".to_owned(),
            base64: content.into(),
        }]
    };
    let with_picture = |content: &str| TurnRequest {
        images: picture(content),
        ..request("look", "a")
    };
    let after = |earlier: &str| Opening::after([HistoryItem::user(earlier)]);
    for turn in [request("hi", "a"), with_picture("AAAA")] {
        collect(agent.start(turn)).await;
    }
    let mut session = agent.open_session(after("before")).await.unwrap();
    collect(session.turn(request("hi", "a"))).await;
    drop(session);
    tape.finish(RecordMode::Replace).unwrap();

    let agent = replaying(&path, "Be kind.");
    for turn in [request("hi", "b"), with_picture("AAAA")] {
        end_of(&collect(agent.start(turn)).await);
    }
    let mut session = agent.open_session(after("before")).await.unwrap();
    end_of(&collect(session.turn(request("hi", "a"))).await);
    let miss = miss_in(&collect(agent.start(with_picture("BBBB"))).await);
    assert!(miss.contains("images[0].digest: recorded \"sha256:"), "{miss}");
    let mut session = agent.open_session(after("later")).await.unwrap();
    let miss = miss_in(&collect(session.turn(request("hi", "a"))).await);
    assert!(
        miss.contains("conversation[0].content: recorded \"before\""),
        "{miss}"
    );
    let agent = replaying(&path, "Be brief.");
    let miss = miss_in(&collect(agent.start(request("hi", "a"))).await);
    assert!(
        miss.contains("agent.instructions: recorded \"Be kind.\", now \"Be brief.\""),
        "{miss}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_or_stopped_turn_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let (agent, tape) = recording(&path);
    let events = collect(agent.start(request("break", "a"))).await;
    assert!(matches!(events.last(), Some(Err(_))));
    let mut stopped = agent.start(request("stopped", "a"));
    for _ in 0..5 {
        stopped.next().await;
    }
    drop(stopped);
    collect(agent.start(request("hi", "a"))).await;
    assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 1);
    let agent = replaying(&path, "Be kind.");
    for message in ["break", "stopped"] {
        miss_in(&collect(agent.start(request(message, "a"))).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_replayed_turn_by_turn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let (agent, tape) = recording(&path);
    let messages = ["hi", "break", "too long", "hunter2-secret", "hi"];
    let mut session = agent.create_session().await.unwrap();
    for message in messages {
        collect(session.turn(request(message, "a"))).await;
    }
    assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 4);

    let agent = replaying(&path, "Be kind.");
    let mut session = agent.create_session().await.unwrap();
    for message in messages {
        let events = collect(session.turn(request(message, "a"))).await;
        if message == "break" {
            miss_in(&events);
        } else {
            assert_eq!(end_of(&events).outcome, result(message).outcome, "{message}");
        }
    }
    // Without the turns before it, the key of a turn differs.
    let mut other = agent.create_session().await.unwrap();
    miss_in(&collect(other.turn(request("too long", "a"))).await);

    session.close().await.unwrap();
    assert_eq!(session.state(), SessionState::Closed);
    let events = collect(session.turn(request("hi", "a"))).await;
    assert!(matches!(events.as_slice(), [Err(BackendError::Session { .. })]));
}

#[tokio::test(start_paused = true)]
async fn recording_one_case_again_keeps_the_equal_turn_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.jsonl");
    let (agent, tape) = recording(&path);
    for unit in ["a", "b"] {
        collect(agent.start(request("hi", unit))).await;
    }
    tape.finish(RecordMode::Replace).unwrap();
    let (agent, tape) = recording(&path);
    collect(agent.start(request("hi", "a"))).await;
    assert_eq!(tape.finish(RecordMode::Merge).unwrap(), 2);
}
