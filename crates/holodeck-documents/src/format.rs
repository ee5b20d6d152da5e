//! Recognises the format of a file from its name and content; the content decides.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

use crate::Problem;

pub(crate) mod archive;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Markdown.
    Markdown,
    /// Plain text without further structure.
    Text,
    /// A web page.
    Html,
    /// Values separated by commas, or by another separator that the content shows.
    Csv,
    /// Values separated by tabs.
    Tsv,
    /// A JSON value.
    Json,
    /// A JSON value per line.
    JsonLines,
    /// A PDF document.
    Pdf,
    /// A Word document.
    Docx,
    /// A PowerPoint presentation.
    Pptx,
    /// An Excel workbook.
    Xlsx,
    /// An Excel workbook in the format before 2007.
    Xls,
    /// An OpenDocument spreadsheet.
    Ods,
    /// An image that models accept.
    Image(ImageFormat),
}

/// The image formats that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
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

impl Format {
    /// The format of a file's extension.
    pub fn of_name(path: impl AsRef<Path>) -> Option<Self> {
        let extension = extension(path.as_ref())?;
        Some(match extension.as_str() {
            "md" | "markdown" | "mdown" | "mkd" | "mdx" => Self::Markdown,
            "txt" | "text" | "log" | "rst" | "adoc" | "asciidoc" | "org" | "tex" | "yaml" | "yml"
            | "toml" | "ini" | "cfg" | "xml" | "eml" | "ipynb" => Self::Text,
            "html" | "htm" | "xhtml" => Self::Html,
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::JsonLines,
            "pdf" => Self::Pdf,
            "docx" | "docm" | "dotx" => Self::Docx,
            "pptx" | "pptm" | "ppsx" | "potx" => Self::Pptx,
            "xlsx" | "xlsm" | "xltx" => Self::Xlsx,
            "xls" => Self::Xls,
            "ods" => Self::Ods,
            "png" => Self::Image(ImageFormat::Png),
            "jpg" | "jpeg" => Self::Image(ImageFormat::Jpeg),
            "gif" => Self::Image(ImageFormat::Gif),
            "webp" => Self::Image(ImageFormat::Webp),
            _ => return None,
        })
    }

    /// The format of a media type such as `application/pdf`.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        Some(match essence.to_ascii_lowercase().as_str() {
            "text/markdown" | "text/x-markdown" => Self::Markdown,
            "text/plain" | "text/xml" | "application/xml" | "application/yaml" => Self::Text,
            "text/html" | "application/xhtml+xml" => Self::Html,
            "text/csv" => Self::Csv,
            "text/tab-separated-values" => Self::Tsv,
            "application/json" => Self::Json,
            "application/jsonl" | "application/x-ndjson" => Self::JsonLines,
            "application/pdf" => Self::Pdf,
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Self::Docx,
            "application/vnd.openxmlformats-officedocument.presentationml.presentation" => Self::Pptx,
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => Self::Xlsx,
            "application/vnd.ms-excel" => Self::Xls,
            "application/vnd.oasis.opendocument.spreadsheet" => Self::Ods,
            "image/png" => Self::Image(ImageFormat::Png),
            "image/jpeg" => Self::Image(ImageFormat::Jpeg),
            "image/gif" => Self::Image(ImageFormat::Gif),
            "image/webp" => Self::Image(ImageFormat::Webp),
            _ => return None,
        })
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown",
            Self::Text => "text/plain",
            Self::Html => "text/html",
            Self::Csv => "text/csv",
            Self::Tsv => "text/tab-separated-values",
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Pdf => "application/pdf",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Pptx => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Xls => "application/vnd.ms-excel",
            Self::Ods => "application/vnd.oasis.opendocument.spreadsheet",
            Self::Image(image) => image.media_type(),
        }
    }

    /// The format of a file with this content. Its name decides only between formats of text.
    pub fn detect(name: &str, bytes: &[u8]) -> Result<Self, Problem> {
        detect(name, None, bytes).map(|(format, _)| format)
    }

    fn is_text(self) -> bool {
        matches!(
            self,
            Self::Markdown | Self::Text | Self::Html | Self::Csv | Self::Tsv | Self::Json | Self::JsonLines
        )
    }
}

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
    if !crate::convert::text::is_text(bytes) {
        return Sniffed::NoText;
    }
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
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

fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Markdown => "Markdown",
            Self::Text => "plain text",
            Self::Html => "a web page",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Json => "JSON",
            Self::JsonLines => "JSON Lines",
            Self::Pdf => "a PDF document",
            Self::Docx => "a Word document",
            Self::Pptx => "a PowerPoint presentation",
            Self::Xlsx => "an Excel workbook",
            Self::Xls => "an old Excel workbook",
            Self::Ods => "an OpenDocument spreadsheet",
            Self::Image(ImageFormat::Png) => "a PNG picture",
            Self::Image(ImageFormat::Jpeg) => "a JPEG picture",
            Self::Image(ImageFormat::Gif) => "a GIF picture",
            Self::Image(ImageFormat::Webp) => "a WebP picture",
        })
    }
}

#[cfg(test)]
mod tests;
