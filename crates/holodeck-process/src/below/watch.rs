//! The watchdog: a process between the product and one program. It starts the program, adopts what the program leaves
//! behind, outlives the product, and ends everything below itself when the program ends or the product does. It ends and
//! waits for nothing else.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait, waitid,
};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Exit;
use crate::below::tree::{self, Round};
use crate::below::wire::{Message, TERMINATE, receive};
use crate::group::Group;
use crate::stat::Stat;

/// How often nothing may be found although the system reports a child.
const BLIND_ROUNDS: usize = 500;

/// Is the watchdog of one program: the process that [`start_children_below`](crate::start_children_below) names does
/// nothing else. Its stdin is the socket to the process that started it.
pub fn watch() -> ExitCode {
    // The socket closes, and the other side sees that.
    match watch_one() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn watch_one() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let signals = Signals::receive()?;
    drop(inside);
    let Some(program) = Program::start(&socket)? else {
        return Ok(());
    };
    runtime.block_on(attend(socket, program, signals))
}

/// Serves until the program or the product has ended, and then ends everything.
async fn attend(socket: UnixStream, mut program: Program, mut signals: Signals) -> io::Result<()> {
    let answers = socket.try_clone()?;
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;
    loop {
        program.collect();
        if program.exit.is_some() {
            break;
        }
        tokio::select! {
            _ = signals.child.recv() => {}
            request = socket.read_u8() => match request {
                Ok(TERMINATE) => program.group.terminate(),
                Ok(_) => {}
                // The product has ended, or has dropped the program.
                Err(_) => break,
            }
        }
    }
    program.end();
    answers.set_nonblocking(false)?;
    if let Some(exit) = program.exit {
        (&answers).write_all(&Message::Ended(exit).to_bytes())?;
    }
    Ok(())
}

/// The program, and what it leaves behind.
struct Program {
    pid: Pid,
    group: Group,
    exit: Option<Exit>,
}

impl Program {
    /// Starts what is requested, and reports it; `None` if nothing is or it can't be started.
    fn start(mut socket: &UnixStream) -> io::Result<Option<Self>> {
        let Some((request, pipes)) = receive(socket)? else {
            return Ok(None);
        };
        let [stdin, stdout, stderr] = pipes.map(Stdio::from);
        #[expect(
            clippy::disallowed_methods,
            reason = "with `ChildProcess`, the only place that spawns"
        )]
        let mut command = Command::new(&request.program);
        command
            .args(&request.args)
            .env_clear()
            .envs(request.env)
            .current_dir(&request.folder)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        let started = command.spawn();
        let message = match &started {
            Ok(child) => Message::Started(child.id().cast_signed()),
            Err(error) => Message::Failed(error.raw_os_error().unwrap_or_default()),
        };
        // If this can't be delivered, the socket is closed, and that ends the program.
        let _ = socket.write_all(&message.to_bytes());
        Ok(started.ok().and_then(|child| {
            Some(Self {
                pid: Pid::from_raw(child.id().cast_signed())?,
                group: Group::led_by(child.id()),
                exit: None,
            })
        }))
    }

    /// Collects what has ended, without waiting, and whether any child is left. All children are below the program: this
    /// process had none before, and no other process can collect them.
    fn collect(&mut self) -> bool {
        if self.exit.is_none() && self.has_ended() {
            // Its number is still its own.
            self.group.finish();
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    self.exit = exit(status);
                    self.group.forget();
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Ends everything below this process. The system knows when that is done: a process whose parent ends gets this one
    /// as its parent, so without a child there is no descendant.
    fn end(&mut self) {
        // At once, so that a program that starts more and more processes does not win.
        self.group.kill();
        let own = getpid();
        let mut blind = 0;
        while self.collect() {
            let found = tree::below(&Stat::all(), tree::is_child_of(own));
            match tree::end(&found) {
                Round::Ended => blind = 0,
                Round::Unable => return,
                Round::Empty => {
                    blind += 1;
                    if blind > BLIND_ROUNDS {
                        return;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

fn exit(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// The signals that arrive while this exists are not obeyed: this process ends when the one that started it does. Unlike
/// an ignored signal, this is not inherited by the program.
struct Signals {
    child: Signal,
    _ignored: Vec<Signal>,
}

impl Signals {
    fn receive() -> io::Result<Self> {
        let ignored = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::alarm(),
        ];
        Ok(Self {
            child: signal(SignalKind::child())?,
            _ignored: ignored.into_iter().map(signal).collect::<Result<_, _>>()?,
        })
    }
}
