//! The executor of `routing.legacy`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::BackendError;
use holodeck_model::{Code, Diagnostic, DiskFiles, Env, ResolvedAgent, Severity};
use holodeck_orchestrator::{
    ExecuteOptions, ExecutorCall, ExecutorFailure, ExecutorOutput, FailureClass, KnownTools, LegacyAgent,
    LegacyExecutor, LegacyOpening, LegacyProgram, ReadyAgent, Verdict,
};
use holodeck_process::{BASE_VARIABLES, ChildEnv};
use holodeck_yaml::{Load, LoadedAgent};
use tokio::sync::OnceCell;

use super::{RoutedAgent, RoutedOptions, specialists::Variants};
use crate::{OpenAgent, Specialist, agent::turns::turn_runner, load};

/// How many agents may delegate to each other in a row.
pub const MAX_DELEGATION: usize = 5;

/// The agent file to which an agent delegates.
pub(super) fn delegate(agent: &ResolvedAgent) -> Option<PathBuf> {
    let routing = agent.config.routing.as_ref()?;
    Some(routing.legacy.as_ref()?.agent.as_ref()?.path())
}

fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The agents to which an agent delegates, directly or by way of others, as far as they can be loaded.
pub(crate) fn delegates(agent: &ResolvedAgent, env: &Env) -> Vec<LoadedAgent> {
    let mut paths = vec![canonical(&agent.path)];
    let mut agents = Vec::new();
    let mut next = delegate(agent);
    while let Some(path) = next.take().map(|path| canonical(&path)) {
        if paths.contains(&path) || paths.len() > MAX_DELEGATION {
            break;
        }
        let Some(loaded) = load(&path, env).agent else {
            break;
        };
        next = delegate(&loaded);
        paths.push(path);
        agents.push(loaded);
    }
    agents
}

/// Reports an agent that delegates to itself, directly or by way of others: nothing would ever answer.
pub(crate) fn check_delegation(load: &mut Load, env: &Env) {
    let Some(agent) = &load.agent else { return };
    let mut chain = vec![canonical(&agent.path)];
    let mut next = delegate(agent).map(|path| canonical(&path));
    while let Some(path) = next.take().filter(|_| chain.len() <= MAX_DELEGATION) {
        if chain.contains(&path) {
            let way = match chain.len() {
                1 => String::new(),
                _ => format!(" by way of {}", shown(chain.get(1..).unwrap_or_default())),
            };
            let message = format!("`{}` delegates to itself{way}", file_name(&path));
            let field = "routing.legacy.agent";
            let error = Diagnostic::error(Code::InconsistentValues, message)
                .at(agent.locate(field))
                .about(field)
                .with_help("name another agent file, or remove `legacy`");
            load.diagnostics.push(error);
            return;
        }
        let loaded = holodeck_yaml::load_agent(&path, env, &DiskFiles);
        next = loaded
            .agent
            .and_then(|other| delegate(&other))
            .map(|path| canonical(&path));
        chain.push(path);
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn shown(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| format!("`{}`", file_name(path)));
    names.collect::<Vec<_>>().join(" and ")
}

/// The open parts of the legacy executor.
#[derive(Clone, Default)]
pub(super) struct OpenLegacy(Arc<OnceCell<OpenAgent>>);

impl OpenLegacy {
    pub(super) async fn close(&self) {
        if let Some(open) = self.0.get() {
            // Its answer is there already.
            let _ = open.close_traced().await;
        }
    }
}

/// The executor that the YAML configures.
pub(super) fn legacy(
    variants: &Arc<Variants>,
    options: &RoutedOptions,
    stack: &[PathBuf],
    open: &OpenLegacy,
) -> Option<Arc<dyn LegacyExecutor>> {
    let agent = &variants.agent;
    let legacy = agent.config.routing.as_ref()?.legacy.clone()?;
    if let Some(command) = legacy.command {
        return Some(Arc::new(LegacyProgram {
            command,
            folder: absolute(agent.dir.clone()),
            env: ChildEnv::inherit(BASE_VARIABLES, |name| variants.env.get(name)),
            limit: options.timeout.unwrap_or(agent.execution.llm_timeout.value),
        }));
    }
    if let Some(model) = legacy.backend {
        let specialist = Specialist {
            model,
            instructions: agent.instructions.text.clone(),
            response_format: agent.response_format.clone(),
        };
        return Some(Arc::new(LegacyAgent::new(Box::new(OtherModel {
            variants: Arc::clone(variants),
            specialist,
            open: open.clone(),
        }))));
    }
    let path = legacy.agent?.path();
    Some(Arc::new(OtherAgent {
        path,
        delegating: Arc::clone(variants),
        env: variants.env.clone(),
        options: options.clone(),
        stack: stack.to_vec(),
    }))
}

fn absolute(path: PathBuf) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        path
    };
    std::path::absolute(&path).unwrap_or(path)
}

/// Another model with the agent's instructions.
struct OtherModel {
    variants: Arc<Variants>,
    specialist: Specialist,
    open: OpenLegacy,
}

