//! Tests that a case is read by the positions of its lines, and that no position gives the verdict of another line.

use pretty_assertions::assert_eq;

use super::*;

/// A journal with an end: the first case passed, the second failed, the third was not run.
fn ended(path: &Path) -> Journal {
    let mut journal = write_journal(path);
    journal.grade(1, &grade(CaseState::Failed)).unwrap();
    let end = RunEnd::early(RunEndKind::Stopped, "because");
    journal.close(&end, "2026-11-21T00:00:01Z").unwrap();
    Journal::open(path).unwrap()
}

fn open(path: &Path, journal: &Journal, cases: &[(usize, Vec<UnitLines>)]) -> Result<Journal, JournalError> {
    let index = serde_json::to_string(&journal.index().unwrap()).unwrap();
    let cases = serde_json::from_str::<Vec<_>>(&serde_json::to_string(cases).unwrap()).unwrap();
    Journal::open_indexed(
        path,
        File::open(path).unwrap(),
        &serde_json::from_str(&index).unwrap(),
        cases,
    )
}

#[test]
fn only_the_given_cases_have_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let journal = ended(&path);
    let one = open(&path, &journal, &[(1, journal.lines_of(1))]).unwrap();
    assert_eq!(one.case_state(1).unwrap(), Some(CaseState::Failed));
    assert_eq!(answers(&one), ["one"]);
    assert_eq!(one.case_state(0).unwrap(), None);
    assert_eq!((one.ended(), one.finished_cases()), (journal.ended(), 1));
    assert_eq!(one.header(), journal.header());
    let all = [0, 1, 2].map(|case| (case, journal.lines_of(case)));
    let all = open(&path, &journal, &all).unwrap();
    assert_eq!(answers(&all), answers(&journal));
    assert_eq!(all.case_state(2).unwrap(), None);
}

#[test]
fn a_position_of_another_line_is_an_error_and_never_its_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let journal = ended(&path);
    let (passed, failed) = (journal.lines_of(0), journal.lines_of(1));
    let swapped = open(&path, &journal, &[(1, passed.clone())]).unwrap();
    assert!(swapped.verdict(1).unwrap().is_err() && swapped.unit(1).unwrap().is_err());
    // The answer of this case with the verdict on another one, and two verdicts.
    let parts = |lines: &[UnitLines]| {
        let text = serde_json::to_string(&lines[0]).unwrap();
        let (ran, graded) = text.split_once(",\"graded\":").unwrap();
        let ran = ran.strip_prefix("{\"ran\":").unwrap();
        (ran.to_owned(), graded.trim_end_matches('}').to_owned())
    };
    let ((_, passed), (ran, graded)) = (parts(&passed), parts(&failed));
    let mixed = |ran: &str, graded: &str| {
        let lines = format!("{{\"ran\":{ran},\"graded\":{graded}}}");
        vec![serde_json::from_str::<UnitLines>(&lines).unwrap()]
    };
    let opened = open(&path, &journal, &[(1, mixed(&ran, &passed))]).unwrap();
    assert!(opened.unit(1).unwrap().is_ok() && opened.verdict(1).unwrap().is_err());
    let opened = open(&path, &journal, &[(1, mixed(&graded, &ran))]).unwrap();
    assert!(opened.unit(1).unwrap().is_err() && opened.verdict(1).unwrap().is_err());
    // Further than the file is.
    let far = mixed("[1,4294967295,7]", &graded);
    assert!(open(&path, &journal, &[(1, far)]).is_err());
    assert!(open(&path, &journal, &[(1, Vec::new())]).is_err());
    // A line that changed since.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"failed\"", "\"passed\"", 1)).unwrap();
    let changed = open(&path, &journal, &[(1, journal.lines_of(1))]).unwrap();
    assert!(changed.verdict(1).unwrap().is_err());
}

#[test]
fn a_journal_that_may_change_has_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    write_journal(&path);
    assert_eq!(Journal::open(&path).unwrap().index(), None);
    let base = ended(&dir.path().join("base.jsonl"));
    let regrade = JournalHeader {
        regrades: Some("base".to_owned()),
        ..header(3)
    };
    let regraded = dir.path().join("regraded.jsonl");
    let mut journal = Journal::create_regrade(&regraded, regrade, base, None).unwrap();
    journal.grade(0, &grade(CaseState::Failed)).unwrap();
    journal.close(&RunEnd::completed(), "").unwrap();
    assert_eq!(Journal::open(&regraded).unwrap().index(), None);
}

#[test]
fn a_journal_that_was_opened_for_one_case_loses_nothing_when_it_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let journal = ended(&path);
    let before = fs::read(&path).unwrap();
    let one = open(&path, &journal, &[(1, journal.lines_of(1))]).unwrap();
    let reopened = one.reopen().unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(answers(&reopened), ["zero", "one"]);
}

/// A call of a judge for a case of the journal.
fn call(case: usize, prompt: &str) -> JudgedLine {
    let (identity, trial) = (header(3).plan[case], 0);
    JudgedLine {
        key: Some(UnitKey {
            case: identity.id,
            trial,
        }),
        asked_by: None,
        question: format!("digest of {prompt}"),
        label: "polite".to_owned(),
        prompt: prompt.to_owned(),
        answer: None,
        failure: Some("too late".to_owned()),
        used: holodeck_model::Spent::default(),
    }
}

#[test]
fn the_calls_of_judges_are_those_of_the_verdict_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let mut journal = write_journal(&path);
    journal
        .judged(vec![call(1, "first"), call(0, "of another case")])
        .unwrap();
    journal.grade(1, &grade(CaseState::Passed)).unwrap();
    journal.judged(vec![call(1, "second")]).unwrap();
    journal.grade(1, &grade(CaseState::Failed)).unwrap();
    journal
        .close(&RunEnd::early(RunEndKind::Stopped, "because"), "")
        .unwrap();
    let whole = Journal::open(&path).unwrap();
    let indexed = open(&path, &whole, &[(1, whole.lines_of(1))]).unwrap();
    for journal in [&whole, &indexed] {
        assert_eq!(journal.judged_by(1).unwrap(), [call(1, "second")]);
        assert_eq!(journal.judged_by(2).unwrap(), []);
    }
    // The position of the call for another case.
    let own = serde_json::to_string(&whole.lines_of(1)).unwrap();
    let (before, _) = own.split_once(",\"judged\":").unwrap();
    let other = serde_json::to_string(whole.judgements.get(&0).unwrap()).unwrap();
    let lines = serde_json::from_str(&format!("{before},\"judged\":{other}}}]")).unwrap();
    assert!(open(&path, &whole, &[(1, lines)]).unwrap().judged_by(1).is_err());
}
