//! Checks schemas against the rules of strict structured output.

use std::collections::BTreeSet;

use serde_json::Value;

/// Adds each part of `schema` that breaks the rules of strict structured output.
pub(super) fn not_strict(schema: &Value, path: &str, broken: &mut BTreeSet<String>) {
    let here = if path.is_empty() { "the root" } else { path };
    if let Some(properties) = schema["properties"].as_object() {
        if schema["additionalProperties"] != false {
            broken.insert(format!("{here} allows additional properties"));
        }
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (name, property) in properties {
            if !required.iter().any(|required| required == name) {
                broken.insert(format!("{here} does not require `{name}`"));
            }
            not_strict(property, &format!("{path}/{name}"), broken);
        }
    } else if schema["type"] == "object" {
        broken.insert(format!("{here} is an object without properties"));
    }
    if schema["items"].is_object() {
        not_strict(&schema["items"], &format!("{path}/items"), broken);
    }
}
