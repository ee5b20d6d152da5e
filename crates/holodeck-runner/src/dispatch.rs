use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use holodeck_model::{CaseIdentity, CaseState};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, Journal, RunError, RunEvent, RunSink,
    budget::Meter,
    ended::{Ended, HowEnded},
    execute::{CaseEnd, Executor, Hopeless},
    plan::label,
    project::project,
    record::{Grade, UnitRecord},
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
    /// Not at all.
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
    /// A control of a run that is not asked to stop.
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

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
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

/// Owns every decision of a run: what starts, what is graded, what is written down, when it ends.
///
/// A case passes two stages. When it has run, its record is written, and nothing can lose the answer any more; then it
/// is graded. The queue between them holds places in the plan only: a record that has to wait is read again.
pub(crate) struct Dispatcher<'a> {
    pub(crate) executor: Arc<Executor>,
    pub(crate) journal: &'a mut Journal,
    pub(crate) sink: &'a mut dyn RunSink,
    pub(crate) notices: mpsc::UnboundedReceiver<String>,
    /// Where each planned case is in the file.
    pub(crate) indices: &'a [usize],
    pub(crate) concurrency: usize,
    pub(crate) on_failure: OnFailure,
    pub(crate) budget: Budget,
}

/// The work of a run that is not done.
#[derive(Default)]
struct Work {
    running: JoinSet<CaseEnd>,
    grading: JoinSet<(Box<UnitRecord>, Grade)>,
    /// Places in the plan of what the tasks of both sets work on.
    units: HashMap<Id, usize>,
    /// Why other cases will not succeed either, by the case that showed it.
    hopeless: HashMap<usize, Hopeless>,
    to_grade: VecDeque<usize>,
    /// Set when a budget is used up; it takes effect once the case that did it is reported.
    over_budget: Option<Ended>,
}

impl Work {
    fn is_done(&self) -> bool {
        self.running.is_empty() && self.grading.is_empty() && self.to_grade.is_empty()
    }
}

