//! Tests that a recording broken in one way violates exactly one invariant, and that sound prefixes violate none.

use std::collections::BTreeMap;

use holodeck_backend_api::{ApprovalDecision, StopReason};
use holodeck_events::{Invariant, StoredEvent, StreamChecker, View, replay_violations};
use holodeck_model::events::{AgentEvent, EventBody, EventMeta, IdSource, PersistenceState};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{answer, answered, ask, call, result, stop, text, thinking},
    session::{TestSession, check, checked},
};

/// Two runs with everything in the first.
fn two_runs() -> TestSession {
    let mut session = TestSession::new();
    session.run(
        "one",
        answered([
            thinking("hm"),
            text("let me look"),
            call("toolu_1", "f"),
            stop(StopReason::ToolUse, "msg_1"),
            ask("toolu_1", "f"),
            answer("toolu_1", ApprovalDecision::approve()),
            result("toolu_1", "f", "30"),
            text("30 "),
            text("days"),
            stop(StopReason::EndTurn, "msg_2"),
        ]),
    );
    session.run("two", answered([text("bye"), stop(StopReason::EndTurn, "msg_3")]));
    session
}

fn position(events: &[AgentEvent], kind: &str) -> usize {
    events.iter().position(|event| event.body.kind() == kind).unwrap()
}

fn last_position(events: &[AgentEvent], kind: &str) -> usize {
    events
        .iter()
        .rposition(|event| event.body.kind() == kind)
        .unwrap()
}

/// Puts an event elsewhere; each position keeps its numbers.
fn move_event(events: &mut Vec<AgentEvent>, from: usize, to: usize) {
    let numbers: Vec<_> = events.iter().map(|event| event.meta.event_index).collect();
    let event = events.remove(from);
    events.insert(to, event);
    let mut sequence = 0;
    for (event, index) in events.iter_mut().zip(numbers) {
        event.meta.event_index = index;
        if let Some(number) = &mut event.meta.sequence_number {
            *number = sequence;
            sequence += 1;
        }
    }
}

/// Numbers all events from the beginning.
fn renumber(events: &mut [AgentEvent]) {
    let mut sequence = 0;
    for (index, event) in (0_u64..).zip(events) {
        event.meta.event_index = Some(index);
        if let Some(number) = &mut event.meta.sequence_number {
            *number = sequence;
            sequence += 1;
        }
    }
}

type Break = fn(&mut Vec<AgentEvent>);

