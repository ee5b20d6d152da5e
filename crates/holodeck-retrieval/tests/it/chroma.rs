//! Chroma: recorded answers of the real server, replayed; with `cargo xtask soak chroma`, the real server.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::{FutureExt as _, TryStreamExt as _};
use holodeck_http::{CallOptions, Headers, HttpClient, HttpError, HttpOptions, HttpUrl};
use holodeck_model::{DatabaseConfig, DatabaseProvider};
use holodeck_retrieval::{ChromaStore, Filter, VectorStore};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use self::server::Server;
use crate::api::{Answer, Api, Call};
use crate::conformance::data::{entry, ids, info, put, random, state, with_metadata};
use crate::conformance::{KEYWORDS, Place, Promise, READING, SEARCHING, WRITING, check};

mod server;

fn store(url: &str, options: Value, collection: &str) -> ChromaStore {
    let Value::Object(options) = options else {
        panic!("options are an object")
    };
    let config = DatabaseConfig {
        provider: DatabaseProvider::Chromadb,
        connection_string: Some(url.into()),
        options,
    };
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    ChromaStore::new(&config, collection, &client).unwrap()
}

struct Collections(String);

#[async_trait]
impl Place for Collections {
    async fn open(&self, name: &str) -> Arc<dyn VectorStore> {
        Arc::new(store(&self.0, json!({"ef_search": 2000}), name))
    }

    fn missing_promises(&self) -> &'static [Promise] {
        &[Promise::Atomic]
    }
}

#[tokio::test]
#[ignore = "the server is large; `cargo xtask soak chroma` installs and runs it"]
async fn the_real_server_conforms() {
    let server = Server::start();
    for checks in [READING, WRITING, SEARCHING, KEYWORDS] {
        check(&Collections(server.url()), checks).await;
    }
}

#[tokio::test]
#[ignore = "the server is large; `cargo xtask soak chroma` installs and runs it"]
async fn an_index_moves_to_the_real_server_and_back() {
    let server = Server::start();
    let there = store(&server.url(), json!({}), "moved");
    crate::migrate::there_and_back(&there).await;
}

/// Sends every kind of request once.
async fn use_all(store: &ChromaStore) {
    assert_eq!(store.info().await.unwrap(), None);
    store.prepare(&info(3)).await.unwrap();
    let mut entries = random("a.md", 3, 3, 1);
    entries[1] = with_metadata(
        entry("one", "a.md", &[0.1, 0.2, 0.3]),
        json!({"page": 3.0, "headings": ["A", "B"], "none": null}),
    );
    put(store, "a.md", &entries).await;
    let others = random("b.md", 2, 3, 2);
    store
        .replace_many(&[
            (state("b.md", &others), others.clone()),
            (state("c.md", &[]), Vec::new()),
        ])
        .await
        .unwrap();
    let filter = |field: &str, wanted: Value| Filter {
        equal: vec![(field.to_owned(), wanted)],
    };
    let query = [0.1, 0.2, 0.3];
    let found = store.nearest(&query, 9, &Filter::default()).await.unwrap();
    assert_eq!((found.len(), ids(&found)[0]), (5, "one"));
    assert!((found[0].score - 1.0).abs() < 1e-5);
    let found = store.nearest(&query, 9, &filter("page", json!(3))).await.unwrap();
    assert_eq!(found[0].passage, entries[1].passage);
    let both = Filter {
        equal: vec![
            ("source".to_owned(), json!("a.md")),
            ("headings".to_owned(), json!(["A"])),
        ],
    };
    assert_eq!(store.nearest(&query, 9, &both).await.unwrap(), []);
    let all: Vec<_> = store.entries().try_collect().await.unwrap();
    let expected = [
        (state("a.md", &entries), entries),
        (state("b.md", &others), others),
        (state("c.md", &[]), Vec::new()),
    ];
    assert_eq!(all, expected);
    store.remove(&["b.md".to_owned()]).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.sources, stats.passages), (2, 3));
    store.prepare(&info(2)).await.unwrap_err();
    store
        .nearest(&[1.0, 0.0], 3, &Filter::default())
        .await
        .unwrap_err();
    store.clear().await.unwrap();
    assert_eq!(store.info().await.unwrap(), None);
}

