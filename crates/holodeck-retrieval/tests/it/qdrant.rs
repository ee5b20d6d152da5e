//! Qdrant as its published OpenAPI describes it: a scripted server that rejects everything else.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{DatabaseConfig, DatabaseProvider};
use holodeck_retrieval::{Filter, QdrantStore, RetrievalError, VectorStore};
use holodeck_testkit::QdrantServer;
use serde_json::{Value, json};

use crate::conformance::data::{info, put, random};
use crate::conformance::{Checks, KEYWORDS, Place, Promise, READING, SEARCHING, WRITING, check};

const KEY: &str = "a secret key";

fn store(url: &str, options: Value, collection: &str) -> QdrantStore {
    let Value::Object(options) = options else {
        panic!("options are an object")
    };
    let config = DatabaseConfig {
        provider: DatabaseProvider::Qdrant,
        connection_string: Some(url.into()),
        options,
    };
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    QdrantStore::new(&config, collection, &client).unwrap()
}

struct Collections(String);

#[async_trait]
impl Place for Collections {
    async fn open(&self, name: &str) -> Arc<dyn VectorStore> {
        Arc::new(store(&self.0, json!({"api_key": KEY}), name))
    }

    fn missing_promises(&self) -> &'static [Promise] {
        &[Promise::Atomic, Promise::Stems]
    }
}

async fn conforms(checks: Checks) {
    let server = QdrantServer::start(KEY);
    check(&Collections(server.url()), checks).await;
    server.finish();
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

#[tokio::test]
async fn a_killed_writer_leaves_a_source_out_of_date() {
    let server = QdrantServer::start(KEY);
    let store = store(&server.url(), json!({"api_key": KEY}), "kb1");
    store.prepare(&info(3)).await.unwrap();
    put(&store, "a", &random("a", 600, 3, 1)).await;
    put(&store, "b", &random("b", 2, 3, 1)).await;
    // Only the first few requests of a replacement get through.
    for allowed in 0..5 {
        let entries = random("a", 600, 3, 2);
        let state = crate::conformance::data::state("a", &entries);
        server.fail_after(allowed + 1);
        let error = store.replace(&state, &entries).await.unwrap_err();
        assert!(matches!(error, RetrievalError::Store { .. }), "{error:?}");
        server.work_again();
        let sources = store.sources().await.unwrap();
        let a = sources.iter().find(|state| state.source == "a").unwrap();
        // Before the first change it is unchanged; after it, no reader treats it as complete.
        let untouched = allowed == 0 && a.passages == 600;
        assert!(untouched || a.hash.is_empty(), "{allowed}: {a:?}");
        store.replace(&state, &entries).await.unwrap();
        assert_eq!(store.stats().await.unwrap().passages, 602);
        let found = store
            .nearest(&entries[3].vector, 1, &Filter::default())
            .await
            .unwrap();
        assert_eq!(found[0].passage.id, entries[3].passage.id);
    }
}

#[tokio::test]
async fn errors_name_the_remedy() {
    let server = QdrantServer::start(KEY);
    let failure = async |url: String, options: Value| {
        let error = store(&url, options, "kb1")
            .prepare(&info(3))
            .await
            .unwrap_err()
            .to_string();
        assert!(!error.contains("secret") && !error.contains("hush"), "{error}");
        error.replace(&server.url(), "URL")
    };
    server.add_foreign("theirs");
    let mistakes = [
        failure(server.url(), json!({})).await,
        failure(server.url(), json!({"api_key": "hush"})).await,
        failure(server.url(), json!({"api_key": KEY, "collection_name": "theirs"})).await,
        failure("http://127.0.0.1:1".to_owned(), json!({"api_key": KEY})).await,
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}
