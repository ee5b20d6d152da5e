//! Commands on the real Claude Code CLI: each gate that involves it.

use holodeck_testkit::{AnthropicReply, AnthropicServer, ClaudeFault, ClaudeStage, FakeClaude};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::Bench;

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews code\ntriggers: [look at]\ncommands: [review]\n\
                        tools: [Read, Bash, count]\n---\nYou review code.\n";

const ARGS: [&str; 6] = ["run", "--command", "review", "look at src", "--explain", "--json"];

fn agent(more: &str) -> String {
    format!(
        "name: routed\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Help.}}\n\
         claude: {{file_system: {{read: true, write: true}}}}\n\
         tools:\n\
         - {{type: function, name: count, description: Counts., command: wc, parameters: {{}}}}\n\
         - {{type: function, name: other, description: Other., command: wc, parameters: {{}}}}\n\
         routing:\n  commands: [review]\n  min_confidence: 0.3\n  agents: {{directories: [{{path: agents}}]}}\n\
         \x20 legacy: {{command: [sh, -c, 'echo by legacy']}}\n{more}"
    )
}

fn bench(more: &str, server: AnthropicServer) -> Bench {
    let bench = Bench::new(&agent(more), server);
    bench.project.write("agents/reviewer.md", REVIEWER);
    bench
}

#[test]
fn the_definition_of_the_specialist_reaches_the_model() {
    let bench = bench(
        "",
        AnthropicServer::answering(|_| AnthropicReply::text("No bugs.")),
    );
    let ran = bench.run(&ARGS).exits(0);
    let result = ran.json();
    assert_eq!(result["output"]["output"], "No bugs.");
    assert_eq!(result["attempt"]["attempt"]["routing_decision"], "sdk_executed");
    assert!(result["attempt"]["attempt"]["session_id"].is_string());
    let requests = bench.server.finish();
    let asked = &requests[0];
    assert!(
        asked
            .system()
            .iter()
            .any(|text| text.contains("You review code.")),
        "{:?}",
        asked.system()
    );
    assert!(!asked.system().iter().any(|text| text.contains("Help.")));
    let mut tools = asked.tool_names();
    tools.sort_unstable();
    // Not `Write` and `other`, which it does not name, and not `Bash`, which the agent does not have.
    assert_eq!(tools, ["Read", "mcp__holodeck_tools__count"]);
}

#[test]
fn a_missing_cli_or_credential_is_unavailable_also_with_force() {
    let bench = bench("", AnthropicServer::answering(|_| AnthropicReply::text("x")));
    let args = [&ARGS[..], &["--force-sdk"]].concat();
    let old = FakeClaude::new(&ClaudeFault::Version("2.1.100".to_owned()));
    for (variable, value) in [
        ("HOLODECK_CLAUDE_CLI", "/nowhere/claude"),
        ("HOLODECK_CLAUDE_CLI", old.path().to_str().unwrap()),
        ("ANTHROPIC_API_KEY", ""),
    ] {
        let output = bench.command(&args).env(variable, value).output().unwrap();
        let ran = bench.check_ended(&output).exits(0);
        let attempt = &ran.json()["attempt"]["attempt"];
        assert_eq!(attempt["routing_decision"], "sdk_unavailable", "{}", ran.all());
        assert_eq!(attempt["termination_reason"], "sdk_unavailable");
        assert_eq!(ran.json()["output"]["output"], "by legacy");
    }
    assert!(bench.server.finish().is_empty());
}

#[test]
fn a_disabled_backend_starts_no_cli() {
    let bench = bench("", AnthropicServer::answering(|_| AnthropicReply::text("x")));
    let ran = bench
        .run(&[&ARGS[..], &["--disable-sdk", "--force-sdk"]].concat())
        .exits(0);
    assert_eq!(
        ran.json()["attempt"]["attempt"]["routing_decision"],
        "sdk_disabled_override"
    );
    assert_eq!(bench.argv(), "");
    assert!(bench.server.finish().is_empty());
}

