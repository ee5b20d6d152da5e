//! Reads runs from journals, run files and baselines, and later the texts of single cases.

mod file;
mod file_case;
mod scan;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use holodeck_model::{CaseDeciders, CaseId, Combination, Partial, Redactor, io_reason};

use super::{
    baseline,
    run::{
        ComparedCase, ComparedRun, Metrics, RunInfo, RunKind, Source, TrialTally, answers_of, label,
        scores_of,
    },
};
use crate::{explain_in_a_line, format};
use holodeck_runs::{
    AgentRuns, CaseReport, Journal, JournalError, LATEST, Member, RunEndKind, RunOwner, RunUse, StoreError,
    fold_case,
};

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRunError {
    /// No such run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal of the run.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file cannot be read.
    #[error("`{path}`: {}", io_reason(source))]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The baseline does not exist.
    #[error("there is no baseline `{path}`")]
    NoBaseline {
        /// Its file.
        path: String,
    },
    /// The baseline is one of another agent.
    #[error("the baseline `{path}` is of another agent: {owner}")]
    OtherBaseline {
        /// Its file.
        path: String,
        /// Its agent.
        owner: RunOwner,
    },
    /// The content is not that of a run.
    #[error("`{path}` is not a run: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// The problem.
        reason: String,
    },
}

/// Finds and reads the runs of an agent.
pub struct RunReader<'a> {
    runs: &'a AgentRuns,
    redactor: &'a Redactor,
    /// Names of the agent's current cases, for journals that do not record them.
    names: HashMap<CaseId, String>,
}

/// The question and the answer of a case, and why it did not pass; shortened.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data of a report")]
pub struct CaseTexts {
    /// The question; several turns are joined by a line `---`.
    pub question: Option<String>,
    /// The answer; absent in a baseline, which keeps only its digest.
    pub answer: Option<String>,
    /// Why it did not pass.
    pub reason: Option<String>,
}

/// Limits each text of a changed case.
const TEXT_CHARS: usize = 1_500;

impl<'a> RunReader<'a> {
    /// A reader for the runs and baselines of an agent.
    pub fn new(runs: &'a AgentRuns, redactor: &'a Redactor, names: HashMap<CaseId, String>) -> Self {
        Self {
            runs,
            redactor,
            names,
        }
    }

    /// Reads the run `name`: `baseline`, `baseline:NAME`, the path of a file, a run id, its beginning, or `latest`, of a
    /// matrix that with these values of `--matrix`.
    pub fn read(&self, name: &str, matrix: &[(String, String)]) -> Result<ComparedRun, ReadRunError> {
        if let Some(baseline) = baseline_name(name) {
            return self.read_baseline(name, baseline);
        }
        let member = if name == LATEST { matrix } else { &[] };
        let path = self.runs.find(name, RunUse::Read, Member::With(member))?.journal;
        let unreadable = |source| ReadRunError::Io {
            path: path.display().to_string(),
            source,
        };
        let mut beginning = Vec::new();
        // The marker of a journal is its first field.
        let file = File::open(&path).map_err(unreadable)?;
        let limit = file.take(64);
        BufReader::new(limit)
            .read_until(b'\n', &mut beginning)
            .map_err(unreadable)?;
        if beginning.starts_with(b"{\"holodeck_journal\"") {
            return self.read_journal(name, &path);
        }
        file::read(name, &path, self.redactor)
    }

    fn read_baseline(&self, name: &str, baseline: &str) -> Result<ComparedRun, ReadRunError> {
        let path = self.runs.store().baseline_path(baseline);
        let shown = || path.display().to_string();
        if !path.is_file() {
            return Err(ReadRunError::NoBaseline { path: shown() });
        }
        let run = file::read(name, &path, self.redactor)?;
        match baseline::other_owner(&path, self.runs.owner(), self.redactor) {
            Some(owner) => Err(ReadRunError::OtherBaseline { path: shown(), owner }),
            None => Ok(run),
        }
    }

    fn read_journal(&self, name: &str, path: &Path) -> Result<ComparedRun, ReadRunError> {
        let journal = Journal::open(path)?;
        journal.check_whole()?;
        let mut metrics = Metrics::default();
        let mut cases = Vec::with_capacity(journal.plan().len());
        for place in 0..journal.plan().len() {
            cases.push(self.journal_case(&journal, place, &mut metrics)?);
        }
        let has_all = cases.iter().all(|case: &ComparedCase| case.state.is_some());
        let (unfinished, provenance) = unfinished_of(&journal, has_all);
        let header = journal.header();
        let info = RunInfo {
            name: name.to_owned(),
            kind: RunKind::Journal,
            path: path.to_owned(),
            run_id: Some(header.run_id.clone()),
            agent_name: header.agent_name.clone(),
            model: Some(header.model.clone()).filter(|model| !model.is_empty()),
            at: header.started_at.clone(),
            unfinished,
            provenance,
            states: BTreeMap::new(),
            agent_parts: header.agent.clone(),
            old_baseline: false,
        };
        Ok(ComparedRun::new(info, cases, Source::Journal(Box::new(journal))))
    }