impl Dispatcher<'_> {
    /// Runs and grades what has no verdict yet.
    pub(crate) async fn run(mut self, control: &RunControl) -> Result<Ended, RunError> {
        let mut meter = Meter::new(self.budget);
        let mut ended = None;
        for unit in self.journal.units() {
            ended = meter.add(&unit?).or(ended);
        }
        let mut stop = control.stop.subscribe();
        let cancel = CancellationToken::new();
        // Dropping this future must stop every case: JoinSet aborts its tasks, the guard stops their tools.
        let _stop_all = cancel.clone().drop_guard();
        let units = 0..self.indices.len();
        let waiting: Vec<usize> = units
            .clone()
            .filter(|&unit| !self.journal.has_answer(unit))
            .collect();
        let mut waiting = waiting.into_iter();
        let mut work = Work {
            to_grade: units.filter(|&unit| self.is_to_grade(unit)).collect(),
            ..Work::default()
        };
        let mut unreached = 0;
        let mut abort_at = None;
        let asked = *stop.borrow_and_update();
        if asked != Stop::No {
            ended = Some(Ended::by(asked));
        }
        loop {
            if ended.is_none()
                && let Some(over) = work.over_budget.take()
            {
                let reason = over.because.clone().unwrap_or_default();
                self.drain(&reason, work.running.len());
                ended = Some(over);
            }
            while ended.is_none() && self.has_room(&work) {
                let Some(unit) = waiting.next() else { break };
                self.start(unit, &mut work, &cancel);
            }
            while work.grading.len() < self.concurrency {
                let Some(unit) = work.to_grade.pop_front() else {
                    break;
                };
                if let Some(record) = self.journal.unit(unit).transpose()? {
                    self.start_grading(unit, Box::new(record), &mut work);
                }
            }
            if work.is_done() {
                while let Ok(message) = self.notices.try_recv() {
                    self.sink.on(&RunEvent::Notice { message });
                }
                let ended = ended.unwrap_or_else(Ended::completed);
                return Ok(ended.with_missing(self.indices.len() - self.journal.finished()));
            }
            let finished = tokio::select! {
                biased;
                Ok(()) = stop.changed() => {
                    let asked = *stop.borrow_and_update();
                    if asked >= Stop::Now {
                        cancel.cancel();
                        // Their answers are written down: a resumed run grades them.
                        work.to_grade.clear();
                    }
                    if let Stop::By(deadline) = asked {
                        // The other half is for closing what cases used.
                        let left = deadline.saturating_duration_since(Instant::now());
                        abort_at = Some(Instant::now() + left / 2);
                    }
                    let before = ended.replace(Ended::by(asked)).map(|ended| ended.how);
                    let first = matches!(before, None | Some(HowEnded::Stopped));
                    if first || matches!(asked, Stop::By(_)) {
                        self.drain(Ended::by(asked).how.as_str(), work.running.len());
                    }
                    continue;
                }
                () = until(abort_at), if abort_at.is_some() => {
                    abort_at = None;
                    work.running.abort_all();
                    work.grading.abort_all();
                    continue;
                }
                Some(message) = self.notices.recv() => {
                    self.sink.on(&RunEvent::Notice { message });
                    continue;
                }
                Some(joined) = work.running.join_next_with_id() => {
                    let Some((unit, record, grade)) = self.ran(joined, &mut work) else { continue };
                    self.journal.record(unit, &record, grade.as_deref())?;
                    work.over_budget = meter.add(&record).or(work.over_budget.take());
                    match grade {
                        Some(grade) => (unit, record, *grade),
                        None if work.to_grade.is_empty() && self.executor.is_short(&record) => {
                            let grade = self.grade_now(unit, &record);
                            self.journal.grade(unit, &grade)?;
                            (unit, record, grade)
                        }
                        None if work.grading.len() < self.concurrency => {
                            self.start_grading(unit, record, &mut work);
                            continue;
                        }
                        None => {
                            work.to_grade.push_back(unit);
                            continue;
                        }
                    }
                }
                Some(joined) = work.grading.join_next_with_id() => {
                    let Some((unit, record, grade)) = self.graded(joined, &mut work)? else { continue };
                    self.journal.grade(unit, &grade)?;
                    (unit, record, grade)
                }
            };
            let (unit, record, grade) = finished;
            let passed = self.finish(unit, *record, grade);
            let hopeless = work.hopeless.remove(&unit);
            unreached = match hopeless {
                Some(Hopeless::Unreached(_)) => unreached + 1,
                _ => 0,
            };
            if ended.is_some() {
                continue;
            }
            if let Some(Hopeless::Credentials(reason)) = hopeless {
                // Nothing else can be answered: what runs is stopped and stays to be run.
                cancel.cancel();
                self.drain(&reason, work.running.len());
                ended = Some(Ended::early(HowEnded::Stopped, reason));
            } else if let Some(Hopeless::Unreached(reason)) = hopeless
                && unreached >= UNREACHED
            {
                self.drain(&reason, work.running.len());
                ended = Some(Ended::early(HowEnded::Stopped, reason));
            } else if self.on_failure == OnFailure::Stop && !passed && work.over_budget.is_none() {
                let reason = "a case did not pass";
                self.drain(reason, work.running.len());
                ended = Some(Ended::early(HowEnded::Stopped, reason));
            }
        }
    }

    /// Whether another case may start. Where a failure ends the run, a case has its slot until its verdict is known.
    fn has_room(&self, work: &Work) -> bool {
        let ungraded = match self.on_failure {
            OnFailure::Continue => 0,
            OnFailure::Stop => work.grading.len() + work.to_grade.len(),
        };
        work.running.len() + ungraded < self.concurrency
    }

    /// Whether a unit has an answer and no verdict of today's checks.
    fn is_to_grade(&self, unit: usize) -> bool {
        if !self.journal.has_answer(unit) {
            return false;
        }
        let case = self.index(unit).and_then(|index| self.executor.case(index));
        match self.journal.verdict(unit) {
            Some(Ok(grade)) => {
                case.is_some_and(|case| self.executor.graders.fingerprint(case) != grade.grader)
            }
            Some(Err(_)) | None => true,
        }
    }

    fn index(&self, unit: usize) -> Option<usize> {
        self.indices.get(unit).copied()
    }

    fn identity(&self, unit: usize) -> Option<CaseIdentity> {
        self.journal.plan().get(unit).copied()
    }

    fn start(&mut self, unit: usize, work: &mut Work, cancel: &CancellationToken) {
        let (Some(index), Some(identity)) = (self.index(unit), self.identity(unit)) else {
            return;
        };
        if let Some(case) = self.executor.case(index) {
            self.sink.on(&RunEvent::CaseStarted {
                index,
                label: label(case, index),
            });
        }
        let running = Arc::clone(&self.executor).run(index, identity, cancel.child_token());
        let id = work.running.spawn(running).id();
        work.units.insert(id, unit);
    }

    fn start_grading(&self, unit: usize, record: Box<UnitRecord>, work: &mut Work) {
        let Some(index) = self.index(unit) else { return };
        let grading = Arc::clone(&self.executor).grade(index, record, false);
        let id = work.grading.spawn(grading).id();
        work.units.insert(id, unit);
    }

    /// Grades on this thread. A panic is the case's.
    fn grade_now(&self, unit: usize, record: &UnitRecord) -> Grade {
        let grading = std::panic::AssertUnwindSafe(|| {
            self.executor
                .grade_now(self.index(unit).unwrap_or_default(), record, false)
        });
        std::panic::catch_unwind(grading).unwrap_or_else(|panic| Grade::crashed(record, &describe(&*panic)))
    }

    fn drain(&mut self, reason: &str, running: usize) {
        self.sink.on(&RunEvent::Draining {
            reason: reason.to_owned(),
            running,
        });
    }

    /// The record of a case that ended; `None` for one that this run stopped.
    fn ran(
        &self,
        joined: Result<(Id, CaseEnd), JoinError>,
        work: &mut Work,
    ) -> Option<(usize, Box<UnitRecord>, Option<Box<Grade>>)> {
        match joined {
            Ok((id, end)) => {
                let unit = work.units.remove(&id)?;
                match end {
                    CaseEnd::Ended {
                        unit: record,
                        grade,
                        hopeless,
                    } => {
                        if let Some(hopeless) = hopeless {
                            work.hopeless.insert(unit, hopeless);
                        }
                        Some((unit, record, grade))
                    }
                    CaseEnd::Stopped => None,
                }
            }
            Err(error) => {
                let unit = work.units.remove(&error.id())?;
                if error.is_cancelled() {
                    // Only this run aborts its tasks, when its time is over.
                    return None;
                }
                let what = describe_end(error);
                let record = self
                    .executor
                    .crashed(self.index(unit)?, self.identity(unit)?, &what);
                Some((unit, Box::new(record), None))
            }
        }
    }

    /// The verdict on a unit.
    fn graded(
        &self,
        joined: Result<(Id, (Box<UnitRecord>, Grade)), JoinError>,
        work: &mut Work,
    ) -> Result<Option<(usize, Box<UnitRecord>, Grade)>, RunError> {
        match joined {
            Ok((id, (record, grade))) => Ok(work.units.remove(&id).map(|unit| (unit, record, grade))),
            Err(error) => {
                let Some(unit) = work.units.remove(&error.id()).filter(|_| !error.is_cancelled()) else {
                    return Ok(None);
                };
                let Some(record) = self.journal.unit(unit).transpose()? else {
                    return Ok(None);
                };
                let grade = Grade::crashed(&record, &describe_end(error));
                Ok(Some((unit, Box::new(record), grade)))
            }
        }
    }

    /// Reports a case whose verdict is written down; returns whether it counts as a pass.
    fn finish(&mut self, unit: usize, record: UnitRecord, grade: Grade) -> bool {
        let passed = matches!(grade.state, CaseState::Passed | CaseState::Unchecked);
        let index = self.index(unit).unwrap_or_default();
        if let Some(case) = self.executor.case(index) {
            let result = project(case, index, record, grade, &self.executor.redactor);
            self.sink.on(&RunEvent::CaseFinished {
                finished: self.journal.finished(),
                result: Arc::new(result),
            });
        }
        passed
    }
}

fn describe_end(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => describe(&*panic),
        Err(_) => "the task of the case was aborted".to_owned(),
    }
}

fn describe(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a task panicked")
        .to_owned()
}
