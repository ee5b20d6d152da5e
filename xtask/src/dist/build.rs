//! Builds the static program: Zig compiles C for every platform, and Rust's own linker links it with Rust's own libc, so that
//! nothing of this machine gets in.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::platform::Platform;
use super::{link, order};
use crate::host;
use crate::workspace::{self, Metadata};

/// From PyPI: a C compiler for every platform, with the headers of its libc.
const COMPILER: &str = "ziglang==0.15.2";

/// The allocator of a program without glibc cannot have a thread of its own.
const ALLOCATOR: &str = "dirty_decay_ms:1000,muzzy_decay_ms:0";

/// Position-independent, with packed relocations, which take a tenth of the room. The names of functions say for which types
/// each was compiled.
const LINKING: &str = "-Csymbol-mangling-version=v0 -Clink-self-contained=yes -Clinker-flavor=ld.lld -Clink-arg=--pack-dyn-relocs=relr";

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
    let rust = format!("{LINKING} --remap-path-prefix={root}=/holodeck --remap-path-prefix={home}=/cargo");
    let c = format!("-ffile-prefix-map={root}=/holodeck -ffile-prefix-map={home}=/cargo");
    let mut cargo = host::cargo([
        "build",
        "--locked",
        "--profile",
        "dist",
        "-p",
        super::NAME,
        "--target",
        &triple,
    ]);
    let upper = name.to_uppercase();
    let folder = target.join(&triple).join("dist");
    let symbols = folder.join(link::WITH_SYMBOLS);
    let compile = format!("cc -target {} -fno-sanitize=undefined", platform.zig_target());
    cargo
        .env(
            format!("CC_{name}"),
            script(&tools, &format!("{triple}-cc"), &compile)?,
        )
        .env(format!("AR_{name}"), script(&tools, "zig-ar", "ar")?)
        .env(format!("CFLAGS_{name}"), c)
        .env(format!("CARGO_TARGET_{upper}_LINKER"), linker(&tools)?)
        .env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), rust)
        .env("JEMALLOC_SYS_WITH_MALLOC_CONF", ALLOCATOR)
        .env("CARGO_TARGET_DIR", target);
    host::run(&mut cargo)?;
    order::of_program(&symbols, &order::list())?.check()?;
    Ok(folder.join("holodeck"))
}

/// A program for this machine, of the same sources.
pub(super) fn host_program(metadata: &Metadata) -> Result<PathBuf> {
    host::run(&mut host::cargo(["build", "--locked", "-p", super::NAME]))?;
    Ok(metadata.target_directory().join("debug/holodeck"))
}

/// The folder of the programs of [`COMPILER`], installed once.
fn tools(target: &Path) -> Result<PathBuf> {
    let folder = target.join("dist-tools");
    let done = folder.join("installed");
    if fs::read_to_string(&done).is_ok_and(|found| found == COMPILER) {
        return Ok(folder.join("bin"));
    }
    println!("installing {COMPILER}");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    host::run(host::command("python3").args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    host::run(host::command(folder.join("bin/python")).args(pip).arg(COMPILER))?;
    fs::write(done, COMPILER)?;
    Ok(folder.join("bin"))
}

/// Writes a script that calls this program as the linker. Cargo builds everything again if its path changes.
fn linker(tools: &Path) -> Result<PathBuf> {
    let text = format!(
        "#!/bin/sh\nexec '{}' dist-link --functions '{}' -- \"$@\"\n",
        std::env::current_exe()?.display(),
        order::list().display()
    );
    write_script(tools.join("link"), &text)
}

/// Writes a script that calls Zig.
fn script(tools: &Path, name: &str, words: &str) -> Result<PathBuf> {
    let zig = tools.join("python-zig");
    // Zig's own `--target` has another form, so that of the caller is left out.
    let text = format!(
        "#!/bin/sh\nfor word in \"$@\"; do\n  shift\n  case \"$word\" in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac\ndone\n\
         exec {} {words} \"$@\"\n",
        zig.display()
    );
    write_script(tools.join(name), &text)
}

fn write_script(path: PathBuf, text: &str) -> Result<PathBuf> {
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
