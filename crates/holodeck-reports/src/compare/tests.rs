//! Attacks on the gate: each hides a regression in a way that a comparison by position or by counts would not see.

use std::path::{Path, PathBuf};

use holodeck_model::Redactor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use holodeck_runs::{AgentRuns, ExitCode, RunOwner, RunStore};

mod browser;

/// A folder with two runs.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// The runs of the agent `support`.
    fn runs(&self) -> AgentRuns {
        let owner = RunOwner::new(Path::new("agent.yaml"), Some("support"));
        AgentRuns::new(RunStore::new(self.dir.path()), owner)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn compare(&self, before: &str, after: &str, options: &GateOptions) -> Comparison {
        let (before, after) = (self.write("a.json", before), self.write("b.json", after));
        let runs = self.runs();
        let redactor = Redactor::default();
        let reader = RunReader::new(&runs, &redactor, [].into());
        let read = |path: PathBuf| reader.read(path.to_str().unwrap(), &[]).unwrap();
        compare(&reader, &read(before), &read(after), options).unwrap()
    }
}

const GATE: GateOptions = GateOptions {
    gate: true,
    alpha: 0.05,
    allow_missing: false,
    allow_changed_expectations: false,
    allow_changed_judges: false,
    max_new_failures: None,
};

/// The digest of a text.
fn digest(text: &str) -> String {
    holodeck_model::Digest::of(&json!(text)).to_string()
}

/// Compares two lists of cases under `--gate`.
fn gate(before: &[Value], after: &[Value]) -> Comparison {
    Bench::new().compare(&run_file("A", before), &run_file("B", after), &GATE)
}

fn codes(comparison: &Comparison) -> (u8, Vec<GateReasonKind>) {
    let kinds = comparison.gate.reasons.iter().map(|reason| reason.kind).collect();
    (comparison.exit().code(), kinds)
}

fn run_file(id: &str, cases: &[Value]) -> String {
    let is_not_run = |case: &&Value| case.get("reason").is_some();
    let not_run: Vec<&Value> = cases.iter().filter(is_not_run).collect();
    let results: Vec<&Value> = cases.iter().filter(|case| !is_not_run(case)).collect();
    let ended = if not_run.is_empty() {
        "completed"
    } else {
        "interrupted"
    };
    json!({
        "report": {
            "agent_name": "support", "schema_version": 1, "run_id": id, "timestamp": "2026-11-21T20:11:18Z",
            "results": results, "not_run": not_run, "ended": ended,
        },
        "metadata": {"agent_config": {"model": {"provider": "openai", "name": "gpt-4o"}}},
    })
    .to_string()
}

fn case(name: &str, question: &str, state: &str) -> Value {
    json!({
        "test_name": name, "test_input": question, "agent_response": format!("answer to {question}: {state}"),
        "metric_results": [], "passed": state == "passed", "state": state, "errors": [],
        "deciders": {"expectations": {"format": digest("format")}},
    })
}

/// Numbered cases, of which the first `failed` fail.
fn cases(count: usize, failed: usize) -> Vec<Value> {
    (0..count)
        .map(|place| {
            let state = if place < failed { "failed" } else { "passed" };
            case(&format!("case {place}"), &format!("question {place}"), state)
        })
        .collect()
}

fn score(judge: Option<&str>, score: f64) -> Value {
    json!([{
        "metric_name": "geval", "kind": "geval", "score": score, "threshold": 0.5, "passed": true, "scale": "0-1",
        "error": null, "retry_count": 0, "evaluation_time_ms": null, "model_used": judge, "reasoning": null,
        "identity": judge.map_or(json!({}), |judge| json!({"expectation": digest("geval"), "judge": digest(judge)})),
    }])
}

fn scored(count: usize, judge: Option<&str>, value: impl Fn(usize) -> f64) -> Vec<Value> {
    let mut cases = cases(count, 0);
    for (place, case) in cases.iter_mut().enumerate() {
        case["metric_results"] = score(judge, value(place));
        case["deciders"]["expectations"]["geval"] = json!(digest("geval"));
        if let Some(judge) = judge {
            case["deciders"]["judges"] = json!({"geval": digest(judge)});
        }
    }
    cases
}

