//! Tests of approvals in a file: answers that cannot be stored, and two at once from two stores.

use futures::future::join_all;
use holodeck_backend_api::ApprovalDecision;
use holodeck_events::{ApprovalAnswer, EventStore as _, NewRun, Resolution, StoreError, View};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use rusqlite::Connection;

use crate::{
    backend_events::{answer, ask, call, result},
    contract::Subject,
    session::checked,
};

fn run() -> NewRun {
    NewRun {
        user_id: Some("alice".to_owned()),
        ..NewRun::new("s", "go")
    }
}

fn by_alice(approval_id: &str, decision: Resolution) -> ApprovalAnswer {
    ApprovalAnswer::new(approval_id, decision).by(Some("alice"))
}

async fn pending(subject: &Subject) -> Vec<String> {
    let approvals = subject.store.approvals(None, None).await.unwrap();
    let ids = approvals.into_iter().map(|known| known.request.approval_id);
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_stored_leaves_the_approval_pending() {
    let subject = Subject::sqlite().await;
    let mut recorder = subject.open(run()).await.unwrap();
    for event in [call("a", "f"), ask("a", "f")] {
        subject.store.append(recorder.observe(&event)).await.unwrap();
    }
    let ids = pending(&subject).await;
    let before = subject.stored("s").await;
    let other = Connection::open(&subject.path).unwrap();
    // First the row fails, and then the event.
    for broken in [
        "BEFORE UPDATE OF resolved_index ON approvals",
        "BEFORE INSERT ON events WHEN new.type = 'approval_resolved'",
    ] {
        let trigger = format!("CREATE TRIGGER broken {broken} BEGIN SELECT RAISE(FAIL, 'broken'); END");
        other.execute_batch(&trigger).unwrap();
        let failed = subject
            .store
            .resolve_approval(by_alice(&ids[0], Resolution::Approve))
            .await;
        assert!(matches!(failed, Err(StoreError::Failed { .. })), "{failed:?}");
        assert_eq!(pending(&subject).await, ids);
        assert_eq!(subject.stored("s").await, before);
        other.execute_batch("DROP TRIGGER broken").unwrap();
    }
    // Nothing was decided: any answer is still possible.
    let stored = subject
        .store
        .resolve_approval(by_alice(&ids[0], Resolution::Reject))
        .await
        .unwrap();
    assert_eq!(stored.index(), 3);
    assert_eq!(pending(&subject).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_decisions_at_once_from_two_stores_of_one_file_are_one() {
    let subject = Subject::sqlite().await;
    let two = subject.open_file().await;
    let mut recorder = subject.open(run()).await.unwrap();
    let mut waiting = subject.store.subscribe("s", Some(0)).await.unwrap();
    for round in 0..100 {
        let id = format!("call_{round}");
        for event in [call(&id, "f"), ask(&id, "f")] {
            subject.store.append(recorder.observe(&event)).await.unwrap();
        }
        let approval = pending(&subject).await.remove(0);
        let (approve, reject) = (
            by_alice(&approval, Resolution::Approve),
            by_alice(&approval, Resolution::Reject),
        );
        let both = [
            subject.store.resolve_approval(approve),
            two.resolve_approval(reject),
        ];
        let outcomes = join_all(both).await;
        let stored: Vec<_> = outcomes.iter().flatten().collect();
        assert_eq!(stored.len(), 1, "{outcomes:?}");
        let lost = |outcome: &Result<_, _>| matches!(outcome, Err(StoreError::AlreadyResolved { .. }));
        assert!(outcomes.iter().any(lost), "{outcomes:?}");
        // The owner of the run notices it, whichever store wrote it.
        let noticed = loop {
            let event = waiting.next().await.unwrap().unwrap();
            if matches!(event.event().body, EventBody::ApprovalResolved(_)) {
                break event;
            }
        };
        assert_eq!(stored, [&noticed]);
        let reported = recorder.observe(&answer(&id, ApprovalDecision::approve()));
        assert_eq!(subject.store.append(reported).await.unwrap(), [noticed]);
        let drafts = recorder.observe(&result(&id, "f", "1"));
        subject.store.append(drafts).await.unwrap();
    }
    subject.end(&mut recorder).await.unwrap();
    let events: Vec<_> = subject
        .stored("s")
        .await
        .iter()
        .map(|event| event.event().clone())
        .collect();
    assert_eq!(checked(View::Live, &events).finish(), []);
}
