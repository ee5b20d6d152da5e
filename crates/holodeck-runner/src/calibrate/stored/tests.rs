//! Tests that a stored calibration is accepted only for the judge it was made with, undamaged, and with sufficient
//! agreement.

use std::{os::unix::fs::symlink, path::Path};

use holodeck_model::{LabelledContent, LabelledItem, Location, Span};
use pretty_assertions::assert_eq;

use super::*;
use holodeck_model::Spent;

fn judge() -> CalibratedJudge {
    let parts = [("`criteria`", "c1"), ("`threshold`", "t1"), ("judge 1", "j1")];
    let environment = [("OPENAI_BASE_URL of judge 1", "u1")];
    let digests = |parts: &[(&str, &str)]| {
        let parts = parts.iter();
        parts
            .map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned()))
            .collect()
    };
    CalibratedJudge {
        metric: "Helpful".to_owned(),
        judges: vec!["a-model".to_owned()],
        parts: digests(&parts),
        environment: digests(&environment),
    }
}

/// As many rows as the numbers of `[people][judge]` say.
fn rows(confusion: [[usize; 2]; 2]) -> Vec<JudgedLabel> {
    let mut rows = Vec::new();
    for (people, of_judge) in confusion.into_iter().enumerate() {
        for (judge, count) in of_judge.into_iter().enumerate() {
            for _ in 0..count {
                rows.push(row(rows.len(), people == 1, judge == 1));
            }
        }
    }
    rows
}

fn row(number: usize, people: bool, judge: bool) -> JudgedLabel {
    let response = format!("the confidential answer {number}");
    JudgedLabel {
        verdict: Ok(LabelledVerdict {
            people,
            judge,
            score: if judge { 0.9 } else { 0.1 },
            length: response.len(),
        }),
        item: LabelledItem {
            location: Location {
                path: Path::new("labels.csv").into(),
                line: number + 2,
                column: 1,
                span: Span::default(),
            },
            case: None,
            content: LabelledContent::Answer {
                input: "A question?".to_owned(),
                response,
            },
            ground_truth: None,
            retrieval_context: None,
            passed: people,
        },
        reason: None,
    }
}

fn run(rows: Vec<JudgedLabel>) -> CalibrationRun {
    let verdicts: Vec<LabelledVerdict> = rows.iter().filter_map(|row| row.verdict.clone().ok()).collect();
    CalibrationRun {
        metric: "Helpful".to_owned(),
        subject: crate::JudgedSubject::Answers,
        judges: vec!["a-model".to_owned()],
        threshold: Some(0.5),
        calibration: Calibration::of(&verdicts),
        rows,
        usage: Spent::default(),
    }
}

/// κ of these is 0.6.
const BALANCED: [[usize; 2]; 2] = [[8, 2], [2, 8]];

fn store(dir: &Path, confusion: [[usize; 2]; 2]) -> PathBuf {
    store_calibration(&run(rows(confusion)), &judge(), dir)
        .unwrap()
        .unwrap()
}

fn check(dir: &Path) -> Result<(), String> {
    judge().check(dir, CalibrationMinimum::default(), VerdictSource::Live)
}

