//! The cases of both runs that belong together, and which of them can be compared.
//!
//! A pass or a failure is compared only where the whole case is the same: the same is expected of it, and the same judges
//! and programs decide. Only this module decides that.

use std::collections::BTreeMap;

use holodeck_model::{CaseState, Decider, Difference};

use super::{
    ChangeKind, ChangedDecider, Counts, GateOptions,
    pairing::Pairing,
    run::{ComparedCase, ComparedRun, MetricKey, is_verdict},
};

/// The cases of both runs that belong together.
pub(super) struct Pairs<'a> {
    pub(super) before: &'a ComparedRun,
    pub(super) after: &'a ComparedRun,
    places: &'a [(usize, usize)],
}

/// A case in both runs.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) places: (usize, usize),
    pub(super) before: &'a ComparedCase,
    pub(super) after: &'a ComparedCase,
}

/// Whether the verdicts on a case can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparability {
    /// The whole case is the same.
    Same,
    /// A file does not record what decided.
    Unknown,
    /// Something else is expected.
    OtherExpectation,
    /// Another judge or program decides.
    OtherJudge,
}

impl ChangeKind {
    fn of(before: Option<CaseState>, after: Option<CaseState>) -> Option<Self> {
        let has_error = |state| matches!(state, Some(CaseState::Error) | None);
        match (is_verdict(before), is_verdict(after)) {
            (true, true) => match (
                before == Some(CaseState::Passed),
                after == Some(CaseState::Passed),
            ) {
                (true, false) => Some(Self::NewlyFailing),
                (false, true) => Some(Self::NewlyPassing),
                _ => None,
            },
            (true, false) if !has_error(after) => Some(Self::NoLongerChecked),
            (_, false) if !has_error(before) && has_error(after) => Some(Self::NewError),
            (false, true) => Some(Self::FirstVerdict),
            _ => None,
        }
    }
}

impl Pair<'_> {
    /// The differences between both sides in what decides the verdict; `None` if a file does not record it.
    pub(super) fn differences(&self) -> Option<Vec<Difference>> {
        if self.before.deciders == self.after.deciders && !self.before.deciders.is_unknown() {
            return Some(Vec::new());
        }
        self.before.deciders.differences(&self.after.deciders)
    }

    pub(super) fn comparability(&self) -> Comparability {
        let Some(differences) = self.differences() else {
            return if self.has_other_source() {
                Comparability::OtherJudge
            } else {
                Comparability::Unknown
            };
        };
        let has = |decider| differences.iter().any(|difference| difference.decider == decider);
        if has(Decider::Expectation) {
            Comparability::OtherExpectation
        } else if (has(Decider::Judge) || has(Decider::Grader)) && !self.decides_nothing() {
            Comparability::OtherJudge
        } else {
            Comparability::Same
        }
    }

    /// Whether the check of a score is not one of the case any more. Then it is a changed expectation, not a lost score.
    pub(super) fn is_removed(&self, key: &MetricKey) -> bool {
        if self.after.score(key).is_some() {
            return false;
        }
        let label = key.label().replace(" (conversation)", "");
        let is_check = |name: &str| name == label || name.ends_with(&format!(": {label}"));
        let removed = self.differences().into_iter().flatten();
        let mut removed = removed.filter(|difference| difference.decider == Decider::Expectation);
        let has_it = |name: &String| self.after.deciders.expectations.contains_key(name);
        removed.any(|difference| is_check(&difference.part) && !has_it(&difference.part))
    }

    /// The metrics of which another judge or program computed the score.
    fn other_sources(&self) -> impl Iterator<Item = bool> {
        self.before.scores.iter().filter_map(|before| {
            let after = self.after.score(&before.metric.key)?;
            let (one, two) = (&before.metric.source, &after.metric.source);
            let differences = one.differences(two, &before.metric.key.name);
            let is_other = differences.iter().any(|decider| *decider != Decider::Expectation);
            is_other.then_some(before.gates || after.gates)
        })
    }

    /// Whether another judge or program decides its verdict, as far as its scores show.
    fn has_other_source(&self) -> bool {
        self.other_sources().any(|gates| gates)
    }

    /// Whether all metrics of another judge or program only report their scores.
    fn decides_nothing(&self) -> bool {
        self.other_sources().next().is_some() && !self.has_other_source()
    }

    /// Whether its verdicts can be compared. An unknown expectation is a doubt of the gate, not a difference.
    pub(super) fn is_comparable(&self) -> bool {
        matches!(self.comparability(), Comparability::Same | Comparability::Unknown)
    }

    /// How it changed. A result that is lost is a loss, whatever is expected now.
    pub(super) fn change(&self) -> Option<ChangeKind> {
        let change = ChangeKind::of(self.before.state, self.after.state);
        if matches!(change, Some(ChangeKind::NewError | ChangeKind::NoLongerChecked)) {
            return change;
        }
        let has_results = self.before.has_result() && self.after.has_result();
        match self.comparability() {
            Comparability::OtherExpectation if has_results => Some(ChangeKind::OtherExpectation),
            Comparability::OtherJudge if has_results => Some(ChangeKind::OtherJudge),
            _ => change,
        }
    }
}

