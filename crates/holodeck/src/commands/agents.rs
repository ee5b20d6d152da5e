//! Specialist agents in folders of Markdown files: finds, reads and selects them. No network, no backend.

mod cases;
mod folder;
mod snapshot;

use std::{
    io,
    path::{Path, PathBuf},
};

use holodeck_model::{
    AgentDoc, AgentsConfig, Code, Diagnostic, DiskFiles, Env, FileKind, Files, PathRef, Provider,
    ResolvedAgent, RoutingCase, RoutingConfig, SelectionAlgorithm, Sources, Tier, ToolNames, closest,
};
use holodeck_orchestrator::{AgentDefinition, AgentRegistry, AgentSelector, RouteRules};
use holodeck_yaml::{Load, LoadedAgent, load_agent_doc};

use crate::commands::skills::skill_tools;

pub use cases::{Abstention, Confusion, RoutingReport, RoutingResult, TaskRouting};
pub use snapshot::snapshot_files;

/// At most this number of diagnostics of agents is kept: there may be thousands of files.
const MAX_DIAGNOSTICS: usize = 1_000;

/// A folder with specialist agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether its agents are core agents unless their files say otherwise.
    pub core: bool,
}

/// Specialist agents with everything that is wrong with their files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedAgents {
    /// The agents.
    pub registry: AgentRegistry,
    /// How they are selected.
    pub config: AgentsConfig,
    /// Whether a selected agent executes a command.
    pub rules: RouteRules,
    /// The problems of the files, without an agent.
    pub load: Load,
    /// How many Markdown files are not used, because they are not agents or have errors.
    pub skipped: usize,
}

impl LoadedAgents {
    /// A selector for the agents by the words of a task. With an algorithm that asks a model it is only what selects if the
    /// answer is not usable.
    pub fn selector(&self) -> AgentSelector {
        AgentSelector::new(&self.registry, &self.config, self.rules.min_confidence)
    }

    /// Adds what is wrong with the agents as a whole, and what the definitions of `agent` leave out of them; without an
    /// agent, those for Claude Code. See [`AgentSelector::review`].
    pub fn review(&mut self, agent: Option<&LoadedAgent>) {
        if let Some(agent) = agent {
            self.load.diagnostics.extend(unknown_names(agent, &self.registry));
        }
        for doc in self.registry.agents() {
            let (_, found) = definition(doc, agent.map(|agent| &*agent.agent));
            self.load.diagnostics.extend(found);
        }
        self.load.diagnostics.extend(self.unused_parts());
        let found = self.selector().review(&self.registry);
        self.load.diagnostics.extend(found);
        if !self.registry.agents().is_empty() {
            self.load.diagnostics.extend(self.nothing_routed(agent));
        }
    }

    /// Parts of the agents that act in `keyword-v1` only.
    fn unused_parts(&self) -> Vec<Diagnostic> {
        if self.config.algorithm == SelectionAlgorithm::KeywordV1 {
            return Vec::new();
        }
        let docs = self.registry.agents().iter();
        let unused = docs.filter_map(|doc| {
            let mut parts = Vec::new();
            // A core folder has a warning of its own.
            if !self.config.directories.iter().any(|folder| folder.core) {
                if doc.core {
                    parts.push("`core`");
                }
                if doc.tier == Tier::Strategist && !doc.core {
                    parts.push("`tier`");
                }
            }
            if doc.boosts.is_some() {
                parts.push("`boosts`");
            }
            if parts.is_empty() {
                return None;
            }
            let verb = if parts.len() == 1 { "has" } else { "have" };
            let message = format!("agent `{}`: {} {verb} no effect", doc.name, parts.join(" and "));
            let diagnostic = Diagnostic::warning(Code::NoEffect, message).at(doc.places.name.clone());
            let counts = if self.config.algorithm.asks() {
                "the name and the `description`"
            } else {
                "the words of `triggers`"
            };
            Some(diagnostic.with_help(format!(
                "it acts with `algorithm: keyword-v1`; with `{}` {counts} count",
                self.config.algorithm.as_str()
            )))
        });
        unused.collect()
    }

    /// Settings under which no agent executes anything.
    fn nothing_routed(&self, agent: Option<&LoadedAgent>) -> Option<Diagnostic> {
        let agent = agent?;
        let (pointer, why, help) = if !self.rules.enabled {
            ("routing.enabled", "`enabled` is false", "set it to `true`")
        } else if self.rules.commands.as_ref().is_some_and(Vec::is_empty) {
            (
                "routing.commands",
                "`commands` is empty",
                "add the commands that may be routed, such as `commands: [run, review]`; `run` is a message without one",
            )
        } else {
            return None;
        };
        let place = agent.locate(pointer).or_else(|| agent.locate("routing"));
        let message = format!("no agent can ever be routed: {why} in `routing`");
        let diagnostic = Diagnostic::warning(Code::NeverSelected, message)
            .at(place)
            .about(pointer);
        Some(diagnostic.with_help(help))
    }
}

