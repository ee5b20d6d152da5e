//! The files in which the shapes of the language are kept.

use std::{fs, path::Path};

use holodeck_yaml::shape_files;

/// Set by `cargo xtask codegen`: write the files instead of comparing them.
const WRITE: &str = "HOLODECK_WRITE_GENERATED";

#[test]
fn the_kept_shapes_are_those_of_the_types() {
    #[expect(clippy::disallowed_methods, reason = "a test has no `Env` to be handed")]
    let writes = std::env::var_os(WRITE).is_some();
    for (file, expected) in shape_files() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/shape").join(file);
        if writes {
            fs::write(&path, &expected).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == expected,
            "src/shape/{file} is not that of the types: run `cargo xtask codegen`"
        );
    }
}
