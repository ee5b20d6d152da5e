//! Starts a program with piped streams and guarantees that neither it nor its descendants outlive the owner of
//! [`ChildProcess`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::group::Group;
use crate::lookup::{has_folder, is_executable};
use crate::mark::{Mark, VARIABLE};
use crate::stderr::StderrTail;
use crate::watchdog::Watched;
use crate::{Exit, ProcessError, ProcessSpec, which};

/// A running program with piped stdin and stdout. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<StderrTail>,
    pid: u32,
    exit: Option<Exit>,
    watched: Option<Watched>,
}

impl ChildProcess {
    /// Starts the program. Of the spec's limits only `stderr_kept` applies; the others are those of `run`.
    pub fn spawn(spec: &ProcessSpec) -> Result<Self, ProcessError> {
        let program = find(spec)?;
        let mut watched = Watched::marked(Mark::new());
        #[expect(
            clippy::disallowed_methods,
            reason = "with the watchdog, the only place that spawns"
        )]
        let mut command = Command::new(&program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(spec.env.iter())
            .env(VARIABLE, watched.mark().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = &spec.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| spawn_error(program, error))?;
        let pid = child.id().unwrap_or_default();
        watched.add_group(pid);
        tracing::debug!(program = %spec.program.display(), pid, "started a program");
        Ok(Self {
            group: Group::led_by(pid),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child
                .stderr
                .take()
                .map(|stderr| StderrTail::of(stderr, spec.stderr_kept)),
            child,
            pid,
            exit: None,
            watched: Some(watched),
        })
    }

    /// The process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.pid
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

    /// Waits until the program exits, then kills the rest of its group. May be cancelled and called again.
    pub async fn wait(&mut self) -> Result<Exit, ProcessError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = Exit::from(self.child.wait().await.map_err(ProcessError::Io)?);
        self.finish();
        self.exit = Some(exit);
        tracing::debug!(pid = self.pid, %exit, "a program ended");
        Ok(exit)
    }

    /// Whether the program has exited, without waiting. The rest of its group is then killed.
    pub fn has_ended(&mut self) -> bool {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.finish();
            self.exit = Some(Exit::from(status));
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
        self.group.terminate();
        if let Ok(exit) = timeout(grace, self.wait()).await {
            return exit;
        }
        self.group.kill();
        self.wait().await
    }

    /// Kills the rest of the group.
    fn finish(&mut self) {
        self.group.finish();
        if let Some(watched) = self.watched.take() {
            watched.mark().kill();
        }
    }

    #[cfg(test)]
    pub(crate) fn mark(&self) -> Option<&Mark> {
        self.watched.as_ref().map(Watched::mark)
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
        // The runtime kills and reaps the leader; the rest of the group is handled here.
        self.finish();
    }
}

fn find(spec: &ProcessSpec) -> Result<PathBuf, ProcessError> {
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
fn spawn_error(program: PathBuf, source: io::Error) -> ProcessError {
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
