//! The files that an agent uses, with their digests.
//!
//! This module knows which fields name files; [`FileCollector`] knows how a file is read and named.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use holodeck_cassette::Cassette;
use holodeck_documents::{Pictures, Source, WalkError, WalkOptions, walk};
use holodeck_model::{LegacyConfig, PathRef, ResolvedAgent, SettingSource, ToolConfig};
use holodeck_retrieval::FileManifest;

use super::collect::{
    FileCollector, FileDigests, IdentityError, PathNames, digest_content, kind, merge_digests,
};
use crate::index::manifest;

/// The files that the CLI reads in the agent's folder if `setting_sources` allows it.
const SETTINGS: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
];

/// The folders of which it reads every file.
const SETTING_FOLDERS: [&str; 4] = [
    ".claude/agents",
    ".claude/commands",
    ".claude/rules",
    ".claude/skills",
];

/// Files that runs write into the agent's folder.
const WRITTEN: [&str; 3] = ["results", "baselines", "judge-steps.json"];

/// The files that the YAML names for tools without a `mock`.
pub(crate) fn files_of_tools(
    agent: &ResolvedAgent,
) -> Result<Vec<(&ToolConfig, FileDigests)>, IdentityError> {
    let tools = agent.config.tools.iter().enumerate();
    let mut found = Vec::new();
    for (index, tool) in tools.filter(|(_, tool)| !tool.is_mocked()) {
        let files = files_of_tool(agent, tool, &format!("tools.{index}"))?;
        if !files.is_empty() {
            found.push((tool, files));
        }
    }
    Ok(found)
}

fn files_of_tool(
    agent: &ResolvedAgent,
    tool: &ToolConfig,
    pointer: &str,
) -> Result<FileDigests, IdentityError> {
    let mut files = FileCollector::new(&agent.dir);
    files.at(pointer);
    match tool {
        ToolConfig::Vectorstore(it) => {
            let manifest = open_manifest(agent, tool);
            return documents(&it.source, it.follow_links, agent, manifest)
                .map_err(|problem| problem.named_by(pointer));
        }
        ToolConfig::HierarchicalDocument(it) => {
            let manifest = open_manifest(agent, tool);
            return documents(&it.source, it.follow_links, agent, manifest)
                .map_err(|problem| problem.named_by(pointer));
        }
        ToolConfig::Function(tool) => {
            let command = tool.command.as_ref();
            files.add_program(command, &tool.args, command.map_or(&agent.dir, |it| it.base()));
            files.add_variables("variable", &tool.env);
            if let Some(file) = &tool.file {
                files.at(format!("{pointer}.file"));
                files.add_script(Path::new(file.as_str()), file.base());
            }
        }
        ToolConfig::Mcp(tool) => {
            files.add_program(tool.command.as_ref(), &tool.args, &agent.dir);
            files.add_variables("variable", &tool.env);
            files.add_variables("header", &tool.headers);
            if let Some(file) = &tool.env_file {
                files.at(format!("{pointer}.env_file")).add_env_file(file);
            }
        }
        ToolConfig::Prompt(tool) => {
            if let Some(file) = &tool.file {
                files.at(format!("{pointer}.file")).add_file(&file.path());
            }
        }
    }
    files.digests()
}

/// The files of sub-agents, and the CLI's own settings, by the part of the YAML that names them.
pub(crate) fn files_of_claude(
    agent: &ResolvedAgent,
) -> Result<Vec<(&'static str, FileDigests)>, IdentityError> {
    let Some(claude) = &agent.config.claude else {
        return Ok(Vec::new());
    };
    let mut prompts = FileCollector::new(&agent.dir);
    for (name, subagent) in &claude.agents {
        if let Some(file) = &subagent.prompt_file {
            prompts
                .at(format!("claude.agents.{name}.prompt_file"))
                .add_file(&file.path());
        }
    }
    let mut settings = FileCollector::new(&agent.dir);
    settings.at("claude.setting_sources");
    let in_folder = |source: &SettingSource| *source != SettingSource::User;
    if claude.setting_sources.iter().any(in_folder) {
        let folder = claude.working_directory.as_ref();
        let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
        for name in &SETTINGS {
            settings.add_file(&folder.join(name));
        }
        for name in &SETTING_FOLDERS {
            settings.add_all(&folder.join(name));
        }
    }
    let mut files = vec![
        ("claude.agents", prompts.digests()?),
        ("claude.setting_sources", settings.digests()?),
    ];
    files.retain(|(_, files)| !files.is_empty());
    Ok(files)
}

/// The files of this machine that test cases send.
pub(super) fn attachments(agent: &ResolvedAgent) -> Result<FileDigests, IdentityError> {
    let mut files = FileCollector::new(&agent.dir);
    for (case, config) in agent.config.test_cases.detailed() {
        let of_case = (format!("test_cases.{case}"), &config.files);
        let of_turns = config.turns.iter().enumerate();
        let of_turns =
            of_turns.map(|(turn, config)| (format!("test_cases.{case}.turns.{turn}"), &config.files));
        for (pointer, inputs) in std::iter::once(of_case).chain(of_turns) {
            let paths = inputs.iter().enumerate();
            for (index, path) in paths.filter_map(|(index, file)| Some((index, file.path.as_ref()?))) {
                files
                    .at(format!("{pointer}.files.{index}.path"))
                    .add_file(&path.path());
            }
        }
    }
    files.digests()
}

