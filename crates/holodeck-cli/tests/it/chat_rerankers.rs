//! Search results that a chat model reranks: its key, its calls, its price, and recordings of it.

use std::process::Command;

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, SECRET};

/// The agent answers at `endpoint`; the reranker is at the endpoint of the environment.
fn project(endpoint: &str, model: &str, execution: &str) -> Project {
    let project = Project::with(&format!(
        "name: shop\nmodel: {{provider: openai, name: {model}, endpoint: \"{endpoint}\"}}\n\
         embedding_provider: {{provider: hash}}\ninstructions: {{inline: Look it up.}}\nexecution: {{{execution}}}\n\
         tools:\n  - type: hierarchical_document\n    name: law\n    description: Terms.\n    source: terms.md\n    \
         contextual_embeddings: false\n    enable_reranking: true\n    \
         reranker_model: {{provider: openai, name: ranker}}\n\
         test_cases:\n  - {{name: rent, input: What is the rent?, expected_tools: [law]}}\n"
    ));
    project.write(
        "terms.md",
        "# Terms\n\n## 1 Dogs\n\nThe rent for dogs is 9 euros.\n\n## 2 Pets\n\nWhoever has cats pays nothing.\n",
    );
    project
}

fn with_ranker(project: &Project, server: &ModelServer, args: &[&str]) -> CommandOutput {
    let mut command: Command = project.command(args);
    command.env("OPENAI_BASE_URL", server.url());
    command.env("OPENAI_API_KEY", SECRET);
    CommandOutput::of(&command.output().unwrap())
}

/// Searches once, and then answers.
fn searching(request: &ReceivedRequest) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    if messages.iter().any(|message| message["role"] == "tool") {
        Reply::text("9 euros.")
    } else {
        Reply::tool_call("c1", "law_search", &json!({"query": "rent"}))
    }
}

/// Ranks later passages first.
fn rank(request: &ReceivedRequest) -> Reply {
    let prompt: Value = serde_json::from_str(&request.texts("user").concat()).unwrap();
    let results = (0..prompt["passages"].as_array().unwrap().len())
        .map(|index| json!({"index": index, "relevance_score": index as f64 / 100.0}));
    Reply::text(json!({"results": results.collect::<Vec<_>>()}).to_string())
}

#[test]
fn a_missing_key_is_reported_before_anything_is_asked_or_indexed() {
    let agent = ModelServer::answering(searching);
    let project = project(&agent.url(), "m", "");
    for args in [
        &["test"][..],
        &["test", "--dry-run"],
        &["run", "What is the rent?"],
    ] {
        project
            .run(args)
            .exits(3)
            .says("the reranker `ranker`")
            .says("OPENAI_API_KEY")
            .says("(agent.yaml:13:32)");
    }
    assert!(!project.path(".holodeck/index").exists());
    assert_eq!(agent.finish().len(), 0);
}

#[test]
fn a_mocked_search_needs_no_key() {
    let agent = ModelServer::answering(searching);
    let project = project(&agent.url(), "m", "");
    let yaml = project.read("agent.yaml").replace(
        "    enable_reranking",
        "    mock: [The rent is 9 euros.]\n    enable_reranking",
    );
    project.write("agent.yaml", yaml);
    let plan = project.run(&["test", "--dry-run"]).exits(0);
    assert!(!plan.all().contains("ranker"), "{}", plan.all());
    project.run(&["test"]).exits(0);
    agent.finish();
}

#[test]
fn doctor_names_the_key_of_the_reranker() {
    let agent = ModelServer::answering(searching);
    let project = project(&agent.url(), "m", "");
    let doctor = project.run(&["doctor"]).says("reranker ranker");
    assert!(
        doctor.all().contains("`OPENAI_API_KEY` is not set"),
        "{}",
        doctor.all()
    );
    agent.finish();
}

