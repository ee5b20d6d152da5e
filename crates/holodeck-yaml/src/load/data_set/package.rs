//! Limits on the archive that a workbook is, checked before anything is parsed.
//!
//! The sizes that its directory declares can be wrong, but the reader of archives never expands a part beyond its
//! declared size, so that a limit on their sum holds.

use std::io::{Cursor, Read as _};

use zip::ZipArchive;

/// Limit on the expanded size of all parts together.
const MAX_EXPANDED: u64 = 256 * 1024 * 1024;

/// More parts than any workbook has. The directory alone can take much memory.
const MAX_PARTS: usize = 10_000;

/// How the directory begins the description of a part.
const PART: &[u8] = b"PK\x01\x02";

/// The part with the texts of cells, whose name has no fixed folder or case.
const TEXTS: &[u8] = b"sharedstrings.xml";

/// Bytes of the shortest text, `<si/>`.
const SHORTEST_TEXT: usize = 5;

/// The attribute with the number of texts.
const COUNT: &[u8] = b"uniqueCount";

/// Returns an error if expanding the workbook could take more memory than its limit.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    if bytes.windows(PART.len()).filter(|four| *four == PART).count() > MAX_PARTS {
        return Err(format!("it has more than {MAX_PARTS} parts"));
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut expanded: u64 = 0;
    let mut texts = Vec::new();
    for place in 0..archive.len() {
        let part = archive.by_index_raw(place).map_err(|error| error.to_string())?;
        expanded = expanded.saturating_add(part.size());
        if part.name_raw().to_ascii_lowercase().ends_with(TEXTS) {
            texts.push(place);
        }
    }
    if expanded > MAX_EXPANDED {
        return Err("it expands to more than 256 MB".to_owned());
    }
    for place in texts {
        let mut content = Vec::new();
        let mut part = archive.by_index(place).map_err(|error| error.to_string())?;
        part.read_to_end(&mut content)
            .map_err(|error| error.to_string())?;
        check_texts(&content)?;
    }
    Ok(())
}

/// The number of texts is declared, too, and the reader of workbooks reserves memory for it.
fn check_texts(content: &[u8]) -> Result<(), String> {
    // XML allows no other control characters. Without them, no encoding can hide an attribute.
    let is_hidden = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if content.iter().any(is_hidden) {
        return Err("its texts contain control characters".to_owned());
    }
    let most = content.len() / SHORTEST_TEXT;
    let mut names = content.windows(COUNT.len()).enumerate();
    let is_too_large = names.any(|(at, name)| {
        if name != COUNT {
            return false;
        }
        let value = content.get(at + COUNT.len()..).unwrap_or_default();
        let mut value = value
            .iter()
            .skip_while(|byte| !byte.is_ascii_digit() && !matches!(byte, b'<' | b'>'));
        let digits = value.by_ref().take_while(|byte| byte.is_ascii_digit());
        let count = digits.fold(0_usize, |count, digit| {
            count
                .saturating_mul(10)
                .saturating_add(usize::from(digit.saturating_sub(b'0')))
        });
        count > most
    });
    if is_too_large {
        return Err("it declares more texts than it can have".to_owned());
    }
    Ok(())
}
