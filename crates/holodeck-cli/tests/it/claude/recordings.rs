//! Recordings of agents on Claude Code: a turn is replayed as a whole, without the CLI and the tools.

use std::{fs, process::Command};

use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Bench;
use crate::{
    project::{CommandOutput, Project, SECRET},
    retrieval::everything,
};

/// A secret of the MCP server, which its tool `get-env` returns.
const TOKEN: &str = "not-a-real-token-7391";

/// An index, a program, an MCP server, a conversation, and a case that fails.
fn yaml() -> String {
    format!(
        "name: recorded\nmodel: {{provider: anthropic, name: sonnet}}\nembedding_provider: {{provider: hash}}\n\
         instructions: {{inline: Look it up.}}\nclaude: {{max_turns: 3}}\n\
         tools:\n  \
         - {{type: vectorstore, name: handbook, description: The rules., source: handbook, top_k: 2}}\n  \
         - {{type: function, name: price, description: A price., command: ./price.sh, parameters: {{id: {{type: integer}}}}}}\n  \
         - {{type: mcp, name: everything, description: One tool of each kind., command: node,\n     \
         args: [\"{}\"], env: {{API_TOKEN: {TOKEN}}}}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases:\n  \
         - {{name: refund, input: How many days for a refund?, ground_truth: 30 days, expected_tools: [handbook_search]}}\n  \
         - {{name: sum, input: What is 2 plus 3?, ground_truth: \"5\", expected_tools: [get-sum]}}\n  \
         - {{name: ask price, input: The price of 7?, ground_truth: 9.50 EUR, expected_tools: [price]}}\n  \
         - {{name: environment, input: Tell your environment., ground_truth: API_TOKEN}}\n  \
         - {{name: endless, input: Never stop., ground_truth: anything}}\n  \
         - name: ask twice\n    turns:\n      \
         - {{input: The price of 7?, ground_truth: 9.50 EUR}}\n      \
         - {{input: And what was that again?, ground_truth: 9.50 EUR}}\n",
        everything().display()
    )
}

/// A scripted model for the questions of the cases.
fn model(request: &AnthropicRequest) -> AnthropicReply {
    let results = request.tool_results();
    let price = || AnthropicReply::tool_use("mcp__holodeck_tools__price", &json!({"id": 7}));
    let questions = request.texts("user").join("\n");
    match results.first() {
        Some(_) if questions.contains("Never stop.") => price(),
        Some(result) => AnthropicReply::text(result.text.clone()),
        None => match request.prompt() {
            asked if asked.contains("refund") => {
                let query = json!({"query": "days for a refund"});
                AnthropicReply::tool_use("mcp__holodeck_tools__handbook_search", &query)
            }
            asked if asked.contains("plus") => {
                AnthropicReply::tool_use("mcp__everything__get-sum", &json!({"a": 2, "b": 3}))
            }
            asked if asked.contains("environment") => {
                AnthropicReply::tool_use("mcp__everything__get-env", &json!({}))
            }
            asked if asked.contains("price") || asked.contains("Never") => price(),
            asked if asked.contains("again") => AnthropicReply::text("9.50 EUR, as I said."),
            asked => AnthropicReply::error(400, &format!("unexpected question: {asked}")),
        },
    }
}

fn bench(yaml: &str) -> Bench {
    let bench = Bench::new(yaml, AnthropicServer::answering(model));
    let project = &bench.project;
    project.write("handbook/returns.md", "# Returns\n\nA refund takes 30 days.\n");
    project.write("handbook/shipping.md", "# Shipping\n\nWe ship to the moon.\n");
    project.write(
        "price.sh",
        "#!/bin/sh\necho x >>\"$(dirname \"$0\")/calls\"\necho 9.50 EUR\n",
    );
    make_executable(project, "price.sh");
    bench
}

fn make_executable(project: &Project, name: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(project.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the command without a key, the CLI, node or an endpoint.
fn run_offline(project: &Project, args: &[&str]) -> CommandOutput {
    let mut command: Command = project.command(args);
    command
        .env("HOLODECK_CLAUDE_CLI", "/nowhere/claude")
        .env("PATH", "/nowhere")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    CommandOutput::of(&command.output().unwrap())
}

/// The report of the newest run without the fields that differ between runs.
fn report(project: &Project) -> Value {
    let mut report = project.run_file()["report"].clone();
    strip_times(&mut report);
    json!([report["results"], report["summary"]])
}

fn strip_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A recording masks secrets, so a replayed result is shorter.
            let differs = ["timestamp", "bytes"];
            fields.retain(|name, _| !name.ends_with("_ms") && !differs.contains(&name.as_str()));
            fields.values_mut().for_each(strip_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_times),
        _ => {}
    }
}

