use std::time::Duration;

use holodeck_process::{ChildProcess, ProcessSpec};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::process::{ChildStdin, ChildStdout};

use crate::client::ConnectError;

/// How long a server is given to end after its input was closed, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a dead server's words is waited for.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A server that is a child of ours. Dropping it kills its process group.
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

    /// How it ended, if it has, and its last words.
    pub(crate) async fn last_words(&mut self) -> (Option<String>, String) {
        let exit = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        self.child.settle_stderr(LAST_WORDS).await;
        let exit = exit.ok().and_then(Result::ok).map(|exit| exit.to_string());
        (exit, self.child.stderr())
    }

    /// Ends it; its input has been closed.
    pub(crate) async fn close(self) {
        if let Err(error) = self.child.close(GRACE).await {
            tracing::debug!(%error, "an MCP server could not be waited for");
        }
    }
}

fn with_cause(error: &holodeck_process::ProcessError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
