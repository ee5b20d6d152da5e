//! Tests of every state that a case can have and the exit code that follows from it.

use holodeck_backend_api::{BackendError, Outcome, StopReason};
use holodeck_model::CaseState;
use holodeck_reports::StoredRun;
use holodeck_runner::RunError;
use holodeck_runs::{Grade, Journal, RunEnd};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Project, run};

/// The first word of the question determines how the turn ends.
fn backend() -> ScriptedBackend {
    ScriptedBackend::answering(
        |asked| match asked.message.split(' ').next().unwrap_or_default() {
            "crash" => ScriptedTurn::failing(BackendError::session("gone".to_owned())),
            "loop" => ScriptedTurn::nothing().and_end(Outcome::MaxTurns),
            "silent" => ScriptedTurn::nothing(),
            "panic" => panic!("scripted"),
            "tool" => ScriptedTurn::nothing()
                .and_called("lookup", json!({"id": 7}), "found")
                .and_text("found it"),
            // Long enough to be graded on another thread.
            "long" => ScriptedTurn::text(&"Paris and then some. ".repeat(1_000)),
            // The reason is the second word.
            "cut" => cut(&asked.message, ScriptedTurn::text("Paris")),
            "cut-call" => cut(
                &asked.message,
                ScriptedTurn::nothing()
                    .and_called("lookup", json!({"id": 7}), "found")
                    .and_text("Paris"),
            ),
            _ => ScriptedTurn::text("Paris"),
        },
    )
}

fn cut(message: &str, turn: ScriptedTurn) -> ScriptedTurn {
    let reason = message.split(' ').nth(1).unwrap_or_default();
    turn.and_stop(StopReason::from(reason.to_owned()))
}

const CONTAINS: &str = "evaluations: {metrics: [{type: standard, metric: contains}]}\n";

async fn state_of(case: &str) -> (CaseState, u8, Vec<String>) {
    let project = Project::new(&format!("{CONTAINS}test_cases:\n  - {case}\n"));
    let run = project.run(&backend()).await;
    let result = run.results().remove(0);
    assert_eq!(result.passed, result.state == CaseState::Passed);
    (result.state, run.code(), result.errors)
}

/// Journals of earlier versions have no expectations beside a verdict.
#[tokio::test]
async fn a_journal_without_expectations_is_read_with_the_same_verdicts() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - {{input: q, ground_truth: Paris}}\n  - {{input: r, ground_truth: Rome}}\n"
    ));
    let run = project.run(&backend()).await;
    let new = Journal::open(run.outcome.journal_path()).unwrap();
    let path = project.dir.path().join(".holodeck/runs/earlier.jsonl");
    let mut journal = Journal::create(&path, new.header().clone()).unwrap();
    for unit in 0..new.unit_count() {
        let record = new.unit(unit).transpose().unwrap().unwrap();
        let grade = new.verdict(unit).transpose().unwrap().unwrap();
        assert!(grade.expected.is_some());
        let line = journal.record_line(&record, None).unwrap();
        journal.write_record(unit, &line).unwrap();
        let grade = Grade {
            expected: None,
            ..grade
        };
        journal.grade(unit, &grade).unwrap();
    }
    journal
        .close(&RunEnd::completed(), "2026-11-21T00:00:01Z")
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("\"expected\":"), "{text}");
    let [earlier, now] =
        [&path, &run.outcome.journal_path().to_owned()].map(|path| StoredRun::open(path).unwrap());
    assert_eq!(earlier.head().summary, now.head().summary);
    assert_eq!(
        (earlier.head().summary.passed, earlier.head().summary.failed),
        (1, 1)
    );
}

#[tokio::test]
async fn every_state_of_a_case_has_its_exit_code() {
    for (case, state, code) in [
        ("{input: q, ground_truth: Paris}", CaseState::Passed, 0),
        ("{input: q, ground_truth: Rome}", CaseState::Failed, 1),
        ("{input: long, ground_truth: Paris}", CaseState::Passed, 0),
        ("{input: long, ground_truth: Rome}", CaseState::Failed, 1),
        ("{input: loop, ground_truth: Paris}", CaseState::Failed, 1),
        ("{input: silent, ground_truth: Paris}", CaseState::Failed, 1),
        ("{input: crash, ground_truth: Paris}", CaseState::Error, 3),
        ("{input: panic, ground_truth: Paris}", CaseState::Error, 3),
        // The metric has no text to compare with: there is no verdict, and the run does not pass.
        ("{input: q}", CaseState::Error, 4),
        // No judge is configured.
        (
            "{input: q, evaluations: [{name: tone, criteria: polite}]}",
            CaseState::Error,
            4,
        ),
        // A score without a threshold gates nothing.
        (
            "{input: q, ground_truth: Rome, evaluations: [{metric: rouge}]}",
            CaseState::Unchecked,
            5,
        ),
        (
            "{input: q, ground_truth: Rome, evaluations: [{metric: rouge, threshold: 0.5}]}",
            CaseState::Failed,
            1,
        ),
        (
            "{input: tool, ground_truth: found, expected_tools: [lookup]}",
            CaseState::Passed,
            0,
        ),
        (
            "{input: tool, ground_truth: found, expected_tools: [delete]}",
            CaseState::Failed,
            1,
        ),
        (
            "{input: tool, ground_truth: found, forbidden_tools: [lookup]}",
            CaseState::Failed,
            1,
        ),
        // A failed check is certain even if other verdicts are unknown.
        ("{input: q, expected_tools: [lookup]}", CaseState::Failed, 1),
    ] {
        let (actual, exit, errors) = state_of(case).await;
        assert_eq!((actual, exit), (state, code), "{case}: {errors:?}");
    }
}

