//! A reader's choice of the cases of a run, as the form of its page sends it.

use std::collections::BTreeSet;

use holodeck_model::MetricResult;
use holodeck_runs::CaseReport;
use regex::{Regex, RegexBuilder};

use crate::format;

/// A reader's choice of the cases of a run. An empty text chooses all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CaseQuery {
    /// `passed`, `failed`, `error`, `unchecked` or `not run`.
    pub state: String,
    /// A check that did not pass.
    pub metric: String,
    /// A tag.
    pub tag: String,
    /// A tool that was called.
    pub tool: String,
    /// Words of the name, the question or the answer.
    pub words: String,
    /// A regular expression for the same.
    pub pattern: String,
    /// Only cases that differ from the run before.
    pub changed: bool,
    /// The page, from 1; 0 for the first one, or that with the case `at`.
    pub page: usize,
    /// The number of a case that must be on the page, from 1; 0 for any.
    pub at: usize,
}

impl CaseQuery {
    /// Whether it chooses all cases.
    pub fn is_empty(&self) -> bool {
        let place = Self {
            page: self.page,
            at: self.at,
            ..Self::default()
        };
        *self == place
    }
}

/// The states that can be chosen.
pub(crate) const STATES: [&str; 5] = ["failed", "error", "unchecked", "passed", NOT_RUN];
const NOT_RUN: &str = "not run";

/// A choice that is ready to be applied.
#[derive(Debug, Default)]
pub(crate) struct CaseFilter<'a> {
    pub(crate) query: Option<&'a CaseQuery>,
    pattern: Option<Regex>,
    words: Vec<String>,
    /// The places of the cases that differ from the run before, if these are asked for.
    changed: Option<BTreeSet<usize>>,
}

/// Limits the size of a compiled expression; matching takes linear time.
const MAX_PATTERN_BYTES: usize = 1 << 20;

impl<'a> CaseFilter<'a> {
    /// Why there is none: the expression is not valid.
    pub(crate) fn new(query: &'a CaseQuery, changed: Option<BTreeSet<usize>>) -> Result<Self, String> {
        let pattern = (!query.pattern.is_empty()).then(|| {
            RegexBuilder::new(&query.pattern)
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(MAX_PATTERN_BYTES)
                .build()
                .map_err(|error| format!("not a regular expression: {error}"))
        });
        Ok(Self {
            query: Some(query),
            pattern: pattern.transpose()?,
            words: query
                .words
                .to_lowercase()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            changed: changed.filter(|_| query.changed),
        })
    }

    pub(crate) fn fits(&self, case: &CaseReport) -> bool {
        let Some(query) = self.query else { return true };
        let any = |text: &str, fits: &dyn Fn(&str) -> bool| text.is_empty() || fits(text);
        any(&query.state, &|state| format::class(case.state()) == state)
            && any(&query.metric, &|metric| {
                case.metrics_of_trials()
                    .any(|metrics| metrics.iter().any(|one| one.label() == metric && is_missed(one)))
            })
            && any(&query.tag, &|tag| case.tags.iter().any(|own| own == tag))
            && any(&query.tool, &|tool| {
                case.calls().any(|call| call.call.name == tool)
            })
            && self.fits_changed(case.index)
            && self.fits_text(case)
    }

    /// Whether a case without a result is shown: it has nothing but a state.
    pub(crate) fn fits_not_run(&self, place: usize) -> bool {
        let Some(query) = self.query else { return true };
        let others = [
            &query.metric,
            &query.tag,
            &query.tool,
            &query.words,
            &query.pattern,
        ];
        (query.state.is_empty() || query.state == NOT_RUN)
            && others.iter().all(|text| text.is_empty())
            && self.fits_changed(place)
    }

    fn fits_changed(&self, place: usize) -> bool {
        self.changed
            .as_ref()
            .is_none_or(|changed| changed.contains(&place))
    }

