//! Runs a program to its end with bounded time and output.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{AtLimit, ChildProcess, Exit, ProcessError, ProcessSpec};

/// The output of a program that exited.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessOutput {
    /// The exit status.
    pub exit: Exit,
    /// Its output on stdout, up to the limit.
    pub stdout: Vec<u8>,
    /// How many bytes of stdout were dropped.
    pub dropped: u64,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// How long it ran.
    pub duration: Duration,
}

impl ProcessOutput {
    /// Makes an exit other than code 0 an error.
    pub fn check(self) -> Result<Self, ProcessError> {
        if self.exit.success() {
            return Ok(self);
        }
        Err(ProcessError::Exit {
            exit: self.exit,
            stderr: self.stderr,
        })
    }
}

/// How long pipes are read after the program and its group have ended. Only a descendant that left the group can still
/// hold them open.
const DRAIN: Duration = Duration::from_millis(250);

/// Runs a program to its end: writes stdin, reads stdout and stderr, and enforces the spec's limits. In every case, no
/// process of its group survives.
pub fn run<'a>(
    spec: &'a ProcessSpec,
    cancel: &'a CancellationToken,
) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, ProcessError>> + Send + 'a>> {
    Box::pin(run_unboxed(spec, cancel))
}

async fn run_unboxed(spec: &ProcessSpec, cancel: &CancellationToken) -> Result<ProcessOutput, ProcessError> {
    if cancel.is_cancelled() {
        return Err(ProcessError::Cancelled);
    }
    let started = Instant::now();
    let mut child = ChildProcess::spawn(spec)?;
    let mut stdout = Capture::of(child.take_stdout(), spec.stdout_limit);
    let end = attend(spec, cancel, &mut child, &mut stdout).await?;
    let exit = match end {
        End::Exited(exit) => exit,
        End::TimedOut | End::Overflowed | End::Cancelled => child.stop(spec.grace).await?,
    };
    child.settle_stderr(DRAIN).await;
    let stderr = child.stderr();
    match end {
        End::Exited(_) => Ok(ProcessOutput {
            exit,
            stdout: stdout.kept,
            dropped: stdout.dropped,
            stderr,
            duration: started.elapsed(),
        }),
        End::TimedOut => Err(ProcessError::TimedOut {
            after: spec.timeout.unwrap_or_default(),
            stderr,
        }),
        End::Overflowed => Err(ProcessError::OutputLimit {
            limit: spec.stdout_limit,
        }),
        End::Cancelled => Err(ProcessError::Cancelled),
    }
}

enum End {
    Exited(Exit),
    TimedOut,
    Overflowed,
    Cancelled,
}

/// Serves all pipes until the program has exited and stdout is read, or a limit is reached.
async fn attend(
    spec: &ProcessSpec,
    cancel: &CancellationToken,
    child: &mut ChildProcess,
    stdout: &mut Capture,
) -> Result<End, ProcessError> {
    let feeding = feed(child.take_stdin(), &spec.stdin);
    tokio::pin!(feeding);
    let mut fed = false;
    let mut deadline = spec.timeout.map(|timeout| Instant::now() + timeout);
    let mut exited = None;
    loop {
        if let (Some(exit), true) = (exited, stdout.ended()) {
            return Ok(End::Exited(exit));
        }
        tokio::select! {
            read = stdout.read(), if !stdout.ended() => {
                read?;
                if stdout.dropped > 0 && spec.at_limit == AtLimit::Stop {
                    return Ok(End::Overflowed);
                }
            }
            exit = child.wait(), if exited.is_none() => {
                exited = Some(exit?);
                deadline = Some(Instant::now() + DRAIN);
            }
            () = &mut feeding, if !fed => fed = true,
            () = until(deadline) => return Ok(exited.map_or(End::TimedOut, End::Exited)),
            () = cancel.cancelled(), if exited.is_none() => return Ok(End::Cancelled),
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes all input and closes the pipe. A program may exit without reading its input.
async fn feed(stdin: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(bytes).await
    {
        tracing::trace!(%error, "the program did not read all of its input");
    }
}

struct Capture {
    pipe: Option<ChildStdout>,
    chunk: Vec<u8>,
    kept: Vec<u8>,
    limit: usize,
    dropped: u64,
}

impl Capture {
    fn of(pipe: Option<ChildStdout>, limit: usize) -> Self {
        Self {
            pipe,
            chunk: Vec::with_capacity(16 * 1024),
            kept: Vec::new(),
            limit,
            dropped: 0,
        }
    }

    fn ended(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads once; cancel-safe.
    async fn read(&mut self) -> Result<(), ProcessError> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        self.chunk.clear();
        if pipe.read_buf(&mut self.chunk).await.map_err(ProcessError::Io)? == 0 {
            self.pipe = None;
        }
        let room = self.limit - self.kept.len();
        let (kept, dropped) = self.chunk.split_at(room.min(self.chunk.len()));
        self.kept.extend_from_slice(kept);
        self.dropped += dropped.len() as u64;
        Ok(())
    }
}
