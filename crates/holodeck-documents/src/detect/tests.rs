//! Tests that the content of a file decides about its format, and that unsupported formats are named.

use super::*;

fn of(name: &str, bytes: &[u8]) -> Result<(Format, bool), String> {
    let found = detect(name, None, bytes);
    found
        .map(|(format, note)| (format, note.is_some()))
        .map_err(|problem| problem.to_string())
}

#[test]
fn the_content_has_the_last_word() {
    assert_eq!(of("a.md", b"# Hello"), Ok((Format::Markdown, false)));
    assert_eq!(of("a.md", b"%PDF-1.7 ..."), Ok((Format::Pdf, true)));
    assert_eq!(
        of("a.png", b"\xFF\xD8\xFF\xE0"),
        Ok((Format::Image(ImageFormat::Jpeg), true))
    );
    assert_eq!(of("a.xls", b"<html><table>"), Ok((Format::Html, true)));
    assert_eq!(of("a.xls", b"a;b\n1;2\n"), Ok((Format::Csv, true)));
    assert_eq!(of("a.py", b"print(1)\n"), Ok((Format::Text, false)));
    assert_eq!(of("README", b"text"), Ok((Format::Text, false)));
    assert_eq!(of("page", b"<!DOCTYPE html><p>"), Ok((Format::Html, false)));
    assert_eq!(
        of("a.pdf", b"only text"),
        Err("it has the extension of a PDF document, but other content".to_owned())
    );
    assert_eq!(
        of("a.docx", b"\0\x01\x02\x03"),
        Err("it has the extension of a Word document, but other content".to_owned())
    );
}

#[test]
fn what_is_not_read_is_named() {
    assert_eq!(
        of("a.rtf", b"{\\rtf1 }"),
        Err("RTF documents are not supported".to_owned())
    );
    assert_eq!(
        of("a.bin", b"\0\0\0"),
        Err("a file of unknown format is not supported".to_owned())
    );
    assert_eq!(
        of("a.heic", b"\0\0\0\x18ftypheic"),
        Err("HEIC pictures are not supported".to_owned())
    );
}