impl<'a> Pairs<'a> {
    pub(super) fn new(before: &'a ComparedRun, after: &'a ComparedRun, pairing: &'a Pairing) -> Self {
        Self {
            before,
            after,
            places: &pairing.pairs,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Pair<'a>> {
        let (before, after) = (self.before, self.after);
        self.places.iter().filter_map(move |&(a, b)| {
            Some(Pair {
                places: (a, b),
                before: before.cases.get(a)?,
                after: after.cases.get(b)?,
            })
        })
    }

    /// Each check and rule about which something else decides now.
    pub(super) fn changed(&self) -> Vec<ChangedDecider> {
        let mut changed: BTreeMap<Difference, usize> = BTreeMap::new();
        for difference in self.iter().filter_map(|pair| pair.differences()).flatten() {
            *changed.entry(difference).or_default() += 1;
        }
        let changed = changed.into_iter();
        changed
            .map(|(difference, cases)| ChangedDecider { difference, cases })
            .collect()
    }

    pub(super) fn count(&self, pairing: &Pairing) -> Counts {
        let mut counts = Counts {
            missing: pairing.only_before.len(),
            added: pairing.only_after.len(),
            ..Counts::default()
        };
        let added = pairing.only_after.iter();
        for case in added.filter_map(|place| self.after.cases.get(*place)) {
            counts.added_failing += usize::from(case.state == Some(CaseState::Failed));
            counts.added_errors += usize::from(!case.has_result());
        }
        for pair in self.iter() {
            counts.pairs += 1;
            let (before, after) = (pair.before, pair.after);
            let comparability = pair.comparability();
            let has_verdicts = before.has_verdict() && after.has_verdict();
            counts.with_verdict += usize::from(has_verdicts && pair.is_comparable());
            let has_results = before.has_result() && after.has_result();
            counts.unknown_expectation +=
                usize::from(has_results && before.deciders.differences(&after.deciders).is_none());
            // Of several trials only one answer is known.
            let is_known = before.answer.is_some() && !before.repeated() && !after.repeated();
            counts.same_answer += usize::from(is_known && before.answer == after.answer);
            let differs = before.content.zip(after.content).is_some_and(|(a, b)| a != b);
            counts.other_question += usize::from(differs);
            counts.more_trial_errors += usize::from(after.trial_errors() > before.trial_errors());
            match comparability {
                Comparability::OtherExpectation => counts.other_expectation += 1,
                Comparability::OtherJudge => counts.other_judge += 1,
                Comparability::Same | Comparability::Unknown => {}
            }
            let counter = match pair.change() {
                Some(ChangeKind::NewlyFailing) => &mut counts.newly_failing,
                Some(ChangeKind::NewError) => &mut counts.new_errors,
                Some(ChangeKind::NoLongerChecked) => &mut counts.no_longer_checked,
                Some(ChangeKind::NewlyPassing) => &mut counts.newly_passing,
                Some(ChangeKind::FirstVerdict) => &mut counts.first_verdicts,
                // Counted above, whether or not they have a result.
                Some(ChangeKind::OtherExpectation | ChangeKind::OtherJudge) => continue,
                None if has_verdicts && after.state == Some(CaseState::Passed) => &mut counts.still_passing,
                None if has_verdicts => &mut counts.still_failing,
                None => &mut counts.without_verdict,
            };
            *counter += 1;
        }
        counts
    }

    /// How many cases passed before and do not pass now, for whatever reason.
    pub(super) fn losses(&self, pairing: &Pairing, options: &GateOptions) -> usize {
        let passed = |case: &ComparedCase| case.state == Some(CaseState::Passed);
        let lost = self
            .iter()
            .filter(|pair| passed(pair.before) && !passed(pair.after));
        let missing = pairing
            .only_before
            .iter()
            .filter_map(|place| self.before.cases.get(*place));
        let missing = missing.filter(|case| passed(case) && !options.allow_missing);
        lost.count() + missing.count()
    }
}
