use std::{sync::Arc, time::Duration};

use holodeck_backend_api::{
    AgentBackend, BackendError, BackendEvent, ExecutionResult, Spending, ToolUsage, TurnRequest, total_usage,
};
use holodeck_model::{
    CaseState, ExecutionState, FileInput, LoadedAgent, Redactor, TestCase, TestResult, ToolInvocation, Turn,
    TurnResult,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    FileReader, PlannedCase, Prices, Question, drive, grade::Graders, plan::case_id, redact::redact,
    turn::Driven,
};

/// Runs one case at a time, start to grade.
pub(crate) struct Executor {
    pub(crate) agent: Arc<LoadedAgent>,
    pub(crate) backend: Arc<dyn AgentBackend>,
    pub(crate) graders: Graders,
    pub(crate) prices: Prices,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) files: FileReader,
    pub(crate) timeout: Duration,
    /// What set the time-out, for its message.
    pub(crate) timeout_source: String,
    pub(crate) notices: tokio::sync::mpsc::UnboundedSender<String>,
}

/// Why a question can't be asked: its files.
enum Unread {
    Problems(Vec<String>),
    Cancelled,
}

/// How a case ended.
pub(crate) enum CaseEnd {
    /// It has a result.
    Finished {
        result: Box<TestResult>,
        /// Why no other case will succeed either, if that is so.
        hopeless: Option<Hopeless>,
    },
    /// It was stopped before it had one; it counts as not run.
    Stopped,
}

/// Why other cases will end as this one did.
pub(crate) enum Hopeless {
    /// The endpoint refused the credentials: certain after one case.
    Credentials(String),
    /// The endpoint was not reached: certain after several cases.
    Unreached(String),
}

/// Bytes of answers up to which grading is too short to be felt by other cases, which share the thread.
const GRADED_IN_PLACE: usize = 4 * 1024;

impl Executor {
    pub(crate) async fn run(self: Arc<Self>, planned: &PlannedCase, cancel: CancellationToken) -> CaseEnd {
        let Some(case) = self.agent.config.test_cases.get(planned.index) else {
            return CaseEnd::Stopped;
        };
        let end = if case.turns.is_empty() {
            self.single(planned, case, cancel).await
        } else {
            self.conversation(planned, case, cancel).await
        };
        match end {
            CaseEnd::Finished { result, hopeless } => CaseEnd::Finished {
                result: Arc::clone(&self).finish(result).await,
                hopeless,
            },
            CaseEnd::Stopped => CaseEnd::Stopped,
        }
    }

