use std::{collections::HashSet, fmt::Write as _, path::Path};

use globset::{Glob, GlobMatcher};
use holodeck_model::{CaseIdentity, TestCase, match_cases};

use crate::{Journal, JournalError};

/// Which cases of the file to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Cases whose name matches.
    pub filter: Option<String>,
    /// The first N of what is left.
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
    pub fn new(
        cases: &[TestCase],
        identities: &[CaseIdentity],
        selection: &Selection,
    ) -> Result<Self, PlanError> {
        let filter = selection.filter.as_deref().map(matcher).transpose()?;
        let failed = selection
            .failed_in
            .as_deref()
            .map(|path| did_not_pass(path, cases, identities))
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

    pub(crate) fn indices(&self) -> Vec<usize> {
        self.cases.iter().map(|case| case.index).collect()
    }
}

/// What people call a case.
pub(crate) fn label(case: &TestCase, index: usize) -> String {
    case.name.clone().unwrap_or_else(|| format!("#{}", index + 1))
}

/// Bytes in hexadecimal.
pub(crate) fn hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Places in today's file of the cases that did not pass in the run of a journal, or have no verdict in it. A case that
/// asks something else now, or is new, has none.
fn did_not_pass(
    path: &Path,
    cases: &[TestCase],
    identities: &[CaseIdentity],
) -> Result<HashSet<usize>, PlanError> {
    let journal = Journal::open(path)?;
    let not_passed: HashSet<usize> = journal.not_passed()?.into_iter().collect();
    let planned = planned_now(&journal, cases, identities)?;
    let failed = planned
        .into_iter()
        .filter(|(_, earlier)| earlier.is_none_or(|place| not_passed.contains(&place)));
    Ok(failed.map(|(index, _)| index).collect())
}

/// Today's cases that belong to the plan of an earlier run, each with its place in that plan. A case that was added or
/// reworded belongs to it if the run would have chosen it.
pub(crate) fn planned_now(
    journal: &Journal,
    cases: &[TestCase],
    identities: &[CaseIdentity],
) -> Result<Vec<(usize, Option<usize>)>, PlanError> {
    let selected = &journal.header().selected;
    let chosen = if selected.failed {
        Plan::default()
    } else {
        let selection = Selection {
            filter: selected.filter.clone(),
            limit: selected.limit,
            failed_in: None,
        };
        Plan::new(cases, identities, &selection)?
    };
    let chosen: HashSet<usize> = chosen.cases.iter().map(|case| case.index).collect();
    let places = match_cases(journal.plan(), identities).into_iter().enumerate();
    Ok(places
        .filter(|(index, earlier)| earlier.is_some() || chosen.contains(index))
        .collect())
}

fn matcher(pattern: &str) -> Result<GlobMatcher, PlanError> {
    Glob::new(pattern)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| PlanError::Filter {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })
}
