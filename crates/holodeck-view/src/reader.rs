//! Reads runs on threads of their own, so that a page shows those that are read while the others are, and keeps the summary of
//! each file for as long as it does not change. Memory holds no case: its threads hold those of a few runs while they read.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use holodeck_model::{REPORT_SCHEMA_VERSION, ReportHead};
use holodeck_reports::{
    ComparedRun, ReadRunError, RunChanges, RunTable, StoredRun, read_compared, read_run_file,
};
use holodeck_runs::{RunSeries, RunStore};

use crate::{
    file_version::FileVersion,
    folder::RunPath,
    summaries::{Since, Summary, base_version},
};

/// Reads runs, and knows their summaries.
#[derive(Debug)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whether nothing may be written below the folder.
    is_read_only: bool,
    state: Mutex<State>,
    /// A task was done.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<PathBuf, Known>,
    tasks: VecDeque<Task>,
    /// The files of the tasks that wait or are being done.
    pending: HashSet<(TaskKind, PathBuf)>,
    threads: usize,
}

/// The run in a file, as it was when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    version: FileVersion,
    /// The version of its folder: a run that could not be read may need another file of it.
    folder: Option<FileVersion>,
    pub(crate) run: Result<Arc<Summary>, String>,
}

#[derive(Debug)]
enum Task {
    /// Reads runs of one folder, in the order of their names.
    Read(Vec<RunPath>),
    /// Compares a run with the run before.
    Compare(Box<(RunPath, RunPath)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TaskKind {
    Read,
    Compare,
}

/// Runs that one thread reads before it takes others. All but the first find the run before in memory.
const AT_ONCE: usize = 16;

/// Threads that read.
const MAX_THREADS: usize = 4;

/// Series of which a thread remembers the last run.
const MAX_RECENT: usize = 4;

impl Reader {
    pub(crate) fn new(is_read_only: bool) -> Self {
        let shared = Shared {
            is_read_only,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The run in each of these files, which are in the order of their paths; `None` for one that was not read until the
    /// deadline. Without a deadline, all are read.
    pub(crate) fn read(&self, paths: &[RunPath], until: Option<Instant>) -> Vec<Option<Known>> {
        let mut state = self.shared.lock();
        state.forget_others(paths);
        let mut group: Vec<RunPath> = Vec::new();
        let mut groups = Vec::new();
        for path in paths {
            let is_pending = state.pending.contains(&(TaskKind::Read, path.path.clone()));
            if is_pending || state.current(path).is_some() {
                continue;
            }
            let is_beside = |other: &RunPath| other.path.parent() == path.path.parent();
            if group.len() >= AT_ONCE || group.last().is_some_and(|last| !is_beside(last)) {
                groups.push(std::mem::take(&mut group));
            }
            group.push(path.clone());
        }
        groups.push(group);
        // The newest first: they are looked at first.
        for group in groups.into_iter().rev().filter(|group| !group.is_empty()) {
            let pending = group.iter().map(|path| (TaskKind::Read, path.path.clone()));
            state.pending.extend(pending);
            state.tasks.push_back(Task::Read(group));
        }
        let state = self.work_until(state, until, |state| {
            let is_read = |path: &RunPath| !state.pending.contains(&(TaskKind::Read, path.path.clone()));
            paths.iter().all(is_read)
        });
        let known = paths.iter().map(|path| {
            let is_pending = state.pending.contains(&(TaskKind::Read, path.path.clone()));
            match state.current(path) {
                Some(known) => Some(known),
                // It changed meanwhile, and another page had it read.
                None if !is_pending => state.known.get(&path.path).cloned(),
                None => None,
            }
        });
        known.collect()
    }

    /// Compares runs with those before. How many are not compared until the deadline.
    pub(crate) fn compare(&self, pairs: Vec<(RunPath, RunPath)>, until: Option<Instant>) -> usize {
        let mut state = self.shared.lock();
        let mut keys = Vec::new();
        for pair in pairs {
            let key = (TaskKind::Compare, pair.0.path.clone());
            if state.pending.insert(key.clone()) {
                state.tasks.push_back(Task::Compare(Box::new(pair)));
            }
            keys.push(key);
        }
        let state = self.work_until(state, until, |state| {
            keys.iter().all(|key| !state.pending.contains(key))
        });
        keys.iter().filter(|key| state.pending.contains(key)).count()
    }

    /// The summary of a file that was read.
    pub(crate) fn known(&self, path: &RunPath) -> Option<Arc<Summary>> {
        self.shared.lock().current(path)?.run.ok()
    }

    /// A run with its cases, without their texts.
    pub(crate) fn compared(&self, path: &RunPath) -> Result<ComparedRun, ReadRunError> {
        self.shared.compared(path)
    }

    /// Waits until it is done, or the deadline.
    fn work_until<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        until: Option<Instant>,
        is_done: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        loop {
            self.start_threads(&mut state);
            if is_done(&state) {
                return state;
            }
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            match wait {
                Some(Duration::ZERO) => return state,
                Some(wait) => {
                    let waited = self.shared.changed.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    let waited = self.shared.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Starts a thread for each task that waits, as far as the machine has processors.
    fn start_threads(&self, state: &mut State) {
        let most = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_THREADS);
        for _ in 0..state.tasks.len().min(most.saturating_sub(state.threads)) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("view-reader".to_owned());
            if thread.spawn(move || shared.work()).is_err() {
                return;
            }
            state.threads += 1;
        }
    }
}

impl State {
    /// The run in a file, if it was read and the file is still the same.
    fn current(&self, path: &RunPath) -> Option<Known> {
        let known = self.known.get(&path.path)?;
        let is_current = known.version == path.version
            && match &known.run {
                Ok(run) => run.base == base_version(&path.path, &run.head),
                Err(_) => known.folder == folder_version(&path.path),
            };
        is_current.then(|| known.clone())
    }

    /// Forgets files that are gone, if they are many.
    fn forget_others(&mut self, paths: &[RunPath]) {
        if self.known.len() > 2 * paths.len() + 1_000 {
            let here: HashSet<&PathBuf> = paths.iter().map(|path| &path.path).collect();
            self.known.retain(|path, _| here.contains(path));
        }
    }
}

/// The version of the folder of a file.
fn folder_version(path: &Path) -> Option<FileVersion> {
    let metadata = std::fs::metadata(path.parent()?).ok()?;
    Some(FileVersion::of(&metadata))
}

/// The tasks of a thread, which are no longer pending when it ends by a panic.
struct Working<'s> {
    shared: &'s Shared,
    keys: Vec<(TaskKind, PathBuf)>,
    is_over: bool,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.shared.lock();
        state.threads = state.threads.saturating_sub(1);
        for key in &self.keys {
            state.pending.remove(key);
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does tasks until there is none.
    fn work(&self) {
        let mut working = Working {
            shared: self,
            keys: Vec::new(),
            is_over: false,
        };
        loop {
            let mut state = self.lock();
            let Some(task) = state.tasks.pop_front() else {
                // Under the same lock, so that a new task starts another thread.
                state.threads = state.threads.saturating_sub(1);
                working.is_over = true;
                return;
            };
            drop(state);
            match task {
                Task::Read(paths) => {
                    working.keys = paths
                        .iter()
                        .map(|path| (TaskKind::Read, path.path.clone()))
                        .collect();
                    let mut recent = Recent::default();
                    for path in &paths {
                        let folder = folder_version(&path.path);
                        let run = self.read(path, &mut recent).map(Arc::new);
                        let known = Known {
                            version: path.version,
                            folder,
                            run,
                        };
                        self.done(TaskKind::Read, path, Some(known));
                    }
                }
                Task::Compare(pair) => {
                    let (path, before) = *pair;
                    working.keys = vec![(TaskKind::Compare, path.path.clone())];
                    let known = self.compare(&path, &before);
                    self.done(TaskKind::Compare, &path, known);
                }
            }
            working.keys.clear();
        }
    }

    fn done(&self, kind: TaskKind, path: &RunPath, known: Option<Known>) {
        let mut state = self.lock();
        state.pending.remove(&(kind, path.path.clone()));
        if let Some(known) = known {
            state.known.insert(path.path.clone(), known);
        }
        self.changed.notify_all();
    }

    /// Reads the run in a file.
    fn read(&self, path: &RunPath, recent: &mut Recent) -> Result<Summary, String> {
        if let Some(kept) = Summary::read(path) {
            if let Some(series) = &kept.series {
                // The next one follows this one, which is not in memory.
                recent.forget(series);
            }
            return Ok(kept);
        }
        if !path.is_journal {
            let (head, model) = match copied_head(path) {
                Some(head) => (head, None),
                None => read_run_file(&path.path).map_err(|error| error.to_string())?,
            };
            let summary = Summary {
                journal: path.version,
                base: None,
                head,
                model,
                is_ended: true,
                series: None,
                since: None,
                index: None,
                table: String::new(),
                table_bytes: 0,
            };
            self.keep(path, &summary, Some(Vec::new()));
            return Ok(summary);
        }
        let read = StoredRun::open_with_table(&path.path);
        let (run, table) = read.map_err(|error| error.to_string())?;
        let series = run.series();
        let mut summary = Summary {
            journal: path.version,
            base: base_version(&path.path, run.head()),
            head: run.head().clone(),
            model: Some(run.model().to_owned()),
            is_ended: run.is_ended(),
            series: Some(series.clone()),
            since: None,
            index: run.index(),
            table: String::new(),
            table_bytes: 0,
        };
        drop(run);
        let bytes = summary.set_table(&table);
        let compared = table.into_compared(&path.path, &summary.head, summary.model.as_deref());
        if let Some((before, earlier)) = recent.take(&series) {
            summary.since = Some(Since {
                before,
                changes: Some(RunChanges::between(&earlier, &compared)),
            });
        }
        recent.put(series, path.version, compared);
        self.keep(path, &summary, bytes);
        Ok(summary)
    }

    /// The run with its differences to the run before; `None` if it is not known.
    fn compare(&self, path: &RunPath, before: &RunPath) -> Option<Known> {
        let known = self.lock().current(path)?;
        let mut summary = Summary::clone(known.run.as_ref().ok()?);
        let (earlier, later) = (self.compared(before).ok(), self.compared(path).ok());
        summary.since = Some(Since {
            before: before.version,
            changes: earlier
                .zip(later)
                .map(|(earlier, later)| RunChanges::between(&earlier, &later)),
        });
        let bytes = summary.read_table(path);
        self.keep(path, &summary, bytes);
        Some(Known {
            run: Ok(Arc::new(summary)),
            ..known
        })
    }

    fn keep(&self, path: &RunPath, summary: &Summary, table: Option<Vec<u8>>) {
        if let Some(table) = table.filter(|_| !self.is_read_only) {
            // Without a kept summary the next view reads the journal again.
            let _ = summary.keep(path, &table);
        }
    }

    fn compared(&self, path: &RunPath) -> Result<ComparedRun, ReadRunError> {
        let known = self.lock().current(path).and_then(|known| known.run.ok());
        let kept = known.filter(|_| path.is_journal).and_then(|summary| {
            let table = RunTable::parse(&summary.read_table(path)?)?;
            Some(table.into_compared(&path.path, &summary.head, summary.model.as_deref()))
        });
        kept.map_or_else(|| read_compared(&path.path), Ok)
    }
}

/// A larger run file is not held in memory.
const MAX_COPY: u64 = 64 << 20;

/// The head of a run file whose journal is there, which is the same run: its cases are not read.
fn copied_head(path: &RunPath) -> Option<ReportHead> {
    #[derive(serde::Deserialize)]
    struct RunFile {
        report: ReportHead,
    }
    if path.version.length() > MAX_COPY {
        return None;
    }
    let file = std::fs::read(&path.path).ok()?;
    let head = serde_json::from_slice::<RunFile>(&file).ok()?.report;
    let is_name = !head.run_id.is_empty() && !head.run_id.contains(['/', '\\', '.']);
    let journal = RunStore::new(path.agent_folder()?).journal_path(&head.run_id);
    (is_name && head.schema_version == REPORT_SCHEMA_VERSION && FileVersion::of_path(&journal).is_some())
        .then_some(head)
}

/// The last run of a few series.
#[derive(Default)]
struct Recent(Vec<(RunSeries, FileVersion, ComparedRun)>);

impl Recent {
    fn take(&mut self, series: &RunSeries) -> Option<(FileVersion, ComparedRun)> {
        let place = self.0.iter().position(|(own, ..)| own == series)?;
        let (_, version, run) = self.0.remove(place);
        Some((version, run))
    }

    fn put(&mut self, series: RunSeries, version: FileVersion, run: ComparedRun) {
        if self.0.len() >= MAX_RECENT {
            self.0.remove(0);
        }
        self.0.push((series, version, run));
    }

    fn forget(&mut self, series: &RunSeries) {
        self.take(series);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::folder::runs_below;

    fn run(agent: &str) -> String {
        serde_json::json!({"report": {
            "agent_name": agent, "agent_config_path": "agent.yaml", "results": [], "summary": {"total_tests": 0},
            "timestamp": "2026-01-01T00:00:00Z", "holodeck_version": "0.7.1", "environment": {},
        }, "metadata": {}})
        .to_string()
    }

    fn agents(known: &[Option<Known>]) -> Vec<Option<String>> {
        let agents = known.iter().map(|known| {
            let run = known.as_ref()?.run.as_ref();
            Some(run.map_or_else(|_| "damaged".to_owned(), |run| run.head.agent_name.clone()))
        });
        agents.collect()
    }

    #[test]
    fn a_run_that_is_not_read_until_the_deadline_is_missing_and_never_another() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        std::fs::create_dir(&results).unwrap();
        for number in 0..40 {
            std::fs::write(
                results.join(format!("{number:02}.json")),
                run(&number.to_string()),
            )
            .unwrap();
        }
        std::fs::write(results.join("40.json"), "{").unwrap();
        let reader = Reader::new(false);
        let paths = runs_below(folder.path());
        // All threads wait for this lock.
        let state = reader.shared.lock();
        let late = std::thread::scope(|scope| {
            let late = scope.spawn(|| reader.read(&paths, Some(Instant::now())));
            drop(state);
            late.join().unwrap()
        });
        for (place, agent) in agents(&late).into_iter().enumerate() {
            let expected = if place == 40 {
                "damaged".to_owned()
            } else {
                place.to_string()
            };
            assert!(agent.is_none_or(|agent| agent == expected));
        }
        let all = agents(&reader.read(&paths, None));
        assert_eq!(all[7], Some("7".to_owned()));
        assert_eq!(all[40], Some("damaged".to_owned()));
        assert!(all.iter().all(Option::is_some));
        // A change is seen, and the others are not read again.
        std::fs::write(results.join("07.json"), run("changed")).unwrap();
        std::fs::write(results.join("40.json"), run("mended")).unwrap();
        let changed = agents(&reader.read(&runs_below(folder.path()), None));
        assert_eq!(
            (changed[7].as_deref(), changed[40].as_deref()),
            (Some("changed"), Some("mended"))
        );
        assert_eq!(changed[8..40], all[8..40]);
    }

    #[test]
    fn a_thread_that_panics_holds_up_no_page() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("results")).unwrap();
        std::fs::write(folder.path().join("results/1.json"), run("one")).unwrap();
        let paths = runs_below(folder.path());
        let reader = Reader::new(false);
        let key = (TaskKind::Read, paths[0].path.clone());
        let mut state = reader.shared.lock();
        state.pending.insert(key.clone());
        state.threads = 1;
        drop(state);
        let working = Working {
            shared: &reader.shared,
            keys: vec![key],
            is_over: false,
        };
        drop(working);
        assert_eq!(agents(&reader.read(&paths, None)), [Some("one".to_owned())]);
    }
}
