//! Approvals: what is asked, who may answer, and what an answer becomes.

use holodeck_backend_api::ApprovalDecision;
use holodeck_model::{
    events::{ApprovalRequested, ApprovalResolved, ApprovalScope, Decision, EventBody},
    remembered_approval,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{StoreError, StoredEvent, run_of, session_of};
use crate::{
    Clock, Draft, Ids,
    draft::{draft, meta},
};

/// A tool that a person approved for all conversations with an agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::exhaustive_structs, reason = "the columns of the table")]
pub struct AlwaysApproved {
    /// The user who approved it, if one was named.
    pub owner: Option<String>,
    /// The agent.
    pub agent: String,
    /// The calls, as [`remembered_approval`] names them.
    pub tool: String,
}

/// An answer to an approval.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApprovalAnswer {
    /// The approval.
    pub approval_id: String,
    /// The session it must belong to, if that is checked.
    pub session_id: Option<String>,
    /// Who answers, as the connection authenticated it. It must be the session's owner, unless the service answers.
    pub user: Option<String>,
    /// The decision.
    pub decision: Resolution,
    /// Why.
    pub reason: Option<String>,
    /// How long an unchanged approval counts. Any other decision is about one call.
    pub scope: ApprovalScope,
}

/// The decision about an approval.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Resolution {
    /// The call may run.
    Approve,
    /// It may run with these arguments.
    Modify(Value),
    /// It may not run; the agent sees why and continues.
    Reject,
    /// It may not run, and the run ends.
    Terminate,
    /// The service's own: no answer arrived in time.
    Expire,
    /// The service's own: the question is withdrawn.
    Cancel,
}

/// An approval as its store describes it. Its JSON has the fields of the question beside its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ApprovalInfo {
    /// The session.
    pub session_id: String,
    /// The run that asks.
    pub run_id: String,
    /// The user whose session it is, if one was named.
    pub owner: Option<String>,
    /// The agent, if the session names it.
    pub agent: Option<String>,
    /// When it was asked.
    pub requested_at: Timestamp,
    /// The question.
    #[serde(flatten)]
    pub request: ApprovalRequested,
    /// The answer; `None` while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ApprovalResolved>,
}

impl ApprovalAnswer {
    /// An answer for one call, without a user and a reason.
    pub fn new(approval_id: impl Into<String>, decision: Resolution) -> Self {
        Self {
            approval_id: approval_id.into(),
            session_id: None,
            user: None,
            decision,
            reason: None,
            scope: ApprovalScope::Once,
        }
    }

    /// The answer of this user.
    pub fn by(mut self, user: Option<&str>) -> Self {
        self.user = user.map(ToOwned::to_owned);
        self
    }
}

impl Resolution {
    /// The word in the event.
    pub fn word(&self) -> Decision {
        match self {
            Self::Approve => Decision::Approved,
            Self::Modify(_) => Decision::Modified,
            Self::Reject => Decision::Rejected,
            Self::Terminate => Decision::Terminated,
            Self::Expire => Decision::Expired,
            Self::Cancel => Decision::Cancelled,
        }
    }

    /// Whether the service decides it, without a person.
    fn is_of_service(&self) -> bool {
        matches!(self, Self::Expire | Self::Cancel)
    }
}

impl ApprovalInfo {
    /// `pending`, or the word of the decision.
    pub fn status(&self) -> &str {
        match &self.resolved {
            None => "pending",
            Some(resolved) => match &resolved.decision {
                Some(decision) => decision.as_str(),
                None if resolved.approved => Decision::Approved.as_str(),
                None => Decision::Rejected.as_str(),
            },
        }
    }
}

/// The stored answer in the form that a backend which asked receives. Only what this returns may decide whether the
/// tool runs, so that the tool and the log agree.
pub fn approval_decision(resolved: &ApprovalResolved) -> ApprovalDecision {
    let reason = |default: &str| resolved.reason.clone().unwrap_or_else(|| default.to_owned());
    match &resolved.decision {
        Some(Decision::Terminated) => ApprovalDecision::Terminate {
            reason: reason("a person ended the run"),
        },
        Some(Decision::Cancelled) => ApprovalDecision::Withdrawn,
        Some(Decision::Expired) => ApprovalDecision::Reject {
            reason: reason("no answer arrived in time"),
        },
        _ if resolved.approved => ApprovalDecision::Approve {
            arguments: resolved.modified_args.clone(),
        },
        _ => ApprovalDecision::Reject {
            reason: reason("User rejected"),
        },
    }
}

/// The row of an approval.
pub(super) struct Approval {
    pub(super) owner: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) asked: StoredEvent,
    pub(super) resolved: Option<StoredEvent>,
}

/// The effect of an answer.
pub(super) enum Answered {
    /// The same answer is stored already.
    Before(StoredEvent),
    /// This event resolves the approval.
    Now(Box<Draft>),
}

impl Approval {
    pub(super) fn session_id(&self) -> &str {
        session_of(&self.asked.event().meta)
    }

    pub(super) fn run_id(&self) -> &str {
        run_of(&self.asked.event().meta)
    }

