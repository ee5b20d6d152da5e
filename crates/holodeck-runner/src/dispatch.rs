//! The dispatcher of a run: decides what starts, what is graded, what is written to the journal, and when the run ends.
//!
//! Executing a case is in `execute`, grading it in `grading`; neither makes a decision about the run. To start reading,
//! see [`Dispatcher::run`].

mod work;

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use holodeck_eval::JudgedLine;
use holodeck_model::{CaseState, case_label};
use tokio::{
    sync::mpsc,
    task::{Id, JoinError},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Budget, RunControl, RunError, RunEvent, RunSink, Stop,
    adaptation_notes::AdaptationNotes,
    budget::Meter,
    dispatch::work::{Work, describe_join_error, describe_panic},
    execute::{Blocker, CaseEnd, Executor},
    grading::{Earlier, GradedUnit, GradingStage},
};
use holodeck_runs::{
    CaseReport, CaseTrials, Grade, Journal, RecordLine, RunEnd, RunEndKind, UnitRecord, read_case,
};

/// No further case is started after this number of consecutive cases without a connection to the endpoint.
const MAX_UNREACHABLE: u32 = 3;

/// The end of a run that was asked to stop.
fn end_by(stop: Stop) -> RunEnd {
    let how = match stop {
        Stop::By(_) => RunEndKind::Terminated,
        Stop::No | Stop::Drain | Stop::Now => RunEndKind::Interrupted,
    };
    RunEnd::early(how, how.as_str())
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The effect of a failed case on the remaining cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// No effect.
    #[default]
    Continue,
    /// No further case is started.
    Stop,
}

/// Makes every decision of a run: what starts, what is graded, what is recorded, when it ends.
///
/// A case passes two stages. After execution its record is written, so that the answer cannot be lost; then it is
/// graded. The queue between the stages holds only places in the plan: a waiting record is read from the journal again.
pub(crate) struct Dispatcher<'a> {
    /// Absent for a regrade, which executes nothing.
    pub(crate) executor: Option<Arc<Executor>>,
    pub(crate) grading: Arc<GradingStage>,
    pub(crate) journal: &'a mut Journal,
    pub(crate) sink: &'a mut dyn RunSink,
    pub(crate) notices: mpsc::UnboundedReceiver<String>,
    pub(crate) adaptations: AdaptationNotes,
    /// The answers of judges, to be written to the journal.
    pub(crate) judged: mpsc::UnboundedReceiver<JudgedLine>,
    /// Where each planned case is in the file.
    pub(crate) indices: &'a [usize],
    pub(crate) concurrency: usize,
    pub(crate) on_failure: OnFailure,
    pub(crate) budget: Budget,
}

