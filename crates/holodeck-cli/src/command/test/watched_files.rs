//! The files that a run reads, and which of them changed. Folders are watched, because editors replace files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck::{RunInputs, reports::format};
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::{sync::mpsc, time::timeout};

use crate::{failure::Problem, render::shown_path};

/// Changes that follow each other faster belong together: an editor writes a file in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// Folders that are written while tests run.
const WRITTEN: [&str; 4] = [".holodeck", "__pycache__", ".git", "results"];

/// Watches the files of an agent.
pub(super) struct WatchedFiles {
    sender: mpsc::UnboundedSender<notify::Result<Event>>,
    events: mpsc::UnboundedReceiver<notify::Result<Event>>,
    watcher: Option<RecommendedWatcher>,
    /// The folders that it watches, each with whether it watches all below.
    roots: BTreeMap<PathBuf, bool>,
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    /// Files that the run writes.
    outputs: BTreeSet<PathBuf>,
}

impl WatchedFiles {
    /// Watches this file, before it is known which others it names.
    pub(super) fn new(agent: &Path) -> Result<Self, Problem> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut files = Self {
            sender,
            events,
            watcher: None,
            roots: BTreeMap::new(),
            files: BTreeSet::new(),
            folders: BTreeSet::new(),
            outputs: BTreeSet::new(),
        };
        files.watch([agent])?;
        Ok(files)
    }

    /// Watches the inputs of a run in place of those before. Its reports are not among them.
    pub(super) fn follow<'p>(
        &mut self,
        inputs: &RunInputs,
        outputs: impl Iterator<Item = &'p PathBuf>,
    ) -> Result<(), Problem> {
        self.outputs = outputs.flat_map(|path| names_of(path)).collect();
        self.watch(inputs.paths())
    }

    fn watch<'p>(&mut self, paths: impl IntoIterator<Item = &'p Path>) -> Result<(), Problem> {
        self.files.clear();
        self.folders.clear();
        for path in paths {
            let names = names_of(path);
            if path.is_dir() {
                self.folders.extend(names);
            } else {
                self.files.extend(names);
            }
        }
        let mut roots: BTreeMap<PathBuf, bool> = BTreeMap::new();
        for file in &self.files {
            if let Some(folder) = file.parent().filter(|folder| folder.is_dir()) {
                roots.entry(folder.to_owned()).or_insert(false);
            }
        }
        roots.extend(self.folders.iter().map(|folder| (folder.clone(), true)));
        if self.watcher.is_some() && roots == self.roots {
            return Ok(());
        }
        let sender = self.sender.clone();
        let watcher = notify::recommended_watcher(move |event| {
            // Without a receiver the command is over.
            let _ = sender.send(event);
        });
        let mut watcher = watcher.map_err(|error| cannot_watch(&error))?;
        for (root, is_whole) in &roots {
            let mode = if *is_whole {
                RecursiveMode::Recursive
            } else {
                RecursiveMode::NonRecursive
            };
            watcher.watch(root, mode).map_err(|error| cannot_watch(&error))?;
        }
        // The one before is dropped only now, so that no change is missed.
        self.watcher = Some(watcher);
        self.roots = roots;
        Ok(())
    }

    /// `watching 4 files and 1 folder`.
    pub(super) fn describe(&self) -> String {
        let files = self.files.iter().filter(|file| file.exists()).count();
        let mut text = format!("watching {}", format::count(files, "file"));
        if !self.folders.is_empty() {
            text.extend([" and ", &format::count(self.folders.len(), "folder")]);
        }
        text
    }

    /// Waits until files changed and no other followed for a moment. Returns their names.
    pub(super) async fn changed(&mut self) -> Result<Vec<String>, Problem> {
        let mut changed = BTreeSet::new();
        loop {
            let event = if changed.is_empty() {
                self.events.recv().await
            } else if let Ok(event) = timeout(QUIET, self.events.recv()).await {
                event
            } else {
                let shown = |path: &PathBuf| shown_path(path).display().to_string();
                return Ok(changed.iter().map(shown).collect());
            };
            let Some(event) = event else {
                return std::future::pending().await;
            };
            let event = event.map_err(|error| cannot_watch(&error))?;
            if event.need_rescan() {
                // Events were lost: any file may have changed.
                changed.extend(self.files.iter().cloned());
            }
            if is_change(event.kind) {
                changed.extend(event.paths.into_iter().filter(|path| self.concerns(path)));
            }
        }
    }

    fn concerns(&self, path: &Path) -> bool {
        if self.outputs.contains(path) {
            return false;
        }
        let is_written = |inside: &Path| {
            inside
                .components()
                .any(|part| WRITTEN.iter().any(|name| part.as_os_str() == *name))
        };
        self.files.contains(path)
            || self
                .folders
                .iter()
                .any(|folder| path.strip_prefix(folder).is_ok_and(|inside| !is_written(inside)))
    }
}

/// Whether the content of a file may be another one. Reading a file is no change.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Other => false,
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Any => true,
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
    }
}

/// The names under which a change of this file is reported: in its folder, and where a link leads.
fn names_of(path: &Path) -> Vec<PathBuf> {
    let Ok(absolute) = std::path::absolute(path) else {
        return Vec::new();
    };
    let in_folder = absolute.parent().and_then(|folder| {
        let folder = folder.canonicalize().ok()?;
        Some(folder.join(absolute.file_name()?))
    });
    in_folder
        .into_iter()
        .chain(absolute.canonicalize().ok())
        .collect()
}

fn cannot_watch(error: &notify::Error) -> Problem {
    let problem = Problem::execution(format!("the files of the agent cannot be watched: {error}"));
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => problem
            .with_hint("raise `fs.inotify.max_user_watches`, or name smaller folders in the agent file"),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn watched(agent: &Path) -> WatchedFiles {
        WatchedFiles::new(agent).unwrap()
    }

    #[tokio::test]
    async fn a_replaced_file_is_reported_and_its_neighbour_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("agent.yaml");
        fs::write(&agent, "name: a").unwrap();
        let mut files = watched(&agent);
        fs::write(folder.path().join("notes.txt"), "x").unwrap();
        fs::read(&agent).unwrap();
        let draft = folder.path().join("agent.yaml.new");
        fs::write(&draft, "name: b").unwrap();
        fs::rename(&draft, &agent).unwrap();
        let changed = files.changed().await.unwrap();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].ends_with("agent.yaml"), "{changed:?}");
    }

    #[test]
    fn neither_a_report_nor_what_a_run_writes_concerns_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let agent = root.join("agent.yaml");
        fs::write(&agent, "name: a").unwrap();
        let mut files = watched(&agent);
        files.folders.insert(root.join("docs"));
        files.outputs.insert(root.join("docs/report.html"));
        for (path, concerns) in [
            ("agent.yaml", true),
            ("docs/deep/page.md", true),
            ("docs/report.html", false),
            ("docs/.holodeck/index.db", false),
            ("docs/__pycache__/a.pyc", false),
            ("other.yaml", false),
        ] {
            assert_eq!(files.concerns(&root.join(path)), concerns, "{path}");
        }
        assert!(!is_change(EventKind::Access(AccessKind::Read)));
        assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
    }
}
