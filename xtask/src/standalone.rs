//! Every library crate by itself: features unify inside a workspace and hide what a crate forgot to ask for.
//!
//! The tests' build shows that all crates compile together. A crate is built alone only where one of its own dependencies
//! then has other features than in that build, or where it has features itself. Last, the projects
//! outside of the workspace that depend on one crate each are run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use serde_json::json;

use crate::workspace::{self, Metadata, Package, Use};
use crate::{host, smoke};

/// This program was built from it alone.
const BUILT_ALONE: &str = "holodeck-testkit";

/// A feature of tokio that only tests enable; `tidy` finds what uses it elsewhere.
const FOR_TESTS: &str = "test-util";

/// Projects outside the workspace that depend on one crate each and run its README example.
const EMBED: &str = "fixtures/embed";

/// How many packages a project may compile that depends on one crate, itself included.
const MAX_PACKAGES: &[(&str, usize)] = &[("orchestrator", 60), (TEXT_METRICS, 15)];

/// The project that uses `holodeck-eval` without features. The others have the name of their crate.
const TEXT_METRICS: &str = "text-metrics";

/// The sets of features that each package of a build is built with, by the package's name and version.
type Features = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn run() -> Result<()> {
    let metadata = Metadata::load()?;
    let in_tests = features(&["--workspace", "--edges", "normal,build,dev"])?;
    let mut groups: BTreeMap<Features, Vec<&str>> = BTreeMap::new();
    for package in metadata.members().filter(|package| package.has_library()) {
        let name = package.name();
        let alone = features(&["--package", name, "--edges", "normal,build"])?;
        let differing = differing(package, &alone, &in_tests);
        if name != BUILT_ALONE && !differing.is_empty() {
            groups.entry(differing).or_default().push(name);
        }
        if package.has_features() {
            build(&[name], &["--no-default-features"])?;
            let all = features(&["--package", name, "--edges", "normal,build", "--all-features"])?;
            let own = features_of(&all, name);
            if !own.is_subset(&features_of(&in_tests, name)) {
                build(&[name], &["--all-features"])?;
            }
        }
    }
    // Built together, they see what each of them sees alone.
    for (differing, names) in groups {
        build(&names, &[])?;
        println!(
            "  because of {}",
            differing.into_keys().collect::<Vec<_>>().join(", ")
        );
    }
    embed(&metadata)
}

/// Builds and lints as the tests' build does, so that what is the same is not built again.
fn build(names: &[&str], features: &[&str]) -> Result<()> {
    println!("standalone: {} {}", names.join(", "), features.join(" "));
    let mut build = host::cargo(["build", "--lib", "--quiet", "--locked"]);
    for name in names {
        build.args(["--package", name]);
    }
    host::run(host::linting(build.args(features)))
}

/// The direct dependencies of a crate that have other features when it is built alone than in the tests' build, and these
/// features.
fn differing(package: Package<'_>, alone: &Features, in_tests: &Features) -> Features {
    package
        .dependencies()
        .filter(|dependency| dependency.used != Use::Dev)
        .map(|dependency| {
            (
                dependency.package.to_owned(),
                features_of(alone, dependency.package),
            )
        })
        .filter(|(name, features)| !features.is_subset(&features_of(in_tests, name)))
        .collect()
}

fn features_of(features: &Features, name: &str) -> BTreeSet<String> {
    let same = features
        .iter()
        .filter(|(package, _)| package.split(' ').next() == Some(name));
    same.flat_map(|(_, variants)| variants.clone()).collect()
}

/// Returns the features that Cargo resolves for these packages and edges.
fn features(of: &[&str]) -> Result<Features> {
    let mut tree = host::cargo(["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"]);
    let text = host::output(tree.args(of))?;
    let mut features = Features::new();
    for line in text.lines() {
        let line = line.trim_end_matches(" (*)");
        // Each member's tree ends with an empty line.
        if line.is_empty() {
            continue;
        }
        let (package, enabled) = line.split_once('|').context("cargo tree has another format")?;
        // Name and version; a path may follow.
        let package: Vec<&str> = package.split(' ').take(2).collect();
        features
            .entry(package.join(" "))
            .or_default()
            .insert(without_test_features(enabled));
    }
    if features.is_empty() {
        bail!("cargo tree lists nothing for {}", of.join(" "));
    }
    Ok(features)
}

fn without_test_features(enabled: &str) -> String {
    let features = enabled.split(',').filter(|feature| *feature != FOR_TESTS);
    features.collect::<Vec<_>>().join(",")
}

