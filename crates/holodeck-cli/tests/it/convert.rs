//! The program as the child process that converts documents.

use std::path::{Path, PathBuf};

use holodeck::documents::{ConvertOptions, Converted, Converter, Isolation};

fn convert(name: &str) -> Result<Converted, String> {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/documents")
        .join(name);
    let converter = Converter::new(Isolation::by_command(env!("CARGO_BIN_EXE_holodeck")));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let options = ConvertOptions::default();
    let never = fresh();
    let converted = runtime.block_on(converter.convert_file(&file, &options, &never));
    converted.map_err(|error| error.problem.to_string())
}

fn fresh<T: Default>() -> T {
    T::default()
}

#[test]
fn every_kind_that_may_be_hostile_is_converted() {
    for name in [
        "handbook.docx",
        "handbook.pdf",
        "onboarding.pptx",
        "prices.xlsx",
        "prices.xls",
        "prices.ods",
    ] {
        let Converted::Text(document) = convert(name).unwrap() else {
            panic!("{name}");
        };
        assert!(document.text.contains("# "), "{name}: {}", document.text);
    }
}

#[test]
fn the_error_of_a_conversion_names_its_cause() {
    assert_eq!(
        convert("locked.pdf").unwrap_err(),
        "it is protected by a password"
    );
}
