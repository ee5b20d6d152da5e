use std::time::Duration;

use holodeck_backend_api::{ToolCall, ToolResult};
use holodeck_eval::{
    CalledTool, EvalInput, Grader, MetricOutcome, ToolExpectations, ToolsOutcome, Verdict, check_tools,
};
use holodeck_model::{
    ArgMatchDetail, CaseState, ExecutionState, ExpectedTool, Failure, FailureKind, LoadedAgent, MetricConfig,
    MetricResult, OnTruncated, OneOrMany, StandardMetric, StandardMetricName, TestCase, ToolNames, ToolOrder,
};
use holodeck_turn::TurnRecord;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{
    plan::hex,
    record::{Grade, TurnGrade, UnitRecord},
};

/// The checks of an agent. Those that all cases share are made ready once; a case with checks of its own has them made
/// ready when it is graded, so that memory does not grow with the number of cases.
pub(crate) struct Graders {
    shared: Grader,
    shared_configs: Vec<MetricConfig>,
    shared_fingerprint: String,
    names: ToolNames,
    on_truncated: OnTruncated,
}

/// Whether the checks see the answer as it was given.
#[derive(Clone, Copy)]
pub(crate) enum Sight<'a> {
    /// They do, and the record will have it too.
    Whole,
    /// They do, but the record will have it masked: their fingerprints are kept with the verdicts.
    BeforeMasking,
    /// The record is masked where it says so; this is what the checks found before.
    Masked(Option<&'a Grade>),
}

/// What is expected of one turn: of a case without turns, or of a turn of a conversation.
#[derive(Clone, Copy, Serialize)]
struct Expectations<'a> {
    ground_truth: Option<&'a str>,
    expected_tools: Option<&'a [ExpectedTool]>,
    expected_tools_order: ToolOrder,
    forbidden_tools: &'a [String],
    retrieval_context: Option<&'a [String]>,
    /// Checks of its own; those of the agent apply where there are none.
    evaluations: &'a [MetricConfig],
}

impl Graders {
    pub(crate) fn new(agent: &LoadedAgent) -> Result<Self, String> {
        let metrics = agent
            .config
            .evaluations
            .as_ref()
            .map_or(&[][..], |evaluations| &evaluations.metrics);
        let on_truncated = agent.execution.on_truncated.value;
        Ok(Self {
            shared: Grader::new(metrics).map_err(|error| error.to_string())?,
            shared_configs: metrics.to_vec(),
            shared_fingerprint: fingerprint(&(metrics, on_truncated)),
            names: ToolNames::of(&agent.config),
            on_truncated,
        })
    }

    /// Fingerprint of the checks of a case.
    pub(crate) fn fingerprint(&self, case: &TestCase) -> String {
        fingerprint(&(&self.shared_fingerprint, expectations(case)))
    }

    /// Grades a unit with the checks that its case has now.
    pub(crate) fn grade(&self, unit: &UnitRecord, case: &TestCase, sight: Sight<'_>) -> Grade {
        let mut so_far = Vec::new();
        let mut turns = Vec::with_capacity(unit.turns.len());
        for (place, (turn, expected)) in unit.turns.iter().zip(expectations(case)).enumerate() {
            let found = retrieved(turn);
            so_far.extend(found.iter().flatten().cloned());
            let known = || (!so_far.is_empty()).then(|| so_far.clone());
            let context = expected.retrieval_context.map(<[String]>::to_vec);
            let recorded = match sight {
                Sight::Masked(Some(grade)) => grade.turns.get(place),
                _ => None,
            };
            let subject = Subject {
                turn,
                expected,
                retrieval_context: context.or(found).or_else(known),
                names: &self.names,
                sight,
                recorded,
            };
            turns.push(self.grade_turn(subject));
        }
        Grade::of_turns(self.fingerprint(case), unit, turns)
    }

