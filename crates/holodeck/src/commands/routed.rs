//! Commands: an agent with `routing:` or `quality_loop:`, ready to execute them.

mod account;
mod executor;
mod legacy;
mod open;
mod others;
mod plan;
mod record;
mod refine;
mod router;
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
use holodeck_events::EXECUTION_FIELD;
use holodeck_model::{
    Agent, CommandContext, ExecutorKind, JsonMap, PLAIN_COMMAND, Redactor, ResolvedAgent, RoutingDecision,
    io_reason,
};
use holodeck_orchestrator::{
    ExecuteOptions, Execution, ExecutionFacade, FacadeError, FacadeSettings, Hook, InvalidRule, LegacyAgent,
    LoopObserver, Scorer, SdkExecutor, TurnObserver,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::Load;
use serde_json::{Value, json};
use uuid::Uuid;

pub use account::execution_json;
pub(crate) use executor::{ExecutorError, routed_commands};
pub use legacy::MAX_DELEGATION;
pub(crate) use legacy::{check_delegation, delegates};
pub(crate) use others::{Messages, OtherExecutors};
pub use plan::{PlannedQuestion, RoutedPlan};
pub use record::LOOP_STEP;
pub(crate) use router::task_router;
pub use settings::RoutingOverrides;

use self::{
    account::ending,
    legacy::OpenLegacy,
    record::{Recorder, StoredRun},
    refine::StepSlot,
    settings::RoutingSettings,
    specialists::Variants,
};
use crate::{
    LoopSetupError, RefusedTarget, agent::telemetry, chat::event_store, commands::agents::selection_folder,
    index::IndexSink,
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
    #[error("cannot write `telemetry.jsonl` (`{}`): {}", path.display(), io_reason(source))]
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
    settings: RoutingSettings,
    /// The facade of routing.
    facade: FacadeSettings,
    /// The agent itself.
    itself: FacadeSettings,
    open_legacy: OpenLegacy,
    redactor: Arc<Redactor>,
    telemetry: Telemetry,
    /// Whether a command was named.
    names_command: bool,
    /// Whether another agent delegates to this one.
    is_nested: bool,
    /// Receives the steps of the loop.
    steps: StepSlot,
    /// Whether files of the working directory count for the selection.
    uses_files: bool,
}

/// The executor of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The facade of routing.
    Facade,
    /// The agent itself; the code if it has `routing:`.
    Itself(Option<RoutingDecision>),
}

/// Chooses the executor of a message: the only place that decides it, for `run`, `test`, `chat` and `serve`.
fn choose(
    config: &Agent,
    settings: &RoutingSettings,
    is_nested: bool,
    names_command: bool,
    options: &ExecuteOptions,
) -> Choice {
    if config.routing.is_none() {
        // Without routing the agent answers itself, unless a command was named and there is no loop either.
        let has_loop = config.enabled_loop().is_some();
        return if names_command && !has_loop && !is_nested {
            Choice::Facade
        } else {
            Choice::Itself(None)
        };
    }
    if names_command || options.force_sdk || options.disable_sdk {
        return Choice::Facade;
    }
    if !settings.enabled {
        Choice::Itself(Some(RoutingDecision::SdkNotEnabled))
    } else if !settings.allows(PLAIN_COMMAND) {
        Choice::Itself(Some(RoutingDecision::CommandNotAllowed))
    } else {
        Choice::Facade
    }
}

impl RoutedAgent {
    /// Says if the files that count for the selection here are not those of tests and conversations.
    pub fn note_folder(&self, folder: &Path) -> Option<String> {
        let own = selection_folder(self.agent());
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        (self.uses_files && real(folder) != real(&own)).then(|| {
            format!(
                "specialists are selected for the files of `{}`; `test`, `chat` and `serve` look at `{}`",
                folder.display(),
                own.display()
            )
        })
    }

    fn choose(&self, names_command: bool, options: &ExecuteOptions) -> Choice {
        let config = &self.variants.agent.config;
        choose(config, &self.settings, self.is_nested, names_command, options)
    }

    /// The parts that the definition of a specialist leaves out of its file, such as tools that the agent does not have.
    pub fn left_out(&self, specialist: &str) -> Option<Load> {
        self.variants.left_out(specialist)
    }

    /// Whether the facade of routing executes a command; otherwise the agent itself answers.
    pub fn takes_facade(&self, context: &CommandContext, options: &ExecuteOptions) -> bool {
        self.choose(!self.is_plain(context), options) == Choice::Facade
    }

    /// The executors of a message.
    fn facade(&self, choice: Choice, names_command: bool) -> FacadeSettings {
        let mut facade = match choice {
            Choice::Facade => self.facade.clone(),
            Choice::Itself(_) => self.itself.clone(),
        };
        if choice == Choice::Facade && !names_command && self.variants.agent.config.routing.is_some() {
            let itself = legacy::Itself(Arc::clone(&self.variants));
            facade.itself = Some(Arc::new(LegacyAgent::new(Box::new(itself))));
        }
        facade
    }

    fn is_plain(&self, context: &CommandContext) -> bool {
        if self.is_nested {
            context.command.name.eq_ignore_ascii_case(PLAIN_COMMAND)
        } else {
            !self.names_command
        }
    }

