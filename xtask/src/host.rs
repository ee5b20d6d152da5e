//! Access to the machine: programs and the environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context as _, Result, bail};

/// The workspace root: of the checkout in which Cargo runs this program, since two checkouts may share what is built.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = env("CARGO_MANIFEST_DIR");
        let here = PathBuf::from(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")));
        here.parent().unwrap_or(&here).to_owned()
    });
    &ROOT
}

/// A command that runs at the workspace root.
#[expect(
    clippy::disallowed_methods,
    reason = "automation runs tools; the product spawns through holodeck-process"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// `cargo` with these arguments.
pub(crate) fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = command("cargo");
    command.args(args);
    if in_ci() {
        // Nothing is compiled twice there, and what would allow it takes gigabytes.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Makes this run of `cargo` compile the workspace with Clippy's driver, as `cargo clippy -- -D warnings` does, but into
/// binaries. Checking first and compiling after takes more than a minute longer on two cores.
pub(crate) fn linting(cargo: &mut Command) -> &mut Command {
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-Dwarnings")
}

/// The value of an environment variable, if it is set to text.
#[expect(clippy::disallowed_methods, reason = "automation has no `Env` to be handed")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether this is a CI run, where nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    env("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Runs a command on this terminal; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    let status = command
        .status()
        .with_context(|| format!("failed to start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns its standard output; an error unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    output_only(command.stderr(Stdio::inherit()))
}

/// The same, with standard error as the command has it.
pub(crate) fn output_only(command: &mut Command) -> Result<String> {
    let line = show(command);
    let output = command
        .output()
        .with_context(|| format!("failed to start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something that is not text"))
}

/// The first line a program prints for `args`, or nothing if it is absent or fails.
pub(crate) fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = command(program).args(args).stdin(Stdio::null()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

/// The command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
