//! Conversations: begin, list, describe, copy, delete.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use holodeck_events::{SessionCursor, SessionInfo};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    App,
    extract::{Json, Params, Segment},
    guard::User,
    problem::{Problem, Result},
    stream::{Feed, Until, cursor},
};

/// Conversations of a page.
const PAGE: usize = 50;
const MAX_PAGE: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSession {
    session_id: Option<String>,
    agent: Option<String>,
}

pub(crate) async fn create(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Json(new): Json<NewSession>,
) -> Result<Response> {
    let agent = app.agent(new.agent.as_deref())?;
    let session_id = app.stored_id_of(new.session_id, &user).await?;
    let session_id = agent.service.open_session(session_id, Some(&user)).await?;
    let body = json!({ "sessionId": session_id, "agent": agent.name });
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Params(listing): Params<Listing>,
) -> Result<axum::Json<Value>> {
    let limit = listing.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let after = match listing.after.as_deref().map(read_cursor).transpose()? {
        Some(mut after) => {
            after.session_id = app.stored_id(&after.session_id, &user).await?;
            Some(after)
        }
        None => None,
    };
    let sessions = app
        .store()
        .sessions_page(Some(&user), after.as_ref(), limit)
        .await?;
    let next = sessions
        .last()
        .filter(|_| sessions.len() == limit)
        .map(write_cursor);
    Ok(axum::Json(json!({ "sessions": sessions, "next": next })))
}

/// A place in the list, as text for the client.
fn write_cursor(last: &SessionInfo) -> String {
    format!("{}~{}", last.last_at.as_millisecond(), last.session_id)
}

fn read_cursor(text: &str) -> Result<SessionCursor> {
    let read = || {
        let (last_at, session_id) = text.split_once('~')?;
        Some(SessionCursor {
            last_at: jiff::Timestamp::from_millisecond(last_at.parse().ok()?).ok()?,
            session_id: session_id.to_owned(),
        })
    };
    read().ok_or_else(|| Problem::invalid("`after` is not the `next` of a page of this list"))
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
) -> Result<axum::Json<Value>> {
    let session = app.session(&session_id, &user).await?;
    let pending = app
        .store()
        .approvals(Some(&session.session_id), Some(&user))
        .await?;
    let mut body = serde_json::to_value(session).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        let pending = serde_json::to_value(pending).unwrap_or_default();
        body.insert("pendingApprovals".to_owned(), pending);
    }
    Ok(axum::Json(body))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deletion {
    #[serde(default)]
    force: bool,
}

pub(crate) async fn delete(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
    Params(deletion): Params<Deletion>,
) -> Result<StatusCode> {
    let session = app.session(&session_id, &user).await?;
    remove(&app, &session, deletion.force).await
}

/// Deletes a conversation; with `force`, ends what is answered in it.
pub(crate) async fn remove(app: &App, session: &SessionInfo, force: bool) -> Result<StatusCode> {
    if force {
        app.agent_of(session)?;
        for mut run in app.runs_of(&session.session_id) {
            run.cancel();
            // However it ended, it is over.
            let _ = run.finish().await;
        }
    }
    app.store().delete_session(&session.session_id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    after_event_index: Option<u64>,
}

pub(crate) async fn fork(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
    Json(fork): Json<Fork>,
) -> Result<Response> {
    let session_id = app.session(&session_id, &user).await?.session_id;
    let copy = Uuid::new_v4().to_string();
    let forked = app
        .store()
        .fork_session(&session_id, fork.after_event_index, &copy, Some(&user))
        .await?;
    let body = json!({ "sessionId": forked.session_id, "forkedFrom": session_id, "headIndex": forked.head });
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Following {
    after: Option<String>,
    #[serde(default)]
    follow: bool,
}

pub(crate) async fn events(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
    Params(following): Params<Following>,
    headers: HeaderMap,
) -> Result<Response> {
    let after = cursor(headers.get("last-event-id"), following.after.as_deref())?;
    let session = app.session(&session_id, &user).await?;
    let feed = Feed {
        events: app.subscribe(&session.session_id, after).await?,
        until: if following.follow {
            Until::Deleted
        } else {
            Until::Index(session.head)
        },
        session_id: session.session_id,
        run: None,
    };
    Ok(feed.respond(&app))
}
