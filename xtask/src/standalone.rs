//! Every library crate by itself: features unify inside a workspace and hide what a crate forgot to ask for.

use anyhow::Result;

use crate::host;
use crate::workspace::{self, Metadata};

/// Projects outside the workspace that depend on one crate each and run its README example.
const EMBED: &str = "fixtures/embed";

pub(crate) fn run() -> Result<()> {
    let metadata = Metadata::load()?;
    for package in metadata.members().filter(|package| package.has_library()) {
        let name = package.name();
        println!("standalone: {name}");
        let check = ["check", "--quiet", "--locked", "-p", name];
        host::run(&mut host::cargo(check))?;
        if package.has_features() {
            host::run(host::cargo(check).arg("--no-default-features"))?;
            host::run(host::cargo(check).arg("--all-features"))?;
        }
    }
    let Ok(projects) = std::fs::read_dir(workspace::root().join(EMBED)) else {
        return Ok(());
    };
    for project in projects {
        let manifest = project?.path().join("Cargo.toml");
        if manifest.exists() {
            println!("standalone: {}", manifest.display());
            let target = metadata.target_directory().join("embed");
            let mut run = host::cargo(["run", "--quiet", "--locked", "--manifest-path"]);
            host::run(run.arg(&manifest).arg("--target-dir").arg(target))?;
        }
    }
    Ok(())
}
