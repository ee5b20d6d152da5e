//! Runs a server as a child process and ends it without orphans.

use std::time::Duration;

use holodeck_model::io_reason;
use holodeck_process::{ChildProcess, ProcessError, ProcessSpec};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::process::{ChildStdin, ChildStdout};

use crate::client::ConnectError;

/// How long a server may take to exit after its input is closed, and again after it is signalled.
const GRACE: Duration = Duration::from_secs(2);

/// How long to wait for the rest of an exited server's stderr.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A server that runs as a child process. Dropping it kills its process group.
pub(crate) struct Process {
    child: ChildProcess,
}

pub(crate) type StdioTransport = AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>;

impl Process {
    pub(crate) fn start(spec: &ProcessSpec) -> Result<(Self, StdioTransport), ConnectError> {
        let mut child = ChildProcess::spawn(spec).map_err(|error| ConnectError::Start(with_cause(&error)))?;
        let no_pipe = || ConnectError::Start("its pipes are missing".to_owned());
        let stdin = child.take_stdin().ok_or_else(no_pipe)?;
        let stdout = child.take_stdout().ok_or_else(no_pipe)?;
        Ok((Self { child }, AsyncRwTransport::new_client(stdout, stdin)))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it wrote to stderr.
    pub(crate) fn words(&self) -> String {
        self.child.stderr()
    }

    /// How it exited, if it has, and the end of its stderr.
    pub(crate) async fn last_words(&mut self) -> (Option<String>, String) {
        let exit = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        self.child.settle_stderr(LAST_WORDS).await;
        let exit = exit.ok().and_then(Result::ok).map(|exit| exit.to_string());
        (exit, self.child.stderr())
    }

    /// Ends it; its input has been closed.
    pub(crate) async fn close(self) {
        if let Err(error) = self.child.close(GRACE).await {
            tracing::debug!(%error, "waiting for the exit of an MCP server failed");
        }
    }
}

fn with_cause(error: &ProcessError) -> String {
    match error {
        ProcessError::Spawn { source, .. } | ProcessError::Io(source) => {
            format!("{error}: {}", io_reason(source))
        }
        _ => error.to_string(),
    }
}
