//! Malicious files, converted as in the product: in a child process with limits.

use std::{
    fmt::Write as _,
    io::{Cursor, Write as _},
    path::PathBuf,
    time::Duration,
};

use holodeck_documents::{
    ConvertLimits, ConvertOptions, Converted, Converter, Document, DocumentError, Isolation, Limit, Problem,
};
use tokio_util::sync::CancellationToken;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::files::fixture;

const MIB: usize = 1024 * 1024;

pub(crate) fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples/convert")
}

pub(crate) fn converter() -> Converter {
    Converter::new(Isolation::Child {
        program: program(),
        args: Vec::new(),
    })
}

async fn convert(name: &str, bytes: impl Into<Vec<u8>>) -> Result<Document, DocumentError> {
    convert_with(converter(), name, bytes).await
}

async fn convert_with(
    converter: Converter,
    name: &str,
    bytes: impl Into<Vec<u8>>,
) -> Result<Document, DocumentError> {
    let cancel = CancellationToken::new();
    let converted = converter
        .convert_bytes(name, bytes.into(), &ConvertOptions::default(), &cancel)
        .await?;
    match converted {
        Converted::Text(document) => Ok(document),
        Converted::Image(picture) => panic!("{picture:?}"),
    }
}

async fn refused(name: &str, bytes: impl Into<Vec<u8>>) -> Problem {
    let error = convert(name, bytes).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("`{name}`: ")), "{error}");
    error.problem
}

pub(crate) fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        let plain = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(*name, plain).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn word(body: &str) -> Vec<u8> {
    let body = format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
    archive(&[("word/document.xml", body.as_bytes())])
}

/// A PDF of these objects, the first of which is the catalog.
fn pdf(objects: &[&str]) -> Vec<u8> {
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(file.len());
        let _ = writeln!(file, "{} 0 obj\n{object}\nendobj", number + 1);
    }
    let table = file.len();
    let _ = write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for place in places {
        let _ = writeln!(file, "{place:010} 00000 n ");
    }
    let size = objects.len() + 1;
    let _ = write!(
        file,
        "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"
    );
    file.into_bytes()
}

fn stream(dictionary: &str, content: &str) -> String {
    format!(
        "<< {dictionary} /Length {} >>\nstream\n{content}\nendstream",
        content.len()
    )
}

const FONT: &str = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";

/// A file in an archive, with a declared size that may be wrong.
struct Packed {
    name: String,
    method: u16,
    data: Vec<u8>,
    size: u32,
}

/// An archive with exactly these entries.
fn packed(files: &[Packed]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let at = u32::try_from(archive.len()).unwrap();
        let mut about = Vec::new();
        about.extend([20, 0, 0, 0]);
        about.extend(file.method.to_le_bytes());
        about.extend([0; 8]);
        about.extend(u32::try_from(file.data.len()).unwrap().to_le_bytes());
        about.extend(file.size.to_le_bytes());
        about.extend(u16::try_from(file.name.len()).unwrap().to_le_bytes());
        about.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&about);
        archive.extend(file.name.as_bytes());
        archive.extend(&file.data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(about);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(file.name.as_bytes());
    }
    let at = u32::try_from(archive.len()).unwrap();
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    archive.extend([count, count].concat());
    archive.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0; 2]);
    archive
}

const DEFLATED: u16 = 8;

/// A deflated run of spaces: one, and then repeats of 258 bytes.
fn spaces(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    let mut write = |code: u32, length: u32| {
        bits |= code << count;
        count += length;
        while count >= 8 {
            bytes.push(bits.to_le_bytes()[0]);
            bits >>= 8;
            count -= 8;
        }
    };
    let reversed = |code: u32, length: u32| code.reverse_bits() >> (32 - length);
    write(0b011, 3);
    write(reversed(0x30 + 0x20, 8), 8);
    for _ in 0..length / 258 {
        write(reversed(0b1100_0101, 8), 8);
        write(0, 5);
    }
    write(0, 7);
    write(0, 8);
    bytes
}

