//! The charts of the page: a bar of the states, the scores of each metric, the slowest and the most expensive cases.
//! Memory grows with the number of metrics, not of cases.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "chart coordinates are positive and small"
)]

use std::collections::BTreeMap;

use holodeck_model::{MetricResult, ReportSummary};

use crate::format;
use holodeck_runs::CaseReport;

const BINS: usize = 20;

/// The states in a distribution, in stacking order.
const STATES: [&str; 3] = ["passed", "failed", "unchecked"];

/// Width and height of a distribution.
const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 40.0;

/// The number of cases in a ranking.
const MAX_RANKED: usize = 5;

/// Further metrics appear only as averages in the totals.
const MAX_CHARTS: usize = 24;

/// The length of a full bar.
const FULL: usize = 1000;

/// Collects the numbers of all cases, one case at a time.
#[derive(Default)]
pub(super) struct Charts {
    metrics: BTreeMap<String, Distribution>,
    slowest: Vec<RankEntry>,
    most_expensive: Vec<RankEntry>,
}

/// The scores of one metric.
#[derive(Default)]
struct Distribution {
    bins: [[usize; STATES.len()]; BINS],
    scores: usize,
    sum: f64,
    /// The threshold of the first score.
    threshold: Option<f64>,
    thresholds_differ: bool,
    errors: usize,
}

#[derive(Clone)]
struct RankEntry {
    value: f64,
    number: usize,
    label: String,
    class: &'static str,
}

/// A part of the bar of states.
pub(super) struct StatePart {
    pub(super) class: &'static str,
    pub(super) text: String,
    pub(super) x: usize,
    pub(super) width: usize,
}

/// The chart of a metric.
pub(super) struct MetricChart {
    pub(super) name: String,
    pub(super) average: String,
    pub(super) about: String,
    pub(super) bars: Vec<Bar>,
    pub(super) threshold_x: Option<String>,
}

pub(super) struct Bar {
    pub(super) class: &'static str,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// A list of cases with bars.
pub(super) struct Ranking {
    pub(super) title: &'static str,
    pub(super) cases: Vec<RankedCase>,
}

pub(super) struct RankedCase {
    pub(super) number: usize,
    pub(super) label: String,
    pub(super) value: String,
    pub(super) class: &'static str,
    pub(super) width: usize,
}

impl Charts {
    pub(super) fn observe(&mut self, case: &CaseReport) {
        for metrics in case.metrics_of_trials() {
            for metric in metrics.iter() {
                if let Some(distribution) = self.metrics.get_mut(&*metric.label()) {
                    distribution.observe(metric);
                } else {
                    let mut distribution = Distribution::default();
                    distribution.observe(metric);
                    self.metrics.insert(metric.label().into_owned(), distribution);
                }
            }
        }
        rank(&mut self.slowest, case, case.elapsed_ms() as f64);
        if let Some(cost) = case.spent().cost_usd {
            rank(&mut self.most_expensive, case, cost);
        }
    }

    /// The charts, and the number of further metrics.
    pub(super) fn metrics(&self) -> (Vec<MetricChart>, usize) {
        let shown = self.metrics.iter().take(MAX_CHARTS);
        let charts = shown
            .map(|(name, distribution)| distribution.chart(name))
            .collect();
        (charts, self.metrics.len().saturating_sub(MAX_CHARTS))
    }

