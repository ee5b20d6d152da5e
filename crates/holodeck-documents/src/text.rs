//! Decodes text: by its byte order mark, its declaration, as UTF-8, or else as Windows-1252 with a notice.
//!
//! A text that no character set fits is an error; a character that is replaced is in a notice.

mod declared;

use encoding_rs::{Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::Problem;
pub(crate) use declared::in_media_type as charset_of_media_type;

/// Bytes of a file's beginning that are checked.
const LOOKED_AT: usize = 64 * 1024;

/// At least this many characters of valid UTF-8 are no accident in a text of another multi-byte encoding.
const FEW_CHARACTERS: usize = 4;

/// The end of every error about a text.
const NEXT_STEP: &str = "save the file as UTF-8";

/// Where a text may name its character set, besides a byte order mark and an XML declaration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declarations<'a> {
    /// The label that the server sent.
    pub(crate) charset: Option<&'a str>,
    /// Whether it is a web page, which has `meta` elements.
    pub(crate) is_html: bool,
}

/// Whether the bytes are text in an encoding that [`decode`] supports, or a text that it refuses by name.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    let start = bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default();
    if is_utf32(start) || marked(start).is_some() || unmarked_utf16(start).is_some() {
        return true;
    }
    let odd = start.iter().filter(|byte| is_control(**byte)).count();
    !start.contains(&0) && odd * 100 <= start.len()
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)
}

/// The text with `\n` line ends, and notices about how it was decoded.
pub(crate) fn decode(bytes: &[u8], declarations: Declarations<'_>) -> Result<(String, Vec<String>), Problem> {
    if is_utf32(bytes) {
        return Err(undecodable(format!(
            "it is UTF-32, which is not supported; {NEXT_STEP}"
        )));
    }
    let (text, note) = match marked(bytes).or_else(|| unmarked_utf16(bytes).map(|encoding| (encoding, bytes)))
    {
        Some((encoding, rest)) if encoding == UTF_8 => guess(rest)?,
        Some((encoding, rest)) => decode_as(encoding, rest)?,
        None => decode_unmarked(bytes, declarations)?,
    };
    let text = if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text
    };
    Ok((text, note.into_iter().collect()))
}

/// As [`decode`], for texts of programs and inside other formats, where a replaced character is no loss.
pub(crate) fn decode_lossily(bytes: &[u8]) -> String {
    let encoding = marked(bytes).map_or(WINDOWS_1252, |(encoding, _)| encoding);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').to_owned(),
        Err(_) => encoding.decode(bytes).0.into_owned(),
    }
}

type Decoded = (String, Option<String>);

fn decode_unmarked(bytes: &[u8], declarations: Declarations<'_>) -> Result<Decoded, Problem> {
    let of_server = declarations.charset.map(str::to_owned);
    let label = of_server.or_else(|| declared::in_xml(bytes)).or_else(|| {
        let html = declarations.is_html.then_some(bytes)?;
        declared::in_html(html)
    });
    let Some(label) = label else {
        return read_escapes(bytes).map_or_else(|| guess(bytes), Ok);
    };
    let utf8 = std::str::from_utf8(bytes).ok();
    let encoding = match Encoding::for_label(label.as_bytes()) {
        // Bytes that have an ASCII declaration are not UTF-16.
        Some(encoding) if encoding == UTF_16LE || encoding == UTF_16BE || encoding == UTF_8 => UTF_8,
        // Browsers refuse it: its bytes can hide markup.
        Some(encoding) if encoding == REPLACEMENT => return Err(unsupported(&label)),
        Some(encoding) => encoding,
        None if utf8.is_some() && !label.eq_ignore_ascii_case("utf-7") => {
            let note = format!(
                "it declares the unknown character set `{}`; read as UTF-8",
                short(&label)
            );
            return Ok((utf8.unwrap_or_default().to_owned(), Some(note)));
        }
        None => return Err(unsupported(&label)),
    };
    if encoding == UTF_8 {
        let (text, note) = guess(bytes)?;
        let note = note.map(|note| format!("it declares UTF-8, but is {note}"));
        return Ok((text, note));
    }
    // A wrong declaration: text of another encoding is valid UTF-8 only by accident.
    if let Some(text) = utf8
        && !text.is_ascii()
    {
        let characters = text.chars().filter(|character| !character.is_ascii()).count();
        let is_accident = !encoding.is_single_byte()
            && characters < FEW_CHARACTERS
            && !encoding.decode_without_bom_handling(bytes).1;
        if !is_accident {
            let note = format!("it declares {}, but is UTF-8; read as UTF-8", encoding.name());
            return Ok((text.to_owned(), Some(note)));
        }
    }
    decode_as(encoding, bytes)
}

