//! The second stage of a run: grades answers.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use holodeck_eval::{Asked, JudgedLine, MetricOutcome, Programs};
use holodeck_judging::{Checks, JudgeSettings, RunJudge};
use holodeck_model::{
    CaseDeciders, CodeMetric, Failure, GraderFailure, MetricConfig, ModelConfig, Redactor, ResolvedAgent,
    TestCase, UnitKey, recorded_trial_name, recorded_without_loop,
};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::grade::{CannotKeep, Graders, Renew};
use holodeck_runs::{CaseExpected, Grade, UnitRecord};

/// A unit and its grade; `None` if this run stopped the grading.
pub(crate) type GradedUnit = (Box<UnitRecord>, Option<Grade>);

/// The knowledge about a unit before it is graded.
#[derive(Default)]
pub(crate) struct Earlier {
    /// The checks from before its texts were masked.
    pub(crate) checks: Option<Grade>,
    /// The answers that its judges gave before the run was resumed.
    pub(crate) answered: Vec<JudgedLine>,
    /// The verdicts that a regrade keeps, of each turn and of the conversation.
    pub(crate) kept: Vec<Vec<Option<MetricOutcome>>>,
}

/// Grades the answers of one unit at a time, without calling the agent.
pub(crate) struct GradingStage {
    pub(crate) agent: Arc<ResolvedAgent>,
    pub(crate) graders: Graders,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) judge: RunJudge,
    pub(crate) programs: Arc<dyn Programs>,
    /// Which verdicts of an earlier grading are not kept.
    pub(crate) renew: Renew,
    /// Whether the run leaves out the quality loop: its recordings are its own.
    pub(crate) without_loop: bool,
    /// Names that more than one case has, so that they do not identify a case.
    pub(crate) repeated_names: HashSet<String>,
}

/// Runs the programs for one unit until the run stops.
struct UnitPrograms<'a> {
    programs: &'a dyn Programs,
    cancel: CancellationToken,
    stopped: AtomicBool,
}

#[async_trait]
impl Programs for UnitPrograms<'_> {
    async fn run(&self, grader: &CodeMetric, context: Value) -> Result<Value, GraderFailure> {
        tokio::select! {
            result = self.programs.run(grader, context) => result,
            () = self.cancel.cancelled() => {
                self.stopped.store(true, Ordering::Relaxed);
                Err(GraderFailure::failed("the run was stopped"))
            }
        }
    }
}

/// Up to this size in bytes, answers are graded on the shared thread, because that delays other cases only briefly.
const MAX_SHORT_ANSWER: usize = 4 * 1024;

impl GradingStage {
    /// The stage of a run, and the answers of its judges for the journal.
    pub(crate) fn new(
        agent: &Arc<ResolvedAgent>,
        graders: Graders,
        redactor: &Arc<Redactor>,
        judge: Option<JudgeSettings>,
        programs: &Arc<dyn Programs>,
    ) -> (Self, UnboundedReceiver<JudgedLine>) {
        let (judge, judged) = RunJudge::new(
            judge,
            agent
                .default_judge()
                .map(ModelConfig::answering)
                .unwrap_or_default(),
            redactor,
        );
        let judge = judge.comparing_by(agent.config.embedding_provider.as_ref());
        let repeated = agent.config.test_cases.repeated_names();
        let stage = Self {
            repeated_names: repeated.into_iter().map(str::to_owned).collect(),
            agent: Arc::clone(agent),
            graders,
            redactor: Arc::clone(redactor),
            judge,
            programs: Arc::clone(programs),
            renew: Renew::All,
            without_loop: false,
        };
        (stage, judged)
    }

    /// The verdicts of an earlier grading of a unit that are kept.
    pub(crate) fn kept(
        &self,
        index: usize,
        earlier: &Grade,
    ) -> Result<Vec<Vec<Option<MetricOutcome>>>, CannotKeep> {
        match self.case(index) {
            Some(case) if self.renew != Renew::All => self.graders.kept(&case, earlier, &self.renew),
            _ => Ok(Vec::new()),
        }
    }

    /// Grades a unit whose texts are masked; no grade if this run stopped it.
    pub(crate) async fn grade(
        self: Arc<Self>,
        index: usize,
        unit: Box<UnitRecord>,
        earlier: Earlier,
        cancel: CancellationToken,
    ) -> GradedUnit {
        let (unit, computed) = Arc::clone(&self).compute(index, unit).await;
        let Some(case) = self.case(index) else {
            let grade = Grade::of_turns(CaseDeciders::default(), &unit, Vec::new());
            return (unit, Some(grade));
        };
        let Earlier {
            checks,
            answered,
            kept,
        } = earlier;
        let name = self.unit_name(&case, unit.key);
        let judge = self.judge.for_unit(unit.key, name, answered, cancel.clone());
        let programs = UnitPrograms {
            programs: self.programs.as_ref(),
            cancel,
            stopped: AtomicBool::new(false),
        };
        let asked = Asked {
            judge: &judge,
            programs: &programs,
        };
        let known = (checks.as_ref(), kept.as_slice());
        let outcomes = self.graders.judge(&unit, &case, computed, known, asked).await;
        if judge.was_stopped() || programs.stopped.load(Ordering::Relaxed) {
            return (unit, None);
        }
        let mut grade = self.graders.conclude(&unit, &case, checks.as_ref(), outcomes);
        self.name_judges(&case, &mut grade);
        grade.judging = judge.usage();
        let expected = CaseExpected::of(&self.agent, &case, unit.turns.len(), &self.redactor);
        grade.expected = Some(Box::new(expected));
        grade.mask(&self.redactor);
        (unit, Some(grade))
    }

