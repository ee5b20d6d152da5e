//! `holodeck index`, and how a test builds and uses an index.

use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::project::{Project, assert_output, correct_server};

const AGENT: &str = "name: shop\n\
    model: {provider: openai, name: test-model, endpoint: \"http://127.0.0.1:9\", temperature: 0, max_tokens: 9}\n\
    embedding_provider: {provider: hash}\n\
    instructions: {inline: Look it up.}\n\
    tools:\n";

pub(crate) const DOCS: &str =
    "  - {type: vectorstore, name: docs, description: Articles., source: docs/, top_k: 2}\n";

const LAW: &str = "  - {type: hierarchical_document, name: law, description: Terms., source: terms.md,\n     \
                   contextual_embeddings: false, top_k: 1}\n";

pub(crate) fn shop(tools: &str) -> Project {
    let project = Project::with(&format!("{AGENT}{tools}"));
    project.write(
        "docs/refunds.md",
        "# Refunds\n\nA refund can be asked for within 30 days of delivery.\n",
    );
    project.write(
        "docs/shipping.md",
        "# Shipping\n\nExpress shipping costs 12 euros.\n",
    );
    project.write("docs/more/hours.txt", "The chat is open from Monday to Friday.\n");
    project.write(
        "terms.md",
        "# Terms\n\n## 4 Termination\n\n4.1 It runs for a year.\n\n4.2 The notice period is 60 days.\n",
    );
    project
}

fn indexes(ran: &Value) -> Vec<Value> {
    ran["indexes"].as_array().unwrap().clone()
}

