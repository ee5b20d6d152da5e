use std::{ffi::OsStr, path::Path};

use holodeck_model::{Code, Diagnostic, Env, FunctionTool, LoadedAgent, ToolConfig};
use holodeck_process::which;

use crate::Check;

/// The programs that the function tools run.
pub(crate) fn check(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    agent
        .config
        .tools
        .iter()
        .enumerate()
        .filter_map(|(index, tool)| match tool {
            ToolConfig::Function(tool) => Some(check_tool(agent, env, index, tool)),
            _ => None,
        })
        .collect()
}

fn check_tool(agent: &LoadedAgent, env: &Env, index: usize, tool: &FunctionTool) -> Check {
    let subject = format!("tool `{}`", tool.name);
    let path = env.get("PATH").map(OsStr::new);
    let (program, field) = match &tool.command {
        // A name without a folder is looked for on the path, anything else lies beside the YAML.
        Some(command) if command.as_str().contains('/') => (command.path(), "command"),
        Some(command) => (Path::new(command.as_str()).to_owned(), "command"),
        None => (Path::new("python3").to_owned(), "file"),
    };
    if let Some(found) = which(&program, path) {
        return Check::ok(subject, format!("runs `{}`", found.display()));
    }
    let error = Diagnostic::error(
        Code::MissingProgram,
        format!("`{}` was not found or is not executable", program.display()),
    )
    .at(agent.locate(&format!("tools.{index}.{field}")))
    .with_help("install it, or make it executable with `chmod +x`");
    Check::problem(subject, error)
}
