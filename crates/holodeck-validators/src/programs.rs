//! Checks that the programs of function tools and MCP servers exist and are executable.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use holodeck_model::{
    Code, Diagnostic, Env, FunctionTool, McpTool, McpTransport, PathRef, Severity, ToolConfig,
};
use holodeck_process::which;
use holodeck_yaml::LoadedAgent;

use crate::{Check, check::unless_replayed};

/// The programs of function tools and MCP servers.
pub(crate) fn check(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    agent
        .config
        .real_tools()
        .filter_map(|(index, tool)| match tool {
            ToolConfig::Function(tool) => Some(check_tool(agent, env, index, tool)),
            ToolConfig::Mcp(tool) => check_server(agent, env, index, tool),
            _ => None,
        })
        .collect()
}

fn check_tool(agent: &LoadedAgent, env: &Env, index: usize, tool: &FunctionTool) -> Check {
    let subject = format!("tool `{}`", tool.name);
    let (program, field) = match &tool.command {
        Some(command) => (program(command), "command"),
        None => (PathBuf::from("python3"), "file"),
    };
    check_program(
        agent,
        env,
        subject,
        &program,
        Severity::Error,
        &format!("tools.{index}.{field}"),
    )
}

fn check_server(agent: &LoadedAgent, env: &Env, index: usize, tool: &McpTool) -> Option<Check> {
    let command = tool
        .command
        .as_ref()
        .filter(|_| tool.transport == McpTransport::Stdio)?;
    let severity = if tool.required {
        Severity::Error
    } else {
        Severity::Warning
    };
    let subject = format!("MCP server `{}`", tool.name);
    let pointer = format!("tools.{index}.command");
    Some(check_program(
        agent,
        env,
        subject,
        &program(command),
        severity,
        &pointer,
    ))
}

/// A bare name is looked up on the path; anything else is relative to the YAML.
fn program(command: &PathRef) -> PathBuf {
    if command.as_str().contains('/') {
        command.path()
    } else {
        PathBuf::from(command.as_str())
    }
}

fn check_program(
    agent: &LoadedAgent,
    env: &Env,
    subject: String,
    program: &Path,
    severity: Severity,
    pointer: &str,
) -> Check {
    if let Some(found) = which(program, env.get("PATH").map(OsStr::new)) {
        return Check::ok(subject, format!("runs `{}`", found.display()));
    }
    let message = format!("`{}` was not found or is not executable", program.display());
    let problem = Diagnostic::new(Code::MissingProgram, severity, message)
        .at(agent.locate(pointer))
        .with_help("install it, or make it executable with `chmod +x`");
    Check::problem(subject, unless_replayed(agent, problem))
}