    /// Grades; long texts on a thread of their own, so that no other case's clock runs on meanwhile.
    async fn finish(self: Arc<Self>, mut result: Box<TestResult>) -> Box<TestResult> {
        if size(&result) <= GRADED_IN_PLACE {
            self.grade(&mut result);
            return result;
        }
        let grading = tokio::task::spawn_blocking(move || {
            self.grade(&mut result);
            result
        });
        match grading.await {
            Ok(result) => result,
            // A panic is the case's, as it would be here.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that ends cancels it, and then nobody waits.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn grade(&self, result: &mut TestResult) {
        if let Some(case) = self.agent.config.test_cases.get(result.index) {
            self.graders.grade(result, case);
        }
        redact(&self.redactor, result);
        result.timestamp = Timestamp::now().to_string();
    }

    async fn single(&self, planned: &PlannedCase, case: &TestCase, cancel: CancellationToken) -> CaseEnd {
        let input = case.input.clone().unwrap_or_default();
        let mut result = blank(planned, case);
        let asked = self.question(&input, &case.files, &cancel, &mut result).await;
        let mut request = match asked {
            Ok(request) => request,
            Err(Unread::Cancelled) => return CaseEnd::Stopped,
            Err(Unread::Problems(problems)) => {
                result.test_input = input;
                result.execution = ExecutionState::Error;
                result.execution_errors = problems;
                return CaseEnd::Finished {
                    result: Box::new(result),
                    hopeless: None,
                };
            }
        };
        request.unit = Some(planned.label.clone());
        request.cancel = cancel;
        let spending = request.spending.clone();
        let driven = drive(self.backend.start(request), Some(self.timeout), |event| {
            self.hear(event);
        })
        .await;
        if matches!(driven.error, Some(BackendError::Cancelled)) {
            return CaseEnd::Stopped;
        }
        let hopeless = driven.error.as_ref().and_then(Hopeless::of);
        let turn = self.turn(0, &input, driven, &spending);
        result.test_input = input;
        result.agent_response = turn.response;
        result.tool_calls = turn.tool_calls;
        result.tool_invocations = turn.tool_invocations;
        result.execution = turn.execution;
        result.execution_time_ms = turn.execution_time_ms;
        result.latency_ms = turn.latency_ms;
        result.execution_errors = turn.execution_errors;
        result.token_usage = turn.token_usage;
        result.cost_usd = turn.cost_usd;
        result.num_turns = turn.num_turns;
        result.structured_output = turn.structured_output;
        CaseEnd::Finished {
            result: Box::new(result),
            hopeless,
        }
    }

    async fn conversation(
        &self,
        planned: &PlannedCase,
        case: &TestCase,
        cancel: CancellationToken,
    ) -> CaseEnd {
        let mut result = blank(planned, case);
        result.test_input = case
            .turns
            .iter()
            .map(|turn| turn.input.as_str())
            .collect::<Vec<_>>()
            .join("\n---\n");
        let mut session = match self.backend.create_session().await {
            Ok(session) => session,
            Err(BackendError::Cancelled) => return CaseEnd::Stopped,
            Err(error) => {
                result.execution = ExecutionState::Error;
                result.execution_errors.push(self.explain(&error));
                return CaseEnd::Finished {
                    result: Box::new(result),
                    hopeless: Hopeless::of(&error),
                };
            }
        };
        let mut turns = Vec::with_capacity(case.turns.len());
        let mut hopeless = None;
        let mut failures_in_a_row = 0;
        for (index, turn) in case.turns.iter().enumerate() {
            if hopeless.is_some() || failures_in_a_row >= 2 {
                turns.push(skipped(index, turn));
                continue;
            }
            let asked = self
                .question(&turn.input, &turn.files, &cancel, &mut result)
                .await;
            let mut request = match asked {
                Ok(request) => request,
                Err(Unread::Cancelled) => return CaseEnd::Stopped,
                Err(Unread::Problems(problems)) => {
                    failures_in_a_row += 1;
                    turns.push(unread(index, turn, problems));
                    continue;
                }
            };
            request.unit = Some(format!("{} · turn {}", planned.label, index + 1));
            request.cancel = cancel.clone();
            let spending = request.spending.clone();
            let driven = drive(session.turn(request), Some(self.timeout), |event| {
                self.hear(event);
            })
            .await;
            match &driven.error {
                Some(BackendError::Cancelled) => return CaseEnd::Stopped,
                Some(error) => {
                    failures_in_a_row += 1;
                    hopeless = Hopeless::of(error);
                }
                None => failures_in_a_row = 0,
            }
            turns.push(self.turn(index, &turn.input, driven, &spending));
        }
        if let Err(error) = session.close().await {
            result
                .execution_errors
                .push(format!("closing the conversation: {error}"));
        }
        roll_up(&mut result, turns);
        CaseEnd::Finished {
            result: Box::new(result),
            hopeless,
        }
    }

    /// The request for a question with its files. What became of them is noted in `result`.
    async fn question(
        &self,
        input: &str,
        files: &[FileInput],
        cancel: &CancellationToken,
        result: &mut TestResult,
    ) -> Result<TurnRequest, Unread> {
        if files.is_empty() {
            return Ok(TurnRequest::new(input));
        }
        let Question {
            message,
            images,
            processed,
            problems,
        } = self.files.question(input, files, cancel).await;
        if cancel.is_cancelled() {
            return Err(Unread::Cancelled);
        }
        result.processed_files.extend(processed);
        if !problems.is_empty() {
            return Err(Unread::Problems(problems));
        }
        Ok(TurnRequest {
            images,
            ..TurnRequest::new(message)
        })
    }

    fn hear(&self, event: &BackendEvent) {
        if let BackendEvent::Notice { message } = event {
            // Nobody listening means that the run is over.
            let _ = self.notices.send(message.clone());
        }
    }

    /// What a driven turn came to, without its expectations and grades.
    fn turn(&self, index: usize, input: &str, driven: Driven, spending: &Spending) -> TurnResult {
        let Driven {
            result,
            error,
            elapsed,
        } = driven;
        let execution = match &error {
            Some(_) => ExecutionState::Error,
            None if result.outcome.is_agent_failure() => ExecutionState::AgentFailed,
            None if result.is_error() => ExecutionState::Error,
            None => ExecutionState::Completed,
        };
        let mut errors = Vec::new();
        match &error {
            Some(error) => errors.push(self.explain(error)),
            None => errors.extend(result.error_reason().map(std::borrow::Cow::into_owned)),
        }
        let by_tools = spending.take();
        let cost_usd = self.cost(&result, &by_tools);
        let latency = elapsed + result.recorded_latency.unwrap_or_default();
        TurnResult {
            turn_index: index,
            input: input.to_owned(),
            ground_truth: None,
            expected_tools: None,
            tool_calls: result.tool_calls.iter().map(|call| call.name.clone()).collect(),
            tool_invocations: invocations(&result),
            tools_matched: None,
            arg_match_details: None,
            metric_results: Vec::new(),
            passed: false,
            state: CaseState::Unchecked,
            execution,
            execution_time_ms: millis(elapsed),
            latency_ms: Some(millis(latency)),
            token_usage: total_usage(result.token_usage, result.num_turns, &by_tools),
            cost_usd,
            num_turns: result.num_turns,
            response: (error.is_none() || !result.response.is_empty()).then_some(result.response),
            structured_output: result.structured_output,
            retrieval_context: None,
            errors: Vec::new(),
            execution_errors: errors,
            skipped: false,
            grader_details: None,
        }
    }

    /// What a turn cost, with what its tools asked models; each by the price of its own model.
    fn cost(&self, result: &ExecutionResult, by_tools: &[ToolUsage]) -> Option<f64> {
        let own = ToolUsage {
            model: self.agent.config.model.name.clone(),
            answered_by: result.model.clone(),
            usage: result.token_usage,
        };
        // Without a call of its own that came to an answer there is nothing to pay.
        let own = (own.usage.is_some() || result.num_turns > 0 || by_tools.is_empty()).then_some(&own);
        let mut total = 0.0;
        for spent in own.into_iter().chain(by_tools) {
            let usage = spent.usage.as_ref()?;
            total += self
                .prices
                .cost(&spent.model, usage)
                .or_else(|| self.prices.cost(spent.answered_by.as_deref()?, usage))?;
        }
        Some(total)
    }

    fn explain(&self, error: &BackendError) -> String {
        match error {
            BackendError::Timeout { after, .. } => {
                format!("{error} ({} s, {})", after.as_secs_f64(), self.timeout_source)
            }
            BackendError::Tool { reason, .. } => format!("{error} ({reason})"),
            other => other.to_string(),
        }
    }
}

/// Bytes that metrics will read, about.
fn size(result: &TestResult) -> usize {
    let turns = result.turns.iter().flatten();
    let answers = turns.filter_map(|turn| turn.response.as_ref());
    let answers: usize = answers.map(String::len).sum();
    answers + result.agent_response.as_ref().map_or(0, String::len)
}

impl Hopeless {
    fn of(error: &BackendError) -> Option<Self> {
        if error.is_credentials() {
            Some(Self::Credentials(error.to_string()))
        } else if error.is_unreachable() {
            Some(Self::Unreached(error.to_string()))
        } else {
            None
        }
    }
}

fn blank(planned: &PlannedCase, case: &TestCase) -> TestResult {
    TestResult {
        index: planned.index,
        case_id: case_id(case),
        test_name: case.name.clone(),
        test_input: String::new(),
        processed_files: Vec::new(),
        agent_response: None,
        tool_calls: Vec::new(),
        tool_invocations: Vec::new(),
        expected_tools: None,
        tools_matched: None,
        metric_results: Vec::new(),
        ground_truth: None,
        passed: false,
        state: CaseState::Unchecked,
        execution: ExecutionState::Completed,
        execution_time_ms: 0,
        latency_ms: None,
        errors: Vec::new(),
        execution_errors: Vec::new(),
        timestamp: String::new(),
        token_usage: None,
        cost_usd: None,
        num_turns: 0,
        model: None,
        structured_output: None,
        retrieval_context: None,
        turns: None,
    }
}

/// A case that crashed inside us: an error with a name, never a lost case.
pub(crate) fn crashed(planned: &PlannedCase, case: &TestCase, what: &str) -> TestResult {
    let mut result = blank(planned, case);
    result.test_input = case.input.clone().unwrap_or_default();
    result.state = CaseState::Error;
    result.execution = ExecutionState::Error;
    result.execution_errors.push(format!("internal error: {what}"));
    result.errors.clone_from(&result.execution_errors);
    result.timestamp = Timestamp::now().to_string();
    result
}

/// A turn that was not asked because its files could not be read.
fn unread(index: usize, turn: &Turn, problems: Vec<String>) -> TurnResult {
    TurnResult {
        execution: ExecutionState::Error,
        execution_errors: problems,
        skipped: false,
        ..skipped(index, turn)
    }
}

fn skipped(index: usize, turn: &Turn) -> TurnResult {
    TurnResult {
        turn_index: index,
        input: turn.input.clone(),
        response: None,
        ground_truth: None,
        expected_tools: None,
        tool_calls: Vec::new(),
        tool_invocations: Vec::new(),
        tools_matched: None,
        arg_match_details: None,
        metric_results: Vec::new(),
        passed: false,
        state: CaseState::Error,
        execution: ExecutionState::Skipped,
        execution_time_ms: 0,
        latency_ms: None,
        token_usage: None,
        cost_usd: None,
        num_turns: 0,
        structured_output: None,
        retrieval_context: None,
        errors: Vec::new(),
        execution_errors: vec!["not run: the turns before it could not be ended".to_owned()],
        skipped: true,
        grader_details: None,
    }
}

/// What the turns together mean for the case, before grading.
fn roll_up(result: &mut TestResult, turns: Vec<TurnResult>) {
    for turn in &turns {
        result.tool_calls.extend(turn.tool_calls.iter().cloned());
        result
            .tool_invocations
            .extend(turn.tool_invocations.iter().cloned());
        result.execution_time_ms += turn.execution_time_ms;
        if let Some(latency) = turn.latency_ms {
            *result.latency_ms.get_or_insert(0) += latency;
        }
        match (&mut result.token_usage, turn.token_usage) {
            (Some(total), Some(usage)) => *total += usage,
            (none, Some(usage)) => *none = Some(usage),
            (_, None) => {}
        }
        if let Some(cost) = turn.cost_usd {
            *result.cost_usd.get_or_insert(0.0) += cost;
        }
        result.num_turns += turn.num_turns;
        result.execution = worse(result.execution, turn.execution);
    }
    // One turn without usage makes the sum a guess; a guess is worse than nothing.
    if turns
        .iter()
        .any(|turn| turn.num_turns > 0 && turn.token_usage.is_none())
    {
        result.token_usage = None;
    }
    if turns
        .iter()
        .any(|turn| turn.num_turns > 0 && turn.cost_usd.is_none())
    {
        result.cost_usd = None;
    }
    result.agent_response = turns.iter().rev().find_map(|turn| turn.response.clone());
    result.turns = Some(turns);
}

fn worse(a: ExecutionState, b: ExecutionState) -> ExecutionState {
    let rank = |state| match state {
        ExecutionState::Completed => 0,
        ExecutionState::AgentFailed => 1,
        ExecutionState::Skipped => 2,
        ExecutionState::Error => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

fn invocations(result: &ExecutionResult) -> Vec<ToolInvocation> {
    result
        .tool_calls
        .iter()
        .map(|call| {
            let answer = result
                .tool_results
                .iter()
                .find(|answer| answer.call_id == call.call_id);
            let value = answer.map_or(Value::Null, |answer| Value::String(answer.result.clone()));
            ToolInvocation {
                name: call.name.clone(),
                args: call.arguments.clone(),
                bytes: value.to_string().len(),
                duration_ms: answer.and_then(|answer| answer.duration_ms),
                error: match answer {
                    None => Some("no result received".to_owned()),
                    Some(answer) => answer.is_error.then(|| answer.result.clone()),
                },
                result: value,
            }
        })
        .collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
