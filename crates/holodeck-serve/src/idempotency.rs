//! Requests with an `Idempotency-Key` on addresses where nothing else is kept: the first one is stored as a conversation
//! with one run, which answers all that repeat it within a day, also after a restart. Runs nothing itself.

use std::time::Duration;

use axum::{
    extract::{FromRequestParts, Request},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use holodeck_events::{EventStore, SessionInfo, StoredEvent};
use holodeck_model::{
    digest_json,
    events::{CompleteReason, EventBody},
};
use http::{HeaderMap, Method, StatusCode, request::Parts};
use serde_json::{Value, json};

use crate::{
    App, ServedAgent,
    problem::{Problem, Result},
    run_events::{PAGE, end_of, read_run},
};

/// How long a key counts.
const LIFETIME: Duration = Duration::from_hours(24);
/// How often a key can be used again after that.
const MAX_USES: u32 = 10_000;

/// The key of a request, with the digest of its body.
#[derive(Clone, Debug)]
pub(crate) struct RequestKey {
    /// The beginning of the ids of its conversations.
    session: String,
    /// The id of the message: another body is another message.
    pub(crate) message_id: String,
}

/// Where a request with a key is answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyedPlace {
    /// In this conversation, whose run begins now; its number is that of the key's uses before.
    New { session_id: String, number: u32 },
    /// In this conversation, by this run.
    Answered { session_id: String, run_id: String },
}

/// The header with the key.
const HEADER: &str = "Idempotency-Key";
/// The longest key.
const MAX_KEY: usize = 255;

/// The key of a request, if it has one.
pub(crate) struct Key(pub(crate) Option<String>);

impl FromRequestParts<App> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let key = key_in(&parts.headers)?;
        if let Some(key) = &key {
            app.refuse_secret("`Idempotency-Key`", key)?;
        }
        Ok(Self(key))
    }
}

/// Refuses a request whose key can't be one, on every address.
pub(crate) async fn check_header(request: Request, next: Next) -> Response {
    if request.method() == Method::POST
        && let Err(problem) = key_in(request.headers())
    {
        return problem.into_response();
    }
    next.run(request).await
}

/// The key in the head of a request.
fn key_in(headers: &HeaderMap) -> Result<Option<String>> {
    let mut keys = headers.get_all(HEADER).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(Problem::invalid(format!("`{HEADER}` is named twice")).about(HEADER));
    }
    // Other bytes are no text that every client and proxy reads in the same way.
    let Some(key) = key.to_str().ok().filter(|key| key.is_ascii()) else {
        let detail = format!("`{HEADER}` has characters that are not printable ASCII");
        return Err(Problem::invalid(detail).about(HEADER));
    };
    check_key(HEADER, key)?;
    Ok(Some(key.to_owned()))
}

/// Checks a key or a client's id of a message, wherever it is named.
pub(crate) fn check_key(name: &str, key: &str) -> Result<()> {
    let refuse = |why: &str| Err(Problem::invalid(format!("`{name}` {why}")).about(name));
    if key.trim().is_empty() {
        return refuse("is empty");
    }
    if key.chars().count() > MAX_KEY {
        return refuse(&format!("is longer than {MAX_KEY} characters"));
    }
    if key.chars().any(char::is_control) {
        return refuse("has control characters");
    }
    Ok(())
}

impl RequestKey {
    /// The key of a request of `user` on the address `route`.
    pub(crate) fn new(route: &str, user: &str, key: &str, body: &Value) -> Self {
        let named = digest_json(&json!([route, user, key]));
        Self {
            session: format!("{route}:{}", named.trim_start_matches("sha256:")),
            message_id: digest_json(body),
        }
    }

    /// The id of the message in a conversation that the key does not choose, and the beginning that all ids have of requests
    /// with the key.
    pub(crate) fn in_conversation(&self) -> (String, String) {
        let beginning = format!("{}:", self.session);
        (format!("{beginning}{}", self.message_id), beginning)
    }

