//! The options of a comparison: its level of significance, and the changes that its gate allows.

/// The tests of a comparison, and the changes that its gate allows.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers fill it in as a literal")]
pub struct GateOptions {
    /// Whether the gate decides about the exit code.
    pub gate: bool,
    /// The level of significance.
    pub alpha: f64,
    /// Whether cases of the earlier run may be missing from the later one.
    pub allow_missing: bool,
    /// Whether something else may be expected of cases; they are not compared.
    pub allow_changed_expectations: bool,
    /// Whether another judge or grader program may decide; what it decides is not compared.
    pub allow_changed_judges: bool,
    /// How many cases that passed may not pass now, with those that are new and do not pass.
    pub max_new_failures: Option<usize>,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            gate: false,
            alpha: 0.05,
            allow_missing: false,
            allow_changed_expectations: false,
            allow_changed_judges: false,
            max_new_failures: None,
        }
    }
}
