//! The schema in the YAML language server, which editors use: descriptions, examples, completion and mistakes.

use anyhow::Result;

use crate::served::{Profile, build};
use crate::{host, smoke, workspace};

/// Opens agent files in the server as an editor does; a field without a description or an example fails.
pub(super) fn check() -> Result<()> {
    let holodeck = build(Profile::Dev)?;
    let server = smoke::yaml_server()?;
    let scratch = tempfile::Builder::new().prefix("holodeck-editor-").tempdir()?;
    let schema = scratch.path().join("agent.schema.json");
    std::fs::write(&schema, host::output(host::command(holodeck).arg("schema"))?)?;
    let mut node = host::command("node");
    node.arg(workspace::root().join("fixtures/editor/check.mjs"))
        .arg(server)
        .arg(schema)
        .arg(scratch.path());
    host::run(&mut node)
}
