//! Computes the verdict on a recorded case from its metrics and expectations.
//!
//! Metrics that need no judge see the original text; judges and programs see the masked one. Calling judges is in
//! `judging`, the two stages around a unit are in `grading`.

mod checks;
mod conversation;
mod digests;
mod kept;

use std::{sync::Arc, time::Duration};

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_eval::{
    ApprovalsOutcome, Asked, CalledTool, EvalInput, Grader, InputText, MaskedInput, MaskedText, MetricError,
    MetricOutcome, Verdict,
};
use holodeck_model::{
    CaseDeciders, CaseState, CheckIdentities, CheckIdentity, Digest, ExecutionState, Failure, FailureKind,
    MetricConfig, MetricResult, OnMasked, OnTruncated, OneOrMany, Redactor, ResolvedAgent, StandardMetric,
    StandardMetricName, TaskRoute, TestCase, ToolNames,
};
use holodeck_turn::TurnRecord;

use checks::{ToolCheck, approvals, check_agent, masked_error};
pub(crate) use conversation::join_answers;
pub(crate) use digests::case_deciders;
use digests::enabled;
pub(crate) use kept::CannotKeep;
pub use kept::Renew;

use crate::judging::judge_failure;
use holodeck_runs::{Expectations, Grade, TurnGrade, UnitRecord, expectations};

/// The checks of an agent. Shared checks are prepared once; a case's own checks are prepared when it is graded, so that
/// memory does not grow with the number of cases.
pub(crate) struct Graders {
    shared: Grader,
    /// The metrics of the agent, and what decides each check.
    checks: Arc<CheckIdentities>,
    names: ToolNames,
    on_truncated: OnTruncated,
    on_masked: OnMasked,
}

/// Which text of an answer the checks see. For a replayed turn, that is at most the recorded text; its record lists
/// what was masked.
pub(crate) enum AnswerView {
    /// The original text, before it is masked and stored. The fingerprints of the checks are stored with the verdicts.
    BeforeMasking,
    /// The stored text, masked as its record states, with the grade that was computed before masking.
    Stored(Option<Box<Grade>>),
}

/// The outcomes of a turn's metrics that need no judge; `None` for the others. The error is that of a metric that
/// cannot be set up. A turn without an answer has neither.
pub(crate) type Computed = Option<Result<Vec<Option<MetricOutcome>>, Failure>>;

/// The outcomes of all metrics of a turn.
pub(crate) type Outcomes = Option<Result<Vec<MetricOutcome>, Failure>>;

/// The outcomes that are known before a judge or a program is asked.
pub(crate) struct Known<'a> {
    pub(crate) computed: Computed,
    /// Those of an earlier grading.
    pub(crate) kept: &'a [Option<MetricOutcome>],
}

/// Outcomes of the metrics of each turn, and of those of the conversation as a whole.
#[derive(Default)]
pub(crate) struct OfUnit<T> {
    pub(crate) turns: Vec<T>,
    pub(crate) conversation: T,
}

