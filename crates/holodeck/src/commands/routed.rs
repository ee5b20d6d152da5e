//! Commands: an agent with `routing:` or `quality_loop:`, ready to execute them.

mod legacy;
mod plan;
mod record;
mod refine;
mod settings;
mod skills;
mod specialists;
mod tools;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use holodeck_backend_api::Occasion;
use holodeck_model::{Agent, CommandContext, Env, ExecutorKind, Redactor, ResolvedAgent};
use holodeck_orchestrator::{
    AgentChoice, AttemptDetails, ExecuteOptions, Execution, ExecutionFacade, FacadeError, FacadeSettings,
    Hook, InvalidRule, JsonLines, LoopObserver, LoopRules, QualityLoop, Refiner, Scorer, SdkExecutor,
    SdkSettings, Selector, Skills, SkillsRuntime, TelemetryRecord, TelemetrySink, TurnObserver, Verdict,
    selection_task,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::LoadedAgent;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use uuid::Uuid;

pub use legacy::MAX_DELEGATION;
pub(crate) use legacy::check_delegation;
pub use plan::RoutedPlan;
pub use record::{EXECUTION_FIELD, LOOP_STEP};
pub use settings::RoutingOverrides;

use self::{
    legacy::OpenLegacy,
    record::{Recorder, StoredRun},
    refine::{LoopRefiner, StepSlot},
    settings::RoutingSettings,
    specialists::{AgentsOfSkills, Variants},
};
use crate::{
    LoopSetupError, RefusedTarget,
    agent::{answers::redactor, targets::check_yaml_targets, telemetry},
    chat::event_store,
    commands::skills::load_own_skills,
    index::IndexSink,
    load_own_agents, snapshot_files,
};

/// Whether a question to an agent is a command: the agent has `routing:` or an enabled `quality_loop:`.
pub fn is_routed(agent: &Agent) -> bool {
    agent.routing.is_some() || agent.enabled_loop().is_some()
}

/// A new id that correlates everything that is recorded about an execution.
pub fn new_session_id() -> String {
    Uuid::new_v4().to_string()
}

/// How commands are executed.
#[derive(Clone, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct RoutedOptions {
    /// Settings of the caller in place of the environment and the YAML.
    pub overrides: RoutingOverrides,
    /// Whether a command was named: it is routed, also without `routing:`.
    pub names_command: bool,
    /// Overrides the time limit of a turn.
    pub timeout: Option<Duration>,
    /// Receives the progress of building indexes.
    pub on_index: IndexSink,
    /// Observe executions.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Scores answers, in place of the scorer of `quality_loop:`.
    pub scorer: Option<Arc<dyn Scorer>>,
    /// Observes the iterations of the loop.
    pub on_iteration: Option<LoopObserver>,
    /// The score that is good enough, in place of that of the YAML.
    pub threshold: Option<f64>,
    /// How many answers are scored at most, in place of that of the YAML.
    pub max_iterations: Option<u32>,
    /// Where scripts of skills run that a model calls.
    pub folder: Option<PathBuf>,
}

