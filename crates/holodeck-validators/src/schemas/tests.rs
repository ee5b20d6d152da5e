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

/// A schema whose text has exactly this many bytes.
fn schema_of(bytes: usize) -> serde_json::Value {
    let with = |description: &str| serde_json::json!({"type": "object", "required": ["a"], "description": description});
    let rest = bytes - with("").to_string().len();
    with(&"x".repeat(rest))
}

/// The operating system limits an argument of the CLI: a longer schema is refused by name, with its place, before a run.
/// Other providers send it in a request.
#[test]
fn a_response_format_that_is_too_long_for_the_cli_is_an_error_with_its_place() {
    let limit = MAX_CLAUDE_SCHEMA_BYTES;
    for (provider, refuses) in [("anthropic", true), ("openai", false), ("ollama", false)] {
        for (bytes, is_long) in [
            (1_000, false),
            (limit - 1, false),
            (limit, false),
            (limit + 1, true),
            (500_000, true),
        ] {
            let schema = schema_of(bytes);
            assert_eq!(schema.to_string().len(), bytes);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.yaml");
            let head = format!(
                "name: a\nmodel: {{provider: {provider}, name: sonnet}}\ninstructions: {{inline: Hi}}\n"
            );
            fs::write(&path, format!("{head}response_format: {schema}\n")).unwrap();
            let load = load_agent(&path, &Env::empty(), &DiskFiles);
            let agent = load.agent.unwrap_or_else(|| panic!("{provider} {bytes}"));
            let errors: Vec<Diagnostic> = check_schemas(&agent)
                .into_iter()
                .filter(Diagnostic::is_error)
                .collect();
            assert_eq!(
                errors.len(),
                usize::from(refuses && is_long),
                "{provider} {bytes}"
            );
            for error in errors {
                assert_eq!(
                    error.message,
                    "`response_format` is longer than 120 KiB, the limit of the Claude Code CLI"
                );
                assert_eq!(error.primary.map(|place| place.line), Some(4));
            }
        }
    }
}
