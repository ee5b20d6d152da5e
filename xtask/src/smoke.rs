//! The gate before everything else: the programs around the product, and every name we rely on of the real CLI of
//! Claude Code and of its SDK's types.
//!
//! The rows in `smoke/rows.rs` are what the product assumes; the scenarios observe the real behaviour. A difference is drift, and
//! fails. The table lies in `docs/claude-cli.md`.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null"
)]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{host, workspace};

mod conversation;
mod facts;
mod install;
mod programs;
mod report;
mod rows;
mod scenarios;
mod subject;
mod types;

use self::facts::Facts;
pub(crate) use self::install::EVERYTHING_VERSION;
use self::install::{CLIS, Installed, SDK_VERSION};
use self::report::{Column, Report};
use self::scenarios::{BASE, BASE_PATIENCE, OTHERS, Scenario, Subject};
use self::types::Types;

/// Where the table is kept.
const DOCUMENT: &str = "docs/claude-cli.md";

/// Options of `cargo xtask smoke`.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Store the table as docs/claude-cli.md instead of comparing with it.
    #[arg(long, conflicts_with = "cli")]
    write: bool,
    /// Check this binary instead of the pinned ones.
    #[arg(long, value_name = "PATH")]
    cli: Option<PathBuf>,
}

/// How the gate ended, if it is not shut.
pub(crate) enum Outcome {
    Passed,
    /// The CLI can't be had, for this reason.
    Skipped(String),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match gate(args)? {
        Outcome::Passed => Ok(()),
        Outcome::Skipped(why) if host::in_ci() => bail!("{why}; CI skips nothing"),
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            Ok(())
        }
    }
}

/// The newest of the pinned CLIs, installed where it is absent.
pub(crate) fn newest_cli() -> Result<PathBuf> {
    install::newest_cli()
}

/// The folder in which Node finds Playwright, installed where it is absent.
pub(crate) fn playwright() -> Result<PathBuf> {
    install::playwright()
}

/// The releases of the CLI that the project names.
#[cfg(test)]
pub(crate) fn named_clis() -> Vec<&'static str> {
    install::named_clis()
}

/// Those releases and the newest one, installed where they are absent.
pub(crate) fn every_cli() -> Result<Vec<(String, PathBuf)>> {
    install::every_cli()
}

/// A folder in which Node finds this release of a package, installed where it is absent.
pub(crate) fn node_package(name: &'static str, version: &str) -> Result<PathBuf> {
    node_packages(&[(name, version)])
}