/// Builds and runs the projects of [`EMBED`].
fn embed(metadata: &Metadata) -> Result<()> {
    let folder = workspace::root().join(EMBED);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{EMBED} cannot be read"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    if names.is_empty() {
        bail!("{EMBED} has no project");
    }
    names.sort();
    for name in &names {
        check_readme(name)?;
    }
    for (name, most) in MAX_PACKAGES {
        let count = packages(name)?;
        println!("standalone: {EMBED}/{name} has {count} packages, of at most {most}");
        if count > *most {
            bail!("{EMBED}/{name} has {count} packages; at most {most} are allowed");
        }
    }
    let target = metadata.target_directory();
    let mut build = host::cargo(["build", "--quiet", "--locked", "--workspace", "--manifest-path"]);
    host::run(
        build
            .arg(folder.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target),
    )?;
    for name in &names {
        println!("standalone: runs {EMBED}/{name}");
        let mut program = host::command(target.join("debug").join(format!("embed-{name}")));
        match name.as_str() {
            "backend-claude" => ask_claude(&mut program)?,
            "backend-openai" => ask_openai(&mut program)?,
            _ => host::run(&mut program)?,
        }
    }
    Ok(())
}

/// How many packages a project of [`EMBED`] compiles, itself included.
fn packages(name: &str) -> Result<usize> {
    let mut tree = host::cargo(["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
    let manifest = workspace::root().join(EMBED).join("Cargo.toml");
    let project = format!("embed-{name}");
    let text = host::output(
        tree.args(["--package", &project, "--manifest-path"])
            .arg(manifest),
    )?;
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    let packages: BTreeSet<&str> = lines.filter(|line| !line.is_empty()).collect();
    if packages.len() < 2 {
        bail!("cargo tree lists nothing for {project}");
    }
    Ok(packages.len())
}

/// The example of a README is the program that is run.
fn check_readme(name: &str) -> Result<()> {
    let root = workspace::root();
    let program = fs::read_to_string(root.join(EMBED).join(name).join("src/main.rs"))?;
    let name_of_crate = if name == TEXT_METRICS { "eval" } else { name };
    let readme = format!("crates/holodeck-{name_of_crate}/README.md");
    if !fs::read_to_string(root.join(&readme))?.contains(&program) {
        bail!("the example of {readme} is not {EMBED}/{name}/src/main.rs");
    }
    Ok(())
}

/// Runs the example on the real CLI, whose API is a scripted one that calls the example's tool.
fn ask_openai(program: &mut Command) -> Result<()> {
    let server = ModelServer::replies([
        Reply::tool_call("call_1", "weather", &json!({"city": "Bern"})),
        Reply::text("No umbrella is needed."),
    ]);
    let answer = host::output(
        program
            .env("OPENAI_API_KEY", "none")
            .env("OPENAI_BASE_URL", server.url()),
    )?;
    let requests = server.finish();
    let results: Vec<&str> = requests
        .iter()
        .flat_map(|request| request.texts("tool"))
        .collect();
    if answer.trim() != "No umbrella is needed." || !results.iter().any(|result| result.contains("sunny in"))
    {
        bail!("the example of holodeck-backend-openai printed {answer:?}; its tool answered {results:?}");
    }
    Ok(())
}

fn ask_claude(program: &mut Command) -> Result<()> {
    let server = AnthropicServer::answering(|request| {
        if request.tool_results().is_empty() {
            AnthropicReply::tool_use("mcp__holodeck_tools__weather", &json!({"city": "Bern"}))
        } else {
            AnthropicReply::text("No umbrella is needed.")
        }
    });
    let path = tempfile::tempdir()?;
    symlink(smoke::newest_cli()?, path.path().join("claude"))?;
    let folders = format!("{}:/usr/bin:/bin", path.path().display());
    let answer = host::output(
        program
            .env("PATH", folders)
            .env("ANTHROPIC_API_KEY", "none")
            .env("ANTHROPIC_BASE_URL", server.url()),
    )?;
    let results: Vec<String> = server
        .finish()
        .iter()
        .flat_map(|request| request.tool_results().into_iter().map(|result| result.text))
        .collect();
    if answer.trim() != "No umbrella is needed." || !results.iter().any(|result| result.contains("sunny in"))
    {
        bail!("the example of holodeck-backend-claude printed {answer:?}; its tool answered {results:?}");
    }
    Ok(())
}
