//! Tests that every fixture loads or fails with the expected diagnostics, and that all codes are documented.

use std::{collections::BTreeSet, fmt::Write as _};

use holodeck_model::{Code, Diagnostic};

use crate::{
    limits,
    support::{fixtures, load_fixture, render, root},
};

#[test]
fn valid_files_load() {
    let mut text = String::new();
    for path in fixtures("valid") {
        let load = load_fixture(&path);
        writeln!(text, "# {}\n{}", path.display(), render(&load.diagnostics)).unwrap();
        assert!(
            load.agent.is_some(),
            "{} does not load:\n{}",
            path.display(),
            render(&load.diagnostics)
        );
    }
    insta::assert_snapshot!("valid", text);
}

#[test]
fn invalid_files_are_rejected() {
    let mut text = String::new();
    for path in fixtures("invalid") {
        let load = load_fixture(&path);
        let mut shown = render(&load.diagnostics);
        if path.ends_with("too-many-problems.yaml") {
            shown = shown
                .lines()
                .rev()
                .take(2)
                .fold(String::new(), |text, line| format!("{line}\n{text}"));
        }
        writeln!(text, "# {}\n{shown}", path.display()).unwrap();
        assert!(load.agent.is_none(), "{} loads", path.display());
        assert!(
            load.has_errors(),
            "{} is rejected without a reason",
            path.display()
        );
    }
    insta::assert_snapshot!("invalid", text);
}

#[test]
fn every_code_has_a_fixture() {
    let mut codes: BTreeSet<Code> = limits::diagnostics()
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect();
    for path in fixtures("valid").into_iter().chain(fixtures("invalid")) {
        codes.extend(
            load_fixture(&path)
                .diagnostics
                .iter()
                .map(|diagnostic| diagnostic.code),
        );
    }
    // HD08 is about the environment of a run, which is not in a file; equal cases are found after loading. HD0605 and HD09
    // are about specialist agents, which have fixtures of their own.
    // Texts and workbooks that are cut or hidden have tests of their own.
    let elsewhere = [
        Code::EqualCases,
        Code::NotAnAgent,
        Code::CutText,
        Code::TypographicQuotes,
        Code::HiddenSheet,
    ];
    let missing: Vec<_> = Code::ALL
        .iter()
        .filter(|code| !["HD08", "HD09"].iter().any(|group| code.id().starts_with(group)))
        .filter(|code| !elsewhere.contains(code) && !codes.contains(code))
        .collect();
    assert!(missing.is_empty(), "no fixture shows {missing:?}");
}

#[test]
fn every_problem_of_a_file_has_a_place_in_it() {
    for path in fixtures("valid").into_iter().chain(fixtures("invalid")) {
        let load = load_fixture(&path);
        for diagnostic in &load.diagnostics {
            let about_a_file = !matches!(diagnostic.code, Code::BadVariable | Code::TooManyProblems);
            assert_eq!(diagnostic.primary.is_some(), about_a_file, "{diagnostic:?}");
            for location in places(diagnostic) {
                let text = load.sources.get(&location.path).unwrap();
                assert!(
                    text.get(location.span.start..location.span.end).is_some(),
                    "{diagnostic:?}"
                );
            }
        }
    }
}

fn places(diagnostic: &Diagnostic) -> impl Iterator<Item = &holodeck_model::Location> {
    diagnostic
        .primary
        .iter()
        .chain(diagnostic.labels.iter().map(|label| &label.location))
}

/// `docs/diagnostics.md` lists all codes.
#[test]
fn every_code_is_documented() {
    let mut text = "# Diagnostics\n\n\
        The diagnostics of `holodeck validate`, by code. HD00 is about the file and its YAML, HD01 about its shape,\n\
        HD02 about values, HD03 about fields that depend on each other, HD04 about fields without effect, HD05 about\n\
        the environment and the layers of configuration, HD06 about referenced files, HD07 about the checks of tests,\n\
        HD08 about the environment of a run (`holodeck doctor`), HD09 about specialist agents (`holodeck agents\n\
        validate`). Codes keep their meaning.\n\n\
        | code | name | meaning |\n|---|---|---|\n"
        .to_owned();
    for code in Code::ALL {
        writeln!(text, "| {} | {} | {} |", code.id(), code.name(), code.summary()).unwrap();
    }
    let text_on_disk = std::fs::read_to_string(root().join("../../docs/diagnostics.md")).unwrap_or_default();
    assert!(text_on_disk == text, "docs/diagnostics.md must be:\n{text}");
}
