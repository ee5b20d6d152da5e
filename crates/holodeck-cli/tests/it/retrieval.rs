//! Agents with retrieval, end to end: the same YAML on both backends, an MCP server beside an index, and realistic
//! agents, live and replayed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    claude::{Bench, workspace},
    project::{CommandOutput, Project},
};

/// The usual path and the folder of node.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The MCP server that `cargo xtask smoke` installs. Its absence is a failure, as a test that cannot run has not
/// passed.
pub(crate) fn everything() -> PathBuf {
    let server = "mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let server = workspace().join(".smoke").join(server);
    assert!(
        server.exists(),
        "the MCP servers are not installed; `cargo xtask smoke` installs them"
    );
    server
}

/// Copies a folder of `fixtures/` into the project.
fn copy(project: &Project, from: &str, to: &str) {
    let from = workspace().join("fixtures").join(from);
    for entry in fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let to = if to.is_empty() {
            name.clone()
        } else {
            format!("{to}/{name}")
        };
        if name.starts_with('.') || name == "results" {
            continue;
        }
        if entry.path().is_dir() {
            copy_folder(project, &entry.path(), &to);
        } else {
            project.write(&to, fs::read(entry.path()).unwrap());
        }
    }
}

fn copy_folder(project: &Project, from: &Path, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = format!("{to}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            copy_folder(project, &entry.path(), &to);
        } else {
            project.write(&to, fs::read(entry.path()).unwrap());
        }
    }
}

/// Checks that the context has the passages of the answer, one by one and in order.
fn assert_retrieved(context: &Value, answer: &Value) {
    let passages = context.as_array().unwrap();
    assert!(passages.len() > 1, "{context}");
    let mut rest = answer.as_str().unwrap();
    for passage in passages {
        let passage = passage.as_str().unwrap();
        let at = rest
            .find(passage)
            .unwrap_or_else(|| panic!("{passage:?} is not in {rest:?}"));
        rest = &rest[at + passage.len()..];
    }
}

fn results(project: &Project) -> Vec<Value> {
    project.run_file()["report"]["results"]
        .as_array()
        .unwrap()
        .clone()
}

/// One MCP server and one vector store.
fn gate(model: &str) -> String {
    format!(
        "name: gate\nmodel: {model}\nembedding_provider: {{provider: hash}}\n\
         instructions: {{inline: Look it up.}}\n\
         tools:\n  \
         - {{type: vectorstore, name: handbook, description: The shop's rules., source: handbook, top_k: 2}}\n  \
         - {{type: mcp, name: everything, description: One tool of each kind., command: node,\n     \
         args: [\"{}\"]}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n  \
         - {{name: look up, input: How many days for a refund?, ground_truth: 30 days, expected_tools: [handbook_search]}}\n  \
         - {{name: server, input: What is 2 plus 3?, ground_truth: \"5\", expected_tools: [get-sum]}}\n",
        everything().display()
    )
}

/// The call that a scripted model makes for a question.
fn call_for(question: &str, server: &str) -> Option<(String, Value)> {
    match question {
        question if question.contains("refund") => Some((
            format!("{server}handbook_search"),
            json!({"query": "days for a refund"}),
        )),
        question if question.contains("plus") => {
            Some(("mcp__everything__get-sum".to_owned(), json!({"a": 2, "b": 3})))
        }
        _ => None,
    }
}

/// Calls the matching tool, then answers with its result.
fn openai(request: &ReceivedRequest) -> Reply {
    if let Some(result) = request.texts("tool").last() {
        return Reply::text(*result);
    }
    let question = *request.texts("user").last().unwrap();
    let (name, arguments) = call_for(question, "").unwrap();
    Reply::tool_call("call_1", &name, &arguments)
}

