//! Runs a program with a call's arguments as JSON on stdin and reads the result from stdout.

use std::path::PathBuf;
use std::time::Duration;

use holodeck_backend_api::ToolOutput;
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::MAX_OUTPUT_BYTES;

/// Why a call could not be run.
pub(crate) enum Failure {
    Unavailable(String),
    Cancelled,
}

/// A program that reads its arguments as one line of JSON on stdin and writes the result to stdout.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) command: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) env: ChildEnv,
}

impl Program {
    pub(crate) async fn call(
        &self,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, Failure> {
        let spec = with_limits(ProcessSpec::new(&self.command, self.env.clone()))
            .args(&self.args)
            .current_dir(&self.folder)
            .stdin(format!("{arguments}\n"));
        let output = run(&spec, cancel).await.map_err(failure)?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.exit.success() {
            return Ok(ToolOutput::ok(text));
        }
        Ok(ToolOutput::error(describe_exit(&output, &text)))
    }
}

/// Sets the limits of a tool's process. The few extra bytes show whether the output was truncated.
pub(crate) fn with_limits(spec: ProcessSpec) -> ProcessSpec {
    spec.stdout_limit(MAX_OUTPUT_BYTES + 8, AtLimit::Drop)
        .stderr_kept(4 * 1024)
        .grace(Duration::from_millis(500))
}

pub(crate) fn failure(error: ProcessError) -> Failure {
    match error {
        ProcessError::Cancelled => Failure::Cancelled,
        other => Failure::Unavailable(with_cause(&other)),
    }
}

/// Describes how a process ended, with its stderr, or with its stdout if stderr is empty.
pub(crate) fn describe_exit(output: &ProcessOutput, text: &str) -> String {
    let message = if output.stderr.is_empty() {
        text
    } else {
        &output.stderr
    };
    if message.is_empty() {
        return output.exit.to_string();
    }
    format!("{}: {message}", output.exit)
}

fn with_cause(error: &ProcessError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
