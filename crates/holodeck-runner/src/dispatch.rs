use std::{collections::HashMap, sync::Arc, time::Duration};

use holodeck_model::TestResult;
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, ExitCode, Journal, Plan, PlannedCase, RunError, RunEvent, RunSink,
    budget::Meter,
    execute::{CaseEnd, Executor, Hopeless, crashed},
};

/// Finished cases in a row without a connection to the endpoint after which no further case is started.
const UNREACHED: u32 = 3;

/// Stops a run from outside. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunControl {
    stop: watch::Sender<Stop>,
}

/// How far a run is asked to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// It goes on.
    #[default]
    No,
    /// No case is started; running ones finish and count.
    Drain,
    /// Running cases are stopped too; they count as not run.
    Now,
    /// As [`Now`](Self::Now), and the run ends by this time: what does not close until then is killed.
    By(Instant),
}

impl Default for RunControl {
    fn default() -> Self {
        Self::new()
    }
}

impl RunControl {
    /// A control of a run that goes on.
    pub fn new() -> Self {
        Self {
            stop: watch::Sender::new(Stop::No),
        }
    }

    /// Asks to stop: the first time running cases finish, the second time they don't.
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

    /// Stops running cases and ends the run within `limit`, which closing everything shares.
    pub fn terminate(&self, limit: Duration) {
        self.stop.send_if_modified(|stop| {
            let first = !matches!(stop, Stop::By(_));
            if first {
                *stop = Stop::By(Instant::now() + limit);
            }
            first
        });
    }

    /// Waits until running cases are to be stopped.
    pub async fn cancelled(&self) {
        let mut stop = self.stop.subscribe();
        // This control holds a sender, so the channel is open.
        let _ = stop.wait_for(|stop| *stop >= Stop::Now).await;
    }

    /// Waits for `work`; a run that is terminated drops it when its time is over.
    pub async fn within<F: Future>(&self, work: F) -> Option<F::Output> {
        let over = async {
            let mut stop = self.stop.subscribe();
            let asked = stop.wait_for(|stop| matches!(stop, Stop::By(_))).await;
            let asked = asked.map(|stop| *stop);
            if let Ok(Stop::By(deadline)) = asked {
                sleep_until(deadline).await;
            }
        };
        tokio::select! {
            biased;
            output = work => Some(output),
            () = over => None,
        }
    }
}

/// What a failed case means for the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing.
    #[default]
    Continue,
    /// No further case is started.
    Stop,
}

/// Why a run ended before its plan did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Interrupted,
    Terminated,
    Budget,
    /// A case failed and that was to be the end, or nothing further can succeed.
    Stopped,
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Ended {
    fn by(stop: Stop) -> Self {
        match stop {
            Stop::By(_) => Self::Terminated,
            Stop::No | Stop::Drain | Stop::Now => Self::Interrupted,
        }
    }

    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::Budget => "budget",
            Self::Stopped => "stopped",
        }
    }
}

/// Owns every decision of a run: what starts, what is written down, when it ends.
pub(crate) struct Dispatcher<'a> {
    pub(crate) executor: Arc<Executor>,
    pub(crate) journal: &'a mut Journal,
    pub(crate) sink: &'a mut dyn RunSink,
    pub(crate) notices: mpsc::UnboundedReceiver<String>,
    pub(crate) concurrency: usize,
    pub(crate) on_failure: OnFailure,
    pub(crate) budget: Budget,
}

