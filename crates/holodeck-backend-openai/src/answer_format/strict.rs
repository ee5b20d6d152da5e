//! Decides whether a schema can be sent in OpenAI's strict mode. Must not change the schema.

use serde_json::Value;

/// The keywords that strict mode supports everywhere.
const KEYWORDS: [&str; 13] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "title",
    "description",
];

/// Whether a schema already meets the rules of strict mode: objects closed, every property required, no other keywords.
pub(super) fn qualifies(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
        && schema.get("anyOf").is_none()
        && is_strict(schema)
}

fn is_strict(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else {
        return false;
    };
    map.iter().all(|(key, value)| match key.as_str() {
        "properties" | "$defs" | "definitions" => value
            .as_object()
            .is_some_and(|schemas| schemas.values().all(is_strict)),
        "anyOf" => value
            .as_array()
            .is_some_and(|schemas| schemas.iter().all(is_strict)),
        "items" => is_strict(value),
        key => KEYWORDS.contains(&key),
    }) && is_closed(schema)
}

fn is_closed(schema: &Value) -> bool {
    let is_object = schema.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        kind => kind == "object",
    });
    let properties = schema.get("properties").and_then(Value::as_object);
    if !is_object && properties.is_none() {
        return true;
    }
    let Some(properties) = properties else {
        return false;
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|own| own == name));
    schema.get("additionalProperties") == Some(&Value::Bool(false)) && properties.keys().all(is_required)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn closed_objects_qualify() {
        let inner = json!({
            "type": ["object", "null"], "properties": {}, "required": [], "additionalProperties": false,
        });
        let schema = |changes: Value| {
            let mut schema = json!({
                "type": "object",
                "title": "t",
                "properties": {
                    "a": {"type": "array", "items": {"enum": [1, 2], "description": "d"}},
                    "b": inner,
                    "c": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x"}]},
                },
                "$defs": {"x": {"type": "string"}},
                "required": ["a", "b", "c"],
                "additionalProperties": false,
            });
            for (key, value) in changes.as_object().unwrap() {
                schema[key] = value.clone();
            }
            schema
        };
        assert!(qualifies(&schema(json!({}))));
        for changes in [
            json!({"required": ["a", "b"]}),
            json!({"additionalProperties": true}),
            json!({"minProperties": 1}),
            json!({"type": "array"}),
            json!({"$defs": {"x": {"type": "object"}}}),
            json!({"$defs": {"x": {"type": "string", "format": "uuid"}}}),
            json!({"$defs": {"x": true}}),
        ] {
            assert!(!qualifies(&schema(changes.clone())), "{changes}");
        }
    }
}
