//! Stops a run from outside: what a signal asks for, and when work has to end.
//!
//! Must not decide what a stop means for a case; the dispatcher does.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Stops a run from outside. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunControl {
    stop: watch::Sender<Stop>,
}

/// The extent to which a run must stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// No further case is started; running ones finish and count.
    Drain,
    /// Running cases are stopped as well; they count as not run.
    Now,
    /// As [`Now`](Self::Now), and the run ends by this time: what has not closed by then is killed.
    By(Instant),
}

impl Default for RunControl {
    fn default() -> Self {
        Self::new()
    }
}

impl RunControl {
    /// A control without a request to stop.
    pub fn new() -> Self {
        Self {
            stop: watch::Sender::new(Stop::No),
        }
    }

    /// Requests a stop: after the first request running cases finish, after the second they are stopped.
    pub fn interrupt(&self) -> Stop {
        self.stop.send_modify(|stop| {
            *stop = match stop {
                Stop::No => Stop::Drain,
                Stop::Drain | Stop::Now => Stop::Now,
                Stop::By(_) => *stop,
            };
        });
        *self.stop.borrow()
    }

    /// Stops running cases and ends the run within `limit`, which includes the time for closing everything.
    pub fn terminate(&self, limit: Duration) {
        self.stop.send_if_modified(|stop| {
            let first = !matches!(stop, Stop::By(_));
            if first {
                *stop = Stop::By(Instant::now() + limit);
            }
            first
        });
    }

    /// Sees each request to stop.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Stop> {
        self.stop.subscribe()
    }

    /// The requested stop.
    pub(crate) fn requested(&self) -> Stop {
        *self.stop.borrow()
    }

    /// Waits until running cases must stop.
    pub async fn cancelled(&self) {
        let mut stop = self.stop.subscribe();
        // This control holds a sender, so the channel is open.
        let _ = stop.wait_for(|stop| *stop >= Stop::Now).await;
    }

    /// Waits for `work`; drops it when the deadline of a terminated run passes.
    pub async fn within<F: Future>(&self, work: F) -> Option<F::Output> {
        let deadline = async {
            let mut stop = self.stop.subscribe();
            let stop = stop.wait_for(|stop| matches!(stop, Stop::By(_))).await;
            let stop = stop.map(|stop| *stop);
            if let Ok(Stop::By(deadline)) = stop {
                sleep_until(deadline).await;
            }
        };
        tokio::select! {
            biased;
            output = work => Some(output),
            () = deadline => None,
        }
    }
}