#[test]
fn a_dry_run_lists_the_calls_that_rerank() {
    let server = ModelServer::answering(rank);
    let project = project("http://127.0.0.1:9", "m", "");
    with_ranker(&project, &server, &["test", "--dry-run"])
        .exits(0)
        .says("each search of `law` asks `ranker` once to rerank; its tokens come in addition\n");
    let plan = with_ranker(&project, &server, &["test", "--dry-run", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        plan["estimate"]["reranked"],
        json!([{"tool": "law", "model": "ranker"}])
    );
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn a_budget_needs_the_price_of_the_reranker() {
    let server = ModelServer::answering(rank);
    // The price of the agent's own model is known.
    let project = project("http://127.0.0.1:9", "gpt-4o", "");
    with_ranker(&project, &server, &["test", "--max-cost-usd", "1"])
        .exits(2)
        .says("cannot enforce `--max-cost-usd`: no price known for `ranker`");
    assert_eq!(server.finish().len(), 0);
}

/// A recorded search has the passages in the order that the model gave them, so that no model is asked again.
#[test]
fn a_recorded_search_is_replayed_with_its_order() {
    let agent = ModelServer::answering(searching);
    let ranker = ModelServer::answering(rank);
    let project = project(&agent.url(), "m", "");
    with_ranker(&project, &ranker, &["test", "--record", "c.jsonl"]).exits(0);
    let tool_calls = |run: &Value| run["report"]["results"][0]["tool_invocations"].clone();
    let live = tool_calls(&project.run_file());
    assert_eq!((agent.finish().len(), ranker.finish().len()), (2, 1));
    assert!(
        live[0]["result"].as_str().unwrap().contains("cats pays nothing"),
        "{live}"
    );
    // No key, no server, and the index is gone.
    std::fs::remove_dir_all(project.path(".holodeck")).unwrap();
    project.run(&["test", "--replay", "c.jsonl"]).exits(0);
    assert_eq!(tool_calls(&project.run_file())[0]["result"], live[0]["result"]);
    assert!(!project.path(".holodeck/index").exists());
}

/// The recorded order belongs to the model that gave it.
#[test]
fn a_replay_with_another_reranker_is_refused() {
    let agent = ModelServer::answering(searching);
    let ranker = ModelServer::answering(rank);
    let project = project(&agent.url(), "m", "");
    with_ranker(&project, &ranker, &["test", "--record", "c.jsonl"]).exits(0);
    let asked = (agent.requests().len(), ranker.requests().len());
    let yaml = project.read("agent.yaml");
    for (to, exit) in [
        ("name: ranker-2}", 3),
        ("name: ranker, temperature: 1}", 3),
        // The same model at another address.
        ("name: ranker, rpm: 7}", 0),
    ] {
        project.write("agent.yaml", yaml.replace("name: ranker}", to));
        let replayed = project.run(&["test", "--replay", "c.jsonl"]).exits(exit);
        if exit != 0 {
            replayed.says("`reranker_model` changed");
        }
    }
    project.write(
        "agent.yaml",
        yaml.replace("enable_reranking: true", "enable_reranking: false"),
    );
    project
        .run(&["test", "--replay", "c.jsonl"])
        .exits(3)
        .says("`reranker_model` changed");
    assert_eq!((agent.finish().len(), ranker.finish().len()), asked);
}

/// The agent never gets passages that were not ranked.
#[test]
fn a_reranker_that_does_not_answer_in_time_is_an_error() {
    let agent = ModelServer::answering(searching);
    let ranker = ModelServer::answering(|_| Reply::hang());
    let project = project(&agent.url(), "m", "llm_timeout: 1");
    // In a turn the same limit is that of the whole turn; on a busy machine both are reached at once.
    let ran = with_ranker(&project, &ranker, &["test"]).exits(3);
    let of_turn = "timeout exceeded (1 s, `execution.llm_timeout`)";
    let of_ranker = "reranking with openai ranker: no answer";
    let output = ran.all();
    assert!(output.contains(of_turn) || output.contains(of_ranker), "{output}");
    assert!(!output.contains("9 euros"), "{output}");
    let asked = agent.finish();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let search = with_ranker(&project, &ranker, &["index", "search", "rent"]);
    let search = search
        .exits(3)
        .says("reranking with openai ranker: no answer within 1 s");
    assert!(!search.all().contains("9 euros"), "{}", search.all());
    ranker.finish();
}
