use std::time::Duration;

use holodeck_eval::{CalledTool, EvalInput, Grader, MetricOutcome, ToolExpectations, Verdict, check_tools};
use holodeck_model::{
    ArgMatchDetail, CaseState, ExecutionState, LoadedAgent, MetricConfig, MetricResult, TestCase, TestResult,
    ToolInvocation, ToolNames, Turn, TurnResult,
};

/// The checks of an agent. Those that all cases share are made ready once; a case with checks of its own has them made
/// ready when it is graded, so that memory does not grow with the number of cases.
pub(crate) struct Graders {
    shared: Grader,
    names: ToolNames,
}

impl Graders {
    pub(crate) fn new(agent: &LoadedAgent) -> Result<Self, String> {
        let metrics = agent
            .config
            .evaluations
            .as_ref()
            .map_or(&[][..], |evaluations| &evaluations.metrics);
        Ok(Self {
            shared: Grader::new(metrics).map_err(|error| error.to_string())?,
            names: ToolNames::of(&agent.config),
        })
    }

    /// Grades a case with the checks it has now. What an earlier grading found is forgotten.
    pub(crate) fn grade(&self, result: &mut TestResult, case: &TestCase) {
        result.ground_truth.clone_from(&case.ground_truth);
        result.expected_tools = as_written(case.expected_tools.as_ref());
        match result.turns.take() {
            None => {
                let expectations = ToolExpectations {
                    expected: case.expected_tools.as_deref().unwrap_or_default(),
                    order: case.expected_tools_order,
                    forbidden: &case.forbidden_tools,
                    names: Some(&self.names),
                };
                let found = || retrieved(&result.tool_invocations);
                result.retrieval_context = case.retrieval_context.clone().or_else(found);
                let subject = Subject::case(result, case);
                let grades = self.judge(&subject, own_metrics(case, None), &expectations);
                result.tools_matched = grades.tools_matched;
                result.metric_results = grades.metrics;
                result.errors = joined(&result.execution_errors, grades.errors);
                result.state = grades.state;
            }
            Some(mut turns) => {
                result.retrieval_context = None;
                let mut so_far = Vec::new();
                for (graded, turn) in turns.iter_mut().zip(&case.turns) {
                    let found = retrieved(&graded.tool_invocations);
                    so_far.extend(found.iter().flatten().cloned());
                    let known = || (!so_far.is_empty()).then(|| so_far.clone());
                    graded.retrieval_context = turn.retrieval_context.clone().or(found).or_else(known);
                    self.grade_turn(graded, case, turn);
                }
                roll_up(result, &turns);
                result.turns = Some(turns);
            }
        }
        result.passed = result.state == CaseState::Passed;
    }

    fn grade_turn(&self, graded: &mut TurnResult, case: &TestCase, turn: &Turn) {
        graded.ground_truth.clone_from(&turn.ground_truth);
        graded.expected_tools = as_written(turn.expected_tools.as_ref());
        let expectations = ToolExpectations {
            expected: turn.expected_tools.as_deref().unwrap_or_default(),
            order: turn.expected_tools_order,
            forbidden: &turn.forbidden_tools,
            names: Some(&self.names),
        };
        let grades = self.judge(
            &Subject::turn(graded, turn),
            own_metrics(case, Some(turn)),
            &expectations,
        );
        graded.tools_matched = grades.tools_matched;
        graded.arg_match_details = (!grades.details.is_empty()).then_some(grades.details);
        graded.metric_results = grades.metrics;
        graded.errors = joined(&graded.execution_errors, grades.errors);
        graded.state = grades.state;
        graded.passed = grades.state == CaseState::Passed;
    }

