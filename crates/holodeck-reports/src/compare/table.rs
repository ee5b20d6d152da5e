//! The cases of a stored run without their texts, in the form that is kept beside its journal: a line for each case with its
//! state, its scores, and the place of its records in the journal.
//!
//! It must not hold answers or reasons: a page that shows a case reads them from the journal.

use std::path::Path;

use holodeck_model::{CaseId, ReportHead};
use holodeck_runs::{CaseReport, Journal, UnitLines};
use serde::{Deserialize, Serialize};

use super::{
    read::{compared_case, unfinished_of},
    run::{ComparedCase, ComparedRun, Metrics, RunInfo, RunKind, Source},
};
use crate::format;

/// The cases of a stored run, in the order of its plan.
#[derive(Debug)]
pub struct RunTable {
    head: TableHead,
    rows: Vec<CaseRow>,
}

/// The first line of a table.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct TableHead {
    unfinished: Option<String>,
    provenance: Vec<String>,
    is_without_chain: bool,
}

/// A case of a stored run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseRow {
    // The first field, by which a line is found.
    case: CaseId,
    pub(crate) compared: ComparedCase,
    /// Its state as it is shown, with its trials.
    pub(crate) state: String,
    pub(crate) millis: u64,
    pub(crate) cost_usd: Option<f64>,
    lines: Vec<UnitLines>,
}

/// Collects the cases of a journal while they are read for another purpose.
#[derive(Default)]
pub(crate) struct TableFold {
    metrics: Metrics,
    rows: Vec<CaseRow>,
}

impl TableFold {
    pub(crate) fn add(&mut self, journal: &Journal, place: usize, report: Option<&CaseReport>) {
        let Some(identity) = journal.plan().get(place) else {
            return;
        };
        self.rows.push(CaseRow {
            case: identity.id,
            compared: compared_case(journal, place, None, report, &mut self.metrics),
            state: report.map_or_else(
                || "not run".to_owned(),
                |report| format::case_state(report).into_owned(),
            ),
            millis: report.map_or(0, CaseReport::elapsed_ms),
            cost_usd: report.and_then(|report| report.spent().cost_usd),
            lines: journal.lines_of(place),
        });
    }

    pub(crate) fn finish(self, journal: &Journal) -> RunTable {
        let has_all = self.rows.iter().all(|row| row.compared.state.is_some());
        let (unfinished, provenance) = unfinished_of(journal, has_all);
        RunTable {
            head: TableHead {
                unfinished,
                provenance,
                is_without_chain: journal.is_without_chain(),
            },
            rows: self.rows,
        }
    }
}

impl RunTable {
    /// Its lines.
    pub fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(&self.head)?;
        bytes.push(b'\n');
        for row in &self.rows {
            serde_json::to_writer(&mut bytes, row)?;
            bytes.push(b'\n');
        }
        Ok(bytes)
    }

    /// The table with these lines.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = lines(bytes);
        let head = serde_json::from_slice(lines.next()?).ok()?;
        let rows: Option<Vec<CaseRow>> = lines.map(|line| serde_json::from_slice(line).ok()).collect();
        Some(Self { head, rows: rows? })
    }

    /// The line of the case at this place among those of a table.
    pub fn row_at(bytes: &[u8], place: usize) -> Option<CaseRow> {
        serde_json::from_slice(lines(bytes).nth(place.checked_add(1)?)?).ok()
    }

    /// The place and the line of a case among those of a table.
    pub fn row_of(bytes: &[u8], case: CaseId) -> Option<(usize, CaseRow)> {
        let beginning = format!("{{\"case\":\"{case}\"");
        let mut rows = lines(bytes).skip(1).enumerate();
        let (place, line) = rows.find(|(_, line)| line.starts_with(beginning.as_bytes()))?;
        Some((place, serde_json::from_slice(line).ok()?))
    }

    /// The run for a comparison.
    pub fn into_compared(self, journal: &Path, head: &ReportHead, model: Option<&str>) -> ComparedRun {
        let info = RunInfo {
            name: journal.display().to_string(),
            kind: RunKind::Journal,
            path: journal.to_owned(),
            run_id: Some(head.run_id.clone()),
            agent_name: head.agent_name.clone(),
            model: model.filter(|model| !model.is_empty()).map(str::to_owned),
            at: head.timestamp.clone(),
            unfinished: self.head.unfinished,
            provenance: self.head.provenance,
            states: std::collections::BTreeMap::new(),
            agent_parts: head.agent_parts.clone(),
            old_baseline: false,
        };
        let cases = self.rows.into_iter().map(|row| row.compared).collect();
        let source = Source::Table {
            is_without_chain: self.head.is_without_chain,
        };
        ComparedRun::new(info, cases, source)
    }
}

impl CaseRow {
    /// The case.
    pub fn case(&self) -> CaseId {
        self.case
    }

    /// The positions of its lines in the journal.
    pub fn lines(&self) -> Vec<UnitLines> {
        self.lines.clone()
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    lines.split(|byte| *byte == b'\n')
}
