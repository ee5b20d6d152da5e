//! Builds the static program: Zig is the C compiler and linker for every platform, so that nothing of this machine gets in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::platform::Platform;
use crate::host;
use crate::workspace::{self, Metadata};

/// From PyPI.
const TOOLS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The allocator of a program without glibc cannot have a thread of its own.
const ALLOCATOR: &str = "dirty_decay_ms:1000,muzzy_decay_ms:0";

/// The program for a platform.
pub(super) fn program(platform: Platform, target: &Path) -> Result<PathBuf> {
    let tools = tools(target)?;
    let triple = platform.triple();
    host::run(host::command("rustup").args(["target", "add", &triple]))?;
    let name = triple.replace('-', "_");
    let root = workspace::root().display().to_string();
    let home = host::env("CARGO_HOME").or_else(|| host::env("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.context("there is no home folder")?;
    // No path of this machine is in the program: another one builds the same bytes.
    let rust = format!("--remap-path-prefix={root}=/holodeck --remap-path-prefix={home}=/cargo");
    let c = format!("-ffile-prefix-map={root}=/holodeck -ffile-prefix-map={home}=/cargo");
    let path = format!("{}:{}", tools.display(), host::env("PATH").unwrap_or_default());
    let mut cargo = host::cargo([
        "zigbuild",
        "--locked",
        "--profile",
        "dist",
        "-p",
        super::NAME,
        "--target",
        &triple,
    ]);
    cargo
        .env("PATH", path)
        .env(format!("CARGO_TARGET_{}_RUSTFLAGS", name.to_uppercase()), rust)
        .env(format!("CFLAGS_{name}"), c)
        .env("JEMALLOC_SYS_WITH_MALLOC_CONF", ALLOCATOR)
        .env("CARGO_TARGET_DIR", target);
    host::run(&mut cargo)?;
    Ok(target.join(triple).join("dist/holodeck"))
}

/// A program for this machine, of the same sources.
pub(super) fn host_program(metadata: &Metadata) -> Result<PathBuf> {
    host::run(&mut host::cargo(["build", "--locked", "-p", super::NAME]))?;
    Ok(metadata.target_directory().join("debug/holodeck"))
}

/// The folder of the programs of [`TOOLS`], installed once.
fn tools(target: &Path) -> Result<PathBuf> {
    let folder = target.join("dist-tools");
    let done = folder.join("installed");
    let wanted = TOOLS.join("\n");
    if fs::read_to_string(&done).is_ok_and(|found| found == wanted) {
        return Ok(folder.join("bin"));
    }
    println!("installing {}", TOOLS.join(" and "));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    host::run(host::command("python3").args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    host::run(host::command(folder.join("bin/python")).args(pip).args(TOOLS))?;
    fs::write(done, wanted)?;
    Ok(folder.join("bin"))
}
