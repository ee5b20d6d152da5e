//! Conformance checks of conversations: memory, separation, failed turns and interruption.

use futures::{FutureExt as _, StreamExt as _};
use holodeck_backend_api::{
    AgentSession, BackendError, BackendEvent, CallDetails, HistoryItem, Opening, SessionState, ToolResult,
    TurnRequest,
};

use super::{
    Check, ModelMove, Outcome, Prepared, Scenario, Subject, holds,
    observed::{observe, plain},
    same,
    scenario::call as call_of,
};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a session remembers", |s| remembers(s).boxed()),
    ("sessions do not mix", |s| apart(s).boxed()),
    ("a failed turn leaves the session as it was", |s| {
        failed_turn(s).boxed()
    }),
    ("a dropped turn leaves the session as it was", |s| {
        dropped_turn(s).boxed()
    }),
    ("an interrupted turn leaves its text in the session", |s| {
        interrupted(s).boxed()
    }),
    ("a session begins after its history", |s| opened(s).boxed()),
    ("a closed session is an error", |s| closed(s).boxed()),
    ("a session streams text", |s| text(s).boxed()),
];

async fn open(prepared: &Prepared) -> Result<Box<dyn AgentSession>, String> {
    let session = prepared.backend.create_session().await;
    session.map_err(|error| error.to_string())
}

async fn answer(session: &mut dyn AgentSession, message: &str) -> Result<String, String> {
    let result = session.send(message).await;
    result
        .map(|result| result.response)
        .map_err(|error| error.to_string())
}

async fn remembers(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::say("uno"), ModelMove::Repeat])).await;
    let mut session = open(&prepared).await?;
    same("the first answer", answer(&mut *session, "one").await?, "uno")?;
    same("the state", session.state(), SessionState::Ready)?;
    same(
        "the second answer",
        answer(&mut *session, "two").await?,
        "one | uno | two",
    )
}

async fn apart(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::say("uno"), ModelMove::Repeat])).await;
    let (mut one, mut two) = (open(&prepared).await?, open(&prepared).await?);
    answer(&mut *one, "one").await?;
    same("the answer", answer(&mut *two, "two").await?, "two")
}

async fn failed_turn(subject: &dyn Subject) -> Outcome {
    let moves = [
        ModelMove::say("uno"),
        ModelMove::BreakOff("du"),
        ModelMove::Fail(400),
        ModelMove::Repeat,
    ];
    let prepared = plain(subject, Scenario::of(moves)).await;
    let mut session = open(&prepared).await?;
    answer(&mut *session, "one").await?;
    for _ in 0..2 {
        holds(
            "a broken turn succeeds",
            answer(&mut *session, "two").await.is_err(),
        )?;
        same("the state", session.state(), SessionState::Ready)?;
    }
    same(
        "the answer",
        answer(&mut *session, "two").await?,
        "one | uno | two",
    )
}

async fn dropped_turn(subject: &dyn Subject) -> Outcome {
    let prepared = plain(
        subject,
        Scenario::of([ModelMove::HangAfter("so far"), ModelMove::Repeat]),
    )
    .await;
    let mut session = open(&prepared).await?;
    {
        let mut turn = session.turn(TurnRequest::new("one"));
        while !matches!(turn.next().await, Some(Ok(BackendEvent::Text { .. })) | None) {}
    }
    same("the state", session.state(), SessionState::Ready)?;
    same("the answer", answer(&mut *session, "two").await?, "two")
}

async fn interrupted(subject: &dyn Subject) -> Outcome {
    let prepared = plain(
        subject,
        Scenario::of([ModelMove::HangAfter("so far"), ModelMove::Repeat]),
    )
    .await;
    let mut session = open(&prepared).await?;
    let control = session.control();
    // No turn runs, so nothing is cancelled, not even the next turn.
    control.interrupt();
    let mut turn = session.turn(TurnRequest::new("one"));
    let error = loop {
        match turn.next().await {
            Some(Ok(BackendEvent::Text { .. })) => control.interrupt(),
            Some(Ok(_)) => {}
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    drop(turn);
    holds(
        &format!("the error is {error:?}"),
        matches!(error, Some(BackendError::Cancelled)),
    )?;
    same("the state", session.state(), SessionState::Ready)?;
    same(
        "the answer",
        answer(&mut *session, "two").await?,
        "one | so far | two",
    )
}

async fn opened(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Repeat, ModelMove::Repeat])).await;
    let call = call_of("c0", "echo", "x");
    let result = ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        result: "x".to_owned(),
        is_error: false,
        duration_ms: None,
        details: CallDetails::default(),
    };
    let unanswered = call_of("c9", "echo", "y");
    let opening = Opening::after([
        HistoryItem::user("one"),
        HistoryItem::assistant("let me look"),
        HistoryItem::Call(call),
        HistoryItem::Result(result),
        HistoryItem::assistant("uno"),
        HistoryItem::user("two"),
        HistoryItem::Call(unanswered),
        HistoryItem::Partial {
            text: "du".to_owned(),
        },
    ]);
    let session = prepared.backend.open_session(opening).await;
    let mut session = session.map_err(|error| error.to_string())?;
    let first = "one | let me look | uno | two | du | three";
    same("the first answer", answer(&mut *session, "three").await?, first)?;
    same(
        "the second answer",
        answer(&mut *session, "four").await?,
        format!("{first} | {first} | four"),
    )
}

async fn closed(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::default()).await;
    let mut session = open(&prepared).await?;
    for _ in 0..2 {
        session.close().await.map_err(|error| error.to_string())?;
    }
    same("the state", session.state(), SessionState::Closed)?;
    let observed = observe(session.turn(TurnRequest::new("hello"))).await;
    holds(
        &format!("the error is {:?}", observed.error),
        matches!(observed.error, Some(BackendError::Session { .. })),
    )
}

async fn text(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::say("hello")])).await;
    let mut session = open(&prepared).await?;
    let pieces: Vec<_> = session.send_streaming("hi").collect().await;
    let pieces: Result<String, BackendError> = pieces.into_iter().collect();
    same("the text", pieces.map_err(|error| error.to_string())?, "hello")
}
