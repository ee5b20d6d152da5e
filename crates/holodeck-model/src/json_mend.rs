//! Repairs JSON of programs that cut strings inside a surrogate pair, as JavaScript does (`"\ud800"` alone is not Unicode, and
//! strict parsers reject the whole text), and of those that write raw line breaks in strings or `NaN`.

use std::{borrow::Cow, fmt::Write as _};

const REPLACEMENT: &str = "\\ufffd";
const ESCAPE: usize = 6;

/// Replaces everything that is not Unicode by U+FFFD; `None` if there is nothing to replace.
pub fn mend_json(json: &[u8]) -> Option<String> {
    mend_json_by(json, |_unit| REPLACEMENT.to_owned())
}

/// As [`mend_json`], with each half of a surrogate pair whose other half is missing written as `write` says.
pub fn mend_json_by(json: &[u8], write: impl Fn(u16) -> String) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    match replace_lone_surrogates(&text, write) {
        Some(mended) => Some(mended),
        None => match text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        },
    }
}

/// Writes raw control characters in strings as escapes, and numbers that JSON does not have as `null`.
pub fn tighten_json(text: &str) -> String {
    let mut tight = String::with_capacity(text.len() + 8);
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !in_string {
            let word = ["-Infinity", "Infinity", "NaN"]
                .iter()
                .find(|word| rest.starts_with(**word));
            if let Some(word) = word {
                tight.push_str("null");
                rest = rest.get(word.len()..).unwrap_or_default();
                continue;
            }
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            c if in_string && u32::from(c) < 0x20 => {
                // Writing to a string does not fail.
                let _ = write!(tight, "\\u{:04x}", u32::from(c));
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                escaped = false;
                continue;
            }
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        tight.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    tight
}

/// Replaces each escape of half a surrogate pair whose other half is missing.
fn replace_lone_surrogates(text: &str, write: impl Fn(u16) -> String) -> Option<String> {
    let mut mended: Option<String> = None;
    let mut rest = text;
    let mut pending = text;
    while let Some(at) = rest.find('\\') {
        let (_, escape) = rest.split_at(at);
        let unit = match surrogate(escape) {
            None => {
                // Skips the escaped character, which may be a backslash itself.
                let mut characters = escape.chars();
                let _ = (characters.next(), characters.next());
                rest = characters.as_str();
                continue;
            }
            Some((_, Half::High))
                if matches!(escape.get(ESCAPE..).and_then(surrogate), Some((_, Half::Low))) =>
            {
                rest = escape.get(2 * ESCAPE..).unwrap_or_default();
                continue;
            }
            Some((unit, _)) => unit,
        };
        let mended = mended.get_or_insert_default();
        let before = pending.len() - escape.len();
        mended.push_str(pending.get(..before).unwrap_or_default());
        mended.push_str(&write(unit));
        rest = escape.get(ESCAPE..).unwrap_or_default();
        pending = rest;
    }
    mended.map(|mended| mended + pending)
}

enum Half {
    High,
    Low,
}

/// The code and the half of a pair that the escape at the start of `text` is.
fn surrogate(text: &str) -> Option<(u16, Half)> {
    let code = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(code, 16).ok()?;
    match unit {
        0xd800..=0xdbff => Some((unit, Half::High)),
        0xdc00..=0xdfff => Some((unit, Half::Low)),
        _ => None,
    }
}
