//! An agent with everything that a run needs, all layers applied.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexMap;
use secrecy::SecretString;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::hex::hex;
use crate::{Agent, Combination, DatabaseConfig, ExecutionSettings, JsonMap, ModelConfig};

/// An agent that can be run. Engines, drivers and tools take it and do not depend on where it was written.
#[derive(Clone, Debug)]
pub struct ResolvedAgent {
    /// The configuration of the files, layers applied.
    pub config: Agent,
    /// The agent file.
    pub path: PathBuf,
    /// The combination of its `matrix` that replaced fields of the file; `None` for the file as it is.
    pub combination: Option<Combination>,
    /// Its directory.
    pub dir: PathBuf,
    /// The system prompt.
    pub instructions: ResolvedInstructions,
    /// The JSON Schema of the answer.
    pub response_format: Option<serde_json::Value>,
    /// How tests are run, after all layers except the command line.
    pub execution: ExecutionSettings,
    /// `config.yaml` beside the agent file, if there is one.
    pub project_config: Option<PathBuf>,
    /// `~/.holodeck/config.yaml`, if there is one.
    pub user_config: Option<PathBuf>,
    /// The vector databases of `config.yaml`, of the project and of the user.
    pub vectorstores: IndexMap<String, DatabaseConfig>,
    /// Parts that parse but cannot be run yet.
    pub unsupported: Vec<Unsupported>,
    /// All secrets of the files, to mask them in everything that is written or shown.
    pub secrets: Arc<[SecretString]>,
}

impl ResolvedAgent {
    /// An agent that a program configures without files, with this system prompt and the default settings. Fields that name
    /// files are relative to the working folder.
    pub fn new(config: Agent, prompt: &str) -> Self {
        Self {
            response_format: config
                .response_format
                .as_ref()
                .and_then(|format| format.value().cloned()),
            config,
            path: PathBuf::new(),
            combination: None,
            dir: PathBuf::new(),
            instructions: ResolvedInstructions::new(prompt.to_owned(), InstructionsSource::Inline),
            execution: ExecutionSettings::default(),
            project_config: None,
            user_config: None,
            vectorstores: IndexMap::new(),
            unsupported: Vec::new(),
            secrets: Arc::default(),
        }
    }

    /// A path relative to the agent file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// A copy without test cases, of which there may be many.
    pub fn without_cases(&self) -> Self {
        Self {
            config: self.config.without_cases(),
            path: self.path.clone(),
            combination: self.combination.clone(),
            dir: self.dir.clone(),
            instructions: self.instructions.clone(),
            response_format: self.response_format.clone(),
            execution: self.execution.clone(),
            project_config: self.project_config.clone(),
            user_config: self.user_config.clone(),
            vectorstores: self.vectorstores.clone(),
            unsupported: self.unsupported.clone(),
            secrets: Arc::clone(&self.secrets),
        }
    }

    /// Whether `model` is the agent's model.
    pub fn has_model(&self, model: &ModelConfig) -> bool {
        let own = self.config.model.as_ref();
        own.is_some_and(|own| model.provider == own.provider && model.name == own.name)
    }

    /// An agent that answers one question with `model`: it has no instructions, tools, response format or anything else
    /// of this agent except its folder and limits.
    pub fn for_one_question(&self, model: ModelConfig) -> Self {
        let config = &self.config;
        let has_model = self.has_model(&model);
        Self {
            config: Agent {
                name: config.name.clone(),
                description: None,
                author: None,
                model: Some(model),
                instructions: config.instructions.clone(),
                target: None,
                response_format: None,
                tools: Vec::new(),
                tool_filtering: None,
                approvals: None,
                evaluations: None,
                test_cases: crate::Cases::default(),
                test_cases_file: None,
                matrix: None,
                execution: config.execution.clone(),
                observability: None,
                events: None,
                attachments: None,
                routing: None,
                quality_loop: None,
                evidence: None,
                telemetry: None,
                serve: None,
                deployment: None,
                embedding_provider: None,
                claude: None,
                // These settings are for the agent's own model.
                openai: config.openai.clone().filter(|_| has_model),
            },
            path: self.path.clone(),
            combination: None,
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
        }
    }
}

/// The system prompt and its front matter.
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
    /// Its purpose.
    pub description: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// All other fields of the front matter.
    pub extra: JsonMap,
    /// SHA-256 of the prompt in hexadecimal.
    pub body_hash: String,
}

impl ResolvedInstructions {
    /// A prompt without front matter.
    pub fn new(text: String, source: InstructionsSource) -> Self {
        let body_hash = hex(&Sha256::digest(text.as_bytes()));
        let version = format!("auto-{}", body_hash.get(..8).unwrap_or_default());
        Self {
            text,
            source,
            file_path: None,
            version,
            author: None,
            description: None,
            tags: Vec::new(),
            extra: JsonMap::new(),
            body_hash,
        }
    }
}

/// Where a prompt comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionsSource {
    /// A file.
    File,
    /// The agent file.
    Inline,
    /// There is none: what answers brings its own.
    None,
}

/// A part of the YAML that parses but cannot be run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// Its description, as in ``tool `kb` (type `vectorstore`)``.
    pub what: String,
    /// Where it is, as in `tools.0`.
    pub pointer: String,
    /// How a run handles it.
    pub needed_by_run: Need,
}

/// How a run handles a part that cannot be run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// It does not start: exit code 2.
    Blocks,
    /// It runs; only the warning is reported.
    Warning,
}
