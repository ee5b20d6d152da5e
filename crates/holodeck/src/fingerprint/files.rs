//! The files that an agent uses, with their digests.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use holodeck_cassette::{Cassette, digest, file_digest};
use holodeck_documents::{Pictures, Source, WalkOptions, walk};
use holodeck_model::{
    FileInput, PathRef, ResolvedAgent, SecretMap, SettingSource, ToolConfig, variable_secrets,
};
use holodeck_retrieval::FileManifest;
use secrecy::ExposeSecret as _;

use crate::index::manifest;

/// Digests of files, and of variables, by their names.
pub(crate) type FileDigests = BTreeMap<String, String>;

/// The files that the CLI reads in the agent's folder if `setting_sources` allows it.
const SETTINGS: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
];

/// The folder of runs in the agent's folder.
const RESULTS: &str = "results";

/// Maximum number of files with a digest each; more files share one.
const MAX_DIGESTS: usize = 32;

/// The name of the shared digest.
const ALL: &str = "all files";

/// How a SQLite file begins.
const SQLITE: [u8; 16] = *b"SQLite format 3\0";

/// The files that the YAML names for tools without a `mock`.
pub(crate) fn files_of_tools(agent: &ResolvedAgent) -> impl Iterator<Item = (&ToolConfig, FileDigests)> {
    let real = agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    real.filter_map(|tool| {
        let files = match tool {
            ToolConfig::Vectorstore(it) => {
                documents(&it.source, it.follow_links, agent, open_manifest(agent, tool))
            }
            ToolConfig::HierarchicalDocument(it) => {
                documents(&it.source, it.follow_links, agent, open_manifest(agent, tool))
            }
            ToolConfig::Function(tool) => {
                let mut files = FileCollector::default();
                tool.file
                    .iter()
                    .for_each(|file| files.add_script(file.as_str(), file.base()));
                let command = tool.command.as_ref();
                files.add_program(command, &tool.args, command.map_or(&agent.dir, |it| it.base()));
                files.add_variables("variable", &tool.env);
                files.digests()
            }
            ToolConfig::Mcp(tool) => {
                let mut files = FileCollector::default();
                files.add_program(tool.command.as_ref(), &tool.args, &agent.dir);
                files.add_variables("variable", &tool.env);
                files.add_variables("header", &tool.headers);
                tool.env_file.iter().for_each(|file| files.add_env_file(file));
                files.digests()
            }
            ToolConfig::Prompt(tool) => digest_paths(&tool.file),
        };
        (!files.is_empty()).then_some((tool, files))
    })
}

/// The files of sub-agents, and the CLI's own settings, by the part of the YAML that names them.
pub(crate) fn files_of_claude(agent: &ResolvedAgent) -> Vec<(&'static str, FileDigests)> {
    let Some(claude) = &agent.config.claude else {
        return Vec::new();
    };
    let prompts = claude
        .agents
        .values()
        .filter_map(|agent| agent.prompt_file.as_ref());
    let mut files = vec![("claude.agents", digest_paths(prompts))];
    let in_folder = |source: &SettingSource| *source != SettingSource::User;
    if claude.setting_sources.iter().any(in_folder) {
        let folder = claude.working_directory.as_ref();
        let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
        let settings = SETTINGS
            .iter()
            .map(|name| ((*name).to_owned(), folder.join(name)));
        files.push(("claude.setting_sources", digest_files(settings)));
    }
    files.retain(|(_, files)| !files.is_empty());
    files
}

/// The files of this machine that test cases send.
pub(super) fn attachments(agent: &ResolvedAgent) -> FileDigests {
    let cases = agent.config.test_cases.detailed();
    let files = cases.flat_map(|(_, case)| {
        let turns = case.turns.iter().flat_map(|turn| &turn.files);
        case.files.iter().chain(turns)
    });
    let named: BTreeMap<String, PathBuf> = files
        .filter_map(|file: &FileInput| file.path.as_ref())
        .map(|path| (display_name(path.as_str()), path.path()))
        .collect();
    digest_files(named.into_iter())
}

/// The documents that a tool searches, without the agent's own files and those that its runs write. Web sources are not
/// fetched: their addresses are in the configuration. Files that did not change since the index read them are not read.
pub(super) fn documents(
    source: &PathRef,
    follow_links: bool,
    agent: &ResolvedAgent,
    mut manifest: FileManifest,
) -> FileDigests {
    let Ok(Source::Files(path)) = Source::parse(source.as_str()) else {
        return FileDigests::new();
    };
    let options = WalkOptions {
        // Whether their text can be read depends on the machine.
        pictures: Pictures::Taken,
        links: follow_links.into(),
        ..WalkOptions::default()
    };
    let Ok(walked) = walk(&path, source.base(), &options) else {
        return FileDigests::new();
    };
    let mut own = OwnFiles::of(agent);
    let mut found = FileDigests::new();
    for file in walked.files {
        if own.contains(&file.path) {
            continue;
        }
        match manifest.content(&file.path, u64::MAX) {
            Ok(content) if Cassette::has_header(content.head.as_bytes()) => {}
            Ok(content) => drop(found.insert(file.name, shorten(content.digest))),
            // Missing files are left out; unreadable ones differ from every recording.
            Err(_) => found.extend(digest_content(&file.path).map(|digest| (file.name, digest))),
        }
    }
    if let Err(error) = manifest.save() {
        // The only consequence is that files are read again.
        tracing::debug!(%error, "cannot store the digests of files");
    }
    merge_digests(found)
}

