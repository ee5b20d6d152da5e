//! Why a store refuses or fails.

use holodeck_model::events::{ApprovalScope, Decision, UserMessage};

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session has a run that is not over.
    #[error("session `{session_id}` has a run that is not over{}", in_process(*.process))]
    RunInProgress {
        /// The session.
        session_id: String,
        /// The process that runs it, if it is another one.
        process: Option<u32>,
    },
    /// The run is over, or never began.
    #[error("run `{run_id}` is not open")]
    RunNotOpen {
        /// The run.
        run_id: String,
    },
    /// The run is another writer's: it never was this one's, or this one was taken for dead.
    #[error("run `{run_id}` is no longer owned by this process")]
    StaleOwner {
        /// The run.
        run_id: String,
    },
    /// A run with this id exists.
    #[error("run `{run_id}` exists already")]
    RunExists {
        /// The run.
        run_id: String,
    },
    /// The message was sent before, and this run answers it.
    #[error("the message was already sent; run `{run_id}` answers it")]
    AlreadySent {
        /// The run.
        run_id: String,
    },
    /// The client's id belongs to another message of the session.
    #[error("the client message id is used by another message, of run `{run_id}`")]
    MessageIdReused {
        /// The run of the other message.
        run_id: String,
    },
    /// The session does not exist, or belongs to another user.
    #[error("session `{session_id}` does not exist")]
    SessionNotFound {
        /// The session.
        session_id: String,
    },
    /// The session was deleted.
    #[error("session `{session_id}` was deleted; use another id")]
    SessionDeleted {
        /// The session.
        session_id: String,
    },
    /// A session with this id exists.
    #[error("session `{session_id}` exists already")]
    SessionExists {
        /// The session.
        session_id: String,
    },
    /// A session is copied only up to the end of a run.
    #[error("session `{session_id}` can be forked only after a finished run")]
    NotAfterARun {
        /// The session.
        session_id: String,
    },
    /// The approval does not exist, or is another user's or session's.
    #[error("approval `{approval_id}` does not exist")]
    ApprovalNotFound {
        /// The approval.
        approval_id: String,
    },
    /// The approval has another answer.
    #[error("approval `{approval_id}` was already resolved: {decision}{}", by_user(.by.as_deref()))]
    AlreadyResolved {
        /// The approval.
        approval_id: String,
        /// The answer.
        decision: Decision,
        /// Who gave it, if it was a person with a name.
        by: Option<String>,
    },
    /// The agent's YAML does not let an approval count for so long.
    #[error("an approval may not count `{scope}` here, only {}", scope_names(.allowed))]
    ScopeNotAllowed {
        /// The scope.
        scope: ApprovalScope,
        /// Those that are allowed.
        allowed: Vec<ApprovalScope>,
    },
    /// The time for an answer is over.
    #[error("approval `{approval_id}` has expired")]
    Expired {
        /// The approval.
        approval_id: String,
    },
    /// A reader asks for what follows an event that the session does not have.
    #[error("the cursor {cursor} is beyond the last event of the session")]
    CursorAhead {
        /// The cursor.
        cursor: u64,
        /// The index of the last event.
        head: Option<u64>,
    },
    /// There is no more space.
    #[error("events could not be stored: the disk or the store is full")]
    Full,
    /// The store has tables of a newer version.
    #[error("`{path}` was written by a newer version of HoloDeck; use that version")]
    Newer {
        /// The file, or the database.
        path: String,
    },
    /// The store has tables of an earlier version, and is opened only to be read.
    #[error("`{path}` was written by an earlier version of HoloDeck; `holodeck sessions list` updates it")]
    Older {
        /// The file.
        path: String,
    },
    /// The storage failed.
    #[error("events could not be stored: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

impl StoreError {
    pub(super) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed {
            reason: error.to_string(),
        }
    }
}

fn scope_names(scopes: &[ApprovalScope]) -> String {
    let names = scopes.iter().map(|scope| format!("`{scope}`"));
    names.collect::<Vec<_>>().join(", ")
}

fn in_process(process: Option<u32>) -> String {
    process.map_or_else(String::new, |id| format!("; process {id} runs it"))
}

fn by_user(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!(" by {user}"))
}

/// Why a message is refused whose client's id is that of `sent`, which `run_id` answers.
pub(super) fn repeated(sent: &UserMessage, again: &UserMessage, run_id: String) -> StoreError {
    // Each attempt to send a message has its own id, and so has each copy of a file.
    let content = |message: &UserMessage| {
        let mut message = message.clone();
        message.message_id.clear();
        message.attachments.iter_mut().for_each(|file| file.id.clear());
        message
    };
    if content(sent) == content(again) {
        StoreError::AlreadySent { run_id }
    } else {
        StoreError::MessageIdReused { run_id }
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::events::UserMessage;

    use super::{StoreError, repeated};

    #[test]
    fn a_message_is_the_same_only_with_all_of_its_fields() {
        let sent = UserMessage {
            message_id: "m-1".to_owned(),
            content: "go".to_owned(),
            user_id: Some("alice".to_owned()),
            client_message_id: Some("c".to_owned()),
            attachments: Vec::new(),
        };
        let is_same = |again: UserMessage| {
            matches!(
                repeated(&sent, &again, String::new()),
                StoreError::AlreadySent { .. }
            )
        };
        assert!(is_same(UserMessage {
            message_id: "m-2".to_owned(),
            ..sent.clone()
        }));
        assert!(!is_same(UserMessage {
            content: "stop".to_owned(),
            ..sent.clone()
        }));
        assert!(!is_same(UserMessage {
            user_id: None,
            ..sent.clone()
        }));
    }
}
