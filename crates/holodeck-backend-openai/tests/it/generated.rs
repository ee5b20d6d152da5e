//! The part of `docs/compatibility.md` about model services: it lists what the tests of services run, and nothing else.

use std::{fs, path::Path};

use serde_json::Value;

use crate::services::{Service, services};

/// Set by `cargo xtask codegen`: write the table instead of comparing it.
const WRITE: &str = "HOLODECK_WRITE_GENERATED";

const BEGIN: &str = "<!-- begin: services, written by `cargo xtask codegen` -->\n";
const END: &str = "<!-- end: services -->\n";

#[test]
fn the_table_of_services_is_what_the_tests_run() {
    let services = services();
    assert!(services.len() >= 20, "{}", services.len());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let written = format!("{before}{BEGIN}{}{END}{after}", table(&services));
    #[expect(clippy::disallowed_methods, reason = "a test has no `Env` to be handed")]
    let writes = std::env::var_os(WRITE).is_some();
    if writes {
        fs::write(&file, written).unwrap();
    } else {
        assert!(
            text == written,
            "docs/compatibility.md: run `cargo xtask codegen` and commit"
        );
    }
}

fn table(services: &[Service]) -> String {
    let mut table = String::from(
        "| Service | What the script does | Evidence | Scripted | What works | Sent in another form |\n|---|---|---|---|---|---|\n",
    );
    for service in services {
        let row = format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            service.name,
            service.differs,
            evidence(service),
            service.scripted,
            works(service),
            adapted(service),
        );
        table.push_str(&row);
    }
    table
}

/// Where the script of a service comes from.
fn evidence(service: &Service) -> String {
    let evidence = &service.evidence;
    let kinds = [
        ("documented", &evidence.documented),
        ("reported", &evidence.reported),
        ("unconfirmed", &evidence.unconfirmed),
    ];
    let named = kinds.into_iter().filter(|(_, sources)| !sources.is_empty());
    let named: Vec<String> = named
        .map(|(kind, sources)| format!("*{kind}*: {}", sources.join(", ")))
        .collect();
    assert!(!named.is_empty(), "{}: without evidence", service.name);
    named.join("; ")
}

/// The questions that a service answers as expected, in words.
fn works(service: &Service) -> String {
    let expects = &service.expects;
    let mut works = Vec::new();
    if let Some(tools) = &expects.tools {
        let calls = tools["calls"].as_array().map_or(0, Vec::len);
        works.push(match calls {
            1 => "a tool call".to_owned(),
            calls => format!("{calls} parallel tool calls"),
        });
    }
    if expects.history.is_some() {
        works.push("calls of another service in the history".to_owned());
    }
    if expects.structured.is_some() {
        works.push("structured answers".to_owned());
    }
    let outcomes = [&expects.tools, &expects.plain, &expects.structured];
    let has = |field: &str| {
        outcomes
            .iter()
            .copied()
            .flatten()
            .any(|outcome| outcome.get(field).is_some())
    };
    if has("reasoning") {
        works.push("reasoning apart from the answer".to_owned());
    }
    works.push(if has("usage") { "usage" } else { "without usage" }.to_owned());
    if has("truncated") {
        works.push("a cut answer is marked".to_owned());
    }
    let mut kinds: Vec<&str> = expects
        .errors
        .iter()
        .map(|error| match error.is.as_str() {
            "credentials" => "a wrong key",
            "rate limit" => "a limit of requests",
            "refusal" => "a refusal",
            "too long" => "a prompt that is too long",
            _ => "a failure",
        })
        .collect();
    kinds.dedup();
    if !kinds.is_empty() {
        works.push(format!("errors: {}", kinds.join(", ")));
    }
    works.join("; ")
}

/// The parts of requests that were sent in another form.
fn adapted(service: &Service) -> String {
    let expects = &service.expects;
    let outcomes = [
        &expects.tools,
        &expects.plain,
        &expects.structured,
        &expects.history,
    ];
    let parts = outcomes
        .into_iter()
        .flatten()
        .filter_map(|outcome| outcome["adapted"].as_array());
    let mut parts: Vec<String> = parts
        .flatten()
        .filter_map(Value::as_str)
        .map(|part| format!("`{part}`"))
        .collect();
    parts.sort();
    parts.dedup();
    parts.join(", ")
}
