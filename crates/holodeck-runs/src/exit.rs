//! The exit codes of `holodeck test` and which of several takes precedence.

/// The exit codes of `holodeck test`. Where several apply, the one listed first here is returned: a certain failure
/// outranks an infrastructure error, which outranks an unusable metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitCode {
    /// Configuration or usage error.
    Config,
    /// Interrupted.
    Interrupted,
    /// Ended by SIGTERM, SIGHUP or SIGQUIT.
    Terminated,
    /// A budget stopped the run.
    Budget,
    /// A test failed.
    Failed,
    /// A backend, credential or environment error.
    Execution,
    /// A metric could not be evaluated though every test ran.
    Metric,
    /// Nothing was run, or nothing was checked.
    Nothing,
    /// Everything passed.
    Passed,
}

impl ExitCode {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Config => 2,
            Self::Execution => 3,
            Self::Metric => 4,
            Self::Nothing => 5,
            Self::Budget => 6,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// The code that takes precedence.
    pub fn worse(self, other: Self) -> Self {
        self.min(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranking_is_2_130_143_6_1_3_4_5_0() {
        let mut all = [
            ExitCode::Passed,
            ExitCode::Failed,
            ExitCode::Config,
            ExitCode::Execution,
            ExitCode::Metric,
            ExitCode::Nothing,
            ExitCode::Budget,
            ExitCode::Terminated,
            ExitCode::Interrupted,
        ];
        all.sort();
        assert_eq!(all.map(ExitCode::code), [2, 130, 143, 6, 1, 3, 4, 5, 0]);
        assert_eq!(
            ExitCode::Passed.worse(ExitCode::Metric).worse(ExitCode::Failed),
            ExitCode::Failed
        );
    }
}
