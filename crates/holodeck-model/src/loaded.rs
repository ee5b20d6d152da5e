//! An agent that was loaded, and where each part of it was written.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexMap;
use secrecy::SecretString;
use serde::Serialize;

use crate::{
    Agent, DatabaseConfig, ExecutionSettings, JsonMap, Layer, Location, ModelConfig,
    yaml::{NodeId, Tree},
};

/// An agent that can be run.
#[derive(Clone, Debug)]
pub struct LoadedAgent {
    /// What the files say, layers applied.
    pub config: Agent,
    /// The agent file.
    pub path: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
    /// The system prompt.
    pub instructions: ResolvedInstructions,
    /// The JSON Schema of the answer.
    pub response_format: Option<serde_json::Value>,
    /// How tests are run, after all layers but the command line.
    pub execution: ExecutionSettings,
    /// `config.yaml` beside the agent file, if there is one.
    pub project_config: Option<PathBuf>,
    /// `~/.holodeck/config.yaml`, if there is one.
    pub user_config: Option<PathBuf>,
    /// The vector databases that `config.yaml` names, of the project and of the user.
    pub vectorstores: IndexMap<String, DatabaseConfig>,
    /// Parts that parse but cannot be run yet.
    pub unsupported: Vec<Unsupported>,
    pub(crate) secrets: Arc<[SecretString]>,
    /// Absent once [`LoadedAgent::forget_places`] was called.
    pub(crate) tree: Option<Arc<Tree>>,
    pub(crate) root: NodeId,
}

impl LoadedAgent {
    /// Where a field was written, as in `model.endpoint` or `test_cases.3.evaluations.0`.
    pub fn locate(&self, pointer: &str) -> Option<Location> {
        self.find(pointer).map(|(location, _)| location)
    }

    /// Which layer set a field; `BuiltIn` if no file did.
    pub fn layer(&self, pointer: &str) -> Layer {
        self.find(pointer).map_or(Layer::BuiltIn, |(_, layer)| layer)
    }

    /// The files that were read to load the agent.
    pub fn source_files(&self) -> impl Iterator<Item = &Path> {
        let sources = self.tree.iter().flat_map(|tree| tree.sources());
        sources.map(|(_, source)| &*source.path)
    }

    /// A path relative to the agent file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// Every secret of the files, for taking it out of whatever is written or shown.
    pub fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }

    /// An agent that answers one question with `model`: without instructions, tools, a form of the answer or anything
    /// else of this one but its folder and limits.
    pub fn for_one_question(&self, model: ModelConfig) -> Self {
        let config = &self.config;
        let own_model = model.provider != config.model.provider || model.name != config.model.name;
        Self {
            config: Agent {
                name: config.name.clone(),
                description: None,
                author: None,
                model,
                instructions: config.instructions.clone(),
                response_format: None,
                tools: Vec::new(),
                tool_filtering: None,
                approvals: None,
                evaluations: None,
                test_cases: Vec::new(),
                test_cases_file: None,
                execution: config.execution.clone(),
                observability: None,
                deployment: None,
                embedding_provider: None,
                claude: None,
                // It tells of the agent's own model.
                openai: config.openai.clone().filter(|_| !own_model),
            },
            path: self.path.clone(),
            dir: self.dir.clone(),
            instructions: ResolvedInstructions {
                text: String::new(),
                ..self.instructions.clone()
            },
            response_format: None,
            execution: self.execution.clone(),
            project_config: self.project_config.clone(),
            user_config: self.user_config.clone(),
            vectorstores: IndexMap::new(),
            unsupported: Vec::new(),
            secrets: Arc::clone(&self.secrets),
            tree: self.tree.clone().filter(|_| !own_model),
            root: self.root,
        }
    }

    /// Gives back the memory of where everything was written: of many test cases it is felt. Nothing can be located
    /// any more.
    pub fn forget_places(&mut self) {
        self.tree = None;
    }

    fn find(&self, pointer: &str) -> Option<(Location, Layer)> {
        let tree = self.tree.as_ref()?;
        let place = tree.place(tree.find(self.root, pointer)?);
        Some((tree.location(place), tree.layer(place)))
    }
}

/// The system prompt and what its front matter says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedInstructions {
    /// The prompt, without front matter.
    pub text: String,
    /// Where it comes from.
    pub source: InstructionsSource,
    /// The file, if it comes from one.
    pub file_path: Option<PathBuf>,
    /// Its version: from the front matter, else `auto-` and eight digits of the hash.
    pub version: String,
    /// Who wrote it.
    pub author: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whatever else the front matter says.
    pub extra: JsonMap,
    /// SHA-256 of the prompt in hexadecimal.
    pub body_hash: String,
}

/// Where a prompt comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionsSource {
    /// A file.
    File,
    /// The agent file.
    Inline,
}

/// A part of the language that parses but cannot be run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// What it is, as in ``tool `kb` (type `vectorstore`)``.
    pub what: String,
    /// Where it is, as in `tools.0`.
    pub pointer: String,
    /// What a run does about it.
    pub needed_by_run: Need,
}

/// What a run does about a part that cannot be run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// It refuses: exit code 2.
    Blocks,
    /// It runs, and ends with exit code 4, because a metric could not be evaluated.
    JudgeMetric,
    /// It runs; the warning has said enough.
    Warning,
}
