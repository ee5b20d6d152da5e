//! Computes the verdict on a recorded case from its metrics and expectations.
//!
//! Metrics that need no judge see the original text; judges and programs see the masked one. An answer is graded by
//! `holodeck-judging`, the two stages around a unit are in `grading`.

mod checks;
mod conversation;
mod digests;
mod kept;
mod score;

use std::sync::Arc;

use holodeck_backend_api::Outcome;
use holodeck_eval::{ApprovalsOutcome, Asked, MetricError, MetricOutcome, Verdict};
use holodeck_judging::{Answer, Checks, Judging, TurnGrader, judge_failure};
use holodeck_model::{
    CaseDeciders, CaseState, CheckIdentities, CheckIdentity, Evidence, ExecutionState, Failure, FailureKind,
    MetricConfig, MetricResult, OnMasked, OnTruncated, OneOrMany, Redactor, ResolvedAgent, StandardMetric,
    StandardMetricName, TaskRoute, TestCase, ToolNames,
};

use holodeck_turn::TurnRecord;

use checks::{ToolCheck, approvals, check_agent, masked_error};
pub(crate) use digests::case_deciders;
use digests::enabled;
pub(crate) use kept::CannotKeep;
pub use kept::Renew;

use holodeck_runs::{Expectations, Grade, TurnGrade, UnitRecord, expectations};

/// The checks of an agent. Shared checks are prepared once; a case's own checks are prepared when it is graded, so that
/// memory does not grow with the number of cases.
pub(crate) struct Graders {
    shared: Arc<TurnGrader>,
    /// The metrics of the agent, and what decides each check.
    checks: Arc<CheckIdentities>,
    names: ToolNames,
    on_truncated: OnTruncated,
    on_masked: OnMasked,
    redactor: Arc<Redactor>,
}

/// The outcomes of the metrics of one subject, in their order; `None` for one that is left open. The error is that of a
/// metric that cannot be set up.
pub(crate) type Outcomes = Result<Vec<Option<MetricOutcome>>, Failure>;

