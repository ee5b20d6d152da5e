//! Tests of the translation from YAML to the arguments and settings of the Claude CLI: everything is off by default,
//! and nothing in the YAML is dropped.

use std::path::{Path, PathBuf};

use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, DecidedBy, Ruling};
use holodeck_backend_claude::Tools;
use holodeck_model::CliVersion;
use holodeck_model::MemoryFiles;
use holodeck_validators::{ClaudeCliKind, ClaudeEnv};
use holodeck_yaml::load_agent;
use insta::assert_snapshot;
use serde_json::json;

use super::*;

struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        Some(Ruling::new(ApprovalDecision::approve(), DecidedBy::Mode))
    }
}

fn tools() -> Tools {
    let answer = |_, _| async { ToolOutput::ok("") };
    Tools::new()
        .with("search", "Searches.", json!({"type": "object"}), answer)
        .with("order", "Orders.", json!({"type": "object"}), answer)
}

fn options_of_yaml(rest: &str, side_effects: BuiltinChanges, kind: ClaudeCliKind) -> ClaudeOptions {
    let yaml = format!(
        "name: test\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: be brief}}\n{rest}"
    );
    let env: Env = [("ANTHROPIC_API_KEY", "secret-key"), ("PATH", "/bin")]
        .into_iter()
        .collect();
    let path = Path::new("/agents/a/agent.yaml");
    let files = MemoryFiles::new()
        .with(path, yaml)
        .with("/agents/a/s.py", "from tools import *");
    let load = load_agent(path, &env, &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
    let policy = ApprovalPolicy::new(&agent.config);
    let options = options(&AgentSetup {
        agent: &agent,
        occasion: Occasion::Test,
        cli: &ClaudeCli {
            path: PathBuf::from("/opt/claude"),
            version: CliVersion::new(2, 1, 330),
            kind,
        },
        credentials: &ClaudeEnv::for_agent(&agent, &env).unwrap(),
        env: &env,
        tools: Arc::new(tools()),
        approver: Arc::new(ApproveAll),
        policy: &policy,
        side_effects,
        reuse: Reuse::WhereSafe,
        managed: Path::new("/nowhere"),
        variables: Vec::new(),
    });
    options.unwrap()
}

/// One argument per line, or a name and its value. Values that differ between processes are in brackets.
fn format_arguments(options: &ClaudeOptions) -> String {
    let mut text = String::new();
    let mut after_name = false;
    for argument in options.arguments().unwrap() {
        let argument = argument.into_string().unwrap();
        assert!(!argument.contains("secret"), "{argument}");
        let is_name = argument.starts_with("--");
        text.push_str(if is_name || !after_name { "\n" } else { " " });
        after_name = is_name && !argument.contains('=');
        text.push_str(match argument.split_once("--session-id=") {
            Some(_) => "--session-id=[id]",
            None if argument.is_empty() => "''",
            None => &argument,
        });
    }
    let file = text.split_once("--system-prompt-file ").unwrap().1;
    let file = Path::new(file.lines().next().unwrap());
    let folder = file.parent().unwrap().display().to_string();
    text.replace(&folder, "[private]").trim_start().to_owned()
}

#[test]
fn defaults_are_off() {
    let options = options_of_yaml("", BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    assert_snapshot!(format_arguments(&options));
}

const EVERYTHING: &str = r#"
response_format: {$schema: "https://json-schema.org/draft/2020-12/schema", type: object}
tools:
- {type: function, name: search, description: S., file: s.py, function: s}
- {type: mcp, name: my_files, description: F., command: npx, env: {TOKEN: secret-token}}
approvals:
  rules: [{tools: order, decision: reject}]
claude:
  permission_mode: acceptEdits
  max_turns: 7
  max_budget_usd: 1.5
  fallback_model: haiku
  effort: high
  extended_thinking: {enabled: true, budget_tokens: 1000}
  web_search: true
  bash: {enabled: true, excluded_commands: [rm, git push]}
  file_system: {read: true, write: true, edit: true}
  subagents: {enabled: true, max_parallel: 2}
  disallowed_tools: [search, my_files, WebFetch]
  setting_sources: [project, user]
"#;

#[test]
fn every_setting_is_passed() {
    let options = options_of_yaml(EVERYTHING, BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    assert_snapshot!(format_arguments(&options));
}

#[test]
fn tests_withhold_what_changes_something() {
    let script = ClaudeCliKind::Script {
        node: PathBuf::from("/opt/node"),
    };
    let options = options_of_yaml(EVERYTHING, BuiltinChanges::Withheld, script);
    let text = format_arguments(&options);
    assert!(text.starts_with("/opt/claude\n"), "{text}");
    assert!(
        text.contains("--tools Read,Glob,Grep,WebSearch,Agent\n"),
        "{text}"
    );
}

#[test]
fn a_list_of_tools_allows_no_others() {
    let everything = EVERYTHING.replace("[search, my_files, WebFetch]", "[my_files]");
    let allowed = format!("{everything}  allowed_tools: [Read, order, mcp__holodeck_tools__search]\n");
    let options = options_of_yaml(&allowed, BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    let text = format_arguments(&options);
    assert!(text.contains("--tools Read\n"), "{text}");
    assert!(
        text.contains("--allowedTools mcp__holodeck_tools__search\n"),
        "{text}"
    );
}
