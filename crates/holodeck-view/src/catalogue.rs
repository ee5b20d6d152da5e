//! The runs below a folder. A request names a run by its id here, never by a path; links are not followed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use holodeck_model::{CaseId, ReportHead};
use holodeck_reports::{
    ComparedRun, HistoryEntry, HistoryRun, ReadRunError, RunTable, StoredAnswer, StoredRun,
};
use holodeck_runs::{JournalError, RunStore};

use crate::{
    annotations::{self, Annotations},
    file_version::FileVersion,
    folder::{RunPath, runs_below, runs_beside},
    reader::{Known, Reader},
    summaries::Summary,
    trash::{self, Deleted},
};

/// The runs below a folder, found again for each page.
#[derive(Debug)]
pub struct Catalogue {
    folder: PathBuf,
    /// Whether nothing may be written below the folder.
    is_read_only: bool,
    reader: Reader,
}

/// The runs of a list.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Oldest first.
    pub(crate) runs: Vec<HistoryEntry>,
    /// How many files are still being read, or compared with the run before.
    pub(crate) unread: usize,
    /// Parts of files of annotations that count for nothing.
    pub(crate) problems: Vec<String>,
}

/// The runs of one series.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// The run before the one that was asked for.
    pub(crate) before: Option<RunPath>,
    /// All of them, newest first.
    pub(crate) runs: Vec<(RunPath, Arc<Summary>)>,
    /// The newest run of each combination of the agent's matrix, newest first; of its own combination the run itself. Empty
    /// without a matrix.
    pub(crate) combinations: Vec<RunPath>,
    /// How many journals of the folder are still being read.
    pub(crate) unread: usize,
    /// Whether a command is writing the run that was asked for.
    pub(crate) is_running: bool,
}

/// How often runs are compared with those before for one list: a run may change meanwhile.
const MAX_ROUNDS: usize = 3;

