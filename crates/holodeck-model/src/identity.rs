//! The canonical form of configuration, whose digest identifies it.
//!
//! Fields at their default are left out, so that a new field changes no digest of a file that does not use it. The
//! defaults are those of the JSON Schema, which is generated from the same types. The form contains no machine: paths
//! are named by the caller, relative to the agent file. It must not read files; the caller adds their digests.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// The version of the canonical form. A change of the form, or of a default, changes digests of unchanged files; it
/// needs a new version, so that reports can name the cause.
pub const IDENTITY_FORMAT: u32 = 1;

/// A part of the configuration: it has a schema, and with it the defaults of its fields.
pub trait ConfigPart: Serialize + JsonSchema + 'static {}

impl<T: Serialize + JsonSchema + 'static> ConfigPart for T {}

/// A name for a path of the configuration that is equal on every machine.
pub type NamePath<'a> = &'a dyn Fn(&str) -> String;

/// The canonical form of a part of the configuration: without fields at their default, and with each path replaced by
/// its name. Masked secrets stay masked.
pub fn canonical<T: ConfigPart>(value: &T, name_path: NamePath<'_>) -> Value {
    let root = schema_of::<T>();
    let form = Form {
        definitions: root.get("$defs"),
        name_path,
    };
    let value = serde_json::to_value(value).unwrap_or_default();
    form.value(value, &root)
}

/// The digest of a JSON value, whose order of keys does not count: the beginning of the SHA-256 of its text.
pub fn digest_json(value: &Value) -> String {
    format!("sha256:{}", hex(&digest_text(&sorted_text(value))))
}

/// The text of a JSON value with the keys of objects in order.
pub(crate) fn sorted_text(value: &Value) -> String {
    let mut text = String::new();
    write_sorted(value, &mut text);
    text
}

/// The beginning of the SHA-256 of a text.
pub(crate) fn digest_text(text: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    std::array::from_fn(|place| digest.get(place).copied().unwrap_or_default())
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_scalar(name, text);
                text.push(':');
                write_sorted(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_sorted(item, text);
            }
            text.push(']');
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_scalar<T: Serialize + ?Sized>(value: &T, text: &mut String) {
    // A scalar can always be written as JSON.
    text.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// The JSON Schema of a type; it is generated once.
fn schema_of<T: JsonSchema + 'static>() -> Arc<Value> {
    static SCHEMAS: Mutex<Option<HashMap<TypeId, Arc<Value>>>> = Mutex::new(None);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = schemas.get_or_insert_with(HashMap::new);
    let schema = known.entry(TypeId::of::<T>()).or_insert_with(|| {
        let generator = SchemaSettings::draft2020_12().into_generator();
        Arc::new(generator.into_root_schema_for::<T>().to_value())
    });
    Arc::clone(schema)
}

/// Brings values into the form, by their schemas.
struct Form<'a> {
    definitions: Option<&'a Value>,
    name_path: NamePath<'a>,
}

impl Form<'_> {
    fn value(&self, value: Value, schema: &Value) -> Value {
        if let Some(schema) = self.referenced(schema) {
            return self.value(value, schema);
        }
        if let Some(alternatives) = list(schema, "anyOf").or_else(|| list(schema, "oneOf")) {
            let fitting = alternatives
                .iter()
                .find(|alternative| self.fits(&value, alternative));
            return match fitting {
                Some(alternative) => self.value(value, alternative),
                None => value,
            };
        }
        match value {
            Value::Object(fields) => Value::Object(self.fields(fields, schema)),
            Value::Array(items) => match schema.get("items") {
                Some(schema) => items.into_iter().map(|item| self.value(item, schema)).collect(),
                None => Value::Array(items),
            },
            Value::String(text) if schema.get("x-path").is_some() => (self.name_path)(&text).into(),
            other => other,
        }
    }

    fn fields(&self, fields: Map<String, Value>, schema: &Value) -> Map<String, Value> {
        let known = schema.get("properties");
        let others = schema.get("additionalProperties").filter(|it| it.is_object());
        let mut kept = Map::new();
        for (name, value) in fields {
            let Some(field) = known.and_then(|known| known.get(&name)) else {
                let value = match others {
                    Some(schema) => self.value(value, schema),
                    None => value,
                };
                kept.insert(name, value);
                continue;
            };
            if self.is_default(&value, field) {
                continue;
            }
            let value = self.value(value, field);
            kept.insert(name, value);
        }
        kept
    }

    /// Whether the value of a field is what the field has if the file leaves it out.
    fn is_default(&self, value: &Value, field: &Value) -> bool {
        match field.get("default").filter(|default| !default.is_null()) {
            Some(default) => self.value(value.clone(), field) == self.value(default.clone(), field),
            None => value.is_null() && field.get("x-null-differs").is_none(),
        }
    }

    /// The schema that another one refers to.
    fn referenced<'s>(&'s self, schema: &'s Value) -> Option<&'s Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.definitions?.get(name.rsplit('/').next()?);
        }
        list(schema, "allOf")?.first()
    }

    /// Whether a value has the type that a schema describes, as far as alternatives differ.
    fn fits(&self, value: &Value, schema: &Value) -> bool {
        if let Some(schema) = self.referenced(schema) {
            return self.fits(value, schema);
        }
        if let Some(alternatives) = list(schema, "anyOf").or_else(|| list(schema, "oneOf")) {
            return alternatives
                .iter()
                .any(|alternative| self.fits(value, alternative));
        }
        if let Some(constant) = schema.get("const") {
            return value == constant;
        }
        has_type(value, schema)
            && value
                .as_object()
                .is_none_or(|fields| self.fits_record(fields, schema))
    }

    fn fits_record(&self, fields: &Map<String, Value>, schema: &Value) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let required = list(schema, "required").unwrap_or_default();
        let has_required = required
            .iter()
            .filter_map(Value::as_str)
            .all(|name| fields.contains_key(name));
        let is_open = schema.get("additionalProperties").is_none_or(|it| it != false);
        has_required
            && fields
                .iter()
                .all(|(name, value)| match known.and_then(|known| known.get(name)) {
                    // Of the fields, only a tag decides.
                    Some(field) => field.get("const").is_none() || self.fits(value, field),
                    None => is_open,
                })
    }
}

fn has_type(value: &Value, schema: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match schema.get("type") {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn list<'s>(schema: &'s Value, keyword: &str) -> Option<&'s [Value]> {
    schema.get(keyword)?.as_array().map(Vec::as_slice)
}

#[cfg(test)]
mod tests;
