//! Finds the files that a path, folder or glob names, and reports what it leaves out and why.
//!
//! Links that lead out of the source are not followed by default.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use holodeck_model::io_reason;

use crate::Format;

/// Maximum number of file names in a message.
const MAX_NAMES: usize = 3;

/// Which files of a folder are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// The size limit of a file.
    pub max_bytes: u64,
    /// Whether images are used.
    pub pictures: Pictures,
    /// Which symbolic links are followed.
    pub links: Links,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Links to targets inside the source. Other links could expose unrelated files of the machine.
    Inside,
    /// All.
    Anywhere,
}

impl From<bool> for Links {
    /// The setting `follow_links`.
    fn from(follow: bool) -> Self {
        if follow { Self::Anywhere } else { Self::Inside }
    }
}

/// Whether images are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pictures {
    /// Used: their text can be read.
    Taken,
    /// Left out.
    LeftOut,
}

impl Default for WalkOptions {
    /// Files up to 500 MiB, no images, no links out of the source.
    fn default() -> Self {
        Self {
            max_bytes: 500 * 1024 * 1024,
            pictures: Pictures::LeftOut,
            links: Links::Inside,
        }
    }
}

/// The files of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Sorted by their names.
    pub files: Vec<SourceFile>,
    /// Notices about files that were left out, and why; lowercase, no full stop.
    pub notes: Vec<String>,
    /// The names of those that were left out because they can't be read.
    pub unreadable: Vec<String>,
}

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// Its name: relative to the agent's directory, with `/` on every system.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
}

/// Why a source has no files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalkError {
    /// The file or folder does not exist.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// It can't be read.
    #[error("`{name}` can't be read: {}", io_reason(source))]
    Unreadable {
        /// The file or folder.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The file is too large.
    #[error("`{name}` has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file.
        name: String,
        /// Its size.
        size: u64,
        /// The size limit.
        limit: u64,
    },
    /// Neither a file nor a folder.
    #[error("`{0}` is neither a file nor a folder")]
    Special(String),
    /// The glob is invalid.
    #[error("`{glob}` is not a valid pattern: {reason}")]
    Glob {
        /// As it was written.
        glob: String,
        /// The problem.
        reason: String,
    },
    /// It contains no readable file.
    #[error("{}", nothing(name, left_out))]
    Nothing {
        /// The folder or glob.
        name: String,
        /// Files that were left out, as in [`Walked::notes`].
        left_out: Vec<String>,
        /// As [`Walked::unreadable`].
        unreadable: Vec<String>,
    },
}

/// Finds the files of `source`, a path or a glob relative to `base`. A single file is used whatever its format. In a
/// folder, hidden files (including `.holodeck`) and unsupported formats are left out. A folder that is reached twice
/// through links is read once.
pub fn walk(source: &str, base: &Path, options: &WalkOptions) -> Result<Walked, WalkError> {
    let path = base.join(source);
    let mut walk = Walk {
        options,
        glob: None,
        root: PathBuf::new(),
        seen: HashSet::new(),
        files: Vec::new(),
        unread: Vec::new(),
        large: Vec::new(),
        broken: Vec::new(),
        outside: Vec::new(),
    };
    let shown = shown(source, base);
    match fs::metadata(&path) {
        Ok(about) if about.is_file() => {
            let (name, path) = (shown, path);
            if about.len() > options.max_bytes {
                let (size, limit) = (about.len(), options.max_bytes);
                return Err(WalkError::TooLarge { name, size, limit });
            }
            walk.files.push(SourceFile { name, path });
        }
        Ok(about) if about.is_dir() => walk.folder(&path, &shown)?,
        Ok(_) => return Err(WalkError::Special(source.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some((folder, glob)) = glob(source)? else {
                return Err(WalkError::Missing(source.to_owned()));
            };
            let path = base.join(&folder);
            if !path.is_dir() {
                return Err(WalkError::Missing(if folder.is_empty() {
                    source.to_owned()
                } else {
                    folder
                }));
            }
            walk.glob = Some(glob);
            walk.folder(&path, &self::shown(&folder, base))?;
        }
        Err(error) => return Err(unreadable(source, error)),
    }
    walk.finish(source)
}

/// The displayed name of a source: relative to `base` if it is below it.
fn shown(source: &str, base: &Path) -> String {
    let path = Path::new(source);
    let path = path.strip_prefix(base).unwrap_or(path);
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    let joined = parts.join("/");
    // The root is its own component.
    joined
        .strip_prefix("//")
        .map_or(joined.clone(), |rest| format!("/{rest}"))
}

/// The folder where a glob begins, and the pattern for files in it; `None` for a plain path.
fn glob(source: &str) -> Result<Option<(String, GlobMatcher)>, WalkError> {
    let Some(first) = source.find(['*', '?', '[', '{']) else {
        return Ok(None);
    };
    let start = source
        .get(..first)
        .and_then(|before| before.rfind('/'))
        .map_or(0, |slash| slash + 1);
    let (folder, pattern) = source.split_at(start);
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| WalkError::Glob {
        glob: source.to_owned(),
        reason: error.kind().to_string(),
    })?;
    Ok(Some((folder.to_owned(), glob.compile_matcher())))
}