impl Graders {
    pub(crate) fn new(
        agent: &ResolvedAgent,
        checks: &Arc<CheckIdentities>,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, String> {
        let on_masked = agent.on_masked();
        let shared = TurnGrader::new(checks.shared(), on_masked, redactor);
        Ok(Self {
            shared: Arc::new(shared.map_err(|error| error.to_string())?),
            checks: Arc::clone(checks),
            names: ToolNames::of(&agent.config),
            on_truncated: agent.execution.on_truncated.value,
            on_masked,
            redactor: Arc::clone(redactor),
        })
    }

    /// Everything that decides the verdict on a case now.
    pub(crate) fn deciders(&self, case: &TestCase) -> CaseDeciders {
        case_deciders(&self.checks, case, self.on_truncated)
    }

    /// Whether a check of a case asks a model or runs a program.
    pub(crate) fn asks(&self, case: &TestCase) -> bool {
        // A conversation has all turns of its case.
        let turns = expectations(case, 1);
        let in_turns = turns.iter().any(|expected| match expected.evaluations {
            [] if expected.only_selection => false,
            [] => self.shared.asks(),
            configs => configs.iter().any(|config| config.enabled() && asks(config)),
        });
        in_turns || case.conversation_metrics().any(asks)
    }

    /// Computes the metrics that need no judge, of each subject of a unit.
    pub(crate) fn check(&self, unit: &UnitRecord, case: &TestCase) -> Vec<Result<Checks, Failure>> {
        let subjects = self.subjects(unit, case, None);
        let checks = subjects.iter().map(|subject| match &subject.missing {
            Some(_) if !subject.is_conversation => Ok(Checks::default()),
            Some(problem) => Ok(self.grader(subject)?.incomplete(problem)),
            None => Ok(self.grader(subject)?.check(&subject.answer)),
        });
        checks.collect()
    }

    /// Asks judges and programs what the checks of a unit leave open. `kept` are outcomes of an earlier grading, by
    /// subject, and `recorded` is what was checked before masking.
    pub(crate) async fn judge(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        checks: Vec<Result<Checks, Failure>>,
        (recorded, kept): (Option<&Grade>, &[Vec<Option<MetricOutcome>>]),
        asked: Asked<'_>,
    ) -> Vec<Outcomes> {
        let subjects = self.subjects(unit, case, None);
        let mut turns_met = true;
        let mut outcomes = Vec::with_capacity(subjects.len());
        for (place, (subject, checks)) in subjects.iter().zip(checks).enumerate() {
            let gates_met = if subject.is_conversation {
                let expected = self.conclude_conversation(unit, case, recorded);
                turns_met
                    && expected
                        .is_none_or(|grade| matches!(grade.state, CaseState::Passed | CaseState::Unchecked))
            } else {
                self.expectations_met(subject)
            };
            turns_met &= gates_met && subject.missing.is_none() && checks.as_ref().is_ok_and(Checks::are_met);
            // An earlier grading of other subjects keeps nothing.
            let kept = kept.get(place).filter(|_| kept.len() == subjects.len());
            let judging = Judging {
                asked,
                kept: kept.map_or(&[], Vec::as_slice),
                gates_met,
            };
            outcomes.push(match checks {
                Ok(checks) if !checks.are_complete() => match self.grader(subject) {
                    Ok(grader) => {
                        let judged = grader.judge(&subject.answer, checks, judging).await;
                        Ok(judged.into_iter().map(Some).collect())
                    }
                    Err(failure) => Err(failure),
                },
                checks => checks.map(Checks::into_outcomes),
            });
        }
        outcomes
    }

    /// The enabled metrics of each of the `turns` turns of a case.
    pub(crate) fn configs<'a>(&'a self, case: &'a TestCase, turns: usize) -> Vec<Vec<&'a MetricConfig>> {
        let turns = expectations(case, turns).into_iter();
        turns.map(|expected| self.enabled(expected).collect()).collect()
    }

    fn enabled<'a>(&'a self, expected: Expectations<'a>) -> impl Iterator<Item = &'a MetricConfig> {
        enabled(&self.checks, expected)
    }

    /// The verdict on a unit from the outcomes of its subjects. `recorded` is what was checked before masking.
    pub(crate) fn conclude(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        recorded: Option<&Grade>,
        outcomes: Vec<Outcomes>,
    ) -> Grade {
        let mut turns = Vec::with_capacity(unit.turns.len());
        let mut conversation = self.conclude_conversation(unit, case, recorded);
        for (subject, outcomes) in self.subjects(unit, case, recorded).into_iter().zip(outcomes) {
            if subject.is_conversation {
                conversation = Some(subject.add_metrics(conversation, outcomes));
            } else {
                turns.push(self.conclude_turn(&subject, outcomes));
            }
        }
        let grade = Grade::of_turns(self.deciders(case), unit, turns);
        let grade = match conversation {
            Some(conversation) => grade.with_conversation(conversation),
            None => grade,
        };
        score::add_score(grade, unit, case)
    }

    /// The turns of a unit, then the conversation as a whole if it has metrics.
    fn subjects<'a>(
        &'a self,
        unit: &'a UnitRecord,
        case: &'a TestCase,
        recorded: Option<&'a Grade>,
    ) -> Vec<Subject<'a>> {
        let name = case.name.as_deref();
        let answers = Answer::of_turns(&unit.turns);
        let turns = answers.into_iter().zip(expectations(case, unit.turns.len()));
        let turns = turns.enumerate().map(|(place, (answer, expected))| Subject {
            missing: (!self.can_grade(&answer.turn, expected)).then(String::new),
            recorded: recorded.and_then(|grade| grade.turns.get(place)),
            ..Subject::new(self, unit, answer, expected, name)
        });
        let mut subjects: Vec<Subject<'a>> = turns.collect();
        if case.conversation_metrics().next().is_some() {
            let turns = subjects.iter().map(|subject| subject.answer.clone()).collect();
            let mut answer = Answer::of_conversation(turns);
            answer.goal = case.goal();
            subjects.push(Subject {
                missing: conversation::missing_part(unit, case),
                is_conversation: true,
                recorded: recorded.and_then(|grade| grade.conversation.as_deref()),
                ..Subject::new(self, unit, answer, conversation::whole_expectations(case), name)
            });
        }
        subjects
    }

    /// Whether there is an answer to grade. A refusal is one if a check asks for it.
    fn can_grade(&self, turn: &TurnRecord, expected: Expectations<'_>) -> bool {
        use StandardMetricName as Name;
        let asks_for_refusal = |config: &MetricConfig| {
            matches!(
                config,
                MetricConfig::Standard(metric) if matches!(metric.metric, Name::IsRefusal | Name::FinishReason)
            )
        };
        turn.state == ExecutionState::Completed
            || turn.result.outcome == Outcome::Refused && self.enabled(expected).any(asks_for_refusal)
    }

    /// The metrics of a subject; its own metrics are prepared each time.
    fn grader(&self, subject: &Subject<'_>) -> Result<Arc<TurnGrader>, Failure> {
        let prepare = match subject.expected.evaluations {
            [] if !subject.expected.only_selection => return Ok(Arc::clone(&self.shared)),
            _ if subject.is_conversation => TurnGrader::for_conversation,
            _ => TurnGrader::new,
        };
        prepare(subject.expected.evaluations, self.on_masked, &self.redactor)
            .map(Arc::new)
            .map_err(|error| Failure::new(FailureKind::Checks, error.to_string()))
    }

    /// Whether the expectations of a turn about tools are met, and its answer is complete if it must be.
    fn expectations_met(&self, subject: &Subject<'_>) -> bool {
        let is_cut = subject.answer.turn.truncated && self.on_truncated == OnTruncated::Fail;
        subject.tool_check().check(&subject.answer.calls()).matched != Some(false)
            && subject.approvals().matched() != Some(false)
            && !is_cut
    }

    fn conclude_turn(&self, subject: &Subject<'_>, outcomes: Outcomes) -> TurnGrade {
        let turn = &*subject.answer.turn;
        let bare = |state| TurnGrade {
            retrieval_context: subject.answer.passages().map(<[String]>::to_vec),
            ..TurnGrade::bare(state)
        };
        if subject.missing.is_some() {
            // There is no answer to grade: the agent failed, or the execution did.
            return if turn.state == ExecutionState::AgentFailed {
                bare(CaseState::Failed)
            } else {
                bare(CaseState::Error)
            };
        }
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                let mut grade = bare(CaseState::Error);
                grade.failures.push(failure);
                return grade;
            }
        };
        let metrics = subject.results(outcomes);
        let tools = subject.tool_check().check(&subject.answer.calls());
        let approvals = subject.approvals();
        let mut failures = tools.failures;
        let selection = subject.expected.expected_agent;
        let selection = selection.map(|expected| check_agent(expected, subject.route));
        let (agent_matched, agent_failure) = selection.unwrap_or_default();
        let is_unknown = tools.unknown || (selected_nothing(subject.expected, agent_matched));
        let mut state = state(
            &[tools.matched, approvals.matched(), agent_matched],
            is_unknown,
            &metrics,
            subject.expected.by_score,
        );
        failures.extend(agent_failure);
        failures.extend(approvals.failures);
        if let Some(reason) = turn.truncation()
            && self.on_truncated == OnTruncated::Fail
        {
            failures.push(Failure::new(FailureKind::Truncated, reason.truncation_note()));
            state = CaseState::Failed;
        }
        TurnGrade {
            tools_matched: tools.matched,
            arg_match_details: tools.details,
            approvals: approvals.details,
            metrics,
            failures,
            tool_rules: subject.expected.tool_digest(),
            ..bare(state)
        }
    }
}

