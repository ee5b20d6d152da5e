//! Removes references that lead nowhere: to another document, to a part that is not there, or in a circle. It must not resolve those
//! that lead to a schema: models and endpoints follow them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{MAX_DEPTH, WITH_NAMED_SCHEMAS, WITH_SCHEMA, WITH_SCHEMAS};

/// Removes every reference of a whole schema that does not lead to one of its parts.
pub(super) fn remove_dangling(root: Map<String, Value>) -> Map<String, Value> {
    let mut root = Value::Object(root);
    // A part that was reached through a reference which is removed is still in its place.
    let whole = root.clone();
    remove_in(&mut root, &whole, 0);
    match root {
        Value::Object(root) => root,
        _ => Map::new(),
    }
}

fn remove_in(schema: &mut Value, whole: &Value, depth: usize) {
    let Value::Object(schema) = schema else { return };
    if depth > MAX_DEPTH {
        return;
    }
    let leads = |reference: &Value| {
        reference
            .as_str()
            .is_some_and(|path| leads_to_schema(whole, path))
    };
    if schema.get("$ref").is_some_and(|reference| !leads(reference)) {
        schema.shift_remove("$ref");
    }
    for (keyword, value) in schema.iter_mut() {
        let keyword = keyword.as_str();
        if WITH_SCHEMA.contains(&keyword) {
            remove_in(value, whole, depth + 1);
        } else if WITH_SCHEMAS.contains(&keyword) {
            let schemas = value.as_array_mut().into_iter().flatten();
            schemas.for_each(|schema| remove_in(schema, whole, depth + 1));
        } else if WITH_NAMED_SCHEMAS.contains(&keyword) || keyword == "dependencies" {
            let schemas = value.as_object_mut().into_iter().flatten();
            schemas.for_each(|(_, schema)| remove_in(schema, whole, depth + 1));
        }
    }
}

/// Whether a reference leads to a schema that is more than references back to itself.
fn leads_to_schema(whole: &Value, reference: &str) -> bool {
    let mut seen = HashSet::new();
    let mut reference = reference;
    loop {
        if !seen.insert(reference) {
            return false;
        }
        let Some(target) = schema_at(whole, reference) else {
            return false;
        };
        match target.get("$ref") {
            Some(Value::String(next)) => reference = next,
            _ => return true,
        }
    }
}

/// The schema at a reference within the document.
fn schema_at<'s>(whole: &'s Value, reference: &str) -> Option<&'s Value> {
    let path = reference.strip_prefix('#')?;
    if path.is_empty() {
        return Some(whole);
    }
    let mut schema = whole;
    let mut steps = path
        .strip_prefix('/')?
        .split('/')
        .map(|step| step.replace("~1", "/").replace("~0", "~"));
    while let Some(step) = steps.next() {
        let value = schema.get(&step)?;
        schema = if WITH_SCHEMA.contains(&step.as_str()) {
            value
        } else if WITH_SCHEMAS.contains(&step.as_str()) {
            value.get(steps.next()?.parse::<usize>().ok()?)?
        } else if WITH_NAMED_SCHEMAS.contains(&step.as_str()) {
            value.get(steps.next()?)?
        } else {
            return None;
        };
    }
    (schema.is_object() || schema.is_boolean()).then_some(schema)
}