impl Graders {
    pub(crate) fn new(agent: &ResolvedAgent, checks: &Arc<CheckIdentities>) -> Result<Self, String> {
        let on_truncated = agent.execution.on_truncated.value;
        let on_masked = agent.on_masked();
        let metrics = checks.shared();
        let shared = Grader::new(metrics).map_err(|error| error.to_string())?;
        Ok(Self {
            shared: shared.on_masked(metrics, on_masked),
            on_masked,
            checks: Arc::clone(checks),
            names: ToolNames::of(&agent.config),
            on_truncated,
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

    /// Computes the metrics that need no judge.
    pub(crate) fn compute(&self, unit: &UnitRecord, case: &TestCase) -> OfUnit<Computed> {
        let turns = self.subjects(unit, case).into_iter().map(|subject| {
            subject.has_answer().then(|| {
                let calls = subject.calls();
                let grader = self.grader(subject.expected)?;
                Ok(grader.get().compute(&subject.eval_input(&calls)))
            })
        });
        OfUnit {
            turns: turns.collect(),
            conversation: self.compute_conversation(unit, case),
        }
    }

    /// Computes the other metrics of a turn with the judge.
    pub(crate) async fn ask(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        place: usize,
        known: Known<'_>,
        asked: &Asked<'_>,
        redactor: &Redactor,
    ) -> Outcomes {
        let kept = known.kept;
        let computed = match known.computed? {
            Ok(computed) => computed,
            Err(failure) => return Some(Err(failure)),
        };
        if computed.iter().all(Option::is_some) {
            return Some(Ok(computed.into_iter().flatten().collect()));
        }
        let subject = self.subjects(unit, case).into_iter().nth(place)?;
        let calls = subject.calls();
        let grader = match self.grader(subject.expected) {
            Ok(grader) => grader,
            Err(failure) => return Some(Err(failure)),
        };
        let mut known = MaskedText::of_stored(&subject.turn.result, &subject.turn.redacted, None);
        known.extend(
            subject
                .retrieved_masked
                .then(|| MaskedText::new(InputText::Retrieved, None)),
        );
        let input = MaskedInput::new(subject.eval_input(&calls), redactor, known);
        let gates_met = self.expectations_met(&subject);
        Some(Ok(grader
            .get()
            .ask(&input, computed, kept, asked, gates_met)
            .await))
    }

    /// The enabled metrics of each of the `turns` turns of a case.
    pub(crate) fn configs<'a>(&'a self, case: &'a TestCase, turns: usize) -> Vec<Vec<&'a MetricConfig>> {
        let turns = expectations(case, turns).into_iter();
        turns.map(|expected| self.enabled(expected).collect()).collect()
    }

    fn enabled<'a>(&'a self, expected: Expectations<'a>) -> impl Iterator<Item = &'a MetricConfig> {
        enabled(&self.checks, expected)
    }

    /// The verdict on a unit from the outcomes of its turns.
    pub(crate) fn conclude(
        &self,
        unit: &UnitRecord,
        case: &TestCase,
        view: &AnswerView,
        outcomes: OfUnit<Outcomes>,
    ) -> Grade {
        let subjects = self.subjects(unit, case).into_iter().enumerate();
        let turns = subjects.zip(outcomes.turns).map(|((place, subject), outcomes)| {
            let recorded = match view {
                AnswerView::Stored(Some(grade)) => grade.turns.get(place),
                AnswerView::Stored(None) | AnswerView::BeforeMasking => None,
            };
            let subject = Subject {
                recorded,
                before_masking: matches!(view, AnswerView::BeforeMasking),
                ..subject
            };
            self.conclude_turn(subject, outcomes)
        });
        let turns = turns.collect();
        let grade = Grade::of_turns(self.deciders(case), unit, turns);
        let expected = self.conclude_conversation(unit, case, view);
        let conversation = self.add_conversation_metrics(expected, unit, case, view, outcomes.conversation);
        match conversation {
            Some(conversation) => grade.with_conversation(conversation),
            None => grade,
        }
    }

    fn subjects<'a>(&'a self, unit: &'a UnitRecord, case: &'a TestCase) -> Vec<Subject<'a>> {
        let mut earlier = Vec::new();
        let mut earlier_masked = false;
        let turns = unit
            .turns
            .iter()
            .zip(expectations(case, unit.turns.len()))
            .enumerate();
        let subjects = turns.map(|(turn_index, (turn, expected))| {
            let passages = retrieved_passages(turn);
            earlier.extend(passages.iter().flatten().cloned());
            let masked = turn.redacted.hides_passages(&turn.result);
            earlier_masked |= masked;
            let retrieved_masked = if passages.is_some() {
                masked
            } else {
                earlier_masked
            };
            let known = || (!earlier.is_empty()).then(|| earlier.clone());
            let context = expected.retrieval_context.map(<[String]>::to_vec);
            let retrieved = passages.or_else(known);
            Subject {
                route: unit.route.as_ref(),
                turn,
                turn_index,
                case_name: case.name.as_deref(),
                expected,
                retrieval_context: context.or_else(|| retrieved.clone()),
                retrieved,
                retrieved_masked,
                names: &self.names,
                checks: &self.checks,
                goal: None,
                is_conversation: false,
                recorded: None,
                before_masking: false,
            }
        });
        subjects.collect()
    }

    /// The metrics of a turn; its own metrics are prepared each time.
    fn grader(&self, expected: Expectations<'_>) -> Result<TurnGrader<'_>, Failure> {
        match expected.evaluations {
            [] if !expected.only_selection => Ok(TurnGrader::Shared(&self.shared)),
            configs => match Grader::new(configs) {
                Ok(grader) => Ok(TurnGrader::Own(grader.on_masked(configs, self.on_masked))),
                Err(error) => Err(Failure::new(FailureKind::Checks, error.to_string())),
            },
        }
    }

    fn conclude_turn(&self, subject: Subject<'_>, outcomes: Outcomes) -> TurnGrade {
        let turn = subject.turn;
        let bare = |state| TurnGrade {
            retrieval_context: subject.retrieval_context.clone(),
            ..TurnGrade::bare(state)
        };
        let outcomes = match outcomes {
            Some(Ok(outcomes)) => outcomes,
            Some(Err(failure)) => {
                let mut grade = bare(CaseState::Error);
                grade.failures.push(failure);
                return grade;
            }
            // There is no answer to grade: the agent failed, or the execution did.
            None if turn.state == ExecutionState::AgentFailed => return bare(CaseState::Failed),
            None => return bare(CaseState::Error),
        };
        let configs: Vec<&MetricConfig> = self.enabled(subject.expected).collect();
        let metrics: Vec<MetricResult> = outcomes
            .into_iter()
            .zip(&configs)
            .map(|(outcome, config)| MetricResult {
                identity: subject.identity(config),
                ..subject.metric(outcome, config)
            })
            .collect();
        let tools = subject.tool_check().check(&subject.calls());
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
            state,
            tools_matched: tools.matched,
            arg_match_details: tools.details,
            approvals: approvals.details,
            metrics,
            failures,
            tool_rules: subject.stored_tool_rules(),
            retrieval_context: subject.retrieval_context,
        }
    }
}

/// The metrics of one turn.
enum TurnGrader<'a> {
    Shared(&'a Grader),
    Own(Grader),
}

impl TurnGrader<'_> {
    fn get(&self) -> &Grader {
        match self {
            Self::Shared(grader) => grader,
            Self::Own(grader) => grader,
        }
    }
}

