//! Finds the files of runs below a folder. Links are not followed.

use std::{
    fs::FileType,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::file_version::FileVersion;

/// A file with a run.
#[derive(Clone, Debug)]
pub(crate) struct RunPath {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) is_journal: bool,
    /// The path below the folder.
    pub(crate) shown: String,
    pub(crate) version: FileVersion,
}

impl RunPath {
    /// The `.holodeck/` of a journal.
    pub(crate) fn store(&self) -> Option<&Path> {
        self.path.parent()?.parent().filter(|_| self.is_journal)
    }

    /// The folder of its agent.
    pub(crate) fn agent_folder(&self) -> Option<&Path> {
        let is_store = |path: &&Path| {
            path.file_name()
                .is_some_and(|name| name == ".holodeck" || name == "results" || name == "baselines")
        };
        self.path.ancestors().find(is_store)?.parent()
    }
}

/// Folders without runs, which can be large.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", "trash"];

/// Folders below which a file may lie.
const MAX_DEPTH: usize = 24;

/// Every file with a run below a folder, by its path.
pub(crate) fn runs_below(folder: &Path) -> Vec<RunPath> {
    let mut found = Vec::new();
    add(folder, folder, MAX_DEPTH, &mut found);
    found.sort_by(|a, b| a.shown.cmp(&b.shown));
    found
}

/// Every YAML file below a folder, by its path.
pub(crate) fn yaml_below(folder: &Path) -> Vec<PathBuf> {
    fn add(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        let is_yaml = |path: &PathBuf| {
            let extension = path.extension();
            extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
        };
        found.extend(children(folder, FileType::is_file).filter(is_yaml));
        let is_skipped = |path: &PathBuf| SKIPPED.iter().any(|skipped| path.ends_with(skipped));
        for path in children(folder, FileType::is_dir).filter(|path| depth > 0 && !is_skipped(path)) {
            add(&path, depth - 1, found);
        }
    }
    let mut found = Vec::new();
    add(folder, MAX_DEPTH, &mut found);
    found.sort();
    found
}

/// The files with runs in the folder of this one, by their paths.
pub(crate) fn runs_beside(folder: &Path, run: &RunPath) -> Vec<RunPath> {
    let mut found = Vec::new();
    if let Some(parent) = run.path.parent() {
        add(folder, parent, 0, &mut found);
    }
    found.sort_by(|a, b| a.shown.cmp(&b.shown));
    found
}

/// A folder that cannot be read has no runs that could be shown.
fn add(top: &Path, folder: &Path, depth: usize, found: &mut Vec<RunPath>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // Of the entry itself: a link is neither a folder nor a file.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        let name = entry.file_name();
        let is_skipped = SKIPPED.iter().any(|skipped| name == *skipped);
        if kind.is_dir() && depth > 0 && !is_skipped {
            add(top, &path, depth - 1, found);
        } else if kind.is_file()
            && let Some(is_journal) = kind_of(&path)
            && let Ok(metadata) = entry.metadata()
        {
            let shown = path.strip_prefix(top).unwrap_or(&path).display().to_string();
            found.push(RunPath {
                id: id_of(&path),
                is_journal,
                shown,
                version: FileVersion::of(&metadata),
                path,
            });
        }
    }
}

/// Whether a file is a journal (`true`), or a run file or baseline (`false`), by its place.
fn kind_of(path: &Path) -> Option<bool> {
    let folder = path.parent()?;
    let is_in = |name: &str| {
        let mut above = folder.ancestors();
        above.any(|folder| folder.file_name().is_some_and(|own| own == name))
    };
    match path.extension()?.to_str()? {
        "jsonl" if folder.ends_with(".holodeck/runs") => Some(true),
        "json" if is_in("results") || is_in("baselines") => Some(false),
        _ => None,
    }
}

/// Names a file in addresses: a digest of its path, which a request cannot turn into another path.
fn id_of(path: &Path) -> String {
    let digest: [u8; 32] = Sha256::digest(path.as_os_str().as_encoded_bytes()).into();
    let (half, _) = digest.as_chunks::<16>();
    let half = half.first().copied().unwrap_or_default();
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Each `.holodeck/trash/` below a folder, with its files and their names in addresses.
pub(crate) fn trashed_below(top: &Path) -> Vec<(PathBuf, Vec<(PathBuf, String)>)> {
    fn folders(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for path in children(folder, FileType::is_dir) {
            let is_store = folder.ends_with(".holodeck");
            if is_store && path.ends_with("trash") {
                found.push(path);
            } else if depth > 0 && !SKIPPED.iter().any(|skipped| path.ends_with(skipped)) {
                folders(&path, depth - 1, found);
            }
        }
    }
    fn files(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, String)>) {
        let here = children(folder, FileType::is_file);
        found.extend(here.map(|path| (path.clone(), id_of(&path))));
        for path in children(folder, FileType::is_dir).filter(|_| depth > 0) {
            files(&path, depth - 1, found);
        }
    }
    let mut trashes = Vec::new();
    folders(top, MAX_DEPTH, &mut trashes);
    let trashes = trashes.into_iter().map(|trash| {
        let mut found = Vec::new();
        files(&trash, MAX_DEPTH, &mut found);
        (trash, found)
    });
    trashes.collect()
}

/// The entries of a folder that are of this type themselves: a link is none.
fn children(folder: &Path, is_kind: fn(&FileType) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(move |entry| entry.file_type().is_ok_and(|kind| is_kind(&kind)))
        .map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn yaml_files_are_found_without_links_and_skipped_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [
            "b/agent.yaml",
            "a.yml",
            "a.json",
            "target/agent.yaml",
            ".holodeck/trash/a.yaml",
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
        }
        symlink(path("a.yml"), path("link.yaml")).unwrap();
        symlink(path("b"), path("linked")).unwrap();
        assert_eq!(yaml_below(folder.path()), [path("a.yml"), path("b/agent.yaml")]);
    }
}
