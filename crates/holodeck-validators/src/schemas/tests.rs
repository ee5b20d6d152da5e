//! Tests of the warnings about formats in schemas, in every place that has a schema.

use std::fs;

use holodeck_model::{DiskFiles, Env, Severity};
use holodeck_yaml::load_agent;

use super::*;

/// The places of schemas in an agent file, each with whether the schema decides a verdict.
const PLACES: [(&str, bool); 5] = [
    ("response_format: SCHEMA", false),
    (
        "tools: [{type: function, name: t, description: d, command: cat, parameters: {x: SCHEMA}}]",
        false,
    ),
    (
        "evaluations: {metrics: [{type: standard, metric: json_schema, schema: SCHEMA}]}",
        true,
    ),
    (
        "test_cases: [{input: q, evaluations: [{type: standard, metric: json_schema, schema: SCHEMA}]}]",
        true,
    ),
    (
        "test_cases: [{name: c, turns: [{input: q, evaluations: [{type: standard, metric: json_schema, schema: SCHEMA}]}]}]",
        true,
    ),
];

/// Where a schema may have a format.
const SCHEMAS_WITH: [&str; 5] = [
    "{type: string, format: FORMAT}",
    "{type: object, required: [a], properties: {a: {type: string, format: FORMAT}}}",
    "{type: array, items: {type: string, format: FORMAT}}",
    "{anyOf: [{type: number}, {type: string, format: FORMAT}]}",
    "{type: object, required: [a], $defs: {d: {type: string, format: FORMAT}}}",
];

/// The warnings about an agent file with this block, each as its message, its suggestion and its line.
fn warnings(block: &str) -> Vec<(String, Option<String>, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.yaml");
    let head = "name: a\nmodel: {provider: ollama, name: m}\ninstructions: {inline: Hi}\n";
    fs::write(&path, format!("{head}{block}\n")).unwrap();
    let load = load_agent(&path, &Env::empty(), &DiskFiles);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    let found = check_schemas(&agent).into_iter();
    found
        .map(|warning| {
            assert_eq!(warning.severity, Severity::Warning, "{warning:?}");
            let line = warning.primary.map_or(0, |place| place.line);
            (warning.message, warning.inline, line)
        })
        .collect()
}

#[test]
fn a_format_that_nothing_checks_is_warned_about_wherever_a_schema_has_it() {
    for (place, decides) in PLACES {
        for schema in SCHEMAS_WITH {
            let with = |format: &str| warnings(&place.replace("SCHEMA", &schema.replace("FORMAT", format)));
            for known in FORMATS {
                assert_eq!(with(known), [], "{place} {schema}: {known}");
            }
            let [(message, meant, line)] = &with("dat-time")[..] else {
                panic!("{place} {schema}: {:?}", with("dat-time"));
            };
            assert!(
                message.ends_with("has the unknown format `dat-time`, which restricts nothing"),
                "{message}"
            );
            assert_eq!(meant.as_deref(), Some("did you mean `date-time`?"));
            assert_eq!(*line, 4, "{place}");
            // Models read the other schemas, and may know the format.
            assert_eq!(with("currency").len(), usize::from(decides), "{place} {schema}");
        }
    }
}