fn body(data: Vec<u8>, size: usize) -> Packed {
    Packed {
        name: "word/document.xml".to_owned(),
        method: DEFLATED,
        data,
        size: u32::try_from(size).unwrap(),
    }
}

#[tokio::test]
async fn a_zip_bomb_is_refused_before_it_is_expanded() {
    let problem = refused("bomb.docx", packed(&[body(spaces(300 * MIB), 300 * MIB)])).await;
    assert_eq!(problem.to_string(), "it expands to more than 256 MiB");
    let many: Vec<Packed> = (0..300)
        .map(|number| Packed {
            name: format!("xl/media/{number}"),
            ..body(spaces(258), MIB)
        })
        .collect();
    let problem = refused("many.xlsx", packed(&many)).await;
    assert_eq!(problem, Problem::Limit(Limit::Expanded(256 * MIB as u64)));
}

#[tokio::test]
async fn a_zip_bomb_that_lies_about_its_size_is_refused() {
    let problem = refused("liar.docx", packed(&[body(spaces(300 * MIB), 1000)])).await;
    assert!(
        problem.to_string().contains("larger than its declared"),
        "{problem}"
    );
}

#[tokio::test]
async fn too_many_files_in_an_archive_are_refused() {
    let many: Vec<Packed> = (0..10_001)
        .map(|number| Packed {
            name: format!("word/{number}"),
            method: 0,
            data: Vec::new(),
            size: 0,
        })
        .collect();
    let problem = refused("many.docx", packed(&many)).await;
    assert_eq!(problem, Problem::Limit(Limit::Entries(10_000)));
}

#[tokio::test]
async fn nesting_without_end_is_refused() {
    let deep = "<w:sdt>".repeat(100_000);
    let problem = refused("deep.docx", word(&deep)).await;
    assert_eq!(problem, Problem::Limit(Limit::Depth(256)));
    let slide = format!("<p:sld xmlns:p=\"p\">{}", "<p:grpSp>".repeat(100_000));
    let parts: &[(&str, &[u8])] = &[
        (
            "ppt/presentation.xml",
            b"<p:presentation xmlns:p=\"p\"><p:sldId id=\"1\" r:id=\"a\"/></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            b"<R><Relationship Id=\"a\" Type=\"x/slide\" Target=\"slide.xml\"/></R>",
        ),
        ("ppt/slide.xml", slide.as_bytes()),
    ];
    assert_eq!(
        refused("deep.pptx", archive(parts)).await,
        Problem::Limit(Limit::Depth(256))
    );
}