    fn fits_text(&self, case: &CaseReport) -> bool {
        if self.words.is_empty() && self.pattern.is_none() {
            return true;
        }
        let answers = case.turns().filter_map(|turn| turn.answer().map(str::to_owned));
        let texts: Vec<String> = [case.label(), case.question().into_owned()]
            .into_iter()
            .chain(answers)
            .collect();
        let text = texts.join("\n");
        let lower = text.to_lowercase();
        self.words.iter().all(|word| lower.contains(word))
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(&text))
    }
}

fn is_missed(metric: &MetricResult) -> bool {
    metric.passed == Some(false) || metric.error.is_some()
}

/// The values that the cases of a run have, for the lists of the form.
#[derive(Debug, Default)]
pub(crate) struct CaseValues {
    pub(crate) metrics: BTreeSet<String>,
    pub(crate) tags: BTreeSet<String>,
    pub(crate) tools: BTreeSet<String>,
    pub(crate) shown: usize,
    pub(crate) all: usize,
}

/// More values than this are not offered.
const MAX_VALUES: usize = 200;

impl CaseValues {
    pub(crate) fn observe(&mut self, case: &CaseReport, filter: &CaseFilter<'_>) {
        self.all += 1;
        self.shown += usize::from(filter.fits(case));
        let metrics = case.metrics_of_trials();
        for metrics in metrics {
            add(
                &mut self.metrics,
                metrics.iter().map(|metric| metric.label().into_owned()),
            );
        }
        add(&mut self.tags, case.tags.iter().cloned());
        add(&mut self.tools, case.calls().map(|call| call.call.name.clone()));
    }
}

fn add(values: &mut BTreeSet<String>, more: impl Iterator<Item = String>) {
    for value in more {
        if values.len() < MAX_VALUES {
            values.insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::CaseState;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::samples;

    fn chosen(query: &CaseQuery, changed: Option<BTreeSet<usize>>) -> Vec<usize> {
        let filter = CaseFilter::new(query, changed).unwrap();
        let mut failed = samples::case(1, CaseState::Failed, &[("rougeL", Some(0.0))]);
        failed.tags = vec!["slow".to_owned()];
        let cases = [
            samples::case(0, CaseState::Passed, &[("rougeL", Some(1.0))]),
            failed,
            samples::case(2, CaseState::Error, &[("geval", None)]),
        ];
        let chosen = cases.iter().filter(|case| filter.fits(case));
        chosen.map(|case| case.index).collect()
    }

    #[test]
    fn each_choice_leaves_out_the_other_cases() {
        let query = CaseQuery::default;
        assert_eq!(chosen(&query(), None), [0, 1, 2]);
        let by = |change: &dyn Fn(&mut CaseQuery)| {
            let mut query = query();
            change(&mut query);
            chosen(&query, Some(BTreeSet::from([2])))
        };
        assert_eq!(by(&|query| query.state = "failed".to_owned()), [1]);
        assert_eq!(by(&|query| query.state = "passed".to_owned()), [0]);
        assert_eq!(by(&|query| query.state = "no such state".to_owned()), [0; 0]);
        assert_eq!(by(&|query| query.tag = "slow".to_owned()), [1]);
        assert_eq!(by(&|query| query.tool = "no such tool".to_owned()), [0; 0]);
        assert_eq!(by(&|query| query.words = "no-such-word".to_owned()), [0; 0]);
        assert_eq!(by(&|query| query.pattern = "^no such text$".to_owned()), [0; 0]);
        assert_eq!(by(&|query| query.pattern = "(?s).".to_owned()), [0, 1, 2]);
        assert_eq!(by(&|query| query.changed = true), [2]);
    }

    #[test]
    fn an_expression_that_is_not_valid_or_too_large_is_refused() {
        for pattern in ["(", "(?:a{1000}){1000}"] {
            let query = CaseQuery {
                pattern: pattern.to_owned(),
                ..CaseQuery::default()
            };
            assert!(CaseFilter::new(&query, None).is_err(), "{pattern}");
        }
    }
}
