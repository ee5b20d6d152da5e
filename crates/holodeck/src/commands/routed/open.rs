//! Builds an agent that executes commands from its YAML and from the parts that are open already. It must not execute one.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::Occasion;
use holodeck_model::{Env, Redactor, SideEffectGate};
use holodeck_orchestrator::{
    AgentChoice, AgentSelector, FacadeSettings, JsonLines, LoopRules, QualityLoop, Refiner, SdkExecutor,
    SdkSettings, Skills, SkillsRuntime, Specialists, TelemetryRecord, TelemetrySink, selection_task,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::{LoadedAgent, Places};
use tokio::sync::{Mutex, OnceCell};

use super::{
    RoutedAgent, RoutedError, RoutedOptions,
    legacy::{self, OpenLegacy},
    refine::{LoopRefiner, StepSlot},
    settings::RoutingSettings,
    skills,
    specialists::{AgentsOfSkills, OnlyItself, Variants},
};
use crate::{
    Answers, LoadedAgents, OpenAgent,
    agent::{secrets::redactor, targets::check_yaml_targets, telemetry},
    commands::{
        agents::selection_folder,
        chooser::{self, Chooser},
        skills::load_own_skills,
    },
    load_own_agents, snapshot_files,
};

impl RoutedAgent {
    /// Reads the agent's specialists and skills. Nothing is started before a command needs it.
    pub fn new(agent: LoadedAgent, env: &Env, options: &RoutedOptions) -> Result<Self, RoutedError> {
        let own = std::fs::canonicalize(&agent.path).unwrap_or_else(|_| agent.path.clone());
        let redactor = redactor(&agent, env);
        let parts = Parts {
            occasion: (Occasion::Run, SideEffectGate::Open),
            open: None,
            answers: None,
            telemetry: telemetry::start(&agent, Occasion::Run, env, false, Arc::clone(&redactor)),
            redactor,
            asks: true,
        };
        Self::of_parts(agent, env, options, &[own], parts)
    }

    /// The same for an agent to which those of `stack` delegate; the last one is itself. In a test it has
    /// the built-in tools of a test.
    pub(super) fn nested(
        agent: LoadedAgent,
        env: &Env,
        options: &RoutedOptions,
        (stack, delegating): (&[PathBuf], &Variants),
    ) -> Result<Self, RoutedError> {
        let parts = Parts {
            occasion: match delegating.occasion {
                (Occasion::Test, gate) => (Occasion::Test, gate),
                _ => (Occasion::Run, SideEffectGate::Open),
            },
            open: None,
            answers: delegating.kept_answers(),
            redactor: redactor(&agent, env),
            telemetry: Telemetry::off(),
            asks: true,
        };
        Self::of_parts(agent, env, options, stack, parts)
    }

    /// The same for an agent that is open, whose answers, servers and telemetry it shares. A test has a quality loop of its
    /// own around its cases, and conversations have none.
    pub(crate) fn of_open(
        open: &Arc<OpenAgent>,
        env: &Env,
        occasion: Occasion,
        timeout: Option<Duration>,
    ) -> Result<Self, RoutedError> {
        let loaded = LoadedAgent {
            agent: Arc::clone(open.agent()),
            places: Places::default(),
        };
        let folder = selection_folder(&loaded);
        let options = RoutedOptions {
            timeout,
            folder: Some(folder),
            ..RoutedOptions::default()
        };
        let own = std::fs::canonicalize(&loaded.path).unwrap_or_else(|_| loaded.path.clone());
        let parts = Parts {
            occasion: (occasion, open.backends().gate()),
            open: Some(Arc::clone(open)),
            answers: None,
            redactor: open.redactor(),
            telemetry: open.telemetry().clone(),
            asks: true,
        };
        Self::of_parts(loaded, env, &options, &[own], parts)
    }

    pub(super) fn of_parts(
        agent: LoadedAgent,
        env: &Env,
        options: &RoutedOptions,
        stack: &[PathBuf],
        parts: Parts,
    ) -> Result<Self, RoutedError> {
        let is_nested = stack.len() > 1;
        let agents = load_own_agents(&agent);
        let skills = load_own_skills(&agent)
            .map(|loaded| loaded.skills)
            .unwrap_or_default();
        let programs = skills::programs(&agent, env, parts.occasion);
        let chooser = Chooser::new(&agent, env, options.timeout, &parts.telemetry);
        let chooser = chooser.map(|chooser| {
            let chooser = chooser.with_open(parts.open.as_deref());
            Arc::new(chooser.with_answers(parts.answers.clone()))
        });
        let words = agents.as_ref().map(LoadedAgents::selector);
        let uses_files = words.as_ref().is_some_and(AgentSelector::uses_files);
        let selector = words.zip(agents.as_ref());
        let selector = selector.map(|(words, agents)| {
            let agents = (&agents.registry, &agents.config, agents.rules.min_confidence);
            chooser::asking(words, agents, chooser.as_ref())
        });
        let loops = parts.open.is_none();
        let variants = Arc::new(Variants {
            folder: options.folder.clone(),
            env: env.clone(),
            agents,
            skills: skills.clone(),
            programs: programs.clone(),
            on_index: options.on_index.clone(),
            timeout: options.timeout,
            telemetry: parts.telemetry.clone(),
            occasion: parts.occasion,
            asks: parts.asks,
            owns_open: parts.open.is_none(),
            answers: parts.answers,
            open: OnceCell::new_with(parts.open),
            chooser,
            ready: Mutex::default(),
            agent,
        });
        let config = &variants.agent.config;
        let routing = config.routing.clone();
        let steps = StepSlot::default();
        let refiner = if loops && parts.asks {
            refiner(&variants, options, &steps)?
        } else {
            None
        };
        // Without asking, the variables of this machine do not count.
        let none = Env::empty();
        let variables = if parts.asks { env } else { &none };
        let settings = RoutingSettings::new(config, variables, &options.overrides);
        let mut sdk = SdkSettings::default();
        sdk.enabled = settings.enabled;
        sdk.commands.clone_from(&settings.commands);
        sdk.evidence = config.evidence.unwrap_or_default();
        sdk.refiner.clone_from(&refiner);
        if let Some(routing) = &routing {
            sdk.min_confidence = routing.min_confidence;
            sdk.default_agent_routes = routing
                .agents
                .as_ref()
                .is_some_and(|agents| agents.default_agent_routes);
        }
        sdk.task = Arc::new(move |context| {
            let mut task = selection_task(context);
            if let Some(folder) = task.cwd.as_deref().filter(|_| uses_files) {
                task.files = snapshot_files(folder);
            }
            task
        });
        let specialists = Arc::clone(&variants) as Arc<dyn Specialists>;
        let only_itself = Arc::new(OnlyItself(Arc::clone(&variants)));
        let own = AgentChoice::Own(config.name.clone());
        let mut itself = FacadeSettings::default();
        itself.evidence = config.evidence.unwrap_or_default();
        itself.sdk = Some(SdkExecutor::new(sdk.clone(), own, only_itself));
        let selected = AgentChoice::Selected(selector);
        let open_legacy = OpenLegacy::default();
        let mut facade = FacadeSettings::default();
        facade.evidence = config.evidence.unwrap_or_default();
        facade.sdk = Some(SdkExecutor::new(sdk, selected, specialists));
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
        if parts.asks {
            check_yaml_targets(&variants.agent, &variants.env)?;
        }
        if parts.asks {
            facade.telemetry = sinks(&variants.agent, &parts.redactor, &parts.telemetry)?;
        }
        itself.hooks.clone_from(&facade.hooks);
        itself.telemetry.clone_from(&facade.telemetry);
        Ok(Self {
            variants,
            settings,
            facade,
            itself,
            open_legacy,
            redactor: parts.redactor,
            telemetry: parts.telemetry,
            names_command: options.names_command,
            is_nested,
            steps,
            uses_files,
        })
    }
}

/// The parts of an agent that it has already if it is open.
pub(super) struct Parts {
    pub(super) occasion: (Occasion, SideEffectGate),
    pub(super) open: Option<Arc<OpenAgent>>,
    /// The answers of the agent that delegates to it, if they are recorded or replayed.
    pub(super) answers: Option<Answers>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) telemetry: Telemetry,
    /// Whether anything is asked; otherwise the gate of the machine is open.
    pub(super) asks: bool,
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
