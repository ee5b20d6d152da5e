//! Examples of the fields: those of a table, and for the others what follows from their schema.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

/// Examples by `Definition.field`, by `Definition.type.field` where `type` decides, else by the name of the field.
static TABLE: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// Deeper than the definitions refer to each other.
const MAX_DEPTH: usize = 8;

/// Adds an example to every field of a schema.
pub(super) fn add(schema: &mut Value) {
    let whole = schema.clone();
    let defs = whole.get("$defs");
    let examples = Examples { defs };
    examples.add(schema, "");
    let defs = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for (name, schema) in defs.into_iter().flatten() {
        examples.add(schema, name);
    }
}

struct Examples<'s> {
    defs: Option<&'s Value>,
}

impl<'s> Examples<'s> {
    /// Adds examples to the fields of a definition.
    fn add(&self, schema: &mut Value, owner: &str) {
        let owner = with_kind(owner, schema);
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (name, field) in fields.into_iter().flatten() {
            let example = self.of_field(&owner, name, field, 0);
            if let (Some(example), Some(field)) = (example, field.as_object_mut()) {
                field.insert("examples".to_owned(), json!([example]));
            }
        }
        for key in ["anyOf", "oneOf"] {
            let alternatives = schema.get_mut(key).and_then(Value::as_array_mut);
            for alternative in alternatives.into_iter().flatten() {
                self.add(alternative, &owner);
            }
        }
    }

    fn of_field(&self, owner: &str, name: &str, schema: &Value, depth: usize) -> Option<Value> {
        let own = TABLE.get(&format!("{owner}.{name}"));
        let shared = || {
            TABLE
                .get(name)
                .filter(|example| self.fits(example, schema, depth))
        };
        own.or_else(shared)
            .cloned()
            .or_else(|| self.derived(schema, "", depth))
    }

    /// An example that follows from the schema alone: the first choice, the other value of a switch, the default.
    fn derived(&self, schema: &Value, owner: &str, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some((name, target)) = self.target(schema) {
            return self.derived(target, name, depth + 1);
        }
        if let Some(constant) = schema.get("const") {
            return Some(constant.clone());
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return choices.first().cloned();
        }
        if let Some(example) = alternatives(schema).find_map(|choice| self.derived(choice, owner, depth + 1))
        {
            return Some(example);
        }
        let default = schema.get("default").filter(|default| !default.is_null());
        match types(schema).find(|name| *name != "null")? {
            "boolean" => Some(json!(!default.and_then(Value::as_bool).unwrap_or_default())),
            "array" => {
                let item = self.derived(schema.get("items")?, "", depth + 1)?;
                Some(json!([item]))
            }
            "object" => self.derived_object(schema, owner, depth),
            _ => default.cloned(),
        }
    }

    /// The fields that must be there, else the first one.
    fn derived_object(&self, schema: &Value, owner: &str, depth: usize) -> Option<Value> {
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
            let values = schema.get("additionalProperties").filter(|it| it.is_object())?;
            return Some(json!({ "NAME": self.derived(values, "", depth + 1)? }));
        };
        let owner = with_kind(owner, schema);
        let required = schema.get("required").and_then(Value::as_array);
        let mut names: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() {
            names.extend(fields.keys().next().map(String::as_str));
        }
        let fields = names.into_iter().map(|name| {
            let example = self.of_field(&owner, name, fields.get(name)?, depth + 1)?;
            Some((name.to_owned(), example))
        });
        fields.collect::<Option<Map<_, _>>>().map(Value::Object)
    }

    /// Whether a value has the type of a schema; a test checks the rest.
    fn fits(&self, value: &Value, schema: &Value, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        if let Some((_, target)) = self.target(schema) {
            return self.fits(value, target, depth + 1);
        }
        if let Some(constant) = schema.get("const") {
            return value == constant;
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return choices.contains(value);
        }
        if alternatives(schema).next().is_some() {
            return alternatives(schema).any(|choice| self.fits(value, choice, depth + 1));
        }
        let mut types = types(schema).peekable();
        let has_type = types.peek().is_none()
            || types.any(|name| match name {
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                _ => false,
            });
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let matches = |pattern: &str, text: &str| Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
        let fields = schema.get("properties").and_then(Value::as_object);
        has_type
            && value
                .as_str()
                .zip(pattern)
                .is_none_or(|(text, pattern)| matches(pattern, text))
            && value
                .as_array()
                .zip(schema.get("items"))
                .is_none_or(|(items, schema)| items.iter().all(|item| self.fits(item, schema, depth + 1)))
            && value.as_object().zip(fields).is_none_or(|(value, fields)| {
                value.iter().all(|(name, value)| {
                    fields
                        .get(name)
                        .is_some_and(|field| self.fits(value, field, depth + 1))
                })
            })
    }

    /// The definition that a schema points to, with its name.
    fn target<'v>(&self, schema: &'v Value) -> Option<(&'v str, &'s Value)> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        Some((name, self.defs?.get(name)?))
    }
}

