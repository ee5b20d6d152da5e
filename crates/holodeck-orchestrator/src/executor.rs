//! Executes a command with the agent's own backend. An attempt always ends with a value: errors and panics are part of it.

mod attempt;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};
use holodeck_model::{CommandContext, EvidenceConfig, ExecutionAttempt, Spent, UsageMetadata};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use self::attempt::REPLAY_MISS;
use self::attempt::{End, Progress, end_of, end_of_result, usage_of};
use crate::{
    AskedModel, Asking, Assessment, ImproveError, Improver, LoopOutput, LoopReport, QualityAssessment,
    RouteRules, SelectError, Selected, Selection, SelectionQuestion, SelectionTask, Selector, caught,
    evidence::EvidenceIssue,
    gates::{Gate, GateResult, Refusal},
    select::route::{confidence, refuse_declined, refuse_undefined},
    watch::{Observers, ReadyAgent, TurnResult, Watch},
};

/// The specialists of an agent.
#[async_trait]
pub trait Specialists: Send + Sync {
    /// Why the backend cannot be used: the CLI, endpoint or credential is missing. `None`: nothing is.
    async fn unavailable(&self) -> Option<String>;

    /// Whether this agent has a definition.
    fn has_definition(&self, agent: &str) -> bool;

    /// Opens the backend with the definition of this agent.
    async fn open(&self, agent: &str) -> Result<ReadyAgent, BackendError>;
}

/// Improves an output until it is good enough.
#[async_trait]
pub trait Refiner: Send + Sync {
    /// Scores `first` and improves it.
    async fn refine(
        &self,
        context: &CommandContext,
        first: LoopOutput,
        improver: &dyn Improver,
        cancel: &CancellationToken,
    ) -> Refined;

    /// The prompt that asks for a better output than `output`.
    fn prompt(&self, task: &str, output: &LoopOutput, assessment: &Assessment, iteration: u32) -> String;
}

/// The result of a quality loop.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Refined {
    /// The returned output.
    pub output: LoopOutput,
    /// How it was assessed.
    pub assessment: QualityAssessment,
    /// Everything the loop did.
    pub report: LoopReport,
}

/// Makes what is selected for of a command.
pub type TaskBuilder = Arc<dyn Fn(&CommandContext) -> SelectionTask + Send + Sync>;

/// How the agent of a command is found.
#[derive(Clone)]
#[allow(
    clippy::exhaustive_enums,
    reason = "an agent either has specialists or answers itself"
)]
pub enum AgentChoice {
    /// A selector selects it; without one, nothing is executed.
    Selected(Option<Arc<dyn Selector>>),
    /// The agent itself, by its name: there is no routing.
    Own(String),
}

/// How the backend executes commands.
#[derive(Clone)]
#[non_exhaustive]
pub struct SdkSettings {
    /// Whether commands are routed.
    pub enabled: bool,
    /// The commands that may be routed; an empty list allows none.
    pub commands: Vec<String>,
    /// How confident a selection must be.
    pub min_confidence: f64,
    /// Whether the default agent executes commands although its confidence is 0.
    pub default_agent_routes: bool,
    /// The evidence that commands must produce.
    pub evidence: EvidenceConfig,
    /// Makes what is selected for; by default the task, the command and the working directory.
    pub task: TaskBuilder,
    /// Improves answers.
    pub refiner: Option<Arc<dyn Refiner>>,
}

impl SdkSettings {
    fn rules(&self) -> RouteRules {
        RouteRules {
            enabled: self.enabled,
            commands: Some(self.commands.clone()),
            min_confidence: self.min_confidence,
            default_agent_routes: self.default_agent_routes,
        }
    }
}

impl Default for SdkSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            commands: Vec::new(),
            min_confidence: 0.5,
            default_agent_routes: false,
            evidence: EvidenceConfig::default(),
            task: Arc::new(selection_task),
            refiner: None,
        }
    }
}

