//! Tests that the conformance suite passes a conforming backend and lists every failure of another.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, BackendEvent, HistoryItem, Outcome, StopReason, ToolHost};
use holodeck_testkit::{
    Asked, ScriptedBackend, ScriptedTurn,
    conformance::{self, ModelMove, Prepared, Scenario, Subject},
};
use insta::assert_snapshot;

/// The scripted backend, with the behaviour of a real one for such a model.
struct Scripted;

#[async_trait]
impl Subject for Scripted {
    async fn backend(&self, scenario: Scenario, tools: Arc<dyn ToolHost>) -> Prepared {
        let moves = Mutex::new(VecDeque::from(scenario.moves));
        let (max_turns, format) = (scenario.max_turns.unwrap_or(20), scenario.response_format);
        let backend = ScriptedBackend::answering(move |asked| {
            let mut moves = moves.lock().unwrap();
            let mut turn = ScriptedTurn::nothing();
            for number in 1.. {
                match moves.pop_front() {
                    Some(ModelMove::Call(calls)) if number < max_turns => turn = turn.and_call(calls),
                    Some(ModelMove::Call(calls)) => {
                        for call in calls {
                            turn = turn.and_event(BackendEvent::ToolCall(call));
                        }
                        let end = BackendEvent::TurnEnd {
                            stop_reason: StopReason::ToolUse,
                            message_id: None,
                            model: None,
                        };
                        return turn.and_event(end).and_end(Outcome::MaxTurns);
                    }
                    Some(last) => {
                        let text = answer_text(&last);
                        turn = play(turn, last, asked);
                        if let (Some(_), Some(text)) = (&format, text) {
                            let value = serde_json::from_str(&text).unwrap();
                            turn = turn.and_event(BackendEvent::StructuredOutput(value));
                        }
                        return turn;
                    }
                    None => break,
                }
            }
            turn
        });
        Prepared {
            backend: Arc::new(backend.with_tools(tools)),
            keep: Box::new(()),
        }
    }
}

fn answer_text(last: &ModelMove) -> Option<String> {
    match last {
        ModelMove::Say { pieces, .. } => Some(pieces.concat()),
        _ => None,
    }
}

fn play(mut turn: ScriptedTurn, last: ModelMove, asked: &Asked) -> ScriptedTurn {
    match last {
        ModelMove::Say {
            reasoning,
            pieces,
            usage,
        } => {
            if let Some(text) = reasoning {
                turn = turn.and_thinking(text);
            }
            for piece in pieces {
                turn = turn.and_text(piece);
            }
            match usage {
                Some(usage) => turn.and_usage(usage),
                None => turn,
            }
        }
        ModelMove::Repeat => {
            let history = asked.history.iter();
            let mut texts: Vec<_> = history.filter_map(HistoryItem::text).collect();
            texts.push(&asked.message);
            turn.and_text(&texts.join(" | "))
        }
        ModelMove::Refuse(text) => turn.and_text(text).and_stop(StopReason::Refusal),
        ModelMove::SayNothing => turn,
        ModelMove::BreakOff(text) => turn
            .and_text(text)
            .and_fail(BackendError::protocol("the stream ended early".to_owned())),
        ModelMove::HangAfter(text) => turn.and_text(text).and_hang(),
        ModelMove::Fail(status) => turn.and_fail(BackendError::Provider {
            status: Some(status),
            code: None,
            explanation: "no".into(),
            param: None,
            retryable: false,
            retry_after: None,
        }),
        ModelMove::Call(_) => unreachable!("calls do not end a turn"),
    }
}

#[tokio::test]
async fn the_scripted_backend_conforms() {
    let report = conformance::run(&Scripted).await;
    report.assert();
    assert_snapshot!(report);
}

/// A backend that always gives the same answer.
struct Stubborn;

#[async_trait]
impl Subject for Stubborn {
    async fn backend(&self, _: Scenario, _: Arc<dyn ToolHost>) -> Prepared {
        Prepared {
            backend: Arc::new(ScriptedBackend::answering(|_| ScriptedTurn::text("42"))),
            keep: Box::new(()),
        }
    }

    fn skips(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("a refusal is an outcome", "it never refuses"),
            ("no such check", "for the test"),
            ("a turn stopped while the model writes", "it writes at once"),
            ("a turn stopped while a tool runs", "it has no tools"),
            ("a dropped turn leaves the session as it was", "it writes at once"),
        ]
    }
}

#[tokio::test]
async fn what_does_not_conform_is_listed_and_a_skip_is_no_pass() {
    let report = conformance::run(&Stubborn).await;
    assert_snapshot!(report);
    assert!(std::panic::catch_unwind(|| report.assert()).is_err());
}
