//! Checks that the programs of function tools and MCP servers exist and are executable.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_model::{
    Code, Diagnostic, Env, FunctionTool, Location, McpTool, McpTransport, PathRef, Severity, Span,
    ToolConfig, printable, shown_path,
};
use holodeck_process::{AtLimit, BASE_VARIABLES, ChildEnv, ProcessSpec, run, which};
use holodeck_yaml::LoadedAgent;
use tokio_util::sync::CancellationToken;

use crate::{Check, CheckState, check::unless_replayed};

/// Compiles a Python file without running it, and writes the place and the reason of a syntax error.
const COMPILE: &str = "\
import sys
try:
    with open(sys.argv[1], 'rb') as file:
        compile(file.read(), sys.argv[1], 'exec')
except SyntaxError as error:
    print(error.lineno or 1, error.offset or 1, error.msg, sep='\\t')
except ValueError as error:
    print(1, 1, error, sep='\\t')
";

/// Time limit of the compilation.
const COMPILE_LIMIT: Duration = Duration::from_secs(10);

/// The programs of function tools and MCP servers.
pub(crate) async fn check(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = Vec::new();
    for (index, tool) in agent.config.real_tools() {
        match tool {
            ToolConfig::Function(tool) => {
                let check = check_tool(agent, env, index, tool);
                let file = tool.file.as_ref().filter(|_| check.state == CheckState::Ok);
                let error = match file {
                    Some(file) if tool.command.is_none() => compile(agent, env, file).await,
                    _ => None,
                };
                checks.push(match error {
                    Some(error) => Check::problem(check.subject, unless_replayed(agent, error)),
                    None => check,
                });
            }
            ToolConfig::Mcp(tool) => checks.extend(check_server(agent, env, index, tool)),
            _ => {}
        }
    }
    checks
}

/// The syntax error of a Python file. A file that cannot be compiled for another reason is tried when it is called.
async fn compile(agent: &LoadedAgent, env: &Env, file: &PathRef) -> Option<Diagnostic> {
    let path = agent.dir.join(file.path());
    let python = which("python3", env.get("PATH").map(OsStr::new))?;
    let spec = ProcessSpec::new(python, ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name)))
        .args(["-I", "-c", COMPILE].map(OsStr::new))
        .args([path.as_os_str()])
        .timeout(COMPILE_LIMIT)
        .stdout_limit(4096, AtLimit::Drop);
    let output = run(&spec, &CancellationToken::new()).await.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut parts = text.trim_end().splitn(3, '\t');
    let line = parts.next()?.parse().ok()?;
    let column = parts.next()?.parse().ok()?;
    let reason = parts.next()?;
    let place = Location {
        path: shown_path(&path).into(),
        line,
        column,
        span: Span::default(),
    };
    let message = format!("`{}` is not Python: {}", file.as_str(), printable(reason));
    Some(
        Diagnostic::error(Code::MissingProgram, message)
            .at(place)
            .with_help("correct it: the tool fails whenever the model calls it"),
    )
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