/// A folder in which Node finds these releases, installed together where they are absent.
pub(crate) fn node_packages(pins: &[(&'static str, &str)]) -> Result<PathBuf> {
    install::node_packages(pins)
}

/// The script of promptfoo, installed where it is absent.
pub(crate) fn promptfoo() -> Result<PathBuf> {
    install::promptfoo()
}

/// The script of the YAML language server, installed where it is absent.
pub(crate) fn yaml_server() -> Result<PathBuf> {
    install::yaml_server()
}

/// The folder in which Node finds the clients of tests, installed where they are absent.
pub(crate) fn clients() -> Result<PathBuf> {
    install::clients()?;
    Ok(workspace::root().join(".smoke/clients"))
}

/// The script of the reference server of the Model Context Protocol, installed where it is absent.
pub(crate) fn everything() -> Result<PathBuf> {
    install::everything()
}

pub(crate) fn gate(args: &Args) -> Result<Outcome> {
    programs::check()?;
    println!();
    if let Err(error) = install::clients() {
        return Ok(Outcome::Skipped(format!(
            "the clients of other projects can't be had: {error:#}"
        )));
    }
    let installed = match install::install() {
        Ok(installed) => installed,
        Err(error) => return Ok(Outcome::Skipped(format!("the CLI can't be had: {error:#}"))),
    };
    let subjects = subjects(&installed, args)?;
    let types = std::fs::read_to_string(installed.sdk.join("sdk.d.ts"))
        .context("failed to read the types of the SDK")?;
    let types = Types::new(types);
    let base = base(&subjects, BASE_PATIENCE)?;
    let (mut report, mut errors) = table(&subjects, &base, &types);
    if report.drifted() > 0 || !errors.is_empty() {
        // A busy machine can lose what a process sends at its end. What has really drifted does so again.
        println!("{} rows drifted; looking a second time", report.drifted());
        (report, errors) = table(&subjects, &base, &types);
    }
    report.print();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    let drifted = report.drifted();
    ensure!(
        drifted == 0,
        "{drifted} rows drifted: what the product assumes is not what the CLI or its SDK does (see `rows.rs`)"
    );
    if args.cli.is_none() {
        keep(&report.markdown(), args)?;
    }
    Ok(Outcome::Passed)
}

/// Runs the base conversation. Its drift ends the gate: every other scenario would wait for what does not come.
fn base(subjects: &[Seen], patience: Duration) -> Result<Vec<Column>> {
    let wrong = |columns: &[Column]| -> Vec<String> {
        let each = columns
            .iter()
            .flat_map(|column| column.drift().into_iter().chain(column.errors.clone()));
        each.collect()
    };
    let mut columns = look(BASE, subjects, Some(patience));
    if !wrong(&columns).is_empty() {
        println!("the base conversation drifted; looking a second time");
        columns = look(BASE, subjects, Some(patience));
    }
    let wrong = wrong(&columns);
    ensure!(
        wrong.is_empty(),
        "the base conversation drifted, so nothing else was looked at (see `rows.rs`):\n{}",
        wrong.join("\n")
    );
    Ok(columns)
}

/// Compares assumptions with observations, and lists the reasons why a scenario could not observe.
fn table(subjects: &[Seen], base: &[Column], types: &Types) -> (Report, Vec<String>) {
    let mut columns = look(OTHERS, subjects, None);
    for (column, base) in columns.iter_mut().zip(base) {
        column.facts.extend(base.facts.clone());
    }
    let errors = columns.iter().flat_map(|column| column.errors.clone()).collect();
    (Report::new(&columns, types), errors)
}

struct Seen {
    pinned: bool,
    subject: Subject,
    facts: Facts,
}

fn subjects(installed: &Installed, args: &Args) -> Result<Vec<Seen>> {
    let of = |title: &str, cli: PathBuf, pinned: bool| {
        let mut facts = Facts::default();
        let size = install::size(&cli).map_or_else(|| "absent".to_owned(), |size| size.to_string());
        facts.set("bytes of the binary", size);
        let path = cli.to_string_lossy().into_owned();
        let version = host::first_line(&path, &["--version"]);
        facts.set("--version", version.as_deref().unwrap_or("absent"));
        Seen {
            pinned,
            subject: Subject::new(title, cli, installed.mcp.clone()),
            facts,
        }
    };
    if let Some(path) = &args.cli {
        let path = std::path::absolute(path)?;
        ensure!(path.exists(), "{} does not exist", path.display());
        return Ok(vec![of("this CLI", path, false)]);
    }
    let pinned = CLIS.iter().zip(&installed.clis);
    Ok(pinned
        .map(|(pin, path)| of(pin.version, path.clone(), true))
        .collect())
}

fn look(scenarios: &[Scenario], seen: &[Seen], patience: Option<Duration>) -> Vec<Column> {
    let subject = |seen: &Seen| Subject {
        patience: patience.unwrap_or(seen.subject.patience),
        ..seen.subject.clone()
    };
    let subjects: Vec<Subject> = seen.iter().map(subject).collect();
    let found = scenarios::run_all(scenarios, &subjects);
    let columns = seen.iter().zip(found).map(|(seen, (mut facts, errors))| {
        facts.extend(seen.facts.clone());
        let errors = errors
            .into_iter()
            .map(|error| format!("{}: {error}", seen.subject.title))
            .collect();
        Column {
            title: seen.subject.title.clone(),
            pinned: seen.pinned,
            facts,
            errors,
        }
    });
    columns.collect()
}

/// Stores the table, or compares it with what is stored.
fn keep(table: &str, args: &Args) -> Result<()> {
    let path = workspace::root().join(DOCUMENT);
    if args.write {
        std::fs::write(&path, table)?;
        println!("wrote {DOCUMENT}");
        return Ok(());
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(
        stored == table,
        "{DOCUMENT} is not what was found; `cargo xtask smoke --write` writes it, and the difference is for review"
    );
    println!(
        "{DOCUMENT} holds for {} and the SDK {SDK_VERSION}",
        CLIS.map(|pin| pin.version).join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holodeck_testkit::{ClaudeFault, FakeClaude};

    use super::scenarios::Subject;
    use super::{Facts, Seen, base};

    #[test]
    fn a_renamed_result_ends_the_gate_at_once_and_the_row_is_named() {
        let fake = FakeClaude::new(&ClaudeFault::None);
        let script = std::fs::read_to_string(fake.path()).unwrap();
        let renamed = script.replace(r#"\"type\":\"result\""#, r#"\"type\":\"outcome\""#);
        assert_ne!(renamed, script);
        std::fs::write(fake.path(), renamed).unwrap();
        let seen = Seen {
            pinned: false,
            subject: Subject::new("this CLI", fake.path(), "nowhere".into()),
            facts: Facts::default(),
        };
        let error = base(&[seen], Duration::from_millis(500))
            .map(drop)
            .unwrap_err()
            .to_string();
        let row = error
            .lines()
            .find(|line| line.contains("`order of frames in a turn`"));
        let row = row.unwrap_or_else(|| panic!("{error}"));
        assert!(row.contains("message_stop, result`, found `"), "{row}");
        assert!(
            row.ends_with("message_stop; the last is `outcome`, not `result``"),
            "{row}"
        );
        assert!(error.contains("waiting for a result"), "{error}");
    }
}