/// For each case the call and result of the first tool, and the retrieval context.
fn answers(project: &Project) -> Vec<(Value, Value)> {
    let answer = |result: &Value| {
        assert_eq!(result["state"], "passed", "{result}");
        assert_eq!(result["tools_matched"], true, "{result}");
        let call = &result["tool_invocations"][0];
        let call = json!([call["name"], call["result"]]);
        (call, result["retrieval_context"].clone())
    };
    results(project).iter().map(answer).collect()
}

/// The gate: an MCP server over stdio and a vector store, on both backends, with the same results.
#[test]
fn an_mcp_server_and_a_vector_store_work_the_same_on_both_backends() {
    let server = ModelServer::answering(openai);
    let model = format!(
        "{{provider: openai, name: test-model, endpoint: \"{}\"}}",
        server.url()
    );
    let project = Project::with(&gate(&model));
    copy(&project, "claude_vectorstore", "handbook");
    let ran = project.command(&["test"]).env("PATH", PATH).output().unwrap();
    CommandOutput::of(&ran).exits(0).says("2 passed");
    let requests = server.finish();
    let offered = requests[0].body["tools"].as_array().unwrap();
    let offered: Vec<&str> = offered
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert!(offered.contains(&"handbook_search"), "{offered:?}");
    assert!(offered.contains(&"mcp__everything__get-sum"), "{offered:?}");
    let on_openai = answers(&project);

    let server = AnthropicServer::answering(|request| {
        if let Some(result) = request.tool_results().first() {
            return AnthropicReply::text(result.text.clone());
        }
        match call_for(request.prompt(), "mcp__holodeck_tools__") {
            Some((name, arguments)) => AnthropicReply::tool_use(&name, &arguments),
            None => AnthropicReply::error(400, "unexpected question"),
        }
    });
    let bench = Bench::new(&gate("{provider: anthropic, name: sonnet}"), server);
    copy(&bench.project, "claude_vectorstore", "handbook");
    bench.run(&["test"]).exits(0).says("2 passed");
    let on_claude = answers(&bench.project);
    bench.server.finish();

    assert_eq!(on_openai, on_claude);
    let (call, context) = &on_openai[0];
    let text = call[1].as_str().unwrap();
    assert_eq!(call[0], "handbook_search");
    assert!(text.starts_with("Found 2 result"), "{text}");
    assert_retrieved(context, &call[1]);
    assert_eq!(on_openai[1].1, Value::Null, "the server does not retrieve");
}

#[test]
fn the_claude_agent_with_a_vector_store_passes() {
    let yaml = fs::read_to_string(workspace().join("fixtures/claude_vectorstore_agent.yaml")).unwrap();
    let server = AnthropicServer::answering(|request| match request.tool_results().first() {
        Some(result) => AnthropicReply::text(result.text.clone()),
        None => AnthropicReply::tool_use(
            "mcp__holodeck_tools__handbook_search",
            &json!({"query": request.prompt()}),
        ),
    });
    let bench = Bench::new(&yaml, server);
    copy(&bench.project, "claude_vectorstore", "claude_vectorstore");
    bench.run(&["test"]).exits(0).says("2 passed");
    for result in results(&bench.project) {
        assert_retrieved(
            &result["retrieval_context"],
            &result["tool_invocations"][0]["result"],
        );
    }
    for request in bench.server.finish() {
        assert_eq!(request.tool_names(), ["mcp__holodeck_tools__handbook_search"]);
    }
}

/// The agent of `fixtures/support_desk` with the path of the installed server.
fn support_desk() -> Project {
    let project = Project::empty();
    copy(&project, "support_desk", "");
    let yaml = project.read("agent.yaml");
    let here = "../../.smoke";
    assert!(yaml.contains(here));
    project.write(
        "agent.yaml",
        yaml.replace(here, workspace().join(".smoke").to_str().unwrap()),
    );
    project
}

