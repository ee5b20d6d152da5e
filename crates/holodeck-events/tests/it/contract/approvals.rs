//! The contract of stored approvals: one answer, by the owner, before the deadline.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use holodeck_backend_api::{ApprovalDecision, BackendEvent, CallPath, PathAccess, StopReason, Zone};
use holodeck_events::{
    ApprovalAnswer, EventStore, NewRun, Resolution, RunRecorder, StoreError, StoredEvent, View,
    approval_decision,
};
use holodeck_model::events::{
    ApprovalResolved, ApprovalScope, Decision, EventBody, PersistenceState, SessionStart,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Subject, each_store};
use crate::{
    backend_events::{Emitted, answer, answered, ask, call, failed_result, result, stop, text},
    session::check,
};

each_store! {
    an_approved_call_is_asked_for_answered_and_run_in_this_order
    a_rejected_call_is_not_run_and_the_run_continues
    an_answer_is_accepted_until_the_stored_deadline
    an_approval_without_an_answer_expires_once
    of_an_approval_and_its_expiry_at_once_one_is_stored
    a_second_decision_is_refused_and_a_repeated_one_is_the_first
    both_arguments_of_a_modified_call_are_recorded
    the_answer_of_another_user_or_for_another_session_finds_nothing
    the_run_cannot_change_an_answer_that_is_stored
    an_answer_that_was_stored_before_other_events_is_in_order
    an_approval_that_the_run_itself_resolves_is_no_longer_pending
    pending_approvals_are_listed_by_session_and_owner
    a_decision_is_remembered_for_its_scope
    an_approval_of_paths_is_remembered_for_these_paths
    only_an_unchanged_approval_is_remembered
    a_remembered_approval_can_be_forgotten
    a_deletion_removes_approvals_and_keeps_what_is_always_approved
    a_subscriber_receives_the_answer
    an_approval_of_a_run_that_is_over_cannot_be_answered
}

pub(super) fn run_of(user: Option<&str>, session: &str) -> NewRun {
    NewRun {
        user_id: user.map(str::to_owned),
        ..NewRun::new(session, "go")
    }
}

/// A run that asks about calls of `f` with these ids; returns the ids of the approvals.
async fn ask_in(subject: &Subject, run: NewRun, calls: &[&str]) -> (RunRecorder, Vec<String>) {
    let mut recorder = subject.open(run).await.unwrap();
    let mut approvals = Vec::new();
    for id in calls {
        let drafts = [recorder.observe(&call(id, "f")), recorder.observe(&ask(id, "f"))].concat();
        let stored = subject.store.append(drafts).await.unwrap();
        approvals.extend(stored.iter().filter_map(approval_of));
    }
    assert_eq!(approvals.len(), calls.len());
    (recorder, approvals)
}

async fn asked(subject: &Subject) -> (RunRecorder, String) {
    let (recorder, mut approvals) = ask_in(subject, run_of(Some("alice"), "s"), &["a"]).await;
    (recorder, approvals.remove(0))
}

pub(super) fn approval_of(event: &StoredEvent) -> Option<String> {
    match &event.event().body {
        EventBody::ApprovalRequested(request) => Some(request.approval_id.clone()),
        _ => None,
    }
}

fn resolved(event: &StoredEvent) -> &ApprovalResolved {
    match &event.event().body {
        EventBody::ApprovalResolved(resolved) => resolved,
        body => panic!("{body:?}"),
    }
}

pub(super) fn by_alice(approval_id: &str, decision: Resolution) -> ApprovalAnswer {
    ApprovalAnswer::new(approval_id, decision).by(Some("alice"))
}

async fn status(subject: &Subject, approval_id: &str) -> String {
    let known = subject.store.approval(approval_id).await.unwrap();
    known.unwrap().status().to_owned()
}

