//! The linker of the distributed program: links it twice, the second time with the functions that its commands use together.
//!
//! The first link has the symbols, from which the second one's order and a profile are made ([`super::order`]).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::order;
use crate::host;

/// The name of the program with symbols.
pub(super) const WITH_SYMBOLS: &str = "holodeck.symbols";

/// Options of the hidden verb that the compiler starts as its linker.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The list of functions. The compiler sets the variables by which this program finds the workspace.
    #[arg(long)]
    functions: PathBuf,
    /// Arguments of Rust's own linker.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let symbols = with_symbols(&std::path::absolute(output_of(&args.arguments)?)?)?;
    // The last of two options counts.
    host::run(linker(args)?.args(["--strip-debug", "-o"]).arg(&symbols))?;
    let mut order = tempfile::NamedTempFile::new()?;
    order.write_all(order::of_program(&symbols, &args.functions)?.symbols.as_bytes())?;
    let mut option = OsString::from("--symbol-ordering-file=");
    option.push(order.path());
    host::run(linker(args)?.arg(option).arg("--no-warn-symbol-ordering"))
}

/// Rust's own linker, in the folder from which the compiler names its files.
fn linker(args: &Args) -> Result<Command> {
    let mut linker = host::command("rust-lld");
    linker.args(&args.arguments).current_dir(std::env::current_dir()?);
    Ok(linker)
}

/// Where the program with its symbols is left: beside the program, which Cargo links in a folder of its own.
fn with_symbols(program: &Path) -> Result<PathBuf> {
    let folder = program.parent().and_then(Path::parent);
    Ok(folder.context("the program has no folder")?.join(WITH_SYMBOLS))
}

/// The file that the linker is to write.
fn output_of(arguments: &[OsString]) -> Result<&Path> {
    let mut arguments = arguments.iter();
    arguments
        .find(|argument| *argument == "-o")
        .context("the compiler named no output to its linker")?;
    arguments.next().map(Path::new).context("`-o` has no file")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{output_of, with_symbols};

    #[test]
    fn the_program_with_symbols_is_beside_the_program() {
        let arguments = ["-O1", "-o", "/t/dist/deps/holodeck-1f", "--strip-all"].map(Into::into);
        let program = output_of(&arguments).unwrap();
        assert_eq!(
            with_symbols(program).unwrap(),
            Path::new("/t/dist/holodeck.symbols")
        );
        assert!(output_of(&["-O1".into()]).is_err());
    }
}
