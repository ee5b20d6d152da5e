//! Collects the files and variables that belong to an identity, with a digest each.
//!
//! A file that is missing is not part of the identity, so the identity differs from one with the file. A file or folder
//! that exists and cannot be read is an error: it must never count as missing.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs::{self, File, FileType},
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use holodeck_backend_api::Explanation;
use holodeck_cassette::{digest, file_digest};
use holodeck_model::{
    Location, PathRef, SecretMap, absolute_path, io_reason, read_text_input, unix_lines, variable_secrets,
};
use secrecy::ExposeSecret as _;

use super::programs::{PYTHON, has_extension, is_program, language};
use crate::{
    AgentFolder,
    agent::inventory::{Named, UsedFile},
    commands::agents::definition_files,
};

/// Digests of files, and of variables, by their names.
pub(crate) type FileDigests = BTreeMap<String, String>;

/// Maximum number of files with a digest each; more files share one.
const MAX_DIGESTS: usize = 32;

/// The name of the shared digest.
const ALL: &str = "all files";

/// Size limit of a file with variables; a server refuses a larger one.
const MAX_ENV_FILE: u64 = 1024 * 1024;

/// How a SQLite file begins.
const SQLITE: [u8; 16] = *b"SQLite format 3\0";

/// A file or folder that belongs to an identity and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "`{}` belongs to what shapes the answers{}, but {reason}{}",
    path.display(),
    about(pointer),
    place(at.as_deref())
)]
pub struct IdentityError {
    /// The file or folder.
    pub path: PathBuf,
    /// The field of the agent file that names it, as in `tools.0.file`.
    pub pointer: String,
    /// Why it cannot be read.
    pub reason: String,
    /// The place of the field.
    pub at: Option<Box<Location>>,
}

fn about(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!(" (`{pointer}`)")
    }
}

fn place(at: Option<&Location>) -> String {
    at.map_or_else(String::new, |at| format!(" ({at})"))
}

impl IdentityError {
    pub(crate) fn new(path: &Path, pointer: &str, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            pointer: pointer.to_owned(),
            reason: reason.into(),
            at: None,
        }
    }

    fn io(path: &Path, pointer: &str, error: &io::Error) -> Self {
        Self::new(path, pointer, format!("cannot be read: {}", io_reason(error)))
    }

    /// With the next step.
    pub fn explanation(&self) -> Explanation {
        Explanation::new(self.to_string())
            .with_hint("make it readable, or remove it: a run must know every file that shapes its answers")
    }

    /// Adds the place of the field.
    pub(crate) fn located(mut self, locate: impl Fn(&str) -> Option<Location>) -> Self {
        self.at = self.at.or_else(|| locate(&self.pointer).map(Box::new));
        self
    }
}

/// Names paths so that they are equal on every machine: relative to the folder of the agent file, with `/`. Paths outside
/// the folder keep the form in which they were given.
#[derive(Clone, Debug)]
pub(crate) struct PathNames {
    folder: PathBuf,
    /// The folder without links.
    real: Option<PathBuf>,
}

impl PathNames {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: absolute_path(folder),
            real: folder_without_links(folder),
        }
    }

    /// The name of a path as the configuration has it. An address or the name of a program stays.
    pub(crate) fn name(&self, text: &str) -> String {
        if text.contains("://") || !text.contains('/') {
            return text.to_owned();
        }
        self.of_path(Path::new(text))
    }

    /// The name of a path; a relative one is relative to the folder.
    pub(crate) fn of_path(&self, path: &Path) -> String {
        let below = self.below(path).unwrap_or_else(|| path.to_owned());
        let parts = below.components().filter(|part| *part != Component::CurDir);
        let name: PathBuf = parts.collect();
        let name = name.to_string_lossy();
        if name.is_empty() {
            ".".to_owned()
        } else {
            name.into_owned()
        }
    }

    /// An absolute path as a relative one, if it is inside the folder.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        let roots = [Some(&self.folder), self.real.as_ref()];
        let strip = |path: &Path| {
            let mut roots = roots.iter().flatten();
            roots.find_map(|root| Some(path.strip_prefix(root).ok()?.to_owned()))
        };
        strip(path).or_else(|| {
            let (folder, name) = (path.parent()?, path.file_name()?);
            path.is_absolute()
                .then(|| strip(&folder.canonicalize().ok()?.join(name)))?
        })
    }

    /// The name of a program: one of the machine, or a path, which has a `/`.
    pub(crate) fn command(&self, command: &str) -> String {
        let name = self.name(command);
        if command.contains('/') && !name.contains('/') {
            format!("./{name}")
        } else {
            name
        }
    }

    /// An argument of a program: if it is a path inside the folder, or an option with one, by its name.
    pub(crate) fn argument(&self, argument: &str) -> String {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (format!("{option}="), value),
            _ => (String::new(), argument),
        };
        let is_path = |path: &Path| path.is_absolute() || self.folder.join(path).symlink_metadata().is_ok();
        if value.contains("://") || !value.contains('/') || !is_path(Path::new(value)) {
            return argument.to_owned();
        }
        format!("{option}{}", self.of_path(Path::new(value)))
    }
}

