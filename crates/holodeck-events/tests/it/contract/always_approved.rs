//! Approvals for all conversations: listed, revoked, for the tool as it was, and in the scopes of the question.

use holodeck_backend_api::BackendEvent;
use holodeck_events::{AlwaysApproved, Resolution, StoreError};
use holodeck_model::{events::ApprovalScope, remembered_calls};
use pretty_assertions::assert_eq;

use super::{
    Subject,
    approvals::{approval_of, by_alice, decide, run_of, start},
    each_store,
};
use crate::backend_events::{ask, call};

each_store! {
    what_is_always_approved_is_listed_and_revoked
    an_approval_is_remembered_for_the_tool_as_it_was
    only_a_scope_that_the_question_allows_is_stored
}

async fn what_is_always_approved_is_listed_and_revoked(subject: Subject) {
    let all = [
        ("s", "alice", "helper"),
        ("same", "alice", "helper"),
        ("agent", "alice", "other"),
        ("user", "bob", "helper"),
    ];
    for (session, owner, agent) in all {
        start(&subject, session, owner, agent).await;
    }
    for (session, owner) in [("s", "alice"), ("agent", "alice"), ("user", "bob")] {
        decide(
            &subject,
            session,
            owner,
            Resolution::Approve,
            ApprovalScope::Always,
        )
        .await;
    }
    let approved = |owner: &str, agent: &str| AlwaysApproved {
        owner: Some(owner.to_owned()),
        agent: agent.to_owned(),
        tool: "f".to_owned(),
    };
    let (alice, bob, other) = (
        approved("alice", "helper"),
        approved("bob", "helper"),
        approved("alice", "other"),
    );
    let always = async |agent, owner| subject.store.always_approved(agent, owner).await.unwrap();
    assert_eq!(always("helper", None).await, [alice.clone(), bob.clone()]);
    assert_eq!(always("helper", Some("bob")).await, std::slice::from_ref(&bob));
    assert_eq!(always("other", None).await, std::slice::from_ref(&other));
    assert_eq!(always("unknown", None).await, []);
    assert_eq!(subject.store.revoke_always(alice.clone()).await, Ok(true));
    assert_eq!(subject.store.revoke_always(alice).await, Ok(false));
    assert_eq!(always("helper", None).await, [bob]);
    // It is asked again in each session of the owner with the agent, also in the one of the answer.
    let mut asked = Vec::new();
    for (session, _, _) in all {
        if subject
            .store
            .remembered_approvals(session)
            .await
            .unwrap()
            .is_empty()
        {
            asked.push(session);
        }
    }
    assert_eq!(asked, ["s", "same"]);
    // Without an owner.
    let nobody = AlwaysApproved { owner: None, ..other };
    assert_eq!(subject.store.revoke_always(nobody).await, Ok(false));
}

/// Another program or schema under the same name is another tool.
async fn an_approval_is_remembered_for_the_tool_as_it_was(subject: Subject) {
    start(&subject, "s", "alice", "helper").await;
    let mut recorder = subject.open(run_of(Some("alice"), "s")).await.unwrap();
    let BackendEvent::ApprovalAsked(mut asked) = ask("a", "f") else {
        panic!("not a question");
    };
    asked.tool_digest = Some("1234abcd".to_owned());
    let remembered = asked.remembered_as();
    let asked = BackendEvent::ApprovalAsked(asked);
    let drafts = [recorder.observe(&call("a", "f")), recorder.observe(&asked)].concat();
    let stored = subject.store.append(drafts).await.unwrap();
    let id = stored.iter().find_map(approval_of).unwrap();
    let mut answer = by_alice(&id, Resolution::Approve);
    answer.scope = ApprovalScope::Always;
    subject.store.resolve_approval(answer).await.unwrap();
    subject.end(&mut recorder).await.unwrap();
    assert_eq!(
        subject.store.remembered_approvals("s").await.unwrap(),
        std::slice::from_ref(&remembered)
    );
    assert_eq!(remembered_calls(&remembered), ("f", Some("1234abcd")));
}

async fn only_a_scope_that_the_question_allows_is_stored(subject: Subject) {
    start(&subject, "s", "alice", "helper").await;
    let mut recorder = subject.open(run_of(Some("alice"), "s")).await.unwrap();
    let BackendEvent::ApprovalAsked(mut asked) = ask("a", "f") else {
        panic!("not a question");
    };
    asked.scopes = Some(vec![ApprovalScope::Once, ApprovalScope::Session]);
    let asked = BackendEvent::ApprovalAsked(asked);
    let drafts = [recorder.observe(&call("a", "f")), recorder.observe(&asked)].concat();
    let stored = subject.store.append(drafts).await.unwrap();
    let id = stored.iter().find_map(approval_of).unwrap();
    let mut answer = by_alice(&id, Resolution::Approve);
    answer.scope = ApprovalScope::Always;
    let refused = subject.store.resolve_approval(answer.clone()).await;
    let Err(StoreError::ScopeNotAllowed { scope, allowed }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(scope, ApprovalScope::Always);
    assert_eq!(allowed, [ApprovalScope::Once, ApprovalScope::Session]);
    // The question is still open.
    answer.scope = ApprovalScope::Session;
    subject.store.resolve_approval(answer).await.unwrap();
    subject.end(&mut recorder).await.unwrap();
}
