use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, DecidedBy, ToolOutput};
use holodeck_model::{ApprovalPolicy, Env, MemoryFiles, load_agent};
use holodeck_validators::{ClaudeCli, ClaudeCliKind, ClaudeEnv, CliVersion};
use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::{AgentSetup, BuiltinChanges, Reuse, Tools};

struct Nobody;

#[async_trait]
impl Approver for Nobody {
    fn decide(&self, _: &ApprovalAsk) -> Option<(ApprovalDecision, DecidedBy)> {
        Some((ApprovalDecision::approve(), DecidedBy::Mode))
    }
}

fn tools() -> Tools {
    let answer = |_, _| async { ToolOutput::ok("") };
    Tools::new()
        .with("search", "Searches.", json!({"type": "object"}), answer)
        .with("order", "Orders.", json!({"type": "object"}), answer)
}

fn options(rest: &str, side_effects: BuiltinChanges, kind: ClaudeCliKind) -> ClaudeOptions {
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
    let options = ClaudeOptions::of_agent(&AgentSetup {
        agent: &agent,
        cli: &ClaudeCli {
            path: PathBuf::from("/opt/claude"),
            version: CliVersion::new(2, 1, 330),
            kind,
        },
        credentials: &ClaudeEnv::for_agent(&agent, &env).unwrap(),
        env: &env,
        tools: Arc::new(tools()),
        approver: Arc::new(Nobody),
        policy: &policy,
        side_effects,
        reuse: Reuse::WhereSafe,
        variables: Vec::new(),
    });
    options.unwrap()
}

/// One argument a line, or a name and its value.
fn shown(options: &ClaudeOptions, begin: &Begin) -> String {
    let home = Home::create(options).unwrap();
    let folder = home.home().parent().unwrap().display().to_string();
    let mut text = String::new();
    let mut after_name = false;
    for argument in argv(options, &home, begin, &[]) {
        let argument = argument.into_string().unwrap();
        assert!(!argument.contains("secret"), "{argument}");
        let is_name = argument.starts_with("--");
        text.push_str(if is_name || !after_name { "\n" } else { " " });
        after_name = is_name && !argument.contains('=');
        let quoted = if argument.is_empty() { "''" } else { &argument };
        text.push_str(quoted);
    }
    text.replace(&folder, "[private]").trim_start().to_owned()
}

fn fresh() -> Begin {
    Begin::Fresh {
        id: "[id]".to_owned(),
    }
}

#[test]
fn what_is_not_asked_for_is_off() {
    let options = options("", BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    assert_snapshot!(shown(&options, &fresh()));
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
fn what_is_asked_for_is_said() {
    let options = options(EVERYTHING, BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    assert_snapshot!(shown(&options, &fresh()));
}

#[test]
fn tests_withhold_what_changes_something() {
    let script = ClaudeCliKind::Script {
        node: PathBuf::from("/opt/node"),
    };
    let options = options(EVERYTHING, BuiltinChanges::Withheld, script);
    let resumed = Begin::Resumed {
        id: "[id]".to_owned(),
        at: Some("[message]".to_owned()),
    };
    let text = shown(&options, &resumed);
    assert!(text.starts_with("/opt/claude\n"), "{text}");
    assert!(
        text.contains("--tools Read,Glob,Grep,WebSearch,Agent\n"),
        "{text}"
    );
    assert!(
        text.ends_with("--resume=[id]\n--resume-session-at=[message]"),
        "{text}"
    );
}

#[test]
fn a_list_of_tools_allows_no_others() {
    let everything = EVERYTHING.replace("[search, my_files, WebFetch]", "[my_files]");
    let allowed = format!("{everything}  allowed_tools: [Read, order, mcp__holodeck_tools__search]\n");
    let options = options(&allowed, BuiltinChanges::AsConfigured, ClaudeCliKind::Native);
    let text = shown(&options, &fresh());
    assert!(text.contains("--tools Read\n"), "{text}");
    assert!(
        text.contains("--allowedTools mcp__holodeck_tools__search\n"),
        "{text}"
    );
}
