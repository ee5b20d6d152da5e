//! Forged and damaged journals are never greener than the run was, after it and while it lives.

use std::io::Write as _;

use pretty_assertions::assert_eq;

use super::*;

/// Every kind of line. Of three cases the first passes, the second fails, the third has no verdict.
fn write_finished(path: &Path) -> Journal {
    let mut journal = Journal::create(path, header(3)).unwrap();
    journal.record(0, &unit(&journal, 0, "zero"), None).unwrap();
    journal.grade(0, &grade(CaseState::Passed)).unwrap();
    journal.warn("careful".to_owned()).unwrap();
    let failed = grade(CaseState::Failed);
    journal
        .record(1, &unit(&journal, 1, "one"), Some(&failed))
        .unwrap();
    journal.grade(1, &failed).unwrap();
    journal.record(2, &unit(&journal, 2, "two"), None).unwrap();
    let ended = RunEnd::early(RunEndKind::Interrupted, "interrupted");
    journal.close(&ended, "2026-11-21T00:00:01Z").unwrap();
    journal
}

/// The answer and the verdict of each unit in a journal.
fn contents_of(journal: &Journal) -> Vec<(Option<String>, Option<CaseState>)> {
    let units = 0..journal.unit_count();
    units
        .map(|unit| {
            let answer = journal.unit(unit).transpose().unwrap();
            let answer = answer.map(|unit| unit.turns[0].result.response.clone());
            let verdict = journal.verdict(unit).transpose().unwrap();
            (answer, verdict.map(|grade| grade.state))
        })
        .collect()
}

/// Checks that the file has no answer or verdict that the run does not have, and is not whole unless it is equal.
fn check_never_greener(path: &Path, text: &[u8], original: &[u8], what: &str) {
    fs::write(path, text).unwrap();
    let Ok(journal) = Journal::open(path) else {
        return;
    };
    if journal.is_without_chain() {
        assert!(journal.check_trusted().is_err(), "{what}");
        assert!(journal.reopen().is_err(), "{what}");
        return;
    }
    let truth = [
        (Some("zero".to_owned()), Some(CaseState::Passed)),
        (Some("one".to_owned()), Some(CaseState::Failed)),
        (Some("two".to_owned()), None),
    ];
    for (content, truth) in contents_of(&journal).iter().zip(&truth) {
        assert!(content.0.is_none() || content.0 == truth.0, "{what}: {content:?}");
        assert!(content.1.is_none() || content.1 == truth.1, "{what}: {content:?}");
    }
    assert!(!journal.is_completed(), "{what}");
    // Only a cut leaves a journal whose lines all fit, and it then has no end.
    if text != original {
        let end = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let is_cut = original.starts_with(&text[..end]) || journal.check_trusted().is_err();
        assert!(is_cut, "{what}");
        assert!(journal.ended().is_none(), "{what}");
    }
    let again = journal.reopen().unwrap();
    assert_eq!(again.broken(), None, "{what}");
    // Under the first line of another run nothing counts; that run's name is not the file's.
    let kept = fs::read(path).unwrap();
    assert!(
        original.starts_with(&kept) || again.header().run_id != "r",
        "{what}"
    );
}

