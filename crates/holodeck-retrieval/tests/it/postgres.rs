//! The real PostgreSQL with pgvector.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use holodeck_model::{DatabaseConfig, DatabaseProvider};
use holodeck_retrieval::{Filter, PostgresStore, RetrievalError, VectorStore};
use holodeck_testkit::PostgresServer;
use serde_json::{Value, json};

use crate::conformance::data::{ids, info, put, random, state, with_text};
use crate::conformance::{Checks, KEYWORDS, Place, READING, SEARCHING, WRITING, check};

mod measured;

pub(crate) fn store(connection: &str, options: Value, collection: &str) -> PostgresStore {
    let Value::Object(options) = options else {
        panic!("options are an object")
    };
    let config = DatabaseConfig {
        provider: DatabaseProvider::Postgres,
        connection_string: Some(connection.into()),
        options,
    };
    PostgresStore::new(&config, collection).unwrap()
}

struct Tables<'s> {
    server: &'s PostgresServer,
    options: Value,
}

#[async_trait]
impl Place for Tables<'_> {
    async fn open(&self, name: &str) -> Arc<dyn VectorStore> {
        Arc::new(store(&self.server.url(), self.options.clone(), name))
    }
}

async fn conforms(checks: Checks, options: Value) {
    let server = PostgresServer::start();
    let place = Tables {
        server: &server,
        options,
    };
    check(&place, checks).await;
}

#[tokio::test]
async fn it_conforms_in_reading() {
    conforms(READING, json!({"schema": "agents of \"us\""})).await;
}

#[tokio::test]
async fn it_conforms_in_writing() {
    conforms(WRITING, json!({})).await;
}

#[tokio::test]
async fn it_conforms_in_searching() {
    conforms(SEARCHING, json!({})).await;
}

#[tokio::test]
async fn it_conforms_in_searching_for_words() {
    conforms(KEYWORDS, json!({})).await;
}

/// A graph over so small an index misses nothing.
#[tokio::test]
async fn it_conforms_with_a_graph() {
    conforms(SEARCHING, json!({"index": "hnsw", "ef_search": 1000})).await;
}

