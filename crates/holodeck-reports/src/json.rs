//! The run file and the JSON report. Only this module converts a case to 0.7.1's `TestResult`.

use std::{
    cell::RefCell,
    io::{BufWriter, Write},
};

use holodeck_model::{
    CaseState, ExecutionState, Failure, MetricResult, TestResult, ToolInvocation, TurnResult,
};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _, SerializeSeq as _},
};
use serde_json::Value;

use crate::SummaryFold;
use crate::{PlannedResult, ReportError, RunView};
use holodeck_runs::{CallReport, CaseReport, ExitCode, Trials, TurnReport};

/// The totals over the cases of a run.
#[derive(Clone, Debug)]
pub struct Totals {
    /// The sums and means.
    pub summary: SummaryFold,
    /// The worst exit code of a case.
    pub exit: ExitCode,
}

/// Writes the report alone: 0.7.1's `TestReport` with additional fields.
pub(super) fn report(view: &RunView<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    pretty(&Report { view, totals: None }, out)
}

/// Writes the run file: 0.7.1's `EvalRun`, the report and metadata about the agent. The totals come after the cases and
/// are computed while the cases are written, so that those are read once; the totals in the head are ignored. Cases are
/// in the order of the file, not of the run, so that the same cases give the same sums.
pub fn run_file(view: &RunView<'_>, out: &mut dyn Write) -> Result<Totals, ReportError> {
    #[derive(Serialize)]
    struct RunFile<'v, 'a> {
        report: Report<'v, 'a>,
        metadata: &'v holodeck_model::RunMetadata,
    }
    let totals = RefCell::new(Totals {
        summary: SummaryFold::after(view.head.judge_steps),
        exit: ExitCode::Passed,
    });
    let report = Report {
        view,
        totals: Some(&totals),
    };
    pretty(
        &RunFile {
            report,
            metadata: view.metadata,
        },
        out,
    )?;
    Ok(totals.into_inner())
}

fn pretty(value: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    // The serializer makes many small writes, and `out` may be unbuffered.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// The fields of the head, with the streamed cases at the place where 0.7.1 has them.
struct Report<'v, 'a> {
    view: &'v RunView<'a>,
    /// Computed while the cases are written; if absent, the totals of the head are used.
    totals: Option<&'v RefCell<Totals>>,
}

impl Serialize for Report<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = serde_json::to_value(self.view.head).map_err(S::Error::custom)?;
        let Value::Object(head) = head else {
            return Err(S::Error::custom("a report head is an object"));
        };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &head {
            if key == "summary" {
                map.serialize_entry("results", &Cases(self))?;
                map.serialize_entry("not_run", &NotRunCases(self))?;
                if let Some(totals) = self.totals {
                    map.serialize_entry(key, &totals.borrow().summary.clone().finish())?;
                    continue;
                }
            }
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Cases<'v, 'a>(&'v Report<'v, 'a>);

impl Serialize for Cases<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for planned in self.0.view.planned() {
            let case = match planned.map_err(S::Error::custom)? {
                PlannedResult::Finished(case) => case,
                PlannedResult::NotRun(_) => {
                    if let Some(totals) = self.0.totals {
                        totals.borrow_mut().summary.observe_not_run();
                    }
                    continue;
                }
            };
            if let Some(totals) = self.0.totals {
                let mut totals = totals.borrow_mut();
                totals.exit = totals.exit.worse(case.exit().unwrap_or(ExitCode::Passed));
                totals.summary.observe(&case);
            }
            seq.serialize_element(&test_result(&case))?;
        }
        seq.end()
    }
}

/// Planned cases without a result.
struct NotRunCases<'v, 'a>(&'v Report<'v, 'a>);

impl Serialize for NotRunCases<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report { view, totals } = self.0;
        let mut seq = serializer.serialize_seq(None)?;
        // While the totals are computed, those of the head are not valid.
        let none = match totals {
            Some(totals) => totals.borrow().summary.not_run() == 0,
            None => view.head.summary.not_run == 0,
        };
        if !none {
            for planned in view.planned() {
                if let PlannedResult::NotRun(case) = planned.map_err(S::Error::custom)? {
                    seq.serialize_element(&case)?;
                }
            }
        }
        seq.end()
    }
}

