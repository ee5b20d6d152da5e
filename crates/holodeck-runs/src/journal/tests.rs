//! Tests that a journal is read back unchanged, and that cuts and damage anywhere lose only the affected units.

use std::fs;

use holodeck_model::{
    Adaptation, CaseIdentity, Cases, ExecutionState, MemoryFiles, RunMetadata, UnitKey, identify_cases,
};
use holodeck_turn::TurnRecord;
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::{RunEnd, RunFlags, TurnGrade};

mod forged;
mod indexed;

fn plan(cases: usize) -> Vec<CaseIdentity> {
    let yaml: Vec<Value> = (0..cases)
        .map(|n| serde_json::json!({"name": format!("n{n}"), "input": format!("q{n}")}))
        .collect();
    let cases: Cases = serde_json::from_value(yaml.into()).unwrap();
    identify_cases(&cases, &MemoryFiles::new())
}

fn header(cases: usize) -> JournalHeader {
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: "r".to_owned(),
        started_at: "2026-11-21T00:00:00Z".to_owned(),
        agent_name: "a".to_owned(),
        agent_path: "./agent.yaml".to_owned(),
        agent_file: "agent.yaml".to_owned(),
        model: "openai m".to_owned(),
        regrades: None,
        combination: None,
        shard: None,
        merged_from: Vec::new(),
        agent: [("agent".to_owned(), "1".to_owned())].into(),
        selected: StoredSelection::default(),
        plan: plan(cases).into(),
        trials: Vec::new(),
        flags: RunFlags::default(),
        replayed: None,
        judge_steps: None,
        settings: Value::Null,
        metadata: RunMetadata {
            agent_config: Value::Null,
            prompt_version: Value::Null,
            holodeck_version: "0".to_owned(),
            cli_args: Vec::new(),
            git_commit: None,
            mcp_servers: Vec::new(),
            managed_files: Vec::new(),
        },
    }
}

fn unit(journal: &Journal, place: usize, answer: &str) -> UnitRecord {
    let case = journal.plan()[place];
    let mut turn = TurnRecord {
        input: format!("q{place}"),
        state: ExecutionState::Completed,
        ..TurnRecord::default()
    };
    answer.clone_into(&mut turn.result.response);
    UnitRecord {
        route: None,
        key: UnitKey {
            case: case.id,
            trial: 0,
        },
        case,
        name: None,
        conversation: false,
        at: "2026-11-21T00:00:00Z".to_owned(),
        turns: vec![turn],
        failures: Vec::new(),
        user: None,
        quality_loop: None,
    }
}

fn grade(state: CaseState) -> Grade {
    Grade {
        deciders: holodeck_model::CaseDeciders::known(),
        min_passes: None,
        state,
        turns: vec![TurnGrade::bare(state)],
        conversation: None,
        score: None,
        score_failure: None,
        judging: None,
        expected: None,
    }
}

impl Journal {
    fn record(
        &mut self,
        place: usize,
        unit: &UnitRecord,
        checks: Option<&Grade>,
    ) -> Result<(), JournalError> {
        let line = self.record_line(unit, checks)?;
        self.write_record(place, &line)
    }
}

/// A journal of three units: one passed, one was only executed, one was not started.
fn write_journal(path: &Path) -> Journal {
    let mut journal = Journal::create(path, header(3)).unwrap();
    journal.record(0, &unit(&journal, 0, "zero"), None).unwrap();
    journal.grade(0, &grade(CaseState::Passed)).unwrap();
    journal.record(1, &unit(&journal, 1, "one"), None).unwrap();
    journal
}

fn answers(journal: &Journal) -> Vec<String> {
    let units = journal.units();
    units
        .map(|unit| unit.unwrap().turns[0].result.response.clone())
        .collect()
}

