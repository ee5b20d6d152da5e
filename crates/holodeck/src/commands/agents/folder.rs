//! Finds the Markdown files of folders.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use holodeck_model::{Code, Diagnostic, io_reason};

use super::AgentFolder;

/// Folders below this depth are not read.
const MAX_DEPTH: usize = 8;

/// At most this number of files and folders is looked at.
const MAX_ENTRIES: usize = 20_000;

/// A Markdown file among the agents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgentFile {
    pub(super) path: PathBuf,
    pub(super) core: bool,
}

/// The Markdown files of the folders, sorted by path, each once. Hidden files are left out, and links that leave the folder
/// are not followed. A folder within another one has its own value of `core`.
pub(super) fn find_files(folders: &[AgentFolder], diagnostics: &mut Vec<Diagnostic>) -> Vec<AgentFile> {
    find_readable(folders, diagnostics).0
}

/// The same, with the paths of what exists and cannot be read.
pub(super) fn find_readable(
    folders: &[AgentFolder],
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<AgentFile>, Vec<PathBuf>) {
    let roots: BTreeSet<PathBuf> = folders
        .iter()
        .filter_map(|folder| fs::canonicalize(&folder.path).ok())
        .collect();
    let mut search = Search {
        roots,
        seen: BTreeSet::new(),
        entries: 0,
        found: Vec::new(),
        unreadable: Vec::new(),
        diagnostics,
    };
    for folder in folders {
        match fs::canonicalize(&folder.path) {
            Ok(root) if root.is_dir() => search.folder(&folder.path, &root, folder.core, 0),
            Ok(_) => {
                search.unreadable.push(folder.path.clone());
                search.report_root(&folder.path, "is not a directory");
            }
            Err(error) => {
                if folder.path.symlink_metadata().is_ok() || error.kind() != io::ErrorKind::NotFound {
                    search.unreadable.push(folder.path.clone());
                }
                search.report_root(&folder.path, &format!("cannot be read: {}", io_reason(&error)));
            }
        }
    }
    let mut found = search.found;
    found.sort_by(|(one, _), (other, _)| bytes(&one.path).cmp(bytes(&other.path)));
    // A link and its target are one file; the first path is used.
    let mut targets = BTreeSet::new();
    found.retain(|(_, target)| targets.insert(target.clone()));
    let unreadable = search.unreadable;
    (found.into_iter().map(|(file, _)| file).collect(), unreadable)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

struct Search<'a> {
    /// All folders to search.
    roots: BTreeSet<PathBuf>,
    /// Folders that have been read: links may form a circle.
    seen: BTreeSet<PathBuf>,
    entries: usize,
    /// Files with their real paths.
    found: Vec<(AgentFile, PathBuf)>,
    unreadable: Vec<PathBuf>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Search<'_> {
    fn report_root(&mut self, path: &Path, what: &str) {
        let message = format!("the folder of agents `{}` {what}", path.display());
        self.diagnostics
            .push(Diagnostic::error(Code::FileNotFound, message));
    }

    fn warn(&mut self, path: &Path, what: &str) {
        let message = format!("`{}` {what}", path.display());
        self.diagnostics
            .push(Diagnostic::warning(Code::UnreadableFile, message));
    }

    /// Reads a folder whose real path is in `root`.
    fn folder(&mut self, path: &Path, root: &Path, core: bool, depth: usize) {
        let Ok(real) = fs::canonicalize(path) else { return };
        if !self.seen.insert(real) {
            return;
        }
        let listed = match fs::read_dir(path) {
            Ok(listed) => listed,
            Err(error) => {
                self.unreadable.push(path.to_owned());
                return self.warn(path, &format!("cannot be read: {}", io_reason(&error)));
            }
        };
        let mut names: Vec<_> = listed.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                if self.entries == MAX_ENTRIES + 1 {
                    let what = format!("is not read to its end: more than {MAX_ENTRIES} files");
                    self.warn(root, &what);
                }
                return;
            }
            let path = path.join(name);
            let is_markdown = path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
            let Ok(real) = fs::canonicalize(&path) else {
                if is_markdown {
                    self.warn(&path, "is a link to nothing");
                    self.unreadable.push(path);
                }
                continue;
            };
            let is_folder = real.is_dir();
            if !is_folder && !is_markdown {
                continue;
            }
            if !real.starts_with(root) {
                self.warn(
                    &path,
                    "is a link that leaves the folder of agents, and is not followed",
                );
            } else if is_folder {
                if !self.roots.contains(&real) && depth < MAX_DEPTH {
                    self.folder(&path, root, core, depth + 1);
                }
            } else if real.is_file() {
                self.found.push((AgentFile { path, core }, real));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;
    use tempfile::TempDir;

    use super::*;

    fn write(dir: &Path, name: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    fn find(dir: &Path, folders: &[(&str, bool)]) -> (Vec<(String, bool)>, Vec<String>) {
        let folders: Vec<_> = folders
            .iter()
            .map(|(path, core)| AgentFolder {
                path: dir.join(path),
                core: *core,
            })
            .collect();
        let mut diagnostics = Vec::new();
        let found = find_files(&folders, &mut diagnostics);
        let shown = |file: AgentFile| {
            let path = file.path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            (path, file.core)
        };
        let messages = diagnostics.into_iter().map(|found| found.message);
        (found.into_iter().map(shown).collect(), messages.collect())
    }

    #[test]
    fn a_folder_within_another_has_its_own_core() {
        let dir = TempDir::new().unwrap();
        for name in [
            "agents/b.md",
            "agents/extended/a.MD",
            "agents/x.txt",
            "agents/.hidden.md",
            "agents/team/c.md",
        ] {
            write(dir.path(), name);
        }
        for folders in [
            [("agents", true), ("agents/extended", false)],
            [("agents/extended", false), ("agents", true)],
        ] {
            let (found, problems) = find(dir.path(), &folders);
            let expected = [
                ("agents/b.md", true),
                ("agents/extended/a.MD", false),
                ("agents/team/c.md", true),
            ];
            assert_eq!(found, expected.map(|(path, core)| (path.to_owned(), core)));
            assert!(problems.is_empty());
        }
    }

    #[test]
    fn links_that_leave_the_folder_are_not_followed() {
        let dir = TempDir::new().unwrap();
        write(dir.path(), "agents/a.md");
        write(dir.path(), "outside/secret.md");
        symlink("../outside/secret.md", dir.path().join("agents/link.md")).unwrap();
        symlink("../outside", dir.path().join("agents/folder")).unwrap();
        symlink("a.md", dir.path().join("agents/z.md")).unwrap();
        symlink(".", dir.path().join("agents/circle")).unwrap();
        symlink("nothing", dir.path().join("agents/broken.md")).unwrap();
        let (found, problems) = find(dir.path(), &[("agents", false)]);
        assert_eq!(found, [("agents/a.md".to_owned(), false)]);
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let dir = TempDir::new().unwrap();
        write(dir.path(), "file.md");
        let (found, problems) = find(dir.path(), &[("none", false), ("file.md", false)]);
        assert!(found.is_empty());
        assert_eq!(problems.len(), 2);
    }
}
