//! Loads an agent from a path and reports every problem.

mod data_set;
mod fences;
mod finish;
mod front_matter;
mod idle;
mod instructions;
mod json;
mod layers;
mod matrix;
mod read;
mod sent_files;
mod settings;
mod skills;
mod templates;
mod test_cases;
mod unsupported;

pub(crate) use self::data_set::routing_schema;
pub(crate) use self::data_set::{CsvRows, read_foreign_sheet};
pub use self::data_set::{load_answers, load_labels, load_routing_cases};
pub(crate) use self::fences::{Unread, first_line, is_fence, split_front_matter};
pub use self::skills::load_skill;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_model::{
    Agent, Code, Combination, Diagnostic, Env, ExecutionSettings, Files, Layer, ResolvedAgent, Sources,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    LoadedAgent,
    check::{Findings, check_agent_rules, check_shape, recognise},
    schema,
    yaml::{Entry, NodeId, Tree, build, from_tree},
};

/// The result of loading: the agent unless there was an error, every problem, and the sources to show them.
#[derive(Clone, Debug)]
pub struct Load {
    /// The agent; absent if any diagnostic is an error.
    pub agent: Option<LoadedAgent>,
    /// Every problem, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that were read.
    pub sources: Sources,
}

impl Load {
    /// Whether something must be fixed before a run.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Loads an agent file with its layers and referenced files.
///
/// Layers, in decreasing precedence: `HOLODECK_*` variables in `env`, the agent file, `config.yaml` beside it,
/// `config.yaml` in `~/.holodeck`, the defaults. The caller applies flags on top.
pub fn load_agent(path: &Path, env: &Env, files: &dyn Files) -> Load {
    let mut loader = Loader::new(env, files);
    let agent = loader.load(path);
    loader.finish(agent)
}

/// As [`load_agent`], with the values of one combination of the agent's `matrix` in place of those of the file. A
/// combination that the matrix does not have is an error.
pub fn load_combination(path: &Path, env: &Env, files: &dyn Files, combination: &Combination) -> Load {
    let mut loader = Loader::new(env, files);
    loader.combination = Some(combination);
    let agent = loader.load(path);
    loader.finish(agent)
}

pub(crate) struct Loader<'a> {
    env: &'a Env,
    files: &'a dyn Files,
    pub(crate) tree: Tree,
    pub(crate) findings: Findings,
    /// The JSON Schemas that were read, by path.
    schemas: HashMap<PathBuf, Value>,
    /// The combination of the matrix to load.
    combination: Option<&'a Combination>,
}

/// The result without the tree, which the loader still owns.
pub(crate) struct Parts {
    root: NodeId,
    agent: ResolvedAgent,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(env: &'a Env, files: &'a dyn Files) -> Self {
        Self {
            env,
            files,
            tree: Tree::default(),
            findings: Findings::default(),
            schemas: HashMap::new(),
            combination: None,
        }
    }
}

/// Reports name these paths, so they stay relative to the working directory if the path of the agent file is.
fn show_as_given(settings: &mut ExecutionSettings, base: &Path, dir: &Path) {
    let shown = |path: &PathBuf| Some(dir.join(path.strip_prefix(base).ok()?));
    if let Some(path) = settings.replay.value.as_ref().and_then(shown) {
        settings.replay.value = Some(path);
    }
    if let Some(path) = shown(&settings.cache_dir.value) {
        settings.cache_dir.value = path;
    }
}