struct Walk<'a> {
    options: &'a WalkOptions,
    /// The pattern for the path below the first folder.
    glob: Option<GlobMatcher>,
    /// Real path of the first folder.
    root: PathBuf,
    /// Real paths of the visited folders.
    seen: HashSet<PathBuf>,
    files: Vec<SourceFile>,
    unread: Vec<String>,
    large: Vec<String>,
    broken: Vec<String>,
    outside: Vec<String>,
}

impl Walk<'_> {
    /// Reads a folder recursively, links last, so that a folder gets its own name where it has one here.
    fn folder(&mut self, folder: &Path, shown: &str) -> Result<(), WalkError> {
        self.root = fs::canonicalize(folder).map_err(|error| unreadable(shown, error))?;
        let mut waiting = vec![(folder.to_owned(), shown.to_owned(), String::new())];
        let mut links = Vec::new();
        while let Some((folder, shown, below)) = waiting.pop().or_else(|| links.pop()) {
            // A dangling link, or a loop.
            let real = fs::canonicalize(&folder).map_err(|error| unreadable(&shown, error))?;
            if !self.seen.insert(real) {
                continue;
            }
            for entry in sorted(&folder).map_err(|error| unreadable(&shown, error))? {
                let file = entry.file_name();
                let file = file.to_string_lossy();
                if file.starts_with('.') {
                    continue;
                }
                let path = entry.path();
                let (name, below) = (joined(&shown, &file), joined(&below, &file));
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if is_link && self.leaves(&path) {
                    self.outside.push(name);
                    continue;
                }
                match fs::metadata(&path) {
                    Ok(about) if about.is_dir() && is_link => links.push((path, name, below)),
                    Ok(about) if about.is_dir() => waiting.push((path, name, below)),
                    Ok(about) if about.is_file() => self.file(name, path, &below, about.len()),
                    Ok(_) => self.broken.push(name),
                    Err(_error) => self.broken.push(name),
                }
            }
        }
        Ok(())
    }

    /// Whether a link must not be followed. A dangling link is reported as such.
    fn leaves(&self, link: &Path) -> bool {
        self.options.links == Links::Inside
            && fs::canonicalize(link).is_ok_and(|target| !target.starts_with(&self.root))
    }

    fn file(&mut self, name: String, path: PathBuf, below: &str, size: u64) {
        if self.glob.as_ref().is_some_and(|glob| !glob.is_match(below)) {
            return;
        }
        let is_read = match Format::of_name(&path) {
            Some(Format::Image(_)) => self.options.pictures == Pictures::Taken,
            Some(_) => true,
            None => false,
        };
        if !is_read {
            self.unread.push(name);
        } else if size > self.options.max_bytes {
            self.large.push(name);
        } else {
            self.files.push(SourceFile { name, path });
        }
    }

    fn finish(mut self, source: &str) -> Result<Walked, WalkError> {
        self.files.sort_unstable();
        let unreadable = self.broken.clone();
        let megabytes = self.options.max_bytes / (1024 * 1024);
        let notes = [
            left_out(self.unread, "of an unsupported format", "of unsupported formats"),
            left_out(
                self.large,
                &format!("over {megabytes} MiB"),
                &format!("over {megabytes} MiB"),
            ),
            left_out(self.broken, "that can't be read", "that can't be read"),
            left_out(
                self.outside,
                "that is a link out of the source (`follow_links: true` follows it)",
                "that are links out of the source (`follow_links: true` follows them)",
            ),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        if self.files.is_empty() {
            return Err(WalkError::Nothing {
                name: source.to_owned(),
                left_out: notes,
                unreadable,
            });
        }
        Ok(Walked {
            files: self.files,
            notes,
            unreadable,
        })
    }
}