#[test]
fn nothing_changed_passes() {
    let comparison = gate(&cases(10, 2), &cases(10, 2));
    assert_eq!(codes(&comparison), (0, vec![]));
    assert_eq!(comparison.gate.result, GateResult::Passed);
    assert_eq!(
        (comparison.counts.still_passing, comparison.counts.still_failing),
        (8, 2)
    );
}

#[test]
fn six_flips_in_one_direction_are_significant_and_five_are_not() {
    assert_eq!(codes(&gate(&cases(20, 0), &cases(20, 5))), (0, vec![]));
    let comparison = gate(&cases(20, 0), &cases(20, 6));
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::FewerPasses]));
    assert_eq!(comparison.verdicts.p_value, Some(0.03125));
    assert_eq!(comparison.verdicts.smallest_drop, Some(0.3));
}

#[test]
fn an_improvement_passes_the_gate() {
    let comparison = gate(&cases(20, 10), &cases(20, 0));
    assert_eq!(codes(&comparison), (0, vec![]));
    assert_eq!(comparison.verdicts.outcome, Outcome::Better);
}

#[test]
fn a_limit_of_new_failures_needs_no_significance_and_no_gate() {
    let limit = |limit| GateOptions {
        max_new_failures: Some(limit),
        ..GateOptions::default()
    };
    let exit = |after: &[Value], options: &GateOptions| {
        let bench = Bench::new();
        bench
            .compare(&run_file("A", &cases(9, 0)), &run_file("B", after), options)
            .exit()
    };
    assert_eq!(exit(&cases(9, 2), &limit(2)), ExitCode::Passed);
    assert_eq!(exit(&cases(9, 2), &limit(1)), ExitCode::Failed);
    // An error and a missing case are no passes.
    let mut error = cases(9, 0);
    error[0] = case("case 0", "question 0", "error");
    assert_eq!(exit(&error, &limit(0)), ExitCode::Failed);
    assert_eq!(exit(&cases(8, 0), &limit(0)), ExitCode::Failed);
    let tolerant = GateOptions {
        allow_missing: true,
        ..limit(0)
    };
    assert_eq!(exit(&cases(8, 0), &tolerant), ExitCode::Passed);
}

#[test]
fn a_new_case_that_does_not_pass_is_a_new_failure_and_one_without_a_result_stops_the_gate() {
    let with = |state: &str| {
        let mut after = cases(9, 0);
        after.push(case("new", "another question", state));
        after
    };
    let exit = |state: &str, gate: bool, limit: Option<usize>| {
        let options = GateOptions {
            gate,
            max_new_failures: limit,
            ..GateOptions::default()
        };
        let before = run_file("A", &cases(9, 0));
        let comparison = Bench::new().compare(&before, &run_file("B", &with(state)), &options);
        codes(&comparison)
    };
    assert_eq!(exit("passed", true, Some(0)), (0, vec![]));
    // People add cases that fail before they mend the agent; who limits failures means these, too.
    assert_eq!(exit("failed", true, None), (0, vec![]));
    assert_eq!(
        exit("failed", false, Some(0)),
        (1, vec![GateReasonKind::TooManyNewFailures])
    );
    assert_eq!(exit("failed", true, Some(1)), (0, vec![]));
    assert_eq!(exit("error", true, None), (1, vec![GateReasonKind::NewErrors]));
    assert_eq!(exit("error", true, Some(1)), (1, vec![GateReasonKind::NewErrors]));
    assert_eq!(
        exit("error", false, Some(0)),
        (
            1,
            vec![GateReasonKind::NewErrors, GateReasonKind::TooManyNewFailures]
        )
    );
}

#[test]
fn attack_reordered_cases() {
    let mut after = cases(20, 6);
    after.reverse();
    assert_eq!(
        codes(&gate(&cases(20, 0), &after)),
        (1, vec![GateReasonKind::FewerPasses])
    );
}

#[test]
fn attack_renamed_cases() {
    let mut after = cases(20, 6);
    for (place, case) in after.iter_mut().enumerate() {
        case["test_name"] = json!(format!("another name {place}"));
    }
    let comparison = gate(&cases(20, 0), &after);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::FewerPasses]));
    assert_eq!(comparison.changes[0].renamed_from.as_deref(), Some("case 0"));
    // Names that moved to other questions: the question decides.
    let mut after = cases(20, 6);
    for (place, case) in after.iter_mut().enumerate() {
        case["test_name"] = json!(format!("case {}", (place + 6) % 20));
    }
    assert_eq!(
        codes(&gate(&cases(20, 0), &after)),
        (1, vec![GateReasonKind::FewerPasses])
    );
}

