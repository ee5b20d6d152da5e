//! Completed schemas of tools, for every keyword with every wrong value in every place: what is sent is a JSON Schema, as its own
//! validator and the rules of strict endpoints see it.

use holodeck_model::complete_tool_schema;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Every keyword that has a rule.
const KEYWORDS: [&str; 52] = [
    "$ref",
    "$defs",
    "$schema",
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$vocabulary",
    "$comment",
    "definitions",
    "type",
    "title",
    "description",
    "format",
    "pattern",
    "enum",
    "examples",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
    "uniqueItems",
    "required",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "items",
    "additionalItems",
    "prefixItems",
    "contains",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "deprecated",
    "contentMediaType",
];

fn values() -> Vec<Value> {
    let mut values: Vec<Value> = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(3),
        json!(3.0),
        json!([]),
        json!(["x"]),
        json!([1, "x", null]),
        json!([{"type": "string"}]),
        json!([{"name": "x", "type": "STRING", "required": true}]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "int"}),
        json!({"a": ["b", 2]}),
        json!({"type": "string"}),
        json!({"type": {"type": "string"}}),
        json!({"(": {"type": "string"}}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$holodeck.integer": "12345678901234567890123"}),
    ];
    for text in [
        "",
        "1",
        "-1",
        "true",
        "x",
        "(",
        "[a-z",
        "(?=a)b",
        "#",
        "#/",
        "#/$defs/none",
        "#/required",
        "#/properties",
        "other.json#/a",
        "https://example.com/schema.json",
        "http://json-schema.org/draft-04/schema#",
    ] {
        values.push(text.into());
    }
    // More digits than a number of a program has.
    let long: Vec<Value> =
        serde_json::from_str("[12345678901234567890123, -12345678901234567890123]").unwrap();
    values.extend(long.iter().cloned());
    values.push(json!([1, long[0]]));
    values
}

/// A schema in a place of a tool's schema.
fn placed(place: &str, schema: Value) -> Value {
    match place {
        "root" => schema,
        "property" => json!({"type": "object", "properties": {"p": schema}}),
        "nested property" => {
            json!({"type": "object", "properties": {"o": {"type": "object", "properties": {"p": schema}}}})
        }
        "items" => json!({"type": "object", "properties": {"p": {"type": "array", "items": schema}}}),
        "an alternative" => {
            json!({"type": "object", "properties": {"p": {"anyOf": [{"type": "null"}, schema]}}})
        }
        "an alternative of the root" => {
            json!({"anyOf": [schema, {"type": "object", "properties": {"q": {}}}]})
        }
        _ => json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d"}}, "$defs": {"d": schema}}),
    }
}

const PLACES: [&str; 7] = [
    "root",
    "property",
    "nested property",
    "items",
    "an alternative",
    "an alternative of the root",
    "a definition",
];

/// The keywords with a value that some endpoint refuses, in a schema and all below it.
fn refused(schema: &Value, root: &Value, found: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        if !schema.is_boolean() {
            found.push(format!("no schema: {schema}"));
        }
        return;
    };
    for (keyword, value) in fields {
        let is_right = match keyword.as_str() {
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
            "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
            | "minContains" | "maxContains" => value.is_u64(),
            "title" | "description" | "format" | "$comment" | "contentMediaType" => value.is_string(),
            "pattern" => value
                .as_str()
                .is_some_and(|pattern| pattern == "(?=a)b" || !pattern.contains(['(', '['])),
            "uniqueItems" | "deprecated" => value.is_boolean(),
            "$schema" | "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef"
            | "$vocabulary" => false,
            "$ref" => value.as_str().is_some_and(|path| {
                path == "#" || path.starts_with("#/$defs/") && root.pointer(&path[1..]).is_some()
            }),
            "required" => value.as_array().is_some_and(|names| {
                let properties = fields.get("properties").and_then(Value::as_object);
                let is_known = |name: &Value| {
                    name.as_str()
                        .is_some_and(|name| properties.is_none_or(|known| known.contains_key(name)))
                };
                names.iter().all(is_known)
            }),
            "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                let named = value.as_object();
                named
                    .into_iter()
                    .flatten()
                    .for_each(|(_, schema)| refused(schema, root, found));
                named.is_some()
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                let list = value.as_array();
                list.into_iter()
                    .flatten()
                    .for_each(|schema| refused(schema, root, found));
                list.is_some_and(|list| !list.is_empty())
            }
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "contains"
            | "propertyNames"
            | "not"
            | "if"
            | "then" => {
                refused(value, root, found);
                true
            }
            _ => !value.is_null(),
        };
        // No endpoint gets a number with other digits than the tool wrote.
        let is_rounded = value.is_f64() && value.as_f64().is_some_and(|number| number.abs() > 1e15);
        let has_rounded = value.to_string().contains("e+22") || value.to_string().contains("e22");
        if !is_right || is_rounded || has_rounded {
            found.push(format!("{keyword}: {value}"));
        }
    }
}

