//! Where in the repository something is that a rule counts.

/// One of the things that a ratchet counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) what: String,
}

impl Place {
    pub(super) fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}
