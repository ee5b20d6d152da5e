//! Runs a function of a Python file in a child process, and derives its schema from type hints.

use std::path::PathBuf;
use std::time::Duration;

use holodeck_backend_api::ToolOutput;
use holodeck_process::{ChildEnv, ProcessOutput, ProcessSpec, run, which};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::program::{Failure, describe_exit, failure, with_limits};

const BOOTSTRAP: &str = concat!(include_str!("reply.py"), include_str!("bootstrap.py"));
pub(crate) const PYTHON: &str = "python3";

/// A function in a Python file; each call runs in a new child process.
#[derive(Debug)]
pub(crate) struct PythonFunction {
    pub(crate) file: PathBuf,
    pub(crate) function: String,
    pub(crate) folder: PathBuf,
    pub(crate) env: ChildEnv,
}

/// The reply of a bootstrap script.
pub(crate) enum Reply {
    Result(String),
    /// The function returned something else than what is needed.
    Unfit(String),
    Failed(String),
    NotRun(String),
    /// The process ended without a reply.
    Missing(String),
}

impl PythonFunction {
    pub(crate) async fn call(
        &self,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, Failure> {
        let spec = self.spec("call")?.stdin(arguments.to_string());
        let output = run(&spec, cancel).await.map_err(failure)?;
        match Reply::of(&output) {
            Reply::Result(text) => Ok(ToolOutput::ok(text)),
            Reply::Unfit(message) | Reply::Failed(message) | Reply::Missing(message) => {
                Ok(ToolOutput::error(message))
            }
            Reply::NotRun(reason) => Err(Failure::Unavailable(reason)),
        }
    }

    /// Derives the schema of the arguments from the signature and type hints. `Err(None)` means cancelled.
    pub(crate) async fn describe(
        &self,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Value, Option<String>> {
        let reason = |failure| match failure {
            Failure::Unavailable(reason) => Some(reason),
            Failure::Cancelled => None,
        };
        let spec = self.spec("describe").map_err(reason)?.timeout(timeout);
        let output = run(&spec, cancel).await.map_err(|error| reason(failure(error)))?;
        match Reply::of(&output) {
            Reply::Result(text) => serde_json::from_str(&text).map_err(|error| Some(error.to_string())),
            Reply::Unfit(message)
            | Reply::Failed(message)
            | Reply::NotRun(message)
            | Reply::Missing(message) => Err(Some(message)),
        }
    }

    fn spec(&self, verb: &str) -> Result<ProcessSpec, Failure> {
        let python = which(PYTHON, self.env.get("PATH")).ok_or_else(|| {
            Failure::Unavailable(
                "`python3` not found on the PATH, and Python function tools need it".to_owned(),
            )
        })?;
        if !self.file.is_file() {
            return Err(Failure::Unavailable(format!(
                "file `{}` not found",
                self.file.display()
            )));
        }
        Ok(with_limits(ProcessSpec::new(python, self.env.clone()))
            .args(["-c", BOOTSTRAP, verb])
            .args([self.file.as_os_str(), self.function.as_ref()])
            .current_dir(&self.folder))
    }
}

impl Reply {
    pub(crate) fn of(output: &ProcessOutput) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let mut rest = text.chars();
        let mark = rest.next();
        let rest = || rest.as_str().to_owned();
        match mark {
            Some('+') => Self::Result(rest()),
            Some('?') => Self::Unfit(rest()),
            Some('-') => Self::Failed(rest()),
            Some('!') => Self::NotRun(rest()),
            _ => Self::Missing(format!("ended without a result, {}", describe_exit(output, ""))),
        }
    }
}
