//! Renders the runs of a matrix side by side.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use holodeck::{
    DryRun,
    model::{Combination, ReportHead, axis_value},
    reports::format::{self, Tone},
    runs::{ExitCode, pass_rate_interval},
};
use serde_json::{Value, json};

use super::{
    case::one_line,
    dry_run::{dry_run, dry_run_json},
    style::{BAD, DOUBTFUL, GOOD, STRONG, paint},
    text,
};

/// The widest cell with a value of an axis.
const MAX_VALUE: usize = 30;

/// The run of one combination.
pub(crate) struct MatrixRow {
    pub(crate) combination: Combination,
    /// Absent if there is no run.
    pub(crate) head: Option<Arc<ReportHead>>,
    pub(crate) exit: Option<ExitCode>,
    pub(crate) took: Duration,
    /// Why there is no run.
    pub(crate) note: Option<String>,
    /// Whether there was nothing to run, because every case passed last time.
    pub(crate) is_idle: bool,
}

impl MatrixRow {
    pub(crate) fn new(combination: Combination) -> Self {
        Self {
            combination,
            head: None,
            exit: None,
            took: Duration::ZERO,
            note: None,
            is_idle: false,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "combination": self.combination,
            "run_id": self.head.as_ref().map(|head| &head.run_id),
            "exit_code": self.exit.map(ExitCode::code),
            "summary": self.head.as_ref().map(|head| &head.summary),
            "note": self.note,
        })
    }

    fn has_passed(&self) -> bool {
        self.exit == Some(ExitCode::Passed) && self.head.is_some()
    }
}

/// The line before the run of a combination.
pub(crate) fn combination(combination: &Combination, number: usize, count: usize) -> String {
    let line = one_line(&format!("combination {number} of {count}: {combination}"));
    format!("\n{}\n", paint(STRONG, line))
}

/// One line for each combination, with the results of its run.
pub(crate) fn matrix(rows: &[MatrixRow]) -> String {
    let metrics: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.head.as_ref())
        .flat_map(|head| head.summary.average_scores.keys().map(String::as_str))
        .collect();
    let axes = rows.first().map(|row| row.combination.len()).unwrap_or_default();
    let paths = rows.first().into_iter().flat_map(|row| row.combination.values());
    let mut titles: Vec<String> = paths.map(|(path, _)| one_line(path)).collect();
    titles.extend(["passed", "95 % interval", "other"].map(str::to_owned));
    titles.extend(
        metrics
            .iter()
            .map(|metric| text::cut(&one_line(metric), MAX_VALUE)),
    );
    titles.extend(["cost", "time", "run"].map(str::to_owned));
    let lines: Vec<(Vec<String>, Option<Tone>)> = rows
        .iter()
        .map(|row| {
            let values = row.combination.values();
            let mut cells: Vec<String> = values
                .map(|(_, value)| text::cut(&one_line(&axis_value(value)), MAX_VALUE))
                .collect();
            let tone = row.head.as_ref().map(|head| format::tone(head));
            match &row.head {
                Some(head) => cells.extend(results(head, &metrics, row.took)),
                None => cells.push(one_line(row.note.as_deref().unwrap_or("not run"))),
            }
            (cells, tone)
        })
        .collect();
    let width = |column: usize| {
        // The reason of a run that is missing covers the other columns.
        let whole = lines
            .iter()
            .filter(|(cells, _)| column < axes || cells.len() == titles.len());
        let cells = whole
            .filter_map(|(cells, _)| cells.get(column))
            .chain(titles.get(column));
        cells.map(|cell| text::width(cell)).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let mut shown = format!("\n{}\n", paint(STRONG, line(&titles, &widths)));
    for (cells, tone) in &lines {
        let style = match tone {
            Some(Tone::Good) => GOOD,
            Some(Tone::Bad) => BAD,
            Some(Tone::Doubtful) | None => DOUBTFUL,
        };
        shown.push_str(&format!("{}\n", paint(style, line(cells, &widths))));
    }
    let passed = rows.iter().filter(|row| row.has_passed()).count();
    let idle = rows.iter().filter(|row| row.is_idle).count();
    let count = rows.len() - idle;
    let style = if passed == count { GOOD } else { BAD };
    let mut verdict = format!("{passed} of {} passed", format::count(count, "combination"));
    if idle > 0 {
        verdict.push_str(&format!(", {idle} had nothing to run"));
    }
    shown.push_str(&format!("\n{}\n", paint(style.bold(), verdict)));
    shown
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let last = cells.len().saturating_sub(1);
    let cells = cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(place, (cell, width))| {
            if place == last {
                cell.clone()
            } else {
                text::fit(cell, *width)
            }
        });
    cells.collect::<Vec<_>>().join("  ")
}

