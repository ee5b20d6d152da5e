//! The fuzz targets for longer than a test may take. The targets and what runs them are `crates/holodeck/tests/fuzz`.

use anyhow::Result;

use crate::host;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fuzz only these targets.
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // With the features of the whole workspace, as its tests are built.
    let mut cargo = host::cargo([
        "test",
        "--workspace",
        "--test",
        "fuzz",
        "--locked",
        "--quiet",
        "--",
        "fuzz",
    ]);
    host::run(cargo.arg(args.seconds.to_string()).args(&args.targets))
}
