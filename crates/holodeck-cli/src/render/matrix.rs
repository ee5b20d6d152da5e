//! Renders the runs of a matrix side by side.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anstyle::Style;
use holodeck::{
    DryRun,
    model::{Combination, ReportHead, axis_value},
    reports::format::{self, Tone},
    runs::{ExitCode, pass_rate_interval},
};
use serde_json::{Value, json};

use super::{
    case::{in_columns, one_line},
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

/// One line for each combination, with the results of its run; a block for each where the lines would not fit.
pub(crate) fn matrix(rows: &[MatrixRow], columns: usize) -> String {
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
    let gaps = 2 * widths.len().saturating_sub(1);
    let fits = widths.iter().sum::<usize>() + gaps <= columns;
    let mut shown = String::from("\n");
    if fits {
        shown.push_str(&format!("{}\n", paint(STRONG, line(&titles, &widths))));
    }
    for (place, (cells, tone)) in lines.iter().enumerate() {
        let style = match tone {
            Some(Tone::Good) => GOOD,
            Some(Tone::Bad) => BAD,
            Some(Tone::Doubtful) | None => DOUBTFUL,
        };
        if fits {
            shown.push_str(&format!("{}\n", paint(style, line(cells, &widths))));
        } else {
            let gap = if place > 0 { "\n" } else { "" };
            shown.push_str(&format!("{gap}{}", block(&titles, cells, axes, style, columns)));
        }
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

/// The values of a combination, and below them a row for each result.
fn block(titles: &[String], cells: &[String], axes: usize, style: Style, columns: usize) -> String {
    let values = titles.iter().zip(cells).take(axes);
    let values: Vec<String> = values.map(|(title, value)| format!("{title}={value}")).collect();
    let mut text = String::new();
    for line in text::wrap(&values.join(", "), columns) {
        text.push_str(&format!("{}\n", paint(style.bold(), line)));
    }
    let rest = titles.iter().zip(cells).skip(axes);
    let is_missing = cells.len() < titles.len();
    for (title, cell) in rest {
        // The reason of a run that is missing is not a number of passed cases.
        let title = if is_missing { "" } else { title };
        text.push_str(&in_columns(title, cell, columns));
    }
    text
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
        let mut line = format!(
            "{} would run, {}",
            format::count(plans.len(), "combination"),
            format::count(usize::try_from(total.units).unwrap_or(usize::MAX), "trial")
        );
        if let Some(tokens) = total.tokens {
            line.push_str(&format!(", about {}", format::count_tokens(tokens)));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A combination that ran, and one that did not.
    fn rows() -> Vec<MatrixRow> {
        let combination = |name: &str| -> Combination {
            serde_json::from_value(json!({"model.name": name, "model.temperature": 0.5})).unwrap()
        };
        let summary = holodeck::model::ReportSummary {
            total_tests: 12,
            passed: 11,
            failed: 1,
            average_scores: [("rougeL".to_owned(), 0.75)].into(),
            cost_usd: Some(0.045),
            ..Default::default()
        };
        let head: ReportHead = serde_json::from_value(json!({
            "agent_name": "desk", "agent_config_path": "agent.yaml", "summary": summary,
            "timestamp": "2026-11-21T20:11:18Z", "holodeck_version": "0.1.0", "environment": null,
            "schema_version": 1, "run_id": "20261121T201103000-abcdef", "ended": "completed",
        }))
        .unwrap();
        let mut ran = MatrixRow::new(combination("gpt-4o-mini-2024-07-18"));
        ran.head = Some(Arc::new(head));
        ran.exit = Some(ExitCode::Failed);
        ran.took = Duration::from_millis(14_800);
        let mut missing = MatrixRow::new(combination("gpt-4o"));
        missing.note = Some("not run: the budget of the matrix is used up or cannot be enforced".to_owned());
        vec![ran, missing]
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_figure_is_lost() {
        for columns in [60, 80, 120, usize::MAX] {
            let shown = matrix(&rows(), columns);
            let shown = anstream::adapter::strip_str(&shown).to_string();
            for line in shown.lines() {
                assert!(text::width(line) <= columns, "{columns}: {line}");
            }
            let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            for figure in [
                "gpt-4o-mini-2024-07-18",
                "11 of 12",
                "0.75",
                "$0.045",
                "14.8 s",
                "20261121T201103000-abcdef",
                "the budget of the matrix is used up or cannot be enforced",
                "0 of 2 combinations passed",
            ] {
                assert!(words.contains(figure), "{columns} {figure}: {shown}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_shows_a_block_for_each_combination() {
        let shown = matrix(&rows(), 60);
        insta::assert_snapshot!(anstream::adapter::strip_str(&shown).to_string());
    }
}
