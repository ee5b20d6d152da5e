//! Repairs JSON of programs that cut strings inside a surrogate pair, as JavaScript does: `"\ud800"` alone is not
//! Unicode, and strict parsers reject the whole text.

use std::borrow::Cow;

const REPLACEMENT: &str = "\\ufffd";
const ESCAPE: usize = 6;

/// Replaces everything that is not Unicode by U+FFFD; `None` if there is nothing to replace.
pub fn mend_json(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    match replace_lone_surrogates(&text) {
        Some(mended) => Some(mended),
        None => match text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        },
    }
}

/// Replaces each escape of half a surrogate pair whose other half is missing.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let mut mended: Option<String> = None;
    let mut rest = text;
    let mut pending = text;
    while let Some(at) = rest.find('\\') {
        let (_, escape) = rest.split_at(at);
        let length = match surrogate(escape) {
            None => {
                // Skips the escaped character, which may be a backslash itself.
                let mut characters = escape.chars();
                let _ = (characters.next(), characters.next());
                rest = characters.as_str();
                continue;
            }
            Some(Half::High) if escape.get(ESCAPE..).and_then(surrogate) == Some(Half::Low) => {
                rest = escape.get(2 * ESCAPE..).unwrap_or_default();
                continue;
            }
            Some(_) => ESCAPE,
        };
        let mended = mended.get_or_insert_default();
        let before = pending.len() - escape.len();
        mended.push_str(pending.get(..before).unwrap_or_default());
        mended.push_str(REPLACEMENT);
        rest = escape.get(length..).unwrap_or_default();
        pending = rest;
    }
    mended.map(|mended| mended + pending)
}

#[derive(PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// Which half of a pair the escape at the start of `text` is.
fn surrogate(text: &str) -> Option<Half> {
    let code = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(code, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}
