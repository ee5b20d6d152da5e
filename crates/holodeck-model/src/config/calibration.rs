//! Which calibration a judged metric requires.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Whether a run needs a calibration of the judge: `true`, or what the calibration must reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RequireCalibrated {
    /// Required with the default minimum, or not required.
    Flag(bool),
    /// Required with this minimum.
    AtLeast(CalibrationMinimum),
}

/// The agreement that a calibration must reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationMinimum {
    /// The lowest Cohen's κ; 0.6 if absent.
    #[serde(default = "min_kappa")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_kappa: f64,
    /// The lowest number of labels; 10 if absent.
    #[serde(default = "min_labels")]
    #[schemars(range(min = 10))]
    pub min_labels: u32,
}

impl Default for CalibrationMinimum {
    fn default() -> Self {
        Self {
            min_kappa: min_kappa(),
            min_labels: min_labels(),
        }
    }
}

fn min_kappa() -> f64 {
    0.6
}

fn min_labels() -> u32 {
    10
}

impl RequireCalibrated {
    /// The required agreement; `None` if nothing is required.
    pub fn minimum(self) -> Option<CalibrationMinimum> {
        match self {
            Self::Flag(required) => required.then(CalibrationMinimum::default),
            Self::AtLeast(minimum) => Some(minimum),
        }
    }
}

impl<'de> Deserialize<'de> for RequireCalibrated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RequirementVisitor;

        impl<'de> Visitor<'de> for RequirementVisitor {
            type Value = RequireCalibrated;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or a mapping with `min_kappa` and `min_labels`")
            }

            fn visit_bool<E: de::Error>(self, required: bool) -> Result<RequireCalibrated, E> {
                Ok(RequireCalibrated::Flag(required))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RequireCalibrated, A::Error> {
                CalibrationMinimum::deserialize(MapAccessDeserializer::new(map))
                    .map(RequireCalibrated::AtLeast)
            }
        }

        // The YAML deserializer accepts every way to write a boolean; a mapping still arrives as a mapping.
        deserializer.deserialize_bool(RequirementVisitor)
    }
}

impl JsonSchema for RequireCalibrated {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RequireCalibrated".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let minimum = generator.subschema_for::<CalibrationMinimum>();
        json_schema!({ "anyOf": [{ "type": "boolean" }, minimum] })
    }
}
