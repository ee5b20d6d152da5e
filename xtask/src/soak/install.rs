//! The packages of `cargo xtask dist`, each installed as its readers install it, in a clean root: Debian's smallest system
//! for the archive, the wheel and the package for Debian, a folder of its own for that of npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::workspace::Metadata;
use crate::{dist, host};

/// The system that the packages are installed in.
const SUITE: &str = "bookworm";

/// Its packages beside those that every system has: what `pip` needs, and certificates.
const PACKAGES: &str = "ca-certificates,python3-venv";

/// Builds the packages for this processor, then installs each and tests an agent with it.
pub(super) fn check() -> Result<()> {
    let packages = Metadata::load()?.target_directory().join("packages");
    dist::build_for_this_machine(&packages)?;
    let scratch = tempfile::Builder::new().prefix("holodeck-install-").tempdir()?;
    npm(&packages, &scratch.path().join("npm"))?;
    let base = scratch.path().join("base");
    debian(scratch.path(), &base)?;
    for (name, commands) in [
        (
            "tarball",
            "tar -xzf /packages/holodeck-*-x86_64-*.tar.gz -C /opt && install /opt/holodeck-*/holodeck /usr/local/bin/",
        ),
        (
            "wheel",
            "python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-index /packages/*x86_64*.whl \
             && ln -s /opt/venv/bin/holodeck /usr/local/bin/",
        ),
        ("deb", "dpkg --install /packages/holodeck_*_amd64.deb"),
    ] {
        let root = scratch.path().join(name);
        host::run(host::command("cp").arg("--archive").arg(&base).arg(&root))?;
        copy_into(&root, &packages)?;
        inside(&root, commands)?;
        inside(&root, &trial("holodeck"))?;
        println!("{name}: installed and tried");
    }
    Ok(())
}

/// A person's first steps with an installed program.
fn trial(program: &str) -> String {
    format!(
        "cd /tmp && {program} --version && {program} init first --non-interactive && cd first \
         && {program} validate && {program} test"
    )
}

/// The smallest system of the suite.
fn debian(scratch: &Path, root: &Path) -> Result<()> {
    let tool = scratch.join("debootstrap");
    fs::create_dir_all(&tool)?;
    // Downloaded and unpacked: nothing is installed on this machine.
    host::run(
        host::command("apt-get")
            .args(["-o", "APT::Sandbox::User=root", "download", "debootstrap"])
            .current_dir(&tool),
    )?;
    let package = the_file(&tool, "debootstrap_", ".deb")?;
    host::run(host::command("dpkg").arg("--extract").arg(package).arg(&tool))?;
    host::run(
        host::command(tool.join("usr/sbin/debootstrap"))
            .env("DEBOOTSTRAP_DIR", tool.join("usr/share/debootstrap"))
            .arg("--variant=minbase")
            .arg(format!("--include={PACKAGES}"))
            .arg(SUITE)
            .arg(root),
    )
}

/// Puts the packages and the tested agents where the system finds them.
fn copy_into(root: &Path, packages: &Path) -> Result<()> {
    let to = root.join("packages");
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(packages)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Runs commands of a shell in the system, without the environment of this one.
fn inside(root: &Path, commands: &str) -> Result<()> {
    let mut chroot = host::command("chroot");
    chroot.arg(root).args(["/bin/sh", "-euc", commands]);
    chroot
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", "/root");
    run_clean(&mut chroot)
}

/// The package for npm in a folder of its own, called by its name, without anything but Node.
fn npm(packages: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let launcher = the_file(packages, &format!("{}-0", dist::NAME), ".tgz")?;
    let program = the_file(packages, &format!("{}-linux-x64-", dist::NAME), ".tgz")?;
    let install = [
        "install",
        "--global",
        "--no-audit",
        "--no-fund",
        "--offline",
        "--prefix",
    ];
    // The program's package first: without a registry, the launcher's own request for it is not met.
    host::run(host::command("npm").args(install).arg(folder).arg(&program))?;
    host::run(
        host::command("npm")
            .args(install)
            .arg(folder)
            .args(["--omit=optional"])
            .arg(&launcher),
    )?;
    let command = folder.join("bin/holodeck");
    ensure!(command.exists(), "npm installed no `holodeck`");
    let node = host::output(host::command("node").args(["-p", "process.execPath"]))?;
    let node = Path::new(node.trim()).parent().context("node is in no folder")?;
    let mut shell = host::command("/bin/sh");
    let line = trial(&command.display().to_string()).replace("/tmp", &folder.display().to_string());
    shell.args(["-euc", &line]).env_clear();
    shell
        .env("PATH", format!("{}:/usr/bin:/bin", node.display()))
        .env("HOME", folder);
    run_clean(&mut shell)?;
    println!("npm: installed and tried");
    Ok(())
}

/// Runs a command whose environment was cleared.
fn run_clean(command: &mut Command) -> Result<()> {
    let status = command.status().context("failed to start a shell")?;
    ensure!(status.success(), "a package does not work: {status}");
    Ok(())
}

/// The only file with this beginning and end.
fn the_file(folder: &Path, begin: &str, end: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with(begin) && name.ends_with(end) {
            found.push(path);
        }
    }
    ensure!(
        found.len() == 1,
        "{} files `{begin}…{end}` in {}",
        found.len(),
        folder.display()
    );
    found.pop().context("no file")
}
