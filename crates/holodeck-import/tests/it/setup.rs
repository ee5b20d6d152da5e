//! Sources in memory and on the disk.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use holodeck_import::{CodeRequest, CodeRunner, Import, SourceFiles, import_promptfoo};
use holodeck_yaml::read_foreign;
use serde_json::Value;

/// Files in memory.
pub(crate) struct Memory(pub(crate) BTreeMap<PathBuf, String>);

impl Memory {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self(
            files
                .iter()
                .map(|(path, text)| (path.into(), (*text).to_owned()))
                .collect(),
        )
    }
}

impl SourceFiles for Memory {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self
            .0
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .cloned()
            .collect())
    }
}

/// Files on the disk.
pub(crate) struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        Ok(files)
    }
}

/// Code that must not run.
pub(crate) struct NoCode;

impl CodeRunner for NoCode {
    fn run(&mut self, request: &CodeRequest) -> Result<Value, String> {
        panic!("{request:?} ran")
    }
}

/// Imports a configuration in memory.
pub(crate) fn import(config: &str) -> Import {
    let files = Memory::new(&[("promptfooconfig.yaml", config)]);
    import_promptfoo(Path::new("promptfooconfig.yaml"), Path::new(".."), &files, None).unwrap()
}

/// A file of an import as a value.
pub(crate) fn written(import: &Import, path: &str) -> Value {
    let file = import.files.iter().find(|file| file.path == Path::new(path));
    let text = &file
        .unwrap_or_else(|| panic!("no `{path}` in {:?}", import.files))
        .text;
    read_foreign(Path::new(path), text).unwrap().to_json()
}

/// The findings, one line each.
pub(crate) fn findings(import: &Import) -> Vec<String> {
    let line = |found: &holodeck_import::Finding| format!("{:?} {}: {}", found.kind, found.line, found.what);
    import.findings.iter().map(line).collect()
}
