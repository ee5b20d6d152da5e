//! Counts the cases of a run in progress for the status line.

use std::{collections::BTreeSet, time::Duration};

use holodeck::{
    model::{CaseState, Replayed, ReportSummary},
    reports::format,
    runner::RunEvent,
    runs::CaseReport,
};

use crate::render::{case::one_line, text};

/// A case by its place, and its trial if it runs several times.
type Trial = (usize, Option<u32>);

/// The counts of a run in progress.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: usize,
    /// All trials.
    trials: usize,
    already: usize,
    running: BTreeSet<Trial>,
    /// The trials that have an answer and no verdict yet; an answer from an earlier start of the run was not running in this one.
    judging: BTreeSet<Trial>,
    /// Finished trials.
    finished: usize,
    passed: usize,
    failed: usize,
    flaky: usize,
    errors: usize,
    unchecked: usize,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl Tally {
    pub(super) fn on(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started {
                total,
                trials,
                already,
                ..
            } => {
                self.total = *total;
                self.trials = *trials;
                self.already = *already;
            }
            RunEvent::CaseStarted { index, trial, .. } => {
                self.running.insert((*index, *trial));
            }
            RunEvent::CaseAnswered { index, trial } => {
                self.running.remove(&(*index, *trial));
                self.judging.insert((*index, *trial));
            }
            RunEvent::TrialFinished { index, trial, .. } => self.finish_trial((*index, Some(*trial))),
            RunEvent::CaseFinished { case, .. } => self.finish(case),
            _ => {}
        }
    }

    fn finish_trial(&mut self, trial: Trial) {
        self.running.remove(&trial);
        self.judging.remove(&trial);
        self.finished += 1;
    }

    fn finish(&mut self, case: &CaseReport) {
        // The trials of a repeated case were counted one by one.
        if case.trials.is_none() {
            self.finish_trial((case.index, None));
        }
        match case.state() {
            CaseState::Passed => self.passed += 1,
            CaseState::Failed => self.failed += 1,
            CaseState::Flaky => {
                self.failed += 1;
                self.flaky += 1;
            }
            CaseState::Error => self.errors += 1,
            CaseState::Unchecked => self.unchecked += 1,
        }
        if let Some(usage) = case.spent().tokens {
            *self.tokens.get_or_insert(0) += usage.total_tokens;
        }
        if let Some(cost) = case.spent().cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// `3 running · 2 being judged · 8 of 12 done · 7 passed · 1 failed · 9.4k tokens · $0.031 · about 20 s left`, without
    /// what does not fit.
    pub(super) fn line(&self, elapsed: Duration, width: usize) -> String {
        let states = ReportSummary {
            passed: self.passed,
            failed: self.failed,
            flaky: self.flaky,
            errors: self.errors,
            unchecked: self.unchecked,
            ..ReportSummary::default()
        };
        let mut parts = vec![(0, format!("{} running", self.running.len()))];
        if !self.judging.is_empty() {
            parts.push((0, format!("{} being judged", self.judging.len())));
        }
        let trials = if self.trials > self.total { " trials" } else { "" };
        let done = self.already + self.finished;
        parts.push((4, format!("{done} of {}{trials} done", self.trials)));
        if self.finished > 0 {
            parts.extend(format::states(&states).into_iter().map(|part| (0, part)));
        }
        if let Some(tokens) = self.tokens {
            parts.push((3, format::count_tokens(tokens)));
        }
        if let Some(cost) = self.cost_usd {
            parts.push((2, format::cost(cost)));
        }
        if let Some(left) = self.estimate_remaining(elapsed) {
            parts.push((1, format!("about {left} left")));
        }
        // If there is no room, the least important part is left out first.
        for dispensable in (0..=4).rev() {
            let line = parts
                .iter()
                .map(|(_, part)| part.as_str())
                .collect::<Vec<_>>()
                .join(" · ");
            if text::width(&line) <= width || dispensable == 0 {
                return text::cut(&line, width);
            }
            parts.retain(|(importance, _)| *importance != dispensable);
        }
        String::new()
    }

    /// The estimated remaining time, once enough cases have finished.
    fn estimate_remaining(&self, elapsed: Duration) -> Option<String> {
        let remaining = self.trials.saturating_sub(self.already + self.finished);
        if self.finished < 2 || remaining == 0 {
            return None;
        }
        let seconds = elapsed.as_secs_f64() / self.finished as f64 * remaining as f64;
        Some(if seconds < 90.0 {
            // In steps of five, as it is a rough estimate.
            format!("{:.0} s", ((seconds / 5.0).ceil() * 5.0).max(5.0))
        } else if seconds < 5_400.0 {
            format!("{:.0} min", seconds / 60.0)
        } else {
            format!("{:.1} h", seconds / 3_600.0)
        })
    }
}

/// `customer-support · openai gpt-4o · 12 cases, 8 at a time`, after a line about the recording of a replay.
pub(super) fn header(
    agent: &str,
    model: &str,
    (total, trials): (usize, usize),
    already: usize,
    concurrency: usize,
    replayed: Option<&Replayed>,
) -> String {
    let mut text = String::new();
    if let Some(replayed) = replayed {
        text.push_str(&one_line(&replayed.describe()));
        text.push('\n');
    }
    let mut cases = format::count(total, "case");
    if trials > total {
        cases.push_str(&format!(", {}", format::count(trials, "trial")));
    }
    if already > 0 {
        cases.push_str(&format!(", {already} already finished"));
    }
    let concurrency = concurrency.min(trials.saturating_sub(already));
    if concurrency > 1 {
        cases.push_str(&format!(", {concurrency} at a time"));
    }
    text.push_str(&format!(
        "{} · {} · {cases}\n\n",
        one_line(agent),
        one_line(model)
    ));
    text
}

/// The message of a run that ends early.
pub(super) fn draining(reason: &str, running: usize, judging: usize) -> String {
    let unfinished = match (running, judging) {
        (0, 0) => None,
        (_, 0) => Some(format::count(running, "running case")),
        (0, _) => Some(format!("{} being judged", format::count(judging, "case"))),
        _ => Some(format!(
            "{} and {judging} being judged",
            format::count(running, "running case")
        )),
    };
    if reason == "interrupted" {
        return match unfinished {
            None => "interrupted\n".to_owned(),
            Some(cases) => format!("interrupted: waiting for {cases}; press Ctrl-C again to stop now\n"),
        };
    }
    if reason == "terminated" {
        return match unfinished {
            None => "terminated\n".to_owned(),
            Some(cases) => format!("terminated: {cases} stopped\n"),
        };
    }
    // Details and hints are shown with the case.
    let reason = reason.lines().next().unwrap_or_default();
    let mut text = format!("stopping: {}", one_line(reason));
    if let Some(cases) = unfinished {
        text.push_str(&format!("; waiting for {cases}"));
    }
    text.push('\n');
    text
}
