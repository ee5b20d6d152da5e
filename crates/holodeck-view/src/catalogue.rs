//! The runs below a folder. A request names a run by its id here, never by a path; links are not followed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use holodeck_reports::{
    ComparedRun, HistoryEntry, HistoryRun, RunChanges, StoredRun, read_compared, read_run_file,
};
use holodeck_runs::RunStore;
use sha2::{Digest as _, Sha256};

use crate::summaries::{FileVersion, Since, Summary, base_version};

/// The runs below a folder, found again for each page.
#[derive(Debug)]
pub struct Catalogue {
    folder: PathBuf,
    /// Whether nothing may be written below the folder.
    is_read_only: bool,
    /// The summary of each file, for as long as the file does not change.
    known: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    version: FileVersion,
    run: Result<Summary, String>,
}

/// The runs of one series.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// The run before the one that was asked for.
    pub(crate) before: Option<RunPath>,
    /// All of them, newest first.
    pub(crate) runs: Vec<RunPath>,
}

/// A file with a run.
#[derive(Clone, Debug)]
pub(crate) struct RunPath {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) is_journal: bool,
    shown: String,
    version: FileVersion,
}

/// Folders without runs, which can be large.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", "trash"];

/// Folders below which a file may lie.
const MAX_DEPTH: usize = 24;

impl Catalogue {
    /// The runs below this folder. Unless it is only read, a summary is kept beside each journal.
    pub fn new(folder: &Path, is_read_only: bool) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        // Fails if it is not a folder.
        std::fs::read_dir(&folder)?;
        Ok(Self {
            folder,
            is_read_only,
            known: Mutex::default(),
        })
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
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
        let run_id = |known: &Known| match &known.run {
            Ok(run) if !run.head.run_id.is_empty() => Some(run.head.run_id.clone()),
            _ => None,
        };
        let journals: BTreeSet<String> = read
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
        let running = running(&read);
        self.compare_with_before(&mut read);
        let entries = read
            .into_iter()
            .enumerate()
            .map(|(place, (path, known))| HistoryEntry {
                page: (path.is_journal && known.run.is_ok()).then(|| page(&path.id)),
                run: known.run.map(|run| HistoryRun {
                    is_running: running.contains(&place),
                    folder: self.folder_of(&path),
                    changes: run.since.and_then(|since| Some(since.changes?.describe())),
                    head: run.head,
                    model: run.model,
                }),
                id: path.id,
                file: path.shown,
            });
        entries.collect()
    }

    /// The run before the one with this id of its series, and every run of the series, newest first.
    pub(crate) fn series_of(&self, id: &str) -> Series {
        let read = self.paths().into_iter().filter(|path| path.is_journal);
        let mut runs: Vec<(RunPath, Known)> = read.map(|path| self.read(path)).collect();
        runs.sort_by_cached_key(|(_, known)| known.run.as_ref().ok().map(|run| run.head.timestamp.clone()));
        let own = runs.iter().find(|(path, _)| path.id == id);
        let key = |(path, known): &(RunPath, Known)| {
            let series = known.run.as_ref().ok()?.series.clone()?;
            Some((path.path.parent()?.to_owned(), series))
        };
        let Some(own) = own.and_then(key) else {
            return Series::default();
        };
        runs.retain(|run| key(run).as_ref() == Some(&own));
        let place = runs.iter().position(|(path, _)| path.id == id);
        let mut runs: Vec<RunPath> = runs.into_iter().map(|(path, _)| path).collect();
        let before = place
            .and_then(|place| place.checked_sub(1))
            .and_then(|before| runs.get(before).cloned());
        runs.reverse();
        Series { before, runs }
    }

    /// The folder of the agent of a run, below that of the catalogue.
    fn folder_of(&self, run: &RunPath) -> String {
        let is_folder = |path: &&Path| {
            path.file_name()
                .is_some_and(|name| name == ".holodeck" || name == "results" || name == "baselines")
        };
        let above = run.path.ancestors().find(is_folder).and_then(Path::parent);
        let below = above.and_then(|path| path.strip_prefix(&self.folder).ok());
        below.map_or_else(String::new, |path| path.display().to_string())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, path: RunPath) -> (RunPath, Known) {
        let known = self.lock().get(&path.path).cloned();
        let is_current = |known: &Known| {
            let base = |run: &Summary| run.base == base_version(&path.path, &run.head);
            known.version == path.version && known.run.as_ref().is_ok_and(base)
        };
        if let Some(known) = known.filter(is_current) {
            return (path, known);
        }
        let kept = path.is_journal.then(|| Summary::read(&path.path, path.version));
        let run = match kept.flatten() {
            Some(kept) => Ok(kept),
            None => summarize(&path).inspect(|summary| self.keep_beside(&path, summary)),
        };
        let known = Known {
            version: path.version,
            run,
        };
        self.keep(&path, &known);
        (path, known)
    }

    fn keep_beside(&self, path: &RunPath, summary: &Summary) {
        if path.is_journal && !self.is_read_only {
            // Without a kept summary the next view reads the journal again.
            let _ = summary.keep(&path.path);
        }
    }

    fn keep(&self, path: &RunPath, known: &Known) {
        self.lock().insert(path.path.clone(), known.clone());
    }

    /// Adds to each run the differences to the run before of its series. Runs are given oldest first.
    fn compare_with_before(&self, runs: &mut [(RunPath, Known)]) {
        // The last run of each series, and of the one that was compared last its content: it is the next one before.
        let mut last: Vec<(PathBuf, usize)> = Vec::new();
        let mut content: Option<(usize, ComparedRun)> = None;
        for place in 0..runs.len() {
            let Some((path, known)) = runs.get(place) else {
                continue;
            };
            let Ok(summary) = &known.run else { continue };
            let Some(series) = &summary.series else { continue };
            let folder = path.path.parent().unwrap_or(&path.path).to_owned();
            let is_before = |(other, before): &&mut (PathBuf, usize)| {
                let before = runs.get(*before).and_then(|(_, known)| known.run.as_ref().ok());
                *other == folder && before.is_some_and(|before| before.series.as_ref() == Some(series))
            };
            let Some((_, known_last)) = last.iter_mut().find(is_before) else {
                last.push((folder, place));
                continue;
            };
            let before = std::mem::replace(known_last, place);
            let Some((before_path, _)) = runs.get(before) else {
                continue;
            };
            let version = before_path.version;
            let is_known = summary
                .since
                .as_ref()
                .is_some_and(|since| since.before == version);
            if is_known {
                continue;
            }
            let earlier = content.take().filter(|(of, _)| *of == before).map(|(_, run)| run);
            let earlier = earlier.or_else(|| read_compared(&before_path.path).ok());
            let later = read_compared(&path.path).ok();
            let changes = earlier
                .zip(later.as_ref())
                .map(|(before, after)| RunChanges::between(&before, after));
            content = later.map(|later| (place, later));
            if let Some((path, known)) = runs.get_mut(place)
                && let Ok(summary) = &mut known.run
            {
                summary.since = Some(Since {
                    before: version,
                    changes,
                });
                self.keep_beside(path, summary);
                self.keep(path, known);
            }
        }
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
}