#[test]
fn an_error_of_the_api_is_an_error_message() {
    let bench = bench(
        "",
        AnthropicServer::answering(|_| AnthropicReply::error(400, "bad request")),
    );
    let ran = bench.run(&ARGS).exits(0);
    let attempt = &ran.json()["attempt"]["attempt"];
    assert_eq!(attempt["routing_decision"], "sdk_error_message", "{}", ran.all());
    assert_eq!(attempt["error_type"], "SDKErrorMessage");
    assert_eq!(ran.json()["output"]["output"], "by legacy");
    bench.server.finish();
}

#[test]
fn a_cli_that_crashes_is_an_exception() {
    let bench = bench("", AnthropicServer::answering(|_| AnthropicReply::text("x")));
    let broken = FakeClaude::new(&ClaudeFault::Crash(ClaudeStage::Message));
    let output = bench
        .command(&ARGS)
        .env("HOLODECK_CLAUDE_CLI", broken.path())
        .output()
        .unwrap();
    let ran = bench.check_ended(&output).exits(0);
    let attempt = &ran.json()["attempt"]["attempt"];
    assert_eq!(attempt["routing_decision"], "sdk_exception", "{}", ran.all());
    assert_eq!(attempt["termination_reason"], "execution_error");
    assert_eq!(ran.json()["output"]["output"], "by legacy");
    assert!(bench.server.finish().is_empty());
}

#[test]
fn a_written_file_blocks_the_fallback_and_a_read_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    for (tool, code) in [("Write", 3), ("Read", 0)] {
        let path = folder.path().join("notes.txt").display().to_string();
        let server = AnthropicServer::answering(move |request| {
            if request.tool_results().is_empty() {
                let input = if tool == "Write" {
                    json!({"file_path": path, "content": "x"})
                } else {
                    json!({"file_path": path})
                };
                AnthropicReply::tool_use(tool, &input)
            } else {
                AnthropicReply::error(400, "bad request")
            }
        });
        let bench = bench("", server);
        let yaml = bench.project.read("agent.yaml").replace(
            "claude: {",
            &format!(
                "claude: {{additional_directories: [{}], ",
                folder.path().display()
            ),
        );
        bench.project.write("agent.yaml", yaml);
        bench.project.write(
            "agents/reviewer.md",
            REVIEWER.replace("[Read, Bash, count]", "[Read, Write]"),
        );
        let ran = bench.run(&ARGS).exits(code);
        let result = ran.json();
        if code == 3 {
            assert_eq!(result["output"]["error"], "fallback_blocked_side_effects");
            assert_eq!(result["attempt"]["side_effects"], json!(["Write"]));
        } else {
            assert_eq!(result["output"]["output"], "by legacy", "{}", ran.all());
        }
        bench.server.finish_unchecked();
    }
}

#[test]
fn a_skill_is_a_tool_of_the_cli() {
    let server = AnthropicServer::answering(|request| match request.tool_results().first() {
        None => AnthropicReply::tool_use("mcp__holodeck_tools__skill__notes", &json!({"arguments": ["x"]})),
        Some(_) => AnthropicReply::text("Done."),
    });
    let bench = bench("  skills: {directory: skills}\n", server);
    bench.project.write(
        "agents/reviewer.md",
        REVIEWER.replace("[Read, Bash, count]", "[skill__notes]"),
    );
    bench.project.write(
        "skills/notes/SKILL.md",
        "---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n",
    );
    bench
        .project
        .write("skills/notes/scripts/run.sh", "printf 'notes: %s' \"$1\"\n");
    let ran = bench.run(&ARGS).exits(0);
    assert_eq!(
        ran.json()["executed_operations"],
        json!(["skill__notes"]),
        "{}",
        ran.all()
    );
    let requests = bench.server.finish();
    let results = requests.last().unwrap().last_results();
    assert_eq!(results, [("notes: x".to_owned(), false)]);
}

