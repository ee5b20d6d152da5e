//! The variants of an agent that `holodeck test` runs one after the other.

use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The values of each axis, by the path of the field that it sets, as in `model.name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("minProperties" = 1))]
pub struct Matrix(IndexMap<String, Vec<Value>>);

impl Matrix {
    /// The axes with their values, in the order of the file.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &[Value])> {
        self.0
            .iter()
            .map(|(path, values)| (path.as_str(), values.as_slice()))
    }

    /// Every combination of the values; the last axis changes fastest.
    pub fn combinations(&self) -> Vec<Combination> {
        self.0
            .iter()
            .fold(vec![Combination::default()], |combinations, (path, values)| {
                let extend = |combination: &Combination| {
                    let with = |value: &Value| {
                        let mut longer = combination.clone();
                        longer.0.insert(path.clone(), value.clone());
                        longer
                    };
                    values.iter().map(with).collect::<Vec<_>>()
                };
                combinations.iter().flat_map(extend).collect()
            })
    }
}

/// One value for each axis of a [`Matrix`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Combination(IndexMap<String, Value>);

impl Combination {
    /// The value of each axis, by its path.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(path, value)| (path.as_str(), value))
    }

    /// The value of the axis with this path.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.0.get(path)
    }

    /// Whether it has these values of `--matrix PATH=VALUE`: values of one path are alternatives, and every path is one
    /// of its axes.
    pub fn has(&self, wanted: &[(String, String)]) -> bool {
        wanted.iter().all(|(path, _)| {
            let value = self.get(path).map(axis_value);
            let mut of_path = wanted.iter().filter(|(other, _)| other == path);
            value.is_some_and(|value| of_path.any(|(_, wanted)| *wanted == value))
        })
    }

    /// The number of axes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no axis.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value as the user writes it on the command line: a string without quotes, anything else as JSON.
pub fn axis_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `model.name=gpt-4o, instructions.file=short.md`.
impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (path, value)) in self.values().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{path}={}", axis_value(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_axis_changes_fastest() {
        let matrix: Matrix =
            serde_json::from_value(json!({"model.name": ["a", "b"], "model.temperature": [0, 0.5]})).unwrap();
        let shown: Vec<String> = matrix.combinations().iter().map(Combination::to_string).collect();
        assert_eq!(
            shown,
            [
                "model.name=a, model.temperature=0",
                "model.name=a, model.temperature=0.5",
                "model.name=b, model.temperature=0",
                "model.name=b, model.temperature=0.5",
            ]
        );
    }
}