/// A case in the format of the run file.
pub fn test_result(case: &CaseReport) -> TestResult {
    let failures = case.failures();
    let trials = case.trials.as_deref();
    let interval = trials.and_then(Trials::interval);
    let user = case.unit.user.as_ref();
    // Some fields apply only to a case without turns.
    let single = case.turns().next().filter(|turn| turn.number.is_none());
    let spent = case.spent();
    TestResult {
        index: case.index,
        case_id: case.unit.key.case.to_string(),
        content_id: case.unit.case.content.to_string(),
        deciders: case.deciders(),
        test_name: case.name.clone(),
        test_input: case.question().into_owned(),
        processed_files: case.turns().flat_map(|turn| turn.record.files.clone()).collect(),
        agent_response: case.answer().map(ToOwned::to_owned),
        tool_calls: case.calls().map(|call| call.call.name.clone()).collect(),
        tool_invocations: case.calls().map(invocation).collect(),
        expected_tools: case.expected.tools.clone(),
        tools_matched: case.tools_matched(),
        approval_details: case.approvals().to_vec(),
        metric_results: case.metrics().into_owned(),
        ground_truth: case.expected.ground_truth.clone(),
        score: case.grade.score,
        tags: case.tags.clone(),
        passed: case.state() == CaseState::Passed,
        state: case.state(),
        execution: case.execution(),
        executor: case.executors().last().map(|executor| Box::new(executor.clone())),
        execution_time_ms: case.elapsed_ms(),
        latency_ms: case
            .turns()
            .filter_map(|turn| turn.record.latency_ms)
            .reduce(|sum, this| sum + this),
        errors: failures.iter().map(Failure::line).collect(),
        failures,
        timestamp: case.unit.at.clone(),
        token_usage: spent.tokens,
        cost_usd: spent.cost_usd,
        judge_usage: case.judging().tokens,
        judge_cost_usd: case.judging().cost_usd,
        quality_loop: case.quality_loop().cloned(),
        ended_by: case.ended_by().map(ToOwned::to_owned),
        user_closing: user.and_then(|user| user.closing.clone()),
        user_model: user.and_then(|user| user.model.clone()),
        user_usage: case.user_spent().tokens,
        user_cost_usd: case.user_spent().cost_usd,
        num_turns: u32::try_from(spent.calls).unwrap_or(u32::MAX),
        model: case.model().map(ToOwned::to_owned),
        truncated: case.is_truncated(),
        truncated_by: case.truncations().into_iter().collect(),
        redacted: case.is_redacted(),
        structured_output: single.and_then(|turn| turn.record.result.structured_output.clone()),
        retrieval_context: single.and_then(|turn| turn.grade.retrieval_context.clone()),
        turns: case
            .unit
            .conversation
            .then(|| case.turns().enumerate().map(turn_result).collect()),
        trials: trials.map(Trials::counted),
        trials_passed: trials.map(|trials| trials.passed),
        trial_errors: trials.map(|trials| trials.errors),
        min_passes: trials.map(|trials| trials.min_passes),
        ci_low: interval.map(|interval| interval.low),
        ci_high: interval.map(|interval| interval.high),
        pass_at_k: trials.map(Trials::pass_at_k),
        pass_hat_k: trials.map(Trials::pass_hat_k),
        trial_results: trials.map(|trials| trials.results.clone()),
    }
}

fn turn_result((turn_index, turn): (usize, TurnReport<'_>)) -> TurnResult {
    let TurnReport {
        record,
        grade,
        expected,
        ..
    } = turn;
    TurnResult {
        turn_index,
        input: record.input.clone(),
        response: turn.answer().map(ToOwned::to_owned),
        ground_truth: expected.ground_truth.clone(),
        expected_tools: expected.tools.clone(),
        tool_calls: turn.calls().map(|call| call.call.name.clone()).collect(),
        tool_invocations: turn.calls().map(invocation).collect(),
        tools_matched: grade.tools_matched,
        arg_match_details: Some(grade.arg_match_details.clone()).filter(|details| !details.is_empty()),
        approval_details: grade.approvals.clone(),
        metric_results: grade.metrics.clone(),
        passed: grade.state == CaseState::Passed,
        state: grade.state,
        execution: record.state,
        executor: record.result.execution.clone(),
        execution_time_ms: record.elapsed_ms,
        latency_ms: record.latency_ms,
        token_usage: record.usage,
        cost_usd: record.cost_usd,
        num_turns: record.result.num_turns,
        structured_output: record.result.structured_output.clone(),
        retrieval_context: grade.retrieval_context.clone(),
        errors: turn.failures().map(Failure::line).collect(),
        model: record.result.model.clone(),
        truncated: record.truncated,
        truncated_by: record.truncation().map(ToString::to_string),
        redacted: !record.redacted.is_empty(),
        skipped: record.state == ExecutionState::Skipped,
        grader_details: grader_details(&grade.metrics),
    }
}

/// The details of the code graders by metric.
fn grader_details(metrics: &[MetricResult]) -> Option<Value> {
    let graders = metrics.iter().filter(|metric| metric.kind == "code");
    let details = graders.filter_map(|metric| Some((metric.metric_name.clone(), metric.details.clone()?)));
    let details: serde_json::Map<String, Value> = details.collect();
    (!details.is_empty()).then_some(Value::Object(details))
}

fn invocation(call: CallReport<'_>) -> ToolInvocation {
    let result = call
        .result
        .map_or(Value::Null, |result| Value::String(result.result.clone()));
    ToolInvocation {
        name: call.call.name.clone(),
        args: call.call.arguments.clone(),
        bytes: result.to_string().len(),
        duration_ms: call.duration_ms(),
        error: call.error().map(ToOwned::to_owned),
        result,
        details: call
            .result
            .map(|result| result.details.clone())
            .unwrap_or_default(),
    }
}