#[test]
fn a_message_has_one_executor_on_the_cli() {
    for (commands, prompt, other, tools, executor) in [
        (
            "[run]",
            "You review code.",
            "Help.",
            &["Read", "mcp__holodeck_tools__count"][..],
            "reviewer (sdk, confidence 0.",
        ),
        (
            "[review]",
            "Help.",
            "You review code.",
            &[
                "Glob",
                "Grep",
                "Read",
                "mcp__holodeck_tools__count",
                "mcp__holodeck_tools__other",
            ][..],
            "routed (agent, command_not_allowed)",
        ),
    ] {
        let server = AnthropicServer::answering(|_| AnthropicReply::text("No bugs."));
        let bench = bench(
            "test_cases:\n- {input: look at src, evaluations: [{type: standard, metric: contains, value: No bugs}]}\n",
            server,
        );
        let yaml = bench.project.read("agent.yaml");
        let yaml = yaml.replace("commands: [review]", &format!("commands: {commands}"));
        let yaml = yaml.replace("read: true, write: true", "read: true");
        bench.project.write("agent.yaml", yaml);
        bench.run(&["run", "look at src"]).exits(0);
        let tested = bench.run(&["test", "--report", "markdown=report.md"]).exits(0);
        assert!(tested.all().contains(executor), "{}", tested.all());
        let report = bench.project.read("report.md").replace("\\_", "_");
        assert!(report.contains(executor), "{report}");
        bench.run(&["chat", "--once", "look at src"]).exits(0);
        let requests = bench.server.finish();
        assert_eq!(requests.len(), 3, "{commands}");
        for request in &requests {
            let system = request.system();
            assert!(
                system.iter().any(|text| text.contains(prompt)),
                "{commands}: {system:?}"
            );
            assert!(
                !system.iter().any(|text| text.contains(other)),
                "{commands}: {system:?}"
            );
            let mut names = request.tool_names();
            names.sort_unstable();
            assert_eq!(names, tools, "{commands}");
        }
    }
}

#[test]
fn a_recorded_specialist_is_replayed_without_the_cli() {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("No bugs."));
    let bench = bench(
        "test_cases:\n- {input: look at src, evaluations: [{type: standard, metric: contains, value: No bugs}]}\n",
        server,
    );
    let yaml = bench.project.read("agent.yaml");
    bench.project.write(
        "agent.yaml",
        yaml.replace("commands: [review]", "commands: [run]"),
    );
    bench.run(&["test", "--record", "tape.jsonl"]).exits(0);
    assert_eq!(bench.server.finish().len(), 1);
    bench.project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    bench.project.write(
        "agents/reviewer.md",
        REVIEWER.replace("You review code.", "You review it."),
    );
    // The program of `legacy` does not make up for what is not recorded.
    let missed = bench.project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert!(missed.all().contains("holds no answer"), "{}", missed.all());
}

#[test]
fn the_first_example_of_the_guide_works_with_the_cli() {
    let example = crate::guide::example();
    let agent = example.agent.replace(
        "{provider: openai, name: gpt-4o}",
        "{provider: anthropic, name: sonnet}",
    );
    assert_ne!(agent, example.agent);
    let server = AnthropicServer::answering(|_| AnthropicReply::text("An unused variable."));
    let bench = Bench::new(&agent, server);
    example.write(&bench.project);
    for (args, _) in &example.commands {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        bench.run(&args).exits(0);
    }
    let ran = bench
        .run(&["run", "--command", "review", "look at src/"])
        .exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("An unused variable.\n", "")
    );
    let requests = bench.server.finish();
    let asked = requests.last().unwrap();
    let system = asked.system();
    assert!(
        system.iter().any(|text| text.contains("You review code.")),
        "{system:?}"
    );
}

#[test]
fn a_model_on_the_cli_chooses_the_specialist() {
    let server = AnthropicServer::answering(|request| {
        let system = request.system().join(" ");
        if system.contains("You select the specialist agent") {
            return AnthropicReply::tool_use("StructuredOutput", &json!({"agent": "reviewer"}));
        }
        AnthropicReply::text(if system.contains("You review code.") {
            "No bugs."
        } else {
            "Help."
        })
    });
    let bench = bench("", server);
    let yaml = bench.project.read("agent.yaml");
    let yaml = yaml.replace("[{path: agents}]", "[{path: agents}], algorithm: model");
    bench.project.write(
        "agent.yaml",
        yaml.replace("commands: [review]", "commands: [run]"),
    );
    let result = bench
        .run(&["run", "good morning", "--explain", "--json"])
        .exits(0)
        .json();
    assert_eq!(result["output"]["output"], "No bugs.", "{result:#}");
    assert_eq!(
        result["attempt"]["selection"]["selected_by"], "model",
        "{result:#}"
    );
}
