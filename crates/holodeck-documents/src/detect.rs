//! Recognises the format of a file from its name and content; the content decides.

use std::path::Path;

use crate::{Format, ImageFormat, Problem, format::extension, text};

pub(crate) mod archive;

impl Format {
    /// The format of a file with this content. Its name decides only between formats of text.
    pub fn detect(name: &str, bytes: &[u8]) -> Result<Self, Problem> {
        detect(name, None, bytes).map(|(format, _)| format)
    }
}

/// Common formats that are not supported, and the subject of the error.
const NOT_READ: &[(&str, &str)] = &[
    ("doc", "Word documents of the old kind are"),
    ("ppt", "PowerPoint presentations of the old kind are"),
    ("odt", "OpenDocument texts are"),
    ("odp", "OpenDocument presentations are"),
    ("rtf", "RTF documents are"),
    ("epub", "EPUB books are"),
    ("msg", "Outlook messages are"),
    ("pages", "Pages documents are"),
    ("numbers", "Numbers documents are"),
    ("key", "Keynote documents are"),
    ("zip", "archives are"),
    ("7z", "archives are"),
    ("rar", "archives are"),
    ("tar", "archives are"),
    ("gz", "archives are"),
    ("svg", "SVG drawings are"),
    ("bmp", "BMP pictures are"),
    ("tif", "TIFF pictures are"),
    ("tiff", "TIFF pictures are"),
    ("heic", "HEIC pictures are"),
    ("avif", "AVIF pictures are"),
    ("parquet", "Parquet files are"),
    ("sqlite", "databases are"),
    ("db", "databases are"),
];

/// The format of a file, and a notice if its extension differs. The content decides.
pub(crate) fn detect(
    name: &str,
    declared: Option<Format>,
    bytes: &[u8],
) -> Result<(Format, Option<String>), Problem> {
    let named = Format::of_name(name).or(declared);
    let found = match sniff(bytes) {
        Sniffed::Is(format) => format,
        Sniffed::NotRead(archive::PROTECTED) => return Err(Problem::Encrypted),
        Sniffed::NotRead(what) => return Err(not_read(what)),
        Sniffed::NoText => {
            return Err(match (named, unsupported_extension(name)) {
                (_, Some(what)) => not_read(what),
                (Some(named), None) if !bytes.is_empty() => Problem::Mismatch { named },
                _ => Problem::Unsupported("a file of unknown format is".to_owned()),
            });
        }
        Sniffed::Text { html } => match named {
            Some(named) if named.is_text() => named,
            // Spreadsheet programs give this extension to web pages and tables.
            _ if html => Format::Html,
            Some(Format::Xls | Format::Xlsx) if !bytes.is_empty() => Format::Csv,
            Some(named) => return Err(Problem::Mismatch { named }),
            None => match unsupported_extension(name) {
                Some(what) => return Err(not_read(what)),
                None => Format::Text,
            },
        },
    };
    let note = named
        .filter(|named| *named != found)
        .map(|named| format!("it has the extension of {named}, but contains {found}"));
    Ok((found, note))
}

enum Sniffed {
    Is(Format),
    NotRead(&'static str),
    Text { html: bool },
    NoText,
}

fn sniff(bytes: &[u8]) -> Sniffed {
    const OLE: &[u8] = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
    let start = bytes.get(..bytes.len().min(1024)).unwrap_or_default();
    if let Some(picture) = picture(start) {
        return Sniffed::Is(Format::Image(picture));
    }
    if contains(start, b"%PDF-") {
        return Sniffed::Is(Format::Pdf);
    }
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return match archive::kind(bytes) {
            Ok(format) => Sniffed::Is(format),
            Err(what) => Sniffed::NotRead(what),
        };
    }
    if start.starts_with(OLE) {
        return match archive::old_office(bytes) {
            Ok(format) => Sniffed::Is(format),
            Err(what) => Sniffed::NotRead(what),
        };
    }
    if start.starts_with(b"{\\rtf") {
        return Sniffed::NotRead("RTF documents are");
    }
    if start.starts_with(b"II*\0") || start.starts_with(b"MM\0*") {
        return Sniffed::NotRead("TIFF pictures are");
    }
    if start.starts_with(b"\x1F\x8B") || start.starts_with(b"7z\xBC\xAF") {
        return Sniffed::NotRead("archives are");
    }
    if !text::is_text(bytes) {
        return Sniffed::NoText;
    }
    // In UTF-16, every other byte of markup is 0.
    let start: Vec<u8> = start.iter().copied().filter(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&start).to_ascii_lowercase();
    let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let html = text.starts_with("<!doctype html") || text.starts_with("<html");
    Sniffed::Text { html }
}

fn picture(start: &[u8]) -> Option<ImageFormat> {
    if start.starts_with(b"\x89PNG\r\n\x1A\n") {
        Some(ImageFormat::Png)
    } else if start.starts_with(b"\xFF\xD8\xFF") {
        Some(ImageFormat::Jpeg)
    } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
        Some(ImageFormat::Gif)
    } else if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        Some(ImageFormat::Webp)
    } else {
        None
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn not_read(what: &str) -> Problem {
    Problem::Unsupported(what.to_owned())
}

fn unsupported_extension(name: &str) -> Option<&'static str> {
    let extension = extension(Path::new(name))?;
    let mut known = NOT_READ.iter();
    known
        .find(|(known, _)| *known == extension)
        .map(|(_, what)| *what)
}

#[cfg(test)]
mod tests;