#[tokio::test]
async fn entities_are_not_expanded() {
    let mut body = "<!DOCTYPE d [<!ENTITY a0 \"ha\">".to_owned();
    for level in 1..40 {
        let _ = write!(body, "<!ENTITY a{level} \"&a{};&a{};\">", level - 1, level - 1);
    }
    body.push_str("]><d>&a39;</d>");
    let problem = refused("laughs.docx", archive(&[("word/document.xml", body.as_bytes())])).await;
    assert!(
        problem.to_string().contains("it declares a document type"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_workbook_with_a_cell_in_each_corner_takes_no_more_than_two() {
    let sheet = r#"<worksheet xmlns="x"><dimension ref="A1:XFD1048576"/><sheetData>
        <row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData></worksheet>"#;
    let book = workbook(sheet);
    let document = convert("corners.xlsx", book).await.unwrap();
    assert_eq!(document.text, "## Sheet\n\n1\n\n2\n");
}

#[tokio::test]
async fn hidden_rows_and_columns_of_a_workbook_are_named() {
    for (rows, columns, note) in [
        ("", "", None),
        ("hidden=\"1\"", "", Some("row 2 of `Sheet`")),
        ("", "hidden=\"1\"", Some("column B of `Sheet`")),
        (
            "hidden=\"1\"",
            "hidden=\"1\"",
            Some("row 2 and column B of `Sheet`"),
        ),
    ] {
        let sheet = format!(
            r#"<worksheet xmlns="x"><cols><col min="2" max="7" {columns}/></cols><sheetData><row r="1"><c r="A1"><v>1</v></c></row>
            <row r="2" {rows}><c r="A2"><v>3</v></c><c r="B2"><v>4</v></c></row><row r="5" {rows}/></sheetData></worksheet>"#
        );
        let document = convert("rows.xlsx", workbook(&sheet)).await.unwrap();
        assert_eq!(document.text, "## Sheet\n\n| 1 |  |\n| --- | --- |\n| 3 | 4 |\n");
        let note = note.map(|lines| format!("hidden rows and columns are among them: {lines}"));
        assert_eq!(document.notes, Vec::from_iter(note));
    }
}

fn workbook(sheet: &str) -> Vec<u8> {
    archive(&[
        (
            "_rels/.rels",
            br#"<Relationships xmlns="x"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#,
        ),
        (
            "xl/workbook.xml",
            br#"<workbook xmlns="x" xmlns:r="r"><sheets><sheet name="Sheet" sheetId="1" r:id="a"/></sheets></workbook>"#,
        ),
        (
            "xl/_rels/workbook.xml.rels",
            br#"<Relationships xmlns="x"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#,
        ),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

#[tokio::test]
async fn a_pdf_whose_pages_loop_is_refused() {
    let loops = pdf(&[
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 9 /Kids [3 0 R 2 0 R] >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    ]);
    let problem = refused("loop.pdf", loops).await;
    assert!(problem.to_string().ends_with("its page tree loops"), "{problem}");
    let parents = pdf(&[
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 1 /Kids [3 0 R] /Parent 2 0 R >>",
        "<< /Type /Page /Parent 2 0 R >>",
    ]);
    let problem = refused("parents.pdf", parents).await;
    assert!(problem.to_string().ends_with("its page tree loops"), "{problem}");
}

#[tokio::test]
async fn a_pdf_without_the_fonts_it_uses_says_so() {
    let text = stream("", "BT /F 12 Tf (words) Tj ET");
    let without = pdf(&[
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        &text,
    ]);
    let problem = refused("fonts.pdf", without).await.to_string();
    assert!(
        problem.ends_with("page 1: its fonts or its contents cannot be understood"),
        "{problem}"
    );
}

#[tokio::test]
async fn a_pdf_whose_contents_loop_is_refused() {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /A 5 0 R >> >> >>";
    let draw = stream("", "/A Do");
    let own = stream(
        "/Type /XObject /Subtype /Form /Resources << /XObject << /A 5 0 R >> >>",
        "/A Do",
    );
    let around = stream("/Type /XObject /Subtype /Form", "/A Do");
    for form in [own, around] {
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>",
            "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            page,
            &draw,
            &form,
        ];
        let problem = refused("contents.pdf", pdf(&objects)).await;
        assert!(problem.to_string().ends_with("loop"), "{problem}");
    }
}

/// Contents that each draw ten others: not a loop, but exponential.
fn laughing_pdf() -> Vec<u8> {
    const LEVELS: usize = 12;
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /A 5 0 R >> >> >>"
            .to_owned(),
        stream("", "/A Do"),
    ];
    for level in 0..LEVELS {
        let next = 6 + level;
        let resources =
            format!("/Type /XObject /Subtype /Form /Resources << /XObject << /A {next} 0 R >> >>");
        objects.push(stream(&resources, &"/A Do ".repeat(10)));
    }
    objects.push(stream(
        &format!("/Type /XObject /Subtype /Form /Resources << {FONT} >>"),
        "",
    ));
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    pdf(&objects)
}

#[tokio::test]
async fn what_takes_too_long_is_ended() {
    let limits = ConvertLimits {
        time: Duration::from_secs(1),
        ..ConvertLimits::default()
    };
    let error = convert_with(converter().limits(limits), "laughs.pdf", laughing_pdf())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`laughs.pdf`: converting it takes longer than 1 s"
    );
}

#[tokio::test]
async fn what_takes_too_much_memory_is_ended() {
    let limits = ConvertLimits {
        memory: 256 * MIB as u64,
        ..ConvertLimits::default()
    };
    // Within the expansion limit of an archive, and beyond the memory limit.
    let bytes = packed(&[body(spaces(200 * MIB), 200 * MIB)]);
    let error = convert_with(converter().limits(limits), "big.docx", bytes)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`big.docx`: converting it takes more than 256 MiB of memory"
    );
}

#[tokio::test]
async fn what_becomes_too_much_text_is_ended() {
    let limits = ConvertLimits {
        output: MIB,
        ..ConvertLimits::default()
    };
    let paragraph = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "x".repeat(1000));
    let bytes = word(&paragraph.repeat(2000));
    let error = convert_with(converter().limits(limits), "long.docx", bytes)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "`long.docx`: its text is larger than 1 MiB");
}

