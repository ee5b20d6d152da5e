//! A killed writer leaves a consistent index.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures::TryStreamExt as _;
use holodeck_retrieval::{
    EmbeddedStore, Embedder as _, Entry, Filter, HashEmbedder, IndexInfo, KeywordSearch as _, Passage,
    SourceState, VectorStore as _,
};

const FILE: &str = "index.db";
const SOURCES: usize = 7;
const KILLS: usize = 25;

fn embedder() -> HashEmbedder {
    HashEmbedder::new(32)
}

fn info() -> IndexInfo {
    IndexInfo {
        embedder: embedder().id().clone(),
        dimensions: 32,
        chunker: "plain".to_owned(),
    }
}

/// Every passage names its version; each version has another number of passages.
fn source(number: usize, version: usize) -> (SourceState, Vec<Entry>) {
    let name = format!("s{number}");
    let passages = 1 + (version * 7 + number) % 23;
    let entries = (0..passages).map(|at| {
        let text = format!("version{version} of source{number}, passage {at}");
        let vector = embedder().vector(&text);
        let passage = Passage {
            id: format!("{name}#{at}"),
            source: name.clone(),
            text,
            context: None,
            metadata: serde_json::Map::new(),
        };
        Entry { passage, vector }
    });
    let entries = entries.collect();
    (
        SourceState {
            source: name.clone(),
            hash: version.to_string(),
            passages,
        },
        entries,
    )
}

/// The process that the test below kills: writes without end and reports each commit.
#[tokio::test]
#[ignore = "runs until it is killed"]
async fn write_without_end() {
    let store = EmbeddedStore::open(FILE).await.unwrap();
    store.prepare(&info()).await.unwrap();
    let sources = store.sources().await.unwrap();
    let done = sources
        .iter()
        .filter_map(|source| source.hash.parse().ok())
        .max()
        .unwrap_or(0);
    for version in done + 1.. {
        let batch: Vec<_> = (0..SOURCES).map(|number| source(number, version)).collect();
        if version % 3 == 0 {
            store.remove(&["s1".to_owned(), "s4".to_owned()]).await.unwrap();
        }
        store.replace_many(&batch).await.unwrap();
        println!("commit {version}");
        std::io::stdout().flush().unwrap();
    }
}

#[tokio::test]
async fn a_killed_writer_leaves_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut least = 0;
    for kill in 0..KILLS {
        #[expect(clippy::disallowed_methods, reason = "this very program, to be killed")]
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::write_without_end", "--exact", "--ignored", "--nocapture"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let commits = lines.filter_map(|line| line.split_once("commit ")?.1.parse::<usize>().ok());
        least = commits.take(1 + kill % 4).last().unwrap();
        // Readers are unaffected by the writer's progress.
        for _ in 0..kill % 5 {
            check(&path, least).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        check(&path, least).await;
    }
    assert!(least >= KILLS, "the last commit was {least}");
    let database = rusqlite::Connection::open(&path).unwrap();
    let whole: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(whole, "ok");
    database
        .execute_batch("INSERT INTO words(words) VALUES ('integrity-check')")
        .unwrap();
}

/// Every source is complete, in a committed version, and only that version is found.
async fn check(path: &Path, least: usize) {
    let store = EmbeddedStore::open(path).await.unwrap();
    assert_eq!(store.info().await.unwrap(), Some(info()));
    let all: Vec<(SourceState, Vec<Entry>)> = store.entries().try_collect().await.unwrap();
    assert!(all.len() >= SOURCES - 2, "only two are ever taken out");
    for (state, entries) in &all {
        let (number, version) = (state.source[1..].parse().unwrap(), state.hash.parse().unwrap());
        assert_eq!((state.clone(), entries.clone()), source(number, version));
        assert!(version >= least, "version {version} after the commit of {least}");
    }
}

/// Search results match the stored entries.
#[tokio::test]
async fn what_is_found_is_what_is_there() {
    let store = EmbeddedStore::in_memory().await.unwrap();
    store.prepare(&info()).await.unwrap();
    for version in 1..9 {
        let batch: Vec<_> = (0..SOURCES).map(|number| source(number, version)).collect();
        store.replace_many(&batch).await.unwrap();
        let there: usize = batch.iter().map(|(state, _)| state.passages).sum();
        let all = Filter::default();
        assert_eq!(
            store
                .ranked(&format!("version{version}"), 999, &all)
                .await
                .unwrap()
                .len(),
            there
        );
        assert_eq!(
            store
                .ranked(&format!("version{}", version - 1), 999, &all)
                .await
                .unwrap()
                .len(),
            0
        );
        let found = store
            .nearest(&embedder().vector("version"), 999, &all)
            .await
            .unwrap();
        assert_eq!(found.len(), there);
        let version = format!("version{version}");
        assert!(
            found
                .iter()
                .all(|scored| scored.passage.text.starts_with(&version))
        );
    }
}
