//! Schemas of tools as people and serialisers write them.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn check(schema: &Value, expected: &Value) {
    assert_eq!(complete_tool_schema(schema.clone()), *expected, "{schema}");
}

#[test]
fn a_complete_schema_is_left_as_it_is() {
    let schema = json!({
        "type": "object",
        "description": "d",
        "properties": {
            "a": {"type": ["string", "null"], "default": null, "enum": ["x", null]},
            "b": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "c": {"oneOf": [{"const": null}, {"$ref": "#/$defs/c"}]},
            "d": {"type": "object", "additionalProperties": false},
        },
        "required": ["b"],
        "additionalProperties": true,
        "$defs": {"c": {"type": "integer", "minimum": 0}},
    });
    check(&schema, &schema);
}

#[test]
fn the_root_becomes_an_object_with_properties() {
    let empty = json!({"type": "object", "properties": {}});
    for schema in [
        json!({}),
        json!(null),
        json!(true),
        json!([]),
        json!("object"),
        json!({"type": null}),
        json!({"type": ["object", "null"], "properties": {}}),
        json!({"type": "object", "properties": null, "required": null}),
        json!({"type": "object", "properties": []}),
        json!({"type": "string", "enum": ["a"]}),
        json!({"not": {}}),
        json!({"anyOf": []}),
        json!({"anyOf": null, "oneOf": "x"}),
    ] {
        check(&schema, &empty);
    }
}

#[test]
fn alternatives_at_the_root_become_their_properties() {
    check(
        &json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]},
            {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "integer"}}, "required": ["c"]},
            {"type": "null"},
        ]}),
        &json!({"type": "object", "required": ["c"], "properties": {
            "a": {"type": "string"},
            "b": {"type": "string"},
            "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        }}),
    );
    // Alternatives of what is required only.
    check(
        &json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": [], "additionalProperties": false,
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        &json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": []}),
    );
    check(
        &json!({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {}}, "required": ["b"]}],
            "$defs": {"a": {"properties": {"a": {}}, "required": ["a"]}}}),
        &json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"],
            "$defs": {"a": {"properties": {"a": {}}, "required": ["a"]}}}),
    );
}

#[test]
fn a_reference_at_the_root_is_resolved() {
    let definitions = json!({"a/b": {"type": "object", "properties": {"x": {"type": "array"}}}});
    let completed = complete_tool_schema(json!({"$ref": "#/definitions/a~1b", "definitions": definitions}));
    assert_eq!(
        completed["properties"],
        json!({"x": {"type": "array", "items": {}}})
    );
    for reference in ["#", "#/", "#/$defs/none", "https://example.com/a", "#/$defs/a"] {
        let schema = json!({"$ref": reference, "$defs": {"a": {"$ref": "#/$defs/a"}}});
        let completed = complete_tool_schema(schema);
        assert_eq!(
            (&completed["type"], &completed["properties"]),
            (&json!("object"), &json!({}))
        );
    }
}

#[test]
fn arrays_get_items_at_any_depth() {
    let array = json!({"type": "array"});
    let schema = json!({"properties": {
        "a": array, "b": {"type": ["array", "null"], "items": null},
        "c": {"anyOf": [array, {"type": "object", "properties": {"d": array}}]},
        "e": {"type": "array", "items": array}, "f": {"type": "object", "additionalProperties": array},
        "g": {"type": "array", "items": [{"type": "string"}, {"type": "string"}], "additionalItems": false},
        "h": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        "i": {"type": "array", "prefixItems": [array]}, "j": {"type": "array", "items": true},
    }});
    let completed = json!({"type": "array", "items": {}});
    check(
        &schema,
        &json!({"type": "object", "properties": {
            "a": completed, "b": {"type": ["array", "null"], "items": {}},
            "c": {"anyOf": [completed, {"type": "object", "properties": {"d": completed}}]},
            "e": {"type": "array", "items": completed}, "f": {"type": "object", "additionalProperties": completed},
            "g": {"type": "array", "items": {"type": "string"}},
            "h": {"type": "array", "items": {}},
            "i": {"type": "array", "prefixItems": [completed], "items": {}}, "j": {"type": "array", "items": true},
        }}),
    );
}

/// The problems of a schema that make an endpoint refuse it.
fn refusals(schema: &Value, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        if !schema.is_boolean() {
            found.push(format!("no schema: {schema}"));
        }
        return;
    };
    for (keyword, value) in schema {
        if value.is_null() && !MAY_BE_NULL.contains(&keyword.as_str()) {
            found.push(format!("{keyword} is null"));
        }
        if WITH_NAMED_SCHEMAS.contains(&keyword.as_str()) {
            match value.as_object() {
                Some(named) => named.values().for_each(|schema| refusals(schema, found)),
                None => found.push(format!("{keyword}: {value}")),
            }
        }
        if WITH_SCHEMAS.contains(&keyword.as_str()) {
            match value.as_array() {
                Some(schemas) => schemas.iter().for_each(|schema| refusals(schema, found)),
                None => found.push(format!("{keyword}: {value}")),
            }
        }
        if WITH_SCHEMA.contains(&keyword.as_str()) {
            refusals(value, found);
        }
        if keyword == "required"
            && !value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string))
        {
            found.push(format!("required: {value}"));
        }
    }
    if is_array(schema) && !schema.contains_key("items") {
        found.push("array without items".to_owned());
    }
}

