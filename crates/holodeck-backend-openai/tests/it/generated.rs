//! The tables of `docs/compatibility.md`: they list what the tests of services run and what `cargo xtask soak field` and
//! `soak clients` stored, and nothing else.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::services::{Service, services};

/// Set by `cargo xtask codegen`: write the table instead of comparing it.
const WRITE: &str = "HOLODECK_WRITE_GENERATED";

/// The outcomes that `cargo xtask soak field` and `soak clients` stored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tried {
    models: Vec<Outcome>,
    servers: Vec<Outcome>,
    clis: Vec<Outcome>,
    openai: Vec<Outcome>,
    agui: Vec<Outcome>,
    sockets: Vec<Outcome>,
    proxies: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    program: String,
    /// The transport.
    over: String,
    /// The revision of the protocol.
    spoke: String,
    /// The program that ran it.
    on: String,
    tried: String,
    works: Vec<String>,
    adapted: Vec<String>,
}

/// A column of a table of outcomes: its title, and a cell.
type Column = (&'static str, fn(&Outcome) -> String);

const PROGRAM: Column = ("Program", |outcome| outcome.program.clone());
const PROXY: Column = ("Proxy", |outcome| outcome.program.clone());
const CLIENT: Column = ("Client", |outcome| outcome.program.clone());
const INTERFACE: Column = ("Interface", |outcome| outcome.over.clone());
const TRANSPORT: Column = ("Transport", |outcome| outcome.over.clone());
const REVISION: Column = ("Revision", |outcome| outcome.spoke.clone());
const ON: Column = ("On", |outcome| outcome.on.clone());
const TRIED: Column = ("Tried", |outcome| outcome.tried.clone());
const WORKS: Column = ("What works", |outcome| outcome.works.join("; "));
const ADAPTED: Column = ("Sent in another form", |outcome| {
    let parts = outcome.adapted.iter().map(|part| format!("`{part}`"));
    parts.collect::<Vec<_>>().join(", ")
});

/// Puts a table between the marks of its name.
fn replace(text: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- begin: {name}, written by `cargo xtask codegen` -->\n");
    let end = format!("<!-- end: {name} -->\n");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_tables_are_what_the_tests_run_and_what_was_tried() {
    let services = services();
    assert!(services.len() >= 20, "{}", services.len());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("docs/compatibility.md");
    let text = fs::read_to_string(&file).unwrap();
    let tried = fs::read_to_string(root.join("fixtures/compatibility/tried.json")).unwrap();
    let tried: Tried = serde_json::from_str(&tried).unwrap();
    let models = table_of(&tried.models, &[PROGRAM, ON, TRIED, WORKS, ADAPTED]);
    let servers = table_of(&tried.servers, &[PROGRAM, TRANSPORT, REVISION, ON, TRIED, WORKS]);
    let clis = table_of(&tried.clis, &[PROGRAM, ON, TRIED, WORKS]);
    let written = replace(&text, "models", &models);
    let written = replace(&written, "servers", &servers);
    let written = replace(&written, "clis", &clis);
    let clients = table_of(
        tried.openai.iter().chain(&tried.agui).chain(&tried.sockets),
        &[CLIENT, INTERFACE, ON, TRIED, WORKS],
    );
    let written = replace(&written, "clients", &clients);
    let proxies = table_of(&tried.proxies, &[PROXY, ON, TRIED, WORKS]);
    let written = replace(&written, "proxies", &proxies);
    let written = replace(&written, "services", &table(&services));
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

fn table_of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>, columns: &[Column]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = row(columns.iter().map(|(title, _)| (*title).to_owned()).collect());
    let rule = format!("|{}\n", "---|".repeat(columns.len()));
    let rows = outcomes
        .into_iter()
        .map(|outcome| row(columns.iter().map(|(_, cell)| cell(outcome)).collect()));
    titles + &rule + &rows.collect::<String>()
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
