//! Adds up the results of cases to the totals of a run, one case at a time.

use std::collections::BTreeMap;

use holodeck_model::{CaseState, LoopSummary, LoopTotals, MetricResult, ReportSummary, Spent, TokenUsage};

use holodeck_runs::CaseReport;

/// Folds cases into the totals of a run. Memory does not grow with the number of cases.
#[derive(Clone, Debug, Default)]
pub struct SummaryFold {
    summary: ReportSummary,
    sums: BTreeMap<String, f64>,
    usage: Option<TokenUsage>,
    cost_usd: f64,
    cost_known: bool,
    judging: Spent,
    by_users: Spent,
    loops: Option<LoopTotals>,
}

impl SummaryFold {
    /// An empty fold.
    pub fn new() -> Self {
        Self::default()
    }

    /// A fold of a run before which the steps of judges were derived.
    pub fn after(judge_steps: Option<Spent>) -> Self {
        Self {
            judging: judge_steps.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The counts of a run of which only the states are known, by their words.
    pub(crate) fn of_states(states: &BTreeMap<&'static str, usize>) -> Self {
        let count = |state: &str| states.get(state).copied().unwrap_or_default();
        let summary = ReportSummary {
            passed: count("passed"),
            failed: count("failed") + count("flaky"),
            flaky: count("flaky"),
            errors: count("error"),
            unchecked: count("unchecked"),
            not_run: count("not run"),
            total_tests: states
                .iter()
                .filter(|(state, _)| **state != "not run")
                .map(|(_, count)| count)
                .sum(),
            ..ReportSummary::default()
        };
        Self {
            summary,
            ..Self::default()
        }
    }

    /// Adds one case.
    pub fn observe(&mut self, case: &CaseReport) {
        let summary = &mut self.summary;
        summary.total_tests += 1;
        match case.state() {
            CaseState::Passed => summary.passed += 1,
            CaseState::Failed => summary.failed += 1,
            CaseState::Flaky => {
                summary.failed += 1;
                summary.flaky += 1;
            }
            CaseState::Error => summary.errors += 1,
            CaseState::Unchecked => summary.unchecked += 1,
        }
        summary.total_duration_ms += case.elapsed_ms();
        let truncations = case.truncations();
        summary.truncated += usize::from(!truncations.is_empty());
        for reason in truncations {
            *summary.truncated_by.entry(reason).or_default() += 1;
        }
        for metrics in case.metrics_of_trials() {
            for metric in metrics.iter() {
                self.observe_metric(metric);
            }
        }
        let summary = &mut self.summary;
        let spent = case.spent();
        match (spent.tokens, &mut self.usage) {
            (Some(usage), Some(total)) => *total += usage,
            (Some(usage), none) => *none = Some(usage),
            (None, _) if spent.calls > 0 => summary.usage_missing += 1,
            (None, _) => {}
        }
        self.judging += case.judging();
        self.by_users += case.user_spent();
        if let Some(quality) = case.quality_loop() {
            self.observe_loop(quality);
        }
        if let Some(cost) = spent.cost_usd {
            self.cost_usd += cost;
            self.cost_known = true;
        }
    }

    fn observe_loop(&mut self, quality: &LoopSummary) {
        let Some(gain) = quality.gain() else { return };
        let totals = self.loops.get_or_insert(LoopTotals {
            cost_usd: Some(0.0),
            ..LoopTotals::default()
        });
        totals.cases += 1;
        totals.points += gain;
        totals.cost_usd = totals
            .cost_usd
            .zip(quality.cost_usd)
            .map(|(sum, cost)| sum + cost);
    }

    fn observe_metric(&mut self, metric: &MetricResult) {
        let summary = &mut self.summary;
        for missing in &metric.missing_votes {
            *summary.missing_votes.entry(missing.judge.clone()).or_default() += 1;
        }
        match metric.score {
            Some(score) => {
                let name = metric.label().into_owned();
                *self.sums.entry(name.clone()).or_default() += score;
                *summary.metrics_evaluated.entry(name).or_default() += 1;
            }
            None if metric.skipped => {}
            None => summary.metric_errors += 1,
        }
    }

    /// Adds a planned case without a result.
    pub fn observe_not_run(&mut self) {
        self.summary.not_run += 1;
    }

    pub(crate) fn not_run(&self) -> usize {
        self.summary.not_run
    }

    /// The totals.
    pub fn finish(self) -> ReportSummary {
        let mut summary = self.summary;
        let checked = summary.total_tests - summary.unchecked;
        summary.pass_rate = (checked > 0).then(|| summary.passed as f64 * 100.0 / checked as f64);
        for (name, sum) in self.sums {
            if let Some(&count) = summary.metrics_evaluated.get(&name) {
                summary.average_scores.insert(name, sum / count as f64);
            }
        }
        summary.token_usage = self.usage;
        summary.cost_usd = self.cost_known.then_some(self.cost_usd);
        summary.loops = self.loops;
        summary.judge_usage = self.judging.tokens;
        summary.judge_cost_usd = self.judging.cost_usd;
        summary.user_usage = self.by_users.tokens;
        summary.user_cost_usd = self.by_users.cost_usd;
        summary
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::samples;

    #[test]
    fn zeros_count_unchecked_cases_do_not() {
        let mut fold = SummaryFold::new();
        fold.observe(&samples::case(0, CaseState::Passed, &[("rougeL", Some(1.0))]));
        fold.observe(&samples::case(1, CaseState::Failed, &[("rougeL", Some(0.0))]));
        fold.observe(&samples::case(2, CaseState::Error, &[("rougeL", None)]));
        fold.observe(&samples::case(3, CaseState::Unchecked, &[]));
        let summary = fold.finish();
        assert!((summary.average_scores["rougeL"] - 0.5).abs() < 1e-12);
        assert_eq!(summary.metrics_evaluated["rougeL"], 2);
        assert_eq!(summary.metric_errors, 1);
        assert_eq!(summary.pass_rate.map(f64::round), Some(33.0));
        assert_eq!(
            summary.total_tests,
            summary.passed + summary.failed + summary.errors + summary.unchecked
        );
    }

    #[test]
    fn nothing_checked_has_no_pass_rate() {
        let mut fold = SummaryFold::new();
        fold.observe(&samples::case(0, CaseState::Unchecked, &[]));
        assert_eq!(fold.finish().pass_rate, None);
        assert_eq!(SummaryFold::new().finish().pass_rate, None);
    }
}
