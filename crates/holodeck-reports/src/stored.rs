//! A stored run for its report, read from its journal alone, and what a list of runs shows of it. It must not need the
//! agent file, which may have changed or be gone.

use std::{collections::BTreeMap, fs::File, io::Write, path::Path};

use holodeck_model::{LoopUse, NotRun, REPORT_SCHEMA_VERSION, ReportHead, case_label};
use holodeck_runs::{CaseReport, Journal, JournalError, JournalIndex, RunSeries, UnitLines};

use crate::{
    PlannedResult, ReadRunError, ReportError, Results, RunPage, RunTable, RunView, SummaryFold,
    compare::{TableFold, journal_report, read_compared},
    html,
};

/// A run that is stored in a journal.
#[derive(Debug)]
pub struct StoredRun {
    journal: Journal,
    head: ReportHead,
}

const NOT_ENDED: &str = "it was not ended: it was killed, still runs, or its journal was cut";

impl StoredRun {
    /// Reads the totals of the run in this journal. A journal with a line that does not fit is an error.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::read(path, |_, _, _| {})
    }

    /// As [`open`](Self::open), with the table of its cases.
    pub fn open_with_table(path: &Path) -> Result<(Self, RunTable), JournalError> {
        let mut table = TableFold::default();
        let run = Self::read(path, |journal, place, case| table.add(journal, place, case))?;
        let table = table.finish(&run.journal);
        Ok((run, table))
    }

    /// The run with this head, of which only these cases are read, each with the positions of its lines. The caller
    /// ensures that the file is the one of the index.
    pub fn open_indexed(
        path: &Path,
        file: File,
        head: ReportHead,
        index: &JournalIndex,
        cases: impl IntoIterator<Item = (usize, Vec<UnitLines>)>,
    ) -> Result<Self, JournalError> {
        let journal = Journal::open_indexed(path, file, index, cases)?;
        Ok(Self { journal, head })
    }

    fn read(
        path: &Path,
        mut observe: impl FnMut(&Journal, usize, Option<&CaseReport>),
    ) -> Result<Self, JournalError> {
        let journal = Journal::open(path)?;
        journal.check_whole()?;
        let header = journal.header();
        let mut fold = SummaryFold::after(header.judge_steps);
        let mut quality_loop = header.flags.without_loop.then_some(LoopUse::LeftOut);
        for place in 0..journal.plan().len() {
            let case = journal_report(&journal, place)?;
            observe(&journal, place, case.as_ref());
            match case {
                Some(case) => {
                    if case.quality_loop().is_some() {
                        quality_loop.get_or_insert(LoopUse::Used);
                    }
                    fold.observe(&case);
                }
                None => fold.observe_not_run(),
            }
        }
        let ended = journal.ended();
        let mut warnings = journal.warnings().to_vec();
        if journal.is_without_chain() {
            warnings
                .push("an earlier version of holodeck recorded it, without digests of its lines".to_owned());
        }
        let head = ReportHead {
            agent_name: header.agent_name.clone(),
            agent_config_path: header.agent_path.clone(),
            summary: fold.finish(),
            timestamp: header.started_at.clone(),
            holodeck_version: header.metadata.holodeck_version.clone(),
            environment: header.settings.clone(),
            schema_version: REPORT_SCHEMA_VERSION,
            run_id: header.run_id.clone(),
            replayed: header.replayed.clone(),
            warnings,
            adapted: journal.adaptations().to_vec(),
            ended: ended.map_or("incomplete", |ended| ended.how.as_str()).to_owned(),
            ended_because: match ended {
                Some(ended) => ended.because.clone(),
                None => Some(NOT_ENDED.to_owned()),
            },
            regraded_from: header.regrades.clone(),
            combination: header.combination.as_ref().map(|stored| stored.values.clone()),
            shard: header.shard.as_ref().map(|shard| shard.part),
            merged_from: header.merged_from.clone(),
            partial: header.partial(),
            judge_steps: header.judge_steps,
            quality_loop,
            agent_parts: header.agent.clone(),
        };
        Ok(Self { journal, head })
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Says of a run without an end that a command is writing it.
    pub fn set_running(&mut self) {
        if !self.is_ended() {
            "running".clone_into(&mut self.head.ended);
            self.head.ended_because = Some("it still runs".to_owned());
        }
    }

    /// Everything except the cases.
    pub fn head(&self) -> &ReportHead {
        &self.head
    }

    /// Provider and model, for display.
    pub fn model(&self) -> &str {
        &self.journal.header().model
    }

    /// The runs to which it belongs.
    pub fn series(&self) -> RunSeries {
        RunSeries::of_run(self.journal.header())
    }

    /// The index of its journal, if a case can be read by it alone.
    pub fn index(&self) -> Option<JournalIndex> {
        self.journal.index()
    }

    /// Whether its journal has an end.
    pub fn is_ended(&self) -> bool {
        self.journal.ended().is_some()
    }

    /// Writes the page of the run.
    pub fn write_page(&self, page: &RunPage<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
        let results = || self.planned();
        let header = self.journal.header();
        let view = RunView::new(&self.head, &header.metadata, &header.model, &results);
        let chosen = html::choose(&view, page)?;
        let Some(places) = chosen.places.clone() else {
            return html::write_chosen(&view, page, chosen, out);
        };
        // The other cases are not read again.
        let results = || -> Results<'_> { Box::new(places.iter().map(|&place| self.planned_at(place))) };
        let view = RunView::new(&self.head, &header.metadata, &header.model, &results);
        html::write_chosen(&view, page, chosen, out)
    }

    /// Every planned case, read from the journal.
    pub fn planned(&self) -> Results<'_> {
        let places = 0..self.journal.plan().len();
        Box::new(places.map(|place| self.planned_at(place)))
    }

    fn planned_at(&self, place: usize) -> Result<PlannedResult, JournalError> {
        let case: Option<CaseReport> = journal_report(&self.journal, place)?;
        Ok(match case {
            Some(case) => PlannedResult::Finished(Box::new(case)),
            None => PlannedResult::NotRun(NotRun {
                index: place,
                test_name: None,
                reason: match &self.head.ended_because {
                    Some(because) => format!("not run: {because}"),
                    None => format!("{} has no result", case_label(None, place)),
                },
            }),
        })
    }
}

/// Reads what a list shows of a run file, of this version or of 0.7.1, or of a baseline.
pub fn read_run_file(path: &Path) -> Result<(ReportHead, Option<String>), ReadRunError> {
    let run = read_compared(path)?;
    let info = run.info();
    let head = ReportHead {
        agent_name: info.agent_name.clone(),
        agent_config_path: String::new(),
        summary: SummaryFold::of_states(&info.states).finish(),
        timestamp: info.at.clone(),
        holodeck_version: String::new(),
        environment: serde_json::Value::Null,
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: info.run_id.clone().unwrap_or_default(),
        replayed: None,
        warnings: info.provenance.clone(),
        adapted: Vec::new(),
        ended: if info.unfinished.is_some() {
            "incomplete"
        } else {
            "completed"
        }
        .to_owned(),
        ended_because: info.unfinished.clone(),
        regraded_from: None,
        combination: None,
        shard: None,
        merged_from: Vec::new(),
        partial: None,
        judge_steps: None,
        quality_loop: None,
        agent_parts: BTreeMap::new(),
    };
    Ok((head, info.model.clone()))
}
