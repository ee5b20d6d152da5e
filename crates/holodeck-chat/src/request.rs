//! A message to an agent with its options, and the errors of answering it. Impossible requests are refused before
//! anything is stored.

use std::ops::RangeInclusive;

use holodeck_backend_api::{AnswerWishes, HistoryItem, Image, Thinking};
use holodeck_events::{RecordError, StoreError};
use holodeck_model::{FileInput, digest_json, events::AgentExecutionResult};

use crate::file_error::FileError;

/// A message to an agent, and how it is answered.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct RunRequest {
    /// The conversation; without one, a new one begins.
    pub session_id: Option<String>,
    /// The message of the person.
    pub message: String,
    /// The person.
    pub user_id: Option<String>,
    /// The client's own id of the message: a message that is sent again is answered once.
    pub client_message_id: Option<String>,
    /// Files of this machine attached to the message.
    pub files: Vec<FileInput>,
    /// The ids of the user's files attached to the message.
    pub attachments: Vec<String>,
    /// Searches the user's files for the message if none are attached.
    pub search: Option<FileSearch>,
    /// Whether the model reasons before it answers; `None`: as the agent's YAML says.
    pub thinking: Option<Thinking>,
    /// Pictures of the message, besides those of its files. They are not stored.
    pub images: Vec<Image>,
    /// The limits and the form that a client asks for.
    pub wishes: AnswerWishes,
    /// The conversation before, where the client keeps it; `None`: the one that is stored.
    pub opening: Option<Vec<HistoryItem>>,
}

impl RunRequest {
    /// A message in a conversation.
    pub fn new(session_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            session_id: Some(session_id.into()),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Whether files of the user belong to the message, or may.
    pub(crate) fn reads_stored_files(&self) -> bool {
        !self.attachments.is_empty() || self.search.is_some()
    }

    /// Refuses what can never be answered, before anything is stored.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.message.trim().is_empty() {
            return Err(RunError::refused("the message is empty"));
        }
        if self.session_id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(RunError::refused(SESSION_ID_FORM));
        }
        if self.reads_stored_files() && self.user_id.is_none() {
            return Err(RunError::UserRequired);
        }
        self.search.iter().try_for_each(FileSearch::check)?;
        match self.thinking {
            Some(Thinking::Budget(tokens)) if !THINKING_BUDGET.contains(&tokens) => Err(RunError::refused(
                format!("`thinkingBudget` must be from 1024 to 100000, got {tokens}"),
            )),
            _ => Ok(()),
        }
    }
}

/// The command that a message names with its first word, as in `/review src`, and the rest of the message. Any other word
/// that begins with a slash is text.
pub(crate) fn named_command<'a>(message: &'a str, commands: &'a [String]) -> Option<(&'a str, &'a str)> {
    let named = message.trim_start().strip_prefix('/')?;
    let (name, rest) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
    let command = commands
        .iter()
        .find(|command| command.trim().eq_ignore_ascii_case(name))?;
    Some((command.trim(), rest.trim_start()))
}

/// A search in a user's files.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct FileSearch {
    /// The lowest score of a file that is attached, from 0 to 1.
    pub threshold: f64,
    /// The most files that are attached, up to 20.
    pub max_files: usize,
}

impl Default for FileSearch {
    fn default() -> Self {
        Self {
            threshold: 0.7,
            max_files: 3,
        }
    }
}

impl FileSearch {
    fn check(&self) -> Result<(), RunError> {
        if !(0.0..=1.0).contains(&self.threshold) {
            let got = self.threshold;
            return Err(RunError::refused(format!(
                "`semanticThreshold` must be from 0 to 1, got {got}"
            )));
        }
        if !(1..=20).contains(&self.max_files) {
            let got = self.max_files;
            return Err(RunError::refused(format!(
                "`maxSemanticFiles` must be from 1 to 20, got {got}"
            )));
        }
        Ok(())
    }
}

/// The user where there are no others: at a terminal, and on a server without tokens.
pub const LOCAL_USER: &str = "local";

/// Tokens that a client may allow for reasoning.
const THINKING_BUDGET: RangeInclusive<u32> = 1024..=100_000;

/// Longer ids are refused.
const MAX_ID: usize = 128;

/// The form of a session id, for errors.
pub(crate) const SESSION_ID_FORM: &str =
    "a session id has 1 to 128 letters, digits, `-`, `_`, `.` or `:`, and is not `.`, `..` or `last`";

