//! The files behind an agent, with their digests.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use holodeck_cassette::{Cassette, digest, file_digest};
use holodeck_documents::{Pictures, Source, WalkOptions, walk};
use holodeck_model::{
    FileInput, LoadedAgent, PathRef, SecretMap, SettingSource, ToolConfig, variable_secrets,
};
use secrecy::ExposeSecret as _;

/// Digests of files, and of variables, by their names.
pub(crate) type FileDigests = BTreeMap<String, String>;

/// What the CLI reads in the agent's folder once `setting_sources` lets it.
const SETTINGS: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
];

/// Where runs are stored, in the agent's folder.
const RESULTS: &str = "results";

/// More files than these have one digest.
const LISTED: usize = 32;

/// The name of that digest.
const ALL: &str = "all files";

/// How a SQLite file begins.
const SQLITE: [u8; 16] = *b"SQLite format 3\0";

/// The files that the YAML names for tools without a `mock`.
pub(crate) fn files_of_tools(agent: &LoadedAgent) -> impl Iterator<Item = (&ToolConfig, FileDigests)> {
    let real = agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    real.filter_map(|tool| {
        let files = match tool {
            ToolConfig::Vectorstore(tool) => documents(&tool.source, tool.follow_links, agent),
            ToolConfig::HierarchicalDocument(tool) => documents(&tool.source, tool.follow_links, agent),
            ToolConfig::Function(tool) => {
                let mut named = Named::default();
                tool.file
                    .iter()
                    .for_each(|file| named.add_script(file.as_str(), file.base()));
                let command = tool.command.as_ref();
                named.add_program(command, &tool.args, command.map_or(&agent.dir, |it| it.base()));
                named.add_variables("variable", &tool.env);
                named.digests()
            }
            ToolConfig::Mcp(tool) => {
                let mut named = Named::default();
                named.add_program(tool.command.as_ref(), &tool.args, &agent.dir);
                named.add_variables("variable", &tool.env);
                named.add_variables("header", &tool.headers);
                tool.env_file.iter().for_each(|file| named.add_env_file(file));
                named.digests()
            }
            ToolConfig::Prompt(tool) => of_paths(&tool.file),
        };
        (!files.is_empty()).then_some((tool, files))
    })
}

/// The files of sub-agents, and the CLI's own settings, by the part of the YAML that names them.
pub(crate) fn files_of_claude(agent: &LoadedAgent) -> Vec<(&'static str, FileDigests)> {
    let Some(claude) = &agent.config.claude else {
        return Vec::new();
    };
    let prompts = claude
        .agents
        .values()
        .filter_map(|agent| agent.prompt_file.as_ref());
    let mut files = vec![("claude.agents", of_paths(prompts))];
    let ours = |source: &SettingSource| *source != SettingSource::User;
    if claude.setting_sources.iter().any(ours) {
        let folder = claude.working_directory.as_ref();
        let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
        let settings = SETTINGS
            .iter()
            .map(|name| ((*name).to_owned(), folder.join(name)));
        files.push(("claude.setting_sources", digests(settings)));
    }
    files.retain(|(_, files)| !files.is_empty());
    files
}

/// The files of this machine that test cases send.
pub(super) fn attachments(agent: &LoadedAgent) -> FileDigests {
    let cases = agent.config.test_cases.iter();
    let files = cases.flat_map(|case| {
        let turns = case.turns.iter().flat_map(|turn| &turn.files);
        case.files.iter().chain(turns)
    });
    let named: BTreeMap<String, PathBuf> = files
        .filter_map(|file: &FileInput| file.path.as_ref())
        .map(|path| (shown(path.as_str()), path.path()))
        .collect();
    digests(named.into_iter())
}

/// The documents that a tool searches, without the agent's own files and those that its runs write. What is on the web is
/// not fetched: its address is in the configuration.
fn documents(source: &PathRef, follow_links: bool, agent: &LoadedAgent) -> FileDigests {
    let Ok(Source::Files(path)) = Source::parse(source.as_str()) else {
        return FileDigests::new();
    };
    let options = WalkOptions {
        // Whether they can be read depends on the machine.
        pictures: Pictures::Taken,
        links: follow_links.into(),
        ..WalkOptions::default()
    };
    let Ok(walked) = walk(&path, source.base(), &options) else {
        return FileDigests::new();
    };
    let ours = [agent.path.clone(), agent.dir.join(RESULTS)];
    let ours: Vec<_> = ours.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let is_ours = |path: &Path| {
        let path = path.canonicalize();
        path.is_ok_and(|path| ours.iter().any(|ours| path.starts_with(ours)))
    };
    let files = walked.files.into_iter();
    let files = files.filter(|file| !is_ours(&file.path) && !Cassette::is_one(&file.path));
    digests(files.map(|file| (file.name, file.path)))
}

fn of_paths<'a>(paths: impl IntoIterator<Item = &'a PathRef>) -> FileDigests {
    digests(paths.into_iter().map(|path| (shown(path.as_str()), path.path())))
}

fn shown(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}

/// Files named by a tool; variables, and the folders and databases that are only noted.
#[derive(Default)]
struct Named {
    files: BTreeMap<String, PathBuf>,
    notes: FileDigests,
}