    fn judge(
        &self,
        subject: &Subject<'_>,
        own: Option<&[MetricConfig]>,
        tools: &ToolExpectations<'_>,
    ) -> Grades {
        match subject.execution {
            ExecutionState::Completed => {}
            // There is no answer to grade: the agent fell short, or nobody knows.
            ExecutionState::AgentFailed => return Grades::without_answer(CaseState::Failed),
            ExecutionState::Error | ExecutionState::Skipped => {
                return Grades::without_answer(CaseState::Error);
            }
        }
        let calls: Vec<CalledTool<'_>> = subject.invocations.iter().map(CalledTool::from).collect();
        let input = subject.eval_input(&calls);
        let outcomes = match own.map(Grader::new) {
            None => self.shared.grade(&input),
            Some(Ok(grader)) => grader.grade(&input),
            Some(Err(error)) => {
                let mut grades = Grades::without_answer(CaseState::Error);
                grades.errors.push(error.to_string());
                return grades;
            }
        };
        let tools = check_tools(tools, &calls);
        let mut grades = Grades {
            state: state(tools.matched, &outcomes),
            tools_matched: tools.matched,
            details: tools.details,
            errors: tools.errors,
            metrics: Vec::new(),
        };
        grades.metrics = outcomes.into_iter().map(metric_result).collect();
        grades
    }
}

/// The passages that tools retrieved, in the order of the calls, the best of each first.
fn retrieved(calls: &[ToolInvocation]) -> Option<Vec<String>> {
    let ran = calls.iter().filter(|call| call.error.is_none());
    let passages = ran.flat_map(|call| &call.details.passages);
    let found: Vec<String> = passages.map(|passage| passage.text.clone()).collect();
    (!found.is_empty()).then_some(found)
}

/// Whether every test ran and only metrics stand between the case and a verdict.
pub(crate) fn only_metrics_erred(result: &TestResult) -> bool {
    result.state == CaseState::Error && result.execution == ExecutionState::Completed
}

/// What grading found.
struct Grades {
    tools_matched: Option<bool>,
    details: Vec<ArgMatchDetail>,
    metrics: Vec<MetricResult>,
    errors: Vec<String>,
    state: CaseState,
}

impl Grades {
    fn without_answer(state: CaseState) -> Self {
        Self {
            tools_matched: None,
            details: Vec::new(),
            metrics: Vec::new(),
            errors: Vec::new(),
            state,
        }
    }
}

/// A missed gate is certain whatever else could not be told; an unknown verdict is never a pass.
fn state(tools_matched: Option<bool>, outcomes: &[MetricOutcome]) -> CaseState {
    let any = |verdict| outcomes.iter().any(|outcome| outcome.verdict == verdict);
    if tools_matched == Some(false) || any(Verdict::Failed) {
        CaseState::Failed
    } else if any(Verdict::Error) {
        CaseState::Error
    } else if tools_matched == Some(true) || any(Verdict::Passed) {
        CaseState::Passed
    } else {
        CaseState::Unchecked
    }
}

/// What is graded: one turn, or a case without turns.
struct Subject<'a> {
    execution: ExecutionState,
    input: &'a str,
    response: &'a str,
    structured_output: Option<&'a serde_json::Value>,
    ground_truth: Option<&'a str>,
    retrieval_context: Option<&'a [String]>,
    invocations: &'a [ToolInvocation],
    latency_ms: Option<u64>,
    cost_usd: Option<f64>,
}

impl<'a> Subject<'a> {
    fn case(result: &'a TestResult, case: &'a TestCase) -> Self {
        Self {
            execution: result.execution,
            input: &result.test_input,
            response: result.agent_response.as_deref().unwrap_or_default(),
            structured_output: result.structured_output.as_ref(),
            ground_truth: case.ground_truth.as_deref(),
            retrieval_context: result.retrieval_context.as_deref(),
            invocations: &result.tool_invocations,
            latency_ms: result.latency_ms,
            cost_usd: result.cost_usd,
        }
    }

    fn turn(result: &'a TurnResult, turn: &'a Turn) -> Self {
        Self {
            execution: result.execution,
            input: &result.input,
            response: result.response.as_deref().unwrap_or_default(),
            structured_output: result.structured_output.as_ref(),
            ground_truth: turn.ground_truth.as_deref(),
            retrieval_context: result.retrieval_context.as_deref(),
            invocations: &result.tool_invocations,
            latency_ms: result.latency_ms,
            cost_usd: result.cost_usd,
        }
    }

