use serde::{Deserialize, Serialize};

use crate::{ExitCode, Stop};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The way.
    #[serde(rename = "ended")]
    pub how: HowEnded,
    /// Why it ended before its plan did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The ways a run can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HowEnded {
    /// Every planned case has a result.
    Completed,
    /// By Ctrl-C.
    Interrupted,
    /// By SIGTERM, SIGHUP or SIGQUIT.
    Terminated,
    /// A budget is used up.
    Budget,
    /// A budget cannot be enforced.
    Unenforceable,
    /// A case did not pass and the run was to stop then, or nothing further can succeed.
    Stopped,
    /// Cases have no result, and this program did not stop them.
    Incomplete,
}

impl Ended {
    /// Every planned case has a result.
    pub(crate) fn completed() -> Self {
        Self {
            how: HowEnded::Completed,
            because: None,
        }
    }

    /// Before the plan did.
    pub(crate) fn early(how: HowEnded, because: impl Into<String>) -> Self {
        Self {
            how,
            because: Some(because.into()),
        }
    }

    /// By a signal.
    pub(crate) fn by(stop: Stop) -> Self {
        let how = match stop {
            Stop::By(_) => HowEnded::Terminated,
            Stop::No | Stop::Drain | Stop::Now => HowEnded::Interrupted,
        };
        Self::early(how, how.as_str())
    }

    /// The same end, given how many planned cases have no result: a run that was to stop and had nothing left to do is
    /// complete, and one that lost a case is not.
    pub(crate) fn with_missing(self, missing: usize) -> Self {
        match (self.how, missing) {
            (HowEnded::Interrupted | HowEnded::Terminated, _) => self,
            (_, 0) => Self::completed(),
            (HowEnded::Completed, _) => {
                Self::early(HowEnded::Incomplete, "the run ended without a result for it")
            }
            _ => self,
        }
    }

    /// What it means for the exit code of the run.
    pub(crate) fn exit(&self) -> ExitCode {
        match self.how {
            HowEnded::Completed | HowEnded::Stopped => ExitCode::Passed,
            HowEnded::Interrupted => ExitCode::Interrupted,
            HowEnded::Terminated => ExitCode::Terminated,
            HowEnded::Budget => ExitCode::Budget,
            HowEnded::Unenforceable | HowEnded::Incomplete => ExitCode::Execution,
        }
    }
}

impl HowEnded {
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
        }
    }
}
