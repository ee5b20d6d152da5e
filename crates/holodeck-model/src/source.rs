//! The texts of the loaded files, for rendering.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file with its path as given and its text (without a byte order mark).
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as given.
    pub path: Arc<Path>,
    /// The text.
    pub text: Arc<str>,
}

/// The files that were read while loading, in that order.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
}

impl Sources {
    /// Adds a file; the first text of a path is kept.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> Source {
        let path: Arc<Path> = path.into().into();
        let source = Source {
            path,
            text: text.into(),
        };
        if self.get(&source.path).is_none() {
            self.sources.push(source.clone());
        }
        source
    }

    /// The text of a file.
    pub fn get(&self, path: &Path) -> Option<&str> {
        self.sources
            .iter()
            .find(|source| &*source.path == path)
            .map(|source| &*source.text)
    }

    /// All files.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }
}