#[test]
fn a_record_and_its_verdict_in_one_write_are_what_two_writes_are() {
    let dir = tempfile::tempdir().unwrap();
    let (once, twice) = (dir.path().join("once.jsonl"), dir.path().join("twice.jsonl"));
    let mut journal = Journal::create(&once, header(3)).unwrap();
    let line = journal.record_line(&unit(&journal, 0, "zero"), None).unwrap();
    journal.write_graded(0, &line, &grade(CaseState::Passed)).unwrap();
    assert_eq!(
        (journal.finished(), answers(&journal)),
        (1, vec!["zero".to_owned()])
    );
    assert_eq!(journal.verdict(0).unwrap().unwrap(), grade(CaseState::Passed));
    let line = journal.record_line(&unit(&journal, 1, "one"), None).unwrap();
    journal.write_record(1, &line).unwrap();
    write_journal(&twice);
    assert_eq!(std::fs::read(&once).unwrap(), std::fs::read(&twice).unwrap());
}

#[test]
fn a_journal_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let mut journal = write_journal(&path);
    journal.warn("careful".to_owned()).unwrap();
    journal
        .close(&RunEnd::completed(), "2026-11-21T00:00:01Z")
        .unwrap();
    let read = Journal::open(&path).unwrap();
    assert_eq!(read.header(), &header(3));
    assert_eq!(answers(&read), ["zero", "one"]);
    assert_eq!(read.verdict(0).unwrap().unwrap(), grade(CaseState::Passed));
    assert!(read.verdict(1).is_none() && read.unit(2).is_none());
    assert_eq!(
        (read.finished(), read.warnings()),
        (1, &["careful".to_owned()][..])
    );
    assert_eq!(read.not_passed().unwrap(), [1, 2]);
    assert_eq!(read.ended(), Some(&RunEnd::completed()));
}

#[test]
fn what_was_adapted_is_written_once_and_survives_a_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let of = |model: &str| Adaptation {
        endpoint: "http://host/v1/chat/completions".to_owned(),
        model: model.to_owned(),
        part: "stream".to_owned(),
        note: "it does not stream".to_owned(),
    };
    let mut journal = write_journal(&path);
    for model in ["m", "judge", "m"] {
        journal.adapted(&of(model)).unwrap();
    }
    drop(journal);
    let mut journal = Journal::open(&path).unwrap().reopen().unwrap();
    journal.adapted(&of("judge")).unwrap();
    journal
        .close(&RunEnd::completed(), "2026-11-21T00:00:01Z")
        .unwrap();
    let read = Journal::open(&path).unwrap();
    assert_eq!(read.adaptations(), [of("m"), of("judge")]);
    assert!(read.broken().is_none() && read.warnings().is_empty());
    assert_eq!(
        (read.finished(), answers(&read)),
        (1, vec!["zero".to_owned(), "one".to_owned()])
    );
}

#[test]
fn checks_that_saw_secrets_are_in_the_line_of_their_unit_and_are_no_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let mut journal = write_journal(&path);
    let (passed, failed) = (grade(CaseState::Passed), grade(CaseState::Failed));
    journal
        .record(2, &unit(&journal, 2, "***"), Some(&passed))
        .unwrap();
    let read = Journal::open(&path).unwrap();
    assert_eq!(read.checks(2).unwrap().unwrap(), passed);
    assert!(read.verdict(2).is_none());
    assert_eq!(read.finished(), 1);
    journal.grade(2, &failed).unwrap();
    let read = Journal::open(&path).unwrap();
    assert_eq!(read.checks(2).unwrap().unwrap(), passed);
    assert_eq!(read.verdict(2).unwrap().unwrap(), failed);
    // Without checks of its own, a unit has its first verdict.
    assert_eq!(read.checks(0).unwrap().unwrap(), passed);
}