    fn grade_turn(&self, subject: Subject<'_>) -> TurnGrade {
        let turn = subject.turn;
        let bare = |state| TurnGrade {
            retrieval_context: subject.retrieval_context.clone(),
            ..TurnGrade::bare(state)
        };
        match turn.state {
            ExecutionState::Completed => {}
            // There is no answer to grade: the agent fell short, or nothing is known.
            ExecutionState::AgentFailed => return bare(CaseState::Failed),
            ExecutionState::Error | ExecutionState::Skipped => return bare(CaseState::Error),
        }
        let own;
        let (grader, configs) = match subject.expected.evaluations {
            [] => (&self.shared, self.shared_configs.as_slice()),
            configs => match Grader::new(configs) {
                Ok(grader) => {
                    own = grader;
                    (&own, configs)
                }
                Err(error) => {
                    let mut grade = bare(CaseState::Error);
                    let failure = Failure::new(FailureKind::Checks, error.to_string());
                    grade.failures.push(failure);
                    return grade;
                }
            },
        };
        let configs: Vec<&MetricConfig> = configs.iter().filter(|config| config.enabled()).collect();
        let calls: Vec<CalledTool<'_>> = turn.result.calls().map(called).collect();
        let outcomes = grader.grade(&subject.eval_input(&calls));
        let metrics: Vec<MetricResult> = outcomes
            .into_iter()
            .zip(&configs)
            .map(|(outcome, config)| subject.metric(outcome, config))
            .collect();
        let tools = subject.tools(&calls);
        let mut failures = tools.failures;
        let mut state = state(tools.matched, tools.unknown, &metrics);
        if turn.truncated && self.on_truncated == OnTruncated::Fail {
            failures.push(Failure::new(
                FailureKind::Truncated,
                "answer truncated at max_tokens",
            ));
            state = CaseState::Failed;
        }
        TurnGrade {
            state,
            tools_matched: tools.matched,
            arg_match_details: tools.details,
            metrics,
            failures,
            checks: subject.fingerprints(&configs),
            retrieval_context: subject.retrieval_context,
        }
    }
}

fn called<'a>((call, result): (&'a ToolCall, Option<&'a ToolResult>)) -> CalledTool<'a> {
    CalledTool::with_result(call, result)
}

/// The passages that tools retrieved, in the order of the results, the best of each first.
fn retrieved(turn: &TurnRecord) -> Option<Vec<String>> {
    let worked = turn.result.tool_results.iter().filter(|result| !result.is_error);
    let passages = worked.flat_map(|result| &result.details.passages);
    let found: Vec<String> = passages.map(|passage| passage.text.clone()).collect();
    (!found.is_empty()).then_some(found)
}

/// A missed gate is certain whatever else is not known; an unknown verdict is never a pass.
fn state(tools_matched: Option<bool>, tools_unknown: bool, metrics: &[MetricResult]) -> CaseState {
    let any = |passed| metrics.iter().any(|metric| metric.passed == Some(passed));
    if tools_matched == Some(false) || any(false) {
        CaseState::Failed
    } else if tools_unknown || metrics.iter().any(|metric| metric.error.is_some()) {
        CaseState::Error
    } else if tools_matched == Some(true) || any(true) {
        CaseState::Passed
    } else {
        CaseState::Unchecked
    }
}

/// A turn to grade.
struct Subject<'a> {
    turn: &'a TurnRecord,
    expected: Expectations<'a>,
    retrieval_context: Option<Vec<String>>,
    names: &'a ToolNames,
    sight: Sight<'a>,
    recorded: Option<&'a TurnGrade>,
}

/// What the expectations about tools came to.
#[derive(Default)]
struct Tools {
    matched: Option<bool>,
    /// Whether it can no longer be found out.
    unknown: bool,
    details: Vec<ArgMatchDetail>,
    failures: Vec<Failure>,
}