impl Dispatcher<'_> {
    /// Executes and grades every unit without a verdict.
    pub(crate) async fn run(mut self, control: &RunControl) -> Result<RunEnd, RunError> {
        let mut meter = Meter::new(self.budget);
        let mut ended = self.journal.header().judge_steps.and_then(|used| meter.add(used));
        if self.executor.is_some() {
            for unit in self.journal.units() {
                ended = meter.add_unit(&unit?).or(ended);
            }
        }
        for unit in 0..self.journal.unit_count() {
            let grade = self.journal.verdict(unit).transpose()?;
            ended = grade.and_then(|grade| meter.add_grade(&grade)).or(ended);
        }
        let mut stop = control.subscribe();
        let cancel = CancellationToken::new();
        // Dropping this future must stop every case: JoinSet aborts its tasks, the guard stops their tools.
        let _stop_all = cancel.clone().drop_guard();
        let units = 0..self.journal.unit_count();
        let waiting: Vec<usize> = units
            .clone()
            .filter(|&unit| self.executor.is_some() && !self.journal.has_answer(unit))
            .collect();
        if let Some(executor) = &self.executor {
            let trials = waiting.iter().filter_map(|&unit| self.journal.identity_of(unit));
            trials.for_each(|(_, trial)| executor.trials.add_unit(trial));
        }
        let mut waiting = waiting.into_iter();
        let mut work = Work {
            to_grade: units.filter(|&unit| self.needs_grading(unit)).collect(),
            ..Work::default()
        };
        let unfinished = waiting.as_slice().iter().chain(&work.to_grade);
        for case in unfinished.map(|&unit| self.journal.case_of(unit)) {
            if self.is_repeated(case) {
                *work.trials_left.entry(case).or_default() += 1;
            }
        }
        let grading_limit = self.concurrency.max(self.grading.judge.concurrency());
        for line in self.journal.shared_judgements()? {
            self.grading.judge.restore_shared(line);
        }
        let mut unreachable = 0;
        let mut abort_at = None;
        let requested = *stop.borrow_and_update();
        if requested != Stop::No {
            ended = Some(end_by(requested));
        }
        loop {
            if ended.is_none()
                && let Some(over) = work.over_budget.take()
            {
                let reason = over.because.clone().unwrap_or_default();
                self.drain(&reason, &work);
                ended = Some(over);
            }
            while ended.is_none() && self.has_room(&work) {
                let Some(unit) = waiting.next() else { break };
                self.start(unit, &mut work, &cancel);
            }
            while work.grading.len() < grading_limit {
                let Some(unit) = work.to_grade.pop_front() else {
                    break;
                };
                if let Some(record) = self.journal.unit(unit).transpose()? {
                    self.start_grading(unit, Box::new(record), &mut work, &cancel)?;
                }
            }
            if work.is_done() {
                if let Ok(line) = self.judged.try_recv() {
                    self.write_judged(line)?;
                }
                while let Ok(message) = self.notices.try_recv() {
                    self.show_notice(message)?;
                }
                self.adaptations.update(self.journal, self.sink)?;
                let ended = ended.unwrap_or_else(RunEnd::completed);
                return Ok(ended.with_missing(self.journal.unit_count() - self.journal.finished()));
            }
            let finished = tokio::select! {
                biased;
                Ok(()) = stop.changed() => {
                    let requested = *stop.borrow_and_update();
                    if requested >= Stop::Now {
                        cancel.cancel();
                        // Their answers are in the journal: a resumed run grades them.
                        work.to_grade.clear();
                    }
                    if let Stop::By(deadline) = requested {
                        // The other half is for closing the resources of cases.
                        let left = deadline.saturating_duration_since(Instant::now());
                        abort_at = Some(Instant::now() + left / 2);
                    }
                    let before = ended.replace(end_by(requested)).map(|ended| ended.how);
                    let first = matches!(before, None | Some(RunEndKind::Stopped));
                    if first || matches!(requested, Stop::By(_)) {
                        self.drain(end_by(requested).how.as_str(), &work);
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
                    self.show_notice(message)?;
                    continue;
                }
                Some(line) = self.judged.recv() => {
                    self.write_judged(line)?;
                    continue;
                }
                Some(joined) = work.running.join_next_with_id() => {
                    self.finish_trial(&joined, &mut work);
                    let Some((unit, record, checks)) = self.take_record(joined, &mut work) else { continue };
                    self.adaptations.update(self.journal, self.sink)?;
                    let line = self.journal.record_line(&record, checks.as_ref())?;
                    work.over_budget = meter.add_unit(&record).or(work.over_budget.take());
                    let index = self.index(unit).unwrap_or_default();
                    let is_short = work.to_grade.is_empty() && self.grading.is_short(index, &record);
                    // The checks of a masked record are read from its line.
                    let unwritten = if is_short && checks.is_none() && !record.masking_affects_checks() {
                        Some(line)
                    } else {
                        self.journal.write_record(unit, &line)?;
                        None
                    };
                    if is_short {
                        let Some((record, grade)) = self.grade_now(unit, record, unwritten, &cancel)? else {
                            self.report_answer(unit, &mut work);
                            work.to_grade.push_back(unit);
                            continue;
                        };
                        (unit, record, grade)
                    } else {
                        if work.grading.len() < grading_limit {
                            self.start_grading(unit, record, &mut work, &cancel)?;
                        } else {
                            self.report_answer(unit, &mut work);
                            work.to_grade.push_back(unit);
                        }
                        continue;
                    }
                }
                Some(joined) = work.grading.join_next_with_id() => {
                    let Some((unit, record, grade)) = self.take_grade(joined, &mut work)? else { continue };
                    let grade = self.with_trials_rule(unit, grade);
                    self.journal.grade(unit, &grade)?;
                    work.over_budget = meter.add_grade(&grade).or(work.over_budget.take());
                    (unit, record, grade)
                }
            };
            let (unit, record, grade) = finished;
            let of_judge = Blocker::of_judge(&grade);
            let passed = self.finish(unit, *record, grade, &mut work)?;
            let blocker = work.blockers.remove(&unit).or(of_judge);
            unreachable = match blocker {
                Some(Blocker::Unreachable(_)) => unreachable + 1,
                _ => 0,
            };
            if ended.is_some() {
                continue;
            }
            if let Some(Blocker::Credentials(reason)) = blocker {
                // No other case can be answered: running ones are stopped and count as not run.
                cancel.cancel();
                self.drain(&reason, &work);
                ended = Some(RunEnd::early(RunEndKind::Stopped, reason));
            } else if let Some(Blocker::Unreachable(reason)) = blocker
                && unreachable >= MAX_UNREACHABLE
            {
                self.drain(&reason, &work);
                ended = Some(RunEnd::early(RunEndKind::Stopped, reason));
            } else if self.on_failure == OnFailure::Stop && !passed && work.over_budget.is_none() {
                let reason = "a case did not pass";
                self.drain(reason, &work);
                ended = Some(RunEnd::early(RunEndKind::Stopped, reason));
            }
        }
    }

    /// Whether another case may start. If a failure or the cost of judges can end the run, a case keeps its slot until
    /// its verdict is known.
    fn has_room(&self, work: &Work) -> bool {
        let waits = self.on_failure == OnFailure::Stop
            || self.budget != Budget::default() && self.grading.judge.is_configured();
        let ungraded = if waits {
            work.grading.len() + work.to_grade.len()
        } else {
            0
        };
        work.running.len() + ungraded < self.concurrency
    }

    /// Whether a unit has an answer, but no verdict of the current checks.
    fn needs_grading(&self, unit: usize) -> bool {
        if !self.journal.has_answer(unit) {
            return false;
        }
        let case = self.index(unit).and_then(|index| self.grading.case(index));
        match self.journal.verdict(unit) {
            Some(Ok(grade)) => {
                case.is_some_and(|case| self.grading.graders.deciders(&case) != grade.deciders)
            }
            Some(Err(_)) | None => true,
        }
    }

    /// A grade with how many trials of its case must pass, which the file may have changed since the run started.
    fn with_trials_rule(&self, unit: usize, grade: Grade) -> Grade {
        let planned = self.journal.trials_of(self.journal.case_of(unit));
        let Some(index) = self.index(unit).filter(|_| planned != CaseTrials::ONCE) else {
            return grade;
        };
        let flags = &self.journal.header().flags;
        let trials = CaseTrials::of(&self.grading.agent, index, flags, Some(planned.count));
        Grade {
            min_passes: Some(trials.min_passes),
            ..grade
        }
    }

    fn index(&self, unit: usize) -> Option<usize> {
        self.indices.get(self.journal.case_of(unit)).copied()
    }

    /// Whether the case at this place in the plan runs several times.
    fn is_repeated(&self, case: usize) -> bool {
        self.journal.units_of(case).len() > 1
    }

    fn start(&mut self, unit: usize, work: &mut Work, cancel: &CancellationToken) {
        let (Some(index), Some(identity), Some(executor)) =
            (self.index(unit), self.journal.identity_of(unit), &self.executor)
        else {
            return;
        };
        let name = self.grading.agent.config.test_cases.name(index);
        self.sink.on(&RunEvent::CaseStarted {
            index,
            label: case_label(name, index),
            trial: self.is_repeated(self.journal.case_of(unit)).then_some(identity.1),
        });
        let running = Arc::clone(executor).run(index, identity, cancel.child_token());
        let id = work.running.spawn(running).id();
        work.units.insert(id, unit);
    }

    /// Ends the resources of a trial if the unit that was executed is the last one that needs them.
    fn finish_trial(&self, joined: &Result<(Id, CaseEnd), JoinError>, work: &mut Work) {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let unit = work
            .units
            .get(&id)
            .and_then(|&unit| self.journal.identity_of(unit));
        if let (Some((_, trial)), Some(executor)) = (unit, &self.executor)
            && let Some(resources) = executor.trials.finish(trial)
        {
            work.ending_trials
                .spawn(async move { resources.end(trial).await });
        }
    }

    fn start_grading(
        &mut self,
        unit: usize,
        record: Box<UnitRecord>,
        work: &mut Work,
        cancel: &CancellationToken,
    ) -> Result<(), RunError> {
        if let Some(grading) = self.grading_of(unit, record, cancel)? {
            self.report_answer(unit, work);
            let id = work.grading.spawn(grading).id();
            work.units.insert(id, unit);
        }
        Ok(())
    }

    /// The grading of a unit, with what is known before.
    fn grading_of(
        &mut self,
        unit: usize,
        record: Box<UnitRecord>,
        cancel: &CancellationToken,
    ) -> Result<Option<impl Future<Output = GradedUnit> + use<>>, RunError> {
        let Some(index) = self.index(unit) else {
            return Ok(None);
        };
        let checks = record
            .masking_affects_checks()
            .then(|| self.journal.checks(unit))
            .flatten();
        let earlier_verdict = self.journal.earlier_verdict(unit).transpose()?;
        let kept = earlier_verdict.map(|grade| self.grading.kept(index, &grade));
        let kept = kept.transpose();
        let earlier = Earlier {
            checks: checks.transpose()?,
            answered: self.journal.judgements(unit)?,
            kept: kept
                .map_err(|cannot| cannot.into_error(self.journal.header()))?
                .unwrap_or_default(),
        };
        Ok(Some(Arc::clone(&self.grading).grade(
            index,
            record,
            earlier,
            cancel.child_token(),
        )))
    }

    /// Writes a call of a judge, and those that arrived with it.
    fn write_judged(&mut self, first: JudgedLine) -> Result<(), RunError> {
        let mut lines = vec![first];
        while let Ok(line) = self.judged.try_recv() {
            lines.push(line);
        }
        Ok(self.journal.judged(lines)?)
    }

    /// Grades a short unit on this thread and writes the verdict, in one go with a record that is not yet written: grading
    /// takes less time than a write. A panic becomes an error of the case. `None` if the grading has to wait.
    fn grade_now(
        &mut self,
        unit: usize,
        record: Box<UnitRecord>,
        mut unwritten: Option<RecordLine>,
        cancel: &CancellationToken,
    ) -> Result<Option<(Box<UnitRecord>, Grade)>, RunError> {
        let graded = self.grading_of(unit, record, cancel).map(|grading| {
            grading.and_then(|grading| AssertUnwindSafe(grading).catch_unwind().now_or_never())
        });
        let has_grade = matches!(graded, Ok(Some(Ok((_, Some(_))))));
        if let Some(line) = unwritten.take_if(|_| !has_grade) {
            self.journal.write_record(unit, &line)?;
        }
        let graded = match graded? {
            Some(Ok((record, grade))) => grade.map(|grade| (record, grade)),
            Some(Err(panic)) => self.crashed(unit, &describe_panic(&*panic))?,
            None => None,
        };
        let Some((record, grade)) = graded else {
            return Ok(None);
        };
        let grade = self.with_trials_rule(unit, grade);
        match unwritten {
            Some(line) => self.journal.write_graded(unit, &line, &grade)?,
            None => self.journal.grade(unit, &grade)?,
        }
        Ok(Some((record, grade)))
    }

    /// The verdict on a unit whose grading panicked.
    fn crashed(&self, unit: usize, reason: &str) -> Result<Option<(Box<UnitRecord>, Grade)>, RunError> {
        let record = self.journal.unit(unit).transpose()?;
        Ok(record.map(|record| {
            let grade = Grade::crashed(&record, reason);
            (Box::new(record), grade)
        }))
    }

    /// Shows a notice of a backend, unless it was shown as a note about what was adapted.
    fn show_notice(&mut self, message: String) -> Result<(), RunError> {
        self.adaptations.update(self.journal, self.sink)?;
        if !self.adaptations.has_shown(&message) {
            self.sink.on(&RunEvent::Notice { message });
        }
        Ok(())
    }

    fn drain(&mut self, reason: &str, work: &Work) {
        self.sink.on(&RunEvent::Draining {
            reason: reason.to_owned(),
            running: work.running.len(),
            judging: work.grading.len() + work.to_grade.len(),
        });
    }

    /// Reports once that a unit has its answer and waits for its verdict.
    fn report_answer(&mut self, unit: usize, work: &mut Work) {
        let (Some(index), Some((_, trial))) = (self.index(unit), self.journal.identity_of(unit)) else {
            return;
        };
        if work.answered.insert(unit) {
            self.sink.on(&RunEvent::CaseAnswered {
                index,
                trial: self.is_repeated(self.journal.case_of(unit)).then_some(trial),
            });
        }
    }

    /// The record of a finished case; `None` if this run stopped it.
    fn take_record(
        &self,
        joined: Result<(Id, CaseEnd), JoinError>,
        work: &mut Work,
    ) -> Option<(usize, Box<UnitRecord>, Option<Grade>)> {
        match joined {
            Ok((id, end)) => {
                let unit = work.units.remove(&id)?;
                match end {
                    CaseEnd::Ended {
                        unit: record,
                        checks,
                        blocker,
                    } => {
                        if let Some(blocker) = blocker {
                            work.blockers.insert(unit, blocker);
                        }
                        Some((unit, record, checks.map(|checks| *checks)))
                    }
                    CaseEnd::Stopped => None,
                }
            }
            Err(error) => {
                let unit = work.units.remove(&error.id())?;
                if error.is_cancelled() {
                    // Only this run aborts its tasks, when its deadline passes.
                    return None;
                }
                let reason = describe_join_error(error);
                let executor = self.executor.as_ref()?;
                let record = executor.crashed(self.index(unit)?, self.journal.identity_of(unit)?, &reason);
                Some((unit, Box::new(record), None))
            }
        }
    }

    /// The verdict on a unit; `None` if this run stopped it.
    fn take_grade(
        &self,
        joined: Result<(Id, GradedUnit), JoinError>,
        work: &mut Work,
    ) -> Result<Option<(usize, Box<UnitRecord>, Grade)>, RunError> {
        match joined {
            Ok((id, (record, grade))) => {
                let unit = work.units.remove(&id);
                Ok(unit.zip(grade).map(|(unit, grade)| (unit, record, grade)))
            }
            Err(error) => {
                let Some(unit) = work.units.remove(&error.id()).filter(|_| !error.is_cancelled()) else {
                    return Ok(None);
                };
                let crashed = self.crashed(unit, &describe_join_error(error))?;
                Ok(crashed.map(|(record, grade)| (unit, record, grade)))
            }
        }
    }

    /// Reports a unit whose verdict is in the journal, and its case if that was its last trial. Returns false if a case
    /// did not pass.
    fn finish(
        &mut self,
        unit: usize,
        record: UnitRecord,
        grade: Grade,
        work: &mut Work,
    ) -> Result<bool, RunError> {
        work.answered.remove(&unit);
        self.sink.graded(&record, &grade);
        self.adaptations.show_files(&record, self.sink);
        let index = self.index(unit).unwrap_or_default();
        let place = self.journal.case_of(unit);
        let GradingStage { agent, redactor, .. } = &*self.grading;
        let case = if self.journal.trials_of(place) == CaseTrials::ONCE {
            CaseReport::new(agent, index, record, grade, redactor)
        } else {
            if self.is_repeated(place) {
                self.sink.on(&RunEvent::TrialFinished {
                    index,
                    trial: record.key.trial,
                    state: grade.state,
                });
            }
            let left = work.trials_left.get_mut(&place);
            let is_last = left.is_none_or(|left| {
                *left = left.saturating_sub(1);
                *left == 0
            });
            if !is_last {
                return Ok(true);
            }
            // The other trials are read again, so that memory does not grow with their number.
            read_case(agent, self.journal, place, index, redactor)?
        };
        let Some(case) = case else { return Ok(true) };
        let passed = matches!(case.state(), CaseState::Passed | CaseState::Unchecked);
        self.sink.on(&RunEvent::CaseFinished {
            finished: self.journal.finished_cases(),
            case: Arc::new(case),
        });
        Ok(passed)
    }
}
