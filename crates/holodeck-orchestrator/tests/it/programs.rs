//! Skills and legacy executors that run programs.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_orchestrator::{
    ExecuteOptions, Execution, ExecutionFacade, FacadeSettings, FailureClass, KnownTools, LegacyProgram,
    ReadyAgent, SkillAgents, SkillPrograms, SkillTool, Skills, Verdict,
    api::{
        ApprovalAsk, ApprovalDecision, Approver, BackendError, DecidedBy, Ruling, SideEffects, Tool as _,
        ToolCx,
    },
    model::{CommandContext, SkillDoc},
};
use holodeck_process::ChildEnv;
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::bench::{context, ready};

/// Approves everything but `skill__forbidden`.
#[derive(Debug)]
struct Policy;

#[async_trait]
impl Approver for Policy {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        let decision = if ask.tool_name == "skill__forbidden" {
            ApprovalDecision::reject("a rule rejects it")
        } else {
            ApprovalDecision::approve()
        };
        Some(Ruling::new(decision, DecidedBy::Rule))
    }
}

struct Agents(ScriptedBackend);

#[async_trait]
impl SkillAgents for Agents {
    async fn open(&self, _skill: &SkillDoc) -> Result<ReadyAgent, BackendError> {
        Ok(ready(Arc::new(self.0.clone()), KnownTools::default()))
    }
}

fn env() -> ChildEnv {
    let mut env = ChildEnv::new();
    env.set("PATH", "/usr/bin:/bin");
    env
}

fn programs() -> SkillPrograms {
    SkillPrograms {
        env: env(),
        limit: Duration::from_secs(20),
        approver: Arc::new(Policy),
    }
}

fn skill(folder: &std::path::Path, name: &str, script: Option<&str>) -> SkillDoc {
    let script = script.map(|text| {
        let path = folder.join(format!("{name}.sh"));
        fs::write(&path, text).unwrap();
        path
    });
    SkillDoc {
        name: name.to_owned(),
        description: "Does it.".to_owned(),
        folder: folder.to_path_buf(),
        instructions: "Count to three.".to_owned(),
        script,
        ..SkillDoc::default()
    }
}

async fn execute(skills: Vec<SkillDoc>, command: &str, folder: PathBuf) -> Execution {
    let agents = Arc::new(Agents(ScriptedBackend::answering(|asked| {
        assert!(asked.message.contains("Count to three.") && asked.message.ends_with("Task: look at src"));
        ScriptedTurn::text("1 2 3")
    })));
    let mut settings = FacadeSettings::default();
    settings.skills = Some(Arc::new(Skills::new(skills, programs(), agents)));
    let mut context = CommandContext {
        cwd: Some(folder),
        ..context()
    };
    context.command.name = command.to_owned();
    let facade = ExecutionFacade::new(settings);
    facade
        .execute_explained(&context, &ExecuteOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_skill_with_a_script_runs_it_with_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat >input.json; printf '%s|%s|%s' \"$1\" \"$SECRET\" \"$HOLODECK_SKILL_DIR\"";
    let skills = vec![skill(folder.path(), "count", Some(script))];
    let execution = execute(skills, "COUNT", folder.path().to_path_buf()).await;
    assert!(execution.result.success, "{:?}", execution.result);
    let expected = format!("look at src||{}", folder.path().display());
    assert_eq!(execution.result.output["output"], expected);
    assert_eq!(execution.result.output["execution_mode"], "skills");
    assert_eq!(execution.result.executed_operations, ["skill__count"]);
    let input = fs::read_to_string(folder.path().join("input.json")).unwrap();
    let input: CommandContext = serde_json::from_str(&input).unwrap();
    assert_eq!(input.session_id, "session-1");
}

#[tokio::test]
async fn a_skill_that_fails_or_may_not_run_is_an_error_result() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_path_buf();
    let marker = folder.path().join("ran");
    let forbidden = format!("touch '{}'", marker.display());
    let skills = vec![
        skill(folder.path(), "bad", Some("echo 'no luck' >&2; exit 3")),
        skill(folder.path(), "forbidden", Some(&forbidden)),
    ];
    let execution = execute(skills.clone(), "bad", dir.clone()).await;
    assert_eq!(execution.verdict, Verdict::Failed(FailureClass::Failed));
    assert_eq!(execution.result.status, "error");
    assert!(
        execution.result.errors[0].contains("no luck"),
        "{:?}",
        execution.result.errors
    );
    let execution = execute(skills, "forbidden", dir).await;
    assert_eq!(execution.verdict, Verdict::Failed(FailureClass::Failed));
    assert!(execution.result.errors[0].contains("a rule rejects it"));
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_skill_without_a_script_is_context_for_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    let skills = vec![skill(folder.path(), "count", None)];
    let execution = execute(skills, "count", folder.path().to_path_buf()).await;
    assert_eq!(execution.result.output["output"], "1 2 3");
}

#[tokio::test]
async fn skills_are_tools() {
    let folder = tempfile::tempdir().unwrap();
    let with = SkillTool::new(
        skill(folder.path(), "hello", Some("printf 'hello %s' \"$1\"")),
        programs(),
        None,
    );
    assert_eq!(with.spec().name, "skill__hello");
    assert_eq!(with.spec().side_effects, SideEffects::Possible);
    let output = with
        .call(json!({"arguments": ["you"]}), ToolCx::default())
        .await
        .unwrap();
    assert_eq!((output.text.as_str(), output.is_error), ("hello you", false));
    let without = SkillTool::new(skill(folder.path(), "count", None), programs(), None);
    assert_eq!(without.spec().side_effects, SideEffects::None);
    let output = without.call(json!({}), ToolCx::default()).await.unwrap();
    assert_eq!(output.text, "Count to three.");
}

#[tokio::test]
async fn a_legacy_program_gets_the_command_and_answers_with_text_or_fields() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |script: &str| {
        let mut settings = FacadeSettings::default();
        settings.legacy = Some(Arc::new(LegacyProgram {
            command: ["sh", "-c", script].map(ToOwned::to_owned).to_vec(),
            folder: folder.path().to_path_buf(),
            env: env(),
            limit: Duration::from_secs(20),
        }));
        let facade = ExecutionFacade::new(settings);
        facade
            .execute_explained(&context(), &ExecuteOptions::default())
            .await
            .unwrap()
    };
    let execution = run("cat").await;
    assert_eq!(execution.result.output["command"]["name"], "review");
    assert_eq!(execution.result.output["execution_mode"], "legacy");
    let execution = run("echo done").await;
    assert_eq!(execution.result.output["output"], "done");
    let execution = run("echo 'cannot' >&2; exit 1").await;
    assert_eq!(execution.verdict, Verdict::Failed(FailureClass::Failed));
    assert!(execution.result.errors[0].contains("cannot"));
    assert_eq!(execution.result.output["execution_mode"], "legacy");
}
