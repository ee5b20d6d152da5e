//! Snapshots of problems in agent files as a terminal and a program see them.

use std::sync::Arc;

use holodeck::model::{Code, Span};

use super::*;

const AGENT: &str = "name: support\nmodel:\n  provider: openai\n  name: gpt-4o\n\n  tempertaure: 0.3\n  \
                     api_key: ****** # old\ntools:\n  - type: function\n    name: a\n  - type: function\n    \
                     name: a\nclaude:\n  bash:\n    allow_unsafe: true\n";

fn at(what: &str, nth: usize) -> Location {
    let (start, _) = AGENT.match_indices(what).nth(nth).unwrap();
    let before = &AGENT[..start];
    let line = before.matches('\n').count() + 1;
    Location {
        path: Arc::from(Path::new("agent.yaml")),
        line,
        column: start - before.rfind('\n').map_or(0, |newline| newline + 1) + 1,
        span: Span {
            start,
            end: start + what.len(),
        },
    }
}

fn load(diagnostics: Vec<Diagnostic>) -> Load {
    let mut sources = Sources::default();
    sources.add("agent.yaml", AGENT);
    Load {
        agent: None,
        diagnostics,
        sources,
    }
}

fn everything() -> Load {
    let elsewhere = Location {
        path: Arc::from(Path::new("config.yaml")),
        line: 3,
        column: 5,
        span: Span { start: 20, end: 24 },
    };
    load(vec![
        Diagnostic::error(Code::UnknownField, "unknown field `tempertaure` in `model`")
            .at(at("tempertaure", 0))
            .with_inline("did you mean `temperature`?"),
        Diagnostic::error(Code::DuplicateName, "two tools are named `a`")
            .at(at("name: a", 1))
            .with_label(at("name: a", 0), "the first one"),
        Diagnostic::error(Code::WrongType, "`api_key` must be one value").at(at("******", 0)),
        Diagnostic::warning(Code::NoEffect, "`claude.bash.allow_unsafe` has no effect")
            .at(at("allow_unsafe", 0))
            .with_help("remove it; `excluded_commands` restricts the shell"),
        Diagnostic::warning(Code::UnknownReference, "`config.yaml` defines another value")
            .at(elsewhere)
            .with_note("a file that was not read has no lines to show"),
        Diagnostic::note(Code::NotGated, "a note without a place")
            .with_note("notes need no place")
            .with_help("do nothing"),
    ])
}

fn plain(load: &Load, filter: DiagnosticFilter, width: usize) -> String {
    let text = diagnostics(load, Path::new("agent.yaml"), filter, width);
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn every_problem_with_its_place() {
    insta::assert_snapshot!(plain(&everything(), DiagnosticFilter::All, 100));
}

#[test]
fn a_narrow_terminal_is_enough() {
    let text = plain(&everything(), DiagnosticFilter::Important, 60);
    insta::assert_snapshot!(text);
}

#[test]
fn a_file_without_problems_is_reported() {
    assert_eq!(
        plain(&load(vec![]), DiagnosticFilter::All, 80),
        "no problems in agent.yaml\n"
    );
    assert_eq!(plain(&load(vec![]), DiagnosticFilter::Important, 80), "");
}

#[test]
fn a_key_in_the_yaml_is_not_shown() {
    for filter in [DiagnosticFilter::All, DiagnosticFilter::Important] {
        assert!(!plain(&everything(), filter, 100).contains("sk-123"));
    }
}

#[test]
fn a_program_gets_every_field() {
    insta::assert_json_snapshot!(diagnostics_json(&everything(), Path::new("agent.yaml")));
}

#[test]
fn a_place_beyond_the_text_is_shown_at_its_end() {
    let mut beyond = at("allow_unsafe", 0);
    beyond.span = Span {
        start: 5_000,
        end: 6_000,
    };
    let load = load(vec![
        Diagnostic::error(Code::YamlSyntax, "it ends too early").at(beyond),
    ]);
    insta::assert_snapshot!(plain(&load, DiagnosticFilter::All, 80));
}

#[test]
fn lines_are_those_of_the_file_whatever_ends_them() {
    for end in ["\n", "\r", "\r\n"] {
        let text = ["one: 1", "two: 2", "", "four: 4", "five: 5"].join(end);
        for (line, word) in [(1, "one"), (2, "two"), (4, "four"), (5, "five")] {
            let start = text.find(word).unwrap();
            let location = Location {
                path: Arc::from(Path::new("a.yaml")),
                line,
                column: 1,
                span: Span {
                    start,
                    end: start + word.len(),
                },
            };
            let mut sources = Sources::default();
            sources.add("a.yaml", text.as_str());
            let first = if line == 5 { 4 } else { line };
            let page = Page::open(&location, first, line, &sources);
            let shown = page.text.unwrap();
            let lines: Vec<&str> = shown.lines().collect();
            let expected: &[&str] = match line {
                5 => &["four: 4", "five: 5"],
                1 => &["one: 1"],
                2 => &["two: 2"],
                _ => &["four: 4"],
            };
            assert_eq!(lines, expected, "{end:?}");
            assert_eq!(page.start, text.find(expected[0]).unwrap(), "{end:?}");
        }
    }
}