/// Ways to break a recording in exactly one way.
const BREAKS: &[(Invariant, &str, Break)] = &[
    (Invariant::Inv1, "the person's message comes second", |events| {
        let chunk = position(events, "thinking_chunk");
        move_event(events, chunk, 0);
    }),
    (Invariant::Inv1, "the person's message is missing", |events| {
        events.remove(0);
        renumber(events);
    }),
    (Invariant::Inv2, "reasoning after text", |events| {
        let (chunk, text) = (
            position(events, "thinking_chunk"),
            position(events, "message_chunk"),
        );
        move_event(events, chunk, text);
    }),
    (Invariant::Inv3, "no result", |events| {
        let at = position(events, "tool_result");
        events.remove(at);
        renumber(events);
    }),
    (Invariant::Inv3, "no call", |events| {
        let at = position(events, "tool_use");
        events.remove(at);
        renumber(events);
    }),
    (Invariant::Inv3, "a second result", |events| {
        let at = position(events, "tool_result");
        let mut again = events[at].clone();
        again.meta.event_id = uuid::Uuid::new_v4();
        events.insert(at, again);
        renumber(events);
    }),
    (Invariant::Inv4, "a message without a number", |events| {
        let at = position(events, "message");
        events[at].meta.sequence_number = None;
    }),
    (Invariant::Inv4, "a message that was never numbered", |events| {
        let at = position(events, "message");
        events[at].meta.sequence_number = None;
        renumber(events);
    }),
    (Invariant::Inv5, "a message after the end", |events| {
        let (message, end) = (
            last_position(events, "thinking_complete"),
            position(events, "complete"),
        );
        move_event(events, message, end);
    }),
    (Invariant::Inv5, "two ends", |events| {
        let at = last_position(events, "complete");
        let mut again = events[at].clone();
        again.meta.event_id = uuid::Uuid::new_v4();
        events.push(again);
        renumber(events);
    }),
    (Invariant::Inv5, "no end", |events| {
        events.pop();
    }),
    (Invariant::Inv6, "a gap", |events| {
        let at = last_position(events, "message");
        *events[at].meta.sequence_number.as_mut().unwrap() += 1;
    }),
    (Invariant::Inv6, "a number twice", |events| {
        let at = last_position(events, "message");
        *events[at].meta.sequence_number.as_mut().unwrap() -= 1;
    }),
    (Invariant::Inv7, "a chunk with a number", |events| {
        let at = position(events, "message_chunk");
        events[at].meta.sequence_number = Some(1);
    }),
    (Invariant::Inv7, "an end that used up a number", |events| {
        let at = position(events, "complete");
        events[at].meta.sequence_number = Some(0);
        renumber(events);
    }),
    (Invariant::Inv8, "a framework's id", |events| {
        rename(events, "run-0b0e5a52-7d3c-4a53-9b3b-6a3c6d9f0a11");
    }),
    (
        Invariant::Inv8,
        "an id created here that is not marked",
        |events| {
            rename(events, "hd_1");
        },
    ),
    (
        Invariant::Inv8,
        "an id of the provider that is marked as created here",
        |events| {
            let at = position(events, "tool_use");
            if let EventBody::ToolUse(call) = &mut events[at].body {
                call.id_source = Some(IdSource::Minted);
            }
        },
    ),
    (Invariant::Hd1, "an index twice", |events| {
        events[4].meta.event_index = events[3].meta.event_index;
    }),
    (Invariant::Hd1, "an id twice", |events| {
        events[4].meta.event_id = events[3].meta.event_id;
    }),
    (Invariant::Hd3, "a piece of another text", |events| {
        let at = position(events, "message_chunk");
        if let EventBody::MessageChunk(chunk) = &mut events[at].body {
            chunk.content.push('!');
        }
    }),
    (Invariant::Hd3, "text that no message holds", |events| {
        let at = last_position(events, "message");
        events.remove(at);
        renumber(events);
    }),
    (Invariant::Hd4, "an approval that is not resolved", |events| {
        let at = position(events, "approval_resolved");
        events.remove(at);
        renumber(events);
    }),
    (Invariant::Hd4, "an approval without a question", |events| {
        let at = position(events, "approval_requested");
        events.remove(at);
        renumber(events);
    }),
    (
        Invariant::Hd4,
        "an approval resolved after the result",
        |events| {
            let (answer, result) = (
                position(events, "approval_resolved"),
                position(events, "tool_result"),
            );
            move_event(events, answer, result);
        },
    ),
    (Invariant::Hd5, "runs that overlap", |events| {
        let (end, second) = (
            position(events, "complete"),
            last_position(events, "user_message_confirmed"),
        );
        move_event(events, end, second);
    }),
];

fn rename(events: &mut [AgentEvent], id: &str) {
    for event in events {
        match &mut event.body {
            EventBody::ToolUse(call) => id.clone_into(&mut call.tool_use_id),
            EventBody::ToolResult(result) => id.clone_into(&mut result.tool_use_id),
            _ => {}
        }
    }
}

#[test]
fn a_recording_broken_in_one_way_breaks_one_invariant() {
    let whole = two_runs().events();
    assert_eq!(check(View::Live, &whole), []);
    let mut broken = BTreeMap::new();
    for (invariant, how, break_it) in BREAKS {
        let mut events = whole.clone();
        break_it(&mut events);
        let mut violations: Vec<_> = check(View::Live, &events)
            .iter()
            .map(|violation| violation.invariant)
            .collect();
        violations.dedup();
        assert_eq!(violations, [*invariant], "{how}");
        *broken.entry(*invariant).or_insert(0) += 1;
    }
    // A replay is checked against the first delivery; see below.
    let unbroken: Vec<_> = Invariant::ALL
        .into_iter()
        .filter(|own| !broken.contains_key(own))
        .collect();
    assert_eq!(unbroken, [Invariant::Hd2]);
}

