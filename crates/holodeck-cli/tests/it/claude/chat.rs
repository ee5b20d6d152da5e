//! Conversations on the real CLI.

use std::{io::Write as _, process::Stdio};

use holodeck_testkit::{AnthropicReply, AnthropicServer, ClaudeFault, FakeClaude, Gate, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Bench, fixtures::fixture};
use crate::{
    project::{CommandOutput, Project},
    terminal::OnTerminal,
};

/// A new process opens the conversation from the stored events, and the model sees all of it.
#[test]
fn a_conversation_continues_in_another_process() {
    let server = AnthropicServer::answering(|request| {
        let asked = request.texts("user").join(" ");
        let seen = ["apple", "banana", "cherry"]
            .into_iter()
            .filter(|word| asked.contains(word));
        AnthropicReply::text(format!("I was told {}.", seen.collect::<Vec<_>>().join(", ")))
    });
    let bench = Bench::new(&fixture("claude_minimal_agent.yaml"), server);
    for (message, answer) in [
        ("apple", "I was told apple.\n"),
        ("banana", "I was told apple, banana.\n"),
        ("cherry", "I was told apple, banana, cherry.\n"),
    ] {
        let ran = bench
            .run(&["chat", "--session", "s-1", "--once", message])
            .exits(0);
        assert_eq!(ran.stdout, answer, "{}", ran.all());
    }
    bench
        .run(&["events", "check", "s-1"])
        .exits(0)
        .says("no violation");
    bench.server.finish();
}