const RECORDED: &str = include_str!("chroma/recorded.json");

#[tokio::test]
async fn recorded_answers_are_understood() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 20);
    let left = Arc::new(Mutex::new(recorded.into_iter()));
    let api = Api::serve({
        let left = Arc::clone(&left);
        Arc::new(move |call: Call| {
            let next = left
                .lock()
                .unwrap()
                .next()
                .expect("one request more than was recorded");
            let answer = match (next["request"] == request_of(&call)).then_some(()) {
                Some(()) => (
                    u16::try_from(next["status"].as_u64().unwrap()).unwrap(),
                    next["answer"].clone(),
                ),
                // A status that is not retried.
                None => (
                    400,
                    json!({"error": "another request was recorded", "message": next["request"]}),
                ),
            };
            async move { answer }.boxed()
        })
    })
    .await;
    use_all(&store(&api.url(), json!({}), "recorded")).await;
    assert_eq!(left.lock().unwrap().len(), 0, "recorded requests were not sent");
}

fn request_of(call: &Call) -> Value {
    json!({"method": call.method, "path": call.path, "body": call.body})
}

#[tokio::test]
#[ignore = "the server is large; `cargo xtask soak chroma` installs and runs it"]
async fn the_real_server_answers_as_recorded() {
    let server = Server::start();
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let api = Api::serve({
        let (recorded, upstream) = (Arc::clone(&recorded), server.url());
        Arc::new(move |call: Call| {
            let (client, upstream, recorded) = (client.clone(), upstream.clone(), Arc::clone(&recorded));
            async move {
                let (status, answer) = pass_on(&client, &upstream, &call).await;
                let exchange = json!({"request": request_of(&call), "status": status, "answer": answer});
                recorded.lock().unwrap().push(exchange);
                (status, answer)
            }
            .boxed()
        })
    })
    .await;
    use_all(&store(&api.url(), json!({}), "recorded")).await;
    let recorded = recorded.lock().unwrap();
    if std::env::var("HOLODECK_RECORD").is_ok() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/chroma/recorded.json");
        let lines: Vec<String> = recorded.iter().map(Value::to_string).collect();
        std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
        return;
    }
    let stored: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    // Ids are new each time; kinds of requests and answers are not.
    let kinds = |exchanges: &[Value]| -> Vec<Value> {
        exchanges
            .iter()
            .map(|exchange| {
                let fields = exchange["answer"].as_object().map(|answer| {
                    let mut fields: Vec<String> = answer.keys().cloned().collect();
                    fields.sort();
                    fields
                });
                json!([
                    exchange["request"]["method"],
                    exchange["request"]["body"],
                    exchange["status"],
                    fields
                ])
            })
            .collect()
    };
    assert_eq!(kinds(&recorded), kinds(&stored));
}

async fn pass_on(client: &HttpClient, upstream: &str, call: &Call) -> Answer {
    let url = HttpUrl::parse(&format!("{upstream}{}", call.path)).unwrap();
    let mut headers = Headers::new();
    headers.insert("content-type", "application/json").unwrap();
    let options = CallOptions {
        retry: holodeck_http::RetryPolicy::none(),
        ..CallOptions::default()
    };
    let body = serde_json::to_vec(&call.body).unwrap();
    let answer = match call.method.as_str() {
        "GET" => client.get(&url, &headers, &options).await,
        "DELETE" => client.delete(&url, &headers, &options).await,
        _ => client.post_bytes(&url, &headers, body.into(), &options).await,
    };
    match answer {
        Ok(response) => (response.status(), response.json().await.unwrap()),
        Err(HttpError::Status { status, body, .. }) => (status, serde_json::from_str(&body).unwrap()),
        Err(error) => panic!("{error}"),
    }
}
