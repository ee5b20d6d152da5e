//! Tests of the checks of a whole agent: everything missing is reported at once, with a remedy.

use std::{fs, os::unix::fs::PermissionsExt as _};

use holodeck_model::DiskFiles;
use holodeck_yaml::load_agent;
use tempfile::TempDir;

use super::*;
use crate::CheckState;

/// A folder with an agent, and with programs in `bin`, the only folder on the path.
struct Project(TempDir);

impl Project {
    fn new(agent: &str) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        fs::create_dir(project.0.path().join("bin")).unwrap();
        fs::write(project.0.path().join("agent.yaml"), agent).unwrap();
        project
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.path().join("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn loaded(&self, env: &Env) -> LoadedAgent {
        let load = load_agent(&self.0.path().join("agent.yaml"), env, &DiskFiles);
        load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics))
    }

    /// Every check on a line, with hints, without the folder's name.
    async fn checks(&self, variables: &[(&str, &str)]) -> String {
        let here = self.0.path().display().to_string();
        let bin = format!("{here}/bin");
        let mut env: Env = variables.iter().copied().collect();
        env.set("PATH", bin);
        env.set("HOME", here.clone());
        let mut text = String::new();
        for check in check_agent(&self.loaded(&env), &env).await {
            let state = match check.state {
                CheckState::Ok => "ok",
                CheckState::Warning => "warning",
                CheckState::Missing => "MISSING",
                CheckState::NotNeeded => "not needed",
                CheckState::NotChecked => "not checked",
            };
            text.push_str(&[check.subject.as_str(), ": ", state, ", ", &check.found, "\n"].concat());
            if let Some(problem) = check.diagnostic {
                if let Some(place) = problem.primary {
                    text.push_str(&["    ", &place.to_string(), "\n"].concat());
                }
                if let Some(help) = problem.help {
                    text.push_str(&["    hint: ", &help, "\n"].concat());
                }
            }
        }
        text.replace(&here, "~")
    }
}

const PLAIN: &str = "name: a\nmodel: {provider: anthropic, name: sonnet}\ninstructions: {inline: Hi}\n";

const RICH: &str = "name: a
model: {provider: anthropic, name: sonnet, auth_provider: oauth_token}
instructions: {inline: Hi}
response_format: {type: object, properties: {n: {type: integer}}}
embedding_provider: {provider: openai, name: e}
tools:
  - {type: function, name: orders, description: O., command: cat, parameters: {}}
  - {type: mcp, name: files, description: F., command: npx, args: [-y, x]}
  - {type: mcp, name: maybe, description: M., command: uvx, required: false}
  - {type: mcp, name: web, description: W., transport: http, url: 'https://mcp.test'}
  - {type: vectorstore, name: kb, description: K., source: .}
claude: {working_directory: sub}
";

#[tokio::test]
async fn a_native_cli_needs_no_node() {
    let project = Project::new(PLAIN);
    project.program("claude", "#!/bin/sh\necho '2.1.330 (Claude Code)'\n");
    insta::assert_snapshot!(project.checks(&[("ANTHROPIC_API_KEY", "k")]).await);
}

#[tokio::test]
async fn everything_that_is_missing_is_reported_at_once() {
    insta::assert_snapshot!(Project::new(RICH).checks(&[]).await);
}

#[tokio::test]
async fn everything_that_is_there() {
    let project = Project::new(RICH);
    fs::create_dir(project.0.path().join("sub")).unwrap();
    project.program("claude", "#!/usr/bin/env node\n");
    project.program("node", "#!/bin/sh\ntest $# = 1 && echo v20.1.0 || echo 2.1.330\n");
    for name in ["cat", "npx", "uvx"] {
        project.program(name, "");
    }
    let env = [("CLAUDE_CODE_OAUTH_TOKEN", "t"), ("OPENAI_API_KEY", "k")];
    insta::assert_snapshot!(project.checks(&env).await);
}

#[tokio::test]
async fn an_old_node_is_a_warning() {
    let project = Project::new(RICH);
    project.program("node", "#!/bin/sh\necho v16.20.0\n");
    let checks = project.checks(&[]).await;
    let node: Vec<&str> = checks.lines().filter(|line| line.starts_with("node")).collect();
    assert_eq!(
        node,
        ["node: warning, Node.js 16.20.0 is old; MCP server `files` may need 18 or later"]
    );
}

#[tokio::test]
async fn a_recording_answers_without_cli_and_key() {
    let project = Project::new(&format!("{PLAIN}execution: {{replay: c.jsonl}}\n"));
    fs::write(project.0.path().join("c.jsonl"), "").unwrap();
    insta::assert_snapshot!(project.checks(&[]).await);
}

#[tokio::test]
async fn a_recording_answers_without_what_tools_need() {
    let project = Project::new(&format!("{RICH}execution: {{replay: c.jsonl}}\n"));
    fs::write(project.0.path().join("c.jsonl"), "").unwrap();
    let checks = project.checks(&[]).await;
    assert!(!checks.contains("MISSING"), "{checks}");
    assert!(
        checks
            .contains("tool `orders`: warning, `cat` was not found or is not executable; only the recording"),
        "{checks}"
    );
}

#[tokio::test]
async fn the_yaml_may_name_the_cli_and_the_variable_outranks_it() {
    let project = Project::new(&format!("{PLAIN}claude: {{cli_path: bin/own}}\n"));
    project.program("own", "#!/bin/sh\necho 2.1.200\n");
    project.program("other", "#!/bin/sh\necho 2.1.300\n");
    let claude = |checks: &str| {
        let lines = checks.lines();
        lines
            .filter(|line| line.starts_with("claude"))
            .collect::<String>()
    };
    assert_eq!(
        claude(&project.checks(&[]).await),
        "claude: ok, Claude Code 2.1.200 at `~/bin/own`"
    );
    assert_eq!(
        claude(&project.checks(&[("HOLODECK_CLAUDE_CLI", "other")]).await),
        "claude: ok, Claude Code 2.1.300 at `~/bin/other`"
    );
    fs::remove_file(project.0.path().join("bin/own")).unwrap();
    insta::assert_snapshot!(project.checks(&[]).await);
}