/// A scripted model for the questions of the cases.
fn desk(request: &ReceivedRequest) -> Reply {
    let question = *request.texts("user").last().unwrap();
    let last = request.messages().last().unwrap();
    if last["role"] == "tool" {
        return Reply::text(last["content"].as_str().unwrap());
    }
    let (tool, arguments) = match question {
        question if question.contains("password") => ("faq_search", json!({"query": question})),
        question if question.contains("API calls") => (
            "knowledge_base_search",
            json!({"query": "API calls a day of the Pro plan"}),
        ),
        question if question.contains("4.2") => ("contract_search", json!({"query": question})),
        question if question.contains("seats") => ("mcp__everything__get-sum", json!({"a": 17, "b": 25})),
        question if question.contains("Slack") => {
            ("knowledge_base_search", json!({"query": "connect Slack"}))
        }
        _ => return Reply::text("Only administrators may do that."),
    };
    Reply::tool_call(&format!("call_{}", tool.len()), tool, &arguments)
}

#[test]
fn an_agent_like_real_ones_is_tested_live_and_replayed() {
    let server = ModelServer::answering(desk);
    let project = support_desk();
    let yaml = project.read("agent.yaml");
    project.write("agent.yaml", yaml.replace("http://127.0.0.1:9", &server.url()));
    let record = project
        .command(&["test", "--record", "tape.jsonl"])
        .env("PATH", PATH)
        .output()
        .unwrap();
    CommandOutput::of(&record).exits(0).says("5 passed");
    let recorded = results(&project);
    server.finish();
    assert_eq!(
        recorded[4]["turns"][1]["retrieval_context"],
        recorded[4]["turns"][0]["retrieval_context"]
    );

    // The endpoint has ended, and there is no index.
    fs::remove_dir_all(project.path(".holodeck/index")).unwrap();
    let replay = project
        .command(&["test", "--replay", "tape.jsonl"])
        .env("PATH", PATH)
        .output()
        .unwrap();
    CommandOutput::of(&replay)
        .exits(0)
        .says("5 passed")
        .says("replayed");
    let replayed = results(&project);
    for (live, replayed) in recorded.iter().zip(&replayed) {
        for field in ["agent_response", "tool_calls", "retrieval_context", "state"] {
            assert_eq!(live[field], replayed[field], "{field}");
        }
    }

    // The results for changed documents were not recorded.
    let terms = project.read("data/terms.md");
    project.write("data/terms.md", format!("{terms}\nNothing of this holds.\n"));
    let missed = project
        .run(&["test", "--replay", "tape.jsonl"])
        .exits(3)
        .says("4 of 5 passed");
    missed.says("tool execution failed: contract_search");
}

#[test]
fn a_store_that_is_not_built_is_2_by_name() {
    let server = ModelServer::answering(|_| Reply::text("Paris"));
    let model = format!(
        "{{provider: openai, name: test-model, endpoint: \"{}\"}}",
        server.url()
    );
    let yaml = gate(&model).replace(
        "source: handbook,",
        "source: handbook, database: {provider: weaviate},",
    );
    let project = Project::with(&yaml);
    copy(&project, "claude_vectorstore", "handbook");
    project.run(&["validate"]).exits(0).says("`weaviate`");
    project
        .run(&["test"])
        .exits(2)
        .says("`weaviate`")
        .says("agent.yaml:6:");
    project.run(&["index", "build"]).exits(2).says("`weaviate`");
    assert!(server.finish().is_empty());
}

#[test]
fn the_recording_of_that_agent_needs_no_model_no_server_and_no_index() {
    let project = Project::empty();
    copy(&project, "support_desk", "");
    // As it is checked in, without the program of the MCP server.
    let ran = project.run(&["test"]).exits(0).says("5 passed").says("replayed");
    assert!(!ran.stderr.contains("index"), "{}", ran.all());
    assert!(!project.path(".holodeck/index").exists());
    for result in results(&project).iter().take(3) {
        assert_retrieved(
            &result["retrieval_context"],
            &result["tool_invocations"][0]["result"],
        );
    }
}