/// The session's events, without a violation; each answer once.
async fn answers(subject: &Subject) -> Vec<ApprovalResolved> {
    let stored = subject.stored("s").await;
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    let mut checker = holodeck_events::StreamChecker::new(View::Live);
    for event in &events {
        checker.observe(event);
    }
    assert_eq!(checker.finish_prefix(), []);
    let bodies = events.into_iter().map(|event| event.body);
    let answers = bodies.filter_map(|body| match body {
        EventBody::ApprovalResolved(resolved) => Some(resolved),
        _ => None,
    });
    answers.collect()
}

/// A backend that asks about a call of `f`, waits for what a person decides elsewhere, and obeys.
fn obedient(store: Arc<dyn EventStore>, decision: ApprovalAnswer) -> impl futures::Stream<Item = Emitted> {
    async_stream::stream! {
        yield Ok(call("a", "f"));
        yield Ok(stop(StopReason::ToolUse, "m1"));
        yield Ok(ask("a", "f"));
        let pending = store.approvals(Some("s"), None).await.unwrap();
        let [pending] = &pending[..] else { panic!("{pending:?}") };
        assert_eq!(pending.status(), "pending");
        let mut decision = decision;
        decision.approval_id.clone_from(&pending.request.approval_id);
        let stored = store.resolve_approval(decision).await.unwrap();
        let decision = approval_decision(resolved(&stored));
        yield Ok(answer("a", decision.clone()));
        yield Ok(match decision {
            ApprovalDecision::Approve { arguments } => {
                let arguments = arguments.map_or_else(|| "as asked".to_owned(), |args| args.to_string());
                result("a", "f", &arguments)
            }
            ApprovalDecision::Reject { reason } => failed_result("a", "f", &reason),
            other => panic!("{other:?}"),
        });
        for event in answered([text("done"), stop(StopReason::EndTurn, "m2")]) {
            yield event;
        }
    }
}

/// The events of a run of [`obedient`].
async fn run_obedient(subject: &Subject, decision: ApprovalAnswer) -> Vec<StoredEvent> {
    let stream = obedient(Arc::clone(&subject.store), decision);
    let delivered = subject
        .record_stream(run_of(Some("alice"), "s"), Box::pin(stream))
        .await;
    let stored = subject.stored("s").await;
    assert_eq!(delivered, stored);
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    stored
}

fn kinds(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event().body.kind()).collect()
}

async fn an_approved_call_is_asked_for_answered_and_run_in_this_order(subject: Subject) {
    let stored = run_obedient(&subject, by_alice("", Resolution::Approve)).await;
    assert_eq!(
        kinds(&stored),
        [
            "user_message_confirmed",
            "tool_use",
            "approval_requested",
            "approval_resolved",
            "tool_result",
            "message_chunk",
            "message",
            "complete"
        ]
    );
    let asked = stored[2].event();
    assert_eq!(asked.meta.persistence_state, PersistenceState::Pending);
    let answer = resolved(&stored[3]);
    assert!(answer.approved);
    assert_eq!(answer.decided_by.as_deref(), Some("alice"));
    assert_eq!(stored[3].event().meta.turn, asked.meta.turn);
    assert!(matches!(&stored[4].event().body, EventBody::ToolResult(result) if result.success));
    let approval_id = approval_of(&stored[2]).unwrap();
    assert_eq!(status(&subject, &approval_id).await, "approved");
    assert_eq!(subject.store.approvals(None, None).await.unwrap(), []);
}

async fn a_rejected_call_is_not_run_and_the_run_continues(subject: Subject) {
    let mut decision = by_alice("", Resolution::Reject);
    decision.reason = Some("not today".to_owned());
    let stored = run_obedient(&subject, decision).await;
    let EventBody::ToolResult(result) = &stored[4].event().body else {
        panic!("{:?}", kinds(&stored));
    };
    assert_eq!(
        (result.success, result.error.as_deref()),
        (false, Some("not today"))
    );
    assert_eq!(kinds(&stored).last(), Some(&"complete"));
}

