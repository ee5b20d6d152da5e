//! Converts the recordings to events and checks them.

use futures::FutureExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, Outcome, ResultFold};
use holodeck_model::events::{AgentEvent, EventBody};
use holodeck_testkit::{RecordedTurn, agui_client};
use pretty_assertions::assert_eq;

use super::{Recording, Turn};
use crate::translate::Ending;

/// Records a turn with the end that the backend derives from its result.
fn record(turn: &Turn) -> RecordedTurn {
    let mut fold = ResultFold::new();
    for event in &turn.events {
        fold.observe(event);
    }
    let end = match &turn.ending {
        Some(Ending::Answered { stop_reason, .. }) => Ok(fold.finish_answered(stop_reason)),
        Some(Ending::Ended(outcome)) => Ok(fold.finish(outcome.clone())),
        Some(Ending::Failed(error)) => Err(error.clone()),
        Some(Ending::Interrupted) => Err(BackendError::Cancelled),
        None => Err(BackendError::Terminated {
            detail: "exit status 1".to_owned(),
        }),
    };
    let end = end.map(|result| BackendEvent::End(Box::new(result)));
    let stream = turn.events.iter().cloned().map(Ok).chain([end]);
    RecordedTurn::of(stream).now_or_never().unwrap()
}

fn record_first(name: &str) -> RecordedTurn {
    record(&Recording::read(name).turns()[0])
}

fn count(turn: &RecordedTurn, kind: &str) -> usize {
    turn.events()
        .iter()
        .filter(|event| event.body.kind() == kind)
        .count()
}

fn last(turn: &RecordedTurn) -> &AgentEvent {
    turn.events().last().unwrap()
}

#[test]
fn every_recording_holds_the_invariants_and_folds_to_its_result() {
    for recording in Recording::all() {
        for (turn, number) in recording.turns().iter().zip(0..) {
            let problems = record(turn).problems(None).join("\n");
            // A subagent continued in the background: its tool result arrives in the turn after its own.
            let late = recording.name == "subagent" && number == 1;
            let expected = if late {
                "the recorder left out: ResultWithoutCall"
            } else {
                ""
            };
            assert!(problems.starts_with(expected), "{}", recording.name);
            assert_eq!(
                problems.is_empty(),
                expected.is_empty(),
                "{}: {problems}",
                recording.name
            );
            assert_eq!(problems.lines().count(), usize::from(late), "{problems}");
        }
    }
}

#[test]
fn the_official_ag_ui_client_accepts_every_recording() {
    let mut threads = Vec::new();
    for recording in Recording::all() {
        for turn in recording.turns() {
            let turn = record(&turn);
            threads.push(vec![turn.agui_events(true)]);
            threads.push(vec![turn.agui_events(false)]);
        }
    }
    assert!(threads.len() > 100, "{}", threads.len());
    agui_client(&threads).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn recordings_are_these_events() {
    let shown: Vec<String> = Recording::all()
        .iter()
        .map(|recording| {
            let turns: Vec<_> = recording
                .turns()
                .iter()
                .map(|turn| record(turn).lines().join("\n"))
                .collect();
            format!("=== {}\n{}", recording.name, turns.join("\n---\n"))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn a_message_in_several_frames_is_emitted_and_counted_once() {
    check_emitted_once("thinking");
    check_emitted_once("stream_tools");
}

fn check_emitted_once(name: &str) {
    let turn = record_first(name);
    let messages = if name == "thinking" { 1 } else { 2 };
    assert_eq!(
        (count(&turn, "thinking"), count(&turn, "message")),
        (1, messages),
        "{:?}",
        turn.lines()
    );
    let EventBody::Complete(end) = &last(&turn).body else {
        panic!("{:?}", turn.lines());
    };
    let result = turn.result().unwrap();
    assert_eq!(end.totals.usage.map(Into::into), result.token_usage);
    let signed = turn.events().iter().any(|event| match &event.body {
        EventBody::Thinking(thinking) => thinking.signature.is_some(),
        _ => false,
    });
    assert!(signed, "the signature is lost");
}

#[test]
fn an_agent_under_a_call_leaves_the_turn_alone() {
    for name in [
        "subagent",
        "subagent_foreground",
        "subagents_parallel",
        "stream_subagent",
        "stream_subagent_2_1_197",
    ] {
        for turn in Recording::read(name).turns() {
            let parents: Vec<_> = turn
                .events
                .iter()
                .filter_map(|event| match event {
                    BackendEvent::Nested { parent_call_id, .. } => Some(parent_call_id.clone()),
                    _ => None,
                })
                .collect();
            let recorded = record(&turn);
            let (nested, main): (Vec<_>, Vec<_>) = recorded
                .events()
                .iter()
                .partition(|event| event.meta.parent_tool_use_id.is_some());
            for event in nested {
                assert!(
                    parents.contains(event.meta.parent_tool_use_id.as_ref().unwrap()),
                    "{name}"
                );
            }
            let own = turn
                .events
                .iter()
                .filter(|event| !matches!(event, BackendEvent::Nested { .. }));
            let alone = record(&Turn {
                events: own.cloned().collect(),
                ending: turn.ending.clone(),
                ..Turn::default()
            });
            let kinds: Vec<_> = main.iter().map(|event| event.body.kind()).collect();
            let expected: Vec<_> = alone.events().iter().map(|event| event.body.kind()).collect();
            assert_eq!(kinds, expected, "{name}");
        }
    }
}

#[test]
fn an_error_carries_the_text_of_its_result() {
    for name in [
        "error_400",
        "error_401",
        "error_429_final",
        "error_500_final",
        "error_529_final",
    ] {
        let turn = record_first(name);
        let EventBody::Error(error) = &last(&turn).body else {
            panic!("{name}: {:?}", turn.lines());
        };
        assert_eq!(error.code, "BACKEND_ERROR", "{name}");
        let status = error
            .details
            .as_ref()
            .and_then(|details| details["status"].as_u64());
        assert!(
            status.is_some_and(|status| name.contains(&status.to_string())),
            "{name}: {error:?}"
        );
        assert!(!error.error.contains("exit"), "{name}: {error:?}");
    }
    let killed = record_first("killed_mid_turn");
    assert!(matches!(&last(&killed).body, EventBody::Error(error) if error.code == "SUBPROCESS_TERMINATED"));
}

/// Standard error is never parsed. The closest case is lines on standard output that are not frames.
#[test]
fn noise_is_not_an_event() {
    let recording = Recording::read("text_only");
    let clean = crate::replay(&recording.output(), usize::MAX);
    let mut noisy = b"npm warn deprecated\n\n".to_vec();
    for line in recording.output().split_inclusive(|byte| *byte == b'\n') {
        noisy.extend_from_slice(line);
        noisy.extend_from_slice(b"[warn] telemetry: connection refused\n");
    }
    let noisy = crate::replay(&noisy, usize::MAX);
    assert!(noisy.unread > 0);
    assert_eq!(noisy.events, clean.events);
    assert_eq!(noisy.endings, clean.endings);
}

#[test]
fn a_turn_limit_and_an_interrupt_are_not_errors() {
    let limited = record_first("max_turns");
    assert_eq!(limited.result().unwrap().outcome, Outcome::MaxTurns);
    assert_eq!(limited.lines().pop().unwrap(), "complete max_turns");
    let stopped = record_first("interrupt");
    assert_eq!(stopped.lines().pop().unwrap(), "complete user_cancelled");
}