#[tokio::test]
async fn a_caller_that_gives_up_is_obeyed() {
    let cancel = CancellationToken::new();
    let converter = converter();
    let options = ConvertOptions::default();
    let converting = converter.convert_bytes("laughs.pdf", laughing_pdf(), &options, &cancel);
    let giving_up = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (converted, ()) = tokio::join!(converting, giving_up);
    assert_eq!(converted.unwrap_err().problem, Problem::Cancelled);
}

#[tokio::test]
async fn a_program_that_is_not_a_converter_is_reported() {
    let missing = Converter::new(Isolation::by_command("/nonexistent/holodeck"));
    let error = convert_with(missing, "a.docx", word("")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`a.docx`: the converter failed: program `/nonexistent/holodeck` not found"
    );
    let other = Converter::new(Isolation::by_command("/bin/true"));
    let error = convert_with(other, "a.docx", word("")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`a.docx`: the converter failed: its answer is not valid JSON"
    );
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_even_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.xlsx");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(2 * 1024 * MIB as u64).unwrap();
    let error = converter()
        .convert_file(&path, &ConvertOptions::default(), &CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "`{}`: it has 2147483648 bytes, more than the limit of 104857600",
            path.display()
        )
    );
}

/// However a file is truncated, the result is text or an error that names it.
#[tokio::test]
async fn what_was_cut_off_is_an_error() {
    for name in [
        "handbook.docx",
        "onboarding.pptx",
        "prices.xlsx",
        "prices.xls",
        "prices.ods",
        "handbook.pdf",
    ] {
        let whole = std::fs::read(fixture(name)).unwrap();
        for part in 1..8 {
            let cut = whole[..whole.len() * part / 8].to_vec();
            let Err(error) = convert(name, cut).await else {
                // The PDF reader finds pages without the table at the end.
                assert!(["handbook.pdf", "prices.xls"].contains(&name), "{name} {part}");
                continue;
            };
            assert!(error.to_string().starts_with(&format!("`{name}`: ")), "{error}");
            assert!(!matches!(error.problem, Problem::Converter(_)), "{error}");
        }
    }
}

#[tokio::test]
async fn random_bytes_behind_a_true_beginning_are_an_error() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let beginnings: [(&str, &[u8]); 4] = [
        ("a.pdf", b"%PDF-1.7\n"),
        ("a.docx", b"PK\x03\x04\x14\0\0\0\x08\0word/document.xml"),
        ("a.xlsx", b"PK\x03\x04\x14\0\0\0\x08\0xl/workbook.xml"),
        ("a.xls", b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"),
    ];
    for (name, beginning) in beginnings {
        let noise: Vec<u8> = (0..8192).flat_map(|_| random()).collect();
        let problem = refused(name, [beginning, &noise].concat()).await;
        assert!(!matches!(problem, Problem::Converter(_)), "{name}: {problem}");
    }
}
