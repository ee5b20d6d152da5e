//! A child below a watchdog of its own, which outlives this process. Only a process that said what its watchdogs are
//! starts children like this.

mod started;
pub(crate) mod tree;
mod watch;
mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::mark::{Mark, VARIABLE};
use crate::{Exit, ProcessSpec};
use started::Started;
pub use started::wait_for_watchdogs;
pub use watch::watch;
use wire::{MESSAGE, Message, Request, TERMINATE};

/// How this process starts watchdogs.
#[derive(Debug)]
struct Setting {
    program: PathBuf,
    args: Vec<OsString>,
    /// Whether this process had no child when it began: then each one that it did not start came from a watchdog.
    is_alone: bool,
}

static SETTING: OnceLock<Setting> = OnceLock::new();

/// Makes this process start every further child below a watchdog: `program` with these arguments, which must do nothing
/// but call [`watch`]. It also adopts orphans from now on, for the case that a watchdog is killed. For programs, never for
/// libraries: the whole process is changed. Only the first call has an effect; without Linux's means, none has.
pub fn start_children_below(program: impl Into<PathBuf>, args: &[&str]) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let is_alone = waitid(WaitId::All, options).is_err_and(|error| error == Errno::CHILD);
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        tracing::warn!(%error, "a child that changes its environment and process group can outlive this program");
        return;
    }
    let _ = SETTING.set(Setting {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        is_alone,
    });
}

/// A program below a watchdog. Dropping it makes the watchdog end everything.
#[derive(Debug)]
pub(crate) struct Below {
    watchdog: Child,
    socket: UnixStream,
    /// The bytes that arrived of the last message.
    message: Vec<u8>,
    program: Pid,
    mark: Mark,
    started: Started,
    is_alone: bool,
    exit: Option<Exit>,
}

impl Below {
    /// Starts the program, if this process starts watchdogs.
    pub(crate) fn spawn(
        program: &Path,
        spec: &ProcessSpec,
        pipes: &[OwnedFd; 3],
    ) -> Option<io::Result<(Self, u32)>> {
        SETTING
            .get()
            .map(|setting| Self::start(setting, program, spec, pipes))
    }

    fn start(
        setting: &Setting,
        program: &Path,
        spec: &ProcessSpec,
        pipes: &[OwnedFd; 3],
    ) -> io::Result<(Self, u32)> {
        let mark = Mark::new();
        let mut env: Vec<_> = spec
            .env
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        env.push((VARIABLE.into(), mark.to_string().into()));
        let request = Request {
            program: std::path::absolute(program)?,
            args: spec.args.clone(),
            env,
            folder: match &spec.folder {
                Some(folder) => std::path::absolute(folder)?,
                None => std::env::current_dir()?,
            },
        };
        let (socket, theirs) = Socket::pair()?;
        let (watchdog, started) =
            Started::register(|| command(setting, theirs).spawn()).map_err(|error| not_watched(&error))?;
        let pid = match request.start(&socket, pipes) {
            Ok(Message::Started(pid)) => pid,
            Ok(Message::Failed(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(Message::Ended(_)) => return Err(io::ErrorKind::InvalidData.into()),
            Err(error) => {
                // The program may run nevertheless, if it was quick to kill its watchdog.
                end_what_a_killed_watchdog_left(&started, None, setting.is_alone, &mark);
                return Err(not_watched(&error));
            }
        };
        socket.set_nonblocking(true)?;
        let below = Self {
            watchdog,
            socket: UnixStream::from_std(socket)?,
            message: Vec::new(),
            program: Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?,
            mark,
            started,
            is_alone: setting.is_alone,
            exit: None,
        };
        Ok((below, pid.cast_unsigned()))
    }

    /// Waits until the program and everything below it has ended. May be cancelled and called again.
    pub(crate) async fn wait(&mut self) -> io::Result<Exit> {
        let exit = loop {
            if let Some(exit) = self.try_wait() {
                break exit;
            }
            self.socket.readable().await?;
        };
        self.watchdog.wait().await?;
        self.started.forget();
        Ok(exit)
    }

    pub(crate) fn try_wait(&mut self) -> Option<Exit> {
        while self.exit.is_none() {
            let mut rest = [0; MESSAGE];
            let rest = rest.get_mut(self.message.len()..)?;
            match self.socket.try_read(rest) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Ok(count @ 1..) => {
                    self.message.extend(rest.iter().take(count));
                    if let Ok(whole) = <[u8; MESSAGE]>::try_from(self.message.as_slice()) {
                        let exit = match Message::from_bytes(whole) {
                            Some(Message::Ended(exit)) => exit,
                            _ => self.lost(),
                        };
                        self.exit = Some(exit);
                    }
                }
                Ok(0) | Err(_) => self.exit = Some(self.lost()),
            }
        }
        self.exit
    }

    /// The process that ends after everything below it.
    pub(crate) fn last_to_end(&self) -> Option<u32> {
        self.watchdog.id()
    }

    /// Asks the program's process group to end.
    pub(crate) fn terminate(&self) {
        // If the watchdog is gone, the program is too.
        let _ = self.socket.try_write(&[TERMINATE]);
    }

    /// Has everything ended.
    pub(crate) fn kill(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    fn lost(&self) -> Exit {
        const KILLED: i32 = 9;
        end_what_a_killed_watchdog_left(&self.started, Some(self.program), self.is_alone, &self.mark);
        Exit::Signal(KILLED)
    }
}

/// A process killed the watchdog: this one adopts what was below it.
fn end_what_a_killed_watchdog_left(watchdog: &Started, program: Option<Pid>, is_alone: bool, mark: &Mark) {
    tracing::warn!("the watchdog of a program was killed");
    watchdog.end_adopted(program, is_alone);
    mark.kill();
}

/// Not an error of the program itself, although some look the same.
fn not_watched(error: &io::Error) -> io::Error {
    io::Error::other(format!("its watchdog does not work: {error}"))
}

/// It must not be killed when it is dropped: it has work to do then.
fn command(setting: &Setting, socket: Socket) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "with `Direct`, the only place that spawns"
    )]
    let mut command = StdCommand::new(&setting.program);
    command
        .arg0("holodeck")
        .args(&setting.args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Command::from(command)
}