/// The faults of the schema that is sent for one with a wrong value in a place.
fn check(keyword: &str, value: &Value, place: &str, kind: &str) -> Option<String> {
    let mut schema = json!({"type": kind, "description": "kept"});
    if kind == "object" {
        schema["properties"] = json!({"k": {"type": "string"}});
    }
    if keyword.starts_with("exclusive") {
        schema[keyword.replace("exclusiveM", "m")] = json!(1);
    }
    schema[keyword] = value.clone();
    let given = placed(place, schema);
    let sent = complete_tool_schema(given.clone());
    let mut found = Vec::new();
    refused(&sent, &sent, &mut found);
    // Of the whole schema and every reference in it.
    if let Err(error) = jsonschema::validator_for(&sent) {
        found.push(format!("no JSON Schema: {error}"));
    }
    if complete_tool_schema(sent.clone()) != sent {
        found.push("completed twice it is another".to_owned());
    }
    if keyword != "description" && place == "property" && sent["properties"]["p"]["description"] != "kept" {
        found.push("other keywords were lost".to_owned());
    }
    (!found.is_empty()).then(|| format!("{place}, {given}: {found:?}\n  sent {sent}"))
}

#[test]
fn every_schema_that_is_sent_is_one() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for keyword in KEYWORDS {
        for value in values() {
            for place in PLACES {
                // Each keyword with each value is tried beside each type.
                let kind = ["object", "string", "integer", "array"][tried % 4];
                wrong.extend(check(keyword, &value, place, kind));
                tried += 1;
            }
        }
    }
    let first = wrong.iter().take(12).cloned().collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{} of {tried}:\n{}",
        wrong.len(),
        first.join("\n")
    );
}

#[test]
fn what_a_wrong_value_can_mean_is_kept() {
    let property = |schema: Value| {
        complete_tool_schema(json!({"type": "object", "properties": {"p": schema}}))["properties"]["p"]
            .clone()
    };
    for (given, sent) in [
        (
            json!({"minimum": "1", "maximum": " 2.5 "}),
            json!({"minimum": 1, "maximum": 2.5}),
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!({"exclusiveMinimum": 1}),
        ),
        (
            json!({"maximum": "9", "exclusiveMaximum": true}),
            json!({"exclusiveMaximum": 9}),
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": false}),
            json!({"minimum": 1}),
        ),
        (json!({"exclusiveMinimum": true}), json!({})),
        (
            json!({"minLength": -1, "maxLength": 3.0}),
            json!({"maxLength": 3}),
        ),
        (json!({"minLength": "2"}), json!({"minLength": 2})),
        (json!({"pattern": "[a-z", "title": "t"}), json!({"title": "t"})),
        (json!({"pattern": "^(?=a).*$"}), json!({"pattern": "^(?=a).*$"})),
        (
            json!({"$ref": "https://example.com/a.json", "title": "t"}),
            json!({"title": "t"}),
        ),
        (
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {}}}),
        ),
        (
            json!({"type": "object", "properties": [{"name": "a", "type": "str", "required": true}]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ),
        (
            json!({"type": "object", "properties": {"a": "int"}}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        ),
    ] {
        assert_eq!(property(given.clone()), sent, "{given}");
    }
    let flat = json!({"city": {"type": "string"}, "type": {"enum": ["a", "b"]}});
    let root = json!({"type": "object", "properties": flat});
    assert_eq!(complete_tool_schema(flat), root);
    // Its own address is the schema itself.
    let own = complete_tool_schema(json!({
        "$id": "https://example.com/tool.json",
        "type": "object",
        "properties": {"p": {"$ref": "https://example.com/tool.json#/$defs/d"}},
        "$defs": {"d": {"type": "string"}},
    }));
    assert_eq!(own["properties"]["p"], json!({"$ref": "#/$defs/d"}));
    let circle = complete_tool_schema(json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/a"}, "tree": {"$ref": "#/$defs/tree"}},
        "$defs": {
            "a": {"$ref": "#/$defs/b"},
            "b": {"$ref": "#/$defs/a"},
            "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
    }));
    assert_eq!(
        circle["properties"],
        json!({"p": {}, "tree": {"$ref": "#/$defs/tree"}})
    );
    let long = r#"{"type": "object", "properties": {"p": {"type": "integer", "maximum": 12345678901234567890123,
        "enum": [1, 12345678901234567890123]}}}"#;
    let long = complete_tool_schema(serde_json::from_str(long).unwrap());
    assert_eq!(long["properties"]["p"], json!({"type": "integer"}));
}
