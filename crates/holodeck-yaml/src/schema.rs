//! The JSON Schema of the language, generated from its types. It is kept in `schema/*.json`, so that the program need not
//! have the generator.

mod examples;

use std::{collections::HashSet, sync::LazyLock};

use holodeck_model::{Agent, GlobalConfig};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::shape::{ShapeKind, Shapes};

/// The JSON Schema of `agent.yaml`, for editors.
///
/// It cannot express rules across fields; `holodeck validate` checks them.
pub fn json_schema() -> Value {
    kept(include_str!("schema/agent.json"))
}

/// The JSON Schema of `config.yaml`, for editors.
pub fn config_json_schema() -> Value {
    kept(include_str!("schema/config.json"))
}

/// A test compares the texts with the types.
fn kept(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// The JSON Schema of `agent` or `config`, as the types have it: what the kept ones must be.
#[doc(hidden)]
pub fn generate_schema(of: &str) -> Option<Value> {
    match of {
        "agent" => Some(publish(raw::<Agent>(), "HoloDeck agent")),
        "config" => Some(publish(raw::<GlobalConfig>(), "HoloDeck configuration")),
        _ => None,
    }
}

/// The file in which a schema is kept: one definition a line, so that a change shows in a few lines.
#[doc(hidden)]
pub fn write_schema(schema: &Value) -> String {
    let of = |map: &Map<String, Value>| {
        let fields = map.iter().map(|(name, value)| match value {
            Value::Object(defs) if name == "$defs" => {
                let defs = defs.iter().map(|(name, def)| format!("{}:{def}", json!(name)));
                format!("\"$defs\":{{\n{}}}", defs.collect::<Vec<_>>().join(",\n"))
            }
            value => format!("{}:{value}", json!(name)),
        });
        fields.collect::<Vec<_>>().join(",\n")
    };
    format!("{{{}}}\n", schema.as_object().map(of).unwrap_or_default())
}

pub(crate) static AGENT: LazyLock<Shapes> = LazyLock::new(|| Shapes::kept(include_str!("shape/agent.json")));
pub(crate) static GLOBAL: LazyLock<Shapes> =
    LazyLock::new(|| Shapes::kept(include_str!("shape/config.json")));
pub(crate) static FRONT_MATTER: LazyLock<Shapes> =
    LazyLock::new(|| Shapes::kept(include_str!("shape/front_matter.json")));

/// The block at the top of an instruction file. Further keys are kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct FrontMatter {
    /// Version of the instructions.
    pub(crate) version: Option<String>,
    /// Author of the instructions.
    pub(crate) author: Option<String>,
    /// Description of the instructions.
    pub(crate) description: Option<String>,
    /// Tags of the instructions.
    pub(crate) tags: Option<Vec<String>>,
}

/// Whether the language has a field of this name anywhere.
pub(crate) fn is_field(name: &str) -> bool {
    static FIELDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
        let shapes = [&AGENT, &GLOBAL, &FRONT_MATTER]
            .into_iter()
            .flat_map(|shapes| shapes.all());
        let records = shapes.flat_map(|shape| match &shape.kind {
            ShapeKind::Record(record) => vec![record],
            ShapeKind::Tagged { variants, .. } => variants.iter().map(|(_, record)| record).collect(),
            _ => Vec::new(),
        });
        let fields = records.flat_map(|record| record.fields.keys().map(String::as_str));
        fields.chain(["type"]).collect()
    });
    FIELDS.contains(name)
}

pub(crate) fn raw<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// The published schema: without internal keywords, with explicit variants for metrics whose `type` is optional, and with an
/// example of every field.
fn publish(mut schema: Value, title: &str) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".to_owned(), json!(title));
        if let Some(defs) = map.get_mut("$defs").and_then(Value::as_object_mut)
            && let Some(inferred) = defs.get("MetricConfig").map(infer_metric)
        {
            defs.insert("InferredMetricConfig".to_owned(), inferred);
        }
    }
    clean(&mut schema);
    examples::add(&mut schema);
    schema
}

/// The metric union with `type` optional: a key that only one metric has identifies it.
fn infer_metric(metric: &Value) -> Value {
    let mut inferred = metric.clone();
    for variant in inferred
        .get_mut("oneOf")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(required) = variant.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != "type");
        }
    }
    inferred
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("x-type-may-be-absent") {
                *map = Map::from_iter([("$ref".to_owned(), json!("#/$defs/InferredMetricConfig"))]);
            }
            map.retain(|key, _| !key.starts_with("x-"));
            for inner in map.values_mut() {
                clean(inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}
