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
use holodeck_eval::{Asked, MetricOutcome, NoPrograms, Programs};
use holodeck_model::{
    CaseDeciders, CodeMetric, MetricConfig, Redactor, ResolvedAgent, TestCase, UnitKey, recorded_trial_name,
};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::{
    grade::{AnswerView, CannotKeep, Computed, Graders, Known, OfUnit, Renew},
    judging::{DeferredJudge, JudgeSettings, RunJudge},
};
use holodeck_runs::{Grade, JudgedLine, UnitRecord};

/// A unit and its grade; `None` if this run stopped the grading.
pub(crate) type GradedUnit = (Box<UnitRecord>, Option<Grade>);

/// The outcomes of a unit that are known before it is graded.
#[derive(Default)]
pub(crate) struct Earlier {
    /// The answers that its judges gave before the run was resumed.
    pub(crate) answered: Vec<JudgedLine>,
    /// The verdicts that a regrade keeps.
    pub(crate) kept: OfUnit<Vec<Option<MetricOutcome>>>,
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
    async fn run(&self, grader: &CodeMetric, context: Value) -> Result<Value, String> {
        tokio::select! {
            result = self.programs.run(grader, context) => result,
            () = self.cancel.cancelled() => {
                self.stopped.store(true, Ordering::Relaxed);
                Err("the run was stopped".to_owned())
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
        let (mut judge, judged) = RunJudge::new(judge, Arc::clone(redactor));
        judge.default_model = agent.default_judge().answering();
        let repeated = agent.config.test_cases.repeated_names();
        let stage = Self {
            repeated_names: repeated.into_iter().map(str::to_owned).collect(),
            agent: Arc::clone(agent),
            graders,
            redactor: Arc::clone(redactor),
            judge,
            programs: Arc::clone(programs),
            renew: Renew::All,
        };
        (stage, judged)
    }

    /// The verdicts of an earlier grading of a unit that are kept.
    pub(crate) fn kept(
        &self,
        index: usize,
        earlier: &Grade,
    ) -> Result<OfUnit<Vec<Option<MetricOutcome>>>, CannotKeep> {
        match self.case(index) {
            Some(case) if self.renew != Renew::All => self.graders.kept(&case, earlier, &self.renew),
            _ => Ok(OfUnit::default()),
        }
    }

    /// Grades a unit; no grade if this run stopped it. Metrics of long answers are computed on another thread, so that
    /// they do not count towards the time-outs of other cases.
    pub(crate) async fn grade(
        self: Arc<Self>,
        index: usize,
        unit: Box<UnitRecord>,
        view: AnswerView,
        earlier: Earlier,
        cancel: CancellationToken,
    ) -> GradedUnit {
        let (unit, computed) = if unit.size() <= MAX_SHORT_ANSWER {
            let computed = self.compute(index, &unit);
            (unit, computed)
        } else {
            let stage = Arc::clone(&self);
            let computing = tokio::task::spawn_blocking(move || {
                let computed = stage.compute(index, &unit);
                (unit, computed)
            });
            match computing.await {
                Ok(computed) => computed,
                // A panic becomes an error of the case, as on this thread.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Only a runtime that shuts down cancels it, and then nothing waits for the result.
                    Err(_) => std::future::pending().await,
                },
            }
        };
        let Some(case) = self.case(index) else {
            let grade = Grade::of_turns(CaseDeciders::default(), &unit, Vec::new());
            return (unit, Some(grade));
        };
        let case = &*case;
        let Earlier { answered, kept } = earlier;
        let judge = self
            .judge
            .for_unit(unit.key, self.unit_name(case, unit.key), answered, cancel.clone());
        let programs = UnitPrograms {
            programs: self.programs.as_ref(),
            cancel,
            stopped: AtomicBool::new(false),
        };
        let asked = Asked {
            judge: match view {
                // A judge must not see secrets.
                AnswerView::BeforeMasking => &DeferredJudge,
                AnswerView::Stored(_) => &judge,
            },
            programs: match view {
                // Nor must a program.
                AnswerView::BeforeMasking => &NoPrograms,
                AnswerView::Stored(_) => &programs,
            },
        };
        let gates_met =
            computed.conversation.is_some() && self.graders.gates_met(&unit, case, &view, &computed.turns);
        let mut turns = Vec::with_capacity(computed.turns.len());
        for (place, computed) in computed.turns.into_iter().enumerate() {
            let kept = kept.turns.get(place).map_or(&[][..], Vec::as_slice);
            let known = Known { computed, kept };
            turns.push(
                self.graders
                    .ask(&unit, case, place, known, &asked, &self.redactor)
                    .await,
            );
        }
        let known = Known {
            computed: computed.conversation,
            kept: &kept.conversation,
        };
        let conversation = self
            .graders
            .ask_conversation(&unit, case, known, &asked, &self.redactor, gates_met)
            .await;
        let outcomes = OfUnit { turns, conversation };
        if judge.was_stopped() || programs.stopped.load(Ordering::Relaxed) {
            return (unit, None);
        }
        let mut grade = self.graders.conclude(&unit, case, &view, outcomes);
        self.name_judges(case, &mut grade);
        grade.unjudged = matches!(view, AnswerView::BeforeMasking) && self.graders.asks(case);
        grade.judging = judge.usage();
        grade.mask(&self.redactor);
        (unit, Some(grade))
    }

    /// Grades a short unit synchronously.
    pub(crate) fn grade_now(&self, index: usize, unit: &UnitRecord, view: &AnswerView) -> Grade {
        let Some(case) = self.case(index) else {
            return Grade::of_turns(CaseDeciders::default(), unit, Vec::new());
        };
        let OfUnit { turns, conversation } = self.graders.compute(unit, &case);
        let finish =
            |computed: Computed| Some(computed?.map(|outcomes| outcomes.into_iter().flatten().collect()));
        let outcomes = OfUnit {
            turns: turns.into_iter().map(finish).collect(),
            conversation: finish(conversation),
        };
        let mut grade = self.graders.conclude(unit, &case, view, outcomes);
        grade.mask(&self.redactor);
        grade
    }

    /// The name of a unit in a recording: the name of its case if no other case has it, otherwise the identity of the
    /// case; trials after the first have their number.
    pub(crate) fn unit_name(&self, case: &TestCase, key: UnitKey) -> String {
        let name = match &case.name {
            Some(name) if !self.repeated_names.contains(name) => name.clone(),
            _ => key.case.to_string(),
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

    fn compute(&self, index: usize, unit: &UnitRecord) -> OfUnit<Computed> {
        match self.case(index) {
            Some(case) => self.graders.compute(unit, &case),
            None => OfUnit {
                turns: Vec::new(),
                conversation: None,
            },
        }
    }
}

#[cfg(test)]
mod tests;