#[test]
fn a_forged_journal_is_never_greener() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("r.jsonl"), dir.path().join("other.jsonl"));
    drop(write_finished(&path));
    // Another run of the same cases, all of which passed.
    let header = JournalHeader {
        run_id: "other".to_owned(),
        ..header(3)
    };
    let mut green = Journal::create(&other, header).unwrap();
    for place in 0..3 {
        let passed = grade(CaseState::Passed);
        green.record(place, &unit(&green, place, "right"), None).unwrap();
        green.grade(place, &passed).unwrap();
    }
    green.close(&RunEnd::completed(), "2026-11-21T00:00:01Z").unwrap();
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let green = fs::read_to_string(&other).unwrap();
    let green: Vec<&str> = green.split_inclusive('\n').collect();
    let check = |text: &[u8], what: &str| check_never_greener(&path, text, &whole, what);
    check(&whole, "the journal itself");
    for at in (0..whole.len()).step_by(3) {
        check(&whole[..at], &format!("cut at {at}"));
        let mut edited = whole.clone();
        edited[at] = if edited[at] == b'1' { b'2' } else { b'1' };
        check(&edited, &format!("byte {at} changed"));
    }
    for at in (0..whole.len()).step_by(17) {
        check(
            &[&whole[..at], &whole[at + 1..]].concat(),
            &format!("byte {at} removed"),
        );
        check(
            &[&whole[..at], b" ", &whole[at..]].concat(),
            &format!("byte {at} added"),
        );
    }
    let forged = lines[2].replace("passed", "failed");
    let unchained = |line: &str| format!("{}}}\n", line.split(",\"chain\"").next().unwrap());
    for place in 0..lines.len() {
        let with = |insert: &[&str], skip: usize| {
            let rest = &lines[place + skip..];
            [&lines[..place], insert, rest].concat().concat().into_bytes()
        };
        check(&with(&[], 1), &format!("line {place} removed"));
        check(&with(&[lines[place]], 0), &format!("line {place} twice"));
        check(
            &with(&[], lines.len() - place),
            &format!("cut before line {place}"),
        );
        for (words, other) in [
            ("failed", "passed"),
            ("passed", "failed"),
            ("interrupted", "completed"),
        ] {
            let edited = lines[place].replace(words, other);
            check(&with(&[&edited], 1), &format!("line {place} with {other}"));
        }
        let bare = unchained(lines[place]);
        check(&with(&[&bare], 1), &format!("line {place} without a digest"));
        for (from, line) in green.iter().chain([&&*forged]).enumerate() {
            check(
                &with(&[line], 0),
                &format!("line {from} of another run before {place}"),
            );
            check(
                &with(&[line], 1),
                &format!("line {from} of another run at {place}"),
            );
            let bare = unchained(line);
            check(
                &with(&[&bare], 0),
                &format!("line {from} without a digest before {place}"),
            );
        }
        for later in place + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(place, later);
            check(
                swapped.concat().as_bytes(),
                &format!("lines {place} and {later} swapped"),
            );
        }
    }
    for (from, line) in green.iter().chain(&lines).chain([&&*forged]).enumerate() {
        check(
            &[text.as_bytes(), line.as_bytes()].concat(),
            &format!("line {from} appended"),
        );
        let bare = unchained(line);
        check(
            &[text.as_bytes(), bare.as_bytes()].concat(),
            &format!("line {from} appended bare"),
        );
    }
    check(
        &[text.as_bytes(), green.concat().as_bytes()].concat(),
        "another run appended",
    );
    let older = text.replacen("\"holodeck_journal\":3", "\"holodeck_journal\":2", 1);
    check(older.as_bytes(), "an earlier version");
    let bare: String = older.split_inclusive('\n').map(unchained).collect();
    check(bare.as_bytes(), "an earlier version without digests");
    check(
        bare.replace("failed", "passed").as_bytes(),
        "an earlier version that passed",
    );
}

#[test]
fn a_journal_of_the_version_without_digests_can_only_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    drop(write_finished(&path));
    let text = fs::read_to_string(&path).unwrap();
    let older = text.replacen("\"holodeck_journal\":3", "\"holodeck_journal\":2", 1);
    let lines = older.lines().map(|line| line.split(",\"chain\"").next().unwrap());
    fs::write(&path, lines.flat_map(|line| [line, "}\n"]).collect::<String>()).unwrap();
    let journal = Journal::open(&path).unwrap();
    assert!(journal.is_without_chain());
    assert_eq!(
        journal.ended().map(|ended| ended.how),
        Some(RunEndKind::Interrupted)
    );
    assert_eq!(
        contents_of(&journal)[1],
        (Some("one".to_owned()), Some(CaseState::Failed))
    );
    assert!(matches!(
        journal.check_trusted(),
        Err(JournalError::WithoutChain { .. })
    ));
    assert!(matches!(journal.reopen(), Err(JournalError::WithoutChain { .. })));
}

/// A way in which another program changes a journal while its run lives, and whether the run's own lines survive.
type Attack = (&'static str, fn(&Path), bool);

fn append(path: &Path, text: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text).unwrap();
}

