//! Tests of finding and listing conversations over stores that need no files of their own.

use std::{fs, sync::Mutex};

use pretty_assertions::assert_eq;

use super::*;

/// Stores with the conversations that a test gives them.
#[derive(Debug, Default)]
struct Fake {
    stores: Vec<(ConversationStore, Result<Vec<StoredConversation>, String>)>,
    /// The ids that were read.
    read: Mutex<Vec<String>>,
}

fn conversation(session: &str, last_millis: i64) -> StoredConversation {
    StoredConversation {
        session: session.to_owned(),
        first_message: Some(format!("message of {session}")),
        agent: Some("helper".to_owned()),
        last_at: String::new(),
        last_millis,
        messages: 4,
        runs: 2,
        state: TurnState::Over,
    }
}

fn store(key: &str, file: Option<PathBuf>) -> ConversationStore {
    ConversationStore {
        key: key.to_owned(),
        file,
        opened_by: PathBuf::from("agent.yaml"),
        agents: vec![AgentFile::new(PathBuf::from("desk.yaml"), "helper".to_owned())],
    }
}

impl Fake {
    fn of(&self, store: &ConversationStore) -> Result<Vec<StoredConversation>, String> {
        let own = self.stores.iter().find(|(own, _)| own.key == store.key);
        own.unwrap().1.clone()
    }
}

impl Conversations for Fake {
    fn stores(&self, _: &[PathBuf]) -> Vec<ConversationStore> {
        self.stores.iter().map(|(store, _)| store.clone()).collect()
    }

    fn list(&self, store: &ConversationStore, limit: usize) -> Result<Vec<StoredConversation>, String> {
        let mut listed = self.of(store)?;
        listed.truncate(limit);
        Ok(listed)
    }

    fn find(
        &self,
        store: &ConversationStore,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<String>, String> {
        let found = self.of(store)?.into_iter().find(|one| is_wanted(&one.session));
        Ok(found.map(|found| found.session))
    }

    fn read(
        &self,
        store: &ConversationStore,
        session: &str,
    ) -> Result<Option<(StoredConversation, Vec<ConversationTurn>)>, String> {
        self.read.lock().unwrap().push(session.to_owned());
        let found = self.of(store)?.into_iter().find(|one| one.session == session);
        Ok(found.map(|found| (found, Vec::new())))
    }
}

fn sessions(listed: &Listed) -> Vec<String> {
    let entries = listed.entries.iter();
    let sessions = entries.map(|entry| match &entry.conversation {
        Ok(about) => about.session.clone(),
        Err(problem) => format!("{}: {problem}", entry.store),
    });
    sessions.collect()
}

fn page(id: &str) -> String {
    format!("/conversation/{id}")
}

#[test]
fn conversations_of_all_stores_are_listed_newest_first_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::new(folder.path(), false).unwrap();
    let many = |name: &str, odd: i64| -> Vec<StoredConversation> {
        let times = (0..120).rev().map(|time| 2 * time + odd);
        times
            .map(|time| conversation(&format!("{name}{time}"), time))
            .collect()
    };
    let fake = Fake {
        stores: vec![
            (store("one", None), Ok(many("a", 0))),
            (store("two", None), Ok(many("b", 1))),
            (store("three", None), Err("it is damaged".to_owned())),
        ],
        ..Fake::default()
    };
    let first = list(&catalogue, &fake, Some(1), &page);
    assert!(first.has_more);
    let shown = sessions(&first);
    assert_eq!(shown.len(), 101);
    assert_eq!(
        shown[..3],
        ["the database of agent.yaml: it is damaged", "b239", "a238"]
    );
    let last = list(&catalogue, &fake, Some(3), &page);
    assert!(!last.has_more);
    assert_eq!(sessions(&last).last().map(String::as_str), Some("a0"));
    assert_eq!(sessions(&last).len(), 40);
    let beyond = list(&catalogue, &fake, Some(1_000_000), &page);
    assert_eq!((sessions(&beyond), beyond.has_more), (Vec::new(), false));
    let all = list(&catalogue, &fake, None, &page);
    assert_eq!((sessions(&all).len(), all.has_more), (241, false));
}

