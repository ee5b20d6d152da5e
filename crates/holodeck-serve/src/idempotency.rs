//! Requests with an `Idempotency-Key` on addresses where nothing else is kept: the first one is stored as a conversation
//! with one run, which answers all that repeat it within a day, also after a restart. Runs nothing itself.

use std::time::Duration;

use holodeck_events::{EventStore, SessionInfo, StoredEvent};
use holodeck_model::{digest_json, events::EventBody};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::problem::{Problem, Result};

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

/// The key in the head of a request.
pub(crate) fn key_in(headers: &HeaderMap) -> Result<Option<String>> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let refuse =
        |why: &str| Err(Problem::invalid(format!("`Idempotency-Key` {why}")).about("Idempotency-Key"));
    if keys.next().is_some() {
        return refuse("is named twice");
    }
    match key.to_str().map(str::trim) {
        Err(_) => refuse("is not text"),
        Ok("") => refuse("is empty"),
        Ok(key) if key.len() > 255 => refuse("is longer than 255 characters"),
        Ok(key) => Ok(Some(key.to_owned())),
    }
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

    /// Where the request is answered. `skip` of its conversations can't be used, for instance because they were deleted.
    pub(crate) async fn place(&self, store: &dyn EventStore, user: &str, skip: u32) -> Result<KeyedPlace> {
        for number in skip..MAX_USES {
            let session_id = self.session_id(number);
            let Some(session) = store.session(&session_id).await? else {
                return Ok(KeyedPlace::New { session_id, number });
            };
            if is_over(&session) || session.owner.as_deref() != Some(user) {
                continue;
            }
            let mut runs = store.read_after(&session_id, None).await?.into_iter();
            return match runs.find_map(|event| keyed_run(&event)) {
                // A process ended before it began.
                None => Ok(KeyedPlace::New { session_id, number }),
                Some((run_id, message_id)) if message_id == self.message_id => {
                    Ok(KeyedPlace::Answered { session_id, run_id })
                }
                Some(_) => {
                    let detail = "`Idempotency-Key` was sent before with another request";
                    let status = StatusCode::UNPROCESSABLE_ENTITY;
                    Err(Problem::new(status, "MESSAGE_ID_REUSED", detail).about("Idempotency-Key"))
                }
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

/// Whether the day since its first event is over.
fn is_over(session: &SessionInfo) -> bool {
    let age = jiff::Timestamp::now().duration_since(session.created_at);
    age.as_millis() >= i128::try_from(LIFETIME.as_millis()).unwrap_or(i128::MAX)
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
