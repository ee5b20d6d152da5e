//! The built product.

use std::path::PathBuf;

use anyhow::Result;

use crate::host;
use crate::workspace::Metadata;

/// Builds `holodeck` in the profile that tests use, and says where it is.
pub(crate) fn build(metadata: &Metadata) -> Result<PathBuf> {
    host::run(&mut host::cargo([
        "build",
        "--quiet",
        "--locked",
        "-p",
        "holodeck-cli",
    ]))?;
    Ok(metadata.target_directory().join("debug/holodeck"))
}
