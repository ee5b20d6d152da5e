//! Converts a JSON Schema to shapes.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{Field, Pattern, Record, Shape, ShapeId, ShapeKind, Shapes, TextRule};

/// Reads a schema that schemars generated from the types of the language.
pub(crate) fn read_shapes(schema: &Value) -> Shapes {
    let mut reader = Reader {
        defs: schema.get("$defs"),
        named: HashMap::new(),
        table: Vec::new(),
    };
    let root = reader.shape(schema);
    Shapes::new(reader.table, root)
}

struct Reader<'s> {
    defs: Option<&'s Value>,
    named: HashMap<&'s str, ShapeId>,
    table: Vec<Shape>,
}

impl<'s> Reader<'s> {
    fn shape(&mut self, schema: &'s Value) -> ShapeId {
        let Some(map) = schema.as_object() else {
            return self.add(true, ShapeKind::Any);
        };
        if let Some(name) = map.get("$ref").and_then(Value::as_str) {
            return self.named_shape(name);
        }
        if let Some(inner) = array(map, "allOf").and_then(|all| all.first()) {
            let shape = self.shape(inner);
            return if map.contains_key("x-type-may-be-absent") {
                self.without_type(shape, inner)
            } else {
                shape
            };
        }
        if let Some(alternatives) = array(map, "oneOf") {
            return self.one_of(alternatives);
        }
        if let Some(alternatives) = array(map, "anyOf") {
            return self.any_of(alternatives);
        }
        let (types, nullable) = types(map);
        let kind = match types {
            Some("string") => text(map),
            Some("boolean") => ShapeKind::Bool,
            Some("integer") => integer(map),
            Some("number") => number(map),
            Some("array") => self.list(map),
            Some("object") => self.mapping(map),
            _ => return self.add(true, ShapeKind::Any),
        };
        self.add(nullable, kind)
    }

    fn add(&mut self, nullable: bool, kind: ShapeKind) -> ShapeId {
        self.table.push(Shape { nullable, kind });
        ShapeId(self.table.len() - 1)
    }

    fn named_shape(&mut self, reference: &'s str) -> ShapeId {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if let Some(shape) = self.named.get(name) {
            return *shape;
        }
        let Some(schema) = self.defs.and_then(|defs| defs.get(name)) else {
            return self.add(true, ShapeKind::Any);
        };
        let shape = self.shape(schema);
        self.named.insert(name, shape);
        shape
    }

    /// The same tagged records, but `type` may be left out.
    fn without_type(&mut self, shape: ShapeId, schema: &'s Value) -> ShapeId {
        let variants = match schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|name| name.rsplit('/').next())
        {
            Some(name) => self
                .defs
                .and_then(|defs| defs.get(name))
                .and_then(|schema| schema.get("oneOf")),
            None => schema.get("oneOf"),
        };
        match variants.and_then(Value::as_array) {
            Some(variants) => {
                let variants = self.variants(variants);
                self.add(
                    false,
                    ShapeKind::Tagged {
                        variants,
                        may_omit_type: true,
                    },
                )
            }
            None => shape,
        }
    }

    fn one_of(&mut self, alternatives: &'s [Value]) -> ShapeId {
        let constants: Option<Vec<String>> = alternatives
            .iter()
            .map(|alternative| {
                alternative
                    .get("const")
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            })
            .collect();
        if let Some(constants) = constants {
            return self.add(false, ShapeKind::Choice(constants));
        }
        let variants = self.variants(alternatives);
        self.add(
            false,
            ShapeKind::Tagged {
                variants,
                may_omit_type: false,
            },
        )
    }

    fn variants(&mut self, alternatives: &'s [Value]) -> Vec<(String, Record)> {
        alternatives
            .iter()
            .filter_map(|alternative| {
                let map = alternative.as_object()?;
                let kind = alternative
                    .pointer("/properties/type/const")?
                    .as_str()?
                    .to_owned();
                let mut record = self.record(map);
                record.fields.shift_remove("type");
                Some((kind, record))
            })
            .collect()
    }

    fn any_of(&mut self, alternatives: &'s [Value]) -> ShapeId {
        let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
        let nullable = alternatives.iter().any(|schema| is_null(&schema));
        let others: Vec<ShapeId> = alternatives
            .iter()
            .filter(|schema| !is_null(schema))
            .map(|schema| self.shape(schema))
            .collect();
        // Nested alternatives are flattened.
        let flat: Vec<ShapeId> = others
            .iter()
            .flat_map(|id| match self.table.get(id.0).map(|shape| &shape.kind) {
                Some(ShapeKind::Either(inner)) => inner.clone(),
                _ => vec![*id],
            })
            .collect();
        self.add(nullable, ShapeKind::Either(flat))
    }

    fn list(&mut self, map: &'s Map<String, Value>) -> ShapeKind {
        let items = map.get("items").map(|items| self.shape(items));
        ShapeKind::List {
            items: items.unwrap_or_else(|| self.add(true, ShapeKind::Any)),
            min: size(map, "minItems").unwrap_or(0),
            max: size(map, "maxItems"),
        }
    }

    fn mapping(&mut self, map: &'s Map<String, Value>) -> ShapeKind {
        if map.contains_key("properties") {
            return ShapeKind::Record(self.record(map));
        }
        let values = match map.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => self.shape(schema),
            _ => self.add(true, ShapeKind::Any),
        };
        ShapeKind::Table {
            values,
            min: size(map, "minProperties").unwrap_or(0),
        }
    }

    fn record(&mut self, map: &'s Map<String, Value>) -> Record {
        let required: Vec<&str> = array(map, "required")
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut fields = IndexMap::new();
        for (name, schema) in map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let text = |key: &str| schema.get(key).and_then(Value::as_str);
            let field = Field {
                shape: self.shape(schema),
                required: required.contains(&name.as_str()),
                description: text("description").unwrap_or_default().to_owned(),
                no_effect: text("x-no-effect").map(str::to_owned),
            };
            fields.insert(name.clone(), field);
        }
        let open = map.get("additionalProperties").and_then(Value::as_bool) == Some(true);
        let refused = map.get("x-refused").and_then(Value::as_object);
        let refused = refused.into_iter().flatten().filter_map(|(name, reason)| {
            let reason = reason.as_str()?;
            Some((name.clone(), reason.to_owned()))
        });
        Record {
            fields,
            open,
            refused: refused.collect(),
        }
    }
}