#[test]
fn every_cut_keeps_the_lines_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    drop(write_journal(&path));
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|&byte| byte == b'\n').unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        match Journal::open(&path) {
            Err(error) => assert!(cut <= first, "{cut}: {error}"),
            Ok(journal) => {
                assert!(cut > first);
                let lines = whole[..cut].split(|&byte| byte == b'\n').count() - 1;
                let units = journal.units().count();
                assert_eq!(units, [0, 1, 1, 2][lines - 1], "{cut}");
                assert!(journal.warnings().is_empty());
            }
        }
        // Opening a journal writes nothing.
        assert_eq!(fs::read(&path).unwrap(), &whole[..cut]);
    }
    let mut journal = Journal::open(&path).unwrap().reopen().unwrap();
    journal.record(1, &unit(&journal, 1, "again"), None).unwrap();
    assert_eq!(answers(&Journal::open(&path).unwrap()), ["zero", "again"]);
}

#[test]
fn a_first_line_without_its_end_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    drop(write_journal(&path));
    let whole = fs::read_to_string(&path).unwrap();
    for damaged in [
        whole.replacen('\n', "", 1),
        whole.lines().next().unwrap().to_owned(),
        String::new(),
        "{\"holodeck_journal\":2}\n".to_owned(),
        "something else\n".to_owned(),
    ] {
        fs::write(&path, &damaged).unwrap();
        assert!(matches!(
            Journal::open(&path),
            Err(JournalError::Malformed { line: 1, .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
    }
    for damaged in ["{\"holodeck_journal\":3}\n", &whole.replace("\"a\"", "\"b\"")] {
        fs::write(&path, damaged).unwrap();
        assert!(matches!(
            Journal::open(&path),
            Err(JournalError::Broken { line: 1, .. })
        ));
    }
    for found in [1, 99] {
        fs::write(&path, format!("{{\"holodeck_journal\":{found}}}\n")).unwrap();
        let refused = Journal::open(&path);
        assert!(matches!(refused, Err(JournalError::Version { found: version, .. }) if version == found));
    }
}

#[test]
fn from_a_damaged_line_on_nothing_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    drop(write_journal(&path));
    let whole = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    let cut = &lines[2][..lines[2].len() - 7];
    lines[2] = cut;
    fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(answers(&journal), ["zero"]);
    assert_eq!(journal.finished(), 0);
    let broken = Break {
        line: 3,
        lines: 2,
        cases: 1,
    };
    assert_eq!(journal.broken(), Some(broken));
    assert!(matches!(
        journal.check_whole(),
        Err(JournalError::Broken { line: 3, .. })
    ));
    // A resumed run continues after the last line that fits.
    let mut journal = journal.reopen().unwrap();
    journal.grade(0, &grade(CaseState::Failed)).unwrap();
    journal.record(1, &unit(&journal, 1, "again"), None).unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!((journal.broken(), journal.finished()), (None, 1));
    assert_eq!(answers(&journal), ["zero", "again"]);
}

#[test]
fn the_trials_of_a_case_are_one_after_the_other() {
    let trials = |count| CaseTrials { count, min_passes: 1 };
    let units = Units::new(3, &[trials(2), trials(1), trials(3)]);
    assert_eq!(units.count(), 6);
    let ranges: Vec<_> = (0..4).map(|case| units.of(case)).collect();
    assert_eq!(ranges, [0..2, 2..3, 3..6, 0..0]);
    let cases: Vec<_> = (0..6).map(|unit| units.case_of(unit)).collect();
    assert_eq!(cases, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]);
    let once = Units::new(3, &[]);
    assert_eq!((once.count(), once.of(2), once.case_of(2)), (3, 2..3, (2, 0)));
    assert!(once.of(3).is_empty());
    let plan = plan(3);
    let places = plan.iter().enumerate().map(|(place, case)| (case.id, place));
    let places = places.collect();
    let find = |units: &Units, case: usize, trial| {
        let case = plan[case].id;
        units.find(&places, UnitKey { case, trial })
    };
    assert_eq!((find(&units, 2, 1), find(&units, 1, 1)), (Some(4), None));
    assert_eq!((find(&once, 2, 0), find(&once, 2, 1)), (Some(2), None));
}
