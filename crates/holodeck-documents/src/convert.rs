//! Converts bytes to text or an image, in this process.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    ConvertOptions, Converted, Document, DocumentError, Format, Picture, Problem, detect,
    text::{self, Declarations},
};

mod blocks;
pub(crate) mod delimited;
mod docx;
mod html;
mod json;
mod markdown;
mod package;
mod pages;
mod pdf;
mod plain_text;
mod pptx;
mod table;
mod workbook;
mod xml;

/// Converts a file's content in this process: for trusted files, or where a child process is impossible. Hostile
/// content may take any amount of time and memory, or crash; [`Converter`](crate::Converter) protects against that.
pub fn convert(name: &str, bytes: &[u8], options: &ConvertOptions) -> Result<Converted, DocumentError> {
    let failed = |problem| DocumentError::new(name, problem);
    let (format, note) = checked(name, bytes, options).map_err(failed)?;
    let mut converted = convert_as(format, bytes, options).map_err(failed)?;
    if let (Some(note), Converted::Text(document)) = (note, &mut converted) {
        document.notes.insert(0, note);
    }
    Ok(converted)
}

/// The format of a file, if it is supported.
pub(crate) fn checked(
    name: &str,
    bytes: &[u8],
    options: &ConvertOptions,
) -> Result<(Format, Option<String>), Problem> {
    let (size, limit) = (bytes.len() as u64, options.max_bytes);
    if size > limit {
        return Err(Problem::TooLarge { size, limit });
    }
    let (format, note) = detect::detect(name, options.format, bytes)?;
    options.check(format)?;
    Ok((format, note))
}

/// Converts content that is known to be of this format.
pub(crate) fn convert_as(
    format: Format,
    bytes: &[u8],
    options: &ConvertOptions,
) -> Result<Converted, Problem> {
    let document = match format {
        Format::Markdown => markdown::convert(bytes, options)?,
        Format::Text => plain_text::convert(bytes, options)?,
        Format::Html => html::convert(bytes, options)?,
        Format::Csv => delimited::convert(bytes, None, options)?,
        Format::Tsv => delimited::convert(bytes, Some(b'\t'), options)?,
        Format::Json => json::convert(bytes, options)?,
        Format::JsonLines => json::convert_lines(bytes, options)?,
        Format::Image(_) => return Ok(Converted::Image(picture(format, bytes)?)),
        Format::Docx => docx::convert(bytes)?,
        Format::Pptx => pptx::convert(bytes, options)?,
        Format::Xlsx | Format::Xls | Format::Ods => workbook::convert(bytes, format, options)?,
        Format::Pdf => pdf::convert(bytes, options)?,
    };
    Ok(Converted::Text(document))
}

/// Whether to convert this in another process.
pub(crate) fn is_hostile(format: Format, bytes: &[u8]) -> bool {
    /// A format that is parsed as a whole needs many times its size.
    const LARGE: usize = 4 * 1024 * 1024;
    match format {
        Format::Pdf | Format::Docx | Format::Pptx | Format::Xlsx | Format::Xls | Format::Ods => true,
        Format::Html => html::is_hostile(bytes),
        Format::Csv | Format::Tsv | Format::Json | Format::JsonLines => bytes.len() > LARGE,
        Format::Markdown | Format::Text | Format::Image(_) => false,
    }
}

/// A picture for a model.
pub(crate) fn picture(format: Format, bytes: &[u8]) -> Result<Picture, Problem> {
    let Format::Image(format) = format else {
        return Err(Problem::Mismatch { named: format });
    };
    Ok(Picture {
        format,
        base64: STANDARD.encode(bytes),
        text: None,
        notes: Vec::new(),
    })
}

/// Decodes a file that is a text.
fn decode(bytes: &[u8], options: &ConvertOptions) -> Result<(String, Vec<String>), Problem> {
    let declarations = Declarations {
        charset: options.charset.as_deref(),
        is_html: false,
    };
    text::decode(bytes, declarations)
}

/// Plain text without further information.
pub(crate) fn plain(text: String, notes: Vec<String>) -> Document {
    Document {
        text,
        notes,
        ..Document::default()
    }
}

/// The reason of a panic, as far as it concerns the file: messages of the standard library describe code.
pub(crate) fn panic_reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no reason was given");
    let of_code = [
        "called `",
        "index out of bounds",
        "attempt to ",
        "range ",
        "slice index",
    ];
    if of_code.iter().any(|begin| text.starts_with(begin)) {
        return "a part of the file is missing or wrong".to_owned();
    }
    text.to_owned()
}