/// The selection task, without files.
pub fn selection_task(context: &CommandContext) -> SelectionTask {
    SelectionTask {
        text: context.command.task(),
        command: context.command.name.to_lowercase(),
        cwd: context.cwd.as_deref().map(canonical),
        files: Vec::new(),
        category: None,
    }
}

fn canonical(path: &std::path::Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The caller's decisions about one execution.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct ExecuteOptions {
    /// Skips the gates that ask whether the backend should be used.
    pub force_sdk: bool,
    /// Does not use the backend; takes precedence over `force_sdk`.
    pub disable_sdk: bool,
    /// The message that is executed, if it is one of a conversation or a test: each turn has its images, its unit, and
    /// the approver of its tool calls.
    pub message: Option<TurnRequest>,
    /// Stops the execution.
    pub cancel: CancellationToken,
}

/// Everything about an attempt.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AttemptDetails {
    /// The attempt.
    pub attempt: ExecutionAttempt,
    /// The gates, in order, up to the first that refused.
    pub gates: Vec<GateResult>,
    /// The selection.
    pub selection: Option<Selection>,
    /// The question to a model on which the selection depends, if nothing was to be asked. Then nothing is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<SelectionQuestion>,
    /// How the output was assessed.
    pub assessment: Option<QualityAssessment>,
    /// The report of the loop.
    #[serde(rename = "loop")]
    pub report: Option<LoopReport>,
    /// The tools that may have changed something.
    pub side_effects: Vec<String>,
}

/// Executes commands with the agent's own backend. Clones share it.
#[derive(Clone)]
pub struct SdkExecutor(Arc<Inner>);

struct Inner {
    settings: SdkSettings,
    choice: AgentChoice,
    specialists: Arc<dyn Specialists>,
}

impl SdkExecutor {
    /// An executor that runs the agents of `specialists`.
    pub fn new(settings: SdkSettings, choice: AgentChoice, specialists: Arc<dyn Specialists>) -> Self {
        Self(Arc::new(Inner {
            settings,
            choice,
            specialists,
        }))
    }

    /// Executes a command. Never fails: what goes wrong, panics included, is in the attempt.
    pub async fn execute(&self, context: &CommandContext, options: &ExecuteOptions) -> ExecutionAttempt {
        let watch = Arc::new(Watch::start(&Observers::default(), &context.session_id, None));
        let details = self.attempt(context, options, &watch).await;
        watch.finish().await;
        details.attempt
    }

    /// Returns the decision of [`execute`](Self::execute), without opening or asking anything. If it depends on the answer of
    /// a model, the details have the [`question`](AttemptDetails::question), and nothing is decided.
    pub async fn explain(&self, context: &CommandContext, options: &ExecuteOptions) -> AttemptDetails {
        let watch = Arc::new(Watch::start(&Observers::default(), &context.session_id, None));
        self.guarded(context, options, &watch, Depth::Gates).await
    }

    pub(crate) async fn attempt(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
        watch: &Arc<Watch>,
    ) -> AttemptDetails {
        self.guarded(context, options, watch, Depth::Run).await
    }

    /// Runs the attempt as a task of its own, so that a panic ends the task and not the caller.
    async fn guarded(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
        watch: &Arc<Watch>,
        depth: Depth,
    ) -> AttemptDetails {
        let progress = Arc::new(Mutex::new(Progress::new(options.force_sdk)));
        let run = Run {
            inner: Arc::clone(&self.0),
            context: context.clone(),
            options: options.clone(),
            watch: Arc::clone(watch),
            progress: Arc::clone(&progress),
        };
        // Dropping the set ends the task with its caller.
        let mut tasks = JoinSet::new();
        tasks.spawn(run.run(depth));
        let end = match tasks.join_next().await {
            Some(Ok(end)) => end,
            Some(Err(error)) if error.is_cancelled() => End::Cancelled,
            Some(Err(error)) => End::Panicked(panic_text(error)),
            None => End::Panicked("the task was lost".to_owned()),
        };
        let progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.finish(end, context, watch, self.0.settings.evidence)
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => caught::panic_text(panic.as_ref()),
        Err(_) => "the task was lost".to_owned(),
    }
}