/// The definition of a specialist agent for the backend of `agent`; without one, for Claude Code.
pub fn definition(doc: &AgentDoc, agent: Option<&ResolvedAgent>) -> (AgentDefinition, Vec<Diagnostic>) {
    let mut names = agent.map_or_else(ToolNames::with_builtins, |agent| ToolNames::of(&agent.config));
    for skill in agent.map(skill_tools).unwrap_or_default() {
        names.add_host_tool(&skill);
    }
    let provider = agent.map_or(Provider::Anthropic, |agent| {
        agent.config.provider().unwrap_or(Provider::Anthropic)
    });
    AgentDefinition::new(doc, &names, provider)
}

/// The files of the specialist agents in these folders, and the paths of what exists and cannot be read.
pub(crate) fn definition_files(folders: &[AgentFolder]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (found, unreadable) = folder::find_readable(folders, &mut Vec::new());
    (found.into_iter().map(|file| file.path).collect(), unreadable)
}

/// Which `globs` of the specialist agents match a file of the folder where the agent works; `None` if no agent has any.
pub(crate) fn globs_seen(agent: &ResolvedAgent) -> Option<Vec<bool>> {
    let selector = load_own_agents(agent)?.selector();
    selector
        .uses_files()
        .then(|| selector.matched_globs(&snapshot_files(&selection_folder(agent))))
}

/// The folder whose files count for the selection of a specialist in tests and conversations: where the agent works.
pub(crate) fn selection_folder(agent: &ResolvedAgent) -> PathBuf {
    let claude = agent.config.claude.as_ref();
    let folder = claude.and_then(|claude| claude.working_directory.as_ref());
    let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
    // The folder of `agent.yaml` has an empty name.
    std::path::absolute(folder.join(".")).unwrap_or(folder)
}

/// Checks the names of specialist agents in the agent's file, and whether the files of these agents can be used.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let Some(agents) = load_own_agents(agent) else {
        return;
    };
    let mut found = unknown_names(agent, &agents.registry);
    let errors = agents
        .load
        .diagnostics
        .iter()
        .filter(|found| found.is_error())
        .count();
    if errors > 0 {
        let files = if errors == 1 { "a file" } else { "files" };
        let message = format!("{files} of specialist agents cannot be used");
        let first = agents.load.diagnostics.iter().find(|found| found.is_error());
        let mut warning = Diagnostic::warning(Code::UnknownAgent, message)
            .at(agent.locate("routing.agents.directories"))
            .about("routing.agents.directories")
            .with_help("`holodeck agents validate` shows everything that is wrong with them");
        if let Some(first) = first {
            warning = warning.with_note(first.message.clone());
        }
        found.push(warning);
    }
    let unused = agents.unused_parts();
    if let Some(first) = unused.first() {
        let files = if unused.len() == 1 { "a file" } else { "files" };
        let message = format!(
            "{files} of specialist agents have parts without effect ({})",
            unused.len()
        );
        let warning = Diagnostic::warning(Code::NoEffect, message)
            .at(agent.locate("routing.agents.directories"))
            .about("routing.agents.directories")
            .with_note(first.message.clone())
            .with_help("`holodeck agents validate` names them; they act with `algorithm: keyword-v1`");
        found.push(warning);
    }
    load.diagnostics.extend(found);
}

/// Names of specialist agents in the agent's file that no agent has.
fn unknown_names(agent: &LoadedAgent, registry: &AgentRegistry) -> Vec<Diagnostic> {
    let Some(config) = agent
        .config
        .routing
        .as_ref()
        .and_then(|routing| routing.agents.as_ref())
    else {
        return Vec::new();
    };
    let mut names: Vec<(String, &str)> = Vec::new();
    let default = "routing.agents.default_agent";
    // The default of the default needs no file: without one, nothing is executed by it.
    if let Some(name) = config
        .default_agent
        .as_deref()
        .filter(|_| agent.locate(default).is_some())
    {
        names.push((default.to_owned(), name));
    }
    for (index, name) in config.exclude.iter().enumerate() {
        names.push((format!("routing.agents.exclude.{index}"), name));
    }
    for (index, case) in agent.config.test_cases.detailed() {
        if let Some(name) = case.expected_agent.as_ref().and_then(Option::as_deref) {
            names.push((format!("test_cases.{index}.expected_agent"), name));
        }
    }
    let unknown = names.into_iter().filter(|(_, name)| registry.get(name).is_none());
    let known = || registry.agents().iter().map(|agent| agent.name.as_str());
    unknown
        .map(|(pointer, name)| {
            let message = format!("`{name}` is not a specialist agent in `routing.agents.directories`");
            let mut diagnostic = Diagnostic::warning(Code::UnknownAgent, message)
                .at(agent.locate(&pointer))
                .about(pointer);
            match closest(name, known()) {
                Some(meant) => diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?")),
                None => diagnostic = diagnostic.with_help("`holodeck agents list` shows the agents"),
            }
            diagnostic
        })
        .collect()
}

