//! Questions about tool calls.

use axum::{Extension, extract::State};
use holodeck_events::{AlwaysApproved, ApprovalAnswer, Resolution};
use holodeck_model::{events::ApprovalScope, remembered_calls};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    App,
    extract::{Json, Params, Segment},
    guard::User,
    problem::{Problem, Result},
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Listing {
    session_id: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Params(listing): Params<Listing>,
) -> Result<axum::Json<Value>> {
    let session_id = match &listing.session_id {
        Some(session_id) => Some(app.session(session_id, &user).await?.session_id),
        None => None,
    };
    let approvals = app.store().approvals(session_id.as_deref(), Some(&user)).await?;
    Ok(axum::Json(json!({ "approvals": approvals })))
}

/// The tools that the user approved for all conversations, with each agent.
pub(crate) async fn list_always(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
) -> Result<axum::Json<Value>> {
    let mut always = Vec::new();
    for agent in app.agents() {
        always.extend(app.store().always_approved(&agent.name, Some(&user)).await?);
    }
    let always: Vec<Value> = always.iter().map(describe_always).collect();
    Ok(axum::Json(json!({ "always": always })))
}

fn describe_always(approved: &AlwaysApproved) -> Value {
    let (tool, digest) = remembered_calls(&approved.tool);
    json!({ "agent": approved.agent, "tool": tool, "toolDigest": digest })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Revoked {
    tool: String,
    agent: Option<String>,
}

/// Forgets that a tool is always approved, whatever it was then.
pub(crate) async fn revoke_always(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Params(revoked): Params<Revoked>,
) -> Result<StatusCode> {
    let agent = app.agent(revoked.agent.as_deref())?;
    let always = app.store().always_approved(&agent.name, Some(&user)).await?;
    let mut found = false;
    for approved in always {
        if remembered_calls(&approved.tool).0 == revoked.tool {
            found |= app.store().revoke_always(approved).await?;
        }
    }
    if found {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("the tool `{}` is not always approved", revoked.tool);
    Err(Problem::new(StatusCode::NOT_FOUND, "APPROVAL_NOT_FOUND", detail))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Answer {
    decision: Word,
    reason: Option<String>,
    modified_args: Option<Value>,
    scope: Option<Scope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Approve,
    Reject,
    Modify,
    Terminate,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Once,
    Session,
    Always,
}

pub(crate) async fn answer(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(approval_id): Segment,
    Json(answer): Json<Answer>,
) -> Result<axum::Json<Value>> {
    let stored = app.answer(answer.into_answer(approval_id, &user)?).await?;
    let event = serde_json::from_str::<Value>(stored.json()).unwrap_or_default();
    Ok(axum::Json(event))
}

impl Answer {
    pub(crate) fn into_answer(self, approval_id: String, user: &str) -> Result<ApprovalAnswer> {
        let decision = match (self.decision, self.modified_args) {
            (Word::Modify, Some(arguments)) => Resolution::Modify(arguments),
            (Word::Modify, None) => return Err(Problem::invalid("`modify` needs `modifiedArgs`")),
            (_, Some(_)) => return Err(Problem::invalid("`modifiedArgs` belongs to `modify`")),
            (Word::Approve, None) => Resolution::Approve,
            (Word::Reject, None) => Resolution::Reject,
            (Word::Terminate, None) => Resolution::Terminate,
        };
        if self.scope.is_some() && self.decision != Word::Approve {
            return Err(Problem::invalid("`scope` belongs to `approve`"));
        }
        let mut answer = ApprovalAnswer::new(approval_id, decision).by(Some(user));
        answer.reason = self.reason;
        answer.scope = match self.scope {
            None | Some(Scope::Once) => ApprovalScope::Once,
            Some(Scope::Session) => ApprovalScope::Session,
            Some(Scope::Always) => ApprovalScope::Always,
        };
        Ok(answer)
    }
}