fn sorted(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    // Reversed, because the last entry is visited first.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    Ok(entries)
}

fn joined(folder: &str, file: &str) -> String {
    match folder {
        "" => file.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{file}"),
        folder => format!("{folder}/{file}"),
    }
}

fn left_out(mut files: Vec<String>, one: &str, many: &str) -> Option<String> {
    files.sort_unstable();
    let mut shown: Vec<String> = files
        .iter()
        .take(MAX_NAMES)
        .map(|file| format!("`{file}`"))
        .collect();
    if files.len() > MAX_NAMES {
        shown.push(format!("and {} more", files.len() - MAX_NAMES));
    }
    let shown = shown.join(", ").replace(", and", " and");
    match files.len() {
        0 => None,
        1 => Some(format!("a file {one} is left out: {shown}")),
        count => Some(format!("{count} files {many} are left out: {shown}")),
    }
}

fn nothing(name: &str, left_out: &[String]) -> String {
    let found = format!("`{name}` contains no readable file");
    if left_out.is_empty() {
        return found;
    }
    format!("{found}; {}", left_out.join("; "))
}

fn unreadable(name: &str, source: io::Error) -> WalkError {
    WalkError::Unreadable {
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// A folder with these files, each with its name as content.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        folder
    }

    fn shown(source: &str, base: &Path, options: &WalkOptions) -> String {
        match walk(source, base, options) {
            Ok(walked) => {
                let names = walked.files.iter().map(|file| {
                    assert!(file.path.is_file());
                    file.name.clone()
                });
                names
                    .chain(walked.notes.iter().map(|note| format!("({note})")))
                    .collect::<Vec<_>>()
                    .join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    const FILES: &[&str] = &[
        "docs/b.md",
        "docs/a.txt",
        "docs/deep/er/c.pdf",
        "docs/.hidden/x.md",
        "docs/.x.md",
        "docs/.holodeck/y.md",
        "docs/code.rs",
        "docs/picture.png",
        "docs/deep/tool.exe",
        "docs/z.bin",
        "docs/deep/d.md",
        "only.rs",
        "empty/.keep",
    ];

    #[test]
    fn a_folder_is_read_in_order_without_hidden_and_unsupported_files() {
        let folder = folder(FILES);
        let base = folder.path();
        let plain = WalkOptions::default();
        for source in ["docs", "./docs/", base.join("docs").to_str().unwrap()] {
            assert_eq!(
                shown(source, base, &plain),
                "docs/a.txt\ndocs/b.md\ndocs/deep/d.md\ndocs/deep/er/c.pdf\n\
                 (4 files of unsupported formats are left out: `docs/code.rs`, `docs/deep/tool.exe`, `docs/picture.png` and 1 more)"
            );
        }
        let pictures = WalkOptions {
            pictures: Pictures::Taken,
            max_bytes: 9,
            ..WalkOptions::default()
        };
        assert_eq!(
            shown("docs", base, &pictures),
            "docs/b.md\n\
             (3 files of unsupported formats are left out: `docs/code.rs`, `docs/deep/tool.exe`, `docs/z.bin`)\n\
             (4 files over 0 MiB are left out: `docs/a.txt`, `docs/deep/d.md`, `docs/deep/er/c.pdf` and 1 more)"
        );
        assert_eq!(
            shown(".", &base.join("docs/deep"), &plain).lines().next(),
            Some("d.md")
        );
        assert_eq!(
            shown("../docs/deep", &base.join("docs"), &plain).lines().next(),
            Some("../docs/deep/d.md")
        );
    }

    #[test]
    fn a_single_file_is_used_whatever_it_is() {
        let folder = folder(FILES);
        let small = WalkOptions {
            max_bytes: 3,
            ..WalkOptions::default()
        };
        assert_eq!(
            shown("only.rs", folder.path(), &WalkOptions::default()),
            "only.rs"
        );
        assert_eq!(
            shown("./only.rs", folder.path(), &small),
            "`only.rs` has 7 bytes, more than the limit of 3"
        );
    }

    #[test]
    fn globs_match_below_their_folder() {
        let folder = folder(FILES);
        let of = |glob: &str| shown(glob, folder.path(), &WalkOptions::default());
        assert_eq!(of("docs/*.md"), "docs/b.md");
        assert_eq!(of("docs/**/*.md"), "docs/b.md\ndocs/deep/d.md");
        assert_eq!(of("**/*.{md,txt}"), "docs/a.txt\ndocs/b.md\ndocs/deep/d.md");
        assert_eq!(of("docs/[ab].*"), "docs/a.txt\ndocs/b.md");
        assert_eq!(of("docs/*.docx"), "`docs/*.docx` contains no readable file");
        assert_eq!(of("none/*.md"), "`none/` does not exist");
        assert!(of("docs/[a").starts_with("`docs/[a` is not a valid pattern: "));
    }

    #[test]
    fn missing_files_are_reported() {
        let folder = folder(FILES);
        let of = |source: &str| shown(source, folder.path(), &WalkOptions::default());
        assert_eq!(of("nope"), "`nope` does not exist");
        assert_eq!(of("empty"), "`empty` contains no readable file");
        assert_eq!(
            of("docs/deep/../../only.r?"),
            "`docs/deep/../../only.r?` contains no readable file; a file of an unsupported format is left out: \
             `docs/deep/../../only.rs`"
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_source_are_followed_only_if_allowed() {
        use std::os::unix::fs::symlink;

        let folder = folder(&["docs/sub/a.md", "other/b.md"]);
        let docs = folder.path().join("docs");
        symlink(&docs, docs.join("sub/loop")).unwrap();
        symlink(docs.join("sub"), docs.join("alias")).unwrap();
        symlink(folder.path().join("other"), docs.join("linked")).unwrap();
        symlink(folder.path().join("other/b.md"), docs.join("file.md")).unwrap();
        symlink(folder.path().join("gone.md"), docs.join("broken.md")).unwrap();
        let broken = "(a file that can't be read is left out: `docs/broken.md`)";
        let outside = "(2 files that are links out of the source (`follow_links: true` follows them) are left out: \
                       `docs/file.md`, `docs/linked`)";
        let of = |source: &str, links| {
            let options = WalkOptions {
                links,
                ..WalkOptions::default()
            };
            shown(source, folder.path(), &options)
        };
        assert_eq!(
            of("docs", Links::Inside),
            format!("docs/sub/a.md\n{broken}\n{outside}")
        );
        // Also through a folder inside that leads outside in two steps.
        symlink("../docs/linked", docs.join("sub/twice")).unwrap();
        assert!(!of("docs/**/*.md", Links::Inside).contains("b.md"));
        fs::remove_file(docs.join("sub/twice")).unwrap();
        // Read once, however often it is reached.
        assert_eq!(
            of("docs", Links::Anywhere),
            format!("docs/file.md\ndocs/linked/b.md\ndocs/sub/a.md\n{broken}")
        );
        // The user named this link as a source.
        symlink(folder.path().join("other"), folder.path().join("named")).unwrap();
        assert_eq!(of("named", Links::Inside), "named/b.md");
    }
}
