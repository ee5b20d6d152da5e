//! The importer beside the tool that it imports from: the same configurations on the same scripted model.

#[cfg(test)]
mod features;

use anyhow::Result;

use crate::served::{Profile, build};
use crate::{host, smoke, workspace};

/// Runs every configuration of the fixtures with promptfoo and, imported, with `holodeck`; a verdict that differs and that
/// the import did not name fails.
pub(super) fn check() -> Result<()> {
    let holodeck = build(Profile::Dev)?;
    let promptfoo = smoke::promptfoo()?;
    let scratch = tempfile::Builder::new().prefix("holodeck-import-").tempdir()?;
    let mut node = host::command("node");
    node.arg(workspace::root().join("fixtures/import/compare.mjs"))
        .arg(promptfoo)
        .arg(holodeck)
        .arg(scratch.path());
    host::run(&mut node)
}