/// A failed check is certain even if other verdicts are unknown; an unknown verdict is never a pass. Where the score of the
/// case decides, only a metric that could not be computed does so here.
fn state(
    expectations: &[Option<bool>],
    tools_unknown: bool,
    metrics: &[MetricResult],
    by_score: bool,
) -> CaseState {
    let decides = |metric: &&MetricResult| !by_score || metric.error.is_some() && score::counts(metric);
    let any = |passed| {
        let mut metrics = metrics.iter().filter(decides);
        metrics.any(|metric| metric.passed == Some(passed))
    };
    if expectations.contains(&Some(false)) || any(false) {
        CaseState::Failed
    } else if tools_unknown
        || metrics
            .iter()
            .filter(decides)
            .any(|metric| metric.error.is_some())
    {
        CaseState::Error
    } else if expectations.contains(&Some(true)) || any(true) {
        CaseState::Passed
    } else {
        CaseState::Unchecked
    }
}

/// Whether an agent is expected, but the record has no selection.
fn selected_nothing(expected: Expectations<'_>, matched: Option<bool>) -> bool {
    expected.expected_agent.is_some() && matched.is_none()
}

/// A turn, or a conversation as a whole: each is graded by a list of metrics of its own.
struct Subject<'a> {
    graders: &'a Graders,
    answer: Answer<'a>,
    expected: Expectations<'a>,
    /// The specialist agent that was selected for its question.
    route: Option<&'a TaskRoute>,
    /// Set if there is nothing to measure: why a conversation is not complete, or nothing for a turn, whose record says it.
    missing: Option<String>,
    is_conversation: bool,
    /// Its grade that was computed before the record was masked.
    recorded: Option<&'a TurnGrade>,
}

