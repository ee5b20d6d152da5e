//! Files that are written by the product itself and checked in, so that a reader and an editor find them.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::workspace::{self, Metadata};
use crate::{host, product};

/// Each generated file, and the arguments with which `holodeck` prints it.
const GENERATED: &[(&str, &[&str])] = &[
    ("docs/cli.md", &["internal", "cli-reference"]),
    ("docs/diagnostics.md", &["internal", "diagnostics-reference"]),
    ("docs/schemas/agent.schema.json", &["schema"]),
    ("docs/schemas/config.schema.json", &["schema", "--config"]),
];

/// Options of `cargo xtask codegen`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is not what it would be.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check { check() } else { write() }
}

/// Fails if a checked-in file is not what the product prints.
pub(crate) fn check() -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in generate()? {
        let there = fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
        if let Some(line) = first_difference(&there, &text) {
            println!("{path}:{line}: differs from what `holodeck` prints");
            stale.push(path);
        }
    }
    if !stale.is_empty() {
        bail!(
            "{} generated files are stale; run `cargo xtask codegen` and commit",
            stale.len()
        );
    }
    println!("codegen: {} generated files are up to date", GENERATED.len());
    Ok(())
}

fn write() -> Result<()> {
    for (path, text) in generate()? {
        let file = workspace::root().join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, text).with_context(|| format!("failed to write {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

fn generate() -> Result<Vec<(&'static str, String)>> {
    let holodeck = product::build(&Metadata::load()?)?;
    let print = |args: &[&str]| host::output(host::command(&holodeck).args(args));
    GENERATED
        .iter()
        .map(|(path, args)| Ok((*path, print(args)?)))
        .collect()
}

/// The first line in which two texts differ.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one
        .lines()
        .zip(other.lines())
        .take_while(|(one, other)| one == other)
        .count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn differences_have_a_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
        assert_eq!(first_difference("a\n", "a"), Some(2));
    }
}