impl Dispatcher<'_> {
    pub(crate) async fn run(mut self, plan: Plan, control: &RunControl) -> Result<Ended, RunError> {
        let mut meter = Meter::new(self.budget);
        let mut ended = Ended::Completed;
        for result in self.journal.results() {
            if meter.add(&result?).is_some() {
                ended = Ended::Budget;
            }
        }
        let mut stop = control.stop.subscribe();
        let cancel = CancellationToken::new();
        // Dropping this future must stop every case: JoinSet aborts its tasks, the guard tells their tools.
        let _stop_all = cancel.clone().drop_guard();
        // Places alone: the labels of many cases would be felt.
        let places = plan.cases.iter().map(|case| case.index);
        let waiting: Vec<usize> = places.filter(|&index| !self.journal.is_finished(index)).collect();
        drop(plan);
        let mut waiting = waiting.into_iter();
        let mut tasks = JoinSet::new();
        let mut running: HashMap<Id, PlannedCase> = HashMap::new();
        let mut unreached = 0;
        let mut abort_at = None;
        let asked = *stop.borrow_and_update();
        if asked != Stop::No {
            ended = Ended::by(asked);
        }
        loop {
            while ended == Ended::Completed && tasks.len() < self.concurrency {
                let Some(index) = waiting.next() else { break };
                let Some(case) = PlannedCase::of(&self.executor.agent.config.test_cases, index) else {
                    continue;
                };
                self.sink.on(&RunEvent::CaseStarted {
                    index: case.index,
                    label: case.label.clone(),
                });
                let executor = Arc::clone(&self.executor);
                let token = cancel.child_token();
                let planned = case.clone();
                let id = tasks
                    .spawn(async move { executor.run(&planned, token).await })
                    .id();
                running.insert(id, case);
            }
            if tasks.is_empty() {
                while let Ok(message) = self.notices.try_recv() {
                    self.sink.on(&RunEvent::Notice { message });
                }
                return Ok(ended);
            }
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => {
                    let asked = *stop.borrow_and_update();
                    if asked >= Stop::Now {
                        cancel.cancel();
                    }
                    if let Stop::By(deadline) = asked {
                        // The other half is for closing what cases used.
                        let left = deadline.saturating_duration_since(Instant::now());
                        abort_at = Some(Instant::now() + left / 2);
                    }
                    let first = ended == Ended::Completed || ended == Ended::Stopped;
                    ended = Ended::by(asked);
                    if first || ended == Ended::Terminated {
                        self.drain(ended.as_str(), tasks.len());
                    }
                }
                () = until(abort_at), if abort_at.is_some() => {
                    abort_at = None;
                    tasks.abort_all();
                }
                Some(message) = self.notices.recv() => self.sink.on(&RunEvent::Notice { message }),
                Some(joined) = tasks.join_next_with_id() => {
                    let Some((result, hopeless)) = self.settle(joined, &mut running) else { continue };
                    let verdict = ExitCode::of_case(&result);
                    self.journal.record(&result)?;
                    let over_budget = meter.add(&result);
                    self.sink.on(&RunEvent::CaseFinished {
                        finished: self.journal.finished(),
                        result: Arc::new(result),
                    });
                    unreached = match hopeless {
                        Some(Hopeless::Unreached(_)) => unreached + 1,
                        _ => 0,
                    };
                    if ended != Ended::Completed {
                        continue;
                    }
                    if let Some(Hopeless::Credentials(reason)) = hopeless {
                        // Nothing else can be answered: what runs is stopped and stays to be run.
                        cancel.cancel();
                        self.drain(&reason, tasks.len());
                        ended = Ended::Stopped;
                    } else if let Some(Hopeless::Unreached(reason)) = hopeless && unreached >= UNREACHED {
                        self.drain(&reason, tasks.len());
                        ended = Ended::Stopped;
                    } else if let Some(reason) = over_budget {
                        self.drain(&reason, tasks.len());
                        ended = Ended::Budget;
                    } else if self.on_failure == OnFailure::Stop && verdict.is_some() {
                        self.drain("a case did not pass", tasks.len());
                        ended = Ended::Stopped;
                    }
                }
            }
        }
    }

    fn drain(&mut self, reason: &str, running: usize) {
        self.sink.on(&RunEvent::Draining {
            reason: reason.to_owned(),
            running,
        });
    }

    /// The result of a task that ended; `None` for a case that was stopped.
    fn settle(
        &self,
        joined: Result<(Id, CaseEnd), JoinError>,
        running: &mut HashMap<Id, PlannedCase>,
    ) -> Option<(TestResult, Option<Hopeless>)> {
        match joined {
            Ok((id, end)) => {
                running.remove(&id);
                match end {
                    CaseEnd::Finished { result, hopeless } => Some((*result, hopeless)),
                    CaseEnd::Stopped => None,
                }
            }
            Err(error) => {
                let planned = running.remove(&error.id())?;
                let case = self.executor.agent.config.test_cases.get(planned.index)?;
                let what = match error.try_into_panic() {
                    Ok(panic) => panic
                        .downcast_ref::<String>()
                        .map(String::as_str)
                        .or_else(|| panic.downcast_ref::<&str>().copied())
                        .unwrap_or("a task panicked")
                        .to_owned(),
                    Err(_) => return None,
                };
                Some((crashed(&planned, case, &what), None))
            }
        }
    }
}