#[test]
fn attack_renamed_and_reworded_cases() {
    let mut after = cases(20, 6);
    for case in &mut after[..6] {
        case["test_name"] = json!(format!("new {}", case["test_name"]));
        case["test_input"] = json!(format!("new {}", case["test_input"]));
    }
    let comparison = gate(&cases(20, 0), &after);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::MissingCases]));
    assert_eq!((comparison.missing.len(), comparison.added.len()), (6, 6));
}

#[test]
fn attack_dropped_cases() {
    let after = &cases(20, 6)[6..];
    assert_eq!(
        codes(&gate(&cases(20, 0), after)),
        (1, vec![GateReasonKind::MissingCases])
    );
}

#[test]
fn attack_duplicate_names() {
    let named_alike = |cases: Vec<Value>| -> Vec<Value> {
        let rename = |mut case: Value| {
            case["test_name"] = json!("the name of all");
            case
        };
        cases.into_iter().map(rename).collect()
    };
    let mut after = named_alike(cases(20, 6));
    after.reverse();
    assert_eq!(
        codes(&gate(&named_alike(cases(20, 0)), &after)),
        (1, vec![GateReasonKind::FewerPasses])
    );
    // A failing duplicate is replaced by a copy of a passing one.
    let mut after = named_alike(cases(20, 6));
    for place in 0..6 {
        after[place] = after[10].clone();
    }
    assert_eq!(
        codes(&gate(&named_alike(cases(20, 0)), &after)),
        (1, vec![GateReasonKind::MissingCases])
    );
}

#[test]
fn attack_errors_instead_of_failures() {
    let mut after = cases(20, 0);
    after[3] = case("case 3", "question 3", "error");
    let comparison = gate(&cases(20, 0), &after);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::NewErrors]));
    assert_eq!(comparison.counts.with_verdict, 19);
}

#[test]
fn attack_unchecked_cases() {
    let mut after = cases(20, 0);
    after[3] = case("case 3", "question 3", "unchecked");
    assert_eq!(
        codes(&gate(&cases(20, 0), &after)),
        (1, vec![GateReasonKind::NoLongerChecked])
    );
    // A failure that is not checked any more is no improvement.
    let mut after = cases(20, 1);
    after[0]["state"] = json!("unchecked");
    let comparison = gate(&cases(20, 1), &after);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::NoLongerChecked]));
    assert_eq!(comparison.counts.newly_passing, 0);
}

#[test]
fn attack_a_run_that_did_not_finish() {
    let not_run =
        |place: usize| json!({"index": place, "test_name": format!("case {place}"), "reason": "not run"});
    let mut after = cases(20, 0);
    after[7] = not_run(7);
    assert_eq!(
        codes(&gate(&cases(20, 0), &after)),
        (
            1,
            vec![GateReasonKind::NewErrors, GateReasonKind::UnfinishedAfter]
        )
    );
    // Nameless cases that were not run cannot be paired, and may not count as missing only.
    let mut after = cases(20, 0);
    after[7] = json!({"index": 7, "test_name": null, "reason": "not run"});
    let bench = Bench::new();
    let options = GateOptions {
        allow_missing: true,
        ..GATE
    };
    let comparison = bench.compare(&run_file("A", &cases(20, 0)), &run_file("B", &after), &options);
    assert_eq!(
        codes(&comparison),
        (
            1,
            vec![GateReasonKind::NewErrors, GateReasonKind::UnfinishedAfter]
        )
    );
    // An earlier run that did not finish shows no regression of what it lacks.
    let mut before = cases(20, 0);
    before[7] = not_run(7);
    assert_eq!(
        codes(&gate(&before, &cases(20, 0))),
        (4, vec![GateReasonKind::UnfinishedBefore])
    );
}

