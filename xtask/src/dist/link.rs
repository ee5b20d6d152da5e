//! The linker of the distributed program: links it twice, the second time with the functions that its commands use together.
//!
//! The first link has the symbols, from which the second one's order and a profile are made ([`super::order`]).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::order;
use crate::host;

/// Options of the hidden verb that the compiler starts as its linker.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the program with its symbols is left.
    #[arg(long)]
    symbols: PathBuf,
    /// The list of functions. The compiler sets the variables by which this program finds the workspace.
    #[arg(long)]
    functions: PathBuf,
    /// Arguments of Rust's own linker.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // The last of two options counts.
    host::run(linker(args)?.args(["--strip-debug", "-o"]).arg(&args.symbols))?;
    let mut order = tempfile::NamedTempFile::new()?;
    order.write_all(
        order::of_program(&args.symbols, &args.functions)?
            .symbols
            .as_bytes(),
    )?;
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