impl<'a> Subject<'a> {
    fn new(
        graders: &'a Graders,
        unit: &'a UnitRecord,
        mut answer: Answer<'a>,
        expected: Expectations<'a>,
        case_name: Option<&'a str>,
    ) -> Self {
        answer.case_name = case_name;
        answer.ground_truth = expected.ground_truth;
        answer.context = expected.retrieval_context;
        answer.turn_config = expected.turn_config;
        answer.vars = expected.vars;
        Self {
            graders,
            answer,
            expected,
            route: unit.route.as_ref(),
            missing: None,
            is_conversation: false,
            recorded: None,
        }
    }

    /// The results of its metrics, except those that are left open.
    fn results(&self, outcomes: Vec<Option<MetricOutcome>>) -> Vec<MetricResult> {
        let configs = enabled(&self.graders.checks, self.expected);
        let outcomes = outcomes.into_iter().zip(configs);
        let results = outcomes.filter_map(|(outcome, config)| {
            let result = match &self.missing {
                None => self.metric(outcome?, config),
                Some(_) => metric_result(outcome?),
            };
            Some(MetricResult {
                conversation: self.is_conversation,
                weight: config.stated_weight(),
                identity: self.identity(config),
                ..result
            })
        });
        results.collect()
    }

    /// The verdict of a metric, or an error instead of it: a forbidden text could be in the missing part of a truncated
    /// answer, or in the masked part of a masked one.
    fn metric(&self, outcome: MetricOutcome, config: &MetricConfig) -> MetricResult {
        // A judge receives the masked text, and its reasoning refers to that.
        if self.hides_answer() && reads_answer(config) && !asks(config) {
            if let Some(recorded) = self.recorded_check(config) {
                return recorded.clone();
            }
            if !certain_in_part(&outcome, config, self.expected.ground_truth) {
                return error_result(outcome, masked_error(self.recorded, "answer was"));
            }
        }
        if let Some(reason) = self.answer.turn.truncation()
            && outcome.verdict == Verdict::Passed
            && is_negated(config)
            && reads_answer(config)
        {
            let note = reason.truncation_note();
            return error_result(
                outcome,
                if is_limited(config) {
                    format!("{note}: with the missing text it could have too many words")
                } else {
                    format!("{note}: the missing text could contain the forbidden text")
                },
            );
        }
        metric_result(outcome)
    }

    fn tool_check(&self) -> ToolCheck<'_> {
        ToolCheck {
            expected: self.expected,
            names: &self.graders.names,
            recorded: self.recorded,
            is_masked: !self.answer.turn.redacted.arguments.is_empty(),
            truncation: self.answer.turn.truncation(),
            unreported: self.answer.turn.result.lacks(Evidence::ToolCalls),
        }
    }

    fn approvals(&self) -> ApprovalsOutcome {
        let turn = &*self.answer.turn;
        approvals(self.expected.expected_approvals, [turn], &self.graders.names)
    }

    /// Whether the checks see a masked answer, because the journal or the recording has only that.
    fn hides_answer(&self) -> bool {
        self.answer.turn.redacted.answer || self.answer.turn.redacted.object
    }

    fn recorded_check(&self, config: &MetricConfig) -> Option<&MetricResult> {
        let identity = self.identity(config);
        let mut recorded = self.recorded?.metrics.iter();
        recorded.find(|result| result.identity == identity && result.metric_name == config.name())
    }

    fn identity(&self, config: &MetricConfig) -> CheckIdentity {
        let reads = self.expected.reads(self.answer.goal, self.is_conversation);
        self.graders.checks.check(config, reads)
    }
}