    fn eval_input<'b>(&'b self, calls: &'b [CalledTool<'b>]) -> EvalInput<'b> {
        EvalInput {
            input: self.input,
            response: self.response,
            structured_output: self.structured_output,
            ground_truth: self.ground_truth,
            retrieval_context: self.retrieval_context,
            tool_calls: calls,
            latency: self.latency_ms.map(Duration::from_millis),
            cost_usd: self.cost_usd,
        }
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

/// The checks of the turn or the case; `None` where those of the agent apply.
fn own_metrics<'a>(case: &'a TestCase, turn: Option<&'a Turn>) -> Option<&'a [MetricConfig]> {
    turn.map(|turn| turn.evaluations.as_slice())
        .filter(|metrics| !metrics.is_empty())
        .or_else(|| Some(case.evaluations.as_slice()).filter(|metrics| !metrics.is_empty()))
}

/// What the turns together mean for the case.
fn roll_up(result: &mut TestResult, turns: &[TurnResult]) {
    let any = |state| turns.iter().any(|turn| turn.state == state);
    result.state = if any(CaseState::Failed) {
        CaseState::Failed
    } else if any(CaseState::Error) || result.execution == ExecutionState::Error {
        CaseState::Error
    } else if any(CaseState::Passed) {
        CaseState::Passed
    } else {
        CaseState::Unchecked
    };
    let matched: Vec<bool> = turns.iter().filter_map(|turn| turn.tools_matched).collect();
    result.tools_matched = (!matched.is_empty()).then(|| matched.iter().all(|&matched| matched));
    result.metric_results = mean_metrics(turns);
    result.errors = result.execution_errors.clone();
    for turn in turns {
        result.errors.extend(
            turn.errors
                .iter()
                .map(|error| format!("turn {}: {error}", turn.turn_index + 1)),
        );
    }
}

/// Each metric's mean over the turns that ran it. The n-th metric of a name is one metric: a name may appear twice with
/// different options.
fn mean_metrics(turns: &[TurnResult]) -> Vec<MetricResult> {
    let mut groups: Vec<((String, usize), Vec<&MetricResult>)> = Vec::new();
    for turn in turns {
        let mut seen: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
        for metric in &turn.metric_results {
            let nth = seen.entry(&metric.metric_name).or_default();
            let key = (metric.metric_name.clone(), *nth);
            *nth += 1;
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.push(metric),
                None => groups.push((key, vec![metric])),
            }
        }
    }
    groups.into_iter().filter_map(|(_, group)| mean(&group)).collect()
}

fn mean(group: &[&MetricResult]) -> Option<MetricResult> {
    let mut result = (*group.first()?).clone();
    let scores: Vec<f64> = group.iter().filter_map(|metric| metric.score).collect();
    let error = group.iter().find_map(|metric| metric.error.clone());
    // A mean over the turns that could be graded would hide the others.
    result.score =
        (error.is_none() && !scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
    result.error = error;
    let verdicts: Vec<bool> = group.iter().filter_map(|metric| metric.passed).collect();
    result.passed = if verdicts.contains(&false) {
        Some(false)
    } else if result.error.is_some() || verdicts.is_empty() {
        None
    } else {
        Some(true)
    };
    result.evaluation_time_ms = Some(group.iter().filter_map(|metric| metric.evaluation_time_ms).sum());
    result.reasoning = None;
    Some(result)
}

fn as_written(tools: Option<&Vec<holodeck_model::ExpectedTool>>) -> Option<serde_json::Value> {
    tools.and_then(|tools| serde_json::to_value(tools).ok())
}

fn joined(first: &[String], second: Vec<String>) -> Vec<String> {
    first.iter().cloned().chain(second).collect()
}