impl Named {
    /// The program of a tool and the files among its arguments. A `command` of the machine is no file of the agent.
    fn add_program(&mut self, command: Option<&PathRef>, args: &[String], folder: &Path) {
        if let Some(command) = command {
            self.add_script(command.as_str(), command.base());
        }
        let mut module = false;
        for argument in args {
            if std::mem::replace(&mut module, argument == "-m") {
                let path = argument.replace('.', "/");
                self.add_script(&format!("{path}.py"), folder);
                self.add_modules(&path, &folder.join(&path));
                continue;
            }
            self.add_argument(argument, folder);
            if argument.starts_with('-')
                && let Some((_, value)) = argument.split_once('=')
            {
                self.add_argument(value, folder);
            }
        }
    }

    fn add_argument(&mut self, argument: &str, folder: &Path) {
        let path = folder.join(argument);
        let Ok(about) = fs::metadata(&path) else { return };
        if is_installed(&path) {
            return;
        }
        // They change while they are used.
        let note = if about.is_dir() {
            "a folder"
        } else if about.is_file() && begins_with(&path, &SQLITE) {
            "a database"
        } else if about.is_file() {
            return self.add_script(argument, folder);
        } else {
            "not a regular file"
        };
        self.notes.insert(shown(argument), note.to_owned());
    }

    /// A file; with a Python file the modules beside it, which it may import.
    fn add_script(&mut self, name: &str, folder: &Path) {
        let path = folder.join(name);
        if !path.is_file() || is_installed(&path) {
            return;
        }
        if is_python(&path)
            && let Some(beside) = path.parent()
        {
            let (in_folder, _) = name.rsplit_once('/').unwrap_or_default();
            self.add_modules(in_folder, beside);
        }
        self.files.insert(shown(name), path);
    }

    /// The Python files of a folder, but for hidden folders, caches and virtual environments.
    fn add_modules(&mut self, name: &str, folder: &Path) {
        let mut waiting = vec![(shown(name), folder.to_owned())];
        while let Some((name, folder)) = waiting.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let file = entry.file_name();
                let file = file.to_string_lossy();
                let path = entry.path();
                let name = if matches!(name.as_str(), "" | ".") {
                    file.clone().into_owned()
                } else {
                    format!("{name}/{file}")
                };
                // A link to a folder may lead anywhere.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder {
                    let skipped =
                        file.starts_with('.') || file == "__pycache__" || path.join("pyvenv.cfg").exists();
                    if !skipped {
                        waiting.push((name, path));
                    }
                } else if is_python(&path) && path.is_file() {
                    self.files.insert(name, path);
                }
            }
        }
    }

    fn add_variables(&mut self, kind: &str, variables: &SecretMap) {
        for (name, value) in variables {
            let value = without_secrets(name, value.expose_secret());
            self.notes
                .insert(format!("{kind} {name}"), digest(value.as_bytes()));
        }
    }

    fn add_env_file(&mut self, file: &PathRef) {
        let path = file.path();
        let Ok(text) = path.is_file().then(|| fs::read_to_string(&path)).transpose() else {
            return;
        };
        let lines = text.iter().flat_map(|text| text.lines());
        let lines: Vec<String> = lines
            .map(|line| match line.split_once('=') {
                Some((name, value)) => format!("{name}={}\n", without_secrets(name, value)),
                None => format!("{line}\n"),
            })
            .collect();
        self.notes
            .insert(shown(file.as_str()), digest(lines.concat().as_bytes()));
    }

    fn digests(self) -> FileDigests {
        let mut found = digests(self.files.into_iter());
        found.extend(self.notes);
        found
    }
}

/// A value in which each secret counts only as such.
fn without_secrets(name: &str, value: &str) -> String {
    let secrets = variable_secrets(name.trim(), value).into_iter();
    let secrets = secrets.filter(|secret| !secret.is_empty());
    secrets.fold(value.to_owned(), |value, secret| value.replace(&secret, "***"))
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Whether a file belongs to a package that was installed: a replay elsewhere has to do without it.
fn is_installed(path: &Path) -> bool {
    let packages = path.components().any(|part| part.as_os_str() == "node_modules");
    packages || path.ancestors().any(|folder| folder.join("pyvenv.cfg").exists())
}

fn begins_with(path: &Path, expected: &[u8; 16]) -> bool {
    let mut begins = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begins));
    read.is_ok() && begins == *expected
}

/// Digests by name; one for all if there are many.
fn digests(files: impl Iterator<Item = (String, PathBuf)>) -> FileDigests {
    let found: FileDigests = files
        .filter_map(|(name, path)| Some((name, content(&path)?)))
        .collect();
    if found.len() <= LISTED {
        return found;
    }
    let all: Vec<String> = found
        .into_iter()
        .map(|(name, digest)| format!("{name}\n{digest}\n"))
        .collect();
    [(ALL.to_owned(), digest(all.concat().as_bytes()))].into()
}

/// The digest of a file that is there.
fn content(path: &Path) -> Option<String> {
    // The end of a pipe would be waited for.
    let regular = fs::metadata(path).and_then(|about| {
        if about.is_file() {
            file_digest(path)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    });
    match regular {
        Ok(digest) => Some(digest),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Not what was recorded, whatever that was.
        Err(error) => Some(format!("unreadable: {}", error.kind())),
    }
}
