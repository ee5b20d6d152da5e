//! The digests of the files that an agent uses.
//!
//! The inventory knows which fields name files; [`FileCollector`] knows how a file is read and named.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use holodeck_cassette::Cassette;
use holodeck_documents::{Pictures, Source, WalkError, WalkOptions, walk};
use holodeck_model::{Env, PathRef, ResolvedAgent, SettingSource, ToolConfig};
use holodeck_retrieval::FileManifest;

use super::collect::{
    Arguments, FileCollector, FileDigests, IdentityError, PathNames, digest_content, kind, merge_digests,
};
use crate::{
    JUDGE_STEPS,
    agent::{
        claude::machine,
        inventory::{self, FileOwner, Named, UsedFile},
    },
    index::manifest,
};

/// Files that runs write into the agent's folder.
const WRITTEN: [&str; 3] = ["results", "baselines", JUDGE_STEPS];

/// The files of an agent whose owner is wanted, with a digest each, by their owners. Owners without files are left out.
pub(crate) fn file_digests<'a>(
    agent: &'a ResolvedAgent,
    is_wanted: impl Fn(FileOwner<'a>) -> bool,
) -> Result<Vec<(FileOwner<'a>, FileDigests)>, IdentityError> {
    digests_by_owner(agent, Arguments::Files, is_wanted)
}

/// The same without what calls may write: of the files among the arguments of programs, those that are programs.
pub(crate) fn program_digests<'a>(
    agent: &'a ResolvedAgent,
    is_wanted: impl Fn(FileOwner<'a>) -> bool,
) -> Result<Vec<(FileOwner<'a>, FileDigests)>, IdentityError> {
    digests_by_owner(agent, Arguments::Programs, is_wanted)
}

fn digests_by_owner<'a>(
    agent: &'a ResolvedAgent,
    arguments: Arguments,
    is_wanted: impl Fn(FileOwner<'a>) -> bool,
) -> Result<Vec<(FileOwner<'a>, FileDigests)>, IdentityError> {
    let files = inventory::files(agent).into_iter();
    let files: Vec<UsedFile<'a>> = files.filter(|file| is_wanted(file.owner)).collect();
    let mut found = Vec::new();
    for files in files.chunk_by(|one, other| one.owner.to_string() == other.owner.to_string()) {
        let Some(UsedFile { owner, .. }) = files.first() else {
            continue;
        };
        let mut digests = collect(&agent.dir, arguments, files)?;
        for file in files {
            if let (Named::Documents { source, follow_links }, FileOwner::Tool(tool)) = (&file.named, owner) {
                let documents = documents(source, *follow_links, agent, open_manifest(agent, tool));
                digests.extend(documents.map_err(|problem| problem.named_by(&file.pointer))?);
            }
        }
        if !digests.is_empty() {
            found.push((*owner, digests));
        }
    }
    Ok(found)
}

/// The digests of files for an agent file in `folder`.
pub(crate) fn digests_of<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = &'a UsedFile<'a>>,
) -> Result<FileDigests, IdentityError> {
    collect(folder, Arguments::Files, files)
}

fn collect<'a>(
    folder: &Path,
    arguments: Arguments,
    files: impl IntoIterator<Item = &'a UsedFile<'a>>,
) -> Result<FileDigests, IdentityError> {
    let mut collector = FileCollector::new(folder, arguments);
    for file in files {
        collector.add(file);
    }
    collector.digests()
}

/// Every file that the fields of an agent file name, each with its field, in the order of the fields: a copy of its folder
/// needs them. Files with variables are left out, since they hold secrets, and the agent of `routing.legacy`, which has files of its
/// own.
pub(crate) fn named_files(agent: &ResolvedAgent) -> Result<Vec<(PathBuf, String)>, IdentityError> {
    let mut found = Vec::new();
    for used in inventory::files(agent) {
        match &used.named {
            Named::EnvFile(_) | Named::Agent(_) => {}
            Named::Documents { source, follow_links } => {
                let files = document_files(source, *follow_links, agent);
                let files = files.map_err(|problem| problem.named_by(&used.pointer))?;
                let pointer = format!("{}.source", used.pointer);
                found.extend(files.into_iter().map(|path| (path, pointer.clone())));
            }
            _ => {
                let mut collector = FileCollector::new(&agent.dir, Arguments::Contents);
                collector.add(&used);
                found.extend(collector.paths()?);
            }
        }
    }
    Ok(found)
}

/// The settings of the user that the CLI reads if `setting_sources` names them, by their names in the user's folder of the
/// CLI.
pub(crate) fn settings_of_user(agent: &ResolvedAgent, env: &Env) -> Result<FileDigests, IdentityError> {
    let claude = agent.config.claude.iter();
    let mut sources = claude.flat_map(|claude| &claude.setting_sources);
    let reads_user = sources.any(|source| [SettingSource::User, SettingSource::All].contains(source));
    let is_read = reads_user && agent.config.is_claude();
    let Some(folder) = machine::user_folder(env).filter(|_| is_read) else {
        return Ok(FileDigests::new());
    };
    let files = machine::user_files(env).into_iter().map(|(_, file)| UsedFile {
        owner: FileOwner::CliSettings,
        pointer: "claude.setting_sources".to_owned(),
        named: if file.is_dir() {
            Named::Folder(file)
        } else {
            Named::File(file)
        },
    });
    digests_of(&folder, &files.collect::<Vec<_>>())
}

/// Why the documents of a source cannot be read.
#[derive(Debug)]
pub(super) struct SourceProblem {
    path: PathBuf,
    reason: String,
}

impl SourceProblem {
    fn new(path: &Path, reason: String) -> Self {
        let path = path.to_owned();
        Self { path, reason }
    }

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
    let names = PathNames::new(&agent.dir);
    let mut digests = FileDigests::new();
    for path in document_files(source, follow_links, agent)? {
        let digest = match manifest.content(&path, u64::MAX) {
            Ok(content) if Cassette::has_header(content.head.as_bytes()) => continue,
            Ok(content) => shorten(content.digest),
            Err(_) => digest_content(&path).map_err(|error| {
                let reason = holodeck_model::io_reason(&error);
                SourceProblem::new(&path, format!("cannot be read: {reason}"))
            })?,
        };
        digests.insert(names.of_path(&path), digest);
    }
    if let Err(error) = manifest.save() {
        // The only consequence is that files are read again.
        tracing::debug!(%error, "cannot store the digests of files");
    }
    Ok(merge_digests(digests))
}

/// The files of a source, without the agent's own and those that its runs write; none of a source on the web.
fn document_files(
    source: &PathRef,
    follow_links: bool,
    agent: &ResolvedAgent,
) -> Result<Vec<PathBuf>, SourceProblem> {
    let problem = |path: &Path, reason: String| SourceProblem::new(path, reason);
    let path = match Source::parse(source.as_str()) {
        Ok(Source::Files(path)) => path,
        Ok(_) => return Ok(Vec::new()),
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
    let mut own = OwnFiles::of(agent);
    let found = found.into_iter().map(|file| file.path);
    Ok(found.filter(|path| !own.contains(path)).collect())
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
