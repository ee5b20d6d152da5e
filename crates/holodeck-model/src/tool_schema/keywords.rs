//! Repairs single keywords of a schema whose value JSON Schema does not allow, so that no endpoint refuses the request for them. It
//! must not decide about the schemas below: the walk through those is the parent module's.

use fancy_regex::Regex;
use serde_json::{Map, Value, json};

use super::{WITH_NAMED_SCHEMAS, WITH_SCHEMA, name_of_type};

/// Keywords with a number.
const NUMBERS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords with a count.
const COUNTS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];

/// Keywords with a text.
const TEXTS: [&str; 8] = [
    "title",
    "description",
    "format",
    "pattern",
    "contentEncoding",
    "contentMediaType",
    "$comment",
    "$ref",
];

/// Keywords with `true` or `false`.
const FLAGS: [&str; 5] = ["uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"];

/// Keywords about the schema itself, which change what its references are relative to, or need a draft of JSON Schema.
const ABOUT_ITSELF: [&str; 8] = [
    "$schema",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
];

/// From this size on, a floating-point number is not exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Repairs or removes what a keyword cannot have.
pub(super) fn repair(schema: &mut Map<String, Value>) {
    move_exclusive(schema, "exclusiveMinimum", "minimum");
    move_exclusive(schema, "exclusiveMaximum", "maximum");
    schema.retain(|keyword, value| {
        let keyword = keyword.as_str();
        if NUMBERS.contains(&keyword) {
            return repair_number(value) && (keyword != "multipleOf" || is_positive(value));
        }
        if COUNTS.contains(&keyword) {
            return repair_count(value);
        }
        if FLAGS.contains(&keyword) {
            return value.is_boolean();
        }
        if keyword == "pattern" {
            return value.as_str().is_some_and(|pattern| Regex::new(pattern).is_ok());
        }
        if matches!(keyword, "enum" | "const" | "default" | "examples") {
            return !is_rounded(value);
        }
        if keyword == "dependentRequired" {
            return value
                .as_object()
                .is_some_and(|named| named.values().all(is_list_of_names));
        }
        if keyword == "dependencies" {
            return value.as_object().is_some_and(|named| {
                let mut named = named.values();
                named.all(|value| is_list_of_names(value) || value.is_object() || value.is_boolean())
            });
        }
        !ABOUT_ITSELF.contains(&keyword) && (!TEXTS.contains(&keyword) || value.is_string())
    });
    if let Some(Value::Object(named)) = schema.get_mut("patternProperties") {
        named.retain(|pattern, _| Regex::new(pattern).is_ok());
    }
}

/// Properties as a list of named schemas, or with the name of a type instead of a schema, as JSON Schema writes them; with the
/// names of those that say of themselves that they are required.
pub(super) fn repair_properties(properties: Value) -> (Map<String, Value>, Vec<Value>) {
    let mut required = Vec::new();
    let named: Map<String, Value> = match properties {
        Value::Object(named) => named,
        Value::Array(list) => {
            let named = list.into_iter().filter_map(|item| {
                let Value::Object(mut schema) = item else {
                    return None;
                };
                let Some(Value::String(name)) = schema.shift_remove("name") else {
                    return None;
                };
                if schema.get("required") == Some(&Value::Bool(true)) {
                    required.push(name.as_str().into());
                }
                Some((name, Value::Object(schema)))
            });
            named.collect()
        }
        _ => Map::new(),
    };
    let named = named.into_iter().map(|(name, schema)| {
        let kind = schema.as_str().and_then(name_of_type);
        let schema = kind.map(|kind| json!({ "type": kind })).unwrap_or(schema);
        (name, schema)
    });
    (named.collect(), required)
}

/// The properties of a tool without the object around them: `{"city": {"type": "string"}}`.
pub(super) fn wrap_flat(schema: Map<String, Value>) -> Map<String, Value> {
    let is_schema = |value: &Value| {
        let keywords = ["type", "description", "enum", "anyOf", "oneOf", "$ref"];
        value
            .as_object()
            .is_some_and(|schema| keywords.into_iter().any(|keyword| schema.contains_key(keyword)))
    };
    let is_keyword = |name: &String| {
        let keywords = WITH_SCHEMA.iter().chain(&WITH_NAMED_SCHEMAS);
        keywords.into_iter().any(|keyword| keyword == name)
    };
    let is_flat = schema.values().all(is_schema) && !schema.keys().all(is_keyword);
    if !is_flat {
        return schema;
    }
    let mut root = Map::new();
    root.insert("type".to_owned(), "object".into());
    root.insert("properties".to_owned(), schema.into());
    root
}

/// The fourth draft has `exclusiveMinimum: true` beside the `minimum`.
fn move_exclusive(schema: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    if schema.get(exclusive) == Some(&Value::Bool(true))
        && let Some(value) = schema.shift_remove(bound)
    {
        schema.insert(exclusive.to_owned(), value);
    }
}

/// A number, also one that is written as a text, unless its digits were lost.
fn repair_number(value: &mut Value) -> bool {
    if let Value::String(text) = value
        && let Ok(number @ Value::Number(_)) = serde_json::from_str(text.trim())
    {
        *value = number;
    }
    value.is_number() && !is_rounded(value)
}

fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

fn repair_count(value: &mut Value) -> bool {
    if !repair_number(value) {
        return false;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole, not negative and exact"
    )]
    if let Some(number) = value
        .as_f64()
        .filter(|number| value.is_f64() && number.fract() == 0.0)
        && number >= 0.0
    {
        *value = (number as u64).into();
    }
    value.is_u64()
}

/// Whether a value has a number whose digits were lost, as a floating-point number or within the object that keeps them.
fn is_rounded(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|number| number.abs() > EXACT)
        }
        Value::Array(items) => items.iter().any(is_rounded),
        Value::Object(fields) => fields.values().any(is_rounded),
        _ => false,
    }
}

fn is_list_of_names(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|names| names.iter().all(Value::is_string))
}
