use std::fs;

use holodeck_model::CaseState;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::report::samples;

fn header() -> JournalHeader {
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: "r1".to_owned(),
        started_at: "2026-11-21T20:11:03Z".to_owned(),
        agent_name: "a".to_owned(),
        agent_path: "agent.yaml".to_owned(),
        agent_hash: "00".to_owned(),
        holodeck_version: "0".to_owned(),
        cli_args: vec![],
        selected: Selected::First(3),
        replayed: None,
        settings: json!({}),
        mcp_servers: Vec::new(),
    }
}

#[test]
fn what_was_recorded_is_read_in_the_order_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/r1.jsonl");
    let mut journal = Journal::create(&path, header()).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("deep")).unwrap().count(), 1);
    for index in [2, 0] {
        journal
            .record(&samples::result(index, CaseState::Passed, &[]))
            .unwrap();
    }
    journal.close("completed", "now").unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.header(), &header());
    let indices: Vec<_> = journal.results().map(|result| result.unwrap().index).collect();
    assert_eq!(indices, [0, 2]);
    assert!(journal.is_finished(2) && !journal.is_finished(1));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// A killed process can leave any prefix of what it wrote: whatever it is, the finished cases are there, the cut one
/// is not, and going on gives a whole journal.
#[test]
fn a_journal_cut_anywhere_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r1.jsonl");
    let mut journal = Journal::create(&path, header()).unwrap();
    let mut ends = vec![fs::metadata(&path).unwrap().len()];
    for index in 0..2 {
        journal
            .record(&samples::result(index, CaseState::Passed, &[]))
            .unwrap();
        ends.push(fs::metadata(&path).unwrap().len());
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    // Every cut near the end of a line, where it matters most, and samples between: each costs a disk sync.
    let first = usize::try_from(ends[0]).unwrap();
    let near = |cut: &usize| ends.iter().any(|&end| end.abs_diff(*cut as u64) < 3) || cut.is_multiple_of(61);
    for cut in (first..=whole.len()).filter(near) {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut journal = Journal::reopen(&path).unwrap();
        let expected = ends.iter().filter(|&&end| end <= cut as u64).count() - 1;
        assert_eq!(journal.finished(), expected, "cut at {cut}");
        journal
            .record(&samples::result(7, CaseState::Failed, &[]))
            .unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(
            journal.results().map(Result::unwrap).count(),
            expected + 1,
            "cut at {cut}"
        );
    }
}

#[test]
fn other_files_and_versions_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r1.jsonl");
    for (content, said) in [
        ("", "line 1: this is not a journal of a run"),
        ("{}\n", "line 1: this is not a journal of a run"),
        (
            "{\"holodeck_journal\": 9}\n",
            "has format version 9; this holodeck reads version 1",
        ),
    ] {
        fs::write(&path, content).unwrap();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_case_recorded_twice_counts_once_with_its_last_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r1.jsonl");
    let mut journal = Journal::create(&path, header()).unwrap();
    journal
        .record(&samples::result(0, CaseState::Failed, &[]))
        .unwrap();
    journal
        .record(&samples::result(0, CaseState::Passed, &[]))
        .unwrap();
    assert_eq!(journal.finished(), 1);
    assert_eq!(journal.result(0).unwrap().unwrap().state, CaseState::Passed);
}

#[test]
fn a_damaged_selection_is_no_longer_than_the_cases() {
    assert_eq!(Selected::First(usize::MAX).indices(3), [0, 1, 2]);
    assert_eq!(Selected::First(2).indices(3), [0, 1]);
    assert_eq!(Selected::Only(vec![2, usize::MAX]).indices(3), [2]);
}
