//! Properties of recordings for random backends, orderly and disorderly.

use holodeck_backend_api::{
    ApprovalDecision, BackendError, BackendEvent, ExecutionResult, HistoryFold, Opening, Outcome, StopReason,
    collect,
};
use holodeck_events::{RunRecorder, Trajectory, View, execution_result, history};
use pretty_assertions::assert_eq as same;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use crate::{
    backend_events::{
        Emitted, answer, answered, ask, broken, call, decided, ended, failed_result, nested, notice, result,
        stop, text, thinking, thought, usage,
    },
    grammar,
    session::{TestSession, block_on, check, checked},
};

fn id() -> impl Strategy<Value = &'static str> {
    select(vec!["", "a", "b", "c", "d"])
}

fn reason() -> impl Strategy<Value = StopReason> {
    select(vec![
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::Refusal,
        StopReason::Other("eos".to_owned()),
        StopReason::aborted(),
    ])
}

fn decision() -> impl Strategy<Value = ApprovalDecision> {
    select(vec![
        ApprovalDecision::approve(),
        ApprovalDecision::Reject {
            reason: "no".to_owned(),
        },
        ApprovalDecision::Withdrawn,
    ])
}

/// Any event of a backend, in any order.
fn any_event() -> impl Strategy<Value = BackendEvent> {
    let one = prop_oneof![
        select(vec!["", "hm ", "so "]).prop_map(thinking),
        Just(thought("sig")),
        select(vec!["", "x", "yy "]).prop_map(text),
        id().prop_map(|id| call(id, "f")),
        id().prop_map(|id| result(id, "f", "1")),
        id().prop_map(|id| failed_result(id, "f", "no")),
        id().prop_map(|id| ask(id, "f")),
        (id(), decision()).prop_map(|(id, decision)| answer(id, decision)),
        Just(usage(2, 1)),
        reason().prop_map(|reason| stop(reason, "msg")),
        Just(BackendEvent::StructuredOutput(json!({"n": 1}))),
        Just(BackendEvent::Paused),
        Just(notice("slow")),
        id().prop_map(decided),
    ];
    one.prop_recursive(2, 8, 1, |inner| {
        (id(), inner).prop_map(|(id, event)| nested(id, event))
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    select(vec![
        Outcome::Completed,
        Outcome::MaxTurns,
        Outcome::Refused,
        Outcome::EmptyResponse,
        Outcome::SubprocessTerminated,
        Outcome::Failed {
            reason: "odd".to_owned(),
        },
    ])
}

fn error() -> impl Strategy<Value = BackendError> {
    select(vec![
        BackendError::Cancelled,
        BackendError::ended_early(),
        BackendError::Terminated {
            detail: "9".to_owned(),
        },
        BackendError::protocol("not JSON".to_owned()),
    ])
}

/// A run of a backend that breaks the order.
pub(crate) fn wild() -> impl Strategy<Value = Vec<Emitted>> {
    let events = || vec(any_event(), 0..24);
    prop_oneof![
        (events(), outcome()).prop_map(|(events, outcome)| ended(events, outcome)),
        (events(), error()).prop_map(|(events, error)| broken(events, error)),
        events().prop_map(|events| events.into_iter().map(Ok).collect()),
    ]
}

/// A model message as the contract orders it.
#[derive(Clone, Debug)]
struct Message {
    reasoning: Vec<(String, bool)>,
    text: Vec<String>,
    late: Option<String>,
    calls: usize,
    /// Results in reverse order, and in the middle of the message.
    reverse: bool,
    early: bool,
    asks: bool,
    usage: Option<(u64, u64)>,
}

fn message() -> impl Strategy<Value = Message> {
    let words = || vec("[a-zäß🦀 ]{1,4}", 0..3);
    let shape = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        vec(("[a-z ]{1,4}", any::<bool>()), 0..3),
        words(),
        proptest::option::of("[a-z ]{1,4}"),
        0..4_usize,
        shape,
        proptest::option::of((0..9_u64, 0..9_u64)),
    )
        .prop_map(
            |(reasoning, text, late, calls, (reverse, early, asks), usage)| Message {
                reasoning,
                text,
                late,
                calls,
                reverse,
                early,
                asks,
                usage,
            },
        )
}

fn events_of(messages: &[Message]) -> Vec<BackendEvent> {
    let mut events = Vec::new();
    let mut next_id = 0;
    let last = messages.len().saturating_sub(1);
    for (at, message) in messages.iter().enumerate() {
        for (piece, signed) in &message.reasoning {
            events.push(thinking(piece));
            if *signed {
                events.push(thought("sig"));
            }
        }
        events.extend(message.text.iter().map(|piece| text(piece)));
        events.extend(message.late.iter().map(|piece| thinking(piece)));
        let calls = if at == last { 0 } else { message.calls };
        let mut ids: Vec<_> = (next_id..next_id + calls)
            .map(|number| format!("call_{number}"))
            .collect();
        next_id += calls;
        events.extend(ids.iter().map(|id| call(id, "f")));
        let end = stop(
            if calls > 0 {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            },
            &format!("msg_{at}"),
        );
        let usage = message
            .usage
            .map(|(prompt, completion)| usage(prompt, completion));
        if message.reverse {
            ids.reverse();
        }
        let mut results = Vec::new();
        for id in &ids {
            if message.asks {
                results.push(ask(id, "f"));
                results.push(answer(id, ApprovalDecision::approve()));
            }
            results.push(result(id, "f", "1"));
        }
        if message.early {
            events.append(&mut results);
        }
        events.extend(usage);
        events.push(end);
        events.extend(results);
    }
    events
}

/// A run that obeys the contract, cut off anywhere.
pub(crate) fn tame() -> impl Strategy<Value = Vec<Emitted>> {
    let cut = proptest::option::of((any::<prop::sample::Index>(), error()));
    let shape = (
        vec(message(), 1..5),
        any::<bool>(),
        cut,
        proptest::option::of(outcome()),
    );
    shape.prop_map(|(messages, structured, cut, outcome)| {
        let mut events = events_of(&messages);
        if structured {
            events.push(BackendEvent::StructuredOutput(json!({"n": 1})));
        }
        match (cut, outcome) {
            (Some((at, error)), _) => {
                events.truncate(at.index(events.len() + 1));
                broken(events, error)
            }
            (None, Some(outcome)) => ended(events, outcome),
            (None, None) => answered(events),
        }
    })
}

/// Every invariant, on the whole and on every prefix, live and replayed; and the grammar.
fn holds(session: &TestSession) {
    let (events, pruned) = (session.events(), session.pruned());
    same!(check(View::Live, &events), []);
    same!(check(View::Replay, &pruned), []);
    for end in 0..events.len() {
        same!(checked(View::Live, &events[..end]).finish_prefix(), []);
    }
    for end in 0..pruned.len() {
        same!(checked(View::Replay, &pruned[..end]).finish_prefix(), []);
    }
    same!(grammar::check_order(&events), Ok(()));
}

/// The result and trajectory of a stream, recorded without a store.
fn without_store(emitted: Vec<Emitted>) -> (ExecutionResult, Trajectory) {
    let mut recorder = RunRecorder::without_store();
    for next in emitted.into_iter().chain([Err(BackendError::no_result())]) {
        let drafts = match next {
            Ok(event) => recorder.observe(&event),
            Err(error) => recorder.fail(&error),
        };
        same!(drafts, []);
        if recorder.result().is_some() {
            break;
        }
    }
    recorder.into_result()
}

fn direct(emitted: Vec<Emitted>) -> ExecutionResult {
    match block_on(collect(Box::pin(futures::stream::iter(emitted)))) {
        Ok(result) => result,
        Err(failed) => *failed.partial,
    }
}

proptest! {
    #[test]
    fn the_record_of_any_stream_is_in_order(runs in vec(wild(), 1..4)) {
        let mut session = TestSession::new();
        for emitted in runs {
            session.run("go", emitted);
        }
        holds(&session);
    }

    #[test]
    fn the_history_of_any_recording_is_complete(runs in vec(prop_oneof![wild(), tame()], 1..4)) {
        let mut session = TestSession::new();
        for emitted in runs {
            session.run("go", emitted);
        }
        let history = history(&session.events());
        // What providers accept, without adding or removing anything; pieces of text are not needed.
        prop_assert_eq!(&Opening::after(history.clone()).whole_history(), &history);
        prop_assert_eq!(holodeck_events::history(&session.pruned()), history);
    }

    /// The history of an open conversation equals the history that is read from its log.
    #[test]
    fn the_history_of_an_orderly_run_is_that_of_the_live_conversation(emitted in tame()) {
        let mut live = HistoryFold::new("go");
        for event in emitted.iter().flatten() {
            live.observe(event);
        }
        let expected = match emitted.last() {
            Some(Ok(BackendEvent::End(end)))
                if matches!(end.outcome, Outcome::Completed | Outcome::Refused)
                    && !end.response.trim().is_empty() =>
            {
                Some(live.answered())
            }
            Some(Err(BackendError::Cancelled)) => Some(live.interrupted()),
            _ => None,
        };
        let mut session = TestSession::new();
        session.run("go", emitted.clone());
        let structured = emitted.iter().flatten().any(|event| matches!(event, BackendEvent::StructuredOutput(_)));
        // An answer that is an object is a message of the record.
        if !structured {
            prop_assert_eq!(history(&session.events()), expected.unwrap_or_default());
        }
    }

    #[test]
    fn without_a_store_the_result_and_the_trajectory_are_the_same(emitted in wild()) {
        let mut session = TestSession::new();
        let run = session.run("go", emitted.clone());
        let (result, trajectory) = without_store(emitted);
        prop_assert_eq!(&run.result, &result);
        prop_assert_eq!(&run.trajectory, &trajectory);
    }

    #[test]
    fn an_orderly_backend_loses_nothing(emitted in tame()) {
        let mut session = TestSession::new();
        let direct = direct(emitted.clone());
        let run = session.run("go", emitted);
        prop_assert_eq!(&run.result, &direct);
        prop_assert_eq!(run.trajectory.ignored().count(), 0);
        let direct = ExecutionResult { finish_reason: None, ..direct };
        prop_assert_eq!(execution_result(&session.pruned()), Some(direct.clone()));
        prop_assert_eq!(execution_result(&session.events()), Some(direct));
        holds(&session);
    }
}
