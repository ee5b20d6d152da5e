//! A problem with the configuration of a metric, and its field. Must not know how metrics are computed.

/// A problem with the configuration of a metric.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    pub(crate) text: String,
    pub(crate) field: Option<&'static str>,
}

impl ConfigProblem {
    /// A problem of one field.
    pub(crate) fn of(field: &'static str, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            field: Some(field),
        }
    }
}

impl From<String> for ConfigProblem {
    fn from(text: String) -> Self {
        Self { text, field: None }
    }
}
