//! Tests of which stores the YAML files of a folder lead to.

use holodeck_events::SqliteOptions;
use pretty_assertions::assert_eq;

use super::*;

fn agent(name: &str, more: &str) -> String {
    format!("name: {name}\nmodel: {{provider: ollama, name: m}}\ninstructions: {{inline: Answer.}}\n{more}")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// The files and the agents of each store.
fn outline(stores: &[ConversationStore], folder: &Path) -> Vec<(String, Vec<String>)> {
    let below = |path: &Path| path.strip_prefix(folder).unwrap().display().to_string();
    let stores = stores.iter().map(|store| {
        let file = store.file.as_deref().map_or("database".to_owned(), below);
        let agents = store.agents.iter();
        let agents = agents.map(|file| format!("{} in {}", file.agent, below(&file.path)));
        (file, agents.collect())
    });
    stores.collect()
}

#[test]
fn a_store_is_listed_once_with_all_agents_that_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files = [
        write(folder, "a/desk.yaml", &agent("helper", "")),
        write(folder, "a/second.yaml", &agent("desk", "")),
        write(folder, "a/compose.yaml", "services: {}\n"),
        write(folder, "b/own.yaml", &agent("own", "events: {path: own.db}\n")),
        write(
            folder,
            "b/none.yaml",
            &agent("none", "events: {path: missing.db}\n"),
        ),
        write(folder, "c/broken.yaml", "name: [\n"),
        write(folder, "d/without.yaml", &agent("without", "")),
    ];
    for store in ["a/.holodeck/events.db", "b/own.db", "c/.holodeck/events.db"] {
        write(folder, store, "");
    }
    let stores = AgentConversations.stores(&files);
    let text = str::to_owned;
    assert_eq!(
        outline(&stores, folder),
        [
            (
                text("a/.holodeck/events.db"),
                vec![text("helper in a/desk.yaml"), text("desk in a/second.yaml")]
            ),
            (text("b/own.db"), vec![text("own in b/own.yaml")]),
            (text("c/.holodeck/events.db"), vec![]),
        ]
    );
    // What is not there is not created, and an empty file has no conversations.
    assert!(!folder.join("b/missing.db").exists() && !folder.join("d/.holodeck").exists());
    for store in &stores {
        assert_eq!(AgentConversations.list(store, 10).unwrap().len(), 0);
        assert_eq!(fs::read(store.file.as_ref().unwrap()).unwrap(), b"");
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_named_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let postgres = "events: {store: postgres, url_env: CHATS_URL}\n";
    let without = write(folder, "without/agent.yaml", &agent("one", postgres));
    let wrong = write(folder, "wrong/agent.yaml", &agent("two", postgres));
    let url = "postgres://user:hunter2secret@127.0.0.1:9/chats";
    write(folder, "wrong/.env", &format!("CHATS_URL={url}\n"));
    let stores = AgentConversations.stores(&[without, wrong]);
    assert_eq!(stores.len(), 2);
    assert!(!format!("{stores:?}").contains("hunter2"));
    let why = AgentConversations.list(&stores[0], 10).unwrap_err();
    assert!(why.contains("`CHATS_URL` has no URL"), "{why}");
    let why = AgentConversations.list(&stores[1], 10).unwrap_err();
    assert!(!why.contains("hunter2"), "{why}");
}

#[test]
fn a_damaged_or_newer_store_says_so_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "agent.yaml", &agent("helper", ""));
    let damaged = write(folder.path(), ".holodeck/events.db", &"x".repeat(5_000));
    let stores = AgentConversations.stores(std::slice::from_ref(&file));
    let why = AgentConversations.list(&stores[0], 10).unwrap_err();
    assert!(
        why.contains("is damaged") && !why.contains("could not be stored"),
        "{why}"
    );
    let why = AgentConversations.find(&stores[0], &|_| true).unwrap_err();
    assert!(why.contains("is damaged"), "{why}");
    assert_eq!(fs::read_to_string(&damaged).unwrap(), "x".repeat(5_000));
    fs::remove_file(&damaged).unwrap();
    block_on(async {
        let store = SqliteStore::open(&damaged, SqliteOptions::default())
            .await
            .unwrap();
        store.close().await.unwrap();
        Ok(())
    })
    .unwrap();
    assert_eq!(AgentConversations.read(&stores[0], "unknown").unwrap(), None);
    assert_eq!(AgentConversations.find(&stores[0], &|_| true).unwrap(), None);
}
