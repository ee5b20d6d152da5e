//! How the loader reads files, so that tests need no disk.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::input::{open_input, read_up_to};

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file that can be read.
    File,
    /// A directory.
    Directory,
    /// Nothing is there.
    Missing,
}

/// Access to the files a configuration names.
pub trait Files {
    /// The first `limit` bytes of a file at most: a reader asks for one more than it would accept.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// What is at this path.
    fn kind(&self, path: &Path) -> FileKind;

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

    fn kind(&self, path: &Path) -> FileKind {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => FileKind::Directory,
            Ok(_) => FileKind::File,
            Err(_) => FileKind::Missing,
        }
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

/// Makes a folder that only its user can look into, with those above it that are missing.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options to write a file that only its user can read.
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
