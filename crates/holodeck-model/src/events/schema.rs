//! Generates the JSON Schema of events for clients in other languages.

use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{EventBody, EventClass, EventMeta};

/// The JSON Schema of an event as it is stored and sent: one alternative per type, whose title is the type. Fields may be
/// added, so readers ignore unknown ones.
pub fn event_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let meta = generator.subschema_for::<EventMeta>();
    let types: Vec<Value> = EventBody::schemas(&mut generator)
        .iter()
        .map(|(kind, about, class, body)| schema_of(kind, about, *class, &meta, body))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": types,
        "$defs": generator.take_definitions(true),
    })
}

/// One type: its name, the metadata, and the fields of its body.
fn schema_of(kind: &str, about: &str, class: EventClass, meta: &Schema, body: &Schema) -> Value {
    let fields = body.get("properties").and_then(Value::as_object);
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({ "const": kind }));
    properties.extend(fields.cloned().unwrap_or_default());
    if class != EventClass::Stored {
        // Only content is numbered without gaps.
        properties.insert("sequenceNumber".to_owned(), Value::Bool(false));
    }
    let own = body.get("required").and_then(Value::as_array);
    let required: Vec<Value> = [json!("type")]
        .into_iter()
        .chain(own.into_iter().flatten().cloned())
        .collect();
    json!({
        "title": kind,
        "description": about,
        "type": "object",
        "allOf": [meta],
        "properties": properties,
        "required": required,
    })
}
