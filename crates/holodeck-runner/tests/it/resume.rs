//! Tests of resuming and regrading: nothing is executed twice, and the result equals that of an uninterrupted run.

use std::fs;

use holodeck_model::CaseState;
use holodeck_runner::{RunError, Selection};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;

use crate::support::{Project, run, run_file};

const CASES: usize = 12;

fn tests(metric: &str) -> String {
    let cases = (0..CASES)
        .map(|n| {
            format!(
                "  - {{input: q{n}, ground_truth: {}}}\n",
                if n < 10 {
                    format!("answer {n}")
                } else {
                    "nothing".to_owned()
                }
            )
        })
        .collect::<Vec<_>>()
        .concat();
    format!("evaluations: {{metrics: [{{type: standard, metric: {metric}}}]}}\ntest_cases:\n{cases}")
}

fn backend() -> ScriptedBackend {
    ScriptedBackend::answering(|asked| ScriptedTurn::text(&asked.message.replace('q', "answer ")))
}

/// Truncates the journal of a finished run after some lines and bytes, as a killed process would leave it.
fn cut(project: &Project, lines: usize, bytes: usize) -> std::path::PathBuf {
    let journal = project.latest();
    let text = fs::read_to_string(&journal).unwrap();
    let mut rest = text.split_inclusive('\n');
    let mut start: String = rest.by_ref().take(1 + lines).collect();
    if let Some(next) = rest.next() {
        start.extend(next.chars().take(bytes.min(next.len() - 1)));
    }
    fs::write(&journal, start).unwrap();
    journal
}

