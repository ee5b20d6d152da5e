//! The files that a run reads and must not overwrite.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use holodeck_cassette::Cassette;
use holodeck_documents::Source;
use holodeck_model::{Env, PathRef, ToolConfig};
use holodeck_yaml::LoadedAgent;

use crate::{AnswerSource, TestOptions};

/// The files that a run reads.
#[derive(Clone, Debug, Default)]
pub struct RunInputs {
    files: Vec<PathBuf>,
    /// Documents that are searched: files, and folders with all their contents.
    sources: Vec<PathBuf>,
}

impl RunInputs {
    /// The inputs of a run of `agent`: the files that were read to load it, and those that they and `options` name.
    pub fn new(agent: &LoadedAgent, env: &Env, options: &TestOptions) -> Self {
        let mut inputs = Self {
            files: agent.places.source_files().map(Path::to_owned).collect(),
            sources: Vec::new(),
        };
        let config = &agent.config;
        let files = &mut inputs.files;
        let folders = [Some(agent.dir.clone()), env.user_dir()];
        for folder in folders.into_iter().flatten() {
            files.extend([folder.join(".env"), folder.join("prices.json")]);
        }
        files.extend(options.open.prices.clone());
        match &options.open.answers {
            AnswerSource::Replay(path) => files.push(path.clone()),
            // A run that records may overwrite the recording.
            AnswerSource::AsConfigured if options.open.record.is_none() => {
                files.extend(agent.execution.replay.value.clone());
            }
            AnswerSource::AsConfigured | AnswerSource::Live => {}
        }
        for (_, case) in config.test_cases.detailed() {
            let turn_files = case.turns.iter().flat_map(|turn| &turn.files);
            let paths = case
                .files
                .iter()
                .chain(turn_files)
                .filter_map(|file| file.path.as_ref());
            files.extend(paths.map(PathRef::path));
        }
        let agents = config.claude.iter().flat_map(|claude| claude.agents.values());
        files.extend(agents.filter_map(|agent| Some(agent.prompt_file.as_ref()?.path())));
        for tool in &config.tools {
            inputs.add_tool(tool, &agent.dir);
        }
        inputs
    }

    fn add_tool(&mut self, tool: &ToolConfig, folder: &Path) {
        let files = &mut self.files;
        match tool {
            ToolConfig::Vectorstore(tool) => self.add_source(&tool.source),
            ToolConfig::HierarchicalDocument(tool) => self.add_source(&tool.source),
            ToolConfig::Function(tool) => {
                files.extend(tool.file.iter().chain(&tool.command).map(PathRef::path));
                files.extend(tool.args.iter().map(|argument| folder.join(argument)));
            }
            ToolConfig::Prompt(tool) => files.extend(tool.file.iter().map(PathRef::path)),
            ToolConfig::Mcp(tool) => {
                files.extend(tool.env_file.iter().chain(&tool.command).map(PathRef::path));
                files.extend(tool.args.iter().map(|argument| folder.join(argument)));
            }
        }
    }

    fn add_source(&mut self, source: &PathRef) {
        if let Ok(Source::Files(path)) = Source::parse(source.as_str()) {
            self.sources.push(source.base().join(path));
        }
    }

    /// Whether `path` is one of these files, under any name.
    pub fn contains(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
        let Some(own) = identity(path) else { return false };
        self.files.iter().any(|file| identity(file) == Some(own))
    }

    /// Whether `path` is among the documents that are searched.
    pub fn searches(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else {
            return false;
        };
        let mut sources = self
            .sources
            .iter()
            .filter_map(|source| source.canonicalize().ok());
        sources.any(|source| path.starts_with(source))
    }
}

/// Whether a file is a recording.
pub fn is_recording(path: &Path) -> bool {
    Cassette::is_cassette(path)
}
