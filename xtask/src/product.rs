//! Builds the `holodeck` binary that checks and benches run.

use std::path::PathBuf;

use anyhow::Result;

use crate::host;
use crate::workspace::Metadata;

/// Builds `holodeck` as CI builds the tests, and returns its path. A build of its package alone would resolve
/// other features of tokio and hyper, and compile most dependencies a second time.
pub(crate) fn build(metadata: &Metadata) -> Result<PathBuf> {
    let build = [
        "test",
        "--workspace",
        "--test",
        "it",
        "--no-run",
        "--locked",
        "--quiet",
    ];
    host::run(host::linting(&mut host::cargo(build)))?;
    Ok(metadata.target_directory().join("debug/holodeck"))
}