#[tokio::test]
async fn a_run_cut_anywhere_and_resumed_repeats_nothing_and_equals_a_whole_one() {
    let project = Project::new(&tests("contains"));
    let whole = project.run(&backend()).await;
    let expected = run_file(&whole.outcome.run_file);
    // Each case has one line for its execution and one for its grade.
    for lines in 0..=2 * CASES {
        for bytes in [0, 1, 40] {
            let mut fresh = project.request(&backend());
            fresh.settings.concurrency = 1;
            run(fresh).await.unwrap();
            let journal = cut(&project, lines, bytes);
            let backend = backend();
            let mut request = project.request(&backend);
            request.resume = Some(journal);
            let resumed = run(request).await.unwrap();
            assert_eq!(
                backend.turns(),
                CASES - lines.div_ceil(2),
                "{lines} lines, {bytes} bytes"
            );
            let mut actual = run_file(&resumed.outcome.run_file);
            // The runs have different concurrency; nothing else may differ.
            actual["report"]["environment"] = expected["report"]["environment"].clone();
            assert_eq!(actual, expected, "{lines} lines, {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn a_changed_agent_is_not_mixed_with_old_answers() {
    let project = Project::new(&tests("contains"));
    project.run(&backend()).await;
    let journal = cut(&project, 3, 0);
    let before = fs::read(&journal).unwrap();
    project.write(&tests("icontains"));
    let mut request = project.request(&backend());
    request.resume = Some(journal.clone());
    let error = run(request).await.err().unwrap();
    assert!(
        matches!(&error, RunError::AgentChanged { parts, .. } if parts == &["agent"]),
        "{error}"
    );
    assert_eq!(fs::read(&journal).unwrap(), before);
    let mut request = project.request(&backend());
    request.resume = Some(journal);
    request.accept_changes = true;
    let resumed = run(request).await.unwrap();
    assert_eq!(
        resumed.outcome.head.warnings,
        [
            "resumed although the agent changed: agent",
            "the stored answers were graded again when the run was resumed, because the expectation `contains`, the \
             expectation `icontains` changed",
        ]
    );
}

#[tokio::test]
async fn a_regrade_calls_no_model_and_uses_the_current_checks() {
    let project = Project::new(&tests("contains"));
    let first = project.run(&backend()).await;
    assert_eq!(first.outcome.head.summary.passed, 10);
    // Answers 0 to 9 start with their ground truth, which the negated check forbids.
    project.write(&tests("starts_with, negate: true"));
    let again = backend();
    let old = first.outcome.journal_path().to_owned();
    let outcome = project.regrade(&old).await;
    assert_eq!(again.turns(), 0);
    assert_eq!(outcome.head.summary.failed, 10);
    assert_eq!(outcome.exit.code(), 1);
    assert_ne!(outcome.journal_path(), old);
}

#[tokio::test]
async fn only_cases_that_did_not_pass_run_again() {
    let project = Project::new(&tests("contains"));
    let first = project.run(&backend()).await;
    let failed: Vec<_> = first
        .results()
        .into_iter()
        .filter(|r| r.state == CaseState::Failed)
        .map(|r| r.index)
        .collect();
    assert_eq!(failed, [10, 11]);
    let mut request = project.request(&backend());
    request.selection = Selection {
        failed_in: Some(project.failed_in([first.outcome.journal_path().to_owned()])),
        ..Selection::default()
    };
    let again = run(request).await.unwrap();
    assert_eq!(
        again.results().into_iter().map(|r| r.index).collect::<Vec<_>>(),
        failed
    );
}

#[tokio::test]
async fn only_cases_of_the_newest_run_count_as_not_passed() {
    let project = Project::new(&tests("contains"));
    let first = project.run(&backend()).await;
    let mut request = project.request(&backend());
    request.selection.failed_in = Some(project.failed_in([first.outcome.journal_path().to_owned()]));
    request.selection.limit = Some(1);
    let second = run(request).await.unwrap();
    let mut request = project.request(&backend());
    request.selection.failed_in = Some(project.failed_in([second.outcome.journal_path().to_owned()]));
    let third = run(request).await.unwrap();
    assert_eq!(
        third.results().into_iter().map(|r| r.index).collect::<Vec<_>>(),
        [10]
    );
}

#[tokio::test]
async fn a_moved_case_is_identified_by_its_content() {
    let lines = |order: [&str; 3]| {
        let cases = order.map(|case| format!("  - {case}\n")).concat();
        format!("evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\ntest_cases:\n{cases}")
    };
    let (good, bad, twin) = (
        "{input: q1, ground_truth: answer 1}",
        "{input: q2, ground_truth: no}",
        "{input: q2, ground_truth: answer 2}",
    );
    let project = Project::new(&lines([good, bad, twin]));
    let first = project.run(&backend()).await;
    project.write(&lines([bad, good, twin]));
    let mut request = project.request(&backend());
    request.selection.failed_in = Some(project.failed_in([first.outcome.journal_path().to_owned()]));
    let again = run(request).await.unwrap();
    assert_eq!(
        again.results().into_iter().map(|r| r.index).collect::<Vec<_>>(),
        [0]
    );
}

#[tokio::test]
async fn answers_without_a_verdict_of_the_current_checks_are_graded_without_a_model_call() {
    let project = Project::new(&tests("contains"));
    project.run(&backend()).await;
    let journal = project.latest();
    project.write(&tests("starts_with, negate: true"));
    let again = backend();
    let mut request = project.request(&again);
    request.resume = Some(journal);
    request.accept_changes = true;
    let resumed = run(request).await.unwrap();
    assert_eq!((again.turns(), resumed.outcome.head.summary.failed), (0, 10));
}

#[tokio::test]
async fn a_changed_check_does_not_pass_a_masked_answer() {
    let leak = concat!("the key is sk-", "proj-AbCdEf0123456789AbCdEf0123456789");
    let tests = |forbidden: &str| {
        format!(
            "test_cases: [{{input: q, evaluations: [{{metric: contains, value: {forbidden}, negate: true}}]}}]"
        )
    };
    let project = Project::new(&tests("sk-proj"));
    let leaking = ScriptedBackend::answering(move |_| ScriptedTurn::text(leak));
    assert_eq!(project.run(&leaking).await.code(), 1);
    for (forbidden, code) in [("sk-proj", 1), ("AbCdEf", 4)] {
        project.write(&tests(forbidden));
        let mut request = project.request(&leaking);
        request.resume = Some(project.latest());
        request.accept_changes = true;
        assert_eq!(run(request).await.unwrap().code(), code, "{forbidden}");
    }
    assert_eq!(leaking.turns(), 1);
}
