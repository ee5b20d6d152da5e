//! Completes the JSON Schema of a tool's arguments, as model endpoints need it.
//!
//! Endpoints refuse a request for the schema of any one tool: a root that is not an object with `properties`, alternatives at
//! the root, `null` where a list or an object belongs, arrays without `items`, references that lead nowhere, values that a
//! keyword cannot have. A complete schema is left as it is. What a completed schema allows more than before is still checked by the
//! tool.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

mod keywords;
mod references;

/// Deeper parts are left as they are: parsers of JSON refuse such a depth.
const MAX_DEPTH: usize = 100;

/// Keywords whose value may be `null`.
const MAY_BE_NULL: [&str; 2] = ["default", "const"];

/// Keywords with one schema.
const WITH_SCHEMA: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "not",
    "if",
    "then",
    "else",
];

/// Keywords with a list of schemas.
const WITH_SCHEMAS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Keywords with schemas by name.
const WITH_NAMED_SCHEMAS: [&str; 5] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
];

/// Keywords that endpoints accept within a property and refuse at the root.
const NOT_AT_ROOT: [&str; 5] = ["anyOf", "oneOf", "allOf", "not", "enum"];

/// The schema of a tool's arguments as an object with `properties`, which every endpoint accepts.
pub fn complete_tool_schema(schema: Value) -> Value {
    let root = match schema {
        Value::Object(root) => keywords::wrap_flat(with_own_references(root)),
        _ => Map::new(),
    };
    let mut root = match complete(root.into(), 0) {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    let definitions = root.clone();
    resolve(&mut root, &definitions);
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = root.remove(keyword) {
            merge(&mut root, &branches, keyword == "allOf", &definitions);
        }
    }
    for keyword in NOT_AT_ROOT {
        root.remove(keyword);
    }
    root.insert("type".to_owned(), "object".into());
    root.entry("properties").or_insert_with(|| json!({}));
    add_required(&mut root);
    // After the merge, which removes parts.
    Value::Object(references::remove_dangling(root))
}

/// References to the schema by its own address as those within it.
fn with_own_references(root: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::String(id)) = root.get("$id").or_else(|| root.get("id")) else {
        return root;
    };
    let id = id.trim_end_matches('#').to_owned();
    if id.is_empty() {
        return root;
    }
    let mut root = Value::Object(root);
    let mut parts = vec![&mut root];
    while let Some(part) = parts.pop() {
        match part {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let ("$ref", Value::String(reference)) = (name.as_str(), &mut *value)
                        && let Some(path) = reference.strip_prefix(&id).filter(|path| path.starts_with('#'))
                    {
                        *reference = path.to_owned();
                    }
                    parts.push(value);
                }
            }
            Value::Array(items) => parts.extend(items),
            _ => {}
        }
    }
    match root {
        Value::Object(root) => root,
        _ => Map::new(),
    }
}

/// Adds the properties that are required and not described: endpoints refuse names that they do not know.
fn add_required(schema: &mut Map<String, Value>) {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    let names = names_of(schema.get("required"));
    if names.is_empty() || !is_object && !schema.contains_key("properties") {
        return;
    }
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for name in names {
            properties.entry(name).or_insert_with(|| json!({}));
        }
    }
}

/// Replaces a reference at the root by its definition.
fn resolve(schema: &mut Map<String, Value>, definitions: &Map<String, Value>) {
    for _ in 0..MAX_DEPTH {
        let Some(Value::String(reference)) = schema.remove("$ref") else {
            return;
        };
        let path = reference.strip_prefix("#/").unwrap_or_default();
        let mut steps = path
            .split('/')
            .map(|step| step.replace("~1", "/").replace("~0", "~"));
        let first = steps.next().and_then(|step| definitions.get(&step));
        let target = first.and_then(|first| steps.try_fold(first, |value, step| value.get(step)));
        let Some(Value::Object(target)) = target else {
            return;
        };
        for (keyword, value) in target {
            schema.entry(keyword.clone()).or_insert_with(|| value.clone());
        }
    }
    // A circle of references.
    schema.remove("$ref");
}

