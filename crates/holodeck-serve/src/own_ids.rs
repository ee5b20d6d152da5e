//! Session ids as a user names them. An id that another user has taken is free for everybody else, so that no answer says
//! which ids exist: it is stored with a beginning of its user's, which nothing that leaves the server shows. Stores nothing.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use futures::StreamExt as _;
use holodeck_chat::{is_own_id, own_id_prefix};
use http::{HeaderValue, header};

use crate::{
    App,
    guard::User,
    problem::{Problem, Result},
};

impl App {
    /// The id under which a session is stored that a user names like this.
    pub(crate) async fn stored_id(&self, id: &str, user: &str) -> Result<String> {
        if is_own_id(id) {
            return Err(Problem::invalid("a session id does not begin with `own:`"));
        }
        self.refuse_secret("a session id", id)?;
        Ok(if self.store().is_taken(id, user).await? {
            format!("{}{id}", own_id_prefix(user))
        } else {
            id.to_owned()
        })
    }

    /// The same for an id that may be absent.
    pub(crate) async fn stored_id_of(&self, id: Option<String>, user: &str) -> Result<Option<String>> {
        match id {
            Some(id) => Ok(Some(self.stored_id(&id, user).await?)),
            None => Ok(None),
        }
    }
}

/// Shows the ids in an answer as its user names them.
pub(crate) async fn reveal(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(User(user)) = response.extensions().get::<User>() else {
        return response;
    };
    let prefix = own_id_prefix(user);
    if let Some(id) = response
        .headers()
        .get("x-session-id")
        .and_then(|id| id.to_str().ok())
        && let Some(id) = id.strip_prefix(&prefix)
        && let Ok(id) = HeaderValue::try_from(id)
    {
        response.headers_mut().insert("x-session-id", id);
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        // Each piece is a whole frame.
        return response.map(|body| {
            let frames = body.into_data_stream();
            Body::from_stream(frames.map(move |frame| frame.map(|frame| reveal_bytes(frame, &prefix))))
        });
    }
    if !kind.ends_with("json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    // It was made in memory.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(parts, Body::from(reveal_bytes(bytes, &prefix)))
}

/// The same for the text of a frame to this user.
pub(crate) fn reveal_text(text: String, user: &str) -> String {
    if text.contains("own:") {
        text.replace(&own_id_prefix(user), "")
    } else {
        text
    }
}

fn reveal_bytes(bytes: Bytes, prefix: &str) -> Bytes {
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains(prefix) => text.replace(prefix, "").into(),
        _ => bytes,
    }
}