fn folder_without_links(folder: &Path) -> Option<PathBuf> {
    absolute_path(folder).canonicalize().ok()
}

/// Collects files, variables, and notes about folders and databases.
pub(crate) struct FileCollector {
    names: PathNames,
    /// The field that names the files that are added next.
    pointer: String,
    files: BTreeMap<String, (PathBuf, String)>,
    notes: FileDigests,
    error: Option<IdentityError>,
    arguments: Arguments,
}

/// The files among the arguments of programs that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// All.
    Files,
    /// Those that are programs themselves: others may be written by the calls.
    Programs,
    /// All, with databases and everything in folders: a copy of the agent's folder needs them.
    Contents,
}

impl FileCollector {
    /// Collects for an agent file in `folder`.
    pub(crate) fn new(folder: &Path, arguments: Arguments) -> Self {
        Self {
            names: PathNames::new(folder),
            pointer: String::new(),
            files: BTreeMap::new(),
            notes: FileDigests::new(),
            error: None,
            arguments,
        }
    }

    /// Adds everything that a field of the agent file names. Documents, and another agent, have digests of their own.
    pub(crate) fn add(&mut self, used: &UsedFile<'_>) {
        self.at(used.pointer.as_str());
        match &used.named {
            Named::File(path) => self.add_file(path),
            Named::Script(file) => self.add_script(Path::new(file.as_str()), file.base()),
            Named::Module(name, folder) => self.add_python_module(name, folder),
            Named::Program {
                command,
                args,
                folder,
            } => self.add_program(*command, args, folder),
            Named::CommandLine(line, folder) => self.add_command_line(line, folder),
            Named::Variables(kind, variables) => self.add_variables(kind, variables),
            Named::EnvFile(file) => self.add_env_file(file),
            Named::Folder(path) => self.add_all(path),
            Named::Definitions(folders) => self.add_definitions(folders),
            Named::Documents { .. } | Named::Agent(_) => {}
        }
    }

    /// Sets the field that names the files that are added next, as in `tools.0.file`.
    fn at(&mut self, pointer: impl Into<String>) -> &mut Self {
        self.pointer = pointer.into();
        self
    }

    fn fail(&mut self, error: IdentityError) {
        self.error.get_or_insert(error);
    }

    fn fail_to_read(&mut self, path: &Path, error: &io::Error) {
        let error = IdentityError::io(path, &self.pointer, error);
        self.fail(error);
    }

    /// The kind of thing at a path, with links resolved; `None` if nothing is there. A link to nothing is an error.
    fn kind(&mut self, path: &Path) -> Option<FileType> {
        match kind(path) {
            Ok(kind) => kind,
            Err(error) => {
                self.fail_to_read(path, &error);
                None
            }
        }
    }

    /// The program of a tool and the files among its arguments. A program of the machine is not a file of the agent.
    fn add_program(&mut self, command: Option<&PathRef>, args: &[String], folder: &Path) {
        let pointer = self.pointer.clone();
        if let Some(command) = command {
            self.at(format!("{pointer}.command")).add_command(command);
        }
        for (index, (argument, is_module)) in with_modules(args).enumerate() {
            self.at(format!("{pointer}.args.{index}"));
            self.add_value(argument, is_module, folder);
        }
        self.pointer = pointer;
    }

    /// A program with its arguments in one list.
    fn add_command_line(&mut self, line: &[String], folder: &Path) {
        let pointer = self.pointer.clone();
        let [command, args @ ..] = line else { return };
        self.at(format!("{pointer}.0"))
            .add_command(&PathRef::new(command, folder));
        for (index, (argument, is_module)) in with_modules(args).enumerate() {
            self.at(format!("{pointer}.{}", index + 1));
            self.add_value(argument, is_module, folder);
        }
        self.pointer = pointer;
    }

    fn add_command(&mut self, command: &PathRef) {
        let path = absolute_path(command.base()).join(command.as_str());
        // A bare name is one of the machine's programs, even if a folder here has the name.
        if command.as_str().contains('/') || !path.is_dir() {
            self.add_script(Path::new(command.as_str()), command.base());
        }
    }

    /// An argument: a path, an option with a path, or the name of a Python module.
    fn add_value(&mut self, argument: &str, is_module: bool, folder: &Path) {
        if is_module {
            return self.add_python_module(argument, folder);
        }
        self.add_argument(argument, folder);
        if argument.starts_with('-')
            && let Some((_, value)) = argument.split_once('=')
        {
            self.add_argument(value, folder);
        }
    }

