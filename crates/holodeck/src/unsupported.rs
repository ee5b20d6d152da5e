use std::fmt;

use holodeck_model::{LoadedAgent, Location, Need};

/// Parts of the YAML that this run needs and that can't be run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbuilt {
    /// What, and where it is written.
    pub parts: Vec<(String, Option<Location>)>,
}

impl fmt::Display for Unbuilt {
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

impl std::error::Error for Unbuilt {}

/// Refuses by name what a run of the chosen cases needs and does not get.
pub(crate) fn refuse_unbuilt(agent: &LoadedAgent, cases: Option<&[usize]>) -> Result<(), Unbuilt> {
    let parts: Vec<_> = agent
        .unsupported
        .iter()
        .filter(|part| part.needed_by_run == Need::Blocks && needed(&part.pointer, cases))
        .map(|part| (part.what.clone(), agent.locate(&part.pointer)))
        .collect();
    if parts.is_empty() {
        Ok(())
    } else {
        Err(Unbuilt { parts })
    }
}

/// Refuses by name what one tool needs and does not get.
pub(crate) fn refuse_unbuilt_tool(agent: &LoadedAgent, position: usize) -> Result<(), Unbuilt> {
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
        Err(Unbuilt { parts })
    }
}

/// A part of a case is needed only if the case is run; `None` stands for a run without cases.
fn needed(pointer: &str, cases: Option<&[usize]>) -> bool {
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
        assert!(needed("tools.0", None));
        assert!(needed("tools.0", Some(&[1])));
        assert!(needed("test_cases.1.files", Some(&[1])));
        assert!(!needed("test_cases.2.files", Some(&[1])));
        assert!(!needed("test_cases.2.files", None));
        assert!(!needed("evaluations.metrics.0", None));
    }
}