/// How far an attempt goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Through the gates.
    Gates,
    /// To its end.
    Run,
}

/// One attempt.
struct Run {
    inner: Arc<Inner>,
    context: CommandContext,
    options: ExecuteOptions,
    watch: Arc<Watch>,
    progress: Arc<Mutex<Progress>>,
}

impl Run {
    async fn run(self, depth: Depth) -> End {
        let agent = match self.pass_gates(depth).await {
            Ok(agent) => agent,
            Err(end) => return end,
        };
        if depth == Depth::Gates {
            return End::WouldRun;
        }
        let cancel = self.options.cancel.clone();
        let ready = tokio::select! {
            ready = self.inner.specialists.open(&agent) => ready,
            () = cancel.cancelled() => return End::Cancelled,
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => return end_of(&error),
        };
        let task = self.context.command.task();
        let selecting = self.progress().usage;
        let mut first = match self.turn(&ready, &task).await {
            Ok(output) => output,
            Err((end, _)) => return end,
        };
        // The budget of the loop includes what the selection cost.
        first.usage = first.usage.map(|usage| sum(selecting, usage));
        let messages = self.watch.message_count();
        let Some(refiner) = &self.inner.settings.refiner else {
            return End::Answered {
                output: first,
                messages,
                refined: None,
            };
        };
        let improver = Again {
            run: &self,
            ready: &ready,
            refiner: &**refiner,
            task: &task,
        };
        let refined = refiner
            .refine(&self.context, first, &improver, &self.options.cancel)
            .await;
        End::Answered {
            output: refined.output.clone(),
            messages,
            refined: Some(Box::new(refined)),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, gate: Gate, problem: Option<String>) -> Result<(), Refusal> {
        self.progress().gates.pass(gate, problem)
    }

    /// Passes the gates in order; returns the agent.
    async fn pass_gates(&self, depth: Depth) -> Result<String, End> {
        let Inner {
            settings,
            choice,
            specialists,
        } = &*self.inner;
        let disabled = self
            .options
            .disable_sdk
            .then(|| "the caller disabled it".to_owned());
        self.pass(Gate::NotDisabled, disabled)?;
        let unavailable = specialists.unavailable().await;
        self.pass(Gate::Available, unavailable)?;
        let selector = match choice {
            AgentChoice::Own(name) => {
                let mut progress = self.progress();
                progress.agent = Some(name.clone());
                progress.confidence = 1.0;
                return Ok(name.clone());
            }
            AgentChoice::Selected(selector) => selector,
        };
        let rules = settings.rules();
        self.pass(Gate::Enabled, rules.refuse_all())?;
        self.pass(
            Gate::CommandAllowed,
            rules.refuse_command(&self.context.command.name),
        )?;
        let Some(selector) = selector else {
            self.pass(Gate::Selector, Some("no agents are configured".to_owned()))?;
            return Err(End::Refused(Refusal {
                gate: Gate::Selector,
                reason: "no agents are configured".to_owned(),
            }));
        };
        self.pass(Gate::Selector, None)?;
        let mut task = (settings.task)(&self.context);
        let message = self.options.message.as_ref();
        if let Some(text) = message.and_then(|message| message.command.task.as_ref()) {
            task.text.clone_from(text);
        }
        if depth == Depth::Gates
            && let Some(question) = selector.question(&task)
        {
            return Err(End::WouldAsk(question));
        }
        let selection = self.select(&**selector, &task).await?;
        {
            let mut progress = self.progress();
            progress.agent.clone_from(&selection.agent);
            progress.confidence = confidence(&selection);
            progress.selection = Some(selection.clone());
        }
        self.pass(Gate::Selected, refuse_declined(&selection))?;
        self.pass(Gate::Confident, rules.refuse_unsure(&task, &selection))?;
        let named = selection.agent.as_deref();
        let is_defined = named.is_some_and(|agent| specialists.has_definition(agent));
        self.pass(Gate::Defined, refuse_undefined(named, is_defined))?;
        selection.agent.ok_or_else(|| {
            End::Refused(Refusal {
                gate: Gate::Defined,
                reason: "no agent was selected".to_owned(),
            })
        })
    }

    /// Selects the agent, counts what that cost, and says if a model was asked in vain.
    async fn select(&self, selector: &dyn Selector, task: &SelectionTask) -> Result<Selection, End> {
        let message = self.options.message.as_ref();
        let asking = Asking {
            unit: message.and_then(|message| message.unit.as_deref()),
            trial: message.map_or(0, |message| message.trial),
            cancel: &self.options.cancel,
        };
        let Selected { selection, call } = match selector.select(task, &asking).await {
            Ok(selected) => selected,
            Err(SelectError::Cancelled) => return Err(End::Cancelled),
            Err(SelectError::NoAnswer(error)) => {
                self.watch.miss(&error);
                return Err(end_of(&error));
            }
        };
        if let (Some(record), Some(asked)) = (&call, &selection.asked) {
            self.watch.count(&asked.model, record);
            if !record.spent().is_nothing() {
                self.add_usage(usage_of(record));
            }
        }
        if let Some(message) = selection.asked.as_ref().and_then(AskedModel::fallback) {
            self.watch.record(&BackendEvent::Notice { message });
        }
        Ok(selection)
    }

    /// Runs one turn and adds what it used.
    async fn turn(
        &self,
        ready: &ReadyAgent,
        prompt: &str,
    ) -> Result<LoopOutput, (End, Option<UsageMetadata>)> {
        let before = self.watch.calls_with_side_effects();
        match self.watch.run(ready, prompt, &self.options.cancel).await {
            TurnResult::Stopped => Err((End::Cancelled, None)),
            TurnResult::Ended { record, error } => {
                let usage = usage_of(&record);
                self.add_usage(usage);
                if let Some(error) = error {
                    return Err((end_of(&error), Some(usage)));
                }
                if let Some(end) = end_of_result(&record.result) {
                    return Err((end, Some(usage)));
                }
                Ok(LoopOutput {
                    text: self.watch.output(),
                    usage: Some(usage),
                    side_effects: self.watch.calls_with_side_effects() > before,
                    evidence: Some(self.watch.evidence().summary()),
                    turn: Some(Arc::from(record)),
                })
            }
        }
    }

    fn add_usage(&self, usage: UsageMetadata) {
        let mut progress = self.progress();
        progress.usage = Some(sum(progress.usage, usage));
    }
}

fn sum(before: Option<UsageMetadata>, more: UsageMetadata) -> UsageMetadata {
    let before = before.map(Spent::from).unwrap_or_default();
    (before + more.into()).into()
}

/// Produces the next output with a fresh execution.
struct Again<'a> {
    run: &'a Run,
    ready: &'a ReadyAgent,
    refiner: &'a dyn Refiner,
    task: &'a str,
}

#[async_trait]
impl Improver for Again<'_> {
    async fn improve(
        &self,
        output: &LoopOutput,
        assessment: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError> {
        let prompt = self.refiner.prompt(self.task, output, assessment, iteration);
        let result = self.run.turn(self.ready, &prompt).await;
        result.map_err(|(end, usage)| ImproveError {
            reason: match end {
                End::ErrorMessage(reason) | End::Exception { reason, .. } | End::Panicked(reason) => reason,
                End::Cancelled => "cancelled".to_owned(),
                End::Refused(refusal) => refusal.reason,
                End::WouldRun | End::WouldAsk(_) | End::Answered { .. } => String::new(),
            },
            usage,
        })
    }
}

/// Describes the missing evidence of an execution.
pub(crate) fn issues_text(issues: &[EvidenceIssue]) -> Vec<String> {
    issues.iter().map(ToString::to_string).collect()
}
