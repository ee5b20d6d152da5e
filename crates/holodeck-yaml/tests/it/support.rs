//! Loads fixtures and renders diagnostics as plain text.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use holodeck_model::{Diagnostic, DiskFiles, Env, FileKind, Files, MemoryFiles};
use holodeck_yaml::{Load, load_agent};

/// The files of the fixtures, relative to their directory.
pub(crate) struct FixtureFiles;

impl Files for FixtureFiles {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        DiskFiles.read(&root().join(path), limit)
    }

    fn kind(&self, path: &Path) -> FileKind {
        DiskFiles.kind(&root().join(path))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/yaml")
}

/// `<folder>/*.yaml` and `<folder>/*/agent.yaml`, sorted.
pub(crate) fn fixtures(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let name = entry.unwrap().file_name();
        let path = Path::new(folder).join(name);
        if root().join(&path).is_dir() {
            found.push(path.join("agent.yaml"));
        } else {
            found.push(path);
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Loads a fixture with the variables of its `# env: NAME=value` lines. `HOME` is relative to the fixture.
pub(crate) fn load_fixture(path: &Path) -> Load {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let mut env = Env::empty();
    for line in text.lines().filter_map(|line| line.strip_prefix("# env: ")) {
        let (name, value) = line.split_once('=').unwrap();
        let value = if name == "HOME" {
            path.parent().unwrap().join(value).display().to_string()
        } else {
            value.to_owned()
        };
        env.set(name, value);
    }
    load_agent(path, &env, &FixtureFiles)
}

/// Loads a text as `agent.yaml`.
pub(crate) fn load_bytes(content: impl Into<Vec<u8>>) -> Load {
    let files = MemoryFiles::new().with("agent.yaml", content);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
}

pub(crate) fn render(diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        let place = diagnostic
            .primary
            .as_ref()
            .map_or_else(|| "-".to_owned(), ToString::to_string);
        let Diagnostic {
            severity,
            code,
            message,
            ..
        } = diagnostic;
        writeln!(text, "{place}: {severity}[{code}]: {message}").unwrap();
        if let Some(inline) = &diagnostic.inline {
            writeln!(text, "    ^ {inline}").unwrap();
        }
        for label in &diagnostic.labels {
            writeln!(text, "    {}: {}", label.location, label.message).unwrap();
        }
        for note in &diagnostic.notes {
            writeln!(text, "    note: {note}").unwrap();
        }
        if let Some(help) = &diagnostic.help {
            writeln!(text, "    hint: {help}").unwrap();
        }
    }
    text
}
