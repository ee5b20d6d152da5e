//! The parts of starting a server that every launcher shares.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holodeck_model::{Code, Diagnostic, Env, McpTool, PathRef, io_reason};
use secrecy::SecretString;
use serde_json::Value;

use crate::env_file::{self, EnvFileError};

/// The variables that the YAML gives a server: the file, `MCP_CONFIG` and `env`, in increasing precedence.
pub(crate) fn variables(tool: &McpTool, env: &Env) -> Result<Vec<(String, SecretString)>, Vec<Diagnostic>> {
    let mut variables = match &tool.env_file {
        Some(file) => env_file::read(&file.path(), env)
            .map_err(|error| env_file_problems(tool, file.as_str(), &error))?,
        None => Vec::new(),
    };
    if let Some(config) = &tool.config {
        let config = Value::Object(config.clone().into_iter().collect());
        variables.push(("MCP_CONFIG".to_owned(), config.to_string().into()));
    }
    let own = tool.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    variables.extend(own);
    Ok(variables)
}

/// The base folder of a server's paths: that of the file that contains them, or `base_dir` if it is unknown. A server
/// of `config.yaml` is relative to that file.
pub(crate) fn base<'a>(command: &'a PathRef, base_dir: &'a Path) -> &'a Path {
    if command.base().as_os_str().is_empty() {
        base_dir
    } else {
        command.base()
    }
}

/// The only tools of a server that are offered, from `config.allowed_tools`.
pub(crate) fn allowed_tools(tool: &McpTool) -> Option<Vec<String>> {
    let list = tool.config.as_ref()?.get("allowed_tools")?.as_array()?;
    Some(
        list.iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect(),
    )
}

fn env_file_problems(tool: &McpTool, file: &str, error: &EnvFileError) -> Vec<Diagnostic> {
    let of = &tool.name;
    match error {
        EnvFileError::Read(error) => {
            let reason = io_reason(error);
            let message = format!("can't read `{file}`, the `env_file` of MCP server `{of}`: {reason}");
            vec![Diagnostic::error(Code::FileNotFound, message)]
        }
        EnvFileError::Line(line) => {
            let message = format!("`{file}`, line {line}: not `NAME=value`");
            vec![Diagnostic::error(Code::BadFormat, message)]
        }
        EnvFileError::Missing(names) => names
            .iter()
            .map(|name| {
                let message = format!("environment variable `{name}`, which `{file}` uses, is not set");
                Diagnostic::error(Code::MissingVariable, message)
                    .with_help(format!("set `{name}`, or write `${{{name}:-default}}`"))
            })
            .collect(),
    }
}

/// A path is relative to the YAML; a bare name is looked up by the CLI.
pub(crate) fn placed(command: &str, base: &Path) -> String {
    if command.contains('/') {
        absolute(command, base)
    } else {
        command.to_owned()
    }
}

pub(crate) fn placed_argument(argument: &str, base: &Path) -> String {
    if argument.starts_with("./") || argument.starts_with("../") {
        absolute(argument, base)
    } else {
        argument.to_owned()
    }
}

fn absolute(path: &str, base: &Path) -> String {
    let joined = base.join(path);
    let absolute = std::path::absolute(&joined).unwrap_or(joined);
    tidy(&absolute).to_string_lossy().into_owned()
}

/// Without `.` and with `..` resolved textually, so that people recognise their input.
fn tidy(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            other => tidy.push(other),
        }
    }
    tidy
}

/// A number of seconds from the YAML as a duration.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
}