/// Merges alternatives, or parts that all hold, into the root: every property of each of them, and as required those of
/// all alternatives, or of any part.
fn merge(
    root: &mut Map<String, Value>,
    branches: &[Value],
    all_hold: bool,
    definitions: &Map<String, Value>,
) {
    let mut required: Option<BTreeSet<String>> = None;
    for branch in branches {
        let Value::Object(branch) = branch else { continue };
        let mut branch = branch.clone();
        resolve(&mut branch, definitions);
        for keyword in ["allOf", "anyOf", "oneOf"] {
            if let Some(Value::Array(inner)) = branch.remove(keyword) {
                merge(&mut branch, &inner, keyword == "allOf", &Map::new());
            }
        }
        // Only alternatives that are objects have properties; `null` has none.
        let is_object = matches!(branch.get("type"), None | Some(Value::String(_)))
            && branch.get("type").is_none_or(|kind| kind == "object");
        if !is_object {
            continue;
        }
        let names = names_of(branch.get("required"));
        required = Some(match required {
            None => names,
            Some(before) if all_hold => before.union(&names).cloned().collect(),
            Some(before) => before.intersection(&names).cloned().collect(),
        });
        if let Some(Value::Object(properties)) = branch.remove("properties") {
            add_properties(root, properties, all_hold);
        }
        if let Some(description) = branch.remove("description") {
            root.entry("description").or_insert(description);
        }
    }
    let mut names = names_of(root.get("required"));
    names.extend(required.unwrap_or_default());
    if !names.is_empty() {
        root.insert("required".to_owned(), names.into_iter().collect());
    }
    // A property of another alternative is not an additional one.
    if !all_hold {
        root.remove("additionalProperties");
    }
}

fn add_properties(root: &mut Map<String, Value>, properties: Map<String, Value>, all_hold: bool) {
    let Some(own) = root
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    else {
        return;
    };
    for (name, schema) in properties {
        match own.get_mut(&name) {
            None => {
                own.insert(name, schema);
            }
            Some(before) if *before == schema => {}
            Some(before) => {
                let keyword = if all_hold { "allOf" } else { "anyOf" };
                let both = before.get_mut(keyword).and_then(Value::as_array_mut);
                match both {
                    Some(both) if !both.contains(&schema) => both.push(schema),
                    Some(_) => {}
                    None => *before = json!({ keyword: [before.take(), schema] }),
                }
            }
        }
    }
}

fn names_of(required: Option<&Value>) -> BTreeSet<String> {
    let names = required.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A schema without what serialisers write for absent values, and with `items` in every array.
fn complete(schema: Value, depth: usize) -> Value {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(false) => return Value::Bool(false),
        // `true`, and what is no schema, allows everything.
        _ => return json!({}),
    };
    if depth > MAX_DEPTH {
        return Value::Object(schema);
    }
    schema.retain(|keyword, value| !value.is_null() || MAY_BE_NULL.contains(&keyword.as_str()));
    complete_lists(&mut schema);
    keywords::repair(&mut schema);
    if let Some(properties) = schema.get_mut("properties") {
        let (named, required) = keywords::repair_properties(properties.take());
        *properties = named.into();
        if !required.is_empty()
            && let Some(names) = schema
                .entry("required")
                .or_insert_with(|| json!([]))
                .as_array_mut()
        {
            names.extend(required);
            remove_repeated(names);
        }
    }
    for keyword in WITH_NAMED_SCHEMAS {
        let Some(value) = schema.get_mut(keyword) else {
            continue;
        };
        // PHP writes an empty object as an empty list.
        *value = match value.take() {
            Value::Object(named) => named
                .into_iter()
                .map(|(name, schema)| (name, complete(schema, depth + 1)))
                .collect(),
            _ => json!({}),
        };
    }
    if let Some(Value::Object(named)) = schema.get_mut("dependencies") {
        for value in named.values_mut().filter(|value| value.is_object()) {
            *value = complete(value.take(), depth + 1);
        }
    }
    for keyword in WITH_SCHEMAS {
        if let Some(Value::Array(schemas)) = schema.get_mut(keyword) {
            for schema in schemas {
                *schema = complete(schema.take(), depth + 1);
            }
        }
    }
    complete_tuple(&mut schema);
    for keyword in WITH_SCHEMA {
        if let Some(value) = schema.get_mut(keyword)
            && !value.is_boolean()
        {
            *value = complete(value.take(), depth + 1);
        }
    }
    if is_array(&schema) {
        schema.entry("items").or_insert_with(|| json!({}));
    }
    add_required(&mut schema);
    Value::Object(schema)
}