/// The idle process of a conversation is killed between two messages: the chat continues.
#[test]
fn a_chat_goes_on_after_its_idle_process_was_killed() {
    let server = AnthropicServer::answering(|request| {
        let asked = request.texts("user").join(" ");
        let seen = ["apple", "banana"]
            .into_iter()
            .filter(|word| asked.contains(word));
        AnthropicReply::text(format!("I was told {}.", seen.collect::<Vec<_>>().join(", ")))
    });
    let bench = Bench::new(
        "name: desk\nmodel: {provider: anthropic, name: claude-sonnet-4-5}\n\
         instructions: {inline: Be kind.}\nclaude: {file_system: {read: true}}\n",
        server,
    );
    let mut child = bench
        .command(&["chat", "--session", "s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"apple\n").unwrap();
    // The conversation is stored when the answer is; the CLI has its own copy a moment later.
    let stored = || {
        bench
            .project
            .run(&["events", "export", "s"])
            .stdout
            .contains("told apple")
    };
    let written = || {
        let mut grep = std::process::Command::new("grep");
        grep.args(["-rqs", "told apple", "--include=*.jsonl"]);
        grep.arg(bench.temporary()).status().unwrap().success()
    };
    while !stored() || !written() {}
    for group in bench.pids() {
        let group = format!("-{group}");
        std::process::Command::new("kill")
            .args(["-9", "--", &group])
            .status()
            .unwrap();
    }
    input.write_all(b"banana\n").unwrap();
    drop(input);
    let ran = CommandOutput::of(&child.wait_with_output().unwrap()).exits(0);
    assert!(ran.stdout.contains("I was told apple, banana."), "{}", ran.all());
    bench.server.finish();
}

/// An agent with a tool, on this model.
fn with_tool(model: &str) -> String {
    format!(
        "name: desk\nmodel: {{{model}}}\ninstructions: {{inline: Be kind.}}\n\
         tools:\n  - {{type: function, name: look, description: Looks., command: cat, parameters: \
         {{text: {{type: string, description: What.}}}}}}\n"
    )
}

/// The types of the events of a conversation; neighbouring pieces are one, as both models cut their texts as they like.
fn kinds(run: impl Fn(&[&str]) -> CommandOutput) -> Vec<String> {
    run(&["events", "check", "s"]).exits(0).says("no violation");
    let exported = run(&["events", "export", "s"]).exits(0).stdout;
    let events = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut kinds: Vec<String> = events
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    kinds.dedup_by(|one, other| one == other && one.ends_with("_chunk"));
    kinds
}

fn say(mut command: std::process::Command, lines: &str) -> CommandOutput {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    CommandOutput::of(&child.wait_with_output().unwrap())
}

/// The same conversation with the real CLI and with the loop over Chat Completions: reasoning, text before a call, two
/// calls at once, and a plain answer.
#[test]
fn both_backends_record_the_same_types_of_events() {
    let chat = ["chat", "--session", "s"];
    let claude = AnthropicServer::answering(|request| {
        let look = |reply: AnthropicReply, text: &str| {
            reply.and_tool_use("mcp__holodeck_tools__look", &json!({"text": text}))
        };
        if request.prompt().contains("thanks") {
            return AnthropicReply::text("You are welcome.");
        }
        match request.tool_results().len() {
            0 => {
                let begin = AnthropicReply::nothing()
                    .and_thinking("hm", "sig")
                    .and_text("Let me look.");
                look(look(begin, "tea"), "milk").in_pieces(3)
            }
            _ => AnthropicReply::text("There is tea.").in_pieces(4),
        }
    });
    let bench = Bench::new(&with_tool("provider: anthropic, name: sonnet"), claude);
    let ran = say(bench.command(&chat), "what is there?\nthanks\n").exits(0);
    assert!(ran.stdout.ends_with("You are welcome.\n"), "{}", ran.all());
    let of_claude = kinds(|args| bench.run(args));
    bench.server.finish();

    let openai = ModelServer::answering(|request| {
        if request.conversation_texts().last() == Some(&"thanks") {
            return Reply::text("You are welcome.");
        }
        match request.texts("tool").len() {
            0 => Reply::nothing()
                .and_reasoning("hm")
                .and_text("Let me look.")
                .and_tool_call("c1", "look", r#"{"text": "tea"}"#)
                .and_tool_call("c2", "look", r#"{"text": "milk"}"#)
                .in_pieces(3),
            _ => Reply::text("There is tea.").in_pieces(4),
        }
    });
    let model = format!("provider: openai, name: m, endpoint: \"{}\"", openai.url());
    let project = Project::with(&with_tool(&model));
    say(project.command(&chat), "what is there?\nthanks\n").exits(0);
    let of_openai = kinds(|args| project.run(args));
    openai.finish();

    assert_eq!(of_claude, of_openai);
    assert_eq!(
        of_openai,
        [
            "session_start",
            "user_message_confirmed",
            "thinking_chunk",
            "thinking_complete",
            "message_chunk",
            "thinking",
            "message",
            "tool_use",
            "tool_use",
            "tool_result",
            "tool_result",
            "message_chunk",
            "message",
            "complete",
            "user_message_confirmed",
            "message_chunk",
            "message",
            "complete",
        ]
    );
}

/// The CLI withdraws its question while a person is asked. The run continues, and an answer comes too late.
#[test]
fn a_question_that_the_cli_withdraws_is_cancelled_and_the_run_continues() {
    let fake = FakeClaude::new(&ClaudeFault::WithdrawsPermission);
    let project = Project::with(
        "name: desk\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Be kind.}\n\
         claude: {file_system: {write: true}, permission_mode: manual}\n",
    );
    let mut command = project.command(&["chat", "--session", "s"]);
    command
        .env("HOLODECK_CLAUDE_CLI", fake.path())
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key");
    let mut terminal = OnTerminal::with(&command);
    terminal.until("you › ");
    terminal.types("go\r");
    terminal.until("allow?");
    fake.withdraw();
    terminal.until("no longer asked: cancelled");
    terminal.types("\r");
    terminal.until("Answer 2.");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    assert!(!project.path("made.txt").exists());
    let exported = project.run(&["events", "export", "s"]).exits(0).stdout;
    let events: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let resolved: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "approval_resolved")
        .collect();
    assert_eq!(resolved.len(), 1);
    assert_eq!(
        (&resolved[0]["approved"], &resolved[0]["decision"]),
        (&json!(false), &json!("cancelled"))
    );
    assert_eq!(events.last().unwrap()["reason"], "success");
    project.run(&["events", "check", "s"]).exits(0);
}

/// A message that was stopped before any output is not part of the conversation, also if the process has it.
#[test]
fn a_message_that_was_stopped_before_any_output_is_forgotten() {
    let (gate, asked) = (Gate::new(), Gate::new());
    let (behind, reached) = (gate.clone(), asked.clone());
    let server = AnthropicServer::answering(move |request| {
        if request.prompt().contains("wait") {
            reached.open();
            return AnthropicReply::text("too late").behind(&behind);
        }
        let all = request.texts("user").join(" ");
        AnthropicReply::text(format!(
            "banana {}, wait {}",
            all.contains("banana"),
            all.contains("wait")
        ))
    });
    let bench = Bench::new(&fixture("claude_minimal_agent.yaml"), server);
    let mut terminal = OnTerminal::with(&bench.command(&["chat", "--session", "s"]));
    terminal.until("you › ");
    terminal.types("banana\r");
    terminal.until("banana true, wait false");
    terminal.until("you › ");
    terminal.types("please wait\r");
    while !asked.is_open() {
        std::thread::yield_now();
    }
    terminal.types("\u{3}");
    terminal.until("stopped");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("and now?\r");
    terminal.until("banana true, wait false");
    terminal.shown.clear();
    terminal.until("you › ");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    gate.open();
    bench.wait_for_processes();
    assert_eq!(bench.private_folders(), Vec::<std::path::PathBuf>::new());
    bench.server.finish_unchecked();
}

/// `/tools` lists the built-in tools that the agent has, beside those of the YAML, and none that a list takes away.
#[test]
fn the_tools_of_a_chat_are_the_built_in_ones_too() {
    let server = AnthropicServer::answering(|_| AnthropicReply::text("yes"));
    let agent = with_tool("provider: anthropic, name: sonnet");
    let more =
        "claude: {file_system: {read: true, write: true}, web_search: true, disallowed_tools: [Grep]}\n";
    let bench = Bench::new(&format!("{agent}{more}"), server);
    let mut terminal = OnTerminal::with(&bench.command(&["chat", "--session", "s"]));
    terminal.until("you › ");
    terminal.shown.clear();
    terminal.types("/tools\r");
    terminal.until("you › ");
    for tool in ["look", "Read", "Glob", "Write", "WebSearch"] {
        assert!(terminal.shown.contains(tool), "{tool}: {}", terminal.shown);
    }
    for tool in ["Grep", "Bash", "Edit"] {
        assert!(!terminal.shown.contains(tool), "{tool}: {}", terminal.shown);
    }
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().0, Some(0));
    bench.server.finish();
}
