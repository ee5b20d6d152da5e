//! Runs: their events, and their end.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use holodeck_chat::RunHandle;
use holodeck_events::RunInfo;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::{
    App,
    extract::{Params, Segment},
    guard::User,
    problem::{Problem, Result},
    stream::{Feed, Until, cursor},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resuming {
    after: Option<String>,
}

pub(crate) async fn events(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(run_id): Segment,
    Params(resuming): Params<Resuming>,
    headers: HeaderMap,
) -> Result<Response> {
    let after = cursor(headers.get("last-event-id"), resuming.after.as_deref())?;
    let (session_id, _, handle) = find(&app, &run_id, &user).await?;
    stream(&app, &session_id, &run_id, handle, after).await
}

/// The events of a run until it ends, also of one that waits for its turn.
pub(crate) async fn stream(
    app: &App,
    session_id: &str,
    run_id: &str,
    handle: Option<RunHandle>,
    after: Option<u64>,
) -> Result<Response> {
    let head = app
        .store()
        .session(session_id)
        .await?
        .and_then(|session| session.head);
    // A run that is not stored yet begins after the head.
    let run = app.store().run(run_id).await?;
    let before = run.as_ref().map_or(head, |run| run.first_index.checked_sub(1));
    let after = after.max(before);
    let feed = Feed {
        events: app.subscribe(session_id, after).await?,
        until: match run.and_then(|run| run.last_index) {
            // A client that has the end gets nothing more.
            Some(last) if Some(last) <= after => Until::Index(None),
            _ => Until::RunEnds(run_id.to_owned()),
        },
        session_id: session_id.to_owned(),
        run: handle,
    };
    Ok(feed.respond(app))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(run_id): Segment,
) -> Result<Response> {
    let (_, run, handle) = find(&app, &run_id, &user).await?;
    let (status, state) = match (run, handle) {
        (
            Some(RunInfo {
                last_index: Some(_), ..
            }),
            _,
        ) => (StatusCode::OK, "done"),
        (_, Some(handle)) => {
            handle.cancel();
            (StatusCode::ACCEPTED, "ending")
        }
        (_, None) if is_over(&app, &run_id).await? => (StatusCode::OK, "done"),
        (_, None) => return Err(Problem::run_elsewhere(&run_id)),
    };
    Ok((status, axum::Json(json!({ "runId": run_id, "state": state }))).into_response())
}

/// Whether a run that this process does not run is over. It is if its process is gone.
pub(crate) async fn is_over(app: &App, run_id: &str) -> Result<bool> {
    app.store().recover().await?;
    let run = app.store().run(run_id).await?;
    Ok(run.is_none_or(|run| run.last_index.is_some()))
}

/// A run of this user: its conversation, what is stored of it, and its handle if this process runs it.
async fn find(app: &App, run_id: &str, user: &str) -> Result<(String, Option<RunInfo>, Option<RunHandle>)> {
    let handle = app.run(run_id);
    let not_found = || Problem::run_not_found(run_id);
    if let Some(run) = app.store().run(run_id).await? {
        return if run.owner.as_deref() == Some(user) {
            Ok((run.session_id.clone(), Some(run), handle))
        } else {
            Err(not_found())
        };
    }
    // It waits for its turn in a conversation that exists.
    let handle = handle.ok_or_else(not_found)?;
    let session = app.stored_session(handle.session_id(), user).await;
    let session = session.map_err(|_| not_found())?;
    Ok((session.session_id, None, Some(handle)))
}
