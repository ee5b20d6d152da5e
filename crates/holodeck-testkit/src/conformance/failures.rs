//! Conformance checks of failed and cancelled turns.

use futures::{FutureExt as _, StreamExt as _};
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};

use super::{
    Check, ModelMove, Outcome, Scenario, Subject, holds,
    observed::{ask, equipped, observe, plain},
    same,
};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("half a stream keeps its text and is an error", |s| {
        half(s).boxed()
    }),
    ("a provider's error is one", |s| provider(s).boxed()),
    ("a wrong key is identified", |s| credentials(s).boxed()),
    ("a turn stopped before it starts", |s| stopped_before(s).boxed()),
    ("a turn stopped while the model writes", |s| {
        stopped_writing(s).boxed()
    }),
    ("a turn stopped while a tool runs", |s| stopped_in_tool(s).boxed()),
];

async fn half(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::BreakOff("half an ans")])).await;
    let observed = ask(&*prepared.backend, "go").await;
    same("the text", observed.text(), "half an ans")?;
    let protocol = matches!(observed.error, Some(BackendError::Protocol { .. }));
    holds(&format!("the error is {:?}", observed.error), protocol)
}

async fn provider(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Fail(400)])).await;
    let observed = ask(&*prepared.backend, "go").await;
    match observed.error {
        Some(BackendError::Provider {
            status: Some(400), ..
        }) => Ok(()),
        other => Err(format!("the error is {other:?}")),
    }
}

async fn credentials(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::Fail(401)])).await;
    let observed = ask(&*prepared.backend, "go").await;
    let is_credentials = observed.error.as_ref().is_some_and(BackendError::is_credentials);
    holds(&format!("the error is {:?}", observed.error), is_credentials)
}

async fn stopped_before(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::default()).await;
    let request = TurnRequest::new("go");
    request.cancel.cancel();
    let observed = observe(prepared.backend.start(request)).await;
    cancelled(observed.error.as_ref())
}

async fn stopped_writing(subject: &dyn Subject) -> Outcome {
    let prepared = plain(subject, Scenario::of([ModelMove::HangAfter("so far")])).await;
    let request = TurnRequest::new("go");
    let cancel = request.cancel.clone();
    let mut stream = prepared.backend.start(request);
    let mut text = String::new();
    let error = loop {
        match stream.next().await {
            Some(Ok(BackendEvent::Text { text: piece })) => {
                text.push_str(&piece);
                if text == "so far" {
                    cancel.cancel();
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    same("the text", text, "so far")?;
    cancelled(error.as_ref())
}

async fn stopped_in_tool(subject: &dyn Subject) -> Outcome {
    let (prepared, tools) = equipped(subject, Scenario::of([ModelMove::call("hang")])).await;
    let request = TurnRequest::new("go");
    let cancel = request.cancel.clone();
    let (observed, ()) = futures::join!(observe(prepared.backend.start(request)), async {
        tools.until_called().await;
        cancel.cancel();
    });
    cancelled(observed.error.as_ref())
}

fn cancelled(error: Option<&BackendError>) -> Outcome {
    holds(
        &format!("the error is {error:?}"),
        matches!(error, Some(BackendError::Cancelled)),
    )
}
