use std::fs;

use holodeck_model::CaseState;
use holodeck_runner::{RunError, RunStore, Selection, regrade};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;

use crate::support::{Events, Project, run, run_file};

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

/// Cuts the journal of a finished run after some lines of its units and some bytes, as a killed process would leave it.
fn cut(project: &Project, lines: usize, bytes: usize) -> std::path::PathBuf {
    let journal = RunStore::new(project.dir.path()).find("latest").unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let mut rest = text.split_inclusive('\n');
    let mut kept: String = rest.by_ref().take(1 + lines).collect();
    if let Some(next) = rest.next() {
        kept.extend(next.chars().take(bytes.min(next.len() - 1)));
    }
    fs::write(&journal, kept).unwrap();
    journal
}

#[tokio::test]
async fn a_run_cut_anywhere_and_resumed_repeats_nothing_and_equals_a_whole_one() {
    let project = Project::new(&tests("contains"));
    let whole = project.run(&backend()).await;
    let expected = run_file(&whole.outcome.run_file);
    // Each case has a line when it ran, and one when it was graded.
    for lines in 0..=2 * CASES {
        for bytes in [0, 1, 40] {
            let mut fresh = project.request(&backend());
            fresh.settings.concurrency = 1;
            run(fresh).await.unwrap();
            let journal = cut(&project, lines, bytes);
            let again = backend();
            let mut request = project.request(&again);
            request.resume = Some(journal);
            let resumed = run(request).await.unwrap();
            assert_eq!(
                again.turns(),
                CASES - lines.div_ceil(2),
                "{lines} lines, {bytes} bytes"
            );
            let mut found = run_file(&resumed.outcome.run_file);
            // The concurrency of this test's runs is not the same; nothing else may differ.
            found["report"]["environment"] = expected["report"]["environment"].clone();
            assert_eq!(found, expected, "{lines} lines, {bytes} bytes");
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
        ["resumed although the agent changed: agent"]
    );
}

#[tokio::test]
async fn grading_again_asks_nothing_and_uses_todays_checks() {
    let project = Project::new(&tests("contains"));
    let first = project.run(&backend()).await;
    assert_eq!(first.outcome.head.summary.passed, 10);
    // Two of the answers have a further digit.
    project.write(&tests("starts_with, negate: true"));
    let again = backend();
    let old = first.outcome.journal_path().to_owned();
    let outcome = regrade(&project.regrade_request(), &old, &mut Events::default()).unwrap();
    assert_eq!(again.turns(), 0);
    assert_eq!(outcome.head.summary.failed, 10);
    assert_eq!(outcome.exit.code(), 1);
    assert_ne!(outcome.journal_path(), old);
}

#[tokio::test]
async fn only_what_did_not_pass_is_run_again() {
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
        failed_in: Some(first.outcome.journal_path().to_owned()),
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
    request.selection.failed_in = Some(first.outcome.journal_path().to_owned());
    request.selection.limit = Some(1);
    let second = run(request).await.unwrap();
    let mut request = project.request(&backend());
    request.selection.failed_in = Some(second.outcome.journal_path().to_owned());
    let third = run(request).await.unwrap();
    assert_eq!(
        third.results().into_iter().map(|r| r.index).collect::<Vec<_>>(),
        [10]
    );
}

#[tokio::test]
async fn a_case_that_moved_is_found_again_by_what_it_asks() {
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
    request.selection.failed_in = Some(first.outcome.journal_path().to_owned());
    let again = run(request).await.unwrap();
    assert_eq!(
        again.results().into_iter().map(|r| r.index).collect::<Vec<_>>(),
        [0]
    );
}

#[tokio::test]
async fn answers_without_a_verdict_of_todays_checks_are_graded_and_not_asked() {
    let project = Project::new(&tests("contains"));
    project.run(&backend()).await;
    let journal = RunStore::new(project.dir.path()).find("latest").unwrap();
    project.write(&tests("starts_with, negate: true"));
    let again = backend();
    let mut request = project.request(&again);
    request.resume = Some(journal);
    request.accept_changes = true;
    let resumed = run(request).await.unwrap();
    assert_eq!((again.turns(), resumed.outcome.head.summary.failed), (0, 10));
}
