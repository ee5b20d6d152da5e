//! Every file and program that an agent file names, with its owner and its place in the YAML: the one walk over them.
//!
//! Identities, the files that no output may overwrite, and the files that an agent must not touch are loops over it. It
//! must not open a file.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use holodeck_documents::Source;
use holodeck_model::{
    CodeMetric, HooksConfig, MetricConfig, PathRef, ResolvedAgent, SecretMap, SettingSource, TargetConfig,
    ToolConfig,
};
use holodeck_orchestrator::split_command;

use crate::{AgentFolder, commands::agents::agent_folders};

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

/// The part of an agent that uses a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileOwner<'a> {
    /// A tool that runs.
    Tool(&'a ToolConfig),
    /// The sub-agents of the Claude Code CLI.
    Subagents,
    /// The programs that observe the conversations on Claude.
    Hooks,
    /// The settings that the CLI reads in its folder.
    CliSettings,
    /// The specialist agents.
    Specialists,
    /// The skills of `routing`.
    Skills,
    /// The program of `routing.legacy`.
    Legacy,
    /// A command of `quality_loop.scorer.signals`.
    Signal,
    /// The agent of `routing.legacy`, which has files of its own.
    LegacyAgent,
    /// The test cases, which send them.
    TestCases,
    /// A code grader.
    Grader,
    /// The target that answers.
    Target,
}

impl FileOwner<'_> {
    /// Whether the files shape the answers of the agent to every message.
    pub(crate) fn shapes_answers(self) -> bool {
        !matches!(self, Self::TestCases | Self::Grader)
    }

    /// Whether the model of one turn sees the files or what they do.
    pub(crate) fn shapes_turns(self) -> bool {
        matches!(
            self,
            Self::Tool(_) | Self::Subagents | Self::CliSettings | Self::Target
        )
    }
}

/// The name of the owner among the parts of an identity.
impl fmt::Display for FileOwner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool(tool) => return write!(f, "tool {}", tool.name()),
            Self::Subagents => "claude.agents",
            Self::Hooks => "claude.hooks",
            Self::CliSettings => "claude.setting_sources",
            Self::Specialists => "specialist agent",
            Self::Skills => "skill",
            Self::Legacy => "legacy",
            Self::Signal => "signal",
            Self::LegacyAgent => "legacy agent",
            Self::TestCases => "test case",
            Self::Grader => "grader",
            Self::Target => "target",
        })
    }
}

/// A file or several, as the YAML names them. Each may be missing.
#[derive(Clone, Debug)]
pub(crate) enum Named<'a> {
    /// A file that is read.
    File(PathBuf),
    /// A script, which may import those beside it.
    Script(&'a PathRef),
    /// A Python module in a folder.
    Module(&'a str, &'a Path),
    /// A program and its arguments, which may be files of the folder.
    Program {
        command: Option<&'a PathRef>,
        args: &'a [String],
        folder: &'a Path,
    },
    /// The same in one list.
    CommandLine(Cow<'a, [String]>, &'a Path),
    /// Environment variables or headers: not files, but they may hold paths.
    Variables(&'static str, &'a SecretMap),
    /// A file with environment variables.
    EnvFile(&'a PathRef),
    /// Every file of a folder.
    Folder(PathBuf),
    /// The Markdown files of folders.
    Definitions(Vec<AgentFolder>),
    /// Documents that are searched.
    Documents { source: &'a PathRef, follow_links: bool },
    /// An agent file.
    Agent(PathBuf),
}

/// A file that an agent file names.
#[derive(Clone, Debug)]
pub(crate) struct UsedFile<'a> {
    pub(crate) owner: FileOwner<'a>,
    /// Where the YAML has it, as in `tools.0.file`.
    pub(crate) pointer: String,
    pub(crate) named: Named<'a>,
}

impl UsedFile<'_> {
    /// The paths that are named. An argument is one only if a file has its name.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match &self.named {
            Named::File(path) | Named::Folder(path) | Named::Agent(path) => vec![path.clone()],
            Named::Script(file) | Named::EnvFile(file) => vec![file.path()],
            Named::Module(name, folder) => {
                let path = folder.join(name.replace('.', "/"));
                vec![path.with_added_extension("py"), path]
            }
            Named::Program {
                command,
                args,
                folder,
            } => {
                let command = command.iter().map(|command| command.path());
                command.chain(files_among(args, folder)).collect()
            }
            Named::CommandLine(line, folder) => files_among(line, folder).collect(),
            Named::Variables(..) => Vec::new(),
            Named::Definitions(folders) => folders.iter().map(|folder| folder.path.clone()).collect(),
            Named::Documents { source, .. } => match Source::parse(source.as_str()) {
                Ok(Source::Files(path)) => vec![source.base().join(path)],
                _ => Vec::new(),
            },
        }
    }
}

