//! Writes the page that shows all runs of a matrix side by side.

use std::{
    io::{self, Write},
    path::Path,
};

use holodeck::{
    reports::{GridRun, ReportError, format, read_compared, write_matrix},
    runs::AgentRuns,
};

use super::targets::with_name;
use crate::render::MatrixRow;

/// Writes the runs side by side as the page at `path`, with links to their own pages, whose files have these names.
pub(super) fn write_page(
    rows: &[MatrixRow],
    names: &[String],
    runs: &AgentRuns,
    path: &Path,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let (mut shown, mut costs) = (Vec::new(), Vec::new());
    for (place, row) in rows.iter().enumerate() {
        let Some(head) = &row.head else { continue };
        let journal = runs.store().journal_path(&head.run_id);
        let run = read_compared(&journal).map_err(|error| io::Error::other(error.to_string()))?;
        let page = names.get(place).map(|name| with_name(path, name));
        let page = page.and_then(|page| Some(page.file_name()?.to_str()?.to_owned()));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let cost = head.summary.cost_usd;
        let time = format::duration(head.summary.total_duration_ms);
        shown.push(GridRun {
            run,
            // Other characters have a meaning in an address.
            page: page.filter(|name| name.chars().all(is_plain)),
            facts: cost.map(format::cost).into_iter().chain([time]).collect(),
        });
        costs.push(cost);
    }
    write_matrix(&shown, &costs, env!("CARGO_PKG_VERSION"), out)
}
