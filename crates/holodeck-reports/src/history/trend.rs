//! The trends of each agent's runs: pass rate, scores, cost and time, with a mark where something else than answers changed.

use std::{collections::BTreeSet, time::Duration};

use holodeck_model::ReportHead;

use super::{HistoryEntry, HistoryRun};
use crate::format;

/// The charts of one agent, which have one place for each run.
pub(super) struct Trend {
    pub(super) title: String,
    pub(super) charts: Vec<Chart>,
    pub(super) marks: Vec<Mark>,
}

pub(super) struct Chart {
    pub(super) name: String,
    /// The value of the newest run that has one.
    pub(super) last: String,
    pub(super) about: String,
    pub(super) points: String,
    pub(super) dots: Vec<Dot>,
}

pub(super) struct Dot {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) text: String,
}

/// A run before which something changed.
pub(super) struct Mark {
    pub(super) x: String,
    pub(super) text: String,
}

/// Size of a chart, and its room at the edges.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 60.0;
const EDGE: f64 = 5.0;

/// Of more runs, the newest.
const MAX_RUNS: usize = 60;

/// More metrics are left to the pages of the runs.
const MAX_METRICS: usize = 8;

/// The trends of those of these agents that have two or more runs, which are given oldest first. A run that has not
/// completed has no place: its figures are those of some of its cases.
pub(super) fn trends(entries: &[HistoryEntry], chosen: &BTreeSet<&str>) -> Vec<Trend> {
    let mut agents: Vec<Vec<&HistoryRun>> = Vec::new();
    for run in entries.iter().filter_map(|entry| entry.run.as_ref().ok()) {
        let head = &run.head;
        let is_chosen = chosen.contains(head.agent_name.as_str());
        if !is_chosen || head.ended != "completed" || run.is_running || head.partial.is_some() {
            continue;
        }
        let is_same = |other: &HistoryRun| {
            other.folder == run.folder
                && other.head.agent_name == head.agent_name
                && other.head.combination == head.combination
                && other.head.shard == head.shard
        };
        match agents
            .iter_mut()
            .find(|runs| runs.iter().any(|other| is_same(other)))
        {
            Some(runs) => runs.push(run),
            None => agents.push(vec![run]),
        }
    }
    agents.retain(|runs| runs.len() > 1);
    agents.iter().map(|runs| Trend::new(runs)).collect()
}

impl Trend {
    fn new(runs: &[&HistoryRun]) -> Self {
        let runs = runs
            .get(runs.len().saturating_sub(MAX_RUNS)..)
            .unwrap_or_default();
        let heads: Vec<&ReportHead> = runs.iter().map(|run| &run.head).collect();
        let combination = heads.first().and_then(|head| head.combination.as_ref());
        let agent = heads.first().map_or("", |head| &head.agent_name);
        let title = match combination {
            Some(values) => format!("{agent}, {values}"),
            None => agent.to_owned(),
        };
        let marks = runs.iter().enumerate().filter_map(|(place, run)| {
            let changes = run.changes.as_deref().filter(|changes| !changes.is_empty())?;
            Some(Mark {
                x: x_of(place, runs.len()),
                text: format!("{}: {}", format::date(&run.head.timestamp), changes.join("; ")),
            })
        });
        let metrics: BTreeSet<&String> = heads
            .iter()
            .flat_map(|head| head.summary.average_scores.keys())
            .collect();
        let scores = metrics.into_iter().take(MAX_METRICS).map(|metric| {
            let score = |head: &ReportHead| head.summary.average_scores.get(metric).copied();
            Chart::new(metric, &heads, Some(1.0), score, |score| format!("{score:.2}"))
        });
        let rate = Chart::new(
            "pass rate",
            &heads,
            Some(100.0),
            |head| head.summary.pass_rate,
            |rate| format!("{rate:.0} %"),
        );
        let cost = Chart::new("cost", &heads, None, |head| head.summary.cost_usd, format::cost);
        let time = Chart::new("time per case", &heads, None, time_per_case, |millis| {
            format::duration(
                Duration::from_secs_f64(millis.max(0.0) / 1e3)
                    .as_millis()
                    .try_into()
                    .unwrap_or(u64::MAX),
            )
        });
        let charts = std::iter::once(rate).chain(scores).chain([cost, time]);
        Self {
            title,
            marks: marks.collect(),
            charts: charts.flatten().collect(),
        }
    }
}

/// Milliseconds; a file of another kind does not say it.
fn time_per_case(head: &ReportHead) -> Option<f64> {
    let summary = &head.summary;
    let is_known = summary.total_tests > 0 && summary.total_duration_ms > 0;
    is_known.then(|| summary.total_duration_ms as f64 / summary.total_tests as f64)
}

impl Chart {
    /// A chart from 0 to `full`, or to the largest value; `None` with less than two values.
    fn new(
        name: &str,
        heads: &[&ReportHead],
        full: Option<f64>,
        value: impl Fn(&ReportHead) -> Option<f64>,
        show: impl Fn(f64) -> String,
    ) -> Option<Self> {
        let values: Vec<(usize, &ReportHead, f64)> = heads
            .iter()
            .enumerate()
            .filter_map(|(place, head)| Some((place, *head, value(head).filter(|value| value.is_finite())?)))
            .collect();
        let [(.., first), .., (.., last)] = values[..] else {
            return None;
        };
        let largest = values.iter().map(|(.., value)| *value).fold(0.0, f64::max);
        let full = full.unwrap_or(largest).max(f64::MIN_POSITIVE);
        let dots: Vec<Dot> = values
            .iter()
            .map(|(place, head, value)| Dot {
                x: x_of(*place, heads.len()),
                y: format!(
                    "{:.1}",
                    EDGE + (HEIGHT - 2.0 * EDGE) * (1.0 - (value / full).clamp(0.0, 1.0))
                ),
                text: format!("{}: {}", format::date(&head.timestamp), show(*value)),
            })
            .collect();
        let points: Vec<String> = dots.iter().map(|dot| format!("{},{}", dot.x, dot.y)).collect();
        Some(Self {
            name: name.to_owned(),
            last: show(last),
            about: format!(
                "{name} of {}, from {} to {}",
                format::count(values.len(), "run"),
                show(first),
                show(last)
            ),
            points: points.join(" "),
            dots,
        })
    }
}

fn x_of(place: usize, runs: usize) -> String {
    let last = runs.saturating_sub(1).max(1) as f64;
    format!("{:.1}", EDGE + (WIDTH - 2.0 * EDGE) * place as f64 / last)
}
