//! Which agent and which case an answer belongs to.

use crate::project::{Project, TWO_CASES, agent, knowing};

#[test]
fn a_recording_of_an_older_format_is_refused_with_what_to_do() {
    let server = knowing();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--record", "old.jsonl"]).exits(0);
    let recording = project.read("old.jsonl");
    let (header, entries) = recording.split_once('\n').unwrap();
    assert_eq!(header, r#"{"holodeck_cassette":2}"#);
    project.write("old.jsonl", format!("{{\"holodeck_cassette\":1}}\n{entries}"));
    project
        .run(&["test", "--replay", "old.jsonl"])
        .exits(2)
        .says("`old.jsonl` has format version 1; this holodeck reads version 2")
        .says("record again: `--live --record FILE`");
}
