//! The kept shapes are those of the schema that the types of the language have.

use std::{env, fs, path::Path};

use holodeck_model::{Agent, GlobalConfig};
use schemars::JsonSchema;

use super::{Shapes, read_shapes};
use crate::schema::{FrontMatter, raw};

/// Set by `cargo xtask codegen`: write the files instead of comparing them.
const WRITE: &str = "HOLODECK_WRITE_GENERATED";

/// One shape a line, so that a change shows in a few lines.
fn written(shapes: &Shapes) -> String {
    let lines = shapes
        .table
        .iter()
        .map(|shape| serde_json::to_string(shape).unwrap());
    let lines: Vec<String> = lines.collect();
    format!(
        "{{\"table\":[\n{}\n],\"root\":{}}}\n",
        lines.join(",\n"),
        shapes.root.0
    )
}

fn check<T: JsonSchema>(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/shape").join(file);
    let expected = written(&read_shapes(&raw::<T>()));
    if env::var_os(WRITE).is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{} is not that of the types: run `cargo xtask codegen`",
        path.display()
    );
    // Nothing is lost between a shape and its text.
    assert_eq!(written(&Shapes::kept(&found).unwrap()), expected);
}

#[test]
fn the_kept_shapes_are_those_of_the_types() {
    check::<Agent>("agent.json");
    check::<GlobalConfig>("config.json");
    check::<FrontMatter>("front_matter.json");
}

#[test]
fn a_text_that_keeps_no_shapes_is_not_read() {
    for broken in [
        "",
        "{}",
        "[]",
        r#"{"table":[{"nullable":true,"kind":"Anything"}],"root":0}"#,
    ] {
        assert!(Shapes::kept(broken).is_none(), "{broken}");
    }
}