/// Anything in the place of anything.
fn any_schema() -> impl Strategy<Value = Value> {
    let kinds = ["string", "array", "object", "null", "integer"];
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!([])),
        Just(json!({})),
        Just(json!("text")),
        prop::sample::select(kinds.to_vec()).prop_map(|kind| json!({ "type": kind })),
        Just(json!({"type": ["array", "null"]})),
        Just(json!({"$ref": "#/$defs/a"})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let keywords: Vec<&str> = WITH_SCHEMA
            .into_iter()
            .chain(WITH_SCHEMAS)
            .chain(WITH_NAMED_SCHEMAS)
            .chain(["required", "enum", "type", "description", "default"])
            .collect();
        let named =
            prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), inner.clone(), 0..3)
                .prop_map(|named| json!(named));
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
        let value = prop_oneof![inner, named, list];
        prop::collection::btree_map(prop::sample::select(keywords), value, 0..5)
            .prop_map(|schema| json!(schema))
    })
}

proptest! {
    #[test]
    fn every_completed_schema_is_one_that_endpoints_accept(schema in any_schema()) {
        let completed = complete_tool_schema(schema);
        let mut found = Vec::new();
        refusals(&completed, &mut found);
        prop_assert_eq!(found, Vec::<String>::new(), "{}", completed);
        prop_assert_eq!(&completed["type"], "object");
        prop_assert!(completed["properties"].is_object());
        for keyword in NOT_AT_ROOT {
            prop_assert!(completed.get(keyword).is_none(), "{} in {}", keyword, completed);
        }
        // Completing twice changes nothing.
        prop_assert_eq!(complete_tool_schema(completed.clone()), completed);
    }
}

#[test]
fn a_complete_schema_keeps_its_order() {
    let text = r#"{"type":"object","properties":{"b":{"type":"string","description":"B."},"a":{"type":"integer","enum":[1]}},"required":["b"]}"#;
    let complete = complete_tool_schema(serde_json::from_str(text).unwrap());
    assert_eq!(complete.to_string(), text);
}

#[test]
fn types_are_those_of_json_schema() {
    let names = [
        ("string", "string str text"),
        ("integer", "integer int int32 int64 long"),
        ("number", "number float double decimal"),
        ("boolean", "boolean bool"),
        ("object", "object dict map"),
        ("null", "null none NoneType"),
    ];
    let property = |schema: Value| {
        let schema = json!({"type": "object", "properties": {"p": schema}});
        complete_tool_schema(schema)["properties"]["p"].clone()
    };
    for (expected, spellings) in names {
        for spelling in spellings.split(' ') {
            for name in [
                spelling.to_owned(),
                spelling.to_uppercase(),
                format!(" {spelling} "),
            ] {
                assert_eq!(
                    property(json!({"type": name})),
                    json!({"type": expected}),
                    "{name}"
                );
                assert_eq!(
                    property(json!({"type": [name]})),
                    json!({"type": expected}),
                    "{name}"
                );
                let both = json!({"type": [name, "ARRAY", name, expected, null, 7]});
                assert_eq!(
                    property(both),
                    json!({"type": [expected, "array"], "items": {}}),
                    "{name}"
                );
                let nested = json!({"anyOf": [{"type": name}], "items": {"type": name}});
                let nested_expected = json!({"anyOf": [{"type": expected}], "items": {"type": expected}});
                assert_eq!(property(nested), nested_expected, "{name}");
            }
        }
    }
    for name in ["list", "List", "ARRAY", "set", "tuple"] {
        assert_eq!(
            property(json!({"type": name})),
            json!({"type": "array", "items": {}}),
            "{name}"
        );
    }
    for kind in [
        json!("any"),
        json!("ANY"),
        json!("file"),
        json!(""),
        json!("TYPE_UNSPECIFIED"),
        json!(["string", "any"]),
        json!([]),
        json!([null]),
        json!({"type": "string"}),
        json!(7),
        json!(true),
        json!(null),
    ] {
        let schema = json!({"type": kind, "description": "d"});
        assert_eq!(property(schema), json!({"description": "d"}), "{kind}");
    }
    check(
        &json!({"type": "OBJECT", "properties": {"a": {"type": "INT"}}, "required": ["a", "a", 7, null, "b", "a"]}),
        &json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]}),
    );
    check(
        &json!({"anyOf": [{"type": "OBJECT", "properties": {"a": {"type": "str"}}}]}),
        &json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    );
}
