//! The binary that is handed out: its size, and what it links.

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::workspace::Metadata;

const SIZE_BUDGET: u64 = 30_000_000;

/// What every Linux has: the C library in its parts, the unwinder, the loader.
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
    Ok(())
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
