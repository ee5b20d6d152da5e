//! The archive that people install: the binary, its size and what it links, shell completions and man pages.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::workspace::{self, Metadata};

const SIZE_BUDGET: u64 = 34_000_000;

/// Libraries that every Linux has: the C library in its parts, the unwinder, the loader.
const LINKED: &[&str] = &[
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "ld-linux",
    "linux-vdso",
    "linux-gate",
];

pub(crate) fn run() -> Result<()> {
    host::run(&mut host::cargo([
        "build",
        "--locked",
        "--profile",
        "dist",
        "-p",
        "holodeck-cli",
    ]))?;
    let binary = Metadata::load()?.target_directory().join("dist/holodeck");
    let size = std::fs::metadata(&binary)
        .context("failed to find the built binary")?
        .len();
    let libraries = libraries(&host::output(host::command("ldd").arg(&binary))?);
    println!(
        "{}: {size} bytes, links {}",
        binary.display(),
        libraries.join(", ")
    );
    if size > SIZE_BUDGET {
        bail!("the binary has {size} bytes, the budget is {SIZE_BUDGET}");
    }
    let foreign: Vec<_> = libraries
        .iter()
        .filter(|library| !LINKED.iter().any(|known| library.starts_with(known)))
        .collect();
    if !foreign.is_empty() {
        bail!("the binary links {foreign:?}, which not every machine has");
    }
    pack(&binary)
}

/// Shells with the file name of their completions, as each looks for it.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "holodeck.bash"),
    ("elvish", "holodeck.elv"),
    ("fish", "holodeck.fish"),
    ("powershell", "holodeck.ps1"),
    ("zsh", "_holodeck"),
];

/// Packs the binary with what belongs to it: `holodeck-VERSION-TARGET.tar.gz` beside it.
fn pack(binary: &Path) -> Result<()> {
    let version = host::first_line(&binary.to_string_lossy(), &["--version"]);
    let version = version.context("the binary does not print its version")?;
    let version = version.split(' ').nth(1).context("the version has no number")?;
    let name = format!("holodeck-{version}-{}", target()?);
    let parent = binary.parent().context("the binary is in no folder")?;
    let folder = parent.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (completions, pages) = (folder.join("completions"), folder.join("man"));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&pages)?;
    fs::copy(binary, folder.join("holodeck"))?;
    for file in ["README.md", "LICENSE"] {
        fs::copy(workspace::root().join(file), folder.join(file))?;
    }
    for (shell, file) in SHELLS {
        let script = host::output(host::command(binary).args(["completions", shell]))?;
        fs::write(completions.join(file), script)?;
    }
    host::run(host::command(binary).args(["internal", "man-pages"]).arg(&pages))?;
    let archive = parent.join(format!("{name}.tar.gz"));
    let mut tar = host::command("tar");
    tar.arg("--create").arg("--gzip").arg("--file").arg(&archive);
    host::run(tar.arg("--directory").arg(parent).arg(&name))?;
    println!("{}: {} bytes", archive.display(), fs::metadata(&archive)?.len());
    Ok(())
}

/// The platform the compiler builds for.
fn target() -> Result<String> {
    let about = host::output(host::command("rustc").arg("-vV"))?;
    let line = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("the compiler names no platform")?.to_owned())
}

/// The names of the libraries `ldd` lists.
fn libraries(ldd: &str) -> Vec<String> {
    let firsts = ldd.lines().filter_map(|line| line.split_whitespace().next());
    firsts
        .map(|path| path.rsplit('/').next().unwrap_or(path).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::libraries;

    #[test]
    fn reads_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/libgcc_s.so.1 (0x00007f)\n\
            \tlibssl.so.3 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(text),
            [
                "linux-vdso.so.1",
                "libgcc_s.so.1",
                "libssl.so.3",
                "ld-linux-x86-64.so.2"
            ]
        );
    }
}