    /// The agent.
    pub fn agent(&self) -> &Arc<ResolvedAgent> {
        &self.variants.agent.agent
    }

    /// Executes a command for another agent, whose `observer` counts it, and closes this one. Boxed, because agents are nested.
    fn execute_nested(
        self,
        context: &CommandContext,
        options: ExecuteOptions,
        observer: Option<Arc<dyn TurnObserver>>,
    ) -> BoxFuture<'_, Result<Execution, RoutedError>> {
        Box::pin(async move {
            let execution = async {
                refine::refuse_repeated_side_effects(&self.variants).await?;
                let names_command = !self.is_plain(context);
                let choice = self.choose(names_command, &options);
                let mut settings = self.facade(choice, names_command);
                settings.turns = observer;
                let facade = ExecutionFacade::new(settings);
                Ok(facade.execute_explained(context, &options).await?)
            };
            let execution = execution.await;
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
        let names_command = !self.is_plain(context);
        let choice = self.choose(names_command, options);
        let mut settings = self.facade(choice, names_command);
        let run_id = Uuid::new_v4().to_string();
        let (recorder, recorded) = Recorder::new();
        let (stepped, redactor) = (Arc::downgrade(&recorder), Arc::clone(&self.redactor));
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(move |rules, step| {
            if let Some(recorder) = stepped.upgrade() {
                recorder.step(rules, step, &redactor);
            }
        }));
        settings.turns = Some(Arc::clone(&recorder) as Arc<dyn TurnObserver>);
        let task = context.command.task();
        let agent = self.agent();
        let run = StoredRun {
            agent,
            session_id: &context.session_id,
            run_id: &run_id,
            task: &task,
            redactor: &self.redactor,
        };
        let execute = self.execute_recorded(choice, settings, context, options, &recorder);
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

    /// Executes a message and ends its events.
    async fn execute_recorded(
        &self,
        choice: Choice,
        settings: FacadeSettings,
        context: &CommandContext,
        options: &ExecuteOptions,
        recorder: &Recorder,
    ) -> Result<Execution, FacadeError> {
        let facade = ExecutionFacade::new(settings);
        let mut outcome = facade.execute_explained(context, options).await;
        if let (Choice::Itself(Some(code)), Ok(execution)) = (choice, &mut outcome)
            && let Some(details) = &mut execution.attempt
            && details.attempt.routing_decision == RoutingDecision::SdkExecuted
        {
            details.attempt.routing_decision = code;
        }
        let details = match &outcome {
            Ok(execution) => execution_json(context, execution),
            Err(error) => {
                let FacadeError::NoExecutor { attempt, .. } = error else {
                    return outcome;
                };
                json!({"command": context.command, "attempt": attempt, "error": error.to_string()})
            }
        };
        let record = self.executor_record(choice, context, &outcome);
        let mut stored = serde_json::to_value(&record).unwrap_or_default();
        if let (Some(stored), Value::Object(details)) = (stored.as_object_mut(), details) {
            stored.extend(details);
        }
        self.redactor.mask_value(&mut stored);
        let details = JsonMap::from_iter([(EXECUTION_FIELD.to_owned(), stored)]);
        recorder.end(ending(choice, &outcome), record, details);
        outcome
    }

    /// The backend of routed commands; `None` if `routing.chain` leaves it out.
    fn sdk(&self) -> Option<&SdkExecutor> {
        let sdk = self.facade.sdk.as_ref();
        sdk.filter(|_| self.facade.chain.contains(&ExecutorKind::Sdk))
    }

    /// Returns the plan of a command. Nothing is started or asked.
    pub async fn plan(&self, context: &CommandContext, options: &ExecuteOptions) -> RoutedPlan {
        let names_command = !self.is_plain(context);
        let choice = self.choose(names_command, options);
        let facade = self.facade(choice, names_command);
        let sdk = facade
            .sdk
            .as_ref()
            .filter(|_| facade.chain.contains(&ExecutorKind::Sdk));
        let details = match sdk {
            Some(sdk) => Some(sdk.explain(context, options).await),
            None => None,
        };
        let mut plan = plan::plan(&self.variants, &facade, context, details);
        let decision = plan.sdk.as_ref().map(|details| details.attempt.routing_decision);
        let is_left = decision.is_some_and(RoutingDecision::leaves_agent_itself);
        if plan.executor.is_none() && is_left && facade.itself.is_some() {
            plan.executor = Some(ExecutorKind::Legacy);
        }
        if let (Choice::Itself(Some(code)), Some(details)) = (choice, &mut plan.sdk)
            && details.attempt.routing_decision == RoutingDecision::SdkExecuted
        {
            details.attempt.routing_decision = code;
            details.attempt.fallback_reason = RoutingSettings::why_itself(code);
        }
        plan
    }

    /// Masks secrets in a value, as in everything that is written.
    pub fn mask(&self, value: &mut Value) {
        self.redactor.mask_value(value);
    }

    /// Ends everything that was started here, and waits for it.
    pub async fn close(self) {
        self.close_parts().await;
        if self.variants.owns_open {
            telemetry::finish(&self.telemetry).await;
        }
    }

    async fn close_parts(&self) {
        self.open_legacy.close().await;
        self.variants.close().await;
    }
}