impl Loader<'_> {
    fn load(&mut self, path: &Path) -> Option<Parts> {
        let root = self.agent_tree(path)?;
        if let Some(foreign) = recognise(&self.tree, root, path) {
            // Nothing else that is wrong with it helps.
            self.findings = Findings::default();
            let place = self.tree.place(root);
            self.findings.add(&self.tree, place, foreign);
            return None;
        }
        // Before the layers, so that it is as if the file had these values.
        let root = self.apply_combination(root);
        let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let configs = self.config_layers(&dir);
        let root = configs
            .merged
            .map_or(root, |config| self.apply_config(root, config));
        let root = self.resolve_test_cases_file(root);

        self.warn_unknown_stores(root, configs.merged);
        check_shape(&self.tree, &schema::AGENT, root, &mut self.findings);
        check_agent_rules(&self.tree, root, self.files, &mut self.findings);
        let unsupported = self.find_unsupported(root);
        self.check_sent_files(root);
        let instructions = self.resolve_instructions(root);
        self.read_schemas(root);
        let settings_from_env = self.settings_from_env();
        if self.findings.has_errors() {
            return None;
        }

        let mut config = self.read_agent(root)?;
        self.fill_in(&mut config);
        let mut execution = self.execution_settings(root, &config, &dir, settings_from_env);
        let base = self.files.absolute(&dir);
        show_as_given(&mut execution, &base, &dir);
        self.note_tests(root, &config);
        // Diagnostics show paths as they were given; what is opened later must not depend on the working directory.
        let path = self.files.absolute(path);

        let vectorstores = configs
            .merged
            .map(|config| self.vectorstores(config))
            .unwrap_or_default();
        let response_format = config
            .response_format
            .as_ref()
            .and_then(|format| format.value().cloned());
        let agent = ResolvedAgent {
            config,
            path,
            combination: self.combination.cloned(),
            dir: base,
            instructions: instructions?,
            response_format,
            execution,
            project_config: configs.project,
            user_config: configs.user,
            vectorstores,
            unsupported,
            secrets: Arc::default(),
        };
        Some(Parts { root, agent })
    }

    /// The tree of the agent file alone.
    fn agent_tree(&mut self, path: &Path) -> Option<NodeId> {
        let file = self.read_agent_file(path)?;
        let len = self.tree.file_text(file).len();
        let built = build(&mut self.tree, file, 0..len, Some(self.env));
        if built.root.is_none() && built.diagnostics.is_empty() {
            let diagnostic = Diagnostic::error(Code::EmptyFile, "the file is empty")
                .with_help("`holodeck init` creates a project that runs");
            let place = crate::yaml::Place {
                file,
                start: 0,
                end: 0,
            };
            self.findings.add(&self.tree, place, diagnostic);
        }
        self.findings.diagnostics.extend(built.diagnostics);
        built.root
    }

    /// The agent with its cases, which are not read as a whole because there may be many.
    fn read_agent(&mut self, root: NodeId) -> Option<Agent> {
        let entries = self.tree.entries(root).unwrap_or_default().iter();
        let (lists, others): (Vec<Entry>, Vec<Entry>) =
            entries.partition(|entry| self.tree.key(entry) == "test_cases");
        let place = self.tree.place(root);
        let without_cases = self.tree.map_node(place, &others);
        let mut agent: Agent = self.deserialize(without_cases)?;
        for list in lists {
            agent.test_cases = self.read_cases(list.value)?;
        }
        Some(agent)
    }

    pub(crate) fn deserialize<T: DeserializeOwned>(&mut self, node: NodeId) -> Option<T> {
        match from_tree(&self.tree, node) {
            Ok(value) => Some(value),
            Err(error) => {
                let place = error.place.unwrap_or_else(|| self.tree.place(node));
                self.findings.add(
                    &self.tree,
                    place,
                    Diagnostic::error(Code::WrongType, error.message),
                );
                None
            }
        }
    }

    /// Fills in what serde cannot: schemas from files. Removes blocks that the provider does not use.
    fn fill_in(&self, agent: &mut Agent) {
        if agent.is_claude() {
            agent.tool_filtering = None;
        }
        let schemas = &self.schemas;
        if let Some(format) = &mut agent.response_format {
            json::fill(format, schemas);
        }
        for metric in agent
            .evaluations
            .iter_mut()
            .flat_map(|evaluations| &mut evaluations.metrics)
        {
            json::fill_metric(metric, schemas);
        }
        for case in agent.test_cases.detailed_mut() {
            let turns = case.turns.iter_mut().flat_map(|turn| &mut turn.evaluations);
            for metric in case.evaluations.iter_mut().chain(turns) {
                json::fill_metric(metric, schemas);
            }
            let stop = case.user.as_mut().and_then(|user| user.stop_when.as_mut());
            if let Some(stop) = stop {
                json::fill_standard(stop, schemas);
            }
        }
    }

    /// The layer that a node was written in.
    fn layer(&self, node: NodeId) -> Layer {
        self.tree.layer(self.tree.place(node))
    }
}