#[tokio::test]
async fn lost_connections_are_reopened() {
    let mut server = PostgresServer::start();
    let store = store(&server.url(), json!({}), "kb");
    store.prepare(&info(3)).await.unwrap();
    put(&store, "a", &random("a", 3, 3, 1)).await;
    let nearest = async || store.nearest(&[1.0, 0.0, 0.0], 9, &Filter::default()).await;
    assert_eq!(nearest().await.unwrap().len(), 3);

    server.end_connections();
    assert_eq!(nearest().await.unwrap().len(), 3);
    put(&store, "b", &random("b", 2, 3, 1)).await;
    assert_eq!(nearest().await.unwrap().len(), 5);

    server.stop();
    let error = nearest().await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
    server.start_again();
    assert_eq!(nearest().await.unwrap().len(), 5);
    put(&store, "b", &random("b", 1, 3, 1)).await;
    assert_eq!(store.stats().await.unwrap().passages, 4);
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_behind() {
    let server = PostgresServer::start();
    let store = store(&server.url(), json!({}), "kb");
    store.prepare(&info(8)).await.unwrap();
    let entries = random("a", 2000, 8, 1);
    let state = state("a", &entries);
    // Wherever the write is dropped, all or nothing is stored, and the next write works.
    for polls in [1, 2, 4, 8, 16, 32] {
        let mut call = Box::pin(store.replace(&state, &entries));
        for _ in 0..polls {
            if futures::poll!(&mut call).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(call);
        let count = store.stats().await.unwrap().passages;
        assert!(count == 0 || count == entries.len(), "{count}");
    }
    store.replace(&state, &entries).await.unwrap();
    assert_eq!(store.stats().await.unwrap().passages, entries.len());
}

#[tokio::test]
async fn errors_name_the_remedy() {
    let server = PostgresServer::start();
    let failure = async |connection: String, options: Value| {
        let store = store(&connection, options, "kb");
        let error = store.prepare(&info(3)).await.unwrap_err().to_string();
        assert!(
            !error.contains("hush") && !error.contains(PostgresServer::PASSWORD),
            "{error}"
        );
        error.replace(&server.port().to_string(), "PORT")
    };
    let url = server.url();
    let other = |user: &str, password: &str, database: &str| {
        let password = password.replace('@', "%40").replace('/', "%2F");
        format!(
            "postgresql://{user}:{password}@127.0.0.1:{}/{database}",
            server.port()
        )
    };
    server.run("CREATE ROLE visitor LOGIN PASSWORD 'hush'; CREATE DATABASE plain");
    server.run("CREATE TABLE public.taken (a int); CREATE EXTENSION vector; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let mistakes = [
        failure(other(PostgresServer::USER, "hush", "postgres"), json!({})).await,
        failure(other("stranger", "hush", "postgres"), json!({})).await,
        failure(
            other(PostgresServer::USER, PostgresServer::PASSWORD, "nowhere"),
            json!({}),
        )
        .await,
        failure(other("visitor", "hush", "plain"), json!({})).await,
        failure(other("visitor", "hush", "postgres"), json!({})).await,
        failure(url.clone(), json!({"table": "taken"})).await,
        failure(url.clone(), json!({"language": "klingon"})).await,
        failure(format!("{url}?sslmode=require"), json!({})).await,
        failure("postgresql://u:hush@127.0.0.1:1/d".to_owned(), json!({})).await,
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}

#[tokio::test]
async fn who_may_only_read_can_search() {
    let server = PostgresServer::start();
    let owner = store(&server.url(), json!({}), "kb");
    owner.prepare(&info(3)).await.unwrap();
    put(&owner, "a", &random("a", 3, 3, 1)).await;
    server.run(
        "CREATE ROLE reader LOGIN PASSWORD 'hush'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    );
    let url = format!("postgresql://reader:hush@127.0.0.1:{}/postgres", server.port());
    let reader = store(&url, json!({}), "kb");
    reader.prepare(&info(3)).await.unwrap();
    assert_eq!(
        reader
            .nearest(&[1.0, 0.0, 0.0], 9, &Filter::default())
            .await
            .unwrap()
            .len(),
        3
    );
    let error = reader.remove(&["a".to_owned()]).await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
}

#[tokio::test]
async fn the_extension_may_lie_in_another_schema() {
    let server = PostgresServer::start();
    server.run("CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions");
    for index in ["exact", "hnsw"] {
        let store = store(&server.url(), json!({"index": index}), index);
        store.prepare(&info(3)).await.unwrap();
        put(&store, "a", &random("a", 3, 3, 1)).await;
        assert_eq!(
            store
                .nearest(&[1.0, 0.0, 0.0], 2, &Filter::default())
                .await
                .unwrap()
                .len(),
            2
        );
    }
}

#[tokio::test]
async fn vectors_too_long_for_a_graph_or_a_page() {
    let server = PostgresServer::start();
    let graph = store(&server.url(), json!({"index": "hnsw"}), "graph");
    let error = graph.prepare(&info(2001)).await.unwrap_err().to_string();
    assert!(error.contains("use `index: exact`"), "{error}");
    let exact = store(&server.url(), json!({}), "exact");
    exact.prepare(&info(3072)).await.unwrap();
    let entries = random("a", 12, 3072, 1);
    put(&exact, "a", &entries).await;
    let found = exact
        .nearest(&entries[7].vector, 1, &Filter::default())
        .await
        .unwrap();
    assert_eq!(ids(&found), [entries[7].passage.id.as_str()]);
}

#[tokio::test]
async fn an_index_can_get_a_graph_and_lose_it() {
    let server = PostgresServer::start();
    let graphs = || server.ask("SELECT count(*) FROM pg_indexes WHERE indexname = 'kb_vectors_hnsw'");
    let exact = store(&server.url(), json!({}), "kb");
    exact.prepare(&info(3)).await.unwrap();
    put(&exact, "a", &random("a", 30, 3, 1)).await;
    assert_eq!(graphs(), "0");
    let graph = store(&server.url(), json!({"index": "hnsw"}), "kb");
    graph.prepare(&info(3)).await.unwrap();
    assert_eq!(graphs(), "1");
    exact.prepare(&info(3)).await.unwrap();
    assert_eq!(graphs(), "0");
    assert_eq!(graph.stats().await.unwrap().passages, 30);
}

#[tokio::test]
async fn the_character_that_postgres_does_not_have() {
    let server = PostgresServer::start();
    let store = store(&server.url(), json!({}), "kb");
    store.prepare(&info(2)).await.unwrap();
    let mut entry = with_text("i\0d", "s\0", "a\0b");
    entry.passage.metadata.insert("k\0".to_owned(), json!(["v\0"]));
    store
        .replace(&state("s\0", std::slice::from_ref(&entry)), &[entry])
        .await
        .unwrap();
    let found: Vec<_> = store.entries().try_collect().await.unwrap();
    let passage = &found[0].1[0].passage;
    assert_eq!(passage.text, "a\u{fffd}b");
    assert_eq!(json!(passage.metadata), json!({"k\u{fffd}": ["v\u{fffd}"]}));
    store.remove(&["s\0".to_owned()]).await.unwrap();
    assert_eq!(store.stats().await.unwrap().sources, 0);
}

#[tokio::test]
async fn one_id_in_two_sources_is_refused() {
    let server = PostgresServer::start();
    let store = store(&server.url(), json!({}), "kb");
    store.prepare(&info(2)).await.unwrap();
    put(&store, "a", &[with_text("same", "a", "one")]).await;
    let second = [with_text("same", "b", "two")];
    let error = store.replace(&state("b", &second), &second).await.unwrap_err();
    assert!(matches!(error, RetrievalError::Store { .. }), "{error:?}");
    assert_eq!(store.stats().await.unwrap().passages, 1);
}