    /// A Python module by its name, with the modules that it may import: `folder` is the first place where Python looks.
    fn add_python_module(&mut self, module: &str, folder: &Path) {
        let folder = absolute_path(folder);
        let path = folder.join(module.replace('.', "/"));
        if path.is_dir() || self.kind(&path.with_added_extension("py")).is_some() {
            self.add_modules(&folder, PYTHON);
        }
    }

    /// An argument, if it is the path of a file or folder.
    fn add_argument(&mut self, argument: &str, folder: &Path) {
        let path = absolute_path(folder).join(argument);
        let kind = match kind(&path) {
            Ok(Some(kind)) => kind,
            Ok(None) => return,
            // Most arguments are not paths, and some cannot be one.
            Err(error) if cannot_be_a_path(&error) => return,
            Err(error) => return self.fail_to_read(&path, &error),
        };
        if self.is_installed(&path) || argument.is_empty() {
            return;
        }
        if self.arguments == Arguments::Programs && !is_program(&path) {
            return;
        }
        if self.arguments == Arguments::Contents {
            return if kind.is_dir() {
                self.add_all(&path);
            } else {
                self.add_script(Path::new(argument), folder);
            };
        }
        // Folders and databases change during use, so only their kind counts.
        let note = if kind.is_dir() {
            "a folder"
        } else if kind.is_file() && starts_with_bytes(&path, &SQLITE) {
            "a database"
        } else if kind.is_file() {
            return self.add_script(Path::new(argument), folder);
        } else {
            "not a regular file"
        };
        self.notes.insert(self.names.of_path(&path), note.to_owned());
    }

    /// A file. A script adds the scripts of its language beside it, which it may import.
    fn add_script(&mut self, file: &Path, folder: &Path) {
        let path = absolute_path(folder).join(file);
        let Some(kind) = self.kind(&path) else { return };
        if self.is_installed(&path) {
            return;
        }
        if kind.is_file()
            && let (Some(extensions), Some(beside)) = (language(&path), path.parent())
        {
            self.add_modules(beside, extensions);
        }
        self.insert(path);
    }

    /// A file that the configuration names; it may be missing.
    fn add_file(&mut self, path: &Path) {
        let path = absolute_path(path);
        if self.kind(&path).is_some() {
            self.insert(path);
        }
    }

    /// The definitions of specialist agents.
    fn add_definitions(&mut self, folders: &[AgentFolder]) {
        let (found, unreadable) = definition_files(folders);
        for path in &unreadable {
            self.fail(IdentityError::new(path, &self.pointer, "cannot be read"));
        }
        for path in &found {
            self.add_file(path);
        }
    }

    /// A file that exists.
    fn insert(&mut self, path: PathBuf) {
        let name = self.names.of_path(&path);
        self.files.insert(name, (path, self.pointer.clone()));
    }

    /// The scripts of a folder with these extensions, without hidden files and folders, installed packages and caches.
    /// Links to folders are not followed: they may lead anywhere.
    fn add_modules(&mut self, folder: &Path, extensions: &[&str]) {
        self.add_folder(folder, &|path, kind| {
            let is_link_to_folder = kind.is_symlink() && path.is_dir();
            (kind.is_dir() || has_extension(path, extensions)) && !is_link_to_folder
        });
    }

    /// Every file of a folder, without hidden ones, installed packages and caches; the folder may be missing.
    fn add_all(&mut self, folder: &Path) {
        self.add_folder(folder, &|_, _| true);
    }