/// The files among the arguments of a program: an argument, or the value of an option.
fn files_among<'a>(args: &'a [String], folder: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
    let values = args.iter().flat_map(|argument| {
        let option = argument.strip_prefix('-').and_then(|rest| rest.split_once('='));
        [Some(argument.as_str()), option.map(|(_, value)| value)]
    });
    let paths = values.flatten().map(|value| folder.join(value));
    paths.filter(|path| path.is_file())
}

/// Every file that the agent file names, in its order, with those of all cases.
pub(crate) fn files(agent: &ResolvedAgent) -> Vec<UsedFile<'_>> {
    let mut list = List {
        agent,
        files: Vec::new(),
    };
    for (index, tool) in agent.config.real_tools() {
        list.add_tool(&format!("tools.{index}"), tool);
    }
    list.add_target();
    list.add_claude();
    list.add_routing();
    list.add_signals();
    list.add_attachments();
    for (place, metric) in super::metrics(agent, None) {
        if let MetricConfig::Code(grader) = metric {
            list.files
                .extend(files_of_grader(grader, &agent.dir, &place.pointer()));
        }
    }
    list.files
}

/// The files of a code grader: its module or its program.
pub(crate) fn files_of_grader<'a>(
    grader: &'a CodeMetric,
    folder: &'a Path,
    pointer: &str,
) -> impl Iterator<Item = UsedFile<'a>> + use<'a> {
    let module = grader.grader.as_deref().and_then(|grader| grader.split_once(':'));
    let module = module.map(|(module, _)| Named::Module(module, folder));
    let command = grader.command.as_ref();
    let program = Named::Program {
        command,
        args: &grader.args,
        folder: command.map_or(folder, PathRef::base),
    };
    let pointer = pointer.to_owned();
    module.into_iter().chain([program]).map(move |named| UsedFile {
        owner: FileOwner::Grader,
        pointer: pointer.clone(),
        named,
    })
}

struct List<'a> {
    agent: &'a ResolvedAgent,
    files: Vec<UsedFile<'a>>,
}

impl<'a> List<'a> {
    fn add(&mut self, owner: FileOwner<'a>, pointer: impl Into<String>, named: Named<'a>) {
        let pointer = pointer.into();
        self.files.push(UsedFile {
            owner,
            pointer,
            named,
        });
    }

    fn add_target(&mut self) {
        let folder = &self.agent.dir;
        match &self.agent.config.target {
            Some(TargetConfig::Command(target)) => {
                let program = Named::Program {
                    command: Some(&target.command),
                    args: &target.args,
                    folder,
                };
                self.add(FileOwner::Target, "target.command", program);
                self.add(
                    FileOwner::Target,
                    "target.env",
                    Named::Variables("variable", &target.env),
                );
            }
            Some(TargetConfig::Function(target)) => {
                self.add(FileOwner::Target, "target.file", Named::Script(&target.file));
                self.add(
                    FileOwner::Target,
                    "target.env",
                    Named::Variables("variable", &target.env),
                );
            }
            Some(TargetConfig::Answers(target)) => {
                self.add(FileOwner::Target, "target.file", Named::File(target.file.path()));
            }
            _ => {}
        }
    }

