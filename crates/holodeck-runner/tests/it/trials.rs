//! Cases that run several times: their verdicts, their journal, and what is done again after a kill.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use holodeck_backend_api::BackendError;
use holodeck_model::{CaseState, ExecutionState, TestResult, TokenUsage};
use holodeck_reports::{Format, write_report};
use holodeck_runner::{Budget, OnFailure, PlanError, RunControl, RunError, RunEvent, Selection, regrade};
use holodeck_runs::{AgentRuns, Journal, JournalError};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::{Events, Project, Run, run, run_file};

/// A project with cases that need the answer `Paris`; each line is the rest of a case.
fn project(execution: &str, cases: &[&str]) -> Project {
    let cases = cases
        .iter()
        .enumerate()
        .map(|(n, more)| format!("  - {{name: n{n}, input: q{n}, ground_truth: Paris{more}}}\n"))
        .collect::<Vec<_>>()
        .concat();
    Project::new(&format!(
        "execution: {{{execution}}}\nevaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n{cases}"
    ))
}

/// Answers the n-th trial of each case by the n-th letter of `script`: pass, fail or error.
fn scripted(script: &'static str) -> ScriptedBackend {
    let asked: Mutex<HashMap<String, usize>> = Mutex::default();
    ScriptedBackend::answering(move |request| {
        let mut asked = asked.lock().unwrap();
        let nth = asked.entry(request.message.clone()).or_default();
        *nth += 1;
        answer(script.as_bytes()[(*nth - 1) % script.len()])
    })
}

fn answer(letter: u8) -> ScriptedTurn {
    match letter {
        b'p' => ScriptedTurn::text("Paris"),
        b'f' => ScriptedTurn::text("Rome"),
        _ => ScriptedTurn::failing(BackendError::Provider {
            status: Some(500),
            code: None,
            explanation: "the endpoint is broken".into(),
            param: None,
            retryable: false,
            retry_after: None,
        }),
    }
}

/// The folder of the run exists as long as the project.
async fn run_one(execution: &str, script: &'static str) -> (Project, Run, TestResult) {
    let project = project(execution, &[""]);
    let mut request = project.request(&scripted(script));
    // Trials end in their order.
    request.settings.concurrency = 1;
    let run = run(request).await.unwrap();
    let result = run.results().pop().unwrap();
    (project, run, result)
}

#[tokio::test]
async fn a_case_that_passes_sometimes_is_flaky_and_fails_the_run() {
    let (_project, run, case) = run_one("trials: 10, report_k: [2, 5, 20]", "pppppppffp").await;
    assert_eq!(
        (run.code(), case.state, case.passed),
        (1, CaseState::Flaky, false)
    );
    assert_eq!(
        (case.trials, case.trials_passed, case.trial_errors),
        (Some(10), Some(8), Some(0))
    );
    // R: binom::binom.wilson(8, 10) gives 0.4901625 and 0.9433178.
    let interval = case.ci_low.zip(case.ci_high).unwrap();
    assert!((interval.0 - 0.490_162_5).abs() < 1e-6 && (interval.1 - 0.943_317_8).abs() < 1e-6);
    let rounded = |values: Option<std::collections::BTreeMap<u32, f64>>| -> Vec<(u32, String)> {
        let values = values.unwrap().into_iter();
        values.map(|(k, value)| (k, format!("{value:.4}"))).collect()
    };
    let expect = |values: &[(u32, &str)]| -> Vec<(u32, String)> {
        values.iter().map(|(k, text)| (*k, (*text).to_owned())).collect()
    };
    // 1 - C(2, k) / C(10, k); more attempts than trials cannot be estimated.
    let at_k = [(1, "0.8000"), (2, "0.9778"), (5, "1.0000"), (10, "1.0000")];
    assert_eq!(rounded(case.pass_at_k), expect(&at_k));
    // C(8, k) / C(10, k).
    let hat_k = [(1, "0.8000"), (2, "0.6222"), (5, "0.2222"), (10, "0.0000")];
    assert_eq!(rounded(case.pass_hat_k), expect(&hat_k));
    let summary = &run.outcome.head.summary;
    assert_eq!(
        (summary.total_tests, summary.failed, summary.flaky, summary.passed),
        (1, 1, 1, 0)
    );
    // Each trial's score counts once.
    assert_eq!(summary.metrics_evaluated["contains"], 10);
    assert!((summary.average_scores["contains"] - 0.8).abs() < 1e-12);
    assert_eq!(case.token_usage, Some(TokenUsage::new(100, 50)));
    // The shown answer explains the verdict.
    assert_eq!(case.agent_response.as_deref(), Some("Rome"));
    let trials = case.trial_results.unwrap();
    let kept: Vec<u32> = trials
        .iter()
        .filter(|trial| trial.agent_response.is_some())
        .map(|trial| trial.trial)
        .collect();
    assert_eq!(kept, [0, 7, 8]);
}