#[test]
fn a_conversation_is_found_by_its_digest_alone() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::new(folder.path(), false).unwrap();
    let hostile = "../../etc/passwd";
    let fake = Fake {
        stores: vec![
            (store("one", None), Ok(vec![conversation(hostile, 1)])),
            // The same id in another store is another conversation.
            (store("two", None), Ok(vec![conversation(hostile, 2)])),
        ],
        ..Fake::default()
    };
    let listed = list(&catalogue, &fake, Some(1), &page);
    let pages: Vec<String> = listed
        .entries
        .iter()
        .map(|entry| entry.page.clone().unwrap())
        .collect();
    assert_ne!(pages[0], pages[1]);
    for (page, entry) in pages.iter().zip(&listed.entries) {
        let id = page.strip_prefix("/conversation/").unwrap();
        assert!(
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
        let found = find(&catalogue, &fake, id).unwrap();
        assert_eq!(Ok(&found.about), entry.conversation.as_ref());
    }
    assert_eq!(*fake.read.lock().unwrap(), [hostile; 2]);
    for id in [hostile, "", "%", &pages[0].replace('/', "")] {
        let why = find(&catalogue, &fake, id).unwrap_err();
        assert!(why.contains("it may have been deleted"), "{why}");
    }
    assert_eq!(fake.read.lock().unwrap().len(), 2);
}

#[test]
fn a_store_outside_of_the_folder_is_named_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir(&below).unwrap();
    let outside = folder.path().join("outside.db");
    fs::write(&outside, "").unwrap();
    let link = below.join("link.db");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let inside = below.join("inside.db");
    fs::write(&inside, "").unwrap();
    let catalogue = Catalogue::new(&below, false).unwrap();
    let fake = Fake {
        stores: [outside, link, inside]
            .into_iter()
            .map(|file| {
                (
                    store(&file.display().to_string(), Some(file)),
                    Ok(vec![conversation("s", 1)]),
                )
            })
            .collect(),
        ..Fake::default()
    };
    let listed = list(&catalogue, &fake, Some(1), &page);
    let shown = sessions(&listed);
    assert_eq!(shown.len(), 3);
    assert!(
        shown[..2]
            .iter()
            .all(|row| row.contains("outside of the folder of this view")),
        "{shown:?}"
    );
    assert_eq!(shown[2], "s");
    assert_eq!(listed.entries[2].store, "inside.db");
    let hidden = id_of(&fake.stores[0].0, "s");
    let why = find(&catalogue, &fake, &hidden).unwrap_err();
    assert!(why.contains("outside of the folder"), "{why}");
    assert_eq!(fake.read.lock().unwrap().len(), 0);
}

#[test]
fn the_file_of_the_agent_is_the_only_one_with_its_name() {
    let found = |files: &[(&str, &str)], agent: Option<&str>| Found {
        about: ListedConversation {
            session: "s".to_owned(),
            first_message: None,
            agent: agent.map(str::to_owned),
            file: None,
            last_at: String::new(),
            messages: 0,
            runs: 0,
            state: TurnState::Over,
        },
        turns: Vec::new(),
        agents: files
            .iter()
            .map(|(path, agent)| AgentFile::new(PathBuf::from(path), (*agent).to_owned()))
            .collect(),
    };
    let two = [("helper.yaml", "desk"), ("desk.yaml", "helper")];
    let one = found(&two, Some("helper"));
    assert_eq!(one.agent_file().unwrap().path, PathBuf::from("desk.yaml"));
    for (files, agent, why) in [
        (&two[..], None, "does not name its agent"),
        (&two[..], Some("other"), "no agent file"),
        (
            &[("a.yaml", "x"), ("b.yaml", "x")][..],
            Some("x"),
            "several files",
        ),
    ] {
        let refused = found(files, agent).agent_file().unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
