//! The runs below a folder. A request names a run by its id here, never by a path; links are not followed.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use holodeck_reports::{HistoryEntry, HistoryRun, StoredRun, read_run_file};
use holodeck_runs::RunStore;
use sha2::{Digest as _, Sha256};

/// The runs below a folder, found again for each page.
#[derive(Debug)]
pub struct Catalogue {
    folder: PathBuf,
    /// The content of each file, for as long as the file does not change.
    known: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    version: (Option<SystemTime>, u64),
    run: Result<HistoryRun, String>,
    is_ended: bool,
}

/// A file with a run.
#[derive(Clone, Debug)]
pub(crate) struct RunPath {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) is_journal: bool,
    shown: String,
    version: (Option<SystemTime>, u64),
}

/// Folders without runs, which can be large.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", "trash"];

/// Folders below which a file may lie.
const MAX_DEPTH: usize = 24;

impl Catalogue {
    /// The runs below this folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        // Fails if it is not a folder.
        std::fs::read_dir(&folder)?;
        Ok(Self {
            folder,
            known: Mutex::default(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the run with this id.
    pub(crate) fn find(&self, id: &str) -> Option<RunPath> {
        self.paths().into_iter().find(|run| run.id == id)
    }

    /// Every run, oldest first, with the address that `page` makes of the id of a journal. A run file whose journal is
    /// there is the same run, and left out.
    pub fn entries(&self, page: impl Fn(&str) -> String) -> Vec<HistoryEntry> {
        let paths = self.paths();
        let mut read: Vec<(RunPath, Known)> = paths.into_iter().map(|path| self.read(path)).collect();
        mark_running(&mut read);
        let run_id = |known: &Known| match &known.run {
            Ok(run) if !run.head.run_id.is_empty() => Some(run.head.run_id.clone()),
            _ => None,
        };
        let journals: Vec<String> = read
            .iter()
            .filter(|(path, _)| path.is_journal)
            .filter_map(|(_, known)| run_id(known))
            .collect();
        read.retain(|(path, known)| {
            path.is_journal || run_id(known).is_none_or(|run_id| !journals.contains(&run_id))
        });
        // A run that cannot be read is the newest, so that it is seen.
        read.sort_by_cached_key(|(path, known)| {
            let at = known.run.as_ref().ok().map(|run| run.head.timestamp.clone());
            (at.is_none(), at, path.shown.clone())
        });
        let entries = read.into_iter().map(|(path, known)| HistoryEntry {
            page: (path.is_journal && known.run.is_ok()).then(|| page(&path.id)),
            id: path.id,
            file: path.shown,
            run: known.run,
        });
        entries.collect()
    }

    fn read(&self, path: RunPath) -> (RunPath, Known) {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&path.path).cloned();
        if let Some(known) = known.filter(|known| known.version == path.version) {
            return (path, known);
        }
        let mut is_ended = true;
        let run = if path.is_journal {
            StoredRun::open(&path.path)
                .map_err(|error| error.to_string())
                .map(|run| {
                    is_ended = run.is_ended();
                    HistoryRun {
                        head: run.head().clone(),
                        model: Some(run.model().to_owned()),
                        is_running: false,
                    }
                })
        } else {
            let read = read_run_file(&path.path).map_err(|error| error.to_string());
            read.map(|(head, model)| HistoryRun {
                head,
                model,
                is_running: false,
            })
        };
        let known = Known {
            version: path.version,
            run,
            is_ended,
        };
        lock().insert(path.path.clone(), known.clone());
        (path, known)
    }

    fn paths(&self) -> Vec<RunPath> {
        let mut found = Vec::new();
        self.add(&self.folder, MAX_DEPTH, &mut found);
        found.sort_by(|a, b| a.shown.cmp(&b.shown));
        found
    }

    /// A folder that cannot be read has no runs that could be shown.
    fn add(&self, folder: &Path, depth: usize, found: &mut Vec<RunPath>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            // Of the entry itself: a link is neither a folder nor a file.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            let name = entry.file_name();
            let is_skipped = SKIPPED.iter().any(|skipped| name == *skipped);
            if kind.is_dir() && depth > 0 && !is_skipped {
                self.add(&path, depth - 1, found);
            } else if kind.is_file()
                && let Some(is_journal) = Self::kind_of(&path)
                && let Ok(metadata) = entry.metadata()
            {
                let shown = path
                    .strip_prefix(&self.folder)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                found.push(RunPath {
                    id: id_of(&path),
                    is_journal,
                    shown,
                    version: (metadata.modified().ok(), metadata.len()),
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
}

/// Names a file in addresses: a digest of its path, which a request cannot turn into another path.
fn id_of(path: &Path) -> String {
    let digest: [u8; 32] = Sha256::digest(path.as_os_str().as_encoded_bytes()).into();
    let (half, _) = digest.as_chunks::<16>();
    let half = half.first().copied().unwrap_or_default();
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Of the journals of a folder that have no end, the one that changed last is being written if a command holds the lock.
fn mark_running(runs: &mut [(RunPath, Known)]) {
    let mut newest: BTreeMap<PathBuf, (Option<SystemTime>, usize)> = BTreeMap::new();
    for (place, (path, known)) in runs.iter().enumerate() {
        if let Some(folder) = path.path.parent().filter(|_| path.is_journal && !known.is_ended) {
            let newest = newest.entry(folder.to_owned()).or_insert((path.version.0, place));
            if path.version.0 > newest.0 {
                *newest = (path.version.0, place);
            }
        }
    }
    for (folder, (_, place)) in newest {
        let agent = folder.parent().and_then(Path::parent);
        let lock = agent.map(|agent| RunStore::new(agent).lock_path());
        if let Some((_, known)) = runs
            .get_mut(place)
            .filter(|_| lock.is_some_and(|lock| is_locked(&lock)))
            && let Ok(run) = &mut known.run
        {
            run.is_running = true;
        }
    }
}

/// Whether a command holds the lock. A reader never makes the file.
fn is_locked(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
