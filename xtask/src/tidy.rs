//! The rules of the house that no compiler checks.
//!
//! A rule is a function from what it looks at to findings; the tables it goes by are in `rules.rs`.

use anyhow::{Result, bail};

use crate::workspace::{self, File, Metadata};

mod docs;
mod edges;
mod exports;
mod imports;
mod layout;
mod licence;
mod manifest;
mod modules;
mod packages;
mod place;
mod ratchet;
mod rules;
mod scan;
mod size;
mod source;
mod strings;
mod vendors;
mod words;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    what: String,
    todo: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            todo: todo.into(),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the lines of code of each crate, without blank lines and comments, and check nothing
    #[arg(long)]
    count: bool,
    /// Print everything that the ratchet NAME counts, and check nothing
    #[arg(long, value_name = "NAME", conflicts_with = "count")]
    list: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let files = workspace::files()?;
    if args.count {
        println!("{}", size::table(&files));
        return Ok(());
    }
    if let Some(name) = &args.list {
        return list(name, &files);
    }
    check(&files)
}

/// Checks every rule.
pub(crate) fn check_all() -> Result<()> {
    check(&workspace::files()?)
}

fn list(name: &str, files: &[File]) -> Result<()> {
    let Some(places) = ratchet::list(name, files) else {
        let names: Vec<&str> = rules::RATCHETS.iter().map(|ratchet| ratchet.name).collect();
        bail!("no ratchet is called `{name}`; there are {}", names.join(", "));
    };
    for place::Place { file, line, what } in &places {
        println!("{file}:{line}: {what}");
    }
    println!("{name}: {}", places.len());
    Ok(())
}

fn check(files: &[File]) -> Result<()> {
    let metadata = Metadata::load()?;
    let mut findings = check_files(files);
    findings.extend(vendors::check(files));
    findings.extend(edges::check(&metadata, files));
    findings.extend(packages::check(&metadata, files));
    findings.extend(ratchet::check(files));
    findings.sort();
    for note in layout::notes(files).into_iter().chain(packages::notes(&metadata)) {
        println!("note: {note}");
    }
    for Finding {
        file,
        line,
        what,
        todo,
    } in &findings
    {
        println!("{file}:{line}: {what}\n  fix: {todo}");
    }
    println!(
        "tidy: {} files, {} packages in the default tree",
        files.len(),
        packages::default_tree(&metadata)
    );
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

/// The rules that need nothing but the files.
fn check_files(files: &[File]) -> Vec<Finding> {
    let mut findings = layout::check(files);
    for file in files {
        let Some(text) = &file.text else { continue };
        findings.extend(strings::check(&file.path, text));
        findings.extend(words::check(&file.path, text));
        // The projects in `fixtures` are those of other people.
        let is_member = file.path.starts_with("crates/") || file.path.starts_with("xtask/");
        if file.path.ends_with("/Cargo.toml") && is_member {
            findings.extend(manifest::check(&file.path, text));
        }
        if is_rust(&file.path) {
            findings.extend(source::check(&file.path, text));
        }
    }
    findings
}

/// The crate a path belongs to: `crates/holodeck-model/src/lib.rs` → `holodeck-model`.
fn crate_of(path: &str) -> Option<&str> {
    if path.starts_with("xtask/") {
        return Some("xtask");
    }
    path.strip_prefix("crates/")?.split('/').next()
}

fn is_rust(path: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "rs")
}