impl Catalogue {
    /// The runs below this folder. Unless it is only read, a summary is kept beside each journal.
    pub fn new(folder: &Path, is_read_only: bool) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        // Fails if it is not a folder.
        std::fs::read_dir(&folder)?;
        Ok(Self {
            folder,
            is_read_only,
            reader: Reader::new(is_read_only),
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
        runs_below(&self.folder).into_iter().find(|run| run.id == id)
    }

    /// The runs that are read until the deadline, each with the address that `page` makes of its id. A run file
    /// whose journal is there is the same run, and left out.
    pub(crate) fn entries(&self, until: Option<Instant>, page: impl Fn(&str) -> String) -> Entries {
        let paths = runs_below(&self.folder);
        let mut uncompared = 0;
        let mut rounds = 0..MAX_ROUNDS;
        let (read, unread) = loop {
            let (read, unread) = self.read_all(&paths, until);
            let pairs = uncompared_pairs(&read);
            let is_late = until.is_some_and(|until| until <= Instant::now());
            if pairs.is_empty() || is_late || rounds.next().is_none() {
                uncompared += pairs.len();
                break (read, unread);
            }
            self.reader.compare(pairs, until);
        };
        let running = running(&read);
        let said = annotations_of(&read);
        let problems = said.iter().filter_map(|(store, said)| {
            let file = store.join("annotations.jsonl");
            let shown = file.strip_prefix(&self.folder).unwrap_or(&file);
            said.problem(&shown.display().to_string())
        });
        let problems = problems.collect();
        let entries: Vec<HistoryEntry> = read
            .into_iter()
            .enumerate()
            .map(|(place, (path, known))| HistoryEntry {
                page: known.run.is_ok().then(|| page(&path.id)),
                run: known.run.map(|run| HistoryRun {
                    is_running: running.contains(&place),
                    folder: self.folder_of(&path),
                    tags: tags_of(&said, &path, &run),
                    changes: run
                        .since
                        .as_ref()
                        .and_then(|since| Some(since.changes.as_ref()?.describe())),
                    head: run.head.clone(),
                    model: run.model.clone(),
                }),
                id: path.id,
                file: path.shown,
            })
            .collect();
        Entries {
            runs: entries,
            unread: unread + uncompared,
            problems,
        }
    }

    /// The runs that are read until the deadline, oldest first, and how many are not.
    fn read_all(&self, paths: &[RunPath], until: Option<Instant>) -> (Vec<(RunPath, Known)>, usize) {
        let read = self.reader.read(paths, until);
        let unread = read.iter().filter(|known| known.is_none()).count();
        let pairs = paths.iter().cloned().zip(read);
        let mut read: Vec<(RunPath, Known)> =
            pairs.filter_map(|(path, known)| Some((path, known?))).collect();
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
        (read, unread)
    }

    /// The runs of the series of a run, as far as they are read until the deadline.
    pub(crate) fn series_of(&self, run: &RunPath, until: Option<Instant>) -> Series {
        let mut paths = runs_beside(&self.folder, run);
        paths.retain(|path| path.is_journal);
        let (read, unread) = self.read_all(&paths, until);
        let mut running = running(&read).into_iter();
        let is_running = running.any(|place| read.get(place).is_some_and(|(path, _)| path.id == run.id));
        let read = read
            .into_iter()
            .filter_map(|(path, known)| Some((path, known.run.ok()?)));
        let mut runs: Vec<(RunPath, Arc<Summary>)> = read.collect();
        let own = runs.iter().find(|(path, _)| path.id == run.id);
        let Some(series) = own.and_then(|(_, summary)| summary.series.clone()) else {
            return Series {
                unread,
                is_running,
                ..Series::default()
            };
        };
        let combinations = combinations_beside(run, &runs);
        runs.retain(|(_, summary)| summary.series.as_ref() == Some(&series));
        let place = runs.iter().position(|(path, _)| path.id == run.id);
        let before = place
            .and_then(|place| place.checked_sub(1))
            .and_then(|before| runs.get(before))
            .map(|(path, _)| path.clone());
        runs.reverse();
        Series {
            before,
            runs,
            combinations,
            unread,
            is_running,
        }
    }

    /// Moves the files of a run to the trash. Why not, if it is refused.
    pub(crate) fn delete(&self, run: &RunPath) -> Result<(), String> {
        let mut files = runs_below(run.agent_folder().unwrap_or(&self.folder));
        files.retain(|file| file.path != run.path);
        let known = self.reader.read(std::slice::from_ref(run), None);
        let run_id = match known.into_iter().flatten().next().map(|known| known.run) {
            Some(Ok(run)) => run.head.run_id.clone(),
            // The journal of a damaged run has its id as its name.
            _ => run
                .path
                .file_stem()
                .map(|id| id.to_string_lossy().into_owned())
                .unwrap_or_default(),
        };
        let mut copies = Vec::new();
        if run.is_journal {
            files.retain(|file| !file.is_journal);
            let known = self.reader.read(&files, None);
            for (file, known) in files.into_iter().zip(known) {
                if known.is_some_and(|known| known.run.is_ok_and(|run| run.head.run_id == run_id)) {
                    copies.push(file);
                }
            }
        }
        trash::delete(&self.folder, run, &run_id, &copies)
    }

    /// The files in the trash of every agent.
    pub(crate) fn deleted(&self) -> Vec<Deleted> {
        trash::deleted_below(&self.folder)
    }

    /// The summary of a run, if it was read.
    pub(crate) fn summary(&self, run: &RunPath) -> Option<Arc<Summary>> {
        self.reader.known(run)
    }

    /// Everything except the cases of a run.
    pub(crate) fn head(&self, run: &RunPath) -> Result<ReportHead, JournalError> {
        match self.summary(run) {
            Some(summary) => Ok(summary.head.clone()),
            None => Ok(StoredRun::open(&run.path)?.head().clone()),
        }
    }

    /// A run with its cases, without their texts.
    pub(crate) fn compared(&self, run: &RunPath) -> Result<ComparedRun, ReadRunError> {
        self.reader.compared(run)
    }

    /// A run of which at least this case can be read, and the answer to the case, if it has one.
    pub(crate) fn open_case(
        &self,
        run: &RunPath,
        place: usize,
    ) -> Result<(StoredRun, Option<(CaseId, StoredAnswer)>), JournalError> {
        let answer = |run: &StoredRun| {
            let case = run.case_id(place);
            let said = case.map(|case| Ok((case, run.answer(case)?))).transpose()?;
            Ok(said.and_then(|(case, said)| Some((case, said?))))
        };
        // A line that is not where the summary says is searched for in the whole journal.
        if let Some(run) = self.open_indexed(run, place)
            && let Ok(Some(said)) = answer(&run)
        {
            return Ok((run, Some(said)));
        }
        let run = StoredRun::open(&run.path)?;
        let said = answer(&run)?;
        Ok((run, said))
    }

    fn open_indexed(&self, run: &RunPath, place: usize) -> Option<StoredRun> {
        let summary = self.summary(run)?;
        let index = summary.index.as_ref()?;
        let row = RunTable::row_at(&summary.read_table(run)?, place)?;
        let file = File::open(&run.path).ok()?;
        if FileVersion::of(&file.metadata().ok()?) != summary.journal {
            return None;
        }
        let cases = [(place, row.lines())];
        let opened = StoredRun::open_indexed(&run.path, file, summary.head.clone(), index, cases).ok()?;
        (opened.case_id(place) == Some(row.case())).then_some(opened)
    }

    /// The file of the agent of a run, beside the store of its runs; it has this name.
    pub(crate) fn agent_file(&self, run: &RunPath, name: &str) -> Result<PathBuf, String> {
        let folder = run.agent_folder().unwrap_or(&self.folder);
        let path = folder.join(name);
        let is_name = path.file_name().is_some_and(|own| own == name) && path.parent() == Some(folder);
        // Of the entry itself: a link is not followed.
        if is_name && FileVersion::of_path(&path).is_some() {
            return Ok(path);
        }
        let folder = self.folder_of(run);
        let folder = if folder.is_empty() { ".".to_owned() } else { folder };
        Err(format!(
            "the file `{name}` of the agent of this run is not in `{folder}`"
        ))
    }

    /// The path below the folder, if it is there.
    pub(crate) fn shown_path(&self, path: &Path) -> String {
        let real = path.canonicalize();
        let real = real.as_deref().unwrap_or(path);
        real.strip_prefix(&self.folder)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// The folder of the agent of a run, below that of the catalogue.
    fn folder_of(&self, run: &RunPath) -> String {
        let below = run
            .agent_folder()
            .and_then(|path| path.strip_prefix(&self.folder).ok());
        below.map_or_else(String::new, |path| path.display().to_string())
    }
}

/// The newest run of each combination beside that of a run, whose own is the run itself. They are given oldest first.
fn combinations_beside(run: &RunPath, runs: &[(RunPath, Arc<Summary>)]) -> Vec<RunPath> {
    let own = runs.iter().find(|(path, _)| path.id == run.id);
    let Some((own, own_head)) = own.map(|own| (own, &own.1.head)) else {
        return Vec::new();
    };
    if own_head.combination.is_none() {
        return Vec::new();
    }
    let mut newest: Vec<&(RunPath, Arc<Summary>)> = vec![own];
    for other in runs.iter().rev() {
        let head = &other.1.head;
        let is_known = |known: &&(RunPath, Arc<Summary>)| known.1.head.combination == head.combination;
        if head.agent_name == own_head.agent_name
            && head.combination.is_some()
            && !newest.iter().any(is_known)
        {
            newest.push(other);
        }
    }
    newest.sort_by(|a, b| b.1.head.timestamp.cmp(&a.1.head.timestamp));
    newest.into_iter().map(|(path, _)| path.clone()).collect()
}

/// The words of people about these runs, by the folder of their file.
fn annotations_of(runs: &[(RunPath, Known)]) -> BTreeMap<PathBuf, Annotations> {
    let mut said = BTreeMap::new();
    for (path, _) in runs {
        if let Some(store) = path.store() {
            said.entry(store.to_owned())
                .or_insert_with(|| annotations::read(&path.path));
        }
    }
    said
}

/// The tags of a run.
fn tags_of(said: &BTreeMap<PathBuf, Annotations>, path: &RunPath, run: &Summary) -> Vec<String> {
    let said = path.store().and_then(|store| said.get(store));
    said.map_or_else(Vec::new, |said| {
        said.tags_of(&run.head.run_id, &annotations::run_identity(&run.head))
    })
}

/// The runs, which are given oldest first, whose differences to the run before of their series are not known, each with that
/// run.
fn uncompared_pairs(runs: &[(RunPath, Known)]) -> Vec<(RunPath, RunPath)> {
    let mut pairs = Vec::new();
    // The last run of each series.
    let mut last: Vec<(&Path, &RunPath, &Summary)> = Vec::new();
    for (path, known) in runs {
        let Ok(summary) = &known.run else { continue };
        if summary.series.is_none() {
            continue;
        }
        let folder = path.path.parent().unwrap_or(&path.path);
        let is_before = |(other, _, before): &&mut (&Path, &RunPath, &Summary)| {
            *other == folder && before.series == summary.series
        };
        let Some(known) = last.iter_mut().find(is_before) else {
            last.push((folder, path, summary));
            continue;
        };
        let (_, before, _) = std::mem::replace(known, (folder, path, summary));
        let since = summary.since.as_ref();
        if since.is_none_or(|since| since.before != before.version) {
            pairs.push((path.clone(), before.clone()));
        }
    }
    pairs
}

/// The runs whose journals commands write now.
fn running(runs: &[(RunPath, Known)]) -> BTreeSet<usize> {
    let mut unended: BTreeMap<&Path, Vec<(&Path, usize)>> = BTreeMap::new();
    for (place, (path, known)) in runs.iter().enumerate() {
        let is_open = path.is_journal && known.run.as_ref().is_ok_and(|run| !run.is_ended);
        if let Some(folder) = path.path.parent().filter(|_| is_open) {
            unended.entry(folder).or_default().push((&path.path, place));
        }
    }
    let running = unended.into_values().filter_map(|journals| {
        let (first, _) = journals.first()?;
        let store = RunStore::of_journal(first)?;
        let written = store.written_now(journals.iter().map(|(path, _)| *path))?;
        let (_, place) = journals.iter().find(|(path, _)| *path == written)?;
        Some(*place)
    });
    running.collect()
}
