//! The published JSON Schemas.

use std::{fs, path::Path};

use holodeck_yaml::{config_json_schema, json_schema};

use crate::support::{fixtures, root};

fn check(file: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/schemas")
        .join(file);
    let schema_on_disk: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        schema_on_disk == *schema,
        "docs/schemas/{file} is out of date; regenerate it with `holodeck schema`"
    );
}

#[test]
fn the_checked_in_schemas_are_current() {
    check("agent.schema.json", &json_schema());
    check("config.schema.json", &config_json_schema());
}

/// Fixtures that the loader accepts but the schema does not: numbers for strings, variables for numbers.
const LENIENT: [&str; 4] = [
    "lenient-scalars.yaml",
    "yaml-1.1-differences.yaml",
    "variables.yaml",
    "yaml-features.yaml",
];

#[test]
fn the_schema_accepts_valid_files_as_an_editor_would() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    for path in fixtures("valid") {
        let name = path.file_name().unwrap().to_str().unwrap();
        // An editor does not see the fields that `config.yaml` adds.
        if LENIENT.contains(&name) || path.ends_with("layers/agent.yaml") {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let mut value: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        quote_numbers(&mut value);
        let problems: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{}: {problems:#?}", path.display());
    }
}

/// Converts numbers in `ground_truth` and `value` to strings: the loader accepts them, the schema does not.
fn quote_numbers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value {
                    serde_json::Value::Number(number) if matches!(key.as_str(), "ground_truth" | "value") => {
                        *value = number.to_string().into();
                    }
                    serde_json::Value::Array(items) if key == "value" => {
                        for item in items.iter_mut().filter(|item| item.is_number()) {
                            *item = item.to_string().into();
                        }
                    }
                    value => quote_numbers(value),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(quote_numbers),
        _ => {}
    }
}

#[test]
fn the_schema_rejects_what_validate_rejects() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    for name in [
        "unknown-fields",
        "missing-fields",
        "wrong-types",
        "unknown-values",
        "out-of-range",
        "too-many-items",
        "mcp-unknown-field-and-metrics-without-type",
    ] {
        let text = fs::read_to_string(root().join("invalid").join(format!("{name}.yaml"))).unwrap();
        let value: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        assert!(!validator.is_valid(&value), "{name}");
    }
}