/// Whether the outcome does not depend on the masked parts: a text, expected or forbidden, that was found in the rest
/// is in the answer.
fn certain_in_part(outcome: &MetricOutcome, config: &MetricConfig, ground_truth: Option<&str>) -> bool {
    let MetricConfig::Standard(metric) = config else {
        return false;
    };
    let searches_text = matches!(
        metric.metric,
        StandardMetricName::Contains
            | StandardMetricName::ContainsAny
            | StandardMetricName::ContainsAll
            | StandardMetricName::Icontains
    );
    let found = match outcome.verdict {
        Verdict::Passed => !metric.negate,
        Verdict::Failed => metric.negate,
        Verdict::NotGated | Verdict::Error | Verdict::Skipped => false,
    };
    // The mask's own characters could match, and removing whitespace or punctuation could join the texts around a mask.
    let is_reliable =
        !metric.strip_whitespace && !metric.strip_punctuation && !could_match_mask(metric, ground_truth);
    searches_text && found && is_reliable && metric.response_path.is_none() && metric.threshold.is_none()
}

/// Whether the text that a metric searches for could match a mask.
fn could_match_mask(metric: &StandardMetric, ground_truth: Option<&str>) -> bool {
    match &metric.value {
        None => ground_truth.is_none_or(|text| text.contains('*')),
        Some(OneOrMany::One(text)) => text.contains('*'),
        Some(OneOrMany::Many(texts)) => texts.iter().any(|text| text.contains('*')),
    }
}

/// Whether more text could turn a pass into a failure.
fn is_negated(config: &MetricConfig) -> bool {
    matches!(config, MetricConfig::Standard(metric) if metric.negate || metric.max.is_some())
}

/// Whether an answer that is too long fails.
fn is_limited(config: &MetricConfig) -> bool {
    matches!(config, MetricConfig::Standard(metric) if metric.max.is_some())
}

/// Whether a metric asks a model or runs a program.
fn asks(config: &MetricConfig) -> bool {
    !matches!(config, MetricConfig::Standard(metric) if !metric.metric.asks())
}

/// Whether a metric reads the answer, and not only its latency, its cost or how it ended.
fn reads_answer(config: &MetricConfig) -> bool {
    use StandardMetricName as Name;
    !matches!(
        config,
        MetricConfig::Standard(metric)
            if matches!(metric.metric, Name::Latency | Name::Cost | Name::FinishReason)
    )
}

fn error_result(outcome: MetricOutcome, reason: impl Into<String>) -> MetricResult {
    MetricResult {
        score: None,
        passed: None,
        error: Some(reason.into()),
        reasoning: None,
        ..metric_result(outcome)
    }
}

fn metric_result(outcome: MetricOutcome) -> MetricResult {
    let passed = match outcome.verdict {
        Verdict::Passed => Some(true),
        Verdict::Failed => Some(false),
        Verdict::NotGated | Verdict::Error | Verdict::Skipped => None,
    };
    MetricResult {
        metric_name: outcome.name,
        kind: outcome.kind.as_str().to_owned(),
        conversation: false,
        weight: None,
        score: outcome.score,
        threshold: outcome.threshold,
        passed,
        scale: "0-1".to_owned(),
        judge_failure: match &outcome.error {
            Some(MetricError::NotJudged { kind, .. }) => judge_failure(*kind),
            _ => None,
        },
        error: outcome.error.map(|error| error.to_string()),
        missing_votes: outcome.missing_votes,
        retry_count: outcome.retries,
        evaluation_time_ms: Some(outcome.evaluation_time.as_secs_f64() * 1e3),
        model_used: None,
        jurors: Vec::new(),
        identity: CheckIdentity::default(),
        reasoning: outcome.reason,
        skipped: outcome.verdict == Verdict::Skipped,
        details: outcome.evidence,
    }
}
