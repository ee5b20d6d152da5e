//! Runs the conformance checks of stores on the embedded index.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use holodeck_retrieval::{EmbeddedStore, VectorStore};

use crate::conformance::{Checks, KEYWORDS, Place, READING, SEARCHING, WRITING, check};

struct Folder(PathBuf);

#[async_trait]
impl Place for Folder {
    async fn open(&self, name: &str) -> Arc<dyn VectorStore> {
        Arc::new(
            EmbeddedStore::open(self.0.join(format!("{name}.db")))
                .await
                .unwrap(),
        )
    }
}

async fn conforms(checks: Checks) {
    let folder = tempfile::tempdir().unwrap();
    check(&Folder(folder.path().to_owned()), checks).await;
}

#[tokio::test]
async fn it_conforms_in_reading() {
    conforms(READING).await;
}

#[tokio::test]
async fn it_conforms_in_writing() {
    conforms(WRITING).await;
}

#[tokio::test]
async fn it_conforms_in_searching() {
    conforms(SEARCHING).await;
}

#[tokio::test]
async fn it_conforms_in_searching_for_words() {
    conforms(KEYWORDS).await;
}
