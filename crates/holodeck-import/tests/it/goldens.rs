//! Goldens of DeepEval, and tables.

use std::path::Path;

use holodeck_import::{import_deepeval, import_table};
use serde_json::json;

use crate::setup::{Disk, Memory, findings, written};

#[test]
fn goldens_and_conversations_become_cases() {
    let text = r#"[
      {"input": "When?", "expected_output": "Now", "context": ["a", "b"], "actual_output": "Later", "expected_tools": [{"name": "clock"}]},
      {"scenario": "Wants a refund", "expected_outcome": "gets it", "turns": []},
      {"turns": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Bye"}]}
    ]"#;
    let files = Memory::new(&[("g.json", text)]);
    let import = import_deepeval(Path::new("g.json"), &files).unwrap();
    let cases = written(&import, "cases.yaml");
    assert_eq!(
        cases[0],
        json!({"name": "golden 1", "input": "When?", "ground_truth": "Now", "retrieval_context": ["a", "b"], "expected_tools": ["clock"]})
    );
    assert_eq!(cases[1]["user"]["goal"], "gets it");
    assert_eq!(
        cases[1]["conversation_evaluations"],
        json!([{"type": "goal_success", "goal": "gets it"}])
    );
    assert_eq!(cases[2]["turns"], json!([{"input": "Hi"}, {"input": "Bye"}]));
    assert!(
        findings(&import)
            .iter()
            .any(|line| line.contains("`actual_output`"))
    );
}

#[test]
fn a_golden_that_asks_nothing_is_left_out() {
    let files = Memory::new(&[("g.csv", "input,expected_output\nWhy?,So\n,Nothing\n")]);
    let import = import_deepeval(Path::new("g.csv"), &files).unwrap();
    assert_eq!(import.cases, 1);
    assert!(import.is_partial());
    let files = Memory::new(&[("g.json", "[{\"a\": 1}]")]);
    assert!(import_deepeval(Path::new("g.json"), &files).is_err());
}

#[test]
fn columns_are_taken_by_name() {
    let files = Memory::new(&[("t.csv", "q,a,why\nWhere?,Here,x\n,lost,y\n")]);
    let columns = [
        ("q".to_owned(), "input".to_owned()),
        ("a".to_owned(), "ground_truth".to_owned()),
    ];
    let import = import_table(Path::new("t.csv"), &columns, &files).unwrap();
    assert_eq!(
        written(&import, "cases.yaml"),
        json!([{"input": "Where?", "ground_truth": "Here"}])
    );
    assert!(import.is_partial());
    assert!(findings(&import).iter().any(|line| line.contains("`why`")));
    for wrong in [
        vec![("x".to_owned(), "input".to_owned())],
        vec![("q".to_owned(), "question".to_owned())],
        vec![("a".to_owned(), "ground_truth".to_owned())],
        vec![
            ("q".to_owned(), "input".to_owned()),
            ("a".to_owned(), "input".to_owned()),
        ],
    ] {
        assert!(
            import_table(Path::new("t.csv"), &wrong, &files).is_err(),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_workbook_is_a_table_of_what_its_first_sheet_shows() {
    let folder = Path::new("../../fixtures/yaml/files");
    let columns = ["input", "ground_truth", "expected_tools"];
    let columns = columns.map(|name| (name.to_owned(), name.to_owned()));
    let import = import_table(&folder.join("cases.xlsx"), &columns, &Disk).unwrap();
    assert_eq!(
        written(&import, "cases.yaml"),
        json!([
            {"input": "Two\nlines", "ground_truth": "42"},
            {"input": "With a tool", "ground_truth": "0.3", "expected_tools": ["a", "b"]},
        ])
    );
    assert!(findings(&import).is_empty());
    let error = import_table(&folder.join("cases-bad.xlsx"), &columns, &Disk).unwrap_err();
    assert_eq!(error.line, Some(5), "{error}");
    let missing = import_table(&folder.join("none.xlsx"), &columns, &Disk).unwrap_err();
    assert!(missing.to_string().contains("no such file"), "{missing}");
    let text = import_table(&folder.join("cases.csv.xlsx"), &columns, &Memory::new(&[])).unwrap_err();
    assert!(text.to_string().contains("cases.csv.xlsx"), "{text}");
}