#[test]
fn attack_an_empty_run() {
    assert_eq!(gate(&[], &cases(5, 5)).exit().code(), 4);
    assert_eq!(gate(&cases(5, 0), &[]).exit().code(), 4);
    assert_eq!(gate(&[], &[]).exit().code(), 4);
    // All cases are there, but none has a verdict.
    let unchecked: Vec<Value> = cases(5, 0)
        .into_iter()
        .map(|mut case| {
            case["state"] = json!("unchecked");
            case
        })
        .collect();
    assert_eq!(gate(&unchecked, &unchecked).exit().code(), 4);
    let options = GateOptions::default();
    let bench = Bench::new();
    let comparison = bench.compare(&run_file("A", &unchecked), &run_file("B", &unchecked), &options);
    assert_eq!(comparison.exit(), ExitCode::Metric);
}

#[test]
fn scores_that_drop_are_a_regression_although_every_case_passes() {
    let before = scored(20, Some("gpt-4o"), |place| 0.9 - place as f64 / 1000.0);
    let after = scored(20, Some("gpt-4o"), |place| 0.8 - place as f64 / 500.0);
    let comparison = gate(&before, &after);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::LowerScores]));
    let metric = &comparison.metrics[0];
    assert_eq!((metric.pairs, metric.outcome), (20, Outcome::Worse));
    // The same scores are no regression, and neither is the last digit of a sum.
    let rounding = scored(20, Some("gpt-4o"), |place| 0.9 - place as f64 / 1000.0 - 1e-13);
    assert_eq!(codes(&gate(&before, &rounding)), (0, vec![]));
}

#[test]
fn attack_another_judge() {
    let before = scored(20, Some("gpt-4o"), |_| 0.9);
    let kinder = scored(20, Some("gpt-4o-mini"), |_| 1.0);
    let comparison = gate(&before, &kinder);
    let nothing = vec![GateReasonKind::NothingComparable, GateReasonKind::OtherJudge];
    assert_eq!(codes(&comparison), (4, nothing));
    assert_eq!(
        (comparison.metrics[0].pairs, comparison.metrics[0].p_value),
        (0, None)
    );
    assert!(
        comparison
            .notes
            .iter()
            .any(|note| note.contains("because the judges or programs differ"))
    );
    let identity = json!({"expectation": "0".repeat(32), "judge": "1".repeat(32)});
    for (field, value) in [("identity", identity), ("scale", json!("1-10"))] {
        let mut after = scored(20, Some("gpt-4o"), |_| 1.0);
        for case in &mut after {
            case["metric_results"][0][field] = value.clone();
        }
        assert_eq!(
            codes(&gate(&before, &after)),
            (4, vec![GateReasonKind::OtherJudge])
        );
    }
    // An unknown judge is not known to be the same one.
    let unknown = scored(20, None, |_| 1.0);
    assert_eq!(
        codes(&gate(&unknown, &unknown)),
        (4, vec![GateReasonKind::OtherJudge])
    );
}

#[test]
fn attack_a_metric_that_is_not_computed_any_more() {
    let before = scored(20, Some("gpt-4o"), |_| 0.9);
    let mut after = before.clone();
    for case in &mut after {
        case["metric_results"] = json!([]);
    }
    assert_eq!(
        codes(&gate(&before, &after)),
        (4, vec![GateReasonKind::LostScores])
    );
    // A gate that failed before the metric explains why it has no score.
    let mut after = before.clone();
    after[0]["state"] = json!("failed");
    after[0]["metric_results"] = score(Some("gpt-4o"), 0.0);
    after[0]["metric_results"][0]["score"] = json!(null);
    after[0]["metric_results"][0]["passed"] = json!(null);
    after[0]["metric_results"][0]["skipped"] = json!(true);
    assert_eq!(codes(&gate(&before, &after)), (0, vec![]));
}

