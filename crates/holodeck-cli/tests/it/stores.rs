//! Indexes on servers: build, search, test, migrate.

use std::path::Path;

use holodeck_testkit::{ModelServer, PostgresServer, QdrantServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::Project;

/// The key of the scripted Qdrant.
const KEY: &str = "a-key-of-qdrant";

/// An agent that searches `docs/`; its index is on the server `main` if `database` says so.
fn shop(server: &ModelServer, store: &str) -> Project {
    let project = Project::with(&agent(server, ""));
    project.write("config.yaml", format!("vectorstores:\n  main: {store}\n"));
    project.write(
        "docs/refunds.md",
        "# Refunds\n\nA refund can be asked for within 30 days of delivery.\n",
    );
    project.write(
        "docs/shipping.md",
        "# Shipping\n\nExpress shipping costs 12 euros.\n",
    );
    project.write("docs/more/hours.txt", "The chat is open from Monday to Friday.\n");
    project
}

fn agent(server: &ModelServer, database: &str) -> String {
    let url = server.url();
    format!(
        "name: shop\n\
         model: {{provider: openai, name: test-model, endpoint: \"{url}\"}}\n\
         embedding_provider: {{provider: openai, name: small, endpoint: \"{url}\"}}\n\
         instructions: {{inline: Look it up.}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n  \
         - {{input: How many days for a refund?, ground_truth: 30 days, expected_tools: [docs_search]}}\n\
         tools:\n  - {{type: vectorstore, name: docs, description: Rules., source: docs/, top_k: 2{database}}}\n"
    )
}

/// Searches, then answers with the result.
fn search_and_answer(request: &ReceivedRequest) -> Reply {
    match request.texts("tool").last() {
        Some(result) => Reply::text(*result),
        None => Reply::tool_call("call_1", "docs_search", &json!({"query": "days for a refund"})),
    }
}

/// The number of passages embedded so far, without queries and the request that determines the dimensions.
fn embedded(server: &ModelServer) -> usize {
    let requests = server.embedding_requests();
    let texts = requests
        .iter()
        .flat_map(|request| request.body["input"].as_array().unwrap());
    texts.filter(|text| text.as_str().unwrap().contains('.')).count()
}

fn hits(project: &Project) -> Value {
    let ran = project
        .run(&["index", "search", "days for a refund", "--json"])
        .exits(0);
    let hits = ran.json()["hits"].clone();
    // Stores differ in the last digits of the scores.
    let hits = hits.as_array().unwrap().iter().map(|hit| {
        let score = (hit["score"].as_f64().unwrap() * 1e4).round();
        json!([score, hit["source"], hit["text"], hit["metadata"]])
    });
    hits.collect()
}

/// Checks every operation of the program on an index that is on a server.
fn check_every_operation(store: &str, provider: &str) {
    let server = ModelServer::answering(search_and_answer);
    let project = shop(&server, store);

    // First in a file, for comparison.
    project.run(&["index", "build"]).exits(0);
    assert_eq!(embedded(&server), 3);
    let expected = hits(&project);
    assert_eq!(expected[0][1], "docs/refunds.md");

    // The server has the same index, and nothing was embedded for it.
    project
        .run(&["index", "migrate", "--to", "main"])
        .exits(0)
        .says("3 passages copied")
        .says(provider);
    project.write("agent.yaml", agent(&server, ", database: main"));
    std::fs::remove_dir_all(project.path(".holodeck/index")).unwrap();
    let status = project.run(&["index", "status", "--json"]).exits(0).json();
    let status = &status["indexes"][0];
    assert_eq!(
        (&status["state"], &status["passages"]),
        (&json!("ready"), &json!(3)),
        "{status}"
    );
    assert!(
        status["store"].as_str().unwrap().starts_with(provider),
        "{status}"
    );
    assert_eq!(hits(&project), expected);
    assert_eq!(embedded(&server), 3);
    assert!(
        !project.path(".holodeck/index").exists(),
        "no index file is created"
    );

    // Back to a file, again without embedding.
    project
        .run(&["index", "migrate", "--to", "in-memory"])
        .exits(0)
        .says("3 passages copied");
    project.write("agent.yaml", agent(&server, ""));
    project.run(&["index", "status"]).exits(0);
    assert_eq!(hits(&project), expected);
    project.write("agent.yaml", agent(&server, ", database: main"));

    // A test updates the index and searches it.
    edit(&project.path("docs/refunds.md"));
    project.run(&["index", "status"]).exits(1).says("1 changed");
    project.run(&["test"]).exits(1).says("1 failed").says("14 days");
    let run = project.run_file().to_string();
    assert!(
        run.contains(provider) && !run.contains(KEY) && !run.contains("p%40ss"),
        "{run}"
    );
    assert_eq!(embedded(&server), 4);
    let built = project.run(&["index", "build", "--json"]).exits(0).json();
    let built = &built["indexes"][0];
    assert_eq!(
        (&built["changed"], &built["sources"]),
        (&json!(0), &json!(3)),
        "{built}"
    );
    std::fs::remove_file(project.path("docs/shipping.md")).unwrap();
    let built = project.run(&["index", "build", "--json"]).exits(0).json();
    let built = &built["indexes"][0];
    assert_eq!(
        (&built["removed"], &built["passages"]),
        (&json!(1), &json!(2)),
        "{built}"
    );
    project
        .run(&["index", "build", "--force"])
        .exits(0)
        .says("2 sources, 2 passages");
    assert_eq!(embedded(&server), 4 + 2);
    server.finish();
}

fn edit(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replace("30 days", "14 days")).unwrap();
}

#[test]
fn an_index_on_the_real_postgres_is_used() {
    let server = PostgresServer::start();
    check_every_operation(
        &format!("{{provider: postgres, connection_string: \"{}\"}}", server.url()),
        "postgres",
    );
    assert_eq!(
        server.ask("SELECT count(*) FROM pg_extension WHERE extname = 'vector'"),
        "1"
    );
}

#[test]
fn an_index_in_qdrant_is_used() {
    let server = QdrantServer::start(KEY);
    check_every_operation(
        &format!(
            "{{provider: qdrant, connection_string: \"{}\", options: {{api_key: {KEY}}}}}",
            server.url()
        ),
        "qdrant",
    );
    assert!(!server.finish().is_empty());
}

#[test]
fn an_unreachable_store_is_3_and_shows_no_password() {
    let model = ModelServer::answering(search_and_answer);
    for (store, name) in [
        (
            "{provider: postgres, connection_string: \"postgresql://u:hush@127.0.0.1:1/d\"}",
            "postgres",
        ),
        (
            "{provider: qdrant, connection_string: \"http://127.0.0.1:1\", options: {api_key: hush}}",
            "qdrant",
        ),
        (
            "{provider: chromadb, connection_string: \"http://127.0.0.1:1\"}",
            "chromadb",
        ),
    ] {
        let project = shop(&model, store);
        project.write("agent.yaml", agent(&model, ", database: main"));
        for command in [&["index", "build"][..], &["index", "search", "refund"], &["test"]] {
            let ran = project.run(command).exits(3).says(name);
            assert!(!ran.all().contains("hush"), "{}", ran.all());
        }
        project.run(&["index", "status"]).exits(1).says(name);
    }
    model.finish();
}
