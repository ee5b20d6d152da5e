//! The assumptions of the product about the CLI, name by name. A drift is a change here, in the product, or in both.

use super::install::CLIS;

mod cli;
mod sdk;
mod wire;

pub(super) struct Area {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) rows: &'static [Row],
}

/// One name.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The expected result of a scenario; `None` if only the types can show it.
    assumed: Option<&'static str>,
    /// The behaviour of the older release, if it differs.
    older: Option<&'static str>,
    /// A declaration of the SDK and a word it has.
    pub(super) types: Option<(&'static str, &'static str)>,
}

/// Neither a run nor a type shows it.
pub(super) const NOTHING: &str = "–";

pub(super) const AREAS: &[Area] = &[
    cli::BINARY,
    cli::OPTIONS,
    cli::PERMISSIONS,
    cli::ENVIRONMENT,
    wire::HANDSHAKE,
    wire::SESSION,
    wire::MESSAGES,
    wire::RESULTS,
    wire::TOOLS,
    sdk::ENTRY,
];

impl Row {
    /// Whether this is different for every release by its nature.
    pub(super) fn names_the_release(&self) -> bool {
        ["--version", "bytes of the binary"].contains(&self.name)
    }

    /// The expected behaviour of this release. An unknown binary is checked as the newest pinned one.
    pub(super) fn assumed_of(&self, version: &str) -> Option<&'static str> {
        let [_, older] = CLIS;
        match self.older {
            Some(own) if version == older.version => Some(own),
            _ => self.assumed,
        }
    }

    const fn older(mut self, assumed: &'static str) -> Self {
        self.older = Some(assumed);
        self
    }

    const fn types(mut self, declaration: &'static str, member: &'static str) -> Self {
        self.types = Some((declaration, member));
        self
    }
}

const fn row(name: &'static str, assumed: &'static str) -> Row {
    Row {
        name,
        assumed: Some(assumed),
        older: None,
        types: None,
    }
}

/// Rows that only the types can show.
const fn published(name: &'static str, declaration: &'static str, member: &'static str) -> Row {
    Row {
        name,
        assumed: None,
        older: None,
        types: Some((declaration, member)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{AREAS, Row};

    #[test]
    fn each_name_is_checked_once_somehow() {
        let rows: Vec<&Row> = AREAS.iter().flat_map(|area| area.rows).collect();
        let names: BTreeSet<(&str, bool)> =
            rows.iter().map(|row| (row.name, row.assumed.is_some())).collect();
        assert_eq!(names.len(), rows.len());
        assert!(
            rows.iter()
                .all(|row| row.assumed.is_some() || row.types.is_some())
        );
        assert!(
            rows.iter()
                .all(|row| row.older.is_none() || row.older != row.assumed)
        );
    }
}
