//! Access to files for the loader, so that tests need no disk.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    input::{open_input, read_up_to},
    suggest::closest,
};

/// As many names of a folder are compared with that of a missing file.
const MAX_NAMES: usize = 1000;

/// The kind of thing that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file that can be read.
    File,
    /// A directory.
    Directory,
    /// Nothing exists there.
    Missing,
}

/// Access to the files a configuration names.
pub trait Files {
    /// Reads at most the first `limit` bytes of a file; a caller requests one more than it accepts.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// The kind of thing at this path.
    fn kind(&self, path: &Path) -> FileKind;

    /// Whether it is a file that can be read twice, unlike a pipe.
    fn is_regular(&self, path: &Path) -> bool {
        self.kind(path) == FileKind::File
    }

    /// The path that does not depend on the working directory; files in memory have no working directory.
    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// The names in a folder, for suggestions; none if it cannot be read.
    fn names_in(&self, _folder: &Path) -> Vec<String> {
        Vec::new()
    }

    /// The SHA-256 of a regular file.
    fn digest(&self, path: &Path) -> io::Result<[u8; 32]> {
        Ok(Sha256::digest(self.read(path, u64::MAX)?).into())
    }
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        read_up_to(path, limit)
    }

    fn is_regular(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
    }

    fn kind(&self, path: &Path) -> FileKind {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => FileKind::Directory,
            Ok(_) => FileKind::File,
            Err(_) => FileKind::Missing,
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        absolute_path(path)
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries
            .take(MAX_NAMES)
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn digest(&self, path: &Path) -> io::Result<[u8; 32]> {
        let file = open_input(path, u64::MAX)?;
        let mut hash = Sha256::new();
        let mut reader = io::BufReader::with_capacity(1 << 16, file);
        loop {
            let piece = reader.fill_buf()?;
            if piece.is_empty() {
                return Ok(hash.finalize().into());
            }
            hash.update(piece);
            let read = piece.len();
            reader.consume(read);
        }
    }
}

/// The name beside a missing file that was probably meant, with the same extension.
pub fn near_file(files: &dyn Files, missing: &Path) -> Option<String> {
    let stem = |path: &Path| path.file_stem()?.to_str().map(str::to_owned);
    let names = files.names_in(missing.parent()?);
    let alike = names
        .iter()
        .filter(|name| Path::new(name).extension() == missing.extension());
    let stems: Vec<(String, &String)> = alike
        .filter_map(|name| Some((stem(Path::new(name))?, name)))
        .collect();
    let wanted = stem(missing)?;
    let near = closest(&wanted, stems.iter().map(|(stem, _)| stem.as_str()))?;
    let found = stems.iter().find(|(stem, _)| stem == near);
    found.map(|(_, name)| (*name).clone())
}

/// The path as messages show it: relative to the working directory if it is below it.
pub fn shown_path(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    below.unwrap_or_else(|| path.to_owned())
}

/// The path from the root, without resolving links; the empty path is the working directory.
pub fn absolute_path(path: &Path) -> PathBuf {
    let named = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    // Without a working directory, only the path as it was given can be opened.
    std::path::absolute(named).unwrap_or_else(|_| path.to_owned())
}

/// Why an operation failed, in lowercase and without the system's error number.
pub fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((reason, _)) = text.split_once(" (os error ") else {
        let is_only_a_kind = error.get_ref().is_none();
        return match error.kind() {
            io::ErrorKind::NotFound if is_only_a_kind => "no such file or directory".to_owned(),
            _ => text,
        };
    };
    let mut letters = reason.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Creates a folder that only its owner can access, and missing parent folders.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options to write a file that only its owner can read.
pub fn private_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

/// Files held in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryFiles {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }
}

impl Files for MemoryFiles {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let content = self
            .files
            .get(path)
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(content.iter().copied().take(limit).collect())
    }

    fn kind(&self, path: &Path) -> FileKind {
        if self.files.contains_key(path) {
            FileKind::File
        } else if self.files.keys().any(|file| file.starts_with(path)) {
            FileKind::Directory
        } else {
            FileKind::Missing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_error_has_no_system_number() {
        assert_eq!(
            io_reason(&io::Error::from_raw_os_error(2)),
            "no such file or directory"
        );
        assert_eq!(io_reason(&io::Error::other("it is a FIFO")), "it is a FIFO");
    }
}