/// The beginning of the stored ids of a user's sessions whose own ids another user has taken. No client can choose it.
pub fn own_id_prefix(user: &str) -> String {
    let digest = digest_json(&user.into());
    let digest = digest.trim_start_matches("sha256:");
    format!("{OWN}{}:", digest.get(..OWN_DIGEST).unwrap_or(digest))
}

/// Whether an id is, or looks like, one that [`own_id_prefix`] begins.
pub fn is_own_id(id: &str) -> bool {
    id.starts_with(OWN)
}

/// How ids begin that users have for themselves.
const OWN: &str = "own:";
/// The length of the digest of the user in them.
const OWN_DIGEST: usize = 16;

/// Ids appear in paths, headers and terminals.
pub(crate) fn is_id(id: &str) -> bool {
    let named = id
        .strip_prefix(OWN)
        .and_then(|rest| rest.get(OWN_DIGEST..)?.strip_prefix(':'));
    let id = named.unwrap_or(id);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    // Clients shorten paths with dots, and `last` names the latest session in commands.
    let is_taken = matches!(id, "." | ".." | "last");
    !id.is_empty() && id.len() <= MAX_ID && id.chars().all(fits) && !is_taken
}

/// How to handle a message while the conversation's last one is being answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrency {
    /// It is refused.
    #[default]
    Reject,
    /// It waits for its turn.
    Enqueue,
    /// It stops the answer in progress.
    Interrupt,
}

/// Why a message was not answered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was refused before anything was stored.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// Files belong to users, and the request names none.
    #[error("UserId required for file attachments")]
    UserRequired,
    /// An attached file does not exist, or belongs to another user.
    #[error("Access denied or file not found: {id}")]
    FileNotFound {
        /// The file's id.
        id: String,
    },
    /// A file can't be used.
    #[error(transparent)]
    File(FileError),
    /// It could not be stored, for instance because the conversation is busy.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too many messages wait for their turn.
    #[error("{waiting} messages wait already in session `{session_id}`")]
    QueueFull {
        /// The session.
        session_id: String,
        /// How many.
        waiting: usize,
    },
    /// The run began, and then its events could not be stored: it was stopped.
    #[error("run `{run_id}` was stopped: {error}")]
    Lost {
        /// The run.
        run_id: String,
        /// Why.
        error: StoreError,
    },
    /// The run ended without an answer.
    #[error("{}", .0.error.as_deref().unwrap_or("the run failed"))]
    Execution(Box<AgentExecutionResult>),
    /// The service is closing.
    #[error("the service is closing")]
    Closing,
}

impl RunError {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }
}

impl From<FileError> for RunError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotFound { id } => Self::FileNotFound { id },
            error => Self::File(error),
        }
    }
}

impl From<RecordError> for RunError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::NotOpened(error) => Self::Store(error),
            RecordError::Lost { run_id, error } => Self::Lost { run_id, error },
            other => Self::refused(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_outside_the_range_are_refused() {
        for (tokens, accepted) in [(1023, false), (1024, true), (100_000, true), (100_001, false)] {
            let request = RunRequest {
                thinking: Some(Thinking::Budget(tokens)),
                ..RunRequest::new("s", "go")
            };
            assert_eq!(request.check().is_ok(), accepted, "{tokens}");
        }
    }

    #[test]
    fn only_the_first_word_names_a_command_and_only_one_of_the_list() {
        let commands = ["review".to_owned(), " Plan ".to_owned()];
        for (message, named) in [
            ("/review look at src", Some(("review", "look at src"))),
            (" /REVIEW\n look", Some(("review", "look"))),
            ("/plan", Some(("Plan", ""))),
            ("/reviews x", None),
            ("/review/src", None),
            ("// review", None),
            ("/ review", None),
            ("please /review this", None),
            ("review", None),
            ("/etc/passwd is a file", None),
        ] {
            assert_eq!(named_command(message, &commands), named, "{message:?}");
        }
        assert_eq!(named_command("/review x", &[]), None);
    }

    #[test]
    fn ids_are_fit_for_paths_and_terminals() {
        for (id, accepted) in [
            ("a-1_b.c:d", true),
            ("", false),
            ("a b", false),
            ("../x", false),
            (".", false),
            ("..", false),
            ("...", true),
            ("last", false),
            ("lasting", true),
            ("\u{1b}[2J", false),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
        ] {
            assert_eq!(RunRequest::new(id, "go").check().is_ok(), accepted, "{id:?}");
        }
        assert!(RunRequest::new("s", " \n").check().is_err());
    }
}
