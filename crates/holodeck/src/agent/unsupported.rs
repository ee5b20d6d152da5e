//! Refuses a run that needs parts of the YAML which this version accepts but cannot execute.
//!
//! A part that only unselected cases need does not stop the run.

use std::fmt;

use holodeck_model::{Location, Need};
use holodeck_yaml::LoadedAgent;

/// Parts of the YAML that this run needs and that this version can't run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedParts {
    /// Each part and its place.
    pub parts: Vec<(String, Option<Location>)>,
}

impl fmt::Display for UnsupportedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this version can't run")?;
        for (index, (what, location)) in self.parts.iter().enumerate() {
            f.write_str(if index == 0 { " " } else { ", " })?;
            f.write_str(what)?;
            if let Some(location) = location {
                write!(f, " ({location})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for UnsupportedParts {}

/// Returns an error that lists the unsupported parts that a run of the selected cases needs.
pub(crate) fn refuse_unsupported(
    agent: &LoadedAgent,
    cases: Option<&[usize]>,
) -> Result<(), UnsupportedParts> {
    let parts: Vec<_> = agent
        .unsupported
        .iter()
        .filter(|part| part.needed_by_run == Need::Blocks && is_needed(&part.pointer, cases))
        .map(|part| (part.what.clone(), agent.locate(&part.pointer)))
        .collect();
    if parts.is_empty() {
        Ok(())
    } else {
        Err(UnsupportedParts { parts })
    }
}

/// Returns an error that lists the unsupported parts of one tool.
pub(crate) fn refuse_unsupported_tool(agent: &LoadedAgent, position: usize) -> Result<(), UnsupportedParts> {
    let own = format!("tools.{position}");
    let is_own = |pointer: &str| {
        pointer
            .strip_prefix(&own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let parts: Vec<_> = agent
        .unsupported
        .iter()
        .filter(|part| part.needed_by_run == Need::Blocks && is_own(&part.pointer))
        .map(|part| (part.what.clone(), agent.locate(&part.pointer)))
        .collect();
    if parts.is_empty() {
        Ok(())
    } else {
        Err(UnsupportedParts { parts })
    }
}

/// Whether a part is needed. A part of a case is needed only if the case is run; `None` means a run without cases.
fn is_needed(pointer: &str, cases: Option<&[usize]>) -> bool {
    let Some(rest) = pointer.strip_prefix("test_cases.") else {
        return cases.is_some() || !pointer.starts_with("evaluations");
    };
    let index = rest
        .split('.')
        .next()
        .and_then(|index| index.parse::<usize>().ok());
    match (cases, index) {
        (None, _) => false,
        (Some(cases), Some(index)) => cases.contains(&index),
        (Some(_), None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_is_not_run_needs_nothing() {
        assert!(is_needed("tools.0", None));
        assert!(is_needed("tools.0", Some(&[1])));
        assert!(is_needed("test_cases.1.files", Some(&[1])));
        assert!(!is_needed("test_cases.2.files", Some(&[1])));
        assert!(!is_needed("test_cases.2.files", None));
        assert!(!is_needed("evaluations.metrics.0", None));
    }
}
