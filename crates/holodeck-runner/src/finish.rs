//! The end of a run: closes its journal, writes its run file, and computes its totals and exit code.
//!
//! Must not run or grade anything.

use std::{
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_model::{
    LoopUse, NotRun, REPORT_SCHEMA_VERSION, Redactor, ReportHead, ReportSummary, ResolvedAgent, RunMetadata,
};
use holodeck_reports::{PlannedResult, ReportError, Results, RunView, Totals, run_file, write_baseline};
use holodeck_runs::{ExitCode, Journal, JournalError, RunEnd, RunEndKind, RunOwner, RunStore, read_case};
use jiff::Timestamp;
use serde_json::Value;

use crate::{RunError, RunEvent, RunSink};

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Totals.
    pub head: Arc<ReportHead>,
    /// The exit code.
    pub exit: ExitCode,
    /// The run file.
    pub run_file: PathBuf,
    /// Why the run file could not be written, if so.
    pub run_file_error: Option<ReportError>,
    /// About the agent.
    pub metadata: RunMetadata,
    cases: PlannedCases,
}

impl RunOutcome {
    /// Calls `report` with a view of this run.
    pub fn with_view<T>(&self, report: impl FnOnce(&RunView<'_>) -> T) -> T {
        let results = || self.cases.results();
        let model = &self.cases.journal.header().model;
        report(&RunView::new(&self.head, &self.metadata, model, &results))
    }

    /// Writes its verdicts and scores as a baseline for later comparisons.
    pub fn write_baseline(&self, out: &mut dyn std::io::Write) -> Result<(), ReportError> {
        let owner = RunOwner::of(&self.cases.agent);
        self.with_view(|view| write_baseline(view, &owner, &self.cases.redactor, out))
    }

    /// Whether every planned case has a result.
    pub fn is_complete(&self) -> bool {
        self.head.ended == RunEndKind::Completed.as_str()
    }

    /// How many of the agent's cases this run selected, and how many the agent has.
    pub fn selection(&self) -> (usize, usize) {
        (self.cases.indices.len(), self.cases.agent.config.test_cases.len())
    }

    /// The planned cases without a result.
    pub fn not_run(&self) -> Result<Vec<NotRun>, JournalError> {
        self.with_view(|view| view.not_run().collect())
    }

    /// The journal.
    pub fn journal_path(&self) -> &Path {
        self.cases.journal.path()
    }
}

/// The planned cases of a run, with its journal.
#[derive(Debug)]
pub(crate) struct PlannedCases {
    pub(crate) agent: Arc<ResolvedAgent>,
    pub(crate) journal: Journal,
    pub(crate) redactor: Arc<Redactor>,
    /// The place of each planned case in the file.
    pub(crate) indices: Vec<usize>,
    pub(crate) ended: RunEnd,
}

impl PlannedCases {
    fn results(&self) -> Results<'_> {
        let cases = self.indices.iter().enumerate();
        Box::new(cases.filter_map(|(place, &index)| self.result(place, index).transpose()))
    }

    fn result(&self, place: usize, index: usize) -> Result<Option<PlannedResult>, JournalError> {
        let cases = &self.agent.config.test_cases;
        if index >= cases.len() {
            return Ok(None);
        }
        if let Some(case) = read_case(&self.agent, &self.journal, place, index, &self.redactor)? {
            return Ok(Some(PlannedResult::Finished(Box::new(case))));
        }
        Ok(Some(PlannedResult::NotRun(NotRun {
            index,
            test_name: cases.name(index).map(str::to_owned),
            reason: self.not_run_reason(place),
        })))
    }

    fn not_run_reason(&self, place: usize) -> String {
        let units = self.journal.units_of(place);
        let trials = units.len();
        let finished = units
            .clone()
            .filter(|&unit| self.journal.is_finished(unit))
            .count();
        let state = if finished > 0 {
            format!("not all trials were run ({finished} of {trials} have a verdict)")
        } else if units.into_iter().any(|unit| self.journal.has_answer(unit)) {
            "answered, but not graded".to_owned()
        } else {
            "not run".to_owned()
        };
        let regraded = self.journal.header().regrades.is_some();
        match &self.ended.because {
            None if regraded && finished == 0 => {
                "not run: the graded run has no answer for this case".to_owned()
            }
            None => state,
            Some(because) => format!("{state}: {}", because.lines().next().unwrap_or_default()),
        }
    }
}

const FOREIGN_LINES: &str = "another program wrote to the journal while the run was live; its lines do not count, nor does \
                             anything that it changed";

