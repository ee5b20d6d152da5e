//! Files made by real programs; their folder's README describes how.

use std::path::{Path, PathBuf};

use holodeck_documents::{ConvertOptions, Converted, Document, Format, Place, Problem, convert};
use pretty_assertions::assert_eq;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/documents")
        .join(name)
}

fn read(name: &str, options: &ConvertOptions) -> Result<Document, Problem> {
    let bytes = std::fs::read(fixture(name)).unwrap();
    match convert(name, &bytes, options) {
        Ok(Converted::Text(document)) => Ok(document),
        Ok(Converted::Image(picture)) => panic!("{picture:?}"),
        Err(error) => Err(error.problem),
    }
}

/// The document with its marks inline.
fn shown(document: &Document) -> String {
    let mut text = document.text.clone();
    for mark in document.marks.iter().rev() {
        let place = match &mark.place {
            Place::Page(page) => format!("<page {page}>"),
            Place::Slide(slide) => format!("<slide {slide}>"),
            Place::Sheet(sheet) => format!("<sheet {sheet}>"),
        };
        text.insert_str(mark.at, &place);
    }
    let title = document.title.as_deref().unwrap_or("none");
    format!("title: {title}\nnotes: {:?}\n\n{text}", document.notes)
}

fn all(name: &str) -> String {
    shown(&read(name, &ConvertOptions::default()).unwrap())
}

#[test]
fn word() {
    insta::assert_snapshot!(all("handbook.docx"));
}

#[test]
fn powerpoint() {
    insta::assert_snapshot!(all("onboarding.pptx"));
}

#[test]
fn excel() {
    insta::assert_snapshot!(all("prices.xlsx"));
}

#[test]
fn cells_read_as_the_sheet_shows_them() {
    let text = all("formats.xlsx");
    for cell in ["15%", "5.00 kg", "TRUE", "00042"] {
        assert!(text.contains(&format!("| {cell} |")), "{text}");
    }
    assert!(text.contains("notes: []"), "{text}");
}

#[test]
fn old_excel() {
    insta::assert_snapshot!(all("prices.xls"));
}

#[test]
fn open_document() {
    insta::assert_snapshot!(all("prices.ods"));
}

#[test]
fn pdf() {
    insta::assert_snapshot!(all("handbook.pdf"));
}

#[test]
fn scanned_pages_are_reported() {
    insta::assert_snapshot!(all("scan.pdf"));
}

#[test]
fn a_required_password_is_reported() {
    assert_eq!(
        read("locked.pdf", &ConvertOptions::default()),
        Err(Problem::Encrypted)
    );
}

#[test]
fn pages_are_those_that_people_count() {
    let pages = |name: &str, pages: &[u32]| {
        let pages = pages.to_vec();
        read(
            name,
            &ConvertOptions {
                pages,
                ..ConvertOptions::default()
            },
        )
    };
    let one = pages("handbook.pdf", &[1]).unwrap();
    assert!(one.text.starts_with("# Supplier Handbook\n"), "{}", one.text);
    let last = pages("handbook.pdf", &[3, 2]).unwrap();
    let places: Vec<_> = last.marks.iter().map(|mark| mark.place.clone()).collect();
    assert_eq!(places, [Place::Page(2), Place::Page(3)]);
    assert!(
        last.text[last.marks[1].at..].starts_with("# Contact"),
        "{}",
        last.text
    );
    assert_eq!(
        pages("handbook.pdf", &[4]),
        Err(Problem::NoPage { page: 4, count: 3 })
    );
    assert_eq!(
        pages("onboarding.pptx", &[9]),
        Err(Problem::NoPage { page: 9, count: 4 })
    );
    let slide = pages("onboarding.pptx", &[3]).unwrap();
    assert!(slide.text.starts_with("## Rooms\n"), "{}", slide.text);
}

#[test]
fn sheet_and_range_choose() {
    for (name, sheets) in [("prices.xlsx", 3), ("prices.xls", 2), ("prices.ods", 2)] {
        let options = ConvertOptions {
            sheet: Some("Prices".to_owned()),
            range: Some("A2:B3".to_owned()),
            ..ConvertOptions::default()
        };
        let chosen = read(name, &options).unwrap();
        assert_eq!(chosen.marks.len(), 1, "{name}");
        assert!(
            chosen
                .text
                .starts_with("## Prices\n\n| Lamp | 20.5 |\n| --- | --- |\n| Chair"),
            "{}",
            chosen.text
        );
        let options = ConvertOptions {
            sheet: Some("Nothing".to_owned()),
            ..ConvertOptions::default()
        };
        let Err(Problem::NoSheet { sheets: there, .. }) = read(name, &options) else {
            panic!("{name}");
        };
        assert_eq!(there.len(), sheets, "{name}");
    }
}

#[test]
fn pictures_are_for_the_model_to_see() {
    for (name, media_type) in [("invoice.png", "image/png"), ("invoice.jpg", "image/jpeg")] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let Ok(Converted::Image(picture)) = convert("any.png", &bytes, &ConvertOptions::default()) else {
            panic!("{name}");
        };
        assert_eq!(picture.format.media_type(), media_type);
        assert_eq!(picture.base64.len(), bytes.len().div_ceil(3) * 4);
        assert_eq!(picture.text, None);
    }
}

#[test]
fn the_name_does_not_matter() {
    let bytes = std::fs::read(fixture("handbook.docx")).unwrap();
    let Ok(Converted::Text(document)) = convert("wrong.xlsx", &bytes, &ConvertOptions::default()) else {
        panic!();
    };
    assert_eq!(
        document.notes,
        ["it has the extension of an Excel workbook, but contains a Word document"]
    );
    assert_eq!(Format::of_name("A.DOCX"), Some(Format::Docx));
}
