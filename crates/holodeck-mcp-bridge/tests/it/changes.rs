//! Tests that tools which a call adds are known when the call returns.

use holodeck_backend_api::ToolSource as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::faults::scripted;
use crate::setup::{connect, names, options, text};

#[tokio::test]
async fn a_call_that_changes_the_tools_returns_when_we_know_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("fine", folder.path(), ""), &options(folder.path())).await;
    let before = server.revision();
    assert!(!names(&server).contains(&"mcp__odd__grown".to_owned()));
    text(&server, "mcp__odd__grow", json!({})).await;
    assert_ne!(server.revision(), before);
    assert_eq!(
        text(&server, "mcp__odd__grown", json!({})).await,
        "grown at start 0"
    );
}
