//! Says how a command ended and whether it succeeded. It must never decide that: the facade does.

/// How a command ended. Its exit code, and in its result `success`, `status` and `errors`, all follow from this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers map each to an exit code")]
pub enum Verdict {
    /// It was executed; its loop, if there was one, met the threshold.
    #[default]
    Done,
    /// Its loop ended below the threshold.
    BelowThreshold,
    /// Its answer could not be scored, and nothing else answered.
    Unscored,
    /// It was executed and did not leave behind what it must.
    MissingEvidence,
    /// It failed.
    Failed(FailureClass),
    /// Another executor would have repeated side effects.
    Blocked,
    /// The caller stopped it.
    Cancelled,
}

impl Verdict {
    /// Whether the command did what it was asked for.
    pub fn is_success(self) -> bool {
        self == Self::Done
    }
}

/// The class of a failure that ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers map each to an exit code")]
pub enum FailureClass {
    /// It ran, and the answer is no.
    Failed,
    /// It could not be run: a program, credential or endpoint is missing, or something crashed.
    Broken,
    /// The caller stopped it.
    Cancelled,
}
