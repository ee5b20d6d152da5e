//! The program as the child that converts documents for itself.

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
fn it_converts_every_kind_that_may_be_hostile() {
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
fn what_is_wrong_is_told_by_its_name() {
    assert_eq!(
        convert("locked.pdf").unwrap_err(),
        "it is protected by a password"
    );
}
