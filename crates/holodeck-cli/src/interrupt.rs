//! Signals that ask the program to end. They are received on a thread of their own, so that one that blocks the main
//! thread (a slow disk, a pipe without a writer) cannot keep the program alive.

use std::{fs, io, process, thread, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::sleep,
};

use crate::failure::Problem;
use holodeck::runner::ExitCode;

/// How long a run takes at most to end after SIGTERM: closing children, indexes and telemetry.
pub(crate) const CLOSING: Duration = Duration::from_secs(4);

/// When the process ends after SIGTERM, whatever it is doing.
const TERMINATED: Duration = Duration::from_secs(5);

/// When the process ends after the third Ctrl-C, whatever it is doing.
const INSISTED: Duration = Duration::from_secs(1);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, SIGQUIT, or SIGHUP (a closed terminal).
    Terminate,
}

impl Ask {
    /// The end of a command that stopped because of it.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Self::Interrupt => Problem::new(ExitCode::Interrupted, "interrupted"),
            Self::Terminate => Problem::new(ExitCode::Terminated, "terminated"),
        }
    }
}

/// Receives the signals from its creation on.
pub(crate) struct Interrupts(mpsc::UnboundedReceiver<Ask>);

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::receive()?
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(signals.pass_on(&sender)))?;
        Ok(Self(receiver))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Ask {
        match self.0.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }

    /// One that has arrived, without waiting.
    pub(crate) fn arrived(&mut self) -> Option<Ask> {
        self.0.try_recv().ok()
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// `None` under `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    fn receive() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: (!ignores_hang_up())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    async fn next(&mut self) -> Ask {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Ask::Interrupt,
            _ = self.terminate.recv() => Ask::Terminate,
            _ = self.quit.recv() => Ask::Terminate,
            _ = hang_up => Ask::Terminate,
        }
    }

    async fn pass_on(mut self, to: &mpsc::UnboundedSender<Ask>) {
        let mut interrupts = 0;
        loop {
            let ask = self.next().await;
            // Without a receiver the command has ended, and the process is about to.
            let _ = to.send(ask);
            match ask {
                Ask::Terminate => end_after(TERMINATED, ExitCode::Terminated).await,
                Ask::Interrupt => interrupts += 1,
            }
            if interrupts == 3 {
                end_after(INSISTED, ExitCode::Interrupted).await;
            }
        }
    }
}

/// Children end too: the watchdog of `holodeck-process` notices.
#[expect(
    clippy::exit,
    reason = "the main thread did not end in time and may be blocked"
)]
async fn end_after(limit: Duration, code: ExitCode) {
    sleep(limit).await;
    process::exit(i32::from(code.code()));
}

/// Whether the program was started under `nohup`, as far as the system tells (Linux does).
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
