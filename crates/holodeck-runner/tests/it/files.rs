//! Tests that files of test cases reach the model in order, and that an unreadable one is an error.

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use holodeck_model::CaseState;
use holodeck_testkit::{ScriptedBackend, ScriptedTurn, red_dot};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::Project;

const CONTAINS: &str = "evaluations: {metrics: [{type: standard, metric: contains, value: yes}]}\n";

/// Checks the request and answers `yes`.
fn backend(expected: &'static str, pictures: usize) -> ScriptedBackend {
    ScriptedBackend::answering(move |asked| {
        assert_eq!(asked.message, expected);
        assert_eq!(asked.images.len(), pictures);
        ScriptedTurn::text("yes")
    })
}

#[tokio::test]
async fn files_come_before_the_question_by_their_names_in_the_yaml() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - input: What is in them?\n    files:\n      \
         - {{path: data/note.txt, type: text, description: a note}}\n      \
         - {{path: data/table.csv, type: csv, range: \"A1:B2\"}}\n      \
         - {{path: data/dot.png, type: image}}\n"
    ));
    let data = project.dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("note.txt"), "Keep it dry.\n").unwrap();
    fs::write(data.join("table.csv"), "a,b,c\n1,2,3\n4,5,6\n").unwrap();
    fs::write(
        data.join("dot.png"),
        BASE64_STANDARD.decode(&*red_dot().base64).unwrap(),
    )
    .unwrap();
    let expected = "File: data/note.txt (a note)\nKeep it dry.\n\n\
                 File: data/table.csv\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n\
                 File: data/dot.png\n\n\n\
                 What is in them?";
    let run = project.run(&backend(expected, 1)).await;
    let result = run.results().remove(0);
    assert_eq!(
        (result.state, result.errors.clone()),
        (CaseState::Passed, Vec::new())
    );
    assert_eq!(result.test_input, "What is in them?");
    let [note, table, dot] = &result.processed_files[..] else {
        panic!("{:?}", result.processed_files)
    };
    assert_eq!(note["original"]["path"], "data/note.txt");
    assert_eq!(note["markdown_content"], "Keep it dry.\n");
    assert_eq!(note["metadata"]["size_bytes"], 13);
    assert_eq!(table["metadata"]["range_extracted"], "A1:B2");
    assert_eq!(
        (&dot["metadata"]["type"], &dot["error"]),
        (&json!("image"), &json!(null))
    );
}

#[tokio::test]
async fn an_unreadable_file_is_an_error_and_the_model_is_not_called() {
    let project = Project::new(&format!(
        "{CONTAINS}test_cases:\n  - input: q\n    files: [{{path: gone.txt, type: text}}]\n  \
         - turns:\n      - {{input: one, files: [{{path: gone.pdf, type: pdf}}]}}\n      - input: two\n"
    ));
    let run = project.run(&backend("two", 0)).await;
    assert_eq!(run.code(), 3);
    let results = run.results();
    assert_eq!(results[0].state, CaseState::Error);
    assert_eq!(results[0].errors, ["file `gone.txt`: no such file"]);
    assert_eq!(
        results[0].processed_files[0]["error"],
        "file `gone.txt`: no such file"
    );
    let turns = results[1].turns.as_ref().unwrap();
    assert_eq!(
        (turns[0].state, turns[1].state),
        (CaseState::Error, CaseState::Passed)
    );
    assert_eq!(results[1].state, CaseState::Error);
}