fn called_tool<'a>((call, result): (&'a ToolCall, Option<&'a ToolResult>)) -> CalledTool<'a> {
    CalledTool::with_result(call, result)
}

/// The passages that tools retrieved, in the order of the tool results, each ordered by rank.
fn retrieved_passages(turn: &TurnRecord) -> Option<Vec<String>> {
    let succeeded = turn.result.tool_results.iter().filter(|result| !result.is_error);
    let passages = succeeded.flat_map(|result| &result.details.passages);
    let texts: Vec<String> = passages.map(|passage| passage.text.clone()).collect();
    (!texts.is_empty()).then_some(texts)
}

/// A failed check is certain even if other verdicts are unknown; an unknown verdict is never a pass.
fn state(expectations: &[Option<bool>], tools_unknown: bool, metrics: &[MetricResult]) -> CaseState {
    let any = |passed| metrics.iter().any(|metric| metric.passed == Some(passed));
    if expectations.contains(&Some(false)) || any(false) {
        CaseState::Failed
    } else if tools_unknown || metrics.iter().any(|metric| metric.error.is_some()) {
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

/// A turn to grade.
struct Subject<'a> {
    /// The specialist agent that was selected for its question.
    route: Option<&'a TaskRoute>,
    turn: &'a TurnRecord,
    turn_index: usize,
    case_name: Option<&'a str>,
    expected: Expectations<'a>,
    retrieval_context: Option<Vec<String>>,
    /// The passages that the tools of the turn retrieved, else those of earlier turns.
    retrieved: Option<Vec<String>>,
    /// Whether these were masked.
    retrieved_masked: bool,
    names: &'a ToolNames,
    checks: &'a CheckIdentities,
    /// The goal of a conversation.
    goal: Option<&'a str>,
    /// Whether it is a whole conversation.
    is_conversation: bool,
    /// The grade that was computed before the record was masked.
    recorded: Option<&'a TurnGrade>,
    /// Whether the record is not masked yet.
    before_masking: bool,
}

impl Subject<'_> {
    fn has_answer(&self) -> bool {
        self.turn.state == ExecutionState::Completed
    }

    fn calls(&self) -> Vec<CalledTool<'_>> {
        self.turn.result.calls().map(called_tool).collect()
    }

    fn eval_input<'b>(&'b self, calls: &'b [CalledTool<'b>]) -> EvalInput<'b> {
        EvalInput {
            input: &self.turn.input,
            response: &self.turn.result.response,
            structured_output: self.turn.result.structured_output.as_ref(),
            ground_truth: self.expected.ground_truth,
            retrieval_context: self.retrieval_context.as_deref(),
            context: self.expected.retrieval_context,
            retrieved: self.retrieved.as_deref(),
            tool_calls: calls,
            latency: self.turn.latency_ms.map(Duration::from_millis),
            cost_usd: self.turn.cost_usd,
            turn_index: self.turn_index,
            test_case_name: self.case_name,
            turn_config: self.expected.turn_config,
            conversation: None,
            goal: None,
        }
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
        if let Some(reason) = self.turn.truncation()
            && outcome.verdict == Verdict::Passed
            && is_negated(config)
            && reads_answer(config)
        {
            let note = reason.truncation_note();
            return error_result(
                outcome,
                format!("{note}: the missing text could contain the forbidden text"),
            );
        }
        metric_result(outcome)
    }

    fn tool_check(&self) -> ToolCheck<'_> {
        ToolCheck {
            expected: self.expected,
            names: self.names,
            recorded: self.recorded,
            is_masked: !self.turn.redacted.arguments.is_empty(),
            truncation: self.turn.truncation(),
        }
    }

    fn approvals(&self) -> ApprovalsOutcome {
        approvals(self.expected.expected_approvals, [self.turn], self.names)
    }

    /// Whether the checks see a masked answer, because the journal or the recording has only that.
    fn hides_answer(&self) -> bool {
        self.turn.redacted.answer || self.turn.redacted.object
    }

    fn recorded_check(&self, config: &MetricConfig) -> Option<&MetricResult> {
        let identity = self.identity(config);
        let mut recorded = self.recorded?.metrics.iter();
        recorded.find(|result| result.identity == identity && result.metric_name == config.name())
    }

    fn identity(&self, config: &MetricConfig) -> CheckIdentity {
        self.checks
            .check(config, self.expected.reads(self.goal, self.is_conversation))
    }

    /// By these, a later grading finds the verdict on masked arguments.
    fn stored_tool_rules(&self) -> Option<Digest> {
        let is_needed = self.before_masking || self.turn.redacted.affects_checks();
        self.expected.tool_digest().filter(|_| is_needed)
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

fn is_negated(config: &MetricConfig) -> bool {
    matches!(config, MetricConfig::Standard(metric) if metric.negate)
}

/// Whether a metric asks a model or runs a program.
fn asks(config: &MetricConfig) -> bool {
    !matches!(config, MetricConfig::Standard(metric) if !metric.metric.needs_judge())
}

/// Whether a metric reads the answer, and not only its latency or cost.
fn reads_answer(config: &MetricConfig) -> bool {
    !matches!(
        config,
        MetricConfig::Standard(metric)
            if matches!(metric.metric, StandardMetricName::Latency | StandardMetricName::Cost)
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