#[test]
fn a_lower_threshold_is_another_expectation() {
    let before = scored(8, Some("gpt-4o"), |_| 0.9);
    let mut after = before.clone();
    for case in &mut after {
        case["metric_results"][0]["threshold"] = json!(0.1);
        case["metric_results"][0]["identity"]["expectation"] = json!(digest("lower"));
        case["deciders"]["expectations"]["geval"] = json!(digest("lower"));
    }
    let comparison = gate(&before, &after);
    let reasons = vec![
        GateReasonKind::NothingComparable,
        GateReasonKind::OtherExpectation,
    ];
    assert_eq!(codes(&comparison), (4, reasons));
    assert_eq!(comparison.metrics[0].other_expectation, 8);
    assert_eq!(comparison.counts.other_expectation, 8);
    let note = "the expectation `geval` changed in 8 cases";
    assert!(
        comparison.notes.iter().any(|text| text == note),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn with_trials_the_pass_rates_are_compared() {
    let repeated = |passed: u64| -> Vec<Value> {
        let mut cases = cases(12, 0);
        for case in &mut cases {
            case["trials"] = json!(10);
            case["trials_passed"] = json!(passed);
        }
        cases
    };
    // `min_passes: 7` still passes every case.
    let comparison = gate(&repeated(10), &repeated(7));
    assert_eq!(comparison.verdicts.method, TestMethod::Bootstrap);
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::FewerPasses]));
    assert_eq!(codes(&gate(&repeated(7), &repeated(10))), (0, vec![]));
}

/// `min_passes` may still be reached when trials end in errors, and the rate does not contain them.
#[test]
fn trials_without_a_verdict_do_not_hide_a_regression() {
    let with_errors = |errors: u64| -> Vec<Value> {
        let mut cases = cases(12, 0);
        for case in &mut cases {
            case["trials"] = json!(10 - errors);
            case["trials_passed"] = json!(10 - errors);
            case["trial_errors"] = json!(errors);
        }
        cases
    };
    let comparison = gate(&with_errors(0), &with_errors(5));
    assert_eq!(codes(&comparison), (1, vec![GateReasonKind::NewErrors]));
    assert_eq!(codes(&gate(&with_errors(5), &with_errors(0))), (0, vec![]));
}

/// A case as HoloDeck 0.7 writes it: without a state.
fn original(name: &str, passed: bool, errors: &[&str], metrics: &Value) -> Value {
    json!({
        "test_name": name, "test_input": format!("question {name}"), "processed_files": [],
        "agent_response": if errors.is_empty() { json!("an answer") } else { json!(null) },
        "tool_calls": [], "tool_invocations": [], "expected_tools": null, "tools_matched": null,
        "metric_results": metrics, "ground_truth": null, "passed": passed, "execution_time_ms": 12,
        "errors": errors, "timestamp": "2026-01-01T00:00:00.000000+00:00", "token_usage": null, "turns": null,
    })
}

fn standard(passed: bool, error: Option<&str>) -> Value {
    json!([{
        "metric_name": "bleu", "kind": "standard", "score": if passed { 1.0 } else { 0.0 }, "threshold": 0.5,
        "passed": passed, "scale": "0-1", "error": error, "retry_count": 0, "evaluation_time_ms": 1.0,
        "model_used": null, "reasoning": null,
    }])
}

#[test]
fn optional_fields_of_holodeck_0_7_may_be_null() {
    let mut case = original("passed", true, &[], &standard(true, None));
    for field in ["processed_files", "errors", "tool_invocations"] {
        case[field] = json!(null);
    }
    for field in ["scale", "retry_count", "evaluation_time_ms", "threshold"] {
        case["metric_results"][0][field] = json!(null);
    }
    let mut without_metrics = original("nothing checked", true, &[], &json!([]));
    without_metrics["metric_results"] = json!(null);
    let report = json!({
        "agent_name": "support", "agent_config_path": "agent.yaml", "results": [case, without_metrics],
        "summary": {"total_tests": 2}, "timestamp": "2026-01-01T00:00:00.000000+00:00", "holodeck_version": "0.7.1",
        "environment": {},
    });
    let bench = Bench::new();
    let path = bench.write("old.json", &report.to_string());
    let (runs, redactor) = (bench.runs(), Redactor::default());
    let run = RunReader::new(&runs, &redactor, [].into())
        .read(path.to_str().unwrap(), &[])
        .unwrap();
    let states: Vec<_> = run.cases.iter().map(|case| state_word(case.state)).collect();
    assert_eq!(states, ["passed", "unchecked"]);
    assert_eq!(run.cases[0].scores[0].score, Some(1.0));
}