#[tokio::test]
async fn that_a_forbidden_tool_was_not_called_is_known_only_of_a_whole_answer() {
    use CaseState::{Error, Failed, Passed};
    let note = "the missing part could contain a call of a forbidden tool";
    for (reason, is_cut) in [
        ("end_turn", false),
        ("stop", false),
        ("max_tokens", true),
        ("MODEL_LENGTH", true),
        ("some_new_word", true),
    ] {
        // The states of a whole and of a cut answer, and whether the cut one has the note.
        for (question, checks, whole, after_cut, is_noted) in [
            (
                "cut",
                "ground_truth: Paris, forbidden_tools: [lookup]",
                Passed,
                Error,
                true,
            ),
            (
                "cut",
                "evaluations: [{metric: contains, value: Paris}], forbidden_tools: [lookup]",
                Passed,
                Error,
                true,
            ),
            (
                "cut-call",
                "ground_truth: Paris, forbidden_tools: [delete]",
                Passed,
                Error,
                true,
            ),
            (
                "cut-call",
                "ground_truth: Paris, expected_tools: [lookup], forbidden_tools: [delete]",
                Passed,
                Error,
                true,
            ),
            (
                "cut",
                "expected_tools: [lookup], forbidden_tools: [delete]",
                Failed,
                Failed,
                true,
            ),
            // A call in the part that arrived is certain.
            (
                "cut-call",
                "ground_truth: Paris, forbidden_tools: [lookup]",
                Failed,
                Failed,
                false,
            ),
            (
                "cut-call",
                "evaluations: [{metric: contains, value: Paris}], forbidden_tools: [delete, lookup]",
                Failed,
                Failed,
                false,
            ),
            (
                "cut-call",
                "evaluations: [{metric: contains, value: Paris}], expected_tools: [lookup]",
                Passed,
                Passed,
                false,
            ),
        ] {
            let case = format!("{{input: {question} {reason}, {checks}}}");
            let (state, _, errors) = state_of(&case).await;
            assert_eq!(
                state,
                if is_cut { after_cut } else { whole },
                "{case}: {errors:?}"
            );
            let has_note = errors.iter().any(|error| error.contains(note));
            assert_eq!(has_note, is_cut && is_noted, "{case}: {errors:?}");
        }
    }
}

#[tokio::test]
async fn a_case_without_checks_is_unchecked_and_a_run_of_them_is_not_green() {
    let project = Project::new("test_cases:\n  - {input: q, expected_tools: []}\n  - {input: q}\n");
    let run = project.run(&backend()).await;
    assert_eq!(run.outcome.head.summary.unchecked, 2);
    assert_eq!(run.outcome.head.summary.pass_rate, None);
    assert_eq!(run.code(), 5);
}

#[tokio::test]
async fn an_empty_plan_is_an_error() {
    let project = Project::new("test_cases: []\n");
    assert!(matches!(
        run(project.request(&backend())).await,
        Err(RunError::Nothing)
    ));
}

#[tokio::test]
async fn a_conversation_is_graded_turn_by_turn() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - turns:\n      - {{input: q, ground_truth: Paris}}\n      - {{input: q, ground_truth: Rome}}\n"
    ));
    let run = project.run(&backend()).await;
    let result = run.results().remove(0);
    let turns = result.turns.as_ref().unwrap();
    assert_eq!(
        turns.iter().map(|turn| turn.state).collect::<Vec<_>>(),
        [CaseState::Passed, CaseState::Failed]
    );
    assert_eq!(result.state, CaseState::Failed);
    assert_eq!(result.metric_results[0].score, Some(0.5));
    assert_eq!(result.metric_results[0].passed, Some(false));
    assert_eq!(result.test_input, "q\n---\nq");
}

#[tokio::test]
async fn a_conversation_is_skipped_after_two_consecutive_errors() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - turns: [{{input: crash, ground_truth: x}}, {{input: crash, ground_truth: x}}, {{input: q, ground_truth: Paris}}]\n"
    ));
    let backend = backend();
    let run = project.run(&backend).await;
    let result = run.results().remove(0);
    assert!(result.turns.as_ref().unwrap()[2].skipped);
    assert_eq!(result.state, CaseState::Error);
    assert_eq!(backend.turns(), 2);
}

#[tokio::test]
async fn the_order_of_the_report_is_the_order_of_the_file() {
    let cases = (0..20)
        .map(|n| format!("  - {{name: n{n}, input: q, ground_truth: Paris}}\n"))
        .collect::<Vec<_>>()
        .concat();
    let project = Project::new(&format!("{CONTAINS}test_cases:\n{cases}"));
    let run = project.run(&backend()).await;
    let names: Vec<_> = run
        .results()
        .into_iter()
        .map(|result| result.test_name.unwrap())
        .collect();
    assert_eq!(names, (0..20).map(|n| format!("n{n}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_slow_turn_is_an_error_that_names_the_limit() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - {{input: q, ground_truth: Paris}}\n"
    ));
    let slow = ScriptedBackend::answering(|_| ScriptedTurn::hanging());
    let run = project.run(&slow).await;
    assert_eq!(
        run.results()[0].errors,
        ["timeout exceeded (60 s, `execution.llm_timeout`)"]
    );
    assert_eq!(run.code(), 3);
}
