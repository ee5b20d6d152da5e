//! Signals that stop the program. A separate thread receives them, so that a blocked main thread (a slow disk, a pipe
//! without a writer) cannot keep the program alive.

use std::{
    fs, io, process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{failure::Problem, terminal::restore_mode};
use holodeck::runs::ExitCode;

/// Time limit for a run to end after SIGTERM: closing children, indexes and telemetry.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(4);

/// The process exits this long after SIGTERM in any case.
const TERMINATE_LIMIT: Duration = Duration::from_secs(5);

/// The process exits this long after the third Ctrl-C in any case.
const THIRD_INTERRUPT_LIMIT: Duration = Duration::from_secs(1);

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, SIGQUIT, or SIGHUP (a closed terminal).
    Terminate,
}

impl StopRequest {
    /// The problem of a command that stopped because of the signal.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Self::Interrupt => Problem::new(ExitCode::Interrupted, "interrupted"),
            Self::Terminate => Problem::new(ExitCode::Terminated, "terminated"),
        }
    }
}

/// Receives signals from its creation on.
pub(crate) struct Interrupts {
    requests: mpsc::UnboundedReceiver<StopRequest>,
    /// How often Ctrl-C was pressed.
    pressed: Arc<AtomicUsize>,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_with(TerminateLimits {
            first: TERMINATE_LIMIT,
            again: TERMINATE_LIMIT,
        })
    }

    /// As [`listen`](Self::listen), with other time limits.
    pub(crate) fn listen_with(limits: TerminateLimits) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = {
            let _inside = runtime.enter();
            Signals::receive()?
        };
        let (sender, requests) = mpsc::unbounded_channel();
        let pressed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pressed);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(signals.pass_on(&sender, &counted, limits)))?;
        Ok(Self { requests, pressed })
    }

    /// Forgets how often Ctrl-C was pressed: what it stopped is over.
    pub(crate) fn forget(&self) {
        self.pressed.store(0, Ordering::Relaxed);
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> StopRequest {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// A signal that has already arrived, without waiting.
    pub(crate) fn try_next(&mut self) -> Option<StopRequest> {
        self.requests.try_recv().ok()
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

    async fn next(&mut self) -> StopRequest {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => StopRequest::Interrupt,
            _ = self.terminate.recv() => StopRequest::Terminate,
            _ = self.quit.recv() => StopRequest::Terminate,
            _ = hang_up => StopRequest::Terminate,
        }
    }

    async fn pass_on(
        mut self,
        to: &mpsc::UnboundedSender<StopRequest>,
        pressed: &AtomicUsize,
        limits: TerminateLimits,
    ) {
        let mut end: Option<End> = None;
        let mut is_first = true;
        loop {
            // Signals are passed on until the end: a second one stops what the first one lets finish.
            let request = tokio::select! {
                request = self.next() => request,
                () = reached(end) => return end_process(end),
            };
            // Without a receiver the command has ended, and the process is about to exit.
            let _ = to.send(request);
            let next = match request {
                StopRequest::Terminate if is_first => End::after(limits.first, ExitCode::Terminated),
                StopRequest::Terminate => End::after(limits.again, ExitCode::Terminated),
                StopRequest::Interrupt if pressed.fetch_add(1, Ordering::Relaxed) >= 2 => {
                    End::after(THIRD_INTERRUPT_LIMIT, ExitCode::Interrupted)
                }
                StopRequest::Interrupt => None,
            };
            is_first = false;
            end = end.into_iter().chain(next).min_by_key(|end| end.at);
        }
    }
}

/// How long after SIGTERM the process exits in any case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminateLimits {
    /// If it is the first signal.
    pub(crate) first: Duration,
    /// If another signal came before.
    pub(crate) again: Duration,
}

/// When the process exits in any case, and its exit code then.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    code: ExitCode,
}

impl End {
    /// `None` after the end of time.
    fn after(limit: Duration, code: ExitCode) -> Option<Self> {
        let at = Instant::now().checked_add(limit)?;
        Some(Self { at, code })
    }
}

async fn reached(end: Option<End>) {
    match end {
        Some(end) => sleep_until(end.at).await,
        None => std::future::pending().await,
    }
}

/// Exits the process. Its children end too, through the watchdog of `holodeck-process`.
#[expect(
    clippy::exit,
    reason = "the main thread did not end in time and may be blocked"
)]
fn end_process(end: Option<End>) {
    restore_mode();
    process::exit(end.map_or(1, |end| i32::from(end.code.code())));
}

/// Whether the program was started under `nohup`; only Linux reports it.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