async fn both_arguments_of_a_modified_call_are_recorded(subject: Subject) {
    let safe = json!({"q": "safe"});
    let stored = run_obedient(&subject, by_alice("", Resolution::Modify(safe.clone()))).await;
    let answer = resolved(&stored[3]);
    assert!(answer.approved);
    assert_eq!(answer.decision, Some(Decision::Modified));
    assert_eq!(answer.modified_args, Some(safe.clone()));
    let asked = json!({"q": "a"});
    assert!(matches!(&stored[1].event().body, EventBody::ToolUse(call) if call.args == asked));
    let result = match &stored[4].event().body {
        EventBody::ToolResult(result) => result.result.clone(),
        body => panic!("{body:?}"),
    };
    assert_eq!(result, Value::String(safe.to_string()));
}

async fn an_answer_is_accepted_until_the_stored_deadline(subject: Subject) {
    let moment = Duration::from_millis(1);
    let timeout = Duration::from_mins(5);
    let run = NewRun {
        approval_timeout: Some(timeout),
        ..run_of(Some("alice"), "s")
    };
    let (_recorder, approvals) = ask_in(&subject, run, &["a", "b", "c"]).await;
    let known = subject.store.approval(&approvals[0]).await.unwrap().unwrap();
    let until = known.request.expires_at.unwrap();
    assert_eq!(until.duration_since(known.requested_at).unsigned_abs(), timeout);
    // An hour back: the deadline is further away, and the order of what is stored is the same.
    subject.clock.change_time_of_day(-3_600);
    let approve = |id: &str| by_alice(id, Resolution::Approve);
    subject
        .store
        .resolve_approval(approve(&approvals[0]))
        .await
        .unwrap();
    subject.clock.change_time_of_day(3_600);
    subject.clock.advance(timeout.saturating_sub(moment));
    subject
        .store
        .resolve_approval(approve(&approvals[1]))
        .await
        .unwrap();
    subject.clock.advance(moment);
    let expired = Err(StoreError::Expired {
        approval_id: approvals[2].clone(),
    });
    assert_eq!(
        subject.store.resolve_approval(approve(&approvals[2])).await,
        expired
    );
    assert_eq!(status(&subject, &approvals[2]).await, "pending");
    // The service resolves it, once.
    let expire = || ApprovalAnswer::new(approvals[2].as_str(), Resolution::Expire);
    let stored = subject.store.resolve_approval(expire()).await.unwrap();
    assert!(!resolved(&stored).approved);
    assert_eq!(subject.store.resolve_approval(expire()).await, Ok(stored));
    assert_eq!(
        subject.store.resolve_approval(approve(&approvals[2])).await,
        expired
    );
    assert_eq!(status(&subject, &approvals[2]).await, "expired");
    assert_eq!(answers(&subject).await.len(), 3);
    // Without a timeout there is no deadline.
    let (_recorder, approvals) = ask_in(&subject, run_of(Some("alice"), "t"), &["a"]).await;
    subject.clock.advance(Duration::from_hours(1_000_000));
    subject
        .store
        .resolve_approval(approve(&approvals[0]))
        .await
        .unwrap();
}

async fn an_approval_without_an_answer_expires_once(subject: Subject) {
    let run = NewRun {
        approval_timeout: Some(Duration::from_mins(5)),
        ..run_of(Some("alice"), "s")
    };
    let (mut recorder, approvals) = ask_in(&subject, run, &["a", "b"]).await;
    ask_in(&subject, run_of(Some("alice"), "forever"), &["a"]).await;
    let approve = by_alice(&approvals[1], Resolution::Approve);
    subject.store.resolve_approval(approve).await.unwrap();
    let expire = async || {
        let now = holodeck_events::Clock::now(&*subject.clock);
        subject.store.expire_approvals(now).await.unwrap()
    };
    subject.clock.advance(Duration::from_secs(299));
    assert_eq!(expire().await, []);
    subject.clock.advance(Duration::from_secs(1));
    let events = expire().await;
    assert_eq!(events.len(), 1);
    let answer = resolved(&events[0]);
    assert_eq!(
        (answer.approved, &answer.decision),
        (false, &Some(Decision::Expired))
    );
    assert_eq!(answer.approval_id, approvals[0]);
    assert_eq!(expire().await, []);
    assert_eq!(status(&subject, &approvals[1]).await, "approved");
    let waiting = subject.store.approvals(None, None).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].session_id, "forever");
    // What the backend reports of it adds nothing.
    let decision = approval_decision(answer);
    assert!(!decision.is_approved());
    let drafts = recorder.observe(&crate::backend_events::answer("a", decision));
    assert_eq!(subject.store.append(drafts).await.unwrap(), events);
    assert_eq!(answers(&subject).await.len(), 2);
}

