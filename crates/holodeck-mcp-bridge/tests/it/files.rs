//! Tests with the reference servers for files and memory, limited as the YAML says.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{call, connect, options, real, text, tool};

#[tokio::test]
async fn the_file_server_reads_what_the_yaml_lets_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("note.txt"), "rye bread").unwrap();
    std::fs::write(folder.path().join("secret.txt"), "hush").unwrap();
    // The second argument is relative to the YAML.
    let yaml = format!(
        "name: files\ncommand: node\nargs: [{:?}, ./data]",
        real("filesystem")
    );
    let server = connect(&tool(&yaml), &options(folder.path())).await;
    let file = |name: &str| json!({ "path": folder.path().join(name) });
    assert_eq!(
        text(&server, "mcp__files__read_text_file", file("data/note.txt")).await,
        "rye bread"
    );
    let refused = call(&server, "mcp__files__read_text_file", file("secret.txt"))
        .await
        .unwrap();
    assert!(refused.is_error, "{refused:?}");
    assert!(refused.text.contains("Access denied"), "{}", refused.text);
}

#[tokio::test]
async fn the_memory_server_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "name: memory\ncommand: node\nargs: [{:?}]\nenv: {{MEMORY_FILE_PATH: {:?}}}",
        real("memory"),
        folder.path().join("memory.jsonl")
    );
    let server = connect(&tool(&yaml), &options(folder.path())).await;
    let entities = json!({ "entities": [
        { "name": "Ada", "entityType": "person", "observations": ["likes rye"] }
    ]});
    text(&server, "mcp__memory__create_entities", entities).await;
    server.close().await;
    let server = connect(&tool(&yaml), &options(folder.path())).await;
    let found = text(&server, "mcp__memory__search_nodes", json!({ "query": "rye" })).await;
    assert!(found.contains("Ada"), "{found}");
}