#[tokio::test]
async fn min_passes_passes_a_case_that_reaches_it() {
    let (_project, run, case) = run_one("trials: 3, min_passes: 2", "pfp").await;
    assert_eq!(
        (run.code(), case.state, case.passed),
        (0, CaseState::Passed, true)
    );
    assert_eq!((case.trials, case.trials_passed), (Some(3), Some(2)));
    // A pass shows a trial that passed.
    assert_eq!(case.agent_response.as_deref(), Some("Paris"));
    assert!(case.errors.is_empty());
}

#[tokio::test]
async fn an_error_is_not_a_pass_and_not_a_failure() {
    for (script, min, code, state) in [
        ("eep", 2, 3, CaseState::Error),
        ("pee", 2, 3, CaseState::Error),
        ("ppe", 2, 0, CaseState::Passed),
        ("ppe", 3, 3, CaseState::Error),
        ("ffe", 2, 1, CaseState::Failed),
        ("pfe", 3, 1, CaseState::Flaky),
        ("pfe", 2, 3, CaseState::Error),
        ("eee", 1, 3, CaseState::Error),
    ] {
        let (_project, run, case) = run_one(&format!("trials: 3, min_passes: {min}"), script).await;
        assert_eq!((run.code(), case.state), (code, state), "{script}, {min}");
        let count = |letter| u32::try_from(script.matches(letter).count()).unwrap();
        assert_eq!(
            (case.trials, case.trials_passed, case.trial_errors),
            (Some(count('p') + count('f')), Some(count('p')), Some(count('e'))),
            "{script}"
        );
        assert_eq!(case.ci_low.is_some(), script != "eee");
        if state == CaseState::Error {
            assert_eq!(case.execution, ExecutionState::Error);
            assert_eq!(case.errors, ["the endpoint is broken"]);
        }
    }
}

#[tokio::test]
async fn one_trial_leaves_journal_and_report_as_they_were() {
    let (_project, run, case) = run_one("trials: 1", "p").await;
    let journal = fs::read_to_string(run.outcome.journal_path()).unwrap();
    assert!(!journal.lines().next().unwrap().contains("\"trials\""));
    let result = serde_json::to_value(&case).unwrap();
    let fields = result.as_object().unwrap();
    let new: Vec<&String> = fields
        .keys()
        .filter(|name| name.contains("trial") || name.contains("ci_") || name.contains("pass_"))
        .collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(
        !run.events
            .0
            .iter()
            .any(|event| matches!(event, RunEvent::TrialFinished { .. }))
    );
}

