//! Runs a server as a child process and ends it without orphans.

use std::time::Duration;

use futures::StreamExt as _;
use holodeck_model::io_reason;
use holodeck_process::{ChildProcess, ProcessError, ProcessSpec};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::codec::{AnyDelimiterCodec, FramedRead};
use tokio_util::task::AbortOnDropHandle;

use crate::client::ConnectError;
use crate::client::reader::{Frame, Reader};

/// How long a server may take to exit after its input is closed, and again after it is signalled.
const GRACE: Duration = Duration::from_secs(2);

/// How long to wait for the rest of an exited server's stderr.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// The longest message, as over HTTP.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Bytes of messages that wait to be taken.
const WAITING: usize = 64 * 1024;

/// A server that runs as a child process. Dropping it kills its process group.
pub(crate) struct Process {
    child: ChildProcess,
    _reading: AbortOnDropHandle<()>,
}

pub(crate) type StdioTransport = AsyncRwTransport<RoleClient, DuplexStream, ChildStdin>;

impl Process {
    pub(crate) fn start(spec: &ProcessSpec, reader: Reader) -> Result<(Self, StdioTransport), ConnectError> {
        let mut child = ChildProcess::spawn(spec).map_err(|error| ConnectError::Start(with_cause(&error)))?;
        let no_pipe = || ConnectError::Start("its pipes are missing".to_owned());
        let stdin = child.take_stdin().ok_or_else(no_pipe)?;
        let stdout = child.take_stdout().ok_or_else(no_pipe)?;
        let (messages, pipe) = tokio::io::duplex(WAITING);
        let reading = AbortOnDropHandle::new(tokio::spawn(pass_on(stdout, pipe, reader)));
        let process = Self {
            child,
            _reading: reading,
        };
        Ok((process, AsyncRwTransport::new_client(messages, stdin)))
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

/// Passes the messages of a server on in a form that can be read. Lines that are no messages, such as a log, are dropped; a broken one
/// that may be an answer is the error of who waits for it.
async fn pass_on(stdout: ChildStdout, mut to: DuplexStream, reader: Reader) {
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), MAX_LINE);
    let mut lines = FramedRead::new(stdout, codec);
    let mut was_too_long = false;
    loop {
        let line = match lines.next().await {
            Some(Ok(line)) => line,
            Some(Err(error)) => {
                tracing::error!(%error, "a message of an MCP server is too long and is dropped");
                was_too_long = true;
                let reason = format!("it is longer than {} MB", MAX_LINE / (1024 * 1024));
                if !send(&mut to, reader.lost(&reason)).await {
                    return;
                }
                continue;
            }
            // After an error the stream pauses once.
            None if std::mem::take(&mut was_too_long) => continue,
            None => return,
        };
        if !send(&mut to, reader.texts(&line, Frame::Line, None)).await {
            return;
        }
    }
}

/// Passes messages on; returns whether the connection still reads them.
async fn send(to: &mut DuplexStream, messages: Vec<String>) -> bool {
    for message in messages {
        let line = message + "\n";
        if to.write_all(line.as_bytes()).await.is_err() {
            return false;
        }
    }
    true
}

fn with_cause(error: &ProcessError) -> String {
    match error {
        ProcessError::Spawn { source, .. } | ProcessError::Io(source) => {
            format!("{error}: {}", io_reason(source))
        }
        _ => error.to_string(),
    }
}
