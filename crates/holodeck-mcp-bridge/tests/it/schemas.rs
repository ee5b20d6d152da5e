//! Tests that every tool of a server has a schema that model endpoints accept.

use holodeck_backend_api::ToolSource as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::faults::scripted;
use crate::setup::{connect, options};

#[tokio::test]
async fn schemas_of_every_serialiser_become_complete() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("schemas", folder.path(), ""), &options(folder.path())).await;
    let found: Vec<Value> = server
        .tools()
        .iter()
        .map(|tool| tool.spec().parameters.clone())
        .collect();
    let (empty, array) = (
        json!({"type": "object", "properties": {}}),
        json!({"type": "array", "items": {}}),
    );
    let expected = [
        empty.clone(),
        empty.clone(),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        json!({"type": "object", "properties": {"tags": array, "deep": {"type": "array", "items": array}}}),
        empty.clone(),
        json!({"type": "object", "properties": {"a": {}},
            "$defs": {"in": {"type": "object", "properties": {"a": {}}}}}),
        empty,
    ];
    assert_eq!(found, expected);
}
