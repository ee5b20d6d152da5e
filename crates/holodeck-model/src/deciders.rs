//! The identities of what decides a verdict beside the agent: the expectation, the judge and the grader program.
//!
//! The only definition of each. They are stored with every verdict; resume, merge, regrade, `--failed`, comparisons and
//! baselines compare them. This module must not read files: the caller opens the files of a grader and passes their
//! digest.

mod check;
mod steps;

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

pub use check::{CheckIdentities, CheckReads, GraderFiles, check_label};
pub use steps::DerivedSteps;

use crate::{
    case::hexadecimal,
    identity::{digest_text, sorted_text},
};

/// The beginning of the SHA-256 of a canonical JSON value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
pub struct Digest(#[schemars(with = "String")] [u8; 16]);

hexadecimal!(Digest);

impl Digest {
    /// The digest of a JSON value, whose order of keys does not count.
    pub fn of(value: &Value) -> Self {
        Self::of_text(&sorted_text(value))
    }

    /// The digest of the JSON value with this text, whose keys are in order.
    fn of_text(text: &str) -> Self {
        Self(digest_text(text))
    }

    /// The digest of several digests: the same for every order, and for every number of equal ones.
    pub fn of_all(digests: impl IntoIterator<Item = Self>) -> Option<Self> {
        let digests: std::collections::BTreeSet<Self> = digests.into_iter().collect();
        if digests.len() < 2 {
            return digests.into_iter().next();
        }
        Some(Self::of(&digests.iter().map(Self::to_string).collect()))
    }
}

/// Everything that decides the verdict of one check. An absent expectation is unknown: an earlier version wrote the
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::exhaustive_structs, reason = "stored data")]
pub struct CheckIdentity {
    /// The expectation of the check: its kind, parameters and threshold, and the texts of the case that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expectation: Option<Digest>,
    /// The judges as they are configured, and what shapes their prompts; absent for a check that asks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Digest>,
    /// The program that grades, with its files; absent for a check that runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grader: Option<Digest>,
}

impl CheckIdentity {
    /// Whether it is unknown.
    pub fn is_unknown(&self) -> bool {
        self.expectation.is_none()
    }

    /// The parts that differ; `None` if one of both is unknown.
    pub fn differences(&self, other: &Self) -> Option<Vec<Decider>> {
        if self.is_unknown() || other.is_unknown() {
            return None;
        }
        let pairs = [
            (Decider::Expectation, self.expectation == other.expectation),
            (Decider::Judge, self.judge == other.judge),
            (Decider::Grader, self.grader == other.grader),
        ];
        let differing = pairs.into_iter().filter(|(_, equal)| !equal);
        Some(differing.map(|(decider, _)| decider).collect())
    }
}

/// Digests by the names of what they identify.
pub type Digests = BTreeMap<String, Digest>;

/// Everything that decides the verdict on a case. Empty expectations are unknown: an earlier version wrote the file, or
/// grading crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::exhaustive_structs, reason = "stored data")]
pub struct CaseDeciders {
    /// Every check and every rule, such as `forbidden_tools`; those of a conversation begin with the turn.
    #[serde(default)]
    pub expectations: Digests,
    /// The judges of each check that asks some.
    #[serde(default, skip_serializing_if = "Digests::is_empty")]
    pub judges: Digests,
    /// The program of each check that runs one.
    #[serde(default, skip_serializing_if = "Digests::is_empty")]
    pub graders: Digests,
}

/// The name in [`CaseDeciders::expectations`] of what holds for every case, so that known expectations are never empty.
const FORMAT: &str = "format";

/// The name of the rule how many trials must pass.
pub const TRIALS_RULE: &str = "min_passes";