#[tokio::test]
async fn trials_come_from_the_flag_then_the_case_then_the_execution() {
    let project = project("trials: 2", &["", ", trials: 3, min_passes: 1"]);
    let counts = |run: &Run| -> Vec<(Option<u32>, Option<u32>)> {
        let results = run.results().into_iter();
        results.map(|case| (case.trials, case.min_passes)).collect()
    };
    let run_file = run(project.request(&scripted("p"))).await.unwrap();
    assert_eq!(counts(&run_file), [(Some(2), Some(2)), (Some(3), Some(1))]);
    let mut request = project.request(&scripted("p"));
    request.settings.flags.trials = Some(4);
    request.settings.flags.min_passes = Some(2);
    let flags = run(request).await.unwrap();
    assert_eq!(counts(&flags), [(Some(4), Some(2)), (Some(4), Some(2))]);
    let mut request = project.request(&scripted("p"));
    request.settings.flags.min_passes = Some(3);
    let error = run(request).await.err().unwrap();
    assert!(
        matches!(
            error,
            RunError::Plan(PlanError::Trials {
                trials: 2,
                min_passes: 3,
                ..
            })
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_case_is_reported_once_after_its_last_trial() {
    let project = project("trials: 3", &["", ""]);
    let run = run(project.request(&scripted("ppf"))).await.unwrap();
    let mut started = 0;
    let mut ended = 0;
    let mut reported = Vec::new();
    for event in &run.events.0 {
        match event {
            RunEvent::Started {
                total,
                trials,
                already,
                ..
            } => assert_eq!((*total, *trials, *already), (2, 6, 0)),
            RunEvent::CaseStarted { trial, .. } => {
                assert!(trial.is_some());
                started += 1;
            }
            RunEvent::TrialFinished { .. } => ended += 1,
            RunEvent::CaseFinished { finished, case } => {
                assert_eq!(case.state(), CaseState::Flaky);
                reported.push(*finished);
            }
            _ => {}
        }
    }
    assert_eq!((started, ended, reported), (6, 6, vec![1, 2]));
}

/// Truncates the newest journal after some lines below its header.
fn cut(project: &Project, lines: usize) -> PathBuf {
    let journal = project.latest();
    let text = fs::read_to_string(&journal).unwrap();
    let start: String = text.split_inclusive('\n').take(1 + lines).collect();
    fs::write(&journal, start).unwrap();
    journal
}

#[tokio::test]
async fn a_killed_run_is_resumed_with_the_missing_trials_only() {
    const UNITS: usize = 6;
    let project = project("trials: 3, min_passes: 2", &["", ""]);
    let request = |backend: &ScriptedBackend| {
        let mut request = project.request(backend);
        request.settings.concurrency = 1;
        request
    };
    let backend = ScriptedBackend::answering(|_| answer(b'p'));
    let whole = run(request(&backend)).await.unwrap();
    let expected = run_file(&whole.outcome.run_file);
    // Each trial has a line for its answer and one for its verdict.
    for lines in 0..=2 * UNITS {
        run(request(&backend)).await.unwrap();
        let journal = cut(&project, lines);
        // What the run looked like: no case with a missing trial has a verdict.
        let killed = Journal::open(&journal).unwrap();
        assert_eq!(killed.finished(), lines / 2);
        let again = ScriptedBackend::answering(|_| answer(b'p'));
        let mut resumed = request(&again);
        resumed.resume = Some(journal);
        // The header decides.
        resumed.settings.flags.trials = Some(50);
        let resumed = run(resumed).await.unwrap();
        assert_eq!(again.turns(), UNITS - lines.div_ceil(2), "{lines} lines");
        assert_eq!(run_file(&resumed.outcome.run_file), expected, "{lines} lines");
        let reported = resumed.events.0.iter();
        let reported = reported.filter(|event| matches!(event, RunEvent::CaseFinished { .. }));
        // Cases that were finished before are not reported again.
        assert_eq!(reported.count(), 2 - lines / UNITS, "{lines} lines");
    }
}

#[tokio::test]
async fn a_case_with_a_missing_trial_was_not_run_even_if_enough_passed() {
    let project = project("trials: 3, min_passes: 1", &["", ""]);
    let mut request = project.request(&scripted("p"));
    request.settings.concurrency = 1;
    // Each answer costs 15 tokens, so the run ends after four trials.
    request.settings.budget = Budget {
        max_tokens_total: Some(60),
        ..Budget::default()
    };
    let run = run(request).await.unwrap();
    assert_eq!(run.code(), 6);
    let summary = &run.outcome.head.summary;
    assert_eq!((summary.passed, summary.not_run), (1, 1));
    let missing = run.outcome.not_run().unwrap();
    assert_eq!(
        missing[0].reason,
        "not all trials were run (1 of 3 have a verdict): token budget used up: 60 of 60 tokens"
    );
}

#[tokio::test]
async fn only_a_failed_case_stops_the_run_not_a_failed_trial() {
    let project = project("trials: 2, min_passes: 1", &["", ", min_passes: 2", ""]);
    let backend = scripted("fp");
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    request.settings.on_failure = OnFailure::Stop;
    let run = run(request).await.unwrap();
    let summary = &run.outcome.head.summary;
    assert_eq!((summary.passed, summary.flaky, summary.not_run), (1, 1, 1));
    assert_eq!((backend.turns(), run.code()), (4, 1));
}

#[tokio::test]
async fn failed_selects_by_the_verdict_over_all_trials() {
    let project = project("trials: 2", &["", ", min_passes: 1"]);
    run(project.request(&scripted("pf"))).await.unwrap();
    let runs = AgentRuns::of(&project.agent());
    let backend = scripted("p");
    let mut request = project.request(&backend);
    request.selection = Selection {
        failed_in: Some(project.failed_in(runs.journals_of(None).unwrap())),
        ..Selection::default()
    };
    let again = run(request).await.unwrap();
    let indices: Vec<usize> = again.results().iter().map(|case| case.index).collect();
    assert_eq!((indices, backend.turns()), (vec![0], 2));
}

#[tokio::test]
async fn every_trial_is_regraded_against_the_current_expectations() {
    let project = project("trials: 3", &["", ""]);
    let first = run(project.request(&scripted("ppf"))).await.unwrap();
    assert_eq!(first.code(), 1);
    let yaml = fs::read_to_string(project.dir.path().join("agent.yaml")).unwrap();
    let change = |from: &str, to: &str| {
        let path = project.dir.path().join("agent.yaml");
        fs::write(path, yaml.replace(from, to)).unwrap();
    };
    // How many must pass is an expectation, how often a case ran is not.
    change("trials: 3", "trials: 5, min_passes: 2");
    let regraded = project.regrade(first.outcome.journal_path()).await;
    assert_eq!(regraded.exit.code(), 0);
    let cases = crate::support::results(&regraded);
    assert_eq!((cases[0].trials, cases[0].trials_passed), (Some(3), Some(2)));
    change("ground_truth: Paris", "ground_truth: Rome");
    let regraded = project.regrade(first.outcome.journal_path()).await;
    let cases = crate::support::results(&regraded);
    assert_eq!(
        (cases[0].state, cases[0].trials_passed),
        (CaseState::Flaky, Some(1))
    );
    // A file that asks for more passes than there were trials never passes.
    change("trials: 3", "trials: 5, min_passes: 4");
    let regraded = project.regrade(first.outcome.journal_path()).await;
    assert_eq!(regraded.exit.code(), 1);
}

#[tokio::test]
async fn a_run_with_a_damaged_trial_gives_no_verdict() {
    let project = project("trials: 3, min_passes: 1", &[""]);
    let mut request = project.request(&scripted("p"));
    request.settings.concurrency = 1;
    let whole = run(request).await.unwrap();
    let path = whole.outcome.journal_path();
    let text = fs::read_to_string(path).unwrap();
    // The answer of the second trial.
    let damaged: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(number, line)| {
            if number == 3 {
                "{damaged".to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    fs::write(path, damaged.join("\n") + "\n").unwrap();
    let control = RunControl::new();
    let regraded = regrade(&project.regrade_request(), path, &control, &mut Events::default()).await;
    assert!(
        matches!(
            regraded,
            Err(RunError::Journal(JournalError::Broken { line: 4, .. }))
        ),
        "{regraded:?}"
    );
    // A resumed run asks again what counts no more.
    let mut request = project.request(&scripted("ppp"));
    request.resume = Some(path.to_owned());
    let resumed = run(request).await.unwrap().outcome;
    assert_eq!((resumed.head.summary.passed, resumed.exit.code()), (1, 0));
    let warning = &resumed.head.warnings[0];
    assert!(
        warning.starts_with("line 4 of the journal did not fit"),
        "{warning}"
    );
}

#[tokio::test]
async fn a_header_with_wrong_trials_is_refused() {
    let project = project("trials: 3", &["", ""]);
    let whole = run(project.request(&scripted("p"))).await.unwrap();
    let path = whole.outcome.journal_path();
    let text = fs::read_to_string(path).unwrap();
    for wrong in [
        "[[3,3]]",
        "[[3,3],[0,1]]",
        "[[3,3],[3,0]]",
        "[[3,3],[4000000000,1]]",
    ] {
        fs::write(path, text.replacen("[[3,3],[3,3]]", wrong, 1)).unwrap();
        assert!(Journal::open(path).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn every_report_shows_the_trials() {
    let (_project, run, _) = run_one("trials: 10, min_passes: 9", "pppppppffp").await;
    for format in Format::ALL {
        let mut out = Vec::new();
        run.outcome
            .with_view(|view| write_report(format, view, &mut out))
            .unwrap();
        let mut report = String::from_utf8(out).unwrap();
        if format == Format::Github {
            // Its commands escape the sign.
            report = report.replace("%25", "%");
        }
        assert!(report.contains("flaky"), "{format:?}: {report}");
        let numbers = match format {
            Format::Json | Format::Jsonl => "\"trials_passed\"",
            _ => "8/10 passed, 9 needed, 95 % interval 0.49–0.94",
        };
        assert!(report.contains(numbers), "{format:?}: {report}");
        if format == Format::Junit {
            assert!(report.contains("<failure type=\"flaky\""), "{report}");
        }
    }
    let file: Value = serde_json::from_slice(&fs::read(&run.outcome.run_file).unwrap()).unwrap();
    assert_eq!(file["report"]["summary"]["flaky"], 1);
}

#[tokio::test]
async fn each_trial_has_its_own_name_in_recordings() {
    let names: Arc<Mutex<Vec<String>>> = Arc::default();
    let backend = {
        let names = Arc::clone(&names);
        ScriptedBackend::answering(move |request| {
            names.lock().unwrap().push(request.unit.clone().unwrap());
            answer(b'p')
        })
    };
    let project = Project::new(
        "execution: {trials: 2}\ntest_cases:\n  - {name: one, input: q}\n  - name: two\n    turns: [{input: a}, {input: b}]\n",
    );
    let mut request = project.request(&backend);
    request.settings.concurrency = 1;
    run(request).await.unwrap();
    assert_eq!(
        *names.lock().unwrap(),
        [
            "one",
            "one · trial 2",
            "two · turn 1",
            "two · turn 2",
            "two · trial 2 · turn 1",
            "two · trial 2 · turn 2"
        ]
    );
}
