//! Skills: as an executor of commands, and as tools that are offered to a backend.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use holodeck_backend_api::{
    ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, CallDetails, CallRefusal,
    SideEffects, Tool, ToolCall, ToolCx, ToolError, ToolKind, ToolOutput, ToolResult, ToolSpec,
};
use holodeck_model::SkillDoc;
use holodeck_process::{ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, SkillsRuntime},
    legacy::program_output,
    quality::data_block,
    watch::ReadyAgent,
};

/// How the scripts of skills are run.
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct SkillPrograms {
    /// The variables they get.
    pub env: ChildEnv,
    /// How long one may run.
    pub limit: Duration,
    /// Decides whether one may run, as the tool `skill__<name>`.
    pub approver: Arc<dyn Approver>,
}

/// Opens the backend that follows the instructions of a skill.
#[async_trait]
pub trait SkillAgents: Send + Sync {
    /// The agent with the tools that the skill allows.
    async fn open(&self, skill: &SkillDoc) -> Result<ReadyAgent, BackendError>;
}

/// Skills that execute commands: the one with the name of the command.
pub struct Skills {
    docs: Vec<SkillDoc>,
    programs: SkillPrograms,
    agents: Arc<dyn SkillAgents>,
}

impl Skills {
    /// These skills.
    pub fn new(skills: Vec<SkillDoc>, programs: SkillPrograms, agents: Arc<dyn SkillAgents>) -> Self {
        Self {
            docs: skills,
            programs,
            agents,
        }
    }

    async fn run_script(
        &self,
        skill: &SkillDoc,
        script: &Path,
        call: &ExecutorCall,
    ) -> Result<ExecutorOutput, ExecutorFailure> {
        let input = serde_json::to_value(&call.context).unwrap_or_default();
        let tool_call = ToolCall {
            name: skill.tool_name(),
            arguments: json!({ "command": call.context.command.name, "arguments": call.context.command.arguments }),
            call_id: format!("{}{}", ToolCall::GENERATED_ID_PREFIX, Uuid::new_v4()),
            provider_fields: None,
        };
        call.observe(&BackendEvent::ToolCall(tool_call.clone()));
        let started = Instant::now();
        let ran = match may_run(&*self.programs.approver, &tool_call) {
            Ok(()) => {
                let folder = call.context.cwd.clone();
                let job = Job {
                    skill,
                    script,
                    arguments: &call.context.command.arguments,
                    input: &input,
                    folder,
                };
                self.programs.run(&job, &call.cancel).await
            }
            Err(reason) => Err(Refused::Rejected(reason)),
        };
        let (text, is_error, refused) = match &ran {
            Ok(output) if output.exit.success() => {
                (String::from_utf8_lossy(&output.stdout).into_owned(), false, None)
            }
            Ok(output) => (describe_exit(output), true, None),
            Err(Refused::Rejected(reason)) => (reason.clone(), true, Some(CallRefusal::Rejected)),
            Err(Refused::Process(error)) => (error.to_string(), true, None),
        };
        let has_started = match &ran {
            Ok(_) => true,
            Err(Refused::Rejected(_)) => false,
            Err(Refused::Process(error)) => !error.is_before_start(),
        };
        call.observe(&BackendEvent::ToolResult(ToolResult {
            call_id: tool_call.call_id,
            name: tool_call.name,
            result: text.clone(),
            is_error,
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            details: CallDetails {
                refused,
                kind: Some(ToolKind::Function),
                side_effects: Some(if has_started {
                    SideEffects::Possible
                } else {
                    SideEffects::None
                }),
                ..CallDetails::default()
            },
        }));
        let name = &skill.name;
        let after_start = |failure: ExecutorFailure| ExecutorFailure {
            has_side_effects: has_started,
            ..failure
        };
        match ran {
            Ok(output) if output.exit.success() => {
                let mut answer = program_output(&output.stdout);
                answer.evidence = Some(call.evidence());
                answer.output.insert("skill".to_owned(), json!(name));
                Ok(answer)
            }
            Ok(_) => Err(after_start(ExecutorFailure::failed(format!(
                "the skill `{name}` failed: {text}"
            )))),
            Err(Refused::Rejected(reason)) => Err(ExecutorFailure::failed(format!(
                "the skill `{name}` may not run: {reason}"
            ))),
            Err(Refused::Process(ProcessError::Cancelled)) => Err(ExecutorFailure::cancelled()),
            Err(Refused::Process(error)) => {
                let what = if has_started {
                    "did not end"
                } else {
                    "could not be run"
                };
                let message = format!("the skill `{name}` {what}: {error}");
                Err(after_start(ExecutorFailure::broken(message)))
            }
        }
    }
}

#[async_trait]
impl SkillsRuntime for Skills {
    fn find(&self, command: &str) -> Option<String> {
        let mut skills = self.docs.iter();
        let skill = skills.find(|skill| skill.name.eq_ignore_ascii_case(command))?;
        Some(skill.name.clone())
    }

    async fn execute(&self, skill: &str, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        let Some(skill) = self.docs.iter().find(|known| known.name == skill) else {
            return Err(ExecutorFailure::broken(format!("there is no skill `{skill}`")));
        };
        if let Some(script) = &skill.script {
            return self.run_script(skill, script, call).await;
        }
        let agent = self.agents.open(skill).await;
        let agent = agent.map_err(|error| {
            ExecutorFailure::broken(format!("the skill `{}` could not be run: {error}", skill.name))
        })?;
        let prompt = skill_prompt(skill, &call.context.command.task());
        let result = call
            .ask(&agent, &prompt)
            .await
            .map_err(|failure| ExecutorFailure {
                message: format!("the skill `{}` failed: {}", skill.name, failure.message),
                ..failure
            })?;
        let mut answer = ExecutorOutput::of_agent(result);
        answer.evidence = Some(call.evidence());
        answer.output.insert("skill".to_owned(), json!(skill.name));
        Ok(answer)
    }
}

