//! Limits on converting one file in a child process.

use std::time::Duration;

/// Limits on converting one file in a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertLimits {
    /// Time from start to end.
    pub time: Duration,
    /// Bytes of memory, as address space.
    pub memory: u64,
    /// Bytes of output.
    pub output: usize,
}

impl Default for ConvertLimits {
    /// A minute, 1 GiB, and 64 MiB of text.
    fn default() -> Self {
        Self {
            time: Duration::from_mins(1),
            memory: 1024 * 1024 * 1024,
            output: 64 * 1024 * 1024,
        }
    }
}