impl fmt::Debug for RoutedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedOptions")
            .field("overrides", &self.overrides)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Why a command could not be executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoutedError {
    /// Nothing executes it.
    #[error(transparent)]
    NoExecutor(#[from] FacadeError),
    /// A file of the YAML must not be written.
    #[error(transparent)]
    Target(#[from] RefusedTarget),
    /// The file of `telemetry.jsonl` cannot be written.
    #[error("cannot write `telemetry.jsonl` (`{}`): {source}", path.display())]
    Telemetry {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A rule of `quality_loop:` is outside of its range.
    #[error("`quality_loop`: {0}")]
    Rule(#[from] InvalidRule),
    /// The quality loop cannot be used.
    #[error(transparent)]
    QualityLoop(#[from] LoopSetupError),
}

/// A command that was executed and stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoutedExecution {
    /// How it was executed.
    pub execution: Execution,
    /// The run in the store of events; absent if it could not be stored.
    pub run_id: Option<String>,
}

/// An agent that executes commands. [`close`](Self::close) it.
pub struct RoutedAgent {
    variants: Arc<Variants>,
    facade: FacadeSettings,
    sdk: Option<SdkExecutor>,
    open_legacy: OpenLegacy,
    redactor: Arc<Redactor>,
    telemetry: Telemetry,
    /// Whether another agent delegates to this one.
    is_nested: bool,
    /// Receives the steps of the loop.
    steps: StepSlot,
}

impl RoutedAgent {
    /// Reads the agent's specialists and skills. Nothing is started before a command needs it.
    pub fn new(agent: LoadedAgent, env: &Env, options: &RoutedOptions) -> Result<Self, RoutedError> {
        let own = std::fs::canonicalize(&agent.path).unwrap_or_else(|_| agent.path.clone());
        Self::nested(agent, env, options, &[own])
    }

    /// The same for an agent to which those of `stack` delegate; the last one is itself.
    pub(crate) fn nested(
        agent: LoadedAgent,
        env: &Env,
        options: &RoutedOptions,
        stack: &[PathBuf],
    ) -> Result<Self, RoutedError> {
        let is_nested = stack.len() > 1;
        let redactor = redactor(&agent, env);
        let telemetry = if is_nested {
            Telemetry::off()
        } else {
            telemetry::start(&agent, Occasion::Run, env, false, Arc::clone(&redactor))
        };
        let has_agents = agent
            .config
            .routing
            .as_ref()
            .is_some_and(|routing| routing.agents.is_some());
        let agents = if has_agents { load_own_agents(&agent) } else { None };
        let skills = load_own_skills(&agent)
            .map(|loaded| loaded.skills)
            .unwrap_or_default();
        let programs = skills::programs(&agent, env, Occasion::Run);
        let selector = agents.as_ref().map(|agents| Arc::new(agents.selector()));
        let variants = Arc::new(Variants {
            folder: options.folder.clone(),
            env: env.clone(),
            agents,
            skills: skills.clone(),
            programs: programs.clone(),
            on_index: options.on_index.clone(),
            timeout: options.timeout,
            telemetry: telemetry.clone(),
            open: OnceCell::new(),
            agent,
        });
        let config = &variants.agent.config;
        let routing = config.routing.clone();
        let steps = StepSlot::default();
        let refiner = refiner(&variants, options, &steps)?;
        let settings = RoutingSettings::new(config, env, &options.overrides);
        let mut sdk = SdkSettings::default();
        sdk.enabled = settings.enabled;
        sdk.commands = settings.commands;
        sdk.evidence = config.evidence.unwrap_or_default();
        sdk.refiner.clone_from(&refiner);
        if let Some(routing) = &routing {
            sdk.min_confidence = routing.min_confidence;
            sdk.default_agent_routes = routing
                .agents
                .as_ref()
                .is_some_and(|agents| agents.default_agent_routes);
        }
        let uses_files = selector.as_ref().is_some_and(|selector| selector.uses_files());
        sdk.task = Arc::new(move |context| {
            let mut task = selection_task(context);
            if let Some(folder) = task.cwd.as_deref().filter(|_| uses_files) {
                task.files = snapshot_files(folder);
            }
            task
        });
        // Without routing the agent answers itself, unless a command was named and there is no loop either.
        let is_own = routing.is_none() && (!options.names_command || refiner.is_some() || is_nested);
        let choice = if is_own {
            AgentChoice::Own(config.name.clone())
        } else {
            AgentChoice::Selected(selector.map(|selector| selector as Arc<dyn Selector>))
        };
        let sdk = SdkExecutor::new(sdk, choice, Arc::clone(&variants) as _);
        let open_legacy = OpenLegacy::default();
        let mut facade = FacadeSettings::default();
        facade.evidence = config.evidence.unwrap_or_default();
        facade.sdk = Some(sdk.clone());
        if let Some(routing) = &routing {
            facade.chain.clone_from(&routing.chain);
            facade.after_side_effects = routing.fallback.after_side_effects;
            facade.fallback_on_error = routing
                .skills
                .as_ref()
                .is_some_and(|skills| skills.fallback_on_error);
            if routing.skills.is_some() {
                let agents = Arc::new(AgentsOfSkills(Arc::clone(&variants)));
                facade.skills =
                    Some(Arc::new(Skills::new(skills, programs, agents)) as Arc<dyn SkillsRuntime>);
            }
        }
        facade.legacy = legacy::legacy(&variants, options, stack, &open_legacy);
        facade.hooks.clone_from(&options.hooks);
        check_yaml_targets(&variants.agent, &variants.env)?;
        facade.telemetry = sinks(&variants.agent, &redactor, &telemetry)?;
        let has_sdk = facade.chain.contains(&ExecutorKind::Sdk);
        Ok(Self {
            variants,
            facade,
            sdk: Some(sdk).filter(|_| has_sdk),
            open_legacy,
            redactor,
            telemetry,
            is_nested,
            steps,
        })
    }

    /// The agent.
    pub fn agent(&self) -> &Arc<ResolvedAgent> {
        &self.variants.agent.agent
    }

    /// Executes a command for another agent, and closes this one. Boxed, because agents are nested.
    fn execute_nested(
        self,
        context: &CommandContext,
        options: ExecuteOptions,
    ) -> BoxFuture<'_, Result<RoutedExecution, RoutedError>> {
        Box::pin(async move {
            let execution = self.execute(context, &options).await;
            self.close().await;
            execution
        })
    }

    /// Executes a command and stores the run.
    pub async fn execute(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
    ) -> Result<RoutedExecution, RoutedError> {
        refine::refuse_repeated_side_effects(&self.variants).await?;
        if self.is_nested {
            let facade = ExecutionFacade::new(self.facade.clone());
            let execution = facade.execute_explained(context, options).await?;
            return Ok(RoutedExecution {
                execution,
                run_id: None,
            });
        }
        let run_id = Uuid::new_v4().to_string();
        let (recorder, recorded) = Recorder::new();
        let (stepped, redactor) = (Arc::downgrade(&recorder), Arc::clone(&self.redactor));
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(move |rules, step| {
            if let Some(recorder) = stepped.upgrade() {
                recorder.step(rules, step, &redactor);
            }
        }));
        let mut settings = self.facade.clone();
        settings.turns = Some(Arc::clone(&recorder) as Arc<dyn TurnObserver>);
        let facade = ExecutionFacade::new(settings);
        let task = context.command.task();
        let agent = self.agent();
        let run = StoredRun {
            agent,
            session_id: &context.session_id,
            run_id: &run_id,
            task: &task,
            redactor: &self.redactor,
        };
        let execute = async {
            let outcome = facade.execute_explained(context, options).await;
            self.end_run(&recorder, context, &outcome);
            outcome
        };
        let store = async {
            let path = event_store::event_store_path(&agent.path, Some(&agent.config));
            match event_store::open_event_store(&path).await {
                Ok(store) => {
                    let problem = record::record(&store, &run, &recorder, recorded).await;
                    let closed = store.close().await;
                    problem.or_else(|| closed.err().map(|error| error.to_string()))
                }
                Err(error) => Some(error.to_string()),
            }
        };
        let (outcome, problem) = futures::future::join(execute, store).await;
        if let Some(reason) = &problem {
            tracing::warn!(target: "holodeck::routing", reason, "the run is not stored");
        }
        Ok(RoutedExecution {
            execution: outcome?,
            run_id: problem.is_none().then_some(run_id),
        })
    }

    fn end_run(
        &self,
        recorder: &Recorder,
        context: &CommandContext,
        outcome: &Result<Execution, FacadeError>,
    ) {
        let (mut details, answer, error, was_streamed) = match outcome {
            Ok(execution) => {
                let answer = execution.result.output.get("output").map(output_text);
                let error = match execution.verdict {
                    Verdict::Failed(_) | Verdict::Blocked | Verdict::Cancelled => {
                        Some(execution.result.errors.join("; "))
                    }
                    _ => None,
                };
                let was_streamed = execution.mode == Some(ExecutorKind::Sdk);
                let details = execution_json(context, execution);
                (details, answer, error, was_streamed)
            }
            Err(error) => {
                let attempt = match error {
                    FacadeError::NoExecutor { attempt, .. } => attempt.as_deref(),
                    _ => None,
                };
                let details =
                    json!({"command": context.command, "attempt": attempt, "error": error.to_string()});
                (details, None, Some(error.to_string()), false)
            }
        };
        self.redactor.mask_value(&mut details);
        recorder.end(
            answer.as_deref(),
            was_streamed,
            error.as_deref(),
            json!({EXECUTION_FIELD: details}),
        );
    }

    /// Returns the plan of a command. Nothing is started or asked.
    pub async fn plan(&self, context: &CommandContext, options: &ExecuteOptions) -> RoutedPlan {
        let details: Option<AttemptDetails> = match &self.sdk {
            Some(sdk) => Some(sdk.explain(context, options).await),
            None => None,
        };
        plan::plan(&self.variants, &self.facade, context, details)
    }

    /// Masks secrets in a value, as in everything that is written.
    pub fn mask(&self, value: &mut Value) {
        self.redactor.mask_value(value);
    }

    /// Ends everything that was started, and waits for it.
    pub async fn close(self) {
        let Self {
            variants,
            facade,
            sdk,
            mut open_legacy,
            telemetry,
            ..
        } = self;
        drop((facade, sdk));
        open_legacy.close().await;
        if let Some(open) = Arc::into_inner(variants).and_then(|variants| variants.open.into_inner())
            && let Err(error) = open.close_traced().await
        {
            tracing::warn!(target: "holodeck::routing", %error, "the agent did not end cleanly");
        }
        telemetry::finish(&telemetry).await;
    }
}

/// The text of an output.
fn output_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Everything about an execution, as it is stored and explained.
pub fn execution_json(context: &CommandContext, execution: &Execution) -> Value {
    json!({
        "command": context.command,
        "mode": execution.mode.map(ExecutorKind::as_str),
        "result": execution.result,
        "details": execution.attempt,
        "failed_executors": execution.failed,
        "hooks": execution.hooks,
    })
}

/// The loop of an agent.
fn refiner(
    variants: &Arc<Variants>,
    options: &RoutedOptions,
    steps: &StepSlot,
) -> Result<Option<Arc<dyn Refiner>>, RoutedError> {
    let Some(config) = variants.agent.config.enabled_loop() else {
        return Ok(None);
    };
    let mut rules = LoopRules::of(config);
    rules.threshold = options.threshold.unwrap_or(rules.threshold);
    rules.max_iterations = options.max_iterations.unwrap_or(rules.max_iterations);
    let quality = QualityLoop::new(rules)?;
    Ok(Some(Arc::new(LoopRefiner {
        quality,
        scorer: options.scorer.clone(),
        variants: Arc::clone(variants),
        observer: options.on_iteration.clone(),
        steps: Arc::clone(steps),
    })))
}

/// The sinks of `telemetry:` and `observability:`.
fn sinks(
    agent: &LoadedAgent,
    redactor: &Arc<Redactor>,
    telemetry: &Telemetry,
) -> Result<Vec<Arc<dyn TelemetrySink>>, RoutedError> {
    let mut sinks: Vec<Arc<dyn TelemetrySink>> = Vec::new();
    if let Some(path) = agent
        .config
        .telemetry
        .as_ref()
        .and_then(|telemetry| telemetry.jsonl.as_ref())
    {
        let path = agent.resolve(Path::new(path));
        let file = JsonLines::open(&path, Arc::clone(redactor));
        let file = file.map_err(|source| RoutedError::Telemetry { path, source })?;
        sinks.push(Arc::new(file));
    }
    if telemetry.is_on() {
        sinks.push(Arc::new(Spans(telemetry.clone())));
    }
    Ok(sinks)
}

/// Exports events about commands as spans.
struct Spans(Telemetry);

impl TelemetrySink for Spans {
    fn record(&self, record: &TelemetryRecord) -> io::Result<()> {
        self.0.command_event(record.event.as_str(), &record.payload);
        Ok(())
    }
}