#[test]
fn a_replay_that_differs_in_a_byte_or_leaves_something_out() {
    let stored = two_runs().stored();
    let first: Vec<_> = stored.iter().map(StoredEvent::json).collect();
    assert_eq!(replay_violations(&first, &first).unwrap(), []);
    let violations = |replay: &[&str]| -> Vec<String> {
        let violations = replay_violations(&first, replay).unwrap();
        violations.iter().map(ToString::to_string).collect()
    };
    let message = stored
        .iter()
        .position(|event| event.event().body.kind() == "message")
        .unwrap();
    let other = first[message].replace("let me look", "let me see");
    let mut replay = first.clone();
    replay[message] = &other;
    assert_eq!(
        violations(&replay),
        [format!("HD-2 at event {message}: a `message` differs")]
    );
    replay.remove(message);
    assert_eq!(violations(&replay), ["HD-2 at the end: a `message` is missing"]);
    // Chunks may be gone, and a replay begins after its cursor and breaks off anywhere.
    let pruned: Vec<_> = first
        .iter()
        .copied()
        .filter(|json| !json.contains("_chunk\""))
        .collect();
    assert_eq!(violations(&pruned), Vec::<String>::new());
    assert_eq!(violations(&first[3..7]), Vec::<String>::new());
}

#[test]
fn a_hostile_recording_with_numbered_chunks() {
    let mut events = two_runs().events();
    let mut next = 0;
    for event in &mut events {
        if event.body.kind() == "message_chunk" || event.meta.sequence_number.is_some() {
            event.meta.sequence_number = Some(next);
            next += 1;
        }
    }
    let violations = check(View::Live, &events);
    assert_eq!(violations.len(), 4);
    assert!(
        violations
            .iter()
            .all(|violation| violation.invariant == Invariant::Inv7)
    );
}

#[test]
fn a_prefix_is_clean_wherever_it_breaks_off_and_a_replay_without_chunks_is_too() {
    let session = two_runs();
    for events in [session.events(), session.pruned()] {
        let view = if events.len() == session.events().len() {
            View::Live
        } else {
            View::Replay
        };
        for end in 0..=events.len() {
            assert_eq!(checked(view, &events[..end]).finish_prefix(), [], "{end}");
        }
        assert_eq!(check(view, &events), []);
    }
    // Without its chunks a recording is no live one.
    let missing = check(View::Live, &session.pruned());
    assert!(
        missing
            .iter()
            .all(|violation| violation.invariant == Invariant::Hd3)
    );
    assert_eq!(missing.len(), 3);
}

#[test]
fn a_prefix_still_shows_what_no_rest_can_mend() {
    let mut events = two_runs().events();
    let result = position(&events, "tool_result");
    let call = position(&events, "tool_use");
    events.remove(call);
    renumber(&mut events);
    let violations = checked(View::Live, &events[..result]).finish_prefix();
    assert_eq!(violations[0].invariant, Invariant::Inv3);
}

#[test]
fn known_ids_make_the_check_of_ids_exact() {
    let events = two_runs().events();
    let with = |id: &str| {
        let mut checker = StreamChecker::new(View::Live).with_tool_ids([id.to_owned()]);
        for event in &events {
            checker.observe(event);
        }
        checker.finish()
    };
    assert_eq!(with("toolu_1"), []);
    assert_eq!(with("toolu_2")[0].invariant, Invariant::Inv8);
}

#[test]
fn a_recording_of_the_original_has_no_runs_and_no_indices() {
    let mut events = two_runs().events();
    for event in &mut events {
        event.meta = EventMeta {
            event_index: None,
            run_id: None,
            turn: None,
            ..event.meta.clone()
        };
    }
    assert_eq!(check(View::Live, &events), []);
    // It stored the reasoning of all turns behind the tools; both places are right.
    let (thinking, last) = (position(&events, "thinking"), position(&events, "complete"));
    let moved = events.remove(thinking);
    events.insert(last - 2, moved);
    let mut sequence = 0;
    for event in &mut events {
        if let Some(number) = &mut event.meta.sequence_number {
            *number = sequence;
            sequence += 1;
        }
    }
    assert_eq!(check(View::Live, &events), []);
}

#[test]
fn a_run_that_could_not_be_stored_ends_without_its_rest() {
    let mut events = two_runs().events();
    let call = position(&events, "tool_use");
    events.truncate(call + 1);
    let mut end = two_runs().events().pop().unwrap();
    end.meta.run_id.clone_from(&events[0].meta.run_id);
    end.meta.persistence_state = PersistenceState::Transient;
    end.meta.event_index = None;
    end.body = EventBody::Error(holodeck_model::events::RunError::default());
    events.push(end);
    assert_eq!(check(View::Live, &events), []);
}