    /// Where the request to this agent is answered. `skip` of its conversations can't be used, for instance because they were
    /// deleted.
    pub(crate) async fn place(
        &self,
        store: &dyn EventStore,
        agent: &ServedAgent,
        user: &str,
        skip: u32,
    ) -> Result<KeyedPlace> {
        for number in skip..MAX_USES {
            let session_id = self.session_id(number);
            let Some(session) = store.session(&session_id).await? else {
                return Ok(KeyedPlace::New { session_id, number });
            };
            if is_over(&session) || session.owner.as_deref() != Some(user) {
                continue;
            }
            return match find_keyed_run(store, &session_id).await? {
                // A process ended before it began.
                None => Ok(KeyedPlace::New { session_id, number }),
                // It was stopped before it did anything.
                Some((run_id, message_id)) if message_id == self.message_id => {
                    match stop_of(store, &run_id).await? {
                        Some(stop) if stop.is_without_effect(agent) => continue,
                        _ => Ok(KeyedPlace::Answered { session_id, run_id }),
                    }
                }
                Some(_) => Err(reused()),
            };
        }
        Err(Problem::invalid(
            "`Idempotency-Key` was used too often; send a new one",
        ))
    }

    fn session_id(&self, number: u32) -> String {
        match number {
            0 => self.session.clone(),
            number => format!("{}.{number}", self.session),
        }
    }
}

/// The refusal of another request with a key.
pub(crate) fn reused() -> Problem {
    let detail = format!("`{HEADER}` was sent before with another request");
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(status, "MESSAGE_ID_REUSED", detail).about(HEADER)
}

/// How a run ended that was stopped from outside: by a person or with its server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The tools that it had called.
    calls: Vec<String>,
    /// Whether its process ended, so that not all of its calls may be stored.
    is_lost: bool,
}

/// How a run was stopped; `None` if it continues or ended by itself.
pub(crate) async fn stop_of(store: &dyn EventStore, run_id: &str) -> Result<Option<Stop>> {
    let Some((run, last)) = end_of(store, run_id).await? else {
        return Ok(None);
    };
    let is_lost = match &last.event().body {
        EventBody::Complete(end) if end.reason == CompleteReason::UserCancelled => false,
        EventBody::Error(error) if error.code == INTERRUPTED => true,
        _ => return Ok(None),
    };
    let mut calls = Vec::new();
    read_run(store, &run, |event| {
        if let EventBody::ToolUse(call) = &event.event().body
            && !calls.contains(&call.tool_name)
        {
            calls.push(call.tool_name.clone());
        }
    })
    .await?;
    Ok(Some(Stop { calls, is_lost }))
}

/// The code of the end of a run whose process ended.
const INTERRUPTED: &str = "RUN_INTERRUPTED";

impl Stop {
    /// Whether it is known that nothing was done. The tools of these agents run only after their calls are stored.
    fn is_without_effect(&self, agent: &ServedAgent) -> bool {
        agent.answers.follows_wishes && self.calls.is_empty() && !self.is_lost
    }

    /// The answer to a request whose run was stopped: it is not run again.
    pub(crate) fn problem(&self) -> Problem {
        let calls: Vec<_> = self.calls.iter().map(|name| format!("`{name}`")).collect();
        let what = match (self.is_lost, calls.is_empty()) {
            (false, true) => "the run was stopped, and no call of a tool is stored".to_owned(),
            (false, false) => format!("the run was stopped after it called {}", calls.join(", ")),
            (true, true) => {
                "the process ended during the run; no call of a tool is stored, and one may have begun"
                    .to_owned()
            }
            (true, false) => format!(
                "the process ended during the run, which had called {}",
                calls.join(", ")
            ),
        };
        let detail = format!("{what}; it is not run again: send another `{HEADER}` for that");
        Problem::new(StatusCode::BAD_GATEWAY, "RUN_STOPPED", detail).after_effect()
    }
}

/// Whether the day since its first event is over.
fn is_over(session: &SessionInfo) -> bool {
    let age = jiff::Timestamp::now().duration_since(session.created_at);
    age.as_millis() >= i128::try_from(LIFETIME.as_millis()).unwrap_or(i128::MAX)
}

/// The first run of a conversation whose message has a client's id, and that id.
async fn find_keyed_run(store: &dyn EventStore, session_id: &str) -> Result<Option<(String, String)>> {
    let mut after = None;
    loop {
        let page = store.read_page(session_id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.index());
        if let Some(found) = page.iter().find_map(keyed_run) {
            return Ok(Some(found));
        }
    }
}

/// The run of a message that has a client's id, and that id.
fn keyed_run(event: &StoredEvent) -> Option<(String, String)> {
    let EventBody::UserMessageConfirmed(message) = &event.event().body else {
        return None;
    };
    Some((
        event.event().meta.run_id.clone()?,
        message.client_message_id.clone()?,
    ))
}
