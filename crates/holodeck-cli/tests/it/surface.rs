//! Flags, help, generated pages.

use std::{fs, process::Stdio};

use crate::project::{Project, assert_output};

#[test]
fn help_tells_the_commands() {
    assert_output!(Project::empty().run(&["--help"]).exits(0));
}

#[test]
fn help_of_test_tells_every_flag() {
    assert_output!(Project::empty().run(&["test", "--help"]).exits(0));
}

#[test]
fn the_version_is_one_line() {
    let ran = Project::empty().run(&["--version"]).exits(0);
    assert_eq!(ran.stdout, format!("holodeck {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_are_2() {
    let project = Project::empty();
    for args in [
        &["tset"][..],
        &["test", "--frobnicate"],
        &["test", "--format", "pdf", "--output", "x"],
        &["test", "--format", "json"],
        &["test", "--report", "x.json"],
        &["test", "--report", "pdf=x"],
        &["test", "--report", "html="],
        &["test", "--timeout", "0"],
        &["test", "--timeout", "-1"],
        &["test", "--timeout", "soon"],
        &["test", "-j", "0"],
        &["test", "--limit", "0"],
        &["test", "--max-cost-usd", "NaN"],
        &["test", "--max-tokens-total", "0"],
        &["test", "--replay", "a", "--live"],
        &["test", "--replay", "a", "--record", "b"],
        &["test", "--trials", "0"],
        &["test", "--trials", "10001"],
        &["test", "--min-passes", "0"],
        &["test", "resume", "--trials", "3"],
        &["run"],
        &["init"],
        &["completions", "tcsh"],
        &["-q", "-v", "schema"],
        &["--color", "sometimes", "schema"],
        &[],
    ] {
        let ran = project.run(args).exits(2);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.all());
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn two_reports_cannot_share_a_path() {
    let project = Project::empty();
    project
        .run(&["test", "--report", "json=a", "--report", "html=a"])
        .exits(2)
        .says("two reports would be written to `a`");
}

#[test]
fn every_shell_gets_completions() {
    let project = Project::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = project.run(&["completions", shell]).exits(0).says("max-cost-usd");
        assert!(!ran.stdout.contains("cli-reference"), "{shell}");
    }
}

#[test]
fn every_command_that_help_shows_has_a_man_page() {
    let project = Project::empty();
    project.run(&["internal", "man-pages", "."]).exits(0);
    let mut pages: Vec<String> = fs::read_dir(project.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".1"))
        .collect();
    pages.sort();
    for wanted in ["holodeck.1", "holodeck-test.1", "holodeck-test-resume.1"] {
        assert!(pages.iter().any(|page| page == wanted), "{wanted}: {pages:?}");
    }
    assert!(
        !pages.iter().any(|page| page.contains("holodeck-internal")),
        "{pages:?}"
    );
    let page = fs::read_to_string(project.path("holodeck-test.1")).unwrap();
    assert!(page.contains("\\-\\-max\\-cost\\-usd"), "{page}");
}

#[test]
fn the_schema_is_json() {
    let project = Project::empty();
    let agent = project.run(&["schema"]).exits(0).json();
    assert!(agent["properties"]["test_cases"].is_object());
    let config = project.run(&["schema", "--config"]).exits(0).json();
    assert!(config["properties"]["providers"].is_object());
}

#[test]
fn the_generated_pages_name_everything() {
    let project = Project::empty();
    let commands = project.run(&["internal", "cli-reference"]).exits(0).stdout;
    for entry in [
        "`holodeck test resume`",
        "`--max-tokens-total N`",
        "`holodeck doctor`",
        "| 130 |",
    ] {
        assert!(commands.contains(entry), "{entry}");
    }
    assert!(!commands.contains("holodeck internal"), "{commands}");
    let codes = project
        .run(&["internal", "diagnostics-reference"])
        .exits(0)
        .stdout;
    assert!(codes.contains("| HD0101 | unknown-field |"), "{codes}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let project = Project::empty();
    for args in [
        &["schema"][..],
        &["--help"],
        &["completions", "bash"],
        &["internal", "cli-reference"],
    ] {
        let mut child = project
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}