impl CaseDeciders {
    /// Those of a case without checks and rules.
    pub fn known() -> Self {
        static OF_FORMAT: LazyLock<Digest> =
            LazyLock::new(|| Digest::of(&Value::from(crate::IDENTITY_FORMAT)));
        let mut deciders = Self::default();
        deciders.add_rule(FORMAT.to_owned(), *OF_FORMAT);
        deciders
    }

    /// Whether it is unknown what decided.
    pub fn is_unknown(&self) -> bool {
        self.expectations.is_empty()
    }

    /// Adds a rule.
    pub fn add_rule(&mut self, name: String, rule: Digest) {
        self.expectations.insert(name, rule);
    }

    /// Adds a check.
    pub fn add_check(&mut self, name: &str, identity: CheckIdentity) {
        let parts = [
            (&mut self.expectations, identity.expectation),
            (&mut self.judges, identity.judge),
            (&mut self.graders, identity.grader),
        ];
        for (digests, digest) in parts {
            digests.extend(digest.map(|digest| (name.to_owned(), digest)));
        }
    }

    /// These, with how many trials must pass. That all must pass is the rule of every case that does not say otherwise.
    pub fn with_trials(mut self, count: u32, min_passes: u32) -> Self {
        if min_passes < count && !self.is_unknown() {
            let rule = Digest::of(&Value::from(vec![min_passes, count]));
            self.add_rule(TRIALS_RULE.to_owned(), rule);
        }
        self
    }

    /// The differences, by name; `None` if one of both is unknown.
    pub fn differences(&self, other: &Self) -> Option<Vec<Difference>> {
        if self.is_unknown() || other.is_unknown() {
            return None;
        }
        let lists = [
            (Decider::Expectation, &self.expectations, &other.expectations),
            (Decider::Judge, &self.judges, &other.judges),
            (Decider::Grader, &self.graders, &other.graders),
        ];
        let differing = lists.into_iter().flat_map(|(decider, one, two)| {
            differing(one, two).map(move |part| Difference {
                decider,
                part: part.clone(),
            })
        });
        let mut found: Vec<Difference> = differing.collect();
        // The judge of a check that was added or removed is no difference of its own.
        let is_new =
            |part: &str| self.expectations.contains_key(part) != other.expectations.contains_key(part);
        found.retain(|difference| difference.decider == Decider::Expectation || !is_new(&difference.part));
        Some(found)
    }
}

/// The names whose digests differ, or that only one side has.
fn differing<'a>(one: &'a Digests, two: &'a Digests) -> impl Iterator<Item = &'a String> {
    let only_two = two.keys().filter(|name| !one.contains_key(*name));
    let in_one = one.iter().filter(|(name, digest)| two.get(*name) != Some(digest));
    in_one.map(|(name, _)| name).chain(only_two)
}

/// A part that can decide a verdict, besides the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "every command has a rule for each")]
pub enum Decider {
    /// The expectation.
    Expectation,
    /// Who judges.
    Judge,
    /// The program that grades.
    Grader,
}

impl Decider {
    /// `expectation`, `judge` or `grader`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expectation => "expectation",
            Self::Judge => "judge",
            Self::Grader => "grader",
        }
    }
}

/// A check or a rule that another one decides now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "two names")]
pub struct Difference {
    /// The part that differs.
    pub decider: Decider,
    /// The check or the rule.
    pub part: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decider {
            // The rule of the format has no name of its own.
            Decider::Expectation if self.part == FORMAT => f.write_str("the format of identities"),
            Decider::Expectation => write!(f, "the expectation `{}`", self.part),
            Decider::Judge => write!(f, "the judge of `{}`", self.part),
            Decider::Grader => write!(f, "the grader program of `{}`", self.part),
        }
    }
}

/// Names differences, each once: `the expectation "contains", the judge of "Kind"`.
pub fn describe_differences<'a>(differences: impl IntoIterator<Item = &'a Difference>) -> String {
    let distinct: std::collections::BTreeSet<&Difference> = differences.into_iter().collect();
    let names: Vec<String> = distinct.into_iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
