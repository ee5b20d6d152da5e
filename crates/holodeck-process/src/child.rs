//! Starts a program with piped streams and guarantees that neither it nor its descendants outlive the owner of
//! [`ChildProcess`].

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::below::Below;
use crate::direct::Direct;
use crate::kept::Kept;
use crate::lookup::{has_folder, is_executable};
#[cfg(test)]
use crate::mark::Mark;
use crate::stderr::StderrTail;
use crate::{Exit, ProcessError, ProcessSpec, which};

/// A running program with piped stdin and stdout. Dropping it ends the program and all that it started.
#[derive(Debug)]
pub struct ChildProcess {
    running: Running,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<StderrTail>,
    pid: u32,
    exit: Option<Exit>,
    kept: Kept,
}

/// Who the program's parent is.
#[derive(Debug)]
enum Running {
    Below(Box<Below>),
    Direct(Box<Direct>),
}

impl ChildProcess {
    /// Starts the program. Of the spec's limits only `stderr_kept` applies; the others are those of `run`.
    pub fn spawn(spec: &ProcessSpec) -> Result<Self, ProcessError> {
        let program = find(spec)?;
        let (ours, theirs) = pipes().map_err(ProcessError::Io)?;
        let started = match Below::spawn(&program, spec, &theirs) {
            Some(started) => started.map(|(below, pid)| (Running::Below(Box::new(below)), pid)),
            None => Direct::spawn(&program, spec, theirs)
                .map(|(direct, pid)| (Running::Direct(Box::new(direct)), pid)),
        };
        let (running, pid) = started.map_err(|error| spawn_error(program, error))?;
        tracing::debug!(program = %spec.program.display(), pid, "started a program");
        let [stdin, stdout, stderr] = ours;
        let stdin = ChildStdin::from_std(stdin.into()).map_err(ProcessError::Io)?;
        let stdout = ChildStdout::from_std(stdout.into()).map_err(ProcessError::Io)?;
        let stderr = ChildStderr::from_std(stderr.into()).map_err(ProcessError::Io)?;
        Ok(Self {
            running,
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(StderrTail::of(stderr, spec.stderr_kept)),
            pid,
            exit: None,
            kept: Kept::default(),
        })
    }

    /// The process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Keeps a value until the program has ended and everything below its watchdog, also when this is dropped before: what
    /// both of them use, such as a folder that is deleted afterwards.
    pub fn keep(&mut self, value: impl Send + 'static) {
        self.kept.add(value);
    }

    /// Takes the pipe to its stdin; dropping that closes it.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the pipe from its stdout.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The end of its stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.as_ref().map(StderrTail::text).unwrap_or_default()
    }

    /// Waits until the program exits, then ends what it left behind. May be cancelled and called again.
    pub async fn wait(&mut self) -> Result<Exit, ProcessError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = match &mut self.running {
            Running::Below(below) => below.wait().await,
            Running::Direct(direct) => direct.wait().await,
        };
        let exit = exit.map_err(ProcessError::Io)?;
        self.exit = Some(exit);
        tracing::debug!(pid = self.pid, %exit, "a program ended");
        Ok(exit)
    }

    /// Whether the program has exited, without waiting. What it left behind is then ended.
    pub fn has_ended(&mut self) -> bool {
        if self.exit.is_none() {
            self.exit = match &mut self.running {
                Running::Below(below) => below.try_wait(),
                Running::Direct(direct) => direct.try_wait(),
            };
        }
        self.exit.is_some()
    }

    /// Ends the program gracefully: closes stdin (if not taken), then SIGTERM, then SIGKILL to the group, each after
    /// waiting for `grace`; and reaps it.
    pub async fn close(mut self, grace: Duration) -> Result<Exit, ProcessError> {
        drop(self.stdin.take());
        if let Ok(exit) = timeout(grace, self.wait()).await {
            return exit;
        }
        self.stop(grace).await
    }

    /// Ends the program: SIGTERM, then after `grace` SIGKILL to the group; and reaps it.
    pub async fn stop(&mut self, grace: Duration) -> Result<Exit, ProcessError> {
        match &self.running {
            Running::Below(below) => below.terminate(),
            Running::Direct(direct) => direct.terminate(),
        }
        if let Ok(exit) = timeout(grace, self.wait()).await {
            return exit;
        }
        match &self.running {
            Running::Below(below) => below.kill(),
            Running::Direct(direct) => direct.kill(),
        }
        self.wait().await
    }

    #[cfg(test)]
    pub(crate) fn mark(&self) -> Option<&Mark> {
        match &self.running {
            Running::Below(_) => None,
            Running::Direct(direct) => direct.mark(),
        }
    }

    /// Waits until all of stderr was read, at most `patience`.
    pub async fn settle_stderr(&mut self, patience: Duration) {
        if let Some(stderr) = &mut self.stderr {
            stderr.settle(patience).await;
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.exit.is_some() || self.kept.is_empty() {
            return;
        }
        let last = match &self.running {
            Running::Below(below) => {
                below.kill();
                below.last_to_end()
            }
            Running::Direct(direct) => {
                direct.kill();
                Some(self.pid)
            }
        };
        self.kept.drop_at_end(last);
    }
}

/// This process's ends and the program's ends of stdin, stdout and stderr.
fn pipes() -> io::Result<([OwnedFd; 3], [OwnedFd; 3])> {
    let (stdin, input) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    let (errors, stderr) = io::pipe()?;
    Ok((
        [input.into(), output.into(), errors.into()],
        [stdin.into(), stdout.into(), stderr.into()],
    ))
}

pub(crate) fn find(spec: &ProcessSpec) -> Result<PathBuf, ProcessError> {
    if let Some(folder) = &spec.folder
        && !folder.is_dir()
    {
        return Err(ProcessError::WorkingDirectory { path: folder.clone() });
    }
    let program = &spec.program;
    if !has_folder(program) {
        return which(program, spec.env.get("PATH")).ok_or_else(|| ProcessError::NotFound {
            program: program.clone(),
        });
    }
    // A relative program is relative to its working directory.
    let path = match &spec.folder {
        Some(folder) => absolute(folder)?.join(program),
        None => program.clone(),
    };
    if !path.exists() {
        return Err(ProcessError::NotFound { program: path });
    }
    if !is_executable(&path) {
        let reason = if path.is_dir() {
            "it is a folder"
        } else {
            "permission denied"
        };
        return Err(ProcessError::NotExecutable {
            program: path,
            reason,
        });
    }
    Ok(path)
}

fn absolute(folder: &Path) -> Result<PathBuf, ProcessError> {
    std::path::absolute(folder).map_err(ProcessError::Io)
}

/// The program existed before spawning, so "not found" refers to its interpreter.
pub(crate) fn spawn_error(program: PathBuf, source: io::Error) -> ProcessError {
    let reason = match source.kind() {
        io::ErrorKind::NotFound => "its interpreter is missing",
        io::ErrorKind::PermissionDenied => "permission denied",
        // ENOEXEC has no kind of its own.
        _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "it is neither a binary for this machine nor a script that names its interpreter"
        }
        _ => return ProcessError::Spawn { program, source },
    };
    ProcessError::NotExecutable { program, reason }
}
