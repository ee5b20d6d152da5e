//! Runs code graders of users as child processes. A grader without a valid result has none; it never counts as a pass.

use std::path::{Path, PathBuf};

use holodeck_model::{CodeMetric, Env, parse_json_strictly};
use holodeck_process::{AtLimit, ProcessOutput, ProcessSpec, run, which};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::function::{Failure, absolute, child_env};
use crate::program::{describe_exit, failure, with_limits};
use crate::python::{PYTHON, Reply};

const BOOTSTRAP: &str = concat!(include_str!("reply.py"), include_str!("grader.py"));

/// The size limit of a result.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// Runs code graders, each answer in a child process of its own.
#[derive(Clone, Debug)]
pub struct CodeGraders {
    folder: PathBuf,
    env: Env,
}

impl CodeGraders {
    /// The graders of an agent in `folder`. They receive only the variables of `env` that are known to be harmless.
    pub fn new(folder: &Path, env: &Env) -> Self {
        Self {
            folder: absolute(folder),
            env: env.clone(),
        }
    }

    /// Runs a grader and returns its result, or why there is none.
    pub async fn run(
        &self,
        grader: &CodeMetric,
        context: &Value,
        cancel: &CancellationToken,
    ) -> Result<Value, String> {
        let is_python = grader.command.is_none();
        let spec = if is_python {
            self.python(grader, "call")?
        } else {
            self.program(grader)?
        };
        let spec = spec.stdin(format!("{context}\n")).timeout(grader.timeout());
        let output = run(&spec, cancel)
            .await
            .map_err(|error| describe(failure(error)))?;
        if is_python {
            return python_result(&output);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.exit.success() {
            return Err(describe_exit(&output, text.trim_end()));
        }
        parse_json_strictly(&text).map_err(|error| {
            let mut reason = format!("standard output is not one JSON value: {error}");
            if !output.stderr.is_empty() {
                reason.push_str("; standard error: ");
                reason.push_str(&output.stderr);
            }
            reason
        })
    }

    /// Imports a Python grader; `Err` says why it cannot be called. A program is not checked.
    pub async fn check(&self, grader: &CodeMetric, cancel: &CancellationToken) -> Result<(), String> {
        if grader.command.is_some() {
            return Ok(());
        }
        let spec = self.python(grader, "check")?.timeout(grader.timeout());
        let output = run(&spec, cancel)
            .await
            .map_err(|error| describe(failure(error)))?;
        python_result(&output).map(|_| ())
    }

    /// The program of a grader with `command`; `None` if it is not found or not executable.
    pub fn find_program(&self, command: &str, grader: &CodeMetric) -> Option<PathBuf> {
        let env = child_env(&self.env, &grader.env);
        // As for a child process: a bare name is looked up, a path is relative to the YAML.
        let program = if command.contains('/') {
            self.folder.join(command)
        } else {
            PathBuf::from(command)
        };
        which(program, env.get("PATH"))
    }

    fn python(&self, grader: &CodeMetric, verb: &str) -> Result<ProcessSpec, String> {
        let (module, function) = grader
            .grader
            .as_deref()
            .and_then(|grader| grader.split_once(':'))
            .ok_or("it names neither `grader` nor `command`")?;
        let env = child_env(&self.env, &grader.env);
        let python = which(PYTHON, env.get("PATH"))
            .ok_or("`python3` not found on the PATH, and Python graders need it")?;
        Ok(limited(ProcessSpec::new(python, env))
            .args(["-c", BOOTSTRAP, verb])
            .args([self.folder.as_os_str(), module.as_ref(), function.as_ref()])
            .current_dir(&self.folder))
    }

    fn program(&self, grader: &CodeMetric) -> Result<ProcessSpec, String> {
        let command = grader.command.as_ref().ok_or("it names no `command`")?;
        let env = child_env(&self.env, &grader.env);
        Ok(limited(ProcessSpec::new(command.as_str(), env))
            .args(&grader.args)
            .current_dir(absolute(command.base())))
    }
}

/// A result that is longer than the limit is not a result.
fn limited(spec: ProcessSpec) -> ProcessSpec {
    with_limits(spec).stdout_limit(MAX_RESULT_BYTES, AtLimit::Stop)
}

/// A process that replied and then failed gives no result.
fn python_result(output: &ProcessOutput) -> Result<Value, String> {
    match Reply::of(output) {
        Reply::Result(_) if !output.exit.success() => Err(describe_exit(output, "")),
        Reply::Result(text) => {
            parse_json_strictly(&text).map_err(|error| format!("the result is not one JSON value: {error}"))
        }
        Reply::Failed(message) | Reply::NotRun(message) | Reply::Missing(message) => Err(message),
    }
}

fn describe(failure: Failure) -> String {
    match failure {
        Failure::Unavailable(reason) => reason,
        Failure::Cancelled => "cancelled".to_owned(),
    }
}
