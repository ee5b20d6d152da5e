//! Generated files that are checked in, for readers and editors.

use std::{fs, path::Path};

use crate::project::Project;

/// Each generated file, and the arguments with which `holodeck` prints it.
const GENERATED: &[(&str, &[&str])] = &[
    (
        "crates/holodeck-yaml/src/shape/agent.json",
        &["internal", "shapes", "agent"],
    ),
    (
        "crates/holodeck-yaml/src/shape/config.json",
        &["internal", "shapes", "config"],
    ),
    (
        "crates/holodeck-yaml/src/shape/front_matter.json",
        &["internal", "shapes", "front_matter"],
    ),
    (
        "crates/holodeck-yaml/src/shape/agent_front_matter.json",
        &["internal", "shapes", "agent_front_matter"],
    ),
    (
        "crates/holodeck-yaml/src/shape/routing.json",
        &["internal", "shapes", "routing"],
    ),
    (
        "crates/holodeck-yaml/src/schema/agent.json",
        &["internal", "schema", "agent", "--kept"],
    ),
    (
        "crates/holodeck-yaml/src/schema/config.json",
        &["internal", "schema", "config", "--kept"],
    ),
    ("docs/agent-yaml.md", &["internal", "field-reference"]),
    ("docs/cli.md", &["internal", "cli-reference"]),
    ("docs/diagnostics.md", &["internal", "diagnostics-reference"]),
    ("docs/events.md", &["internal", "event-reference"]),
    ("docs/metric-examples.md", &["internal", "metric-reference"]),
    ("docs/run-file.md", &["internal", "run-file-reference"]),
    ("docs/schemas/agent.schema.json", &["internal", "schema", "agent"]),
    (
        "docs/schemas/config.schema.json",
        &["internal", "schema", "config"],
    ),
];

/// Set by `cargo xtask codegen`: write the files instead of comparing them.
pub(crate) const WRITE: &str = "HOLODECK_WRITE_GENERATED";

#[test]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let project = Project::empty();
    let mut stale = Vec::new();
    for (path, args) in GENERATED {
        let printed = project.run(args).exits(0).stdout;
        let file = root.join(path);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&file, printed).unwrap();
        } else if let Some(line) = first_difference(&fs::read_to_string(&file).unwrap_or_default(), &printed)
        {
            stale.push(format!("{path}:{line}"));
        }
    }
    assert!(
        stale.is_empty(),
        "{}: run `cargo xtask codegen` and commit",
        stale.join(", ")
    );
}

#[test]
fn the_printed_schemas_are_those_of_the_types() {
    let project = Project::empty();
    for (schema, args) in [("agent", &["schema"][..]), ("config", &["schema", "--config"])] {
        let generated = project.run(&["internal", "schema", schema]).exits(0).stdout;
        let printed = project.run(args).exits(0).stdout;
        assert_eq!(first_difference(&generated, &printed), None, "{schema}");
        assert!(printed.len() > 10_000);
    }
}

/// The first line in which two texts differ.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    let same = || {
        left.lines()
            .zip(right.lines())
            .take_while(|(left, right)| left == right)
    };
    (left != right).then(|| same().count() + 1)
}

#[test]
fn differences_have_a_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
    assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
    assert_eq!(first_difference("", "a\n"), Some(1));
    assert_eq!(first_difference("a\n", "a"), Some(2));
}
