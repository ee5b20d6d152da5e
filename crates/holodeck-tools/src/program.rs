use std::path::PathBuf;
use std::time::Duration;

use holodeck_backend_api::ToolOutput;
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::MAX_OUTPUT_BYTES;
use crate::function::Failure;

/// Any program: arguments as one line of JSON on stdin, the result on stdout.
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
        let spec = limited(ProcessSpec::new(&self.command, self.env.clone()))
            .args(&self.args)
            .current_dir(&self.folder)
            .stdin(format!("{arguments}\n"));
        let output = run(&spec, cancel).await.map_err(failure)?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.exit.success() {
            return Ok(ToolOutput::ok(text));
        }
        Ok(ToolOutput::error(last_words(&output, &text)))
    }
}

/// The limits of every tool's process. A little more than is shown tells that something was cut.
pub(crate) fn limited(spec: ProcessSpec) -> ProcessSpec {
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

/// How it ended and what it said: on stderr, or, as some programs do, on stdout.
pub(crate) fn last_words(output: &ProcessOutput, text: &str) -> String {
    let words = if output.stderr.is_empty() {
        text
    } else {
        &output.stderr
    };
    if words.is_empty() {
        return output.exit.to_string();
    }
    format!("{}: {words}", output.exit)
}

fn with_cause(error: &ProcessError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