    fn journal_case(
        &self,
        journal: &Journal,
        place: usize,
        metrics: &mut Metrics,
    ) -> Result<ComparedCase, ReadRunError> {
        let identity = journal.plan().get(place).copied();
        let name = identity.and_then(|identity| self.names.get(&identity.id).cloned());
        let name = name.map(|name| self.redactor.text(&name).into_owned());
        let report = journal_report(journal, place)?;
        Ok(compared_case(journal, place, name, report.as_ref(), metrics))
    }

    /// The texts of the cases at these places.
    pub(super) fn texts(
        &self,
        run: &ComparedRun,
        places: &BTreeSet<usize>,
    ) -> Result<HashMap<usize, CaseTexts>, ReadRunError> {
        if places.is_empty() {
            return Ok(HashMap::new());
        }
        let opened;
        let journal = match &run.source {
            Source::Journal(journal) => journal,
            Source::Table { .. } => {
                opened = Journal::open(&run.info.path)?;
                &opened
            }
            Source::File | Source::Baseline => {
                return file::texts(&run.info.path, places, self.redactor);
            }
        };
        let mut texts = HashMap::new();
        for &place in places {
            if let Some(report) = journal_report(journal, place)? {
                texts.insert(place, CaseTexts::of(&report));
            }
        }
        Ok(texts)
    }
}

/// Why not every planned case of a run has a result, if so, and the source of its answers.
pub(super) fn unfinished_of(journal: &Journal, has_all: bool) -> (Option<String>, Vec<String>) {
    let header = journal.header();
    let unfinished = match journal.ended() {
        None => Some("it was not ended: it was killed, still runs, or its journal was cut".to_owned()),
        Some(ended) => {
            let counts = ended.how == RunEndKind::Foreign || !has_all;
            ended.because.clone().filter(|_| counts)
        }
    };
    let shard = header.shard.as_ref();
    let shard = shard.map(|shard| shard.part.describe(header.plan.len()));
    let provenance = header.replayed.iter().map(holodeck_model::Replayed::describe);
    let combination = header
        .combination
        .iter()
        .map(|stored| describe_combination(&stored.values));
    let partial = header.partial().map(Partial::describe);
    let regraded = header.regrades.iter().map(|run| format!("regraded from {run}"));
    let provenance = partial
        .into_iter()
        .chain(provenance)
        .chain(combination)
        .chain(regraded)
        .chain(shard);
    (unfinished, provenance.collect())
}

/// The case at a place of a journal, without its texts. `name` is used if the record has none.
pub(super) fn compared_case(
    journal: &Journal,
    place: usize,
    name: Option<String>,
    report: Option<&CaseReport>,
    metrics: &mut Metrics,
) -> ComparedCase {
    let content = journal.plan().get(place).map(|identity| identity.content);
    let Some(report) = report else {
        return ComparedCase {
            label: label(name.as_deref(), "", place),
            name,
            content,
            state: None,
            trials: None,
            scores: Vec::new(),
            deciders: metrics.share_deciders(CaseDeciders::default()),
            answer: None,
        };
    };
    let name = report.name.clone().or(name);
    ComparedCase {
        label: label(name.as_deref(), &report.question(), place),
        name,
        content,
        state: Some(report.state()),
        trials: TrialTally::of(report),
        scores: scores_of(report, metrics),
        deciders: metrics.share_deciders(report.deciders()),
        answer: answers_of(report),
    }
}

/// The combination of a matrix that a run had.
fn describe_combination(values: &Combination) -> String {
    format!("combination {values}")
}

/// The name of the baseline that `name` means.
fn baseline_name(name: &str) -> Option<&str> {
    match name.strip_prefix("baseline:") {
        Some(baseline) => Some(baseline),
        None => (name == baseline::DEFAULT_NAME).then_some(name),
    }
}

/// The case at a place of the plan. A journal of an earlier version does not record what was expected of it.
pub(crate) fn journal_report(journal: &Journal, place: usize) -> Result<Option<CaseReport>, JournalError> {
    fold_case(journal, place, &[], |unit, grade| {
        let expected = grade.expected.as_deref().cloned().unwrap_or_default();
        Some(CaseReport {
            index: place,
            name: unit.name.clone(),
            tags: expected.tags,
            input: String::new(),
            expected: expected.case,
            expected_turns: expected.turns,
            unit,
            grade,
            trials: None,
        })
    })
}

impl CaseTexts {
    fn of(report: &CaseReport) -> Self {
        Self {
            question: shorten(&report.question()),
            answer: report.answer().and_then(shorten),
            reason: shorten(&explain_in_a_line(report)),
        }
    }
}

/// At most [`TEXT_CHARS`] characters; `None` for an empty text.
fn shorten(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| format::clip(text, TEXT_CHARS).into_owned())
}
