//! Every file and folder that an agent file names to be written: the one walk over them.
//!
//! Which files no run overwrites, and which the agent must not touch, are loops over it. It must not open a file.

use std::path::{Path, PathBuf};

use holodeck_model::{
    DatabaseConfig, DatabaseProvider, DatabaseRef, EventStoreKind, ResolvedAgent, ToolConfig,
};
use secrecy::ExposeSecret;

/// A file or folder that a run may write because the YAML names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The field that names it.
    pub(crate) field: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: OutputKind,
}

/// The content of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// A folder for files with names that no other program uses.
    Folder,
    /// Lines of telemetry.
    Telemetry,
    /// The conversations of `chat` and `serve`.
    Conversations,
    /// Vectors and contexts that models computed.
    ModelCache,
    /// The passages of a tool.
    Index,
}

impl Output {
    /// The files beside it that belong to it, such as the log of a database.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let beside: &[&str] = match self.kind {
            OutputKind::Folder | OutputKind::Telemetry => &[],
            OutputKind::Conversations | OutputKind::ModelCache | OutputKind::Index => {
                &["-wal", "-shm", "-journal", "-writers"]
            }
        };
        let named = |more: &&str| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(more);
            PathBuf::from(name)
        };
        std::iter::once(self.path.clone()).chain(beside.iter().map(named).collect::<Vec<_>>())
    }
}

/// Every output of an agent file, in its order.
pub(crate) fn outputs(agent: &ResolvedAgent) -> Vec<Output> {
    let mut outputs = Vec::new();
    let mut add = |field: String, path: PathBuf, kind| outputs.push(Output { field, path, kind });
    let below = |path: &str| agent.resolve(Path::new(path));
    let config = &agent.config;
    for (index, tool) in config.real_tools() {
        let database = match tool {
            ToolConfig::Vectorstore(tool) => tool.database.as_ref(),
            ToolConfig::HierarchicalDocument(tool) => tool.database.as_ref(),
            _ => None,
        };
        let folder = match database {
            Some(DatabaseRef::Config(config)) => index_folder(agent, config),
            _ => None,
        };
        let file = folder.map(|folder| index_file(&folder, agent, tool));
        if let Some(file) = file.filter(|file| !is_in_own_folder(file)) {
            add(format!("tools.{index}.database"), file, OutputKind::Index);
        }
    }
    let cache = &agent.execution.cache_dir.value;
    let field = "execution.cache_dir".to_owned();
    add(field.clone(), cache.clone(), OutputKind::Folder);
    add(field, cache.join("models.db"), OutputKind::ModelCache);
    if let Some(path) = config
        .telemetry
        .as_ref()
        .and_then(|telemetry| telemetry.jsonl.as_ref())
    {
        add("telemetry.jsonl".to_owned(), below(path), OutputKind::Telemetry);
    }
    if let Some(events) = config
        .events
        .as_ref()
        .filter(|events| events.store == EventStoreKind::Sqlite)
    {
        add(
            "events.path".to_owned(),
            below(&events.path),
            OutputKind::Conversations,
        );
    }
    if let Some(attachments) = &config.attachments {
        add(
            "attachments.path".to_owned(),
            below(&attachments.path),
            OutputKind::Folder,
        );
    }
    outputs
}

/// The folder of an embedded index that the YAML names; `None` for a server, and for the usual folder.
pub(crate) fn index_folder(agent: &ResolvedAgent, config: &DatabaseConfig) -> Option<PathBuf> {
    let is_embedded = matches!(
        config.provider,
        DatabaseProvider::InMemory | DatabaseProvider::Faiss
    );
    // The connection string is its folder; `memory://` and the like name none.
    let folder = config.connection_string.as_ref().map(ExposeSecret::expose_secret);
    let folder = folder.filter(|folder| is_embedded && !folder.contains(':'))?;
    Some(agent.dir.join(folder))
}

/// The file of a tool's index in this folder.
pub(crate) fn index_file(folder: &Path, agent: &ResolvedAgent, tool: &ToolConfig) -> PathBuf {
    folder
        .join(slug(&agent.config.name))
        .join(format!("{}.db", tool.name()))
}

/// Whether a file is in a folder that only HoloDeck writes.
pub(crate) fn is_in_own_folder(file: &Path) -> bool {
    file.iter().any(|name| name == ".holodeck")
}

