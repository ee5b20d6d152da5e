//! The parts of a run that is spread over several machines.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Env;
use crate::env::{CI_NODE_INDEX, CI_NODE_TOTAL, HOLODECK_SHARDS, JOB_COMPLETION_INDEX};

/// One of the parts of a run: `2/3` is the second of three. A part has every third case, from its own number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// From 1.
    index: u32,
    count: u32,
}

/// Why there is no such shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// Not two numbers.
    #[error("expected `i/n`, as in `2/3`")]
    Form,
    /// The number is not one of the parts.
    #[error("shard {index} of {count} does not exist: shards are numbered from 1 to {count}")]
    Range {
        /// The number.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// There must be at least one.
    #[error("the number of shards must be at least 1")]
    None,
    /// No variable says which shard it is.
    #[error(
        "no variable says which shard this is: neither `{CI_NODE_INDEX}` nor `{JOB_COMPLETION_INDEX}` is set"
    )]
    NoVariables,
    /// A variable is set without the other one.
    #[error("`{set}` is set, but `{missing}` is not")]
    Missing {
        /// This one is set.
        set: &'static str,
        /// This one is not.
        missing: &'static str,
    },
    /// A variable is not a number.
    #[error("`{name}` must be a whole number, found `{value}`")]
    Number {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Two pairs of variables name different shards.
    #[error(
        "`{CI_NODE_INDEX}` and `{CI_NODE_TOTAL}` name shard {gitlab}, but `{JOB_COMPLETION_INDEX}` and \
         `{HOLODECK_SHARDS}` name shard {kubernetes}"
    )]
    Contradiction {
        /// By the variables of GitLab.
        gitlab: Shard,
        /// By those of Kubernetes.
        kubernetes: Shard,
    },
}

impl Shard {
    /// The shard with this number, from 1.
    pub fn new(index: u32, count: u32) -> Result<Self, ShardError> {
        match (index, count) {
            (_, 0) => Err(ShardError::None),
            (1.., _) if index <= count => Ok(Self { index, count }),
            _ => Err(ShardError::Range { index, count }),
        }
    }

    /// Its number, from 1.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many shards there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether it has the case at this place, from 0, of those that the whole run selects.
    pub fn has(self, place: usize) -> bool {
        place % self.count as usize == self.index as usize - 1
    }

    /// How many of this many cases it has.
    pub fn size(self, cases: usize) -> usize {
        (cases + (self.count - self.index) as usize) / self.count as usize
    }

    /// The shard that a CI server or Kubernetes gives this machine.
    pub fn from_env(env: &Env) -> Result<Self, ShardError> {
        let gitlab = pair(env, CI_NODE_INDEX, CI_NODE_TOTAL)?;
        // Kubernetes counts from 0.
        let kubernetes = pair(env, JOB_COMPLETION_INDEX, HOLODECK_SHARDS)?
            .map(|(index, count)| (index.saturating_add(1), count));
        let shard = |(index, count)| Self::new(index, count);
        match (gitlab.map(shard).transpose()?, kubernetes.map(shard).transpose()?) {
            (None, None) => Err(ShardError::NoVariables),
            (Some(gitlab), Some(kubernetes)) if gitlab != kubernetes => {
                Err(ShardError::Contradiction { gitlab, kubernetes })
            }
            (Some(shard), _) | (None, Some(shard)) => Ok(shard),
        }
    }
}

fn pair(env: &Env, index: &'static str, count: &'static str) -> Result<Option<(u32, u32)>, ShardError> {
    let number = |name: &'static str, value: &str| {
        parse_number(value).ok_or_else(|| ShardError::Number {
            name,
            value: value.to_owned(),
        })
    };
    match (env.non_blank(index), env.non_blank(count)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(ShardError::Missing {
            set: index,
            missing: count,
        }),
        (None, Some(_)) => Err(ShardError::Missing {
            set: count,
            missing: index,
        }),
        (Some(this), Some(all)) => Ok(Some((number(index, this)?, number(count, all)?))),
    }
}

