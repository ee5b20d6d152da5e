use std::{collections::HashMap, sync::Arc};

use holodeck_model::TestResult;
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, ExitCode, Journal, Plan, PlannedCase, RunError, RunEvent, RunSink,
    budget::Meter,
    execute::{CaseEnd, Executor, crashed},
};

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
            };
        });
        *self.stop.borrow()
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
    Budget,
    /// A case failed and that was to be the end, or nothing further can succeed.
    Stopped,
}

impl Ended {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
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
                    if asked == Stop::Now {
                        cancel.cancel();
                    }
                    if ended == Ended::Completed || ended == Ended::Stopped {
                        self.drain("interrupted", tasks.len());
                    }
                    ended = Ended::Interrupted;
                }
                Some(message) = self.notices.recv() => self.sink.on(&RunEvent::Notice { message }),
                Some(joined) = tasks.join_next_with_id() => {
                    let Some((result, fatal)) = self.settle(joined, &mut running) else { continue };
                    let verdict = ExitCode::of_case(&result);
                    self.journal.record(&result)?;
                    let over_budget = meter.add(&result);
                    self.sink.on(&RunEvent::CaseFinished {
                        finished: self.journal.finished(),
                        result: Arc::new(result),
                    });
                    if ended != Ended::Completed {
                        continue;
                    }
                    if let Some(reason) = fatal {
                        // Nothing else can be answered: what runs is stopped and stays to be run.
                        cancel.cancel();
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
    ) -> Option<(TestResult, Option<String>)> {
        match joined {
            Ok((id, end)) => {
                running.remove(&id);
                match end {
                    CaseEnd::Finished { result, fatal } => Some((*result, fatal)),
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
