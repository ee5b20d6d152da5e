use futures::{FutureExt as _, StreamExt as _};
use holodeck_backend_api::{AgentSession, BackendError, BackendEvent, SessionState, TurnRequest};

use super::{
    Check, ModelMove, Outcome, Prepared, Scenario, Subject,
    heard::{hear, plain},
    holds, same,
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
    ("a turn can be interrupted and the session goes on", |s| {
        interrupted(s).boxed()
    }),
    ("a closed session says so", |s| closed(s).boxed()),
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
    // Nothing runs, so nothing is stopped: not even the next turn.
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
    same("the answer", answer(&mut *session, "two").await?, "two")
}

async fn closed(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::default()).await;
    let mut session = open(&prepared).await?;
    for _ in 0..2 {
        session.close().await.map_err(|error| error.to_string())?;
    }
    same("the state", session.state(), SessionState::Closed)?;
    let heard = hear(session.turn(TurnRequest::new("hello"))).await;
    holds(
        &format!("the error is {:?}", heard.error),
        matches!(heard.error, Some(BackendError::Session { .. })),
    )
}

async fn text(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::say("hello")])).await;
    let mut session = open(&prepared).await?;
    let pieces: Vec<_> = session.send_streaming("hi").collect().await;
    let pieces: Result<String, BackendError> = pieces.into_iter().collect();
    same("the text", pieces.map_err(|error| error.to_string())?, "hello")
}
