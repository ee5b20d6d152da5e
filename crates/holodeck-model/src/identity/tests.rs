//! Tests that equal configurations have one canonical form, whatever their spelling, and different ones never share it.

use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{Agent, ModelConfig, PathRef, RoutingConfig, TestCase, ToolConfig};

fn unnamed(path: &str) -> String {
    path.to_owned()
}

/// Calls `check` with the name of each record of a schema, its fields, and those that are required.
fn for_each_record(name: &str, schema: &Value, check: &mut impl FnMut(&str, &Map<String, Value>, &[&str])) {
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        let required = list(schema, "required").unwrap_or_default();
        let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        check(name, fields, &required);
    }
    for keyword in ["oneOf", "anyOf"] {
        for variant in list(schema, keyword).unwrap_or_default() {
            for_each_record(name, variant, check);
        }
    }
    for (name, schema) in schema
        .get("$defs")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        for_each_record(name, schema, check);
    }
}

#[test]
fn a_field_written_with_its_default_is_a_field_left_out() {
    let root = schema_of::<Agent>();
    let form = Form {
        definitions: root.get("$defs"),
        name_path: &unnamed,
    };
    let mut checked = 0;
    for_each_record("Agent", &root, &mut |record, fields, _| {
        for (name, field) in fields {
            let Some(default) = field.get("default") else {
                continue;
            };
            checked += 1;
            let written = Map::from_iter([(name.clone(), default.clone())]);
            let kept = form.fields(written, &json!({ "properties": fields }));
            assert_eq!(Value::Object(kept), json!({}), "{record}.{name}");
        }
    });
    assert!(checked > 150, "{checked}");
}

/// The canonical form leaves a field out only if the schema says what its absence means.
#[test]
fn the_schema_has_the_default_of_every_field_that_may_be_left_out() {
    // These are not written at their default.
    let unwritten = ["body", "follow_links", "keep_alive", "sampling", "result"];
    for_each_record("Agent", &schema_of::<Agent>(), &mut |record, fields, required| {
        for (name, field) in fields {
            let is_nullable = field
                .get("type")
                .is_some_and(|it| it.as_array().is_some_and(|types| types.contains(&json!("null"))))
                || list(field, "anyOf")
                    .is_some_and(|any| any.iter().any(|it| it.get("type") == Some(&json!("null"))));
            assert!(
                required.contains(&name.as_str())
                    || field.get("default").is_some()
                    || is_nullable
                    || unwritten.contains(&name.as_str()),
                "{record}.{name}"
            );
        }
    });
}

/// A configuration before and after a field was added to its type.
#[test]
fn a_new_field_changes_no_digest_of_a_file_that_does_not_use_it() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Before {
        name: String,
        part: PartBefore,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct PartBefore {
        size: u32,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct After {
        name: String,
        part: PartAfter,
        #[serde(default)]
        more: Vec<String>,
        note: Option<String>,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct PartAfter {
        size: u32,
        #[serde(default = "ten")]
        limit: u32,
        #[serde(default)]
        nested: Nested,
    }
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    struct Nested {
        #[serde(default)]
        deep: bool,
    }
    fn ten() -> u32 {
        10
    }
    let before: Before = serde_json::from_value(json!({"name": "a", "part": {"size": 3}})).unwrap();
    let before = canonical(&before, &unnamed);
    let after = |value: Value| {
        let after: After = serde_json::from_value(value).unwrap();
        canonical(&after, &unnamed)
    };
    let unused = after(json!({"name": "a", "part": {"size": 3}}));
    assert_eq!(digest_json(&unused), digest_json(&before));
    let written = after(json!({
        "name": "a",
        "part": {"size": 3, "limit": 10, "nested": {"deep": false}},
        "more": [],
        "note": null,
    }));
    assert_eq!(digest_json(&written), digest_json(&before));
    for used in [
        json!({"name": "a", "part": {"size": 3, "limit": 11}}),
        json!({"name": "a", "part": {"size": 3, "nested": {"deep": true}}}),
        json!({"name": "a", "part": {"size": 3}, "more": [""]}),
        json!({"name": "a", "part": {"size": 3}, "note": ""}),
    ] {
        assert_ne!(digest_json(&after(used)), digest_json(&before));
    }
}

#[test]
fn null_counts_where_it_differs_from_absence() {
    let case = |yaml: &str| {
        let case: TestCase = serde_yaml::from_str(yaml).unwrap();
        canonical(&case, &unnamed)
    };
    assert_eq!(case("{input: a}"), json!({"input": "a"}));
    assert_eq!(
        case("{input: a, expected_agent: null}"),
        json!({"input": "a", "expected_agent": null})
    );
    let routing = |yaml: &str| {
        let routing: RoutingConfig = serde_yaml::from_str(yaml).unwrap();
        canonical(&routing, &unnamed)
    };
    assert_eq!(
        routing("{agents: {default_agent: null}}"),
        json!({"agents": {"default_agent": null}})
    );
    assert_eq!(
        routing("{agents: {default_agent: general-purpose}}"),
        json!({"agents": {}})
    );
}

#[test]
fn paths_are_named_and_free_values_stay() {
    let tool = json!({"function": {
        "name": "f",
        "description": "d",
        "file": "./t.py",
        "args": ["./a"],
        "parameters": {"x": {"type": "string", "default": null}},
        "mock": "./r",
    }});
    let tool: ToolConfig = serde_json::from_value(tool).unwrap();
    let name = |path: &str| format!("<{path}>");
    assert_eq!(
        canonical(&tool, &name),
        json!({
            "type": "function",
            "name": "f",
            "description": "d",
            "file": "<./t.py>",
            "args": ["./a"],
            "parameters": {"x": {"type": "string", "default": null}},
            "mock": {"result": "./r"},
        })
    );
    assert_eq!(canonical(&PathRef::new("a", ""), &name), json!("<a>"));
}

#[test]
fn the_order_of_keys_and_the_value_of_a_secret_do_not_count() {
    let digest = |yaml: &str| {
        let model: ModelConfig = serde_yaml::from_str(yaml).unwrap();
        digest_json(&canonical(&model, &unnamed))
    };
    let first = digest("{provider: openai, name: m, api_key: one, temperature: 0.5}");
    assert_eq!(
        first,
        digest("{temperature: 0.5, api_key: two, name: m, provider: openai}")
    );
    assert_ne!(first, digest("{temperature: 0.5, name: m, provider: openai}"));
    assert_eq!(
        digest_json(&json!({"b": [1, {"d": null, "c": "\u{1}"}], "a": 0.5})),
        digest_json(&json!({"a": 0.5, "b": [1, {"c": "\u{1}", "d": null}]}))
    );
    assert_ne!(digest_json(&json!([1, 2])), digest_json(&json!([2, 1])));
}
