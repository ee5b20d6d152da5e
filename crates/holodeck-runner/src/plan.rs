use std::{collections::HashMap, fmt::Write as _};

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
        let failed = selection.failed_in.as_deref().map(Failed::read).transpose()?;
        let mut ids = Occurrences::default();
        let mut chosen = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let label = label(case, index);
            let wanted = filter.as_ref().is_none_or(|filter| filter.is_match(&label));
            let did_not_pass = match &failed {
                Some(failed) => failed.contains(&ids.next(case_id(case))),
                None => true,
            };
            if wanted && did_not_pass {
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
            .filter_map(|&index| {
                cases.get(index).map(|case| PlannedCase {
                    index,
                    label: label(case, index),
                })
            })
            .collect();
        Self { cases }
    }

    pub(crate) fn indices(&self) -> Vec<usize> {
        self.cases.iter().map(|case| case.index).collect()
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

/// Tells the n-th case of a kind from the others: two cases may ask the same.
#[derive(Default)]
pub(crate) struct Occurrences(HashMap<String, usize>);

impl Occurrences {
    pub(crate) fn next(&mut self, id: String) -> (String, usize) {
        let count = self.0.entry(id.clone()).or_default();
        *count += 1;
        (id, *count)
    }
}

/// The cases that did not pass in an earlier run, and those it did not finish.
struct Failed {
    passed: std::collections::HashSet<(String, usize)>,
}

impl Failed {
    fn read(path: &std::path::Path) -> Result<Self, JournalError> {
        let journal = Journal::open(path)?;
        let mut ids = Occurrences::default();
        let mut passed = std::collections::HashSet::new();
        for result in journal.results() {
            let result = result?;
            let id = ids.next(result.case_id);
            if matches!(result.state, CaseState::Passed | CaseState::Unchecked) {
                passed.insert(id);
            }
        }
        Ok(Self { passed })
    }

    fn contains(&self, id: &(String, usize)) -> bool {
        !self.passed.contains(id)
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
