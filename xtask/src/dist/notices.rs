//! The parts of the program that others made: the licences of all packages, and a bill of materials (CycloneDX 1.5).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::NAME;
use crate::workspace::{Metadata, Package};

/// The file with the licences.
pub(super) const FILE: &str = "THIRD-PARTY.md";

/// The packages of others in the program.
fn others(metadata: &Metadata) -> Vec<Package<'_>> {
    let tree = metadata.tree(NAME);
    let own: Vec<&str> = metadata.members().map(Package::id).collect();
    let mut packages: Vec<_> = metadata
        .packages()
        .filter(|package| tree.contains(&package.id()) && !own.contains(&package.id()))
        .collect();
    packages.sort_by_key(|package| (package.name(), package.version()));
    packages
}

/// Every package with its licence; each text once, with the packages that it belongs to.
pub(super) fn licences(metadata: &Metadata) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut page =
        "# Packages of others in this program\n\n| package | version | licence |\n|---|---|---|\n".to_owned();
    for package in others(metadata) {
        let licence = package.license();
        ensure!(licence.is_some(), "`{}` names no licence", package.name());
        writeln!(
            page,
            "| {} | {} | {} |",
            package.name(),
            package.version(),
            licence.unwrap_or_default()
        )?;
        let manifest = package.manifest();
        let folder = Path::new(&manifest).parent().context("a package has no folder")?;
        for text in licence_texts(folder)? {
            texts
                .entry(text)
                .or_default()
                .push(format!("{} {}", package.name(), package.version()));
        }
    }
    for (text, packages) in texts {
        write!(
            page,
            "\n## {}\n\n```text\n{}\n```\n",
            packages.join(", "),
            text.trim_end()
        )?;
    }
    Ok(page)
}

/// The texts of licences in the folder of a package, in the order of their names.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if path.is_file()
            && ["licen", "copying", "notice", "unlicense"]
                .iter()
                .any(|begin| name.starts_with(begin))
        {
            files.push(path);
        }
    }
    files.sort();
    let read = files
        .iter()
        .map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).replace("\r\n", "\n")));
    read.collect()
}

/// A bill of materials with the address of each package in its registry.
pub(super) fn bill_of_materials(metadata: &Metadata, version: &str) -> Result<String> {
    let components = others(metadata).into_iter().map(|package| {
        let address = format!("pkg:cargo/{}@{}", package.name(), package.version());
        json!({
            "type": "library", "bom-ref": address, "name": package.name(), "version": package.version(),
            "licenses": [{ "expression": package.license().unwrap_or_default().replace('/', " OR ") }],
            "purl": address,
        })
    });
    let components: Vec<Value> = components.collect();
    ensure!(
        components.len() > 100,
        "only {} packages were found",
        components.len()
    );
    let bill = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "holodeck", "name": "holodeck", "version": version,
            "licenses": [{ "expression": "MIT" }],
        } },
        "components": components,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
}