    /// The slowest and the most expensive cases, if there are at least two to compare.
    pub(super) fn rankings(&self) -> Vec<Ranking> {
        let slowest = ranking("Slowest cases", &self.slowest, |millis| {
            format::duration(millis as u64)
        });
        let most_expensive = ranking("Most expensive cases", &self.most_expensive, format::cost);
        slowest.into_iter().chain(most_expensive).collect()
    }
}

fn rank(ranked: &mut Vec<RankEntry>, case: &CaseReport, value: f64) {
    let place = ranked.partition_point(|other| other.value >= value);
    if value > 0.0 && place < MAX_RANKED {
        ranked.insert(
            place,
            RankEntry {
                value,
                number: case.index + 1,
                label: case.label(),
                class: format::class(case.state()),
            },
        );
        ranked.truncate(MAX_RANKED);
    }
}

fn ranking(title: &'static str, ranked: &[RankEntry], text: impl Fn(f64) -> String) -> Option<Ranking> {
    let most = ranked.first()?.value;
    let cases = ranked.iter().map(|case| RankedCase {
        number: case.number,
        label: case.label.clone(),
        value: text(case.value),
        class: case.class,
        width: ((case.value / most * FULL as f64) as usize).max(1),
    });
    (ranked.len() > 1).then(|| Ranking {
        title,
        cases: cases.collect(),
    })
}

impl Distribution {
    fn observe(&mut self, metric: &MetricResult) {
        let Some(score) = metric.score else {
            self.errors += usize::from(!metric.skipped);
            return;
        };
        let bin = ((score.clamp(0.0, 1.0) * BINS as f64) as usize).min(BINS - 1);
        let state = match metric.passed {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        if let Some(count) = self.bins.get_mut(bin).and_then(|bin| bin.get_mut(state)) {
            *count += 1;
        }
        if self.scores == 0 {
            self.threshold = metric.threshold;
        }
        self.thresholds_differ |= self.threshold != metric.threshold;
        self.scores += 1;
        self.sum += score;
    }

    fn count_state(&self, state: usize) -> usize {
        self.bins.iter().filter_map(|bin| bin.get(state)).sum()
    }

    fn chart(&self, name: &str) -> MetricChart {
        let threshold = self.threshold.filter(|_| !self.thresholds_differ);
        let needs = match threshold {
            Some(threshold) => Some(format!("needs {threshold:.2}")),
            None => self.thresholds_differ.then(|| "thresholds differ".to_owned()),
        };
        let counts = [
            (self.count_state(0), "passed"),
            (self.count_state(1), "failed"),
            (self.count_state(2), "not gated"),
            (self.errors, "not computed"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}"));
        let about: Vec<String> = needs.into_iter().chain(counts).collect();
        MetricChart {
            name: name.to_owned(),
            average: if self.scores == 0 {
                "no score".to_owned()
            } else {
                format!("average {:.2}", self.sum / self.scores as f64)
            },
            about: about.join(" · "),
            bars: self.bars(),
            threshold_x: threshold.map(|threshold| number(threshold.clamp(0.0, 1.0) * WIDTH)),
        }
    }

    fn bars(&self) -> Vec<Bar> {
        const STEP: f64 = WIDTH / BINS as f64;
        let highest = self.bins.iter().map(|bin| bin.iter().sum()).max();
        let highest: usize = highest.unwrap_or_default();
        let mut bars = Vec::new();
        for (place, bin) in self.bins.iter().enumerate() {
            let mut y = HEIGHT;
            for (&count, class) in bin.iter().zip(STATES) {
                if count == 0 {
                    continue;
                }
                // A single case among thousands must be visible.
                let height = (count as f64 / highest as f64 * HEIGHT).max(1.0);
                y -= height;
                bars.push(Bar {
                    class,
                    x: number(place as f64 * STEP + STEP / 10.0),
                    y: number(y.max(0.0)),
                    width: number(STEP * 0.8),
                    height: number(height),
                });
            }
        }
        bars
    }
}

/// At most two decimals.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The states of all planned cases, side by side.
pub(super) fn states(summary: &ReportSummary) -> Vec<StatePart> {
    let total = format::planned(summary).max(1);
    let states = [
        (summary.passed, "passed", "passed"),
        (summary.failed, "failed", "failed"),
        (
            summary.errors,
            "error",
            if summary.errors == 1 { "error" } else { "errors" },
        ),
        (summary.unchecked, "unchecked", "unchecked"),
        (summary.not_run, "skipped", "not run"),
    ];
    let mut before = 0;
    let parts = states.into_iter().filter(|(count, ..)| *count > 0);
    let parts = parts.map(|(count, class, word)| {
        let x = before * FULL / total;
        before += count;
        StatePart {
            class,
            text: format!("{count} {word}"),
            x,
            width: (before * FULL / total - x).max(2),
        }
    });
    parts.collect()
}
