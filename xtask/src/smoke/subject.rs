//! The Claude CLI that a scenario looks at.

use std::path::PathBuf;
use std::time::Duration;

/// No message within this time is a failure of the gate, not a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The binary and server of a scenario.
#[derive(Clone)]
pub(super) struct Subject {
    /// Its name in the table.
    pub(super) title: String,
    pub(super) cli: PathBuf,
    /// The package of the MCP server that is not ours.
    pub(super) mcp: PathBuf,
    /// How long a message is waited for.
    pub(super) patience: Duration,
}

impl Subject {
    pub(super) fn new(title: &str, cli: PathBuf, mcp: PathBuf) -> Self {
        Self {
            title: title.to_owned(),
            cli,
            mcp,
            patience: PATIENCE,
        }
    }
}
