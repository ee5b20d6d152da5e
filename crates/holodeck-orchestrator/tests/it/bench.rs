//! An executor with scripted parts.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holodeck_orchestrator::{
    AgentChoice, Asking, ExecuteOptions, ExecutorCall, ExecutorFailure, ExecutorOutput, FacadeSettings,
    KnownTools, LegacyExecutor, ReadyAgent, SdkExecutor, SdkSettings, SelectError, Selected, Selection,
    SelectionTask, Selector, SkillsRuntime, Specialists, TelemetryRecord, TelemetrySink,
    api::{AgentBackend, BackendError},
    model::{Command, CommandContext, ExecutionAttempt},
};
use holodeck_testkit::{Asked, ScriptedBackend, ScriptedTurn};
use holodeck_turn::{
    FileReader, Prices, TurnRunner,
    documents::{Converter, Isolation},
};

pub(crate) struct Bench {
    pub(crate) settings: SdkSettings,
    pub(crate) choice: AgentChoice,
    pub(crate) specialists: ScriptedSpecialists,
}

/// Specialists whose turns a closure scripts.
#[derive(Clone)]
pub(crate) struct ScriptedSpecialists {
    pub(crate) unavailable: Option<String>,
    pub(crate) defined: bool,
    pub(crate) open_error: Option<BackendError>,
    pub(crate) tools: KnownTools,
    pub(crate) backend: ScriptedBackend,
}

#[async_trait]
impl Specialists for ScriptedSpecialists {
    async fn unavailable(&self) -> Option<String> {
        self.unavailable.clone()
    }

    fn has_definition(&self, _agent: &str) -> bool {
        self.defined
    }

    async fn open(&self, _agent: &str) -> Result<ReadyAgent, BackendError> {
        match &self.open_error {
            Some(error) => Err(error.clone()),
            None => Ok(ready(Arc::new(self.backend.clone()), self.tools.clone())),
        }
    }
}

pub(crate) fn ready(backend: Arc<dyn AgentBackend>, tools: KnownTools) -> ReadyAgent {
    ReadyAgent {
        backend,
        turns: TurnRunner {
            files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
            prices: Prices::embedded(),
            model: "m".to_owned(),
            timeout: Some(Duration::from_mins(1)),
            timeout_source: "a test".to_owned(),
        },
        tools,
    }
}

/// Always selects the same agent.
pub(crate) struct Fixed(pub(crate) Selection);

#[async_trait]
impl Selector for Fixed {
    async fn select(&self, _task: &SelectionTask, _: &Asking<'_>) -> Result<Selected, SelectError> {
        Ok(self.0.clone().into())
    }
}

pub(crate) fn selection(use_sdk: bool, confidence: f64) -> Selection {
    Selection {
        use_sdk,
        agent: Some("reviewer".to_owned()),
        confidence,
        reason: "scripted".to_owned(),
        ..Selection::default()
    }
}

impl Bench {
    /// Everything lets the command `review` pass; the turns are those of `script`.
    pub(crate) fn new(script: impl Fn(&Asked) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        let mut settings = SdkSettings::default();
        settings.enabled = true;
        settings.commands = vec!["review".to_owned()];
        Self {
            settings,
            choice: selects(selection(true, 0.85)),
            specialists: ScriptedSpecialists {
                unavailable: None,
                defined: true,
                open_error: None,
                tools: KnownTools::default(),
                backend: ScriptedBackend::answering(script),
            },
        }
    }

    pub(crate) fn answering(text: &'static str) -> Self {
        Self::new(move |_| ScriptedTurn::text(text))
    }

    pub(crate) fn sdk(&self) -> SdkExecutor {
        let specialists = Arc::new(self.specialists.clone());
        SdkExecutor::new(self.settings.clone(), self.choice.clone(), specialists)
    }

    pub(crate) fn facade(&self) -> FacadeSettings {
        let mut settings = FacadeSettings::default();
        settings.evidence = self.settings.evidence;
        settings.sdk = Some(self.sdk());
        settings
    }

    pub(crate) async fn execute(&self) -> ExecutionAttempt {
        self.execute_with(&context(), &ExecuteOptions::default()).await
    }

    pub(crate) async fn execute_with(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
    ) -> ExecutionAttempt {
        self.sdk().execute(context, options).await
    }

    pub(crate) fn turns(&self) -> usize {
        self.specialists.backend.turns()
    }
}

pub(crate) fn selects(selection: Selection) -> AgentChoice {
    AgentChoice::Selected(Some(Arc::new(Fixed(selection))))
}

pub(crate) fn forced() -> ExecuteOptions {
    ExecuteOptions {
        force_sdk: true,
        ..ExecuteOptions::default()
    }
}

pub(crate) fn context() -> CommandContext {
    CommandContext {
        command: Command {
            name: "review".to_owned(),
            arguments: vec!["look at src".to_owned()],
            ..Command::default()
        },
        session_id: "session-1".to_owned(),
        ..CommandContext::default()
    }
}

/// A skill with a scripted result for the command `review`.
pub(crate) struct ScriptedSkill(pub(crate) Result<&'static str, ExecutorFailure>);

#[async_trait]
impl SkillsRuntime for ScriptedSkill {
    fn find(&self, command: &str) -> Option<String> {
        (command == "review").then(|| "review".to_owned())
    }

    async fn execute(&self, _skill: &str, _call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        self.0.clone().map(ExecutorOutput::text)
    }
}

/// A legacy executor that counts its calls.
pub(crate) struct ScriptedLegacy {
    pub(crate) calls: AtomicUsize,
    pub(crate) output: Mutex<ExecutorOutput>,
}

impl ScriptedLegacy {
    pub(crate) fn new(output: ExecutorOutput) -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicUsize::new(0),
            output: Mutex::new(output),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl LegacyExecutor for ScriptedLegacy {
    async fn execute(&self, _call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Ok(self.output.lock().unwrap().clone())
    }
}

/// Keeps what it receives.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<TelemetryRecord>>);

impl TelemetrySink for Kept {
    fn record(&self, record: &TelemetryRecord) -> io::Result<()> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl Kept {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let records = self.0.lock().unwrap();
        records.iter().map(|record| record.event.as_str()).collect()
    }
}
