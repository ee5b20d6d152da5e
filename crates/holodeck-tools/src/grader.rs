//! Runs code graders of users as child processes. A grader without a valid result has none; it never counts as a pass.

use std::path::{Path, PathBuf};

use holodeck_model::{CodeMetric, Env, GraderFailure, long_integers::rounded_to_whole, parse_json_strictly};
use holodeck_process::{AtLimit, ProcessOutput, ProcessSpec, run, which};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::function::{absolute, child_env};
use crate::program::{Failure, describe_exit, failure, with_limits};
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
    ) -> Result<Value, GraderFailure> {
        let is_python = grader.command.is_none();
        let spec = if is_python {
            self.python(grader, "call")
        } else {
            self.program(grader)
        };
        let spec = spec.map_err(GraderFailure::Failed)?;
        let spec = spec.stdin(format!("{context}\n")).timeout(grader.timeout());
        let output = run(&spec, cancel)
            .await
            .map_err(|error| GraderFailure::Failed(describe(failure(error))))?;
        if is_python {
            return python_result(&output);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.exit.success() {
            return Err(GraderFailure::Failed(describe_exit(&output, text.trim_end())));
        }
        check_rounding(&text)?;
        parse_json_strictly(&text).map_err(|error| {
            let invalid = not_a_score(&text);
            let is_failure = invalid.is_none();
            let mut reason =
                invalid.unwrap_or_else(|| format!("standard output is not one JSON value: {error}"));
            if !output.stderr.is_empty() {
                reason.push_str("; standard error: ");
                reason.push_str(&output.stderr);
            }
            if is_failure {
                GraderFailure::Failed(reason)
            } else {
                GraderFailure::NotAScore(reason)
            }
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
        python_result(&output)
            .map(|_| ())
            .map_err(|failure| failure.to_string())
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
fn python_result(output: &ProcessOutput) -> Result<Value, GraderFailure> {
    match Reply::of(output) {
        Reply::Result(_) | Reply::Unfit(_) if !output.exit.success() => {
            Err(GraderFailure::Failed(describe_exit(output, "")))
        }
        Reply::Result(text) => parse_json_strictly(&text)
            .map_err(|error| GraderFailure::Failed(format!("the result is not one JSON value: {error}"))),
        Reply::Unfit(message) => Err(GraderFailure::NotAScore(message)),
        Reply::Failed(message) | Reply::NotRun(message) | Reply::Missing(message) => {
            Err(GraderFailure::Failed(message))
        }
    }
}

/// Refuses a number that would be read as a whole one: 0.99999999999999999999 is not 1.
fn check_rounding(output: &str) -> Result<(), GraderFailure> {
    match rounded_to_whole(output) {
        Some(number) => {
            let number: String = number.chars().take(24).collect();
            Err(GraderFailure::NotAScore(format!(
                "the number {number} has a fraction that would be lost"
            )))
        }
        None => Ok(()),
    }
}

/// Why the score in an output that is not JSON is none: there is no output, or there stands `NaN`, `Infinity` or another
/// word in its place. `None`: the output cannot be read.
fn not_a_score(output: &str) -> Option<String> {
    if output.trim().is_empty() {
        return Some("standard output is empty, so there is no score".to_owned());
    }
    match parse_json_strictly(&quote_words(output)).ok()? {
        Value::String(word) => Some(format!("the result is `{word}`, not a number")),
        Value::Object(fields) => match fields.get("score") {
            Some(Value::String(word)) => Some(format!("`score` is `{word}`, not a number")),
            _ => None,
        },
        _ => None,
    }
}

/// Puts words that JSON does not have into quotes, outside of texts.
fn quote_words(output: &str) -> String {
    let mut quoted = String::with_capacity(output.len() + 2);
    let mut word = String::new();
    let end_word = |word: &mut String, quoted: &mut String| {
        let is_json = word.is_empty() || serde_json::from_str::<Value>(word).is_ok();
        let mark = if is_json { "" } else { "\"" };
        quoted.push_str(mark);
        quoted.push_str(word);
        quoted.push_str(mark);
        word.clear();
    };
    let (mut in_text, mut is_escaped) = (false, false);
    for character in output.chars() {
        if !in_text && (character.is_alphanumeric() || "+-._".contains(character)) {
            word.push(character);
            continue;
        }
        end_word(&mut word, &mut quoted);
        quoted.push(character);
        if character == '"' && !is_escaped {
            in_text = !in_text;
        }
        is_escaped = in_text && character == '\\' && !is_escaped;
    }
    end_word(&mut word, &mut quoted);
    quoted
}

fn describe(failure: Failure) -> String {
    match failure {
        Failure::Unavailable(reason) => reason,
        Failure::Cancelled => "cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_in_the_place_of_a_score_is_no_score_and_everything_else_cannot_be_read() {
        for (output, reason) in [
            ("", "standard output is empty, so there is no score"),
            ("\n", "standard output is empty, so there is no score"),
            ("NaN\n", "the result is `NaN`, not a number"),
            ("-Infinity", "the result is `-Infinity`, not a number"),
            ("1e999", "the result is `1e999`, not a number"),
            ("None", "the result is `None`, not a number"),
            ("{\"score\": NaN}", "`score` is `NaN`, not a number"),
            (
                "{\"reason\": \"a \\\" b\", \"score\": inf}",
                "`score` is `inf`, not a number",
            ),
        ] {
            assert_eq!(not_a_score(output).as_deref(), Some(reason), "{output}");
        }
        for output in [
            "two words",
            "{\"score\": 1} {\"score\": 0}",
            "{\"score\": NaN, \"score\": 1}",
            "{\"score\": 1, \"details\": {\"x\": NaN}}",
            "{\"score\": 1,}",
            "[NaN]",
            "{\"score",
        ] {
            assert_eq!(not_a_score(output), None, "{output}");
        }
    }
}