#[async_trait]
impl LegacyOpening for OtherModel {
    async fn open(&self) -> Result<(ReadyAgent, String), ExecutorFailure> {
        let variants = &*self.variants;
        let name = self.specialist.model.name.clone();
        let broken = |error: String| ExecutorFailure::broken(format!("`routing.legacy.backend`: {error}"));
        if !variants.owns_open {
            // It shares the answers, limits and prices of the agent that is open.
            let ready = self.shared(variants).await;
            return Ok((ready.map_err(|error| broken(error.to_string()))?, name));
        }
        let agent = Arc::new(self.specialist.clone().of(&variants.agent));
        let loaded = LoadedAgent {
            agent: Arc::clone(&agent),
            places: holodeck_yaml::Places::default(),
        };
        let open = || async {
            let checked = variants.check(loaded)?.require_keys()?;
            checked.open_traced(variants.telemetry.clone()).await
        };
        let open = self.open.0.get_or_try_init(open).await;
        let open = open.map_err(|error| broken(error.to_string()))?;
        let backend = open.backend().map_err(|error| broken(error.to_string()))?;
        let prices = open.backends().price_list().clone();
        let turns = turn_runner(&agent, &variants.env, variants.timeout, prices);
        let turns = turns.map_err(|error| broken(error.to_string()))?;
        let ready = ReadyAgent {
            backend: Arc::clone(backend),
            turns,
            tools: KnownTools::default(),
        };
        Ok((ready, name))
    }
}

impl OtherModel {
    /// The model as another task of the agent that is open.
    async fn shared(&self, variants: &Variants) -> Result<ReadyAgent, BackendError> {
        let open = variants.opened().await?;
        let backend = open
            .specialist(self.specialist.clone(), variants.occasion.0)
            .await?;
        let agent = self.specialist.clone().of(&variants.agent);
        let prices = open.backends().price_list().clone();
        let turns = turn_runner(&agent, &variants.env, variants.timeout, prices);
        Ok(ReadyAgent {
            backend,
            turns: turns.map_err(|error| BackendError::init(error.to_string()))?,
            tools: KnownTools::default(),
        })
    }
}

/// The agent itself, for plain messages that no specialist takes.
pub(super) struct Itself(pub(super) Arc<Variants>);

#[async_trait]
impl LegacyOpening for Itself {
    async fn open(&self) -> Result<(ReadyAgent, String), ExecutorFailure> {
        let ready = Box::pin(self.0.own(None)).await;
        let ready = ready.map_err(|error| ExecutorFailure::from(&error))?;
        Ok((ready, self.0.agent.config.name.clone()))
    }
}

/// Another agent file.
struct OtherAgent {
    path: PathBuf,
    /// The agent that delegates to it.
    delegating: Arc<Variants>,
    env: Env,
    options: RoutedOptions,
    stack: Vec<PathBuf>,
}

#[async_trait]
impl LegacyExecutor for OtherAgent {
    async fn execute(&self, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        let shown = self.path.display();
        let path = canonical(&self.path);
        if self.stack.contains(&path) {
            return Err(ExecutorFailure::broken(format!(
                "`{shown}` delegates to itself, directly or by way of another agent"
            )));
        }
        if self.stack.len() >= MAX_DELEGATION {
            return Err(ExecutorFailure::broken(format!(
                "more than {MAX_DELEGATION} agents delegate to each other"
            )));
        }
        // What the environment names is a setting of the first agent.
        let loaded = load(&self.path, &self.env);
        let problem = loaded
            .diagnostics
            .iter()
            .find(|found| found.severity == Severity::Error);
        if let Some(problem) = problem {
            let place = problem.primary.as_ref().map(|place| format!(" ({place})"));
            let message = format!("`{shown}`: {}{}", problem.message, place.unwrap_or_default());
            return Err(ExecutorFailure::broken(message));
        }
        let Some(agent) = loaded.agent else {
            return Err(ExecutorFailure::broken(format!("`{shown}` is not an agent")));
        };
        let name = agent.config.name.clone();
        let mut stack = self.stack.clone();
        stack.push(path);
        let broken = |error: String| ExecutorFailure::broken(format!("`{shown}`: {error}"));
        let nested = RoutedAgent::nested(agent, &self.env, &self.options, (&stack, &self.delegating));
        let nested = nested.map_err(|error| broken(error.to_string()))?;
        let options = ExecuteOptions {
            cancel: call.cancel.clone(),
            message: call.message(),
            ..ExecuteOptions::default()
        };
        let execution = nested
            .execute_nested(&call.context, options, call.observer())
            .await;
        let execution = execution.map_err(|error| broken(error.to_string()))?;
        let evidence = execution.evidence;
        let result = execution.result;
        match execution.verdict {
            // It answered; whether the answer is good enough is its verdict here too.
            verdict @ (Verdict::Done
            | Verdict::BelowThreshold
            | Verdict::Unscored
            | Verdict::MissingEvidence) => {
                let mut agents = result.agents_used;
                if !agents.contains(&name) {
                    agents.insert(0, name);
                }
                Ok(ExecutorOutput {
                    output: result.output,
                    agents,
                    evidence: Some(evidence),
                    verdict,
                    errors: result.errors,
                })
            }
            verdict @ (Verdict::Failed(_) | Verdict::Blocked | Verdict::Cancelled) => Err(ExecutorFailure {
                message: format!("`{shown}`: {}", result.errors.join("; ")),
                kind: match verdict {
                    Verdict::Failed(kind) => kind,
                    Verdict::Cancelled => FailureClass::Cancelled,
                    Verdict::Blocked => FailureClass::Broken,
                    _ => FailureClass::Failed,
                },
                has_side_effects: false,
            }),
        }
    }
}