/// Lowercase letters and digits, and a single `-` for anything else.
pub(crate) fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        "agent".to_owned()
    } else {
        words.join("-")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use holodeck_events::{SqliteOptions, SqliteStore};
    use holodeck_model::{DiskFiles, Env, Occasion};
    use holodeck_retrieval::{EmbeddedStore, ModelCache};
    use holodeck_yaml::{LoadedAgent, load_agent};

    use super::*;
    use crate::{agent::targets::check_yaml_targets, protected_files};

    /// An agent whose outputs are all in `out`.
    const AGENT: &str = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\n\
        embedding_provider: {provider: openai, name: e}\n\
        tools:\n- {type: vectorstore, name: docs, description: D., source: docs, database: {provider: in-memory, \
        connection_string: out/index}}\n\
        execution: {cache_dir: out/cache}\ntelemetry: {jsonl: out/lines.jsonl}\nevents: {path: out/events.db}\n\
        attachments: {path: out/files}\n";

    fn agent(folder: &Path) -> LoadedAgent {
        let file = folder.join("agent.yaml");
        fs::create_dir_all(folder.join("docs")).unwrap();
        fs::write(folder.join("docs/a.txt"), "text").unwrap();
        fs::write(&file, AGENT).unwrap();
        let load = load_agent(&file, &Env::empty(), &DiskFiles);
        load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics))
    }

    /// Things in the place of an output that no output of its kind are.
    const FOREIGN: [&str; 9] = [
        "text",
        "unmarked database",
        "cache",
        "index",
        "conversations",
        "agent file",
        "link",
        "folder",
        "pipe",
    ];

    async fn put(what: &str, path: &Path, root: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match what {
            "text" => fs::write(path, "mine\n").unwrap(),
            "unmarked database" => {
                let mut database = b"SQLite format 3\0\x10\x00".to_vec();
                database.resize(8192, 0);
                fs::write(path, database).unwrap();
            }
            "cache" => drop(ModelCache::open(path).await.unwrap()),
            "index" => drop(EmbeddedStore::open(path).await.unwrap()),
            "conversations" => {
                let options = SqliteOptions::default();
                drop(SqliteStore::open(path, options).await.unwrap());
                // It is closed in the background, and then its file is complete.
                let mut log = path.as_os_str().to_owned();
                log.push("-wal");
                while Path::new(&log).exists() {
                    tokio::task::yield_now().await;
                }
            }
            "agent file" => symlink(root.join("agent.yaml"), path).unwrap(),
            "link" => {
                let target = root.join("elsewhere.txt");
                fs::write(&target, "mine\n").unwrap();
                symlink(target, path).unwrap();
            }
            "folder" => fs::create_dir(path).unwrap(),
            _ => {
                #[expect(clippy::disallowed_methods, reason = "a test without an agent")]
                let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            }
        }
    }

    #[tokio::test]
    async fn no_output_that_the_yaml_names_replaces_what_is_there() {
        let all = outputs(&agent(tempfile::tempdir().unwrap().path()));
        let fields: Vec<&str> = all.iter().map(|output| output.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "tools.0.database",
                "execution.cache_dir",
                "execution.cache_dir",
                "telemetry.jsonl",
                "events.path",
                "attachments.path"
            ]
        );
        for index in 0..all.len() {
            for what in FOREIGN {
                let place = tempfile::tempdir().unwrap();
                let agent = agent(place.path());
                let Output { field, path, kind } = outputs(&agent).remove(index);
                put(what, &path, place.path()).await;
                let is_plain = !matches!(what, "folder" | "pipe");
                let before = is_plain.then(|| fs::read(&path).unwrap());
                let refused = check_yaml_targets(&agent, &Env::empty());
                let row = format!("{field} {kind:?} {what}: {refused:?}");
                let is_fine = matches!(
                    (what, kind),
                    ("folder", OutputKind::Folder)
                        | ("cache", OutputKind::ModelCache)
                        | ("index", OutputKind::Index)
                        | ("conversations", OutputKind::Conversations)
                );
                assert_eq!(refused.is_ok(), is_fine, "{row}");
                if let Err(refused) = refused {
                    assert!(refused.message.contains(&field), "{row}");
                    assert!(refused.message.contains(&path.display().to_string()), "{row}");
                }
                assert_eq!(before, is_plain.then(|| fs::read(&path).unwrap()), "{row}");
            }
        }
    }

    #[test]
    fn an_agent_touches_no_output_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let agent = agent(place.path());
        for occasion in [Occasion::Test, Occasion::Run, Occasion::Chat, Occasion::Serve] {
            let protected = protected_files(&agent, &Env::empty(), occasion);
            for output in outputs(&agent) {
                for file in output.files() {
                    assert!(protected.contains(&file), "{occasion:?} {file:?} {protected:?}");
                }
            }
        }
        // The folder of the agent itself is not closed.
        fs::write(&agent.path, AGENT.replace("out/cache", ".")).unwrap();
        let load = load_agent(&agent.path, &Env::empty(), &DiskFiles);
        let protected = protected_files(&load.agent.unwrap(), &Env::empty(), Occasion::Run);
        assert!(!protected.contains(&place.path().to_owned()));
        assert!(protected.contains(&place.path().join("models.db")));
    }

    #[test]
    fn outputs_that_do_not_exist_or_are_empty_are_written() {
        let place = tempfile::tempdir().unwrap();
        let agent = agent(place.path());
        assert_eq!(check_yaml_targets(&agent, &Env::empty()), Ok(()));
        for output in outputs(&agent) {
            if output.kind == OutputKind::Folder {
                fs::create_dir_all(&output.path).unwrap();
            } else {
                fs::create_dir_all(output.path.parent().unwrap()).unwrap();
                fs::write(&output.path, "").unwrap();
            }
        }
        assert_eq!(check_yaml_targets(&agent, &Env::empty()), Ok(()));
    }
}