fn results(head: &ReportHead, metrics: &BTreeSet<&str>, took: Duration) -> Vec<String> {
    let summary = &head.summary;
    let checked = format::planned(summary).saturating_sub(summary.unchecked);
    let interval = pass_rate_interval(summary);
    let mut others = format::states(summary);
    if summary.passed > 0 && !others.is_empty() {
        others.remove(0);
    }
    others.extend(format::early(head).map(str::to_owned));
    let dash = || "–".to_owned();
    let mut cells = vec![
        format!("{} of {checked}", summary.passed),
        interval.map_or_else(dash, |(low, high)| format!("{low:.2}–{high:.2}")),
        if others.is_empty() {
            dash()
        } else {
            others.join(", ")
        },
    ];
    cells.extend(metrics.iter().map(|metric| {
        let score = summary.average_scores.get(*metric);
        score.map_or_else(dash, |score| format!("{score:.2}"))
    }));
    let costs = [summary.cost_usd, summary.judge_cost_usd, summary.user_cost_usd];
    let is_known = costs.iter().any(Option::is_some);
    let cost: f64 = costs.into_iter().flatten().sum();
    cells.push(if is_known { format::cost(cost) } else { dash() });
    cells.push(format::duration(
        u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    ));
    cells.push(head.run_id.clone());
    cells
}

/// Renders the plan of each combination, and the sum of the estimates.
pub(crate) fn matrix_plan(plans: &[(&Combination, &DryRun)]) -> String {
    let mut shown = String::new();
    for (place, (values, dry)) in plans.iter().enumerate() {
        shown.push_str(combination(values, place + 1, plans.len()).trim_start());
        shown.push_str(&dry_run(dry));
        shown.push('\n');
    }
    if plans.len() > 1 {
        let total = Total::of(plans);
        let mut line = format!("{} combinations would run, {} trials", plans.len(), total.units);
        if let Some(tokens) = total.tokens {
            line.push_str(&format!(", about {} tokens", format::tokens(tokens)));
            line.push_str(&match total.cost_usd {
                Some(cost) => format!(", {}", format::cost(cost)),
                None => ", the price of a model is not known".to_owned(),
            });
        }
        shown.push_str(&format!("{}\n", paint(STRONG, line)));
    }
    shown
}

/// The same as JSON.
pub(crate) fn matrix_plan_json(plans: &[(&Combination, &DryRun)]) -> Value {
    let combinations = plans.iter().map(|(combination, dry)| {
        let mut value = dry_run_json(dry);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("combination".to_owned(), json!(combination));
        }
        value
    });
    let total = Total::of(plans);
    json!({
        "combinations": combinations.collect::<Vec<_>>(),
        "total": {"trials": total.units, "total_tokens": total.tokens, "cost_usd": total.cost_usd},
    })
}

struct Total {
    units: u64,
    /// Absent if answers come from a recording.
    tokens: Option<u64>,
    /// Absent if the price of a model is not known.
    cost_usd: Option<f64>,
}

impl Total {
    fn of(plans: &[(&Combination, &DryRun)]) -> Self {
        let estimates: Vec<_> = plans
            .iter()
            .filter_map(|(_, dry)| dry.estimate.as_ref())
            .collect();
        Self {
            units: plans.iter().map(|(_, dry)| dry.units()).sum(),
            tokens: (!estimates.is_empty())
                .then(|| estimates.iter().map(|estimate| estimate.usage.total_tokens).sum()),
            cost_usd: estimates
                .iter()
                .map(|estimate| estimate.cost_usd)
                .sum::<Option<f64>>()
                .filter(|_| !estimates.is_empty()),
        }
    }
}