    /// Checks a unit before its texts are masked, without judges and programs, which must not see secrets.
    pub(crate) async fn check(
        self: Arc<Self>,
        index: usize,
        unit: Box<UnitRecord>,
    ) -> (Box<UnitRecord>, Grade) {
        let (unit, computed) = Arc::clone(&self).compute(index, unit).await;
        let outcomes = computed
            .into_iter()
            .map(|checks| checks.map(Checks::into_outcomes));
        let outcomes = outcomes.collect();
        let mut grade = match self.case(index) {
            Some(case) => self.graders.conclude(&unit, &case, None, outcomes),
            None => Grade::of_turns(CaseDeciders::default(), &unit, Vec::new()),
        };
        grade.mask(&self.redactor);
        (unit, grade)
    }

    /// Computes the metrics that need no judge. Those of long answers are computed on another thread, so that they do not
    /// count towards the time-outs of other cases.
    async fn compute(
        self: Arc<Self>,
        index: usize,
        unit: Box<UnitRecord>,
    ) -> (Box<UnitRecord>, Vec<Result<Checks, Failure>>) {
        let is_short = unit.size() <= MAX_SHORT_ANSWER;
        let compute = move || {
            let case = self.case(index);
            let checks = case.map(|case| self.graders.check(&unit, &case));
            (unit, checks.unwrap_or_default())
        };
        if is_short {
            return compute();
        }
        match tokio::task::spawn_blocking(compute).await {
            Ok(computed) => computed,
            // A panic becomes an error of the case, as on this thread.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that shuts down cancels it, and then nothing waits for the result.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// The name of a unit in a recording: the name of its case if no other case has it, otherwise the identity of the
    /// case; trials after the first have their number.
    pub(crate) fn unit_name(&self, case: &TestCase, key: UnitKey) -> String {
        let name = match &case.name {
            Some(name) if !self.repeated_names.contains(name) => name.clone(),
            _ => key.case.to_string(),
        };
        let name = if self.without_loop {
            recorded_without_loop(name)
        } else {
            name
        };
        recorded_trial_name(name, key.trial)
    }

    /// Enters the judges that judged each metric.
    fn name_judges(&self, case: &TestCase, grade: &mut Grade) {
        let configs = self.graders.configs(case, grade.turns.len());
        let of_conversation = grade.conversation.as_deref_mut();
        let of_conversation = of_conversation.map(|grade| (grade, case.conversation_metrics().collect()));
        for (turn, configs) in grade.turns.iter_mut().zip(configs).chain(of_conversation) {
            for (metric, config) in turn.metrics.iter_mut().zip(configs) {
                if let Some(comparing) = config.comparing() {
                    let embedder = self
                        .agent
                        .config
                        .comparing_embedder(comparing.embedder.as_deref());
                    metric.model_used = metric.score.and(embedder).map(|settings| settings.model);
                    continue;
                }
                if config.judging().is_none() {
                    continue;
                }
                let names = self.judges_of(config);
                for missing in &mut metric.missing_votes {
                    if let Some(name) = missing.number.checked_sub(1).and_then(|place| names.get(place)) {
                        missing.judge.clone_from(name);
                    }
                }
                let has_voted = |number| {
                    metric
                        .missing_votes
                        .iter()
                        .all(|missing| missing.number != number)
                };
                let voted = names
                    .into_iter()
                    .enumerate()
                    .filter(|(place, _)| has_voted(place + 1));
                let voted: Vec<String> = voted.map(|(_, name)| name).collect();
                metric.model_used = (!voted.is_empty()).then(|| voted.join(", "));
            }
        }
    }

    /// The names of the judges of a metric, in their order.
    fn judges_of(&self, config: &MetricConfig) -> Vec<String> {
        let judges = config.judging().map_or(&[][..], |judging| judging.judges);
        if judges.is_empty() {
            return self.judge.name(None).into_iter().collect();
        }
        judges
            .iter()
            .filter_map(|model| self.judge.name(Some(model)))
            .collect()
    }

    /// Whether a unit can be graded synchronously without delaying others.
    pub(crate) fn is_short(&self, index: usize, unit: &UnitRecord) -> bool {
        unit.size() <= MAX_SHORT_ANSWER && !self.case(index).is_some_and(|case| self.graders.asks(&case))
    }

    pub(crate) fn case(&self, index: usize) -> Option<Cow<'_, TestCase>> {
        self.agent.config.test_cases.get(index)
    }
}

#[cfg(test)]
mod tests;