/// Leaves out keywords that must be lists and are not; drafts before the fourth have `required: true` in a property.
fn complete_lists(schema: &mut Map<String, Value>) {
    for keyword in WITH_SCHEMAS.into_iter().chain(["enum", "required", "examples"]) {
        let is_list = schema.get(keyword).is_none_or(Value::is_array);
        // An empty list of choices allows nothing, which no serialiser means.
        let is_empty = schema
            .get(keyword)
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty);
        if !is_list || (is_empty && keyword != "required" && keyword != "examples") {
            schema.remove(keyword);
        }
    }
    if let Some(Value::Array(names)) = schema.get_mut("required") {
        names.retain(Value::is_string);
        remove_repeated(names);
    }
    // In its place: models read the schema in its order.
    if let Some(kind) = schema.get_mut("type") {
        match complete_type(kind.take()) {
            Some(complete) => *kind = complete,
            None => {
                schema.shift_remove("type");
            }
        }
    }
}

fn remove_repeated(values: &mut Vec<Value>) {
    let mut seen: Vec<Value> = Vec::with_capacity(values.len());
    values.retain(|value| {
        let is_new = !seen.contains(value);
        if is_new {
            seen.push(value.clone());
        }
        is_new
    });
}

/// A type as JSON Schema names it. One that JSON Schema does not have allows everything, as does a list with such a one.
fn complete_type(kind: Value) -> Option<Value> {
    match kind {
        Value::String(name) => Some(name_of_type(&name)?.into()),
        Value::Array(kinds) => {
            let names = kinds.iter().filter_map(Value::as_str).map(name_of_type);
            let mut names: Vec<Value> = names.map(|name| name.map(Value::from)).collect::<Option<_>>()?;
            remove_repeated(&mut names);
            match names.as_slice() {
                [] => None,
                [only] => Some(only.clone()),
                _ => Some(names.into()),
            }
        }
        _ => None,
    }
}

/// The type that serialisers of other languages, and Gemini, name in this way.
fn name_of_type(name: &str) -> Option<&'static str> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "integer" | "int" | "int32" | "int64" | "long" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "boolean" | "bool" => "boolean",
        "object" | "dict" | "map" => "object",
        "array" | "list" | "set" | "tuple" => "array",
        "null" | "none" | "nonetype" => "null",
        _ => return None,
    })
}

/// `items` as a list, from older drafts, as one schema for all items.
fn complete_tuple(schema: &mut Map<String, Value>) {
    let Some(Value::Array(list)) = schema.get_mut("items") else {
        return;
    };
    let mut different: Vec<Value> = Vec::new();
    for item in list.drain(..) {
        if !different.contains(&item) {
            different.push(item);
        }
    }
    let rest = schema.remove("additionalItems");
    let items = match (different.len(), rest) {
        (0, _) => json!({}),
        (1, Some(Value::Bool(false))) => different.remove(0),
        (_, Some(Value::Bool(false))) => json!({ "anyOf": different }),
        // Further items may be anything.
        _ => json!({}),
    };
    schema.insert("items".to_owned(), items);
}

fn is_array(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