/// A line that fits to the end of the file, with correct digests.
fn append_fitting(path: &Path) {
    let mut journal = Journal::open(path).unwrap();
    let line = Line::<(), _>::Graded(GradeLine {
        key: UnitKey {
            case: journal.plan()[1].id,
            trial: 0,
        },
        grade: &grade(CaseState::Passed),
    });
    let mut text = Vec::new();
    let _ = journal
        .chain
        .append(&serde_json::to_vec(&line).unwrap(), &mut text);
    append(path, &text);
    journal.end = 0;
}

/// All lines again, with other verdicts and right digests.
fn rewrite(path: &Path) {
    let text = fs::read_to_string(path).unwrap().replace("failed", "passed");
    let mut chain = Chain::default();
    let mut rewritten = Vec::new();
    for line in text.lines() {
        let object = format!("{}}}", line.split(",\"chain\"").next().unwrap());
        chain = chain.append(object.as_bytes(), &mut rewritten).chain;
    }
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(&rewritten, 0)
        .unwrap();
}

const ATTACKS: &[Attack] = &[
    (
        "a line is appended",
        |path| append(path, b"{\"warning\":\"x\"}\n"),
        true,
    ),
    ("a part of a line is appended", |path| append(path, b"{"), true),
    ("a line that fits is appended", append_fitting, true),
    ("every line is written again", rewrite, false),
    (
        "the end is cut off",
        |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length - 50).unwrap();
        },
        false,
    ),
    ("the file is emptied", |path| fs::write(path, "").unwrap(), false),
    (
        "a byte is changed",
        |path| {
            let text = fs::read_to_string(path).unwrap();
            let at = text.find("zero").unwrap() as u64;
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"x", at).unwrap();
        },
        false,
    ),
    (
        "the file is replaced",
        |path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        },
        true,
    ),
    ("the file is removed", |path| fs::remove_file(path).unwrap(), true),
];

#[test]
fn what_another_program_writes_while_the_run_lives_does_not_count() {
    for (what, attack, is_kept) in ATTACKS {
        for goes_on in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("r.jsonl");
            let mut journal = Journal::create(&path, header(3)).unwrap();
            journal.record(0, &unit(&journal, 0, "zero"), None).unwrap();
            journal.grade(0, &grade(CaseState::Passed)).unwrap();
            journal.record(1, &unit(&journal, 1, "one"), None).unwrap();
            journal.grade(1, &grade(CaseState::Failed)).unwrap();
            attack(&path);
            if goes_on {
                journal.record(2, &unit(&journal, 2, "two"), None).unwrap();
                journal.grade(2, &grade(CaseState::Failed)).unwrap();
            }
            assert!(journal.check_written().unwrap(), "{what}");
            let content = contents_of(&journal);
            let own = [
                (Some("zero".to_owned()), Some(CaseState::Passed)),
                (Some("one".to_owned()), Some(CaseState::Failed)),
            ];
            if *is_kept {
                assert_eq!(content[..2], own, "{what}");
            }
            for (content, own) in content.iter().zip(&own) {
                assert!(content.0.is_none() || content.0 == own.0, "{what}: {content:?}");
                assert!(content.1.is_none() || content.1 == own.1, "{what}: {content:?}");
            }
            let ended = RunEnd::completed().with_foreign_lines();
            journal.close(&ended, "2026-11-21T00:00:01Z").unwrap();
            // The file is refused, or has what the run had.
            let Ok(read) = Journal::open(&path) else { continue };
            if read.check_trusted().is_ok() {
                assert!(!read.is_completed(), "{what}");
                for (later, content) in super::forged::contents_of(&read).iter().zip(&content) {
                    assert!(later.1.is_none() || later == content, "{what}: {later:?}");
                }
            }
        }
    }
}

#[test]
fn a_journal_that_only_its_run_writes_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.jsonl");
    let mut journal = write_journal(&path);
    assert!(!journal.check_written().unwrap());
    journal.judged(Vec::new()).unwrap();
    journal.warn("careful".to_owned()).unwrap();
    drop(journal);
    let mut journal = Journal::open(&path).unwrap().reopen().unwrap();
    assert!(!journal.check_written().unwrap());
    journal.record(2, &unit(&journal, 2, "two"), None).unwrap();
    assert!(!journal.check_written().unwrap());
    journal
        .close(&RunEnd::completed(), "2026-11-21T00:00:01Z")
        .unwrap();
    let read = Journal::open(&path).unwrap();
    assert_eq!((read.is_completed(), read.broken()), (true, None));
}
