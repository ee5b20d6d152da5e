//! Publishes the crates to the registry of Rust, each after those that it needs.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::host;
use crate::workspace::{Metadata, Package, root};

/// Options of `cargo xtask publish`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package every crate and build it from its package, and upload nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let metadata = Metadata::load()?;
    let crates: Vec<_> = metadata
        .members()
        .filter(|package| package.is_published())
        .collect();
    let missing: Vec<_> = crates
        .iter()
        .flat_map(|package| lacks(*package).map(|what| format!("`{}` has no {what}", package.name())))
        .collect();
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    // Cargo orders them, and gives each one the packages of those before it in the place of the registry.
    let mut cargo = host::cargo(["publish", "--workspace", "--locked"]);
    if args.dry_run {
        cargo.arg("--dry-run");
    }
    host::run(&mut cargo)?;
    println!("{} crates", crates.len());
    Ok(())
}

/// The names of the texts that a reader of the registry would miss.
fn lacks(package: Package<'_>) -> impl Iterator<Item = &'static str> {
    let folder = root().join(package.manifest());
    let folder = folder.parent().unwrap_or(Path::new("")).to_owned();
    [
        (package.description().is_none_or(str::is_empty), "description"),
        (package.license().is_none(), "licence"),
        (!folder.join("README.md").is_file(), "README.md"),
    ]
    .into_iter()
    .filter_map(|(is_missing, what)| is_missing.then_some(what))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_without_its_texts_is_not_published() {
        let metadata = Metadata::from_json(json!({ "packages": [
            { "name": "bare", "manifest_path": "nowhere/Cargo.toml", "publish": null },
            { "name": "own", "manifest_path": "nowhere/Cargo.toml", "publish": [] },
        ] }));
        let published: Vec<_> = metadata
            .members()
            .filter(|package| package.is_published())
            .collect();
        assert_eq!(published.len(), 1);
        let missing: Vec<_> = published.into_iter().flat_map(lacks).collect();
        assert_eq!(missing, ["description", "licence", "README.md"]);
    }
}