#[test]
fn a_file_has_one_line_for_each_verdict_and_no_texts() {
    let dir = tempfile::tempdir().unwrap();
    let file = store(dir.path(), [[4, 1], [1, 4]]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        !text.contains("confidential") && !text.contains("question"),
        "{text}"
    );
    assert_eq!(file.strip_prefix(dir.path()).unwrap(), judge().file());
    insta::with_settings!({filters => vec![
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[time]"),
        (r#""checksum": "[0-9a-f]{16}""#, r#""checksum": "[digest]""#),
    ]}, {
        insta::assert_snapshot!(text, @r#"
        {
          "holodeck_calibration": 1,
          "metric": "Helpful",
          "judges": ["a-model"],
          "threshold": 0.5,
          "calibrated_at": "[time]",
          "labels": 10,
          "kappa": 0.6,
          "kappa_ci": [0.10416397415635076,1.0],
          "parts": {
            "`criteria`": "c1",
            "`threshold`": "t1",
            "judge 1": "j1"
          },
          "environment": {
            "OPENAI_BASE_URL of judge 1": "u1"
          },
          "verdicts": [
            {"row":"03afe0b6c6caf0fc","people":false,"judge":false,"score":0.1},
            {"row":"b6ef4cb326b04f59","people":false,"judge":false,"score":0.1},
            {"row":"3d737bd192f76f34","people":false,"judge":false,"score":0.1},
            {"row":"29996848ea9bf846","people":false,"judge":false,"score":0.1},
            {"row":"4a04ea0c2f7d8c6e","people":false,"judge":true,"score":0.9},
            {"row":"6e5c50bf75fce204","people":true,"judge":false,"score":0.1},
            {"row":"a7533789c7cd3692","people":true,"judge":true,"score":0.9},
            {"row":"c1cca5933adc6fb0","people":true,"judge":true,"score":0.9},
            {"row":"3de2dafbb08b0916","people":true,"judge":true,"score":0.9},
            {"row":"ecf8bacbedf7665e","people":true,"judge":true,"score":0.9}
          ],
          "checksum": "[digest]"
        }
        "#);
    });
    // Git may change the ends of lines.
    check(dir.path()).unwrap();
    fs::write(&file, text.replace('\n', "\r\n")).unwrap();
    check(dir.path()).unwrap();
}

#[test]
fn a_kappa_of_exactly_the_minimum_suffices_however_it_was_rounded() {
    let dir = tempfile::tempdir().unwrap();
    let (mut equal, mut others) = (0, 0);
    for total in [20_usize, 25] {
        for both_fail in 0..=total {
            for judge_only in 0..=total - both_fail {
                for people_only in 0..=total - both_fail - judge_only {
                    let both_pass = total - both_fail - judge_only - people_only;
                    let people = people_only + both_pass;
                    if people == 0 || people == total {
                        continue;
                    }
                    let judged = judge_only + both_pass;
                    // κ = (agreed · n − chance) / (n² − chance), in whole numbers.
                    let chance = people * judged + (total - people) * (total - judged);
                    let agreed = (both_fail + both_pass) * total;
                    let (left, right) = (5 * agreed, 3 * (total * total - chance) + 5 * chance);
                    if left == right {
                        store(dir.path(), [[both_fail, judge_only], [people_only, both_pass]]);
                        assert_eq!(
                            check(dir.path()),
                            Ok(()),
                            "{total} {both_fail} {judge_only} {people_only}"
                        );
                        equal += 1;
                    } else {
                        let verdicts = rows([[both_fail, judge_only], [people_only, both_pass]]);
                        let kappa = run(verdicts).calibration.unwrap().kappa.unwrap().value;
                        assert_eq!(suffices(kappa, 0.6), left > right);
                        others += 1;
                    }
                }
            }
        }
    }
    assert!(equal > 5 && others > 1_000, "{equal} {others}");
}

#[test]
fn a_calibration_below_the_minimum_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), [[7, 3], [2, 8]]);
    insta::assert_snapshot!(check(dir.path()).unwrap_err(), @"κ of its calibration is 0.500, below `min_kappa` 0.6");
    store(dir.path(), BALANCED);
    let minimum = |min_kappa, min_labels| CalibrationMinimum {
        min_kappa,
        min_labels,
    };
    let check = |minimum| judge().check(dir.path(), minimum, VerdictSource::Live);
    assert_eq!(check(minimum(0.6, 20)), Ok(()));
    insta::assert_snapshot!(check(minimum(0.6, 21)).unwrap_err(), @"its calibration has 20 labels, fewer than `min_labels` 21");
    assert!(
        check(minimum(0.61, 20))
            .unwrap_err()
            .contains("below `min_kappa` 0.61")
    );
}

#[test]
fn a_file_whose_numbers_do_not_agree_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let file = store(dir.path(), [[7, 3], [3, 7]]);
    let text = fs::read_to_string(&file).unwrap();
    let kappa = text.lines().find(|line| line.contains("\"kappa\":")).unwrap();
    let interval = text.lines().find(|line| line.contains("\"kappa_ci\":")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("\"row\"")).collect();
    let wrong = lines
        .iter()
        .find(|line| line.contains("false") && line.contains("true"))
        .unwrap();
    let digest = wrong.split('"').nth(3).unwrap();
    let edits = [
        ("κ", text.replace(kappa, "  \"kappa\": 0.8,"), "and it says 0.800"),
        (
            "κ of another type",
            text.replace(kappa, "  \"kappa\": \"0.8\","),
            "invalid type",
        ),
        (
            "the interval",
            text.replace(interval, "  \"kappa_ci\": [0.7,0.9],"),
            "its interval is not that",
        ),
        (
            "a verdict",
            text.replace(wrong, &wrong.replace("\"judge\":true", "\"judge\":false")),
            "κ of its verdicts is",
        ),
        (
            "the answer of a verdict",
            text.replace(digest, "0123456789abcdef"),
            "its checksum differs",
        ),
        (
            "a verdict left out",
            text.replace(&format!("{wrong}\n"), ""),
            "has 20 labels and 19 verdicts, so the calibration is not complete",
        ),
        (
            "an answer twice",
            text.replace(wrong, lines[0].trim_end_matches(','))
                .replace("}\n    {", "},\n    {"),
            "an answer counts twice",
        ),
        (
            "another metric",
            text.replace("Helpful", "Harmless"),
            "its checksum differs",
        ),
        (
            "a field more",
            text.replace(kappa, &format!("{kappa}\n  \"note\": 1,")),
            "unknown field `note`",
        ),
        ("the end", text[..text.len() / 2].to_owned(), "EOF"),
        ("everything", String::new(), "EOF"),
        (
            "the version",
            text.replace("\"holodeck_calibration\": 1", "\"a\": 1"),
            "version",
        ),
    ];
    for (what, edited, reason) in edits {
        assert_ne!(edited, text, "{what}");
        fs::write(&file, edited).unwrap();
        let problem = check(dir.path()).unwrap_err();
        assert!(
            problem.contains("is damaged") && problem.contains(reason),
            "{what}: {problem}"
        );
    }
    let newer = text.replace("\"holodeck_calibration\": 1", "\"holodeck_calibration\": 2");
    fs::write(&file, newer).unwrap();
    let problem = check(dir.path()).unwrap_err();
    assert!(
        problem.contains("was written by a newer version of HoloDeck (format 2)"),
        "{problem}"
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(check(dir.path()).unwrap_err().contains("cannot be read"));
}