/// Names a file in addresses: a digest of its path, which a request cannot turn into another path.
fn id_of(path: &Path) -> String {
    let digest: [u8; 32] = Sha256::digest(path.as_os_str().as_encoded_bytes()).into();
    let (half, _) = digest.as_chunks::<16>();
    let half = half.first().copied().unwrap_or_default();
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Reads the run in a file.
fn summarize(path: &RunPath) -> Result<Summary, String> {
    if !path.is_journal {
        let (head, model) = read_run_file(&path.path).map_err(|error| error.to_string())?;
        return Ok(Summary {
            journal: path.version,
            base: None,
            head,
            model,
            is_ended: true,
            series: None,
            since: None,
        });
    }
    let run = StoredRun::open(&path.path).map_err(|error| error.to_string())?;
    Ok(Summary {
        journal: path.version,
        base: base_version(&path.path, run.head()),
        head: run.head().clone(),
        model: Some(run.model().to_owned()),
        is_ended: run.is_ended(),
        series: Some(run.series()),
        since: None,
    })
}

/// Of the journals of a folder that have no end, the one that changed last is being written if a command holds the lock.
fn running(runs: &[(RunPath, Known)]) -> BTreeSet<usize> {
    let mut newest: BTreeMap<&Path, (FileVersion, usize)> = BTreeMap::new();
    for (place, (path, known)) in runs.iter().enumerate() {
        let is_open = path.is_journal && known.run.as_ref().is_ok_and(|run| !run.is_ended);
        if let Some(folder) = path.path.parent().filter(|_| is_open) {
            let newest = newest.entry(folder).or_insert((path.version, place));
            if path.version > newest.0 {
                *newest = (path.version, place);
            }
        }
    }
    let newest = newest.into_iter().filter(|(folder, _)| {
        let agent = folder.parent().and_then(Path::parent);
        let lock = agent.map(|agent| RunStore::new(agent).lock_path());
        lock.is_some_and(|lock| is_locked(&lock))
    });
    newest.map(|(_, (_, place))| place).collect()
}

/// Whether a command holds the lock. A reader never makes the file.
fn is_locked(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