#[test]
fn an_index_is_built_once_and_then_only_what_changed() {
    let project = shop(DOCS);
    assert_output!(project.run(&["index", "status"]).exits(1));
    assert!(!project.path(".holodeck").exists(), "status creates no files");
    assert_output!(project.run(&["index", "build"]).exits(0));
    assert_output!(project.run(&["index", "status"]).exits(0));

    project.write(
        "docs/refunds.md",
        "# Refunds\n\nA refund can be asked for within 14 days.\n",
    );
    project.write("docs/gifts.md", "# Gifts\n\nGift cards are not refunded.\n");
    std::fs::remove_file(project.path("docs/more/hours.txt")).unwrap();
    let status = project.run(&["index", "status", "--json"]).exits(1).json();
    let [status] = &indexes(&status)[..] else { panic!() };
    assert_eq!(status["state"], "stale");
    assert_eq!(
        (&status["added"], &status["changed"], &status["removed"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let built = project.run(&["index", "build", "--json"]).exits(0).json();
    let [built] = &indexes(&built)[..] else { panic!() };
    assert_eq!(
        (
            &built["added"],
            &built["changed"],
            &built["removed"],
            &built["sources"]
        ),
        (&json!(1), &json!(1), &json!(1), &json!(3))
    );
    let again = project.run(&["index", "build", "--json"]).exits(0);
    assert!(again.stderr.is_empty(), "{}", again.all());
    assert_eq!(indexes(&again.json())[0]["changed"], 0);
    let rebuilt = project
        .run(&["index", "build", "--force", "--json"])
        .exits(0)
        .json();
    assert_eq!(indexes(&rebuilt)[0]["sources"], 3);
}

#[test]
fn a_search_shows_what_the_agent_would_see() {
    let project = shop(&format!("{DOCS}{LAW}"));
    let found = project
        .run(&[
            "index",
            "search",
            "how many days for a refund",
            "--tool",
            "docs",
            "--json",
        ])
        .exits(0);
    let found = found.json();
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["query", "mode", "search_ms", "hits"]);
    assert_eq!(found["query"], "how many days for a refund");
    assert_eq!(found["mode"], "semantic");
    assert!(found["search_ms"].is_number());
    let hits = found["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 2);
    let keys: Vec<&String> = hits[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["score", "text", "source", "id", "metadata"]);
    assert_eq!(hits[0]["source"], "docs/refunds.md");
    assert!(
        hits[0]["text"].as_str().unwrap().contains("30 days"),
        "{}",
        hits[0]
    );
    assert!(hits[0]["score"].as_f64() >= hits[1]["score"].as_f64());

    // An edited file is found immediately.
    project.write(
        "docs/refunds.md",
        "# Refunds\n\nA refund can be asked for within 14 days of delivery.\n",
    );
    let ran = project.run(&[
        "index",
        "search",
        "days for a refund",
        "--tool",
        "docs",
        "-n",
        "1",
    ]);
    let ran = ran.exits(0).says("14 days").says("docs/refunds.md");
    assert!(!ran.all().contains("30 days"), "{}", ran.all());

    let ran = project.run(&[
        "index",
        "search",
        "what does section 4.2 say",
        "--tool",
        "law",
        "--json",
    ]);
    let found = ran.exits(0).json();
    assert_eq!(found["mode"], "hybrid");
    assert!(
        found["hits"][0]["text"].as_str().unwrap().contains("60 days"),
        "{found}"
    );
}

#[test]
fn wrong_arguments_are_2() {
    let project = shop(&format!("{DOCS}{LAW}"));
    project
        .run(&["index", "search", "refund"])
        .exits(2)
        .says("--tool")
        .says("`docs`")
        .says("`law`");
    project.run(&["index", "search", " "]).exits(2).says("empty");
    project
        .run(&["index", "build", "--tool", "dosc"])
        .exits(2)
        .says("`docs`");
    project.run(&["index", "migrate"]).exits(2);
    project
        .run(&["index", "migrate", "--tool", "docs", "--to", "nowhere"])
        .exits(2)
        .says("nowhere");
    let without = Project::with(&format!(
        "{AGENT}  - {{type: function, name: f, description: d, command: cat}}\n"
    ));
    without.run(&["index", "status"]).exits(2).says("no search tool");
}

#[test]
fn another_embedder_is_not_mixed_in() {
    let project = shop(DOCS);
    project.run(&["index", "build"]).exits(0);
    let other = project
        .read("agent.yaml")
        .replace("top_k: 2", "top_k: 2, embedding_dimensions: 64");
    project.write("agent.yaml", other);
    assert_output!(project.run(&["index", "status"]).exits(1));
    assert_output!(project.run(&["index", "build"]).exits(2));
    project.run(&["index", "build", "--force"]).exits(0);
    project
        .run(&["index", "search", "refund"])
        .exits(0)
        .says("docs/refunds.md");
}

#[test]
fn a_missing_source_is_reported() {
    let project = Project::with(&format!("{AGENT}{DOCS}"));
    project.run(&["index", "build"]).exits(2).says("docs/");
}

#[test]
fn doctor_reports_which_indexes_are_ready() {
    let project = shop(DOCS);
    let index_check = |code| {
        let ran = project.run(&["doctor", "--json"]).exits(code).json();
        let checks = ran["checks"].as_array().unwrap().clone();
        checks
            .into_iter()
            .find(|check| check["subject"] == "index `docs`")
            .unwrap()
    };
    let before = index_check(1);
    assert_eq!(before["state"], "warning", "{before}");
    project.run(&["index", "build"]).exits(0);
    let after = index_check(1);
    assert_eq!(after["state"], "ok", "{after}");
    assert!(after["found"].as_str().unwrap().contains("3 sources"), "{after}");
}

#[test]
fn a_test_builds_what_it_needs_first() {
    let server = correct_server();
    let yaml = format!(
        "{}test_cases:\n  - {{input: \"The capital of France?\", ground_truth: Paris}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n",
        AGENT.replace("http://127.0.0.1:9", &server.url()) + DOCS
    );
    let project = shop(DOCS);
    project.write("agent.yaml", yaml);
    let first = project.run(&["test"]).exits(0);
    assert!(
        first.stderr.contains("indexed `docs`: 3 sources"),
        "{}",
        first.all()
    );
    let second = project.run(&["test"]).exits(0);
    assert!(!second.stderr.contains("index"), "{}", second.all());
    let forced = project.run(&["test", "--force-ingest"]).exits(0);
    assert!(
        forced.stderr.contains("indexed `docs`: 3 sources"),
        "{}",
        forced.all()
    );
    let tools: Vec<Value> = server
        .finish()
        .iter()
        .map(|request| request.body["tools"].clone())
        .collect();
    assert_eq!(tools[0][0]["function"]["name"], "docs_search");
    assert_eq!(tools[0], tools[2]);
}

#[test]
fn records_are_searched_by_their_fields() {
    let tool = "  - {type: vectorstore, name: faq, description: Answers., source: faq.json, top_k: 1, id_field: id,\n     \
                vector_field: [question, answer], meta_fields: [area], record_path: data.items}\n";
    let project = Project::with(&format!("{AGENT}{tool}"));
    let items = json!([
        {"id": 7, "area": "billing", "question": "How do I cancel?", "answer": "Under Settings > Billing."},
        {"id": 8, "area": "account", "question": "How do I reset my password?", "answer": "Press Forgot Password."},
    ]);
    project.write("faq.json", json!({"data": {"items": items}}).to_string());
    let found = project
        .run(&["index", "search", "reset the password", "--json"])
        .exits(0)
        .json();
    let hit = &found["hits"][0];
    assert!(
        hit["text"].as_str().unwrap().contains("Forgot Password"),
        "{found}"
    );
    assert_eq!(
        (&hit["source"], &hit["metadata"]["area"]),
        (&json!("faq.json"), &json!("account"))
    );
    project.write("faq.json", "[{\"id\": 1}");
    project.run(&["index", "build"]).exits(3).says("faq.json");
}

#[test]
fn an_index_is_copied_without_embedding_it_again() {
    let project = shop(DOCS);
    project.write(
        "config.yaml",
        "vectorstores:\n  archive: {provider: in-memory, connection_string: archive}\n",
    );
    project
        .run(&["index", "migrate", "--to", "archive"])
        .exits(2)
        .says("no index");
    project.run(&["index", "build"]).exits(0);
    project
        .run(&["index", "migrate", "--to", "in-memory"])
        .exits(2)
        .says("already");
    let migration = project
        .run(&["index", "migrate", "--to", "archive", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&migration["sources"], &migration["passages"]),
        (&json!(3), &json!(3))
    );
    project
        .run(&["index", "migrate", "--to", "archive"])
        .exits(0)
        .says("3 passages copied");
    // The copy is the tool's index now, and up to date.
    let agent = project
        .read("agent.yaml")
        .replace("top_k: 2", "top_k: 2, database: archive");
    project.write("agent.yaml", agent);
    project
        .run(&["index", "status"])
        .exits(0)
        .says("archive/shop/docs.db");
}

#[test]
fn the_model_writes_the_context_of_each_passage_once() {
    let server = ModelServer::answering(|request| {
        assert!(request.body["tools"].is_null(), "{}", request.body);
        let asked = *request.texts("user").last().unwrap();
        Reply::text(if asked.contains("Friday") {
            "On leaving."
        } else {
            "On the rest."
        })
    });
    let tool = "  - {type: hierarchical_document, name: law, description: Terms., source: docs, context_max_tokens: 60}\n";
    let project = shop("");
    let agent = format!("{AGENT}{tool}").replace("http://127.0.0.1:9", &server.url());
    project.write("agent.yaml", agent);
    let built = project.run(&["index", "build", "--json"]).exits(0).json();
    assert_eq!(built["indexes"][0]["passages"], 3, "{built}");
    // The search uses the context but does not return it.
    let search = ["index", "search", "leaving", "-n", "1", "--json"];
    let found = project.run(&search).exits(0).json();
    let text = found["hits"][0]["text"].as_str().unwrap();
    assert!(text.contains("Friday") && !text.contains("leaving"), "{found}");
    project.run(&["index", "build", "--force"]).exits(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 3, "contexts are cached");
    assert_eq!(requests[0].body["max_tokens"], 60);
}