/// The files of the skills of `routing.skills`, which a skill may read or run.
pub(super) fn skills(agent: &ResolvedAgent) -> Result<FileDigests, IdentityError> {
    let mut files = FileCollector::new(&agent.dir);
    let routing = agent.config.routing.as_ref();
    if let Some(skills) = routing.and_then(|routing| routing.skills.as_ref()) {
        files
            .at("routing.skills.directory")
            .add_all(&skills.directory.path());
    }
    files.digests()
}

/// The program of `routing.legacy`.
pub(super) fn legacy_program(
    agent: &ResolvedAgent,
    legacy: &LegacyConfig,
) -> Result<FileDigests, IdentityError> {
    let mut files = FileCollector::new(&agent.dir);
    if let Some(line) = &legacy.command {
        files
            .at("routing.legacy.command")
            .add_command_line(line, &agent.dir);
    }
    files.digests()
}

/// Why the documents of a source cannot be read.
#[derive(Debug)]
pub(super) struct SourceProblem {
    path: PathBuf,
    reason: String,
}

impl SourceProblem {
    fn named_by(self, tool: &str) -> IdentityError {
        IdentityError::new(&self.path, &format!("{tool}.source"), self.reason)
    }
}

/// The documents that a tool searches, without the agent's own files and those that its runs write. Web sources are not
/// fetched: their addresses are in the configuration. Files that did not change since the index read them are not read.
pub(super) fn documents(
    source: &PathRef,
    follow_links: bool,
    agent: &ResolvedAgent,
    mut manifest: FileManifest,
) -> Result<FileDigests, SourceProblem> {
    let problem = |path: &Path, reason: String| SourceProblem {
        path: path.to_owned(),
        reason,
    };
    let path = match Source::parse(source.as_str()) {
        Ok(Source::Files(path)) => path,
        Ok(_) => return Ok(FileDigests::new()),
        Err(error) => {
            return Err(problem(
                Path::new(source.as_str()),
                format!("is not usable: {error}"),
            ));
        }
    };
    let place = source.base().join(&path);
    let unreadable = |error: std::io::Error| {
        let reason = holodeck_model::io_reason(&error);
        problem(&place, format!("cannot be read: {reason}"))
    };
    let options = WalkOptions {
        // Whether their text can be read depends on the machine.
        pictures: Pictures::Taken,
        links: follow_links.into(),
        ..WalkOptions::default()
    };
    let (found, broken) = match walk(&path, source.base(), &options) {
        Ok(walked) => (walked.files, walked.unreadable),
        // An index is never built of a source without documents, and a replay needs none of them.
        Err(WalkError::Nothing { unreadable, .. }) => (Vec::new(), unreadable),
        Err(WalkError::Missing(_)) => {
            kind(&place).map_err(unreadable)?;
            (Vec::new(), Vec::new())
        }
        Err(error) => return Err(problem(&place, error.to_string())),
    };
    if let Some(name) = broken.first() {
        return Err(problem(&agent.dir.join(name), "cannot be read".to_owned()));
    }
    let names = PathNames::new(&agent.dir);
    let mut own = OwnFiles::of(agent);
    let mut digests = FileDigests::new();
    for file in found {
        if own.contains(&file.path) {
            continue;
        }
        let digest = match manifest.content(&file.path, u64::MAX) {
            Ok(content) if Cassette::has_header(content.head.as_bytes()) => continue,
            Ok(content) => shorten(content.digest),
            Err(_) => digest_content(&file.path).map_err(|error| {
                let reason = holodeck_model::io_reason(&error);
                problem(&file.path, format!("cannot be read: {reason}"))
            })?,
        };
        digests.insert(names.of_path(&file.path), digest);
    }
    if let Err(error) = manifest.save() {
        // The only consequence is that files are read again.
        tracing::debug!(%error, "cannot store the digests of files");
    }
    Ok(merge_digests(digests))
}

fn open_manifest(agent: &ResolvedAgent, tool: &ToolConfig) -> FileManifest {
    FileManifest::open(&manifest(agent, tool), SystemTime::now())
}

/// Shortens a full digest to the form of [`holodeck_cassette::digest`].
fn shorten(digest: &str) -> String {
    format!("sha256:{}", digest.get(..32).unwrap_or(digest))
}

/// The agent's file, and what its runs write.
struct OwnFiles {
    paths: Vec<PathBuf>,
    /// Folders with their links resolved, by their names.
    folders: HashMap<PathBuf, PathBuf>,
}

impl OwnFiles {
    fn of(agent: &ResolvedAgent) -> Self {
        let written = WRITTEN.iter().map(|name| agent.dir.join(name));
        let paths = std::iter::once(agent.path.clone()).chain(written);
        Self {
            paths: paths.filter_map(|path| path.canonicalize().ok()).collect(),
            folders: HashMap::new(),
        }
    }

    fn contains(&mut self, file: &Path) -> bool {
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
            return false;
        };
        let is_link = fs::symlink_metadata(file).is_ok_and(|about| about.is_symlink());
        let path = if is_link {
            file.canonicalize().ok()
        } else {
            // One folder may contain many files.
            let cached = self.folders.get(folder).cloned();
            let folder = cached.or_else(|| {
                let resolved = folder.canonicalize().ok()?;
                self.folders.insert(folder.to_owned(), resolved.clone());
                Some(resolved)
            });
            folder.map(|folder| folder.join(name))
        };
        path.is_some_and(|path| self.paths.iter().any(|own| path.starts_with(own)))
    }
}
