//! Tests of a file that is opened only to be read.

use std::{fs, path::Path};

use holodeck_events::{EventStore as _, SqliteOptions, SqliteStore, StoreError};
use pretty_assertions::assert_eq;
use rusqlite::Connection;

use crate::{
    backend_events::{answered, text},
    contract::{Subject, session_run},
};

/// The files in a folder, each with its bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_writes_is_read_and_nothing_is_written() {
    let subject = Subject::sqlite().await;
    let writing = subject.open_file().await;
    let reading = SqliteStore::open_to_read(&subject.path).await.unwrap().unwrap();
    assert_eq!(reading.sessions(None).await.unwrap(), []);
    let delivered = subject.record(session_run("s"), answered([text("done")])).await;
    assert_eq!(reading.read_after("s", None).await.unwrap(), delivered);
    assert!(reading.delete_session("s", true).await.is_err());
    assert!(reading.recover().await.is_err());
    assert_eq!(writing.sessions(None).await.unwrap().len(), 1);
    writing.delete_session("s", false).await.unwrap();
    assert_eq!(reading.session("s").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_run_is_orphaned_only_without_its_process_and_is_not_ended() {
    let subject = Subject::sqlite().await;
    let writing = subject.open_file().await;
    let (_, first) = subject.draft(session_run("s"));
    let first = writing.open_run(first).await.unwrap();
    let run = first.event().meta.run_id.clone().unwrap();
    let reading = SqliteStore::open_to_read(&subject.path).await.unwrap().unwrap();
    assert!(!reading.is_orphaned(&run).await.unwrap());
    assert!(!reading.is_orphaned("unknown").await.unwrap());
    writing.close().await.unwrap();
    assert!(reading.is_orphaned(&run).await.unwrap());
    let session = reading.session("s").await.unwrap().unwrap();
    assert_eq!(session.open_run, Some(run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_missing_empty_old_new_or_damaged_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let open = || SqliteStore::open_to_read(&path);
    assert!(open().await.unwrap().is_none());
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    assert!(open().await.unwrap().is_none());
    assert_eq!(fs::read(&path).unwrap(), b"");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await.unwrap();
    store.close().await.unwrap();
    assert!(open().await.unwrap().is_some());
    for (version, is_newer) in [(1, false), (1_000, true)] {
        let tables = Connection::open(&path).unwrap();
        tables.pragma_update(None, "user_version", version).unwrap();
        drop(tables);
        let before = files(folder.path());
        let error = open().await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), is_newer, "{error}");
        assert_eq!(matches!(error, StoreError::Older { .. }), !is_newer, "{error}");
        assert_eq!(files(folder.path()), before);
    }
    fs::write(&path, "x".repeat(4_096)).unwrap();
    let error = open().await.unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), "x".repeat(4_096).as_bytes());
}