/// The folders of `routing.agents`; `None` if the agent has no such block.
pub fn agent_folders(agent: &ResolvedAgent) -> Option<Vec<AgentFolder>> {
    let agents = agent.config.routing.as_ref()?.agents.as_ref()?;
    let folders = agents.directories.iter().map(|directory| AgentFolder {
        path: directory.path.path(),
        core: directory.core,
    });
    Some(folders.collect())
}

/// The folders of `routing.agents` that do not exist, if nothing else is wrong with an agent file.
pub fn missing_agent_folders(path: &Path, env: &Env) -> Vec<PathBuf> {
    let is_missing = |found: &&Diagnostic| {
        let field = found.pointer.as_deref().unwrap_or_default();
        found.code == Code::FileNotFound && field.starts_with("routing.agents.directories")
    };
    let load = holodeck_yaml::load_agent(path, env, &DiskFiles);
    let errors: Vec<&Diagnostic> = load.diagnostics.iter().filter(|found| found.is_error()).collect();
    if errors.is_empty() || !errors.iter().all(is_missing) {
        return Vec::new();
    }
    let load = holodeck_yaml::load_agent(path, env, &AsIfMade);
    let folders = load.agent.and_then(|agent| agent_folders(&agent));
    let folders = folders.into_iter().flatten().map(|folder| folder.path);
    folders.filter(|folder| !folder.exists()).collect()
}

/// The files of the disk, as if every folder that is missing were there.
struct AsIfMade;

impl Files for AsIfMade {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        DiskFiles.read(path, limit)
    }

    fn kind(&self, path: &Path) -> FileKind {
        match DiskFiles.kind(path) {
            FileKind::Missing => FileKind::Directory,
            kind => kind,
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        DiskFiles.absolute(path)
    }
}

/// The specialist agents of `routing.agents`; `None` if the agent has no such block.
pub fn load_own_agents(agent: &ResolvedAgent) -> Option<LoadedAgents> {
    let folders = agent_folders(agent)?;
    let routing = agent.config.routing.as_ref()?;
    let mut agents = load_agents(&folders, routing.agents.clone()?);
    agents.rules.enabled = routing.enabled;
    agents.rules.commands = Some(routing.commands.clone());
    agents.rules.min_confidence = routing.min_confidence;
    Some(agents)
}

/// Reads tasks with the agent expected for each from a YAML, CSV or JSON Lines file; see [`evaluate_routing`].
pub fn load_task_file(path: &Path) -> (Vec<RoutingCase>, Load) {
    holodeck_yaml::load_routing_cases(path, &DiskFiles)
}

/// The specialist agents in these folders and the folders below them. The result does not depend on the order in which
/// the system lists the files.
pub fn load_agents(folders: &[AgentFolder], config: AgentsConfig) -> LoadedAgents {
    let mut diagnostics = Vec::new();
    let mut sources = Sources::default();
    let mut docs = Vec::new();
    let mut skipped = 0;
    for file in folder::find_files(folders, &mut diagnostics) {
        let (doc, load) = load_agent_doc(&file.path, file.core, &DiskFiles);
        skipped += usize::from(doc.is_none());
        // The text of every agent may be needed: duplicates and reviews refer to its name.
        if doc.is_some() || !load.diagnostics.is_empty() {
            for source in load.sources.iter() {
                sources.add(source.path.to_path_buf(), source.text.clone());
            }
        }
        docs.extend(doc);
        if diagnostics.len() < MAX_DIAGNOSTICS {
            diagnostics.extend(load.diagnostics);
        }
    }
    let (registry, duplicates) = AgentRegistry::new(docs);
    diagnostics.extend(duplicates);
    if registry.agents().is_empty() {
        for folder in folders {
            diagnostics.push(no_agents(&folder.path));
        }
    }
    LoadedAgents {
        registry,
        rules: RouteRules {
            enabled: true,
            commands: None,
            min_confidence: RoutingConfig::default().min_confidence,
            default_agent_routes: config.default_agent_routes,
        },
        config,
        load: Load {
            agent: None,
            diagnostics,
            sources,
        },
        skipped,
    }
}

fn no_agents(path: &Path) -> Diagnostic {
    let message = format!("`{}` contains no agent", path.display());
    Diagnostic::warning(Code::NoAgents, message).with_help("`holodeck agents new NAME` creates one")
}