async fn of_an_approval_and_its_expiry_at_once_one_is_stored(subject: Subject) {
    let ids: Vec<_> = (0..1_000).map(|number| format!("call_{number}")).collect();
    let mut recorder = subject.open(run_of(Some("alice"), "s")).await.unwrap();
    let drafts: Vec<_> = ids
        .iter()
        .flat_map(|id| [call(id, "f"), ask(id, "f")])
        .flat_map(|event| recorder.observe(&event))
        .collect();
    let stored = subject.store.append(drafts).await.unwrap();
    let approvals: Vec<_> = stored.iter().filter_map(approval_of).collect();
    assert_eq!(approvals.len(), 1_000);
    let mut races = Vec::new();
    for (number, approval_id) in approvals.iter().enumerate() {
        let mut both = [
            by_alice(approval_id, Resolution::Approve),
            ApprovalAnswer::new(approval_id.as_str(), Resolution::Expire),
        ];
        if number % 2 > 0 {
            both.reverse();
        }
        races.push(both.map(|answer| {
            let store = Arc::clone(&subject.store);
            tokio::spawn(async move { store.resolve_approval(answer).await })
        }));
    }
    let mut approved = 0;
    for (race, id) in races.into_iter().zip(&ids) {
        let mut stored = Vec::new();
        for outcome in join_all(race).await {
            match outcome.unwrap() {
                Ok(event) => stored.push(event),
                Err(StoreError::AlreadyResolved { .. } | StoreError::Expired { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let [stored] = &stored[..] else {
            panic!("{} answers to `{id}`", stored.len());
        };
        let decision = approval_decision(resolved(stored));
        approved += usize::from(decision.is_approved());
        // The tool runs only if the stored answer approves it.
        let ran = match decision {
            ApprovalDecision::Approve { .. } => result(id, "f", "ran"),
            _ => failed_result(id, "f", "expired"),
        };
        let drafts = [recorder.observe(&answer(id, decision)), recorder.observe(&ran)].concat();
        let events = subject.store.append(drafts).await.unwrap();
        assert_eq!((&events[0], events.len()), (stored, 2));
    }
    subject.end(&mut recorder).await.unwrap();
    let answers = answers(&subject).await;
    assert_eq!(answers.len(), 1_000);
    assert_eq!(answers.iter().filter(|answer| answer.approved).count(), approved);
    let ran =
        |event: &&StoredEvent| matches!(&event.event().body, EventBody::ToolResult(result) if result.success);
    assert_eq!(subject.stored("s").await.iter().filter(ran).count(), approved);
}

async fn a_second_decision_is_refused_and_a_repeated_one_is_the_first(subject: Subject) {
    let (_recorder, id) = asked(&subject).await;
    let store = &subject.store;
    let decisions = [Resolution::Approve, Resolution::Reject];
    let both = decisions.map(|decision| store.resolve_approval(by_alice(&id, decision)));
    let outcomes = join_all(both).await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let (Ok(won), Err(lost)) = (&won[0], &lost[0]) else {
        panic!("{won:?} {lost:?}");
    };
    let answer = resolved(won);
    let word = answer.decision.clone().unwrap();
    assert_eq!(
        *lost,
        StoreError::AlreadyResolved {
            approval_id: id.clone(),
            decision: word.clone(),
            by: Some("alice".to_owned()),
        }
    );
    assert_eq!(
        lost.to_string(),
        format!("approval `{id}` was already resolved: {word} by alice")
    );
    let same = if answer.approved {
        Resolution::Approve
    } else {
        Resolution::Reject
    };
    let again = store.resolve_approval(by_alice(&id, same.clone())).await;
    assert_eq!(again.as_ref(), Ok(won));
    // Another reason, or another scope, is another answer.
    for (reason, scope) in [(Some("why"), ApprovalScope::Once), (None, ApprovalScope::Always)] {
        let mut other = by_alice(&id, Resolution::Approve);
        other.reason = reason.map(str::to_owned);
        other.scope = scope;
        let refused = store.resolve_approval(other).await;
        assert!(
            matches!(refused, Err(StoreError::AlreadyResolved { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(answers(&subject).await.len(), 1);
}

async fn the_answer_of_another_user_or_for_another_session_finds_nothing(subject: Subject) {
    let (_recorder, id) = asked(&subject).await;
    let not_found = |id: &str| {
        Err(StoreError::ApprovalNotFound {
            approval_id: id.to_owned(),
        })
    };
    let answer = |user| ApprovalAnswer::new(id.as_str(), Resolution::Approve).by(user);
    for user in [Some("bob"), None] {
        assert_eq!(subject.store.resolve_approval(answer(user)).await, not_found(&id));
    }
    let mut elsewhere = answer(Some("alice"));
    elsewhere.session_id = Some("other".to_owned());
    assert_eq!(subject.store.resolve_approval(elsewhere).await, not_found(&id));
    let unknown = by_alice("unknown", Resolution::Approve);
    assert_eq!(
        subject.store.resolve_approval(unknown).await,
        not_found("unknown")
    );
    assert_eq!(subject.store.approval("unknown").await, Ok(None));
    assert_eq!(status(&subject, &id).await, "pending");
    assert_eq!(answers(&subject).await, []);
    let mut here = answer(Some("alice"));
    here.session_id = Some("s".to_owned());
    subject.store.resolve_approval(here).await.unwrap();
    // Nor does a foreign user learn that it is resolved.
    assert_eq!(
        subject.store.resolve_approval(answer(Some("bob"))).await,
        not_found(&id)
    );
}

async fn the_run_cannot_change_an_answer_that_is_stored(subject: Subject) {
    let (mut recorder, id) = asked(&subject).await;
    let reject = by_alice(&id, Resolution::Reject);
    let stored = subject.store.resolve_approval(reject).await.unwrap();
    let drafts = recorder.observe(&answer("a", ApprovalDecision::approve()));
    assert_eq!(drafts.len(), 1);
    assert_eq!(subject.store.append(drafts).await.unwrap(), [stored]);
    assert_eq!(status(&subject, &id).await, "rejected");
    let answers = answers(&subject).await;
    assert_eq!(answers.len(), 1);
    assert!(!answers[0].approved);
}

async fn an_answer_that_was_stored_before_other_events_is_in_order(subject: Subject) {
    let store = Arc::clone(&subject.store);
    let stream = async_stream::stream! {
        yield Ok(call("a", "f"));
        yield Ok(call("b", "f"));
        yield Ok(stop(StopReason::ToolUse, "m1"));
        yield Ok(ask("a", "f"));
        let pending = store.approvals(Some("s"), None).await.unwrap();
        let id = pending[0].request.approval_id.clone();
        store.resolve_approval(by_alice(&id, Resolution::Approve)).await.unwrap();
        // Stored after the answer, and reported before it.
        yield Ok(ask("b", "f"));
        yield Ok(answer("a", ApprovalDecision::approve()));
        yield Ok(result("a", "f", "1"));
        yield Ok(answer("b", ApprovalDecision::reject("no")));
        yield Ok(failed_result("b", "f", "no"));
        for event in answered([text("done"), stop(StopReason::EndTurn, "m2")]) {
            yield event;
        }
    };
    let delivered = subject
        .record_stream(run_of(Some("alice"), "s"), Box::pin(stream))
        .await;
    let indices: Vec<_> = delivered.iter().map(StoredEvent::index).collect();
    assert_eq!(indices[..7], [0, 1, 2, 3, 5, 4, 6]);
    let stored = subject.stored("s").await;
    assert_eq!(stored.len(), delivered.len());
    assert_eq!(answers(&subject).await.len(), 2);
    let requested = kinds(&stored)[3..6].to_vec();
    assert_eq!(
        requested,
        ["approval_requested", "approval_resolved", "approval_requested"]
    );
}

async fn an_approval_that_the_run_itself_resolves_is_no_longer_pending(subject: Subject) {
    let (mut recorder, id) = asked(&subject).await;
    let drafts = recorder.observe(&answer("a", ApprovalDecision::approve()));
    subject.store.append(drafts).await.unwrap();
    assert_eq!(status(&subject, &id).await, "approved");
    let late = subject
        .store
        .resolve_approval(by_alice(&id, Resolution::Reject))
        .await;
    assert_eq!(
        late,
        Err(StoreError::AlreadyResolved {
            approval_id: id,
            decision: Decision::Approved,
            by: None,
        })
    );
    assert_eq!(answers(&subject).await.len(), 1);
}

async fn pending_approvals_are_listed_by_session_and_owner(subject: Subject) {
    let (_a, of_alice) = ask_in(&subject, run_of(Some("alice"), "s"), &["a", "b"]).await;
    let (_b, of_bob) = ask_in(&subject, run_of(Some("bob"), "t"), &["a"]).await;
    let list = async |session, owner| -> Vec<String> {
        let approvals = subject.store.approvals(session, owner).await.unwrap();
        let ids = approvals.into_iter().map(|known| known.request.approval_id);
        ids.collect()
    };
    let all = [&of_alice[..], &of_bob[..]].concat();
    assert_eq!(list(None, None).await, all);
    assert_eq!(list(Some("s"), None).await, of_alice);
    assert_eq!(list(None, Some("bob")).await, of_bob);
    assert_eq!(list(Some("s"), Some("bob")).await, Vec::<String>::new());
    let approve = by_alice(&of_alice[0], Resolution::Approve);
    subject.store.resolve_approval(approve).await.unwrap();
    assert_eq!(list(Some("s"), None).await, of_alice[1..]);
    let known = subject.store.approval(&of_alice[1]).await.unwrap().unwrap();
    assert_eq!(
        (known.session_id.as_str(), known.owner.as_deref(), known.agent),
        ("s", Some("alice"), None)
    );
    assert_eq!(known.request.tool_use_id.as_deref(), Some("b"));
    assert_eq!(known.request.args, Some(json!({"q": "b"})));
}

pub(super) async fn start(subject: &Subject, session: &str, owner: &str, agent: &str) {
    let start = SessionStart {
        agent_name: Some(agent.to_owned()),
        ..SessionStart::default()
    };
    subject.start_with(session, Some(owner), start).await.unwrap();
}

/// Asks about calls of `f` in a session of `owner` and decides; returns what is recorded of the scope.
pub(super) async fn decide(
    subject: &Subject,
    session: &str,
    owner: &str,
    decision: Resolution,
    scope: ApprovalScope,
) -> Option<ApprovalScope> {
    let (mut recorder, approvals) = ask_in(subject, run_of(Some(owner), session), &["a"]).await;
    let mut answer = ApprovalAnswer::new(approvals[0].as_str(), decision).by(Some(owner));
    answer.scope = scope;
    let stored = subject.store.resolve_approval(answer).await.unwrap();
    subject.end(&mut recorder).await.unwrap();
    resolved(&stored).scope.clone()
}

async fn a_decision_is_remembered_for_its_scope(subject: Subject) {
    for (session, owner, agent) in [
        ("s", "alice", "helper"),
        ("same", "alice", "helper"),
        ("agent", "alice", "other"),
        ("user", "bob", "helper"),
    ] {
        start(&subject, session, owner, agent).await;
    }
    let remembered = async || {
        let mut sessions = Vec::new();
        for session in ["s", "same", "agent", "user"] {
            let tools = subject.store.remembered_approvals(session).await.unwrap();
            if !tools.is_empty() {
                assert_eq!(tools, ["f"]);
                sessions.push(session);
            }
        }
        sessions
    };
    let decide = async |scope| decide(&subject, "s", "alice", Resolution::Approve, scope).await;
    assert_eq!(decide(ApprovalScope::Once).await, None);
    assert_eq!(remembered().await, Vec::<&str>::new());
    assert_eq!(decide(ApprovalScope::Session).await, Some(ApprovalScope::Session));
    assert_eq!(remembered().await, ["s"]);
    for _ in 0..2 {
        assert_eq!(decide(ApprovalScope::Always).await, Some(ApprovalScope::Always));
        assert_eq!(remembered().await, ["s", "same"]);
    }
}

/// A call outside of the agent's folders: its approval opens no other path, and not the tool.
async fn an_approval_of_paths_is_remembered_for_these_paths(subject: Subject) {
    start(&subject, "s", "alice", "helper").await;
    let outer = ["/out/a", "/out/b"].map(|path| CallPath {
        path: Some(path.to_owned()),
        named: format!("/w/link{path}"),
        access: PathAccess::Read,
        is_own_result: false,
    });
    for scope in [ApprovalScope::Session, ApprovalScope::Always] {
        let mut recorder = subject.open(run_of(Some("alice"), "s")).await.unwrap();
        let BackendEvent::ApprovalAsked(mut asked) = ask("a", "f") else {
            panic!("not a question");
        };
        asked.paths = outer.to_vec();
        asked.zone = Zone::Outside;
        assert_eq!(asked.remembered_as(), "f(/out/a, /out/b)");
        let asked = BackendEvent::ApprovalAsked(asked);
        let drafts = [recorder.observe(&call("a", "f")), recorder.observe(&asked)].concat();
        let stored = subject.store.append(drafts).await.unwrap();
        let id = stored.iter().find_map(approval_of).unwrap();
        let mut answer = by_alice(&id, Resolution::Approve);
        answer.scope = scope;
        subject.store.resolve_approval(answer).await.unwrap();
        subject.end(&mut recorder).await.unwrap();
        assert_eq!(
            subject.store.remembered_approvals("s").await.unwrap(),
            ["f(/out/a, /out/b)"]
        );
    }
}

async fn only_an_unchanged_approval_is_remembered(subject: Subject) {
    start(&subject, "s", "alice", "helper").await;
    let changed = Resolution::Modify(json!({}));
    for decision in [changed, Resolution::Reject, Resolution::Terminate] {
        let scope = decide(&subject, "s", "alice", decision, ApprovalScope::Always).await;
        assert_eq!(scope, None);
    }
    assert_eq!(
        subject.store.remembered_approvals("s").await.unwrap(),
        Vec::<String>::new()
    );
    // Without an agent there are no other sessions of it.
    let approve = Resolution::Approve;
    let scope = decide(&subject, "unnamed", "alice", approve, ApprovalScope::Always).await;
    assert_eq!(scope, Some(ApprovalScope::Session));
    assert_eq!(
        subject.store.remembered_approvals("unnamed").await.unwrap(),
        ["f"]
    );
    decide(
        &subject,
        "second",
        "alice",
        Resolution::Reject,
        ApprovalScope::Once,
    )
    .await;
    assert_eq!(
        subject.store.remembered_approvals("second").await.unwrap(),
        Vec::<String>::new()
    );
}

async fn a_remembered_approval_can_be_forgotten(subject: Subject) {
    let all = [("s", "alice"), ("same", "alice"), ("other", "bob")];
    for (session, owner) in all {
        start(&subject, session, owner, "helper").await;
    }
    for (session, owner) in [("s", "alice"), ("other", "bob")] {
        decide(
            &subject,
            session,
            owner,
            Resolution::Approve,
            ApprovalScope::Always,
        )
        .await;
    }
    let remembered = async || {
        let mut sessions = Vec::new();
        for (session, _) in all {
            if subject.store.remembered_approvals(session).await.unwrap() == ["f"] {
                sessions.push(session);
            }
        }
        sessions
    };
    assert_eq!(remembered().await, ["s", "same", "other"]);
    assert_eq!(subject.store.forget_approval("s", "g").await, Ok(false));
    assert_eq!(subject.store.forget_approval("unknown", "f").await, Ok(false));
    assert_eq!(remembered().await, ["s", "same", "other"]);
    // From another session of the owner: what is approved for one session stays there.
    assert_eq!(subject.store.forget_approval("same", "f").await, Ok(true));
    assert_eq!(remembered().await, ["s", "other"]);
    assert_eq!(subject.store.forget_approval("s", "f").await, Ok(true));
    assert_eq!(remembered().await, ["other"]);
    assert_eq!(subject.store.forget_approval("s", "f").await, Ok(false));
}

async fn a_deletion_removes_approvals_and_keeps_what_is_always_approved(subject: Subject) {
    start(&subject, "s", "alice", "helper").await;
    start(&subject, "next", "alice", "helper").await;
    decide(&subject, "s", "alice", Resolution::Approve, ApprovalScope::Always).await;
    let (_recorder, approvals) = ask_in(&subject, run_of(Some("alice"), "s"), &["b"]).await;
    subject.store.delete_session("s", true).await.unwrap();
    assert_eq!(subject.store.approval(&approvals[0]).await, Ok(None));
    assert_eq!(subject.store.approvals(None, None).await.unwrap(), []);
    let late = by_alice(&approvals[0], Resolution::Approve);
    assert!(matches!(
        subject.store.resolve_approval(late).await,
        Err(StoreError::ApprovalNotFound { .. })
    ));
    assert_eq!(subject.store.remembered_approvals("next").await.unwrap(), ["f"]);
    assert_eq!(
        subject.store.remembered_approvals("s").await.unwrap(),
        Vec::<String>::new()
    );
}

async fn a_subscriber_receives_the_answer(subject: Subject) {
    let (mut recorder, id) = asked(&subject).await;
    let mut subscription = subject.store.subscribe("s", Some(2)).await.unwrap();
    let approve = by_alice(&id, Resolution::Approve);
    let stored = subject.store.resolve_approval(approve).await.unwrap();
    assert_eq!(stored.index(), 3);
    assert_eq!(subscription.next().await, Ok(Some(stored)));
    // The run reports the answer: it is not delivered again.
    let events: [BackendEvent; 2] = [answer("a", ApprovalDecision::approve()), result("a", "f", "1")];
    for event in events {
        subject.store.append(recorder.observe(&event)).await.unwrap();
    }
    let next = subscription.next().await.unwrap().unwrap();
    assert_eq!((next.event().body.kind(), next.index()), ("tool_result", 4));
}

async fn an_approval_of_a_run_that_is_over_cannot_be_answered(subject: Subject) {
    let (mut recorder, id) = asked(&subject).await;
    subject.end(&mut recorder).await.unwrap();
    assert_eq!(status(&subject, &id).await, "cancelled");
    let before = subject.stored("s").await;
    let late = by_alice(&id, Resolution::Approve);
    let late = subject.store.resolve_approval(late).await;
    assert!(
        matches!(late, Err(StoreError::AlreadyResolved { .. })),
        "{late:?}"
    );
    assert_eq!(subject.stored("s").await, before);
}
