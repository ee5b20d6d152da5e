//! Executors for commands that nothing else executes: a program, or an agent of another provider.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use holodeck_process::{ChildEnv, ProcessError, ProcessSpec, run};
use serde_json::Value;

use crate::{
    chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, LegacyExecutor},
    watch::ReadyAgent,
};

/// Runs a program.
///
/// ```
/// use holodeck_orchestrator::{LegacyProgram, process::ChildEnv};
///
/// let program = LegacyProgram {
///     command: vec!["cat".to_owned()],
///     folder: ".".into(),
///     env: ChildEnv::inherit(&["PATH"], |name| std::env::var_os(name)),
///     limit: std::time::Duration::from_secs(10),
/// };
/// ```
///
/// It gets the command as JSON on its standard input; what it writes to standard output is the answer, a
/// JSON object as its fields and everything else as text.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LegacyProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs if the command has no working directory.
    pub folder: PathBuf,
    /// The variables it gets.
    pub env: ChildEnv,
    /// How long it may run.
    pub limit: Duration,
}

#[async_trait]
impl LegacyExecutor for LegacyProgram {
    async fn execute(&self, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(ExecutorFailure::broken("`routing.legacy.command` is empty"));
        };
        let input = serde_json::to_vec(&call.context).unwrap_or_default();
        let folder = call.context.cwd.as_deref().unwrap_or(&self.folder);
        // A program with a folder in its name is relative to the agent file.
        let path = if program.contains('/') {
            self.folder.join(program)
        } else {
            PathBuf::from(program)
        };
        let spec = ProcessSpec::new(path, self.env.clone())
            .args(arguments)
            .current_dir(folder)
            .stdin(input)
            .timeout(self.limit);
        match run(&spec, &call.cancel).await {
            Ok(output) if output.exit.success() => Ok(program_output(&output.stdout)),
            Ok(output) => {
                let last = output.stderr.lines().rev().find(|line| !line.trim().is_empty());
                let reason = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
                Err(ExecutorFailure::failed(format!(
                    "`{program}` failed: {}{reason}",
                    output.exit
                )))
            }
            Err(ProcessError::Cancelled) => Err(ExecutorFailure::cancelled()),
            Err(error) => Err(ExecutorFailure::broken(format!(
                "`{program}` could not be run: {error}"
            ))),
        }
    }
}

/// The output of a program: the fields of a JSON object, or text.
pub(crate) fn program_output(stdout: &[u8]) -> ExecutorOutput {
    if let Ok(Value::Object(output)) = serde_json::from_slice(stdout) {
        return ExecutorOutput {
            output,
            ..ExecutorOutput::default()
        };
    }
    let text = String::from_utf8_lossy(stdout);
    ExecutorOutput::text(text.strip_suffix('\n').unwrap_or(&text))
}

/// Asks an agent: the task of the command is the message.
pub struct LegacyAgent {
    /// Opens it.
    open: Box<dyn LegacyOpening>,
}

/// Opens an agent when a command needs it.
#[async_trait]
pub trait LegacyOpening: Send + Sync {
    /// The agent and its name.
    async fn open(&self) -> Result<(ReadyAgent, String), ExecutorFailure>;
}

impl LegacyAgent {
    /// The agent that `open` opens.
    pub fn new(open: Box<dyn LegacyOpening>) -> Self {
        Self { open }
    }
}

#[async_trait]
impl LegacyExecutor for LegacyAgent {
    async fn execute(&self, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        let (agent, name) = self.open.open().await?;
        let result = call.ask(&agent, &call.context.command.task()).await?;
        let mut answer = ExecutorOutput::of_agent(result);
        answer.agents.push(name);
        answer.evidence = Some(call.evidence());
        Ok(answer)
    }
}
