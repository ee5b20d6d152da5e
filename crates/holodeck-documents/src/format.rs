//! The formats of files, with their extensions and media types.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

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

    pub(crate) fn is_text(self) -> bool {
        matches!(
            self,
            Self::Markdown | Self::Text | Self::Html | Self::Csv | Self::Tsv | Self::Json | Self::JsonLines
        )
    }
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

/// The extension of a file in small letters.
pub(crate) fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}
