//! Chooses the cases that a page of a run shows, and adds up the figures of all cases.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use holodeck_model::CaseState;
use holodeck_runs::CaseReport;

use super::charts::Charts;
use crate::{
    CaseQuery, PageLink, PlannedResult, ReportError, RunView,
    case_filter::{CaseFilter, CaseValues},
    explain_in_a_line, format,
    view::Pages,
};

/// The places of the sections after that of failures.
const NOT_RUN: usize = 0;

fn section_of(state: CaseState) -> usize {
    1 + usize::from(state == CaseState::Passed)
}

/// The surroundings of the page of a run.
#[derive(Default)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct RunPage<'a> {
    /// The links above it.
    pub links: &'a [PageLink],
    /// Set if a server answers its form: the choice of cases, and the places of those that differ from the run before, if
    /// there is one.
    pub choice: Option<(&'a CaseQuery, Option<BTreeSet<usize>>)>,
    /// The address of the page of the case at a place, if it has one.
    pub case_page: Option<&'a dyn Fn(usize) -> String>,
    /// Whether a command is writing the run now.
    pub is_running: bool,
    /// The tags that people gave to it.
    pub tags: &'a [String],
    /// The token of the form that changes them, and the id of the run in it; absent if nothing may be changed.
    pub tag_form: Option<(&'a str, &'a str)>,
}

/// The cases that a page shows, and the figures of all cases.
pub(crate) struct Chosen<'a> {
    pub(super) filter: CaseFilter<'a>,
    pub(super) charts: Charts,
    pub(super) values: CaseValues,
    pub(super) causes: Causes,
    pub(super) has_before: bool,
    /// The places of the cases; absent if the page has all that fit.
    pub(crate) places: Option<BTreeSet<usize>>,
    pub(super) pages: Pages,
}

/// Cases of a page that a server makes.
const PAGE_CASES: usize = 100;

/// Reads all cases and chooses those of the page.
pub(crate) fn choose<'a>(view: &RunView<'_>, page: &'a RunPage<'_>) -> Result<Chosen<'a>, ReportError> {
    let (filter, has_before) = match &page.choice {
        None => (CaseFilter::default(), false),
        Some((query, changed)) => {
            let filter = CaseFilter::new(query, changed.clone()).map_err(ReportError::Query)?;
            (filter, changed.is_some())
        }
    };
    let mut chosen = Chosen {
        filter,
        charts: Charts::default(),
        values: CaseValues::default(),
        causes: Causes::default(),
        has_before,
        places: None,
        pages: Pages {
            name: "Pages of cases",
            number: 1,
            count: 1,
        },
    };
    let mut order = Order::default();
    for planned in view.planned() {
        let case = match planned? {
            PlannedResult::Finished(case) => case,
            PlannedResult::NotRun(case) => {
                if chosen.filter.query.is_some() && chosen.filter.fits_not_run(case.index) {
                    order.add(NOT_RUN, case.index);
                }
                continue;
            }
        };
        chosen.charts.observe(&case);
        if chosen.filter.query.is_some() {
            chosen.values.observe(&case, &chosen.filter);
        }
        if !chosen.filter.fits(&case) {
            continue;
        }
        if case.is_failure() {
            chosen.causes.observe(&case);
            if chosen.filter.query.is_some() {
                order.failures.push((case.index, explain_in_a_line(&case)));
            }
        } else if chosen.filter.query.is_some() {
            order.add(section_of(case.state()), case.index);
        }
    }
    if let Some(query) = chosen.filter.query {
        let places = order.finish(&chosen.causes);
        let at = query.at.checked_sub(1).filter(|_| query.page == 0);
        let at = at.and_then(|at| places.iter().position(|place| *place == at));
        let count = places.len().div_ceil(PAGE_CASES).max(1);
        let number = at.map_or(query.page, |at| at / PAGE_CASES + 1).clamp(1, count);
        let places = places.chunks(PAGE_CASES).nth(number - 1).unwrap_or_default();
        chosen.places = Some(places.iter().copied().collect());
        chosen.pages = Pages {
            number,
            count,
            ..chosen.pages
        };
    }
    Ok(chosen)
}

/// The places of the cases that fit, in the order in which they are shown.
#[derive(Default)]
struct Order {
    /// With their causes.
    failures: Vec<(usize, String)>,
    /// With their sections.
    others: Vec<(usize, usize)>,
}

impl Order {
    fn add(&mut self, section: usize, place: usize) {
        self.others.push((section, place));
    }

    /// Failures with a cause of their own, then those of each cause, the most frequent first, then the other cases.
    fn finish(mut self, causes: &Causes) -> Vec<usize> {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, cause) in &self.failures {
            first.entry(cause).or_insert(*place);
        }
        let rank = |place: usize, cause: &str| {
            let count = causes.counts.get(cause).copied().filter(|count| *count > 1);
            let of_cause = count.and_then(|_| first.get(cause).copied());
            (count.map(std::cmp::Reverse), of_cause, place)
        };
        let mut failures: Vec<_> = self
            .failures
            .iter()
            .map(|(place, cause)| rank(*place, cause))
            .collect();
        failures.sort_unstable();
        self.others.sort_unstable();
        let others = self.others.iter().map(|(_, place)| *place);
        failures.iter().map(|(.., place)| *place).chain(others).collect()
    }
}

/// The failures that have the same cause, which stand together.
#[derive(Default)]
pub(super) struct Causes {
    counts: BTreeMap<String, usize>,
    total: usize,
    groups: Vec<Cause>,
}

/// Several cases that did not pass for the same cause.
#[derive(Template)]
#[template(path = "cause.html")]
pub(super) struct Cause {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) count: usize,
    pub(super) html: Vec<u8>,
}

/// More failures stay in the order of the file: a group is held in memory.
const MAX_GROUPED: usize = 1_000;

/// Longer causes are cut in a heading.
const CAUSE_CHARS: usize = 300;

impl Causes {
    pub(super) fn observe(&mut self, case: &CaseReport) {
        self.total += 1;
        if self.total <= MAX_GROUPED {
            *self.counts.entry(explain_in_a_line(case)).or_default() += 1;
        } else {
            self.counts.clear();
        }
    }

    /// Whether it is the first one of its cause; `None` if no other case has it.
    pub(super) fn first_of(&self, case: &CaseReport) -> Option<bool> {
        let key = explain_in_a_line(case);
        let count = self.counts.get(&key).filter(|count| **count > 1)?;
        let is_known = self.groups.iter().any(|group| group.key == key);
        (*count > 1).then_some(!is_known)
    }

    pub(super) fn group_of(&mut self, case: &CaseReport) -> Option<&mut Vec<u8>> {
        let key = explain_in_a_line(case);
        let place = self.groups.iter().position(|group| group.key == key);
        let place = place.unwrap_or_else(|| {
            self.groups.push(Cause {
                text: format::one_line(&key, CAUSE_CHARS),
                count: self.counts.get(&key).copied().unwrap_or_default(),
                key,
                html: Vec::new(),
            });
            self.groups.len() - 1
        });
        Some(&mut self.groups.get_mut(place)?.html)
    }

    /// The groups, the largest first.
    pub(super) fn into_groups(mut self) -> Vec<Cause> {
        self.groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        self.groups
    }
}
