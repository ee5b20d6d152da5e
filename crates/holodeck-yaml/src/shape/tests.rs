//! A keyword that is not supported would be a rule that is not checked.

use holodeck_model::{Agent, GlobalConfig};
use serde_json::Value;

use super::{ShapeKind, Shapes, read_shapes};
use crate::schema::{FrontMatter, raw};

const SUPPORTED: [&str; 20] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "const",
    "enum",
    "oneOf",
    "anyOf",
    "$ref",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "pattern",
    "format",
    "$defs",
];
const IGNORED: [&str; 4] = ["$schema", "title", "description", "default"];

fn check_keywords(schema: &Value) {
    let Value::Object(map) = schema else { return };
    for (keyword, value) in map {
        match keyword.as_str() {
            "properties" | "$defs" => value.as_object().unwrap().values().for_each(check_keywords),
            "items" | "additionalProperties" => check_keywords(value),
            "oneOf" | "anyOf" => value.as_array().unwrap().iter().for_each(check_keywords),
            "allOf" => {
                assert!(map.contains_key("x-type-may-be-absent"), "{map:?}");
                value.as_array().unwrap().iter().for_each(check_keywords);
            }
            "x-form" | "x-no-effect" | "x-null-differs" | "x-refused" | "x-path" | "x-type-may-be-absent" => {
            }
            keyword => {
                assert!(
                    SUPPORTED.contains(&keyword) || IGNORED.contains(&keyword),
                    "`{keyword}` in {map:?}"
                );
            }
        }
    }
    if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
        regex::Regex::new(pattern).unwrap();
        assert!(
            pattern == r"\S" || map.contains_key("x-form"),
            "`{pattern}` has no description for users"
        );
    }
    if let Some(format) = map.get("format").and_then(Value::as_str) {
        assert!(
            ["uint16", "uint32", "uint64", "int64", "double"].contains(&format),
            "{format}"
        );
    }
}

#[test]
fn every_keyword_is_supported() {
    for schema in [raw::<Agent>(), raw::<GlobalConfig>(), raw::<FrontMatter>()] {
        check_keywords(&schema);
    }
}

#[test]
fn only_free_values_are_unchecked() {
    let shapes = read_shapes(&raw::<Agent>());
    let free = shapes
        .all()
        .filter(|shape| matches!(shape.kind, ShapeKind::Any))
        .count();
    // Matchers and literals, JSON Schemas, options of connectors, ranges of the optimizer.
    assert!(free < 20, "{free} shapes accept any value");
}

#[test]
fn no_value_fits_a_text_that_keeps_no_shapes() {
    for broken in [
        "",
        "{}",
        "[]",
        r#"{"table":[{"nullable":true,"kind":"Any"}],"root":0}"#,
        "{\"table\":[\n{\"nullable\":true,\"kind\":\"Any\"}\n],\"root\":none}",
    ] {
        let shapes = Shapes::kept(broken);
        let shape = shapes.get(shapes.root);
        assert!(!shape.nullable, "{broken}");
        assert!(
            matches!(&shape.kind, ShapeKind::Choice(values) if values.is_empty()),
            "{broken}"
        );
    }
}

#[test]
fn no_value_fits_a_shape_that_cannot_be_read() {
    let kept = "{\"table\":[\n{\"nullable\":true,\"kind\":\"Anything\"}\n],\"root\":0}\n";
    let shapes = Shapes::kept(kept);
    let shape = shapes.get(shapes.root);
    assert!(!shape.nullable);
    assert!(matches!(&shape.kind, ShapeKind::Choice(values) if values.is_empty()));
}

#[test]
fn kept_shapes_lose_nothing() {
    for schema in [raw::<Agent>(), raw::<GlobalConfig>(), raw::<FrontMatter>()] {
        let written = read_shapes(&schema).written();
        let kept = Shapes::kept(written.clone().leak());
        assert_eq!(kept.written(), written);
    }
}