#[test]
fn the_calibration_of_another_judge_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(check(dir.path()).unwrap_err(), "its judge was never calibrated");
    let file = store(dir.path(), BALANCED);
    let changed = |name: &str| {
        let mut judge = judge();
        judge.parts.insert(name.to_owned(), "other".to_owned());
        judge
    };
    let minimum = CalibrationMinimum::default();
    let check = |judge: &CalibratedJudge| judge.check(dir.path(), minimum, VerdictSource::Live).unwrap_err();
    assert_eq!(
        check(&changed("`criteria`")),
        "it has changed since its calibration: `criteria` differs"
    );
    let mut other = changed("judge 1");
    other.judges = vec!["b-model".to_owned()];
    assert_eq!(
        check(&other),
        "it has changed since its calibration: judge 1 differs, it was judged by `a-model`, and now by `b-model`"
    );
    // One more juror.
    assert!(check(&changed("judge 2")).contains("judge 2 differs"));
    // A copy under the name of another judge or metric.
    fs::copy(&file, dir.path().join(changed("`criteria`").file())).unwrap();
    let problem = check(&changed("`criteria`"));
    assert!(
        problem.contains("is of another judge: `criteria` differs"),
        "{problem}"
    );
    let mut renamed = judge();
    renamed.metric = "Harmless".to_owned();
    assert_eq!(check(&renamed), "its judge was never calibrated");
    fs::copy(&file, dir.path().join(renamed.file())).unwrap();
    let problem = check(&renamed);
    assert!(
        problem.contains("is of another judge: its metric is `Helpful`"),
        "{problem}"
    );
}

#[test]
fn the_environment_of_a_judge_counts_unless_a_recording_has_its_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), BALANCED);
    let mut judge = judge();
    judge.environment.clear();
    let check = |source| judge.check(dir.path(), CalibrationMinimum::default(), source);
    assert_eq!(check(VerdictSource::Recorded), Ok(()));
    let problem = check(VerdictSource::Live).unwrap_err();
    assert!(
        problem.contains("OPENAI_BASE_URL of judge 1 differs"),
        "{problem}"
    );
}

#[test]
fn metrics_whose_names_differ_in_unsafe_characters_have_different_files() {
    let file = |name: &str| {
        let mut judge = judge();
        judge.metric = name.to_owned();
        judge.file()
    };
    let names = [
        "a/b",
        "a:b",
        "../b",
        "a b",
        "a_b",
        "é",
        "",
        &"long".repeat(100),
        "A_B",
    ];
    let mut files: Vec<PathBuf> = names.iter().map(|name| file(name)).collect();
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(
            name.len() < 70 && file == &Path::new("calibration").join(name),
            "{file:?}"
        );
    }
    files.sort();
    files.dedup();
    assert_eq!(files.len(), names.len());
}

#[test]
fn an_incomplete_calibration_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut judged = rows(BALANCED);
    judged[3].verdict = Err("no answer".to_owned());
    for rows in [judged, rows([[2, 2], [2, 3]]), rows([[0, 0], [2, 18]])] {
        assert!(
            store_calibration(&run(rows), &judge(), dir.path())
                .unwrap()
                .is_none()
        );
    }
    // Masked, both are the same answer, and such a file would be refused later.
    let mut judged = rows(BALANCED);
    judged[1].item.content = judged[0].item.content.clone();
    let error = store_calibration(&run(judged), &judge(), dir.path()).unwrap_err();
    assert_eq!(error.to_string(), "an answer counts twice");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_link_is_replaced_and_not_followed_when_a_calibration_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("other.txt");
    fs::write(&target, "keep").unwrap();
    let file = dir.path().join(judge().file());
    fs::create_dir(file.parent().unwrap()).unwrap();
    symlink(&target, &file).unwrap();
    assert!(check(dir.path()).unwrap_err().contains("is damaged"));
    store(dir.path(), BALANCED);
    assert_eq!(fs::read_to_string(&target).unwrap(), "keep");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    check(dir.path()).unwrap();
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}