    fn add_tool(&mut self, pointer: &str, tool: &'a ToolConfig) {
        let folder = &self.agent.dir;
        let mut add =
            |field: &str, named| self.add(FileOwner::Tool(tool), format!("{pointer}{field}"), named);
        match tool {
            ToolConfig::Vectorstore(it) => add("", documents(&it.source, it.follow_links)),
            ToolConfig::HierarchicalDocument(it) => add("", documents(&it.source, it.follow_links)),
            ToolConfig::Function(it) => {
                let command = it.command.as_ref();
                let program = Named::Program {
                    command,
                    args: &it.args,
                    folder: command.map_or(folder, PathRef::base),
                };
                add("", program);
                add("", Named::Variables("variable", &it.env));
                if let Some(file) = &it.file {
                    add(".file", Named::Script(file));
                }
            }
            ToolConfig::Mcp(it) => {
                let program = Named::Program {
                    command: it.command.as_ref(),
                    args: &it.args,
                    folder,
                };
                add("", program);
                add("", Named::Variables("variable", &it.env));
                add("", Named::Variables("header", &it.headers));
                if let Some(file) = &it.env_file {
                    add(".env_file", Named::EnvFile(file));
                }
            }
            ToolConfig::Prompt(it) => {
                if let Some(file) = &it.file {
                    add(".file", Named::File(file.path()));
                }
            }
        }
    }

    fn add_claude(&mut self) {
        let Some(claude) = &self.agent.config.claude else {
            return;
        };
        for (name, subagent) in &claude.agents {
            if let Some(file) = &subagent.prompt_file {
                let pointer = format!("claude.agents.{name}.prompt_file");
                self.add(FileOwner::Subagents, pointer, Named::File(file.path()));
            }
        }
        for (_, pointer, hook) in claude.hooks.iter().flat_map(HooksConfig::each) {
            let named = Named::Program {
                command: Some(&hook.command),
                args: &hook.args,
                folder: hook.command.base(),
            };
            self.add(FileOwner::Hooks, pointer, named);
        }
        let in_folder = |source: &SettingSource| *source != SettingSource::User;
        if claude.setting_sources.iter().any(in_folder) {
            let folder = claude.working_directory.as_ref();
            let folder = folder.map_or_else(|| self.agent.dir.clone(), PathRef::path);
            let files = SETTINGS.map(|name| Named::File(folder.join(name)));
            let folders = SETTING_FOLDERS.map(|name| Named::Folder(folder.join(name)));
            for named in files.into_iter().chain(folders) {
                self.add(FileOwner::CliSettings, "claude.setting_sources", named);
            }
        }
    }

    fn add_routing(&mut self) {
        let agent = self.agent;
        if let Some(folders) = agent_folders(agent) {
            let named = Named::Definitions(folders);
            self.add(FileOwner::Specialists, "routing.agents.directories", named);
        }
        let Some(routing) = &agent.config.routing else {
            return;
        };
        if let Some(skills) = &routing.skills {
            let named = Named::Folder(skills.directory.path());
            self.add(FileOwner::Skills, "routing.skills.directory", named);
        }
        let Some(legacy) = &routing.legacy else { return };
        if let Some(line) = &legacy.command {
            let named = Named::CommandLine(Cow::Borrowed(line), &agent.dir);
            self.add(FileOwner::Legacy, "routing.legacy.command", named);
        }
        if let Some(other) = &legacy.agent {
            let named = Named::Agent(other.path());
            self.add(FileOwner::LegacyAgent, "routing.legacy.agent", named);
        }
    }

    fn add_signals(&mut self) {
        let agent = self.agent;
        let Some(config) = agent.config.enabled_loop() else {
            return;
        };
        for (kind, command) in config.scorer.signals.commands() {
            // A command that cannot be split into words is an error elsewhere, and names no program.
            if let Ok(words) = split_command(command) {
                let pointer = format!("quality_loop.scorer.signals.{kind}");
                let named = Named::CommandLine(Cow::Owned(words), &agent.dir);
                self.add(FileOwner::Signal, pointer, named);
            }
        }
    }

    /// The files of this machine that test cases send.
    fn add_attachments(&mut self) {
        for (case, config) in self.agent.config.test_cases.detailed() {
            let of_case = (format!("test_cases.{case}"), &config.files);
            let of_turns = config.turns.iter().enumerate();
            let of_turns =
                of_turns.map(|(turn, config)| (format!("test_cases.{case}.turns.{turn}"), &config.files));
            for (pointer, inputs) in std::iter::once(of_case).chain(of_turns) {
                for (index, input) in inputs.iter().enumerate() {
                    if let Some(path) = &input.path {
                        let pointer = format!("{pointer}.files.{index}.path");
                        self.add(FileOwner::TestCases, pointer, Named::File(path.path()));
                    }
                }
            }
        }
    }
}

fn documents(source: &PathRef, follow_links: bool) -> Named<'_> {
    Named::Documents { source, follow_links }
}
