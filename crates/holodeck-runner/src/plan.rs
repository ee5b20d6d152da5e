use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt::Write as _,
    path::Path,
};

use globset::{Glob, GlobMatcher};
use holodeck_model::{CaseState, TestCase};
use sha2::{Digest as _, Sha256};

use crate::{Journal, JournalError};

/// Which cases of the file to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Cases whose name matches.
    pub filter: Option<String>,
    /// The first so many of what is left.
    pub limit: Option<usize>,
    /// Only cases that did not pass in the run of this journal.
    pub failed_in: Option<std::path::PathBuf>,
}

impl Selection {
    /// Whether it leaves out nothing by itself.
    pub fn is_everything(&self) -> bool {
        self.filter.is_none() && self.limit.is_none() && self.failed_in.is_none()
    }
}

/// What is run, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<PlannedCase>,
}

/// One case to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCase {
    /// Place in the file, from 0.
    pub index: usize,
    /// What people call it.
    pub label: String,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// `--filter` is not a glob.
    #[error("`--filter {pattern}`: {reason}")]
    Filter {
        /// As typed.
        pattern: String,
        /// What is wrong.
        reason: String,
    },
    /// The earlier run can't be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Plan {
    /// Chooses from `cases`.
    pub fn new(cases: &[TestCase], selection: &Selection) -> Result<Self, PlanError> {
        let filter = selection.filter.as_deref().map(matcher).transpose()?;
        let failed = selection
            .failed_in
            .as_deref()
            .map(|path| did_not_pass(path, cases))
            .transpose()?;
        let mut chosen = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let label = label(case, index);
            let wanted = filter.as_ref().is_none_or(|filter| filter.is_match(&label));
            if wanted && failed.as_ref().is_none_or(|failed| failed.contains(&index)) {
                chosen.push(PlannedCase { index, label });
            }
        }
        if let Some(limit) = selection.limit {
            chosen.truncate(limit);
        }
        Ok(Self { cases: chosen })
    }

    pub(crate) fn of_indices(cases: &[TestCase], indices: &[usize]) -> Self {
        let cases = indices
            .iter()
            .filter_map(|&index| PlannedCase::of(cases, index))
            .collect();
        Self { cases }
    }

    pub(crate) fn indices(&self) -> Vec<usize> {
        self.cases.iter().map(|case| case.index).collect()
    }
}

impl PlannedCase {
    /// The case at `index`.
    pub(crate) fn of(cases: &[TestCase], index: usize) -> Option<Self> {
        cases.get(index).map(|case| Self {
            index,
            label: label(case, index),
        })
    }
}

/// What people call a case.
pub(crate) fn label(case: &TestCase, index: usize) -> String {
    case.name.clone().unwrap_or_else(|| format!("#{}", index + 1))
}

/// A hash of what a case asks, not of what it expects: a case that is graded differently is still the same case.
pub fn case_id(case: &TestCase) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update(text.as_bytes());
        hash.update([0]);
    };
    part(case.input.as_deref().unwrap_or(""));
    for turn in &case.turns {
        part(&turn.input);
    }
    hex(hash.finalize().iter().take(8))
}

/// Bytes in hexadecimal.
pub(crate) fn hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Places of the cases that the run of a journal was to run and that did not pass in it.
fn did_not_pass(path: &Path, cases: &[TestCase]) -> Result<HashSet<usize>, JournalError> {
    let journal = Journal::open(path)?;
    let earlier = Earlier::read(&journal)?;
    let mut places = HashSet::new();
    for (index, place) in earlier.places_of(cases) {
        let result = journal.result(place).transpose()?;
        if result.is_some_and(|result| matches!(result.state, CaseState::Failed | CaseState::Error)) {
            places.insert(index);
        }
    }
    let never_run = journal
        .header()
        .selected
        .indices(cases.len())
        .into_iter()
        .filter(|&index| !journal.is_finished(index));
    places.extend(never_run);
    Ok(places)
}

/// The cases that an earlier run finished, to be told again in today's file.
pub(crate) struct Earlier {
    ids: BTreeMap<usize, String>,
}

impl Earlier {
    pub(crate) fn read(journal: &Journal) -> Result<Self, JournalError> {
        let mut ids = BTreeMap::new();
        for result in journal.results() {
            let result = result?;
            ids.insert(result.index, result.case_id);
        }
        Ok(Self { ids })
    }

    /// Today's cases with their places in the earlier run. A case is the same if it asks the same: first where it
    /// stood, then wherever it went. No place is given out twice: two cases may ask the same.
    pub(crate) fn places_of(&self, cases: &[TestCase]) -> Vec<(usize, usize)> {
        let today: Vec<String> = cases.iter().map(case_id).collect();
        let stayed = |index: usize| {
            today
                .get(index)
                .is_some_and(|id| self.ids.get(&index) == Some(id))
        };
        let mut moved: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (&place, id) in self.ids.iter().filter(|(place, _)| !stayed(**place)) {
            moved.entry(id).or_default().push_back(place);
        }
        let place = |(index, id): (usize, &String)| {
            let place = if stayed(index) {
                Some(index)
            } else {
                moved.get_mut(id.as_str())?.pop_front()
            };
            place.map(|place| (index, place))
        };
        today.iter().enumerate().filter_map(place).collect()
    }
}

fn matcher(pattern: &str) -> Result<GlobMatcher, PlanError> {
    Glob::new(pattern)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| PlanError::Filter {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })
}
