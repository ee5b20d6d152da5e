//! How and why a run ended, and its effect on the exit code.

use serde::{Deserialize, Serialize};

use crate::ExitCode;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The kind of end.
    #[serde(rename = "ended")]
    pub how: RunEndKind,
    /// Why it ended before the plan was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The ways a run can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEndKind {
    /// Every planned case has a result.
    Completed,
    /// Stopped by Ctrl-C.
    Interrupted,
    /// Stopped by SIGTERM, SIGHUP or SIGQUIT.
    Terminated,
    /// A budget is used up.
    Budget,
    /// A budget cannot be enforced.
    Unenforceable,
    /// A case did not pass and the run stops at the first failure, or no further case can succeed.
    Stopped,
    /// Cases have no result although this program did not stop them.
    Incomplete,
    /// Another program wrote to the journal while the run was live.
    Foreign,
}

impl RunEnd {
    /// Every planned case has a result.
    pub fn completed() -> Self {
        Self {
            how: RunEndKind::Completed,
            because: None,
        }
    }

    /// An end before the plan was completed.
    pub fn early(how: RunEndKind, because: impl Into<String>) -> Self {
        Self {
            how,
            because: Some(because.into()),
        }
    }

    /// The end of a run whose journal another program wrote to. A stop by a signal stays one.
    pub fn with_foreign_lines(self) -> Self {
        match self.how {
            RunEndKind::Interrupted | RunEndKind::Terminated => self,
            _ => Self::early(
                RunEndKind::Foreign,
                "another program wrote to the journal while the run was live",
            ),
        }
    }

    /// Adjusts the end to the number of planned cases without a result: a stopped run with nothing left to do is
    /// complete, and one that lost a case is not.
    pub fn with_missing(self, missing: usize) -> Self {
        match (self.how, missing) {
            (RunEndKind::Interrupted | RunEndKind::Terminated, _) => self,
            (_, 0) => Self::completed(),
            (RunEndKind::Completed, _) => Self::early(
                RunEndKind::Incomplete,
                "the run ended without a result for this case",
            ),
            _ => self,
        }
    }

    /// The exit code for this end.
    pub fn exit(&self) -> ExitCode {
        match self.how {
            RunEndKind::Completed | RunEndKind::Stopped => ExitCode::Passed,
            RunEndKind::Interrupted => ExitCode::Interrupted,
            RunEndKind::Terminated => ExitCode::Terminated,
            RunEndKind::Budget => ExitCode::Budget,
            RunEndKind::Unenforceable | RunEndKind::Incomplete | RunEndKind::Foreign => ExitCode::Execution,
        }
    }
}

impl RunEndKind {
    /// The word in journals and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::Budget => "budget",
            Self::Unenforceable => "unenforceable",
            Self::Stopped => "stopped",
            Self::Incomplete => "incomplete",
            Self::Foreign => "foreign",
        }
    }
}