/// The task together with the instructions of a skill.
fn skill_prompt(skill: &SkillDoc, task: &str) -> String {
    format!(
        "Follow the skill `{}` to do the task at the end. Files that it names are in `{}`.\n\n{}\n\nTask: {task}",
        skill.name,
        skill.folder.display(),
        data_block(&skill.instructions)
    )
}

/// Why a script has no output.
enum Refused {
    Rejected(String),
    Process(ProcessError),
}

/// The input of a script.
struct Job<'a> {
    skill: &'a SkillDoc,
    script: &'a Path,
    arguments: &'a [String],
    input: &'a Value,
    folder: Option<PathBuf>,
}

impl SkillPrograms {
    async fn run(&self, job: &Job<'_>, cancel: &CancellationToken) -> Result<ProcessOutput, Refused> {
        let mut env = self.env.clone();
        env.set("HOLODECK_SKILL_DIR", &job.skill.folder);
        let (program, first) = interpreter(job.script);
        let mut spec = ProcessSpec::new(program, env)
            .args(first)
            .args(job.arguments)
            .stdin(job.input.to_string().into_bytes())
            .timeout(self.limit);
        spec = spec.current_dir(job.folder.as_deref().unwrap_or(&job.skill.folder));
        run(&spec, cancel).await.map_err(Refused::Process)
    }
}

/// The program that runs a script, and its first argument: a file that is not executable by the ending of its name.
fn interpreter(script: &Path) -> (PathBuf, Option<PathBuf>) {
    let script = std::path::absolute(script).unwrap_or_else(|_| script.to_owned());
    let is_executable = fs::metadata(&script).is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    let program = match script.extension().and_then(|extension| extension.to_str()) {
        Some("py") => "python3",
        Some("js") => "node",
        Some("sh") => "sh",
        _ => return (script, None),
    };
    if is_executable {
        return (script, None);
    }
    (PathBuf::from(program), Some(script))
}

fn describe_exit(output: &ProcessOutput) -> String {
    let last = output.stderr.lines().rev().find(|line| !line.trim().is_empty());
    match last {
        Some(line) => format!("{}: {}", output.exit, line.trim()),
        None => output.exit.to_string(),
    }
}

/// Asks the policy; a question to a person is a refusal, because there is none.
fn may_run(approver: &dyn Approver, call: &ToolCall) -> Result<(), String> {
    let ruling = approver.decide(&ApprovalAsk::about(call));
    match ruling.map(|ruling| ruling.decision) {
        Some(ApprovalDecision::Approve { .. }) => Ok(()),
        Some(ApprovalDecision::Reject { reason } | ApprovalDecision::Terminate { reason }) => Err(reason),
        _ => Err(format!(
            "`{}` needs approval, and no person is available to give it",
            call.name
        )),
    }
}

/// A skill as a tool of a backend, which decides about calls by itself. Without a script, a call returns the instructions.
pub struct SkillTool {
    skill: SkillDoc,
    spec: ToolSpec,
    programs: SkillPrograms,
    folder: Option<PathBuf>,
}

impl SkillTool {
    /// The tool; a script runs in `folder`.
    pub fn new(skill: SkillDoc, programs: SkillPrograms, folder: Option<PathBuf>) -> Self {
        let has_script = skill.script.is_some();
        let purpose = if has_script {
            skill.description.clone()
        } else {
            format!("{} Returns instructions to follow.", skill.description)
        };
        let spec = ToolSpec {
            name: skill.tool_name(),
            description: purpose,
            parameters: if has_script {
                json!({
                    "type": "object",
                    "properties": {
                        "arguments": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "Arguments of the skill's program"
                        }
                    }
                })
            } else {
                json!({"type": "object", "properties": {}})
            },
            side_effects: if has_script {
                SideEffects::Possible
            } else {
                SideEffects::None
            },
        };
        Self {
            skill,
            spec,
            programs,
            folder,
        }
    }
}

#[async_trait]
impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let Some(script) = &self.skill.script else {
            return Ok(ToolOutput::ok(self.skill.instructions.clone()));
        };
        let words = arguments.get("arguments").and_then(Value::as_array);
        let words = words.into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<String> = words.map(ToOwned::to_owned).collect();
        let job = Job {
            skill: &self.skill,
            script,
            arguments: &words,
            input: &arguments,
            folder: self.folder.clone(),
        };
        match self.programs.run(&job, &cx.cancel).await {
            Ok(output) if output.exit.success() => Ok(ToolOutput::ok(
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )),
            Ok(output) => Ok(ToolOutput::error(describe_exit(&output))),
            Err(Refused::Process(ProcessError::Cancelled)) => Err(ToolError::Cancelled),
            Err(Refused::Process(error @ ProcessError::TimedOut { .. })) => {
                Ok(ToolOutput::error(error.to_string()))
            }
            Err(Refused::Process(error)) => Err(ToolError::Unavailable {
                name: self.spec.name.clone(),
                reason: error.to_string(),
            }),
            Err(Refused::Rejected(reason)) => Ok(ToolOutput::refused(CallRefusal::Rejected, reason)),
        }
    }
}