/// Ends a run: closes its journal, writes its run file, and computes its totals and exit code.
pub(crate) fn finish(
    mut cases: PlannedCases,
    metadata: RunMetadata,
    agent_path: &str,
    environment: Value,
    store: &RunStore,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let now = Timestamp::now();
    if let Some(because) = &mut cases.ended.because {
        cases.redactor.mask_text(because);
    }
    // While the run is live, only this process writes to its journal.
    let is_foreign = cases.journal.check_written()?;
    if is_foreign {
        cases.ended = cases.ended.with_foreign_lines();
        cases.journal.warn(FOREIGN_LINES.to_owned())?;
    }
    cases.journal.close(&cases.ended, &now.to_string())?;
    let header = cases.journal.header();
    let agent_name = cases.agent.config.name.clone();
    let mut head = ReportHead {
        agent_name: header.agent_name.clone(),
        agent_config_path: agent_path.to_owned(),
        summary: ReportSummary::default(),
        timestamp: now.to_string(),
        holodeck_version: env!("CARGO_PKG_VERSION").to_owned(),
        environment,
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: header.run_id.clone(),
        replayed: header.replayed.clone(),
        warnings: cases.journal.warnings().to_vec(),
        adapted: cases.journal.adaptations().to_vec(),
        ended: cases.ended.how.as_str().to_owned(),
        ended_because: cases.ended.because.clone(),
        regraded_from: header.regrades.clone(),
        combination: header.combination.as_ref().map(|stored| stored.values.clone()),
        shard: header.shard.as_ref().map(|shard| shard.part),
        merged_from: header.merged_from.clone(),
        partial: header.partial(),
        judge_steps: header.judge_steps,
        quality_loop: match (header.flags.without_loop, cases.agent.config.enabled_loop()) {
            (true, _) => Some(LoopUse::LeftOut),
            (false, Some(_)) => Some(LoopUse::Used),
            (false, None) => None,
        },
        agent_parts: header.agent.clone(),
    };
    let run_file = store.run_file_path(&agent_name, now);
    let results = || cases.results();
    let view = RunView::new(&head, &metadata, &header.model, &results);
    let written = write_run_file(&run_file, &view);
    // The exit code must not depend on the disk: without a run file, the totals are computed separately.
    let (totals, run_file_error) = match written {
        Ok(totals) => (totals, None),
        Err(error) => (
            holodeck_reports::run_file(&view, &mut std::io::sink())?,
            Some(error),
        ),
    };
    head.summary = totals.summary.finish();
    let mut exit = totals.exit.worse(cases.ended.exit());
    if is_foreign || run_file_error.is_some() || head.regraded_from.is_some() && head.summary.not_run > 0 {
        exit = exit.worse(ExitCode::Execution);
    }
    if checked_cases(&head.summary) == 0 {
        exit = exit.worse(ExitCode::Nothing);
    }
    let head = Arc::new(head);
    sink.on(&RunEvent::Finished {
        head: Arc::clone(&head),
        exit,
    });
    Ok(RunOutcome {
        head,
        exit,
        run_file,
        run_file_error,
        metadata,
        cases,
    })
}

fn checked_cases(summary: &ReportSummary) -> usize {
    summary.total_tests - summary.unchecked
}

/// Checks before the run that its run file can be written, because a run costs time and money.
pub(crate) fn check_run_file(store: &RunStore, agent_name: &str) -> Result<(), RunError> {
    let path = store.run_file_path(agent_name, Timestamp::now());
    let probe = partial_path(&path);
    let result = probe
        .parent()
        .map_or(Ok(()), holodeck_model::create_private_folder);
    let result = result.and_then(|()| std::fs::File::create_new(&probe).map(drop));
    result
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|source| RunError::RunFile {
            path: path.parent().unwrap_or(&path).display().to_string(),
            source,
        })
}

fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

/// Writes the run file and renames it into place, so that it is never incomplete. Returns the totals.
fn write_run_file(path: &Path, view: &RunView<'_>) -> Result<Totals, ReportError> {
    if let Some(parent) = path.parent() {
        holodeck_model::create_private_folder(parent)?;
    }
    let partial = partial_path(path);
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&partial)?;
    let written = run_file(view, &mut file).and_then(|totals| {
        file.sync_all()?;
        std::fs::rename(&partial, path)?;
        Ok(totals)
    });
    if written.is_err() {
        // A partial run file is useless, and the disk may be full.
        let _ = std::fs::remove_file(&partial);
    }
    written
}