#[test]
fn a_recorded_agent_is_replayed_without_cli_server_index_and_key() {
    let bench = bench(&yaml());
    bench
        .run(&["test", "--record", "tape.jsonl"])
        .exits(1)
        .says("max_turns limit reached")
        .says("5 of 6 passed");
    let Bench { project, server } = bench;
    server.finish();
    let recorded = report(&project);
    let calls = project.read("calls");
    let context = &recorded[0][0]["retrieval_context"];
    assert_eq!(context.as_array().unwrap().len(), 2, "{context}");
    assert!(recorded[1]["token_usage"].is_object(), "{recorded}");

    let tape = project.read("tape.jsonl");
    for secret in [SECRET, TOKEN] {
        assert!(!tape.contains(secret), "{secret}");
    }
    assert!(tape.contains("API_TOKEN"), "the server returned its environment");

    fs::remove_dir_all(project.path(".holodeck/index")).unwrap();
    let ran = run_offline(
        &project,
        &["test", "--replay", "tape.jsonl", "--report", "junit=junit.xml"],
    );
    ran.exits(1).says("replayed, recorded 20").says("5 of 6 passed");
    assert_eq!(report(&project), recorded);
    assert!(project.read("junit.xml").contains("replayed, recorded 20"));
    assert_eq!(project.read("calls"), calls, "the program ran");
    assert!(!project.path(".holodeck/index").exists());
}

#[test]
fn a_change_that_the_model_would_see_misses() {
    let bench = bench(&yaml());
    bench.run(&["test", "--record", "tape.jsonl", "--filter", "refund"]);
    let Bench { project, server } = bench;
    server.finish();
    let replay = || {
        run_offline(
            &project,
            &["test", "--replay", "tape.jsonl", "--filter", "refund"],
        )
    };
    replay().exits(0);
    for (file, from, to, message) in [
        (
            "agent.yaml",
            "Look it up.",
            "Look it up!",
            "agent.instructions: recorded \"Look it up.\", now \"Look it up!\"",
        ),
        (
            "agent.yaml",
            "description: The rules.",
            "description: Some rules.",
            "agent.tools[0].description: recorded \"The rules.\", now \"Some rules.\"",
        ),
        (
            "agent.yaml",
            "max_turns: 3",
            "max_turns: 4",
            "agent.claude.max_turns: recorded 3, now 4",
        ),
        (
            "agent.yaml",
            "{provider: hash}",
            "{provider: ollama, name: e}",
            "agent.embedding_provider.provider: recorded \"hash\", now \"ollama\"",
        ),
        (
            "agent.yaml",
            "a refund?",
            "the refund?",
            "message: recorded \"How many days for a refund?\"",
        ),
        (
            "handbook/returns.md",
            "30 days",
            "31 days",
            "agent.files.handbook.handbook/returns.md: recorded \"sha256:",
        ),
        (
            "price.sh",
            "9.50",
            "9.60",
            "agent.files.price.price.sh: recorded \"sha256:",
        ),
    ] {
        let before = project.read(file);
        assert!(before.contains(from), "{file}: {from}");
        project.write(file, before.replace(from, to));
        replay()
            .exits(3)
            .says("the nearest recorded one (refund) differs in:")
            .says(message);
        project.write(file, before);
        if file == "price.sh" {
            make_executable(&project, file);
        }
    }
    // Changes that do not affect the model do not miss.
    let before = project.read("agent.yaml");
    let after = before.replace("max_turns: 3", "max_turns: 3, max_concurrent_sessions: 2");
    project.write("agent.yaml", after.replace("name: recorded", "name: renamed"));
    replay().exits(0);
}

#[test]
fn the_yaml_may_name_the_recording_and_live_overrides_it() {
    let bench = bench(&yaml());
    let filtered = |more: &[&'static str]| {
        let args = ["test", "--filter", "ask*"];
        [&args, more].concat()
    };
    bench.run(&filtered(&["--record", "tape.jsonl"])).exits(0);
    let yaml = bench.project.read("agent.yaml");
    bench
        .project
        .write("agent.yaml", format!("{yaml}execution: {{replay: tape.jsonl}}\n"));
    let asked = bench.server.requests().len();
    run_offline(&bench.project, &filtered(&[]))
        .exits(0)
        .says("replayed, recorded 20");
    assert_eq!(bench.server.requests().len(), asked);
    let live = bench.run(&filtered(&["--live"])).exits(0);
    assert!(!live.all().contains("replayed"), "{}", live.all());
    assert_eq!(bench.server.requests().len(), 2 * asked);

    // Recording a case again keeps the turns of the other, also the turn with the same question.
    bench
        .run(&["test", "--filter", "ask price", "--record", "tape.jsonl"])
        .exits(0);
    run_offline(&bench.project, &filtered(&[])).exits(0);
    let tape = bench.project.read("tape.jsonl");
    let units: Vec<Value> = tape
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request"]["unit"].clone())
        .collect();
    assert_eq!(units, ["ask price", "ask twice · turn 1", "ask twice · turn 2"]);
    // The recording has no turn of this case.
    let missed = run_offline(&bench.project, &["test", "--filter", "sum"]).exits(3);
    missed.says("holds no answer to this request");
    bench.server.finish();
}