#[test]
fn a_run_file_of_holodeck_0_7_is_read() {
    let results = json!([
        original("passed", true, &[], &standard(true, None)),
        original("failed", false, &[], &standard(false, None)),
        original("timeout", false, &["timeout"], &json!([])),
        original(
            "metric error",
            false,
            &[],
            &standard(false, Some("no ground truth"))
        ),
        original("nothing checked", true, &[], &json!([])),
    ]);
    let report = json!({
        "agent_name": "support", "agent_config_path": "agent.yaml", "results": results,
        "summary": {"total_tests": 5}, "timestamp": "2026-01-01T00:00:00.000000+00:00", "holodeck_version": "0.7.1",
        "environment": {},
    });
    let bench = Bench::new();
    for text in [
        report.to_string(),
        json!({"report": report, "metadata": {"agent_config": {}}}).to_string(),
    ] {
        let path = bench.write("old.json", &text);
        let (runs, redactor) = (bench.runs(), Redactor::default());
        let reader = RunReader::new(&runs, &redactor, [].into());
        let run = reader.read(path.to_str().unwrap(), &[]).unwrap();
        assert_eq!(run.info().kind, RunKind::Original);
        let states: Vec<_> = run.cases.iter().map(|case| state_word(case.state)).collect();
        assert_eq!(states, ["passed", "failed", "error", "error", "unchecked"]);
        // A metric with an error has no score, whatever number stands beside it.
        assert_eq!(run.cases[3].scores[0].score, None);
    }
    let mut now = cases(0, 0);
    now.push(case("passed", "question passed", "failed"));
    now.push(case("failed", "question failed", "passed"));
    now.push(case("timeout", "question timeout", "passed"));
    let comparison = bench.compare(&report.to_string(), &run_file("B", &now), &GateOptions::default());
    assert_eq!(
        (
            comparison.counts.newly_failing,
            comparison.counts.newly_passing,
            comparison.counts.first_verdicts
        ),
        (1, 1, 1)
    );
    assert_eq!(
        comparison.changes[0].before.texts.answer.as_deref(),
        Some("an answer")
    );
}

#[test]
fn what_is_not_a_run_is_refused() {
    let bench = Bench::new();
    let (runs, redactor) = (bench.runs(), Redactor::default());
    let reader = RunReader::new(&runs, &redactor, [].into());
    let error = |name: &str| reader.read(name, &[]).unwrap_err().to_string();
    for (text, reason) in [
        ("", "EOF"),
        ("[]", "expected an object"),
        (
            "{\"a\": 1}",
            "expected a journal, a run file, a JSON report or a baseline",
        ),
        ("{\"results\": [{}]}", "missing field"),
        ("{\"results\": []} more", "trailing"),
        ("{\"holodeck_baseline\": 3, \"cases\": []}", "format version 3"),
        ("{\"holodeck_journal\": 9}\n", "format version 9"),
        ("{\"schema_version\": 2, \"results\": []}", "format version 2"),
        ("{\"schema_version\": \"1\", \"results\": []}", "format version 0"),
    ] {
        let path = bench.write("x.json", text);
        let error = error(path.to_str().unwrap());
        assert!(error.contains(reason), "{error}");
    }
    assert!(error("baseline").contains("there is no baseline"));
    assert!(error("baseline:main").contains("main.json"));
    assert!(error("latest").contains("there is no run"));
    assert!(error("missing.json").contains("missing.json"));
}

#[test]
fn reports_are_complete_and_inert() {
    let mut after = cases(9, 2);
    after[1]["agent_response"] = json!("</pre><script>alert(1)</script> `x` |@team|");
    after[1]["test_name"] = json!("case 1");
    after[8] = case("case 8", "question 8", "error");
    let comparison = gate(&cases(9, 0), &after);
    let mut markdown = Vec::new();
    write_comparison_markdown(&comparison, &mut markdown).unwrap();
    let markdown = String::from_utf8(markdown).unwrap();
    assert!(
        markdown.starts_with("## ❌ support: comparison failed\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| case 0 | newly failing | passed | failed |"),
        "{markdown}"
    );
    let mut html = Vec::new();
    write_comparison_html(&comparison, &[], &mut html).unwrap();
    let html = String::from_utf8(html).unwrap();
    assert!(!html.contains("<script>alert"), "{html}");
    let body = html.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let body = body
        .replace(crate::html::SCRIPT, "")
        .replace(crate::html::STYLE, "");
    crate::samples::assert_balanced(&body, &["meta", "input"]);
    let value = comparison_json(&comparison);
    assert_eq!(
        (&value["comparison"], &value["exit_code"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(value["changes"][0]["after"]["state"], "failed");
}