fn parse_number(text: &str) -> Option<u32> {
    // `parse` accepts a sign.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (index, count) = text.split_once('/').ok_or(ShardError::Form)?;
        match (parse_number(index), parse_number(count)) {
            (Some(index), Some(count)) => Self::new(index, count),
            _ => Err(ShardError::Form),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// Which part of a run this is, as journals and reports record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a record that journals and reports share"
)]
pub struct ShardPart {
    /// Its number, from 1.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
    /// The cases of all parts.
    pub cases: usize,
}

impl ShardPart {
    /// A part of this many cases.
    pub fn new(shard: Shard, cases: usize) -> Self {
        Self {
            index: shard.index,
            count: shard.count,
            cases,
        }
    }

    /// The line in every summary and report of this part, which has `own` cases.
    pub fn describe(&self, own: usize) -> String {
        let Self { index, count, cases } = self;
        format!("shard {index} of {count}: {own} of {cases} cases; `holodeck test merge` decides about all")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        variables.iter().copied().collect()
    }

    #[test]
    fn each_case_is_in_exactly_one_shard() {
        for count in 1..=7 {
            let shards: Vec<_> = (1..=count)
                .map(|index| Shard::new(index, count).unwrap())
                .collect();
            for cases in 0..20 {
                for place in 0..cases {
                    assert_eq!(shards.iter().filter(|shard| shard.has(place)).count(), 1);
                }
                for shard in &shards {
                    let own = (0..cases).filter(|&place| shard.has(place)).count();
                    assert_eq!(shard.size(cases), own, "{shard} of {cases}");
                }
            }
        }
    }

    #[test]
    fn only_existing_shards_are_accepted() {
        assert_eq!("2/3".parse(), Shard::new(2, 3));
        for text in [
            "0/3",
            "4/3",
            "1/0",
            "0/0",
            "",
            "2",
            "/",
            "a/3",
            "-1/3",
            "+1/3",
            "1/3/3",
            " 1/3",
            "1/99999999999",
        ] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn variables_name_the_shard() {
        let gitlab = [("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "3")];
        let kubernetes = [("JOB_COMPLETION_INDEX", "0"), ("HOLODECK_SHARDS", "3")];
        assert_eq!(Shard::from_env(&env(&gitlab)), Shard::new(2, 3));
        assert_eq!(Shard::from_env(&env(&kubernetes)), Shard::new(1, 3));
        let agreeing = [gitlab[0], gitlab[1], ("JOB_COMPLETION_INDEX", "1"), kubernetes[1]];
        assert_eq!(Shard::from_env(&env(&agreeing)), Shard::new(2, 3));
    }

    #[test]
    fn missing_and_contradicting_variables_are_errors() {
        let gitlab = [("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "3")];
        let other = [("JOB_COMPLETION_INDEX", "1"), ("HOLODECK_SHARDS", "3")];
        let contradicting = [gitlab[0], gitlab[1], other[0], other[1]];
        let errors: [(&[(&str, &str)], &str); 9] = [
            (&[], "no variable says which shard this is"),
            (
                &[("CI_NODE_TOTAL", "1")],
                "`CI_NODE_TOTAL` is set, but `CI_NODE_INDEX` is not",
            ),
            (
                &[("CI_NODE_INDEX", "1")],
                "`CI_NODE_INDEX` is set, but `CI_NODE_TOTAL` is not",
            ),
            (&[("JOB_COMPLETION_INDEX", "0")], "but `HOLODECK_SHARDS` is not"),
            (
                &[("HOLODECK_SHARDS", "3"), ("JOB_COMPLETION_INDEX", "")],
                "but `JOB_COMPLETION_INDEX` is not",
            ),
            (
                &[("JOB_COMPLETION_INDEX", "3"), ("HOLODECK_SHARDS", "3")],
                "shard 4 of 3 does not exist",
            ),
            (
                &[("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "3")],
                "shard 0 of 3 does not exist",
            ),
            (
                &[("CI_NODE_INDEX", "one"), ("CI_NODE_TOTAL", "3")],
                "`CI_NODE_INDEX` must be a whole number, found `one`",
            ),
            (&contradicting, "name shard 1/3, but"),
        ];
        for (variables, expected) in errors {
            let error = Shard::from_env(&env(variables)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