impl Subject<'_> {
    fn eval_input<'b>(&'b self, calls: &'b [CalledTool<'b>]) -> EvalInput<'b> {
        EvalInput {
            input: &self.turn.input,
            response: &self.turn.result.response,
            structured_output: self.turn.result.structured_output.as_ref(),
            ground_truth: self.expected.ground_truth,
            retrieval_context: self.retrieval_context.as_deref(),
            tool_calls: calls,
            latency: self.turn.latency_ms.map(Duration::from_millis),
            cost_usd: self.turn.cost_usd,
        }
    }

    /// The verdict of a metric, or the error that takes its place: where the answer was cut off, a text that must not
    /// be in it could be in the rest; where it was masked, in what was masked.
    fn metric(&self, outcome: MetricOutcome, config: &MetricConfig) -> MetricResult {
        if self.hides_answer() && reads_answer(config) {
            let check = self.check(config);
            if let Some(recorded) = self.recorded_check(&check) {
                return recorded.clone();
            }
            if !certain_in_part(&outcome, config) {
                return error_of(
                    outcome,
                    "the stored answer was masked, so a new or changed check cannot be computed; run the case again",
                );
            }
        }
        if self.turn.truncated
            && outcome.verdict == Verdict::Passed
            && is_negated(config)
            && reads_answer(config)
        {
            return error_of(
                outcome,
                "answer truncated at max_tokens: the missing text could contain what it must not",
            );
        }
        metric_result(outcome)
    }

    fn tools(&self, calls: &[CalledTool<'_>]) -> Tools {
        let expected = ToolExpectations {
            expected: self.expected.expected_tools.unwrap_or_default(),
            order: self.expected.expected_tools_order,
            forbidden: self.expected.forbidden_tools,
            names: Some(self.names),
        };
        let hidden = matches!(self.sight, Sight::Masked(_)) && !self.turn.redacted.arguments.is_empty();
        if hidden {
            let recorded = self
                .recorded
                .filter(|grade| grade.checks.first() == Some(&self.tools_check()));
            if let Some(grade) = recorded {
                let about_tools = |failure: &&Failure| failure.kind == FailureKind::Expectation;
                return Tools {
                    matched: grade.tools_matched,
                    unknown: false,
                    details: grade.arg_match_details.clone(),
                    failures: grade.failures.iter().filter(about_tools).cloned().collect(),
                };
            }
            let wants_arguments = expected.expected.iter().any(|tool| !tool.args.is_empty());
            if wants_arguments {
                let text = "the stored arguments were masked, so a new or changed expectation cannot be checked; \
                            run the case again";
                return Tools {
                    unknown: true,
                    failures: vec![Failure {
                        kind: FailureKind::Checks,
                        ..Failure::of_field("expected_tools", text)
                    }],
                    ..Tools::default()
                };
            }
        }
        let ToolsOutcome {
            matched,
            details,
            errors,
            ..
        } = check_tools(&expected, calls);
        Tools {
            matched,
            unknown: false,
            details,
            failures: errors.into_iter().map(|error| about_tools(&error)).collect(),
        }
    }

    /// Whether the answer as the checks see it is not the one that was given.
    fn hides_answer(&self) -> bool {
        let redacted = &self.turn.redacted;
        matches!(self.sight, Sight::Masked(_)) && (redacted.answer || redacted.object)
    }

    fn recorded_check(&self, check: &str) -> Option<&MetricResult> {
        let recorded = self.recorded?;
        let place = recorded.checks.iter().skip(1).position(|other| other == check)?;
        recorded.metrics.get(place)
    }

    fn check(&self, config: &MetricConfig) -> String {
        fingerprint(&(config, self.expected.ground_truth))
    }

    fn tools_check(&self) -> String {
        fingerprint(&Expectations {
            ground_truth: None,
            retrieval_context: None,
            evaluations: &[],
            ..self.expected
        })
    }

    /// The checks as the next grading recognises them, where it will not see what this one saw.
    fn fingerprints(&self, configs: &[&MetricConfig]) -> Vec<String> {
        let needed = match self.sight {
            Sight::Whole => false,
            Sight::BeforeMasking => true,
            Sight::Masked(_) => self.turn.redacted.concerns_checks(),
        };
        if !needed {
            return Vec::new();
        }
        let metrics = configs.iter().map(|config| self.check(config));
        std::iter::once(self.tools_check()).chain(metrics).collect()
    }
}

/// Whether the outcome is the same whatever was masked: a text that was found is there, and one that must not be there
/// and was found is there too.
fn certain_in_part(outcome: &MetricOutcome, config: &MetricConfig) -> bool {
    let MetricConfig::Standard(metric) = config else {
        return false;
    };
    let looks_for_a_part = matches!(
        metric.metric,
        StandardMetricName::Contains
            | StandardMetricName::ContainsAny
            | StandardMetricName::ContainsAll
            | StandardMetricName::Icontains
    );
    let found = match outcome.verdict {
        Verdict::Passed => !metric.negate,
        Verdict::Failed => metric.negate,
        Verdict::NotGated | Verdict::Error => false,
    };
    // Without the mask's own characters, and without blanks or punctuation taken away, which would join what it parts.
    let apart = !metric.strip_whitespace && !metric.strip_punctuation && !config_mentions_mask(metric);
    looks_for_a_part && found && apart && metric.response_path.is_none() && metric.threshold.is_none()
}