    /// The files and folders below a folder for which `is_wanted` holds. A link to a folder is read once, under its own
    /// name.
    fn add_folder(&mut self, folder: &Path, is_wanted: &dyn Fn(&Path, FileType) -> bool) {
        let mut pending = vec![absolute_path(folder)];
        let mut seen = HashSet::new();
        while let Some(folder) = pending.pop() {
            match self.kind(&folder) {
                Some(kind) if kind.is_dir() => {}
                _ => continue,
            }
            let listed = folder.canonicalize().and_then(|real| {
                if seen.insert(real) {
                    fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()
                } else {
                    Ok(Vec::new())
                }
            });
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => return self.fail_to_read(&folder, &error),
            };
            for entry in listed {
                let path = entry.path();
                let kind = match entry.file_type() {
                    Ok(kind) => kind,
                    Err(error) => return self.fail_to_read(&path, &error),
                };
                if is_left_out(&entry.file_name()) || !is_wanted(&path, kind) {
                    continue;
                }
                let Some(kind) = self.kind(&path) else { continue };
                if kind.is_file() {
                    self.insert(path);
                } else if kind.is_dir() && !path.join("pyvenv.cfg").exists() {
                    pending.push(path);
                }
            }
        }
    }

    /// Environment variables or headers, without their secrets.
    fn add_variables(&mut self, kind: &str, variables: &SecretMap) {
        for (name, value) in variables {
            let value = self.names.argument(value.expose_secret());
            let value = mask_secrets(name, &value);
            self.notes
                .insert(format!("{kind} {name}"), digest(value.as_bytes()));
        }
    }

    /// A file with environment variables, without their secrets.
    fn add_env_file(&mut self, file: &PathRef) {
        let path = absolute_path(&file.path());
        if self.kind(&path).is_none() {
            return;
        }
        if !path.is_file() {
            // A pipe of a secret manager can be read only once, by the server; a device has no end.
            self.notes.insert(self.names.of_path(&path), digest(NO_FILE));
            return;
        }
        let text = match read_text_input(&path, MAX_ENV_FILE) {
            Ok(text) => text,
            Err(error) => return self.fail_to_read(&path, &error),
        };
        let lines: Vec<String> = unix_lines(&text)
            .lines()
            .map(|line| match line.split_once('=') {
                Some((name, value)) => format!("{name}={}\n", mask_secrets(name, value)),
                None => format!("{line}\n"),
            })
            .collect();
        self.notes
            .insert(self.names.of_path(&path), digest(lines.concat().as_bytes()));
    }

    /// Whether a file belongs to an installed package, which may be absent on the machine of a replay. The folder of the
    /// agent file itself may be inside of one.
    fn is_installed(&self, path: &Path) -> bool {
        let below = self.names.below(path);
        let is_package = |path: &Path| path.components().any(|part| part.as_os_str() == "node_modules");
        let (packages, outside) = match &below {
            Some(below) => (is_package(below), Some(&self.names.folder)),
            None => (is_package(path), None),
        };
        let mut folders = path
            .ancestors()
            .take_while(|folder| outside.is_none_or(|outside| *folder != outside));
        packages || folders.any(|folder| folder.join("pyvenv.cfg").exists())
    }

    /// The files that were added, each with the field that names it.
    pub(crate) fn paths(self) -> Result<Vec<(PathBuf, String)>, IdentityError> {
        let files = self.files.into_values().collect();
        self.error.map_or(Ok(files), Err)
    }

    /// The digests of everything that was added.
    pub(crate) fn digests(self) -> Result<FileDigests, IdentityError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut found = FileDigests::new();
        for (name, (path, pointer)) in self.files {
            let digest = digest_content(&path).map_err(|error| IdentityError::io(&path, &pointer, &error))?;
            found.insert(name, digest);
        }
        let mut found = merge_digests(found);
        found.extend(self.notes);
        Ok(found)
    }
}

/// The arguments of a program, and whether each is the name of a Python module.
fn with_modules(args: &[String]) -> impl Iterator<Item = (&str, bool)> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    args.iter()
        .map(String::as_str)
        .zip(before.map(|before| before == "-m"))
}

/// The kind of thing at a path, with links resolved; `None` if nothing is there. A link to nothing is an error.
pub(crate) fn kind(path: &Path) -> io::Result<Option<FileType>> {
    match fs::metadata(path) {
        Ok(about) => Ok(Some(about.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Of the path or of a folder in it: the first that is there.
            let there = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
            if there.is_some_and(|there| fs::metadata(there).is_err()) {
                return Err(io::Error::other("a link leads to nothing"));
            }
            Ok(None)
        }
        // A part of the path is a file, so nothing can be there.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

fn cannot_be_a_path(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename
    )
}

/// Whether the name is that of a hidden file or of what tools fill.
fn is_left_out(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.') || ["__pycache__", "node_modules"].contains(&&*name)
}

/// Replaces each secret in a value by `***`.
fn mask_secrets(name: &str, value: &str) -> String {
    let secrets = variable_secrets(name.trim(), value).into_iter();
    let secrets = secrets.filter(|secret| !secret.is_empty());
    secrets.fold(value.to_owned(), |value, secret| value.replace(&secret, "***"))
}

fn starts_with_bytes(path: &Path, expected: &[u8; 16]) -> bool {
    let mut bytes = [0; 16];
    let result = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    result.is_ok() && bytes == *expected
}

/// Replaces the digests by a single one if there are too many.
pub(super) fn merge_digests(found: FileDigests) -> FileDigests {
    if found.len() <= MAX_DIGESTS {
        return found;
    }
    let all: Vec<String> = found
        .into_iter()
        .map(|(name, digest)| format!("{name}\n{digest}\n"))
        .collect();
    [(ALL.to_owned(), digest(all.concat().as_bytes()))].into()
}

/// The content of a file of variables that is a pipe or a device.
const NO_FILE: &[u8] = b"not a regular file";

/// The digest of a regular file; reading a pipe could block.
pub(super) fn digest_content(path: &Path) -> io::Result<String> {
    let about = fs::metadata(path)?;
    if about.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file_digest(path)
}
