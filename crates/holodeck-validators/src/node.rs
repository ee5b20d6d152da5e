//! Checks that Node.js is installed and recent enough, if something runs in it.

use std::{
    ffi::{OsStr, OsString},
    time::Duration,
};

use holodeck_model::{
    CliVersion, Code, Diagnostic, Env, McpTool, McpTransport, PathRef, Severity, ToolConfig, env::PATH,
};
use holodeck_process::{AtLimit, BASE_VARIABLES, ChildEnv, ProcessSpec, run, which};
use holodeck_yaml::LoadedAgent;
use tokio_util::sync::CancellationToken;

use crate::{Check, ClaudeCli, ClaudeCliKind, check::unless_replayed};

const SUBJECT: &str = "node";
const PATIENCE: Duration = Duration::from_secs(5);

/// The minimum version for servers from npm.
const OLDEST: CliVersion = CliVersion::new(18, 0, 0);

/// Node.js, if the CLI is a script or an MCP server needs it. The message names its users.
pub(crate) async fn check(agent: &LoadedAgent, env: &Env, cli: Option<&ClaudeCli>) -> Check {
    let mut users = Vec::new();
    let mut severity = Severity::Warning;
    if let Some(cli) = cli
        && matches!(cli.kind, ClaudeCliKind::Script { .. })
    {
        users.push(format!("`{}`", cli.path.display()));
        severity = Severity::Error;
    }
    let mut place = None;
    for (index, tool) in agent.config.real_tools() {
        if let ToolConfig::Mcp(tool) = tool
            && runs_in_node(tool)
        {
            users.push(format!("MCP server `{}`", tool.name));
            if tool.required {
                severity = Severity::Error;
            }
            place = place.or_else(|| agent.locate(&format!("tools.{index}.command")));
        }
    }
    if users.is_empty() {
        return Check::not_needed(SUBJECT, "neither the CLI nor an MCP server runs in it");
    }
    let users = users.join(", ");
    let Some(node) = which("node", env.get(PATH).map(OsStr::new)) else {
        let message = format!("no `node` is on the path; {users} can't run without it");
        let error = Diagnostic::new(Code::MissingProgram, severity, message)
            .at(place)
            .with_help("install Node.js 18 or later");
        return Check::problem(SUBJECT, unless_replayed(agent, error));
    };
    let Some(version) = version(&node, env).await else {
        let message = format!("`{}` does not report its version", node.display());
        return Check::problem(
            SUBJECT,
            Diagnostic::warning(Code::MissingProgram, message).at(place),
        );
    };
    if version < OLDEST {
        let message = format!(
            "Node.js {version} is old; {users} may need {} or later",
            OLDEST.major
        );
        return Check::problem(
            SUBJECT,
            Diagnostic::warning(Code::OutdatedProgram, message).at(place),
        );
    }
    Check::ok(SUBJECT, format!("{version}, for {users}"))
}

fn runs_in_node(tool: &McpTool) -> bool {
    let program = tool.command.as_ref().map(PathRef::path);
    let name = program
        .as_deref()
        .and_then(|program| program.file_name()?.to_str());
    tool.transport == McpTransport::Stdio && matches!(name, Some("node" | "npx" | "npm"))
}

async fn version(node: &std::path::Path, env: &Env) -> Option<CliVersion> {
    let spec = ProcessSpec::new(node, ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name)))
        .args([OsString::from("--version")])
        .timeout(PATIENCE)
        .stdout_limit(4096, AtLimit::Drop);
    let output = run(&spec, &CancellationToken::new()).await.ok()?;
    CliVersion::parse(&String::from_utf8_lossy(&output.stdout)).filter(|_| output.exit.success())
}