/// Decodes bytes that should be of this encoding.
fn decode_as(encoding: &'static Encoding, bytes: &[u8]) -> Result<Decoded, Problem> {
    let (text, has_errors) = encoding.decode_without_bom_handling(bytes);
    if !has_errors {
        return Ok((text.into_owned(), None));
    }
    let name = encoding.name();
    let invalid = text.matches(char::REPLACEMENT_CHARACTER).count();
    let foreign = text.chars().filter(|character| !character.is_ascii()).count();
    let line = text
        .split(char::REPLACEMENT_CHARACTER)
        .next()
        .map_or(1, |before| before.matches('\n').count() + 1);
    if invalid * 10 > foreign {
        return Err(undecodable(format!(
            "it should be {name}, but {invalid} of its characters are not, the first in line {line}; {NEXT_STEP}"
        )));
    }
    let note = format!("{}, the first in line {line}", replaced(invalid, name));
    Ok((text.into_owned(), Some(note)))
}

/// ISO-2022-JP without a declaration: its bytes are ASCII, with escapes that no other text has.
fn read_escapes(bytes: &[u8]) -> Option<Decoded> {
    let is_escape = |three: &[u8]| matches!(three, b"\x1b$B" | b"\x1b$@");
    if !bytes.windows(3).any(is_escape) {
        return None;
    }
    let (text, has_errors) = ISO_2022_JP.decode_without_bom_handling(bytes);
    let note = "it has the escapes of ISO-2022-JP; read as ISO-2022-JP".to_owned();
    (!has_errors).then(|| (text.into_owned(), Some(note)))
}

/// Decodes bytes that declare no character set.
fn guess(bytes: &[u8]) -> Result<Decoded, Problem> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Ok((text.to_owned(), None)),
        Err(error) => error,
    };
    let first = line_of(bytes, error.valid_up_to());
    let (mut valid, mut invalid) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        valid += chunk
            .valid()
            .chars()
            .filter(|character| !character.is_ascii())
            .count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    // Many characters of several bytes are no accident.
    if valid > invalid * 10 {
        let note = format!("{}, the first in line {first}", replaced(invalid, "UTF-8"));
        return Ok((String::from_utf8_lossy(bytes).into_owned(), Some(note)));
    }
    // Windows-1252 has no characters for these.
    let undefined = |byte: &u8| matches!(byte, 0x81 | 0x8D | 0x8F | 0x90 | 0x9D);
    if let Some(at) = bytes.iter().position(undefined) {
        let byte = bytes.get(at).copied().unwrap_or_default();
        let line = line_of(bytes, at);
        return Err(undecodable(format!(
            "it is neither UTF-8 nor Windows-1252 (line {line} has the byte {byte:02X}), and names no character set; \
             {NEXT_STEP}"
        )));
    }
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
    let note = format!("not UTF-8 (see line {first}); read as Windows-1252");
    Ok((text.into_owned(), Some(note)))
}

fn replaced(count: usize, encoding: &str) -> String {
    format!("characters that are not valid {encoding} are shown as `\u{fffd}`: {count}")
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    let before = bytes.get(..at).unwrap_or_default();
    before.split(|byte| *byte == b'\n').count()
}

fn unsupported(label: &str) -> Problem {
    undecodable(format!(
        "it declares the character set `{}`, which is not supported; {NEXT_STEP}",
        short(label)
    ))
}

/// A label is a text of the file, which may be long.
fn short(label: &str) -> String {
    label
        .chars()
        .filter(|character| !character.is_control())
        .take(40)
        .collect()
}

fn undecodable(reason: String) -> Problem {
    Problem::Undecodable(reason)
}

fn is_utf32(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xFF\xFE\0\0") || bytes.starts_with(b"\0\0\xFE\xFF")
}

/// The encoding of a byte order mark, and the bytes after it.
fn marked(bytes: &[u8]) -> Option<(&'static Encoding, &[u8])> {
    let (encoding, length) = Encoding::for_bom(bytes)?;
    Some((encoding, bytes.get(length..).unwrap_or_default()))
}

/// In UTF-16, every other byte of a European text is 0, and of markup in every language; in other encodings, none is.
fn unmarked_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [b'<', 0, mark, 0, ..] if *mark != 0 => return Some(UTF_16LE),
        [0, b'<', 0, mark, ..] if *mark != 0 => return Some(UTF_16BE),
        _ => {}
    }
    let start = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
    let zeros = |skip: usize| {
        start
            .iter()
            .skip(skip)
            .step_by(2)
            .filter(|byte| **byte == 0)
            .count()
    };
    let (even, odd, half) = (zeros(0), zeros(1), start.len() / 2);
    if half < 2 || !bytes.len().is_multiple_of(2) {
        None
    } else if even == 0 && odd * 2 > half {
        Some(UTF_16LE)
    } else if odd == 0 && even * 2 > half {
        Some(UTF_16BE)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