fn config_mentions_mask(metric: &StandardMetric) -> bool {
    match &metric.value {
        None => true,
        Some(OneOrMany::One(text)) => text.contains('*'),
        Some(OneOrMany::Many(texts)) => texts.iter().any(|text| text.contains('*')),
    }
}

fn is_negated(config: &MetricConfig) -> bool {
    matches!(config, MetricConfig::Standard(metric) if metric.negate)
}

/// Whether a metric looks at the answer, and not only at its latency or its cost.
fn reads_answer(config: &MetricConfig) -> bool {
    !matches!(
        config,
        MetricConfig::Standard(metric)
            if matches!(metric.metric, StandardMetricName::Latency | StandardMetricName::Cost)
    )
}

fn error_of(outcome: MetricOutcome, reason: &str) -> MetricResult {
    MetricResult {
        score: None,
        passed: None,
        error: Some(reason.to_owned()),
        reasoning: None,
        ..metric_result(outcome)
    }
}

fn metric_result(outcome: MetricOutcome) -> MetricResult {
    let passed = match outcome.verdict {
        Verdict::Passed => Some(true),
        Verdict::Failed => Some(false),
        Verdict::NotGated | Verdict::Error => None,
    };
    MetricResult {
        metric_name: outcome.name,
        kind: outcome.kind.as_str().to_owned(),
        score: outcome.score,
        threshold: outcome.threshold,
        passed,
        scale: "0-1".to_owned(),
        error: outcome.error.map(|error| error.to_string()),
        retry_count: 0,
        evaluation_time_ms: Some(outcome.evaluation_time.as_secs_f64() * 1e3),
        model_used: None,
        reasoning: outcome.reason,
    }
}

/// What is expected of each turn of a case; of one turn, if it has none.
fn expectations(case: &TestCase) -> Vec<Expectations<'_>> {
    if case.turns.is_empty() {
        return vec![Expectations {
            ground_truth: case.ground_truth.as_deref(),
            expected_tools: case.expected_tools.as_deref(),
            expected_tools_order: case.expected_tools_order,
            forbidden_tools: &case.forbidden_tools,
            retrieval_context: case.retrieval_context.as_deref(),
            evaluations: &case.evaluations,
        }];
    }
    case.turns
        .iter()
        .map(|turn| Expectations {
            ground_truth: turn.ground_truth.as_deref(),
            expected_tools: turn.expected_tools.as_deref(),
            expected_tools_order: turn.expected_tools_order,
            forbidden_tools: &turn.forbidden_tools,
            retrieval_context: turn.retrieval_context.as_deref(),
            evaluations: if turn.evaluations.is_empty() {
                &case.evaluations
            } else {
                &turn.evaluations
            },
        })
        .collect()
}

/// The field that an unmet expectation is about.
fn about_tools(error: &str) -> Failure {
    const BEGINNINGS: [(&str, &str); 4] = [
        ("expected tool(s) ", "expected_tools"),
        ("expected tools in the order ", "expected_tools_order"),
        ("forbidden tool ", "forbidden_tools"),
        ("expected ", "expected_tools"),
    ];
    let known = BEGINNINGS
        .iter()
        .find_map(|(beginning, field)| Some(Failure::of_field(field, error.strip_prefix(beginning)?)));
    known.unwrap_or_else(|| Failure::new(FailureKind::Expectation, error))
}

/// The beginning of a SHA-256 over a value as JSON.
fn fingerprint(value: &impl Serialize) -> String {
    struct Hasher(Sha256);
    impl std::io::Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(Sha256::new());
    // A configuration that was read from YAML is always JSON.
    let _ = serde_json::to_writer(&mut hasher, value);
    hex(hasher.0.finalize().iter().take(8))
}
