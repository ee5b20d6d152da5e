//! One rule of an approval policy: which calls it is about, and what it decides.

use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    ApprovalPriority, ApprovalRule, ArgMatcher, RuleDecision, ToolPattern,
    value::{Glob, PathBases, PathGlob},
    without_pattern,
};

/// A rule of the YAML, ready to be matched.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) tools: Vec<Glob>,
    /// `None` for a rule without `paths`; a pattern that cannot be applied is absent.
    pub(super) paths: Option<Vec<PathGlob>>,
    pub(super) arguments: IndexMap<String, ArgMatcher>,
    pub(super) verdict: Verdict,
}

/// The decision of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Fixed(RuleDecision),
    Person(Option<ApprovalPriority>),
}

/// An entry of an allow or deny list.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) written: String,
    pub(super) tool: String,
    /// `None` if the entry cannot be applied: then it denies, and allows nothing.
    pub(super) pattern: Option<ToolPattern>,
}

impl Entry {
    pub(super) fn new(written: &str) -> Self {
        Self {
            written: written.trim().to_owned(),
            tool: without_pattern(written).to_owned(),
            pattern: None,
        }
    }

    pub(super) fn has_pattern(&self) -> bool {
        self.written.contains('(')
    }
}

impl Rule {
    pub(super) fn new(
        rule: &ApprovalRule,
        bases: &PathBases,
        resolve: impl Fn(PathGlob) -> PathGlob,
    ) -> Self {
        let verdict = match rule.decision {
            Some(decision) => Verdict::Fixed(decision),
            None => Verdict::Person(rule.priority),
        };
        let paths = rule.paths.as_ref().map(|paths| {
            let globs = paths.as_slice().iter();
            let globs = globs.filter_map(|text| PathGlob::parse(text, bases).ok());
            globs.map(resolve).collect()
        });
        Self {
            tools: rule.tools.as_slice().iter().map(|glob| Glob::new(glob)).collect(),
            paths,
            arguments: rule.arguments.clone(),
            verdict,
        }
    }

    pub(super) fn fits_arguments(&self, arguments: &Value) -> bool {
        let fits = |(name, matcher): (&String, &ArgMatcher)| {
            arguments.get(name).is_some_and(|found| matcher.matches(found))
        };
        self.arguments.iter().all(fits)
    }
}