/// `Definition.type` for one of the mappings whose `type` decides their fields.
fn with_kind(owner: &str, schema: &Value) -> String {
    match schema.pointer("/properties/type/const").and_then(Value::as_str) {
        Some(kind) => format!("{owner}.{kind}"),
        None => owner.to_owned(),
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let all = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_array());
    all.flatten()
        .filter(|choice| choice.get("type").and_then(Value::as_str) != Some("null"))
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let (one, several) = match schema.get("type") {
        Some(Value::Array(names)) => (None, names.as_slice()),
        other => (other, [].as_slice()),
    };
    one.into_iter().chain(several).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{config_json_schema, json_schema};

    /// Calls `each` with every field: the definition, its name and its schema.
    fn every_field(schema: &Value, owner: &str, each: &mut dyn FnMut(&str, &str, &Value)) {
        let owner = with_kind(owner, schema);
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            each(&owner, name, field);
        }
        for key in ["anyOf", "oneOf"] {
            let all = schema.get(key).and_then(Value::as_array);
            all.into_iter()
                .flatten()
                .for_each(|choice| every_field(choice, &owner, each));
        }
        let defs = schema.get("$defs").and_then(Value::as_object);
        for (name, definition) in defs.into_iter().flatten() {
            every_field(definition, name, each);
        }
    }

    #[test]
    fn every_field_has_an_example_that_follows_its_schema() {
        let mut used = BTreeSet::new();
        for whole in [json_schema(), config_json_schema()] {
            // All fields as those of one mapping, so that the schema is compiled once.
            let (mut fields, mut examples) = (Map::new(), Map::new());
            every_field(&whole, "", &mut |owner, name, field| {
                let example = field.pointer("/examples/0");
                let example = example.unwrap_or_else(|| panic!("`{owner}.{name}` has no example"));
                let key = format!("{owner}.{name}");
                for key in [key.as_str(), name] {
                    if TABLE.get(key) == Some(example) {
                        used.insert(key.to_owned());
                    }
                }
                fields.insert(key.clone(), field.clone());
                examples.insert(key, example.clone());
            });
            assert!(fields.len() > 90, "{}", fields.len());
            let schema = json!({ "properties": fields, "$defs": whole["$defs"] });
            let validator = jsonschema::validator_for(&schema).unwrap();
            let examples = Value::Object(examples);
            let problems = validator.iter_errors(&examples);
            let problems: Vec<String> = problems
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(problems.is_empty(), "{problems:#?}");
        }
        let unused: Vec<_> = TABLE.keys().filter(|key| !used.contains(*key)).collect();
        assert!(unused.is_empty(), "examples of no field: {unused:?}");
    }

    #[test]
    fn a_value_of_another_type_is_no_example() {
        let examples = Examples { defs: None };
        for (value, schema, fits) in [
            (json!("a"), json!({"type": "string"}), true),
            (
                json!("a"),
                json!({"type": ["string", "null"], "pattern": "^[0-9]+$"}),
                false,
            ),
            (json!(1.5), json!({"type": "integer"}), false),
            (
                json!(["a"]),
                json!({"type": "array", "items": {"type": "integer"}}),
                false,
            ),
            (json!("b"), json!({"enum": ["a"]}), false),
            (
                json!("b"),
                json!({"anyOf": [{"const": "b"}, {"type": "null"}]}),
                true,
            ),
            (
                json!({"x": 1}),
                json!({"type": "object", "properties": {"y": {}}}),
                false,
            ),
        ] {
            assert_eq!(examples.fits(&value, &schema, 0), fits, "{value} {schema}");
        }
    }
}