    fn request(&self) -> Option<&ApprovalRequested> {
        match &self.asked.event().body {
            EventBody::ApprovalRequested(request) => Some(request),
            _ => None,
        }
    }

    /// The tool that is asked about, with the paths for which alone an approval holds.
    pub(super) fn tool(&self) -> String {
        let request = self.request();
        request.map_or_else(String::new, |request| {
            remembered_approval(&request.tool_name, &request.paths, request.tool_digest.as_deref())
        })
    }

    fn answer(&self) -> Option<&ApprovalResolved> {
        match &self.resolved.as_ref()?.event().body {
            EventBody::ApprovalResolved(resolved) => Some(resolved),
            _ => None,
        }
    }

    pub(super) fn info(&self) -> Option<ApprovalInfo> {
        Some(ApprovalInfo {
            session_id: self.session_id().to_owned(),
            run_id: self.run_id().to_owned(),
            owner: self.owner.clone(),
            agent: self.agent.clone(),
            requested_at: self.asked.event().meta.timestamp,
            request: self.request()?.clone(),
            resolved: self.answer().cloned(),
        })
    }

    /// Checks an answer and makes its event.
    pub(super) fn resolve(
        &self,
        answer: &ApprovalAnswer,
        clock: &dyn Clock,
        ids: &dyn Ids,
    ) -> Result<Answered, StoreError> {
        let approval_id = answer.approval_id.clone();
        let is_visible = answer.decision.is_of_service() || answer.user == self.owner;
        let is_here = answer
            .session_id
            .as_deref()
            .is_none_or(|id| id == self.session_id());
        let Some(request) = self.request().filter(|_| is_visible && is_here) else {
            return Err(StoreError::ApprovalNotFound { approval_id });
        };
        let is_allowed = request
            .scopes
            .as_ref()
            .is_none_or(|scopes| scopes.contains(&answer.scope));
        if answer.decision == Resolution::Approve && !is_allowed {
            let scopes = request.scopes.iter().flatten();
            return Err(StoreError::ScopeNotAllowed {
                scope: answer.scope.clone(),
                allowed: scopes.cloned().collect(),
            });
        }
        let body = self.body(answer);
        if let (Some(stored), Some(known)) = (&self.resolved, self.answer()) {
            if *known == body {
                return Ok(Answered::Before(stored.clone()));
            }
            let decision = known.decision.clone().unwrap_or(Decision::Rejected);
            if decision == Decision::Expired && !answer.decision.is_of_service() {
                return Err(StoreError::Expired { approval_id });
            }
            return Err(StoreError::AlreadyResolved {
                approval_id,
                decision,
                by: known.decided_by.clone(),
            });
        }
        let is_late = request.expires_at.is_some_and(|at| at <= clock.now());
        if is_late && !answer.decision.is_of_service() {
            return Err(StoreError::Expired { approval_id });
        }
        let asked = &self.asked.event().meta;
        let mut meta = meta(clock, ids);
        meta.session_id.clone_from(&asked.session_id);
        meta.run_id.clone_from(&asked.run_id);
        meta.parent_tool_use_id.clone_from(&asked.parent_tool_use_id);
        meta.turn = asked.turn;
        let event = draft(meta, EventBody::ApprovalResolved(body));
        Ok(Answered::Now(Box::new(event)))
    }

    /// The stored answer to an approval that was closed with its run in this transaction, which only the service's own
    /// answer may be; any other is refused.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn closed(
        &self,
        answer: &ApprovalAnswer,
        clock: &dyn Clock,
        ids: &dyn Ids,
    ) -> Result<StoredEvent, StoreError> {
        match self.resolve(answer, clock, ids)? {
            Answered::Before(stored) => Ok(stored),
            Answered::Now(_) => Err(StoreError::RunNotOpen {
                run_id: self.run_id().to_owned(),
            }),
        }
    }

    fn body(&self, answer: &ApprovalAnswer) -> ApprovalResolved {
        let word = answer.decision.word();
        let modified_args = match &answer.decision {
            Resolution::Modify(args) => Some(args.clone()),
            _ => None,
        };
        ApprovalResolved {
            approval_id: answer.approval_id.clone(),
            approved: matches!(word, Decision::Approved | Decision::Modified),
            decision: Some(word),
            reason: answer.reason.clone(),
            decided_by: answer.user.clone(),
            modified_args,
            scope: self.scope(answer),
        }
    }

    /// How long the answer counts. What changes or refuses a call is about that call, and without an agent's name
    /// there are no other sessions of it.
    fn scope(&self, answer: &ApprovalAnswer) -> Option<ApprovalScope> {
        let scope = match (&answer.decision, &answer.scope) {
            (Resolution::Approve, ApprovalScope::Always) if self.agent.is_none() => ApprovalScope::Session,
            (Resolution::Approve, scope) => scope.clone(),
            _ => return None,
        };
        matches!(scope, ApprovalScope::Session | ApprovalScope::Always).then_some(scope)
    }
}

/// How long an event approves later calls of its tool; `None` if it does not.
pub(super) fn remembered(event: &StoredEvent) -> Option<&ApprovalScope> {
    match &event.event().body {
        EventBody::ApprovalResolved(resolved) if resolved.approved => resolved.scope.as_ref(),
        _ => None,
    }
}