fn text(map: &Map<String, Value>) -> ShapeKind {
    if let Some(constant) = map.get("const").and_then(Value::as_str) {
        return ShapeKind::Choice(vec![constant.to_owned()]);
    }
    if let Some(choices) = array(map, "enum") {
        return ShapeKind::Choice(
            choices
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        );
    }
    let words = map.get("x-form").and_then(Value::as_str);
    ShapeKind::Text(map.get("pattern").and_then(Value::as_str).map(|pattern| {
        if pattern == r"\S" {
            return TextRule::NotBlank;
        }
        let words = words.map_or_else(|| format!("a string that matches `{pattern}`"), str::to_owned);
        let pattern = Pattern::new(pattern);
        TextRule::Form { pattern, words }
    }))
}

/// The type of a schema, and whether null is allowed beside it.
fn types(map: &Map<String, Value>) -> (Option<&str>, bool) {
    match map.get("type") {
        Some(Value::String(name)) => (Some(name), false),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            (
                names.iter().find(|name| **name != "null").copied(),
                names.contains(&"null"),
            )
        }
        _ => (None, true),
    }
}

fn integer(map: &Map<String, Value>) -> ShapeKind {
    let (lowest, highest) = match map.get("format").and_then(Value::as_str) {
        Some("uint8") => (0, i128::from(u8::MAX)),
        Some("uint16") => (0, i128::from(u16::MAX)),
        Some("uint32") => (0, i128::from(u32::MAX)),
        Some("uint64" | "uint") => (0, i128::from(u64::MAX)),
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let bound = |key: &str| map.get(key).and_then(Value::as_i64).map(i128::from);
    ShapeKind::Integer {
        min: bound("minimum").unwrap_or(lowest),
        max: bound("maximum").unwrap_or(highest),
    }
}

fn number(map: &Map<String, Value>) -> ShapeKind {
    let bound = |key: &str| map.get(key).and_then(Value::as_f64);
    ShapeKind::Number {
        min: bound("minimum"),
        max: bound("maximum"),
        above: bound("exclusiveMinimum"),
        multiple_of: bound("multipleOf"),
    }
}

fn array<'s>(map: &'s Map<String, Value>, key: &str) -> Option<&'s [Value]> {
    map.get(key)?.as_array().map(Vec::as_slice)
}

fn size(map: &Map<String, Value>, key: &str) -> Option<usize> {
    map.get(key)?.as_u64().and_then(|size| usize::try_from(size).ok())
}