fn open_manifest(agent: &ResolvedAgent, tool: &ToolConfig) -> FileManifest {
    FileManifest::open(&manifest(agent, tool), SystemTime::now())
}

/// Shortens a full digest to the form of [`digest`].
fn shorten(digest: &str) -> String {
    format!("sha256:{}", digest.get(..32).unwrap_or(digest))
}

/// The agent's file, and the folder in which its runs are stored.
struct OwnFiles {
    paths: Vec<PathBuf>,
    /// Folders with their links resolved, by their names.
    folders: HashMap<PathBuf, PathBuf>,
}

impl OwnFiles {
    fn of(agent: &ResolvedAgent) -> Self {
        let paths = [agent.path.clone(), agent.dir.join(RESULTS)];
        Self {
            paths: paths.iter().filter_map(|path| path.canonicalize().ok()).collect(),
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

fn digest_paths<'a>(paths: impl IntoIterator<Item = &'a PathRef>) -> FileDigests {
    digest_files(
        paths
            .into_iter()
            .map(|path| (display_name(path.as_str()), path.path())),
    )
}

fn display_name(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}

/// Collects the files that a tool names, its variables, and notes about folders and databases.
#[derive(Default)]
struct FileCollector {
    files: BTreeMap<String, PathBuf>,
    notes: FileDigests,
}

impl FileCollector {
    /// The program of a tool and the files among its arguments. A program of the machine is not a file of the agent.
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
        // Folders and databases change during use, so only their kind counts.
        let note = if about.is_dir() {
            "a folder"
        } else if about.is_file() && starts_with_bytes(&path, &SQLITE) {
            "a database"
        } else if about.is_file() {
            return self.add_script(argument, folder);
        } else {
            "not a regular file"
        };
        self.notes.insert(display_name(argument), note.to_owned());
    }

    /// A file. A Python file adds the modules beside it, which it may import.
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
        self.files.insert(display_name(name), path);
    }

    /// The Python files of a folder, without hidden folders, caches and virtual environments.
    fn add_modules(&mut self, name: &str, folder: &Path) {
        let mut pending = vec![(display_name(name), folder.to_owned())];
        while let Some((name, folder)) = pending.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let file = entry.file_name();
                let file = file.to_string_lossy();
                let path = entry.path();
                let name = if matches!(name.as_str(), "" | ".") {
                    file.clone().into_owned()
                } else {
                    format!("{name}/{file}")
                };
                // Links to folders are not followed: they may lead anywhere.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder {
                    let skipped =
                        file.starts_with('.') || file == "__pycache__" || path.join("pyvenv.cfg").exists();
                    if !skipped {
                        pending.push((name, path));
                    }
                } else if is_python(&path) && path.is_file() {
                    self.files.insert(name, path);
                }
            }
        }
    }

    fn add_variables(&mut self, kind: &str, variables: &SecretMap) {
        for (name, value) in variables {
            let value = mask_secrets(name, value.expose_secret());
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
                Some((name, value)) => format!("{name}={}\n", mask_secrets(name, value)),
                None => format!("{line}\n"),
            })
            .collect();
        self.notes
            .insert(display_name(file.as_str()), digest(lines.concat().as_bytes()));
    }

    fn digests(self) -> FileDigests {
        let mut found = digest_files(self.files.into_iter());
        found.extend(self.notes);
        found
    }
}

/// Replaces each secret in a value by `***`.
fn mask_secrets(name: &str, value: &str) -> String {
    let secrets = variable_secrets(name.trim(), value).into_iter();
    let secrets = secrets.filter(|secret| !secret.is_empty());
    secrets.fold(value.to_owned(), |value, secret| value.replace(&secret, "***"))
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Whether a file belongs to an installed package, which may be absent on the machine of a replay.
fn is_installed(path: &Path) -> bool {
    let packages = path.components().any(|part| part.as_os_str() == "node_modules");
    packages || path.ancestors().any(|folder| folder.join("pyvenv.cfg").exists())
}

fn starts_with_bytes(path: &Path, expected: &[u8; 16]) -> bool {
    let mut bytes = [0; 16];
    let result = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    result.is_ok() && bytes == *expected
}

/// Digests by name.
fn digest_files(files: impl Iterator<Item = (String, PathBuf)>) -> FileDigests {
    let found: FileDigests = files
        .filter_map(|(name, path)| Some((name, digest_content(&path)?)))
        .collect();
    merge_digests(found)
}

/// Replaces the digests by a single one if there are too many.
fn merge_digests(found: FileDigests) -> FileDigests {
    if found.len() <= MAX_DIGESTS {
        return found;
    }
    let all: Vec<String> = found
        .into_iter()
        .map(|(name, digest)| format!("{name}\n{digest}\n"))
        .collect();
    [(ALL.to_owned(), digest(all.concat().as_bytes()))].into()
}

/// The digest of a file; `None` if it does not exist.
fn digest_content(path: &Path) -> Option<String> {
    // Reading a pipe could block.
    let result = fs::metadata(path).and_then(|about| {
        if about.is_file() {
            file_digest(path)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    });
    match result {
        Ok(digest) => Some(digest),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // It differs from every recording.
        Err(error) => Some(format!("unreadable: {}", error.kind())),
    }
}
