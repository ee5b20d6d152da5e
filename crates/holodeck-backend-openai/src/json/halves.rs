//! Letters that a server cuts in two: JSON writes those beyond the first plane as two escapes, which may come in two pieces of
//! a stream. A half is kept as a letter of private use until the other one has come. A letter of that range that the server
//! really sent is kept as its two halves, so that it comes back.

use std::borrow::Cow;

use holodeck_model::mend_json_by;
use serde_json::{Map, Value};

/// The letter that replaces the first half.
const FIRST: u32 = 0xf_a000;

const UNITS: std::ops::Range<u32> = 0xd800..0xe000;

/// The piece of a stream with its lone halves kept, and the letters that look like one; `None` if it has none.
pub(crate) fn keep(json: &str) -> Option<String> {
    // Most pieces: neither an escape nor a letter that could look like a half.
    if json.is_ascii() && !json.contains('\\') {
        return None;
    }
    let letters = keep_letters(json);
    let text = letters.as_deref().unwrap_or(json);
    if !text.contains("\\u") {
        return letters;
    }
    mend_json_by(text.as_bytes(), |unit| letter(unit).to_string()).or(letters)
}

/// The letter that replaces a half.
fn letter(half: u16) -> char {
    let letter = char::from_u32(FIRST + u32::from(half) - UNITS.start);
    letter.unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// A JSON text in which each letter that looks like a half is written as its two halves; `None` if it has no such letter.
pub(crate) fn keep_letters(json: &str) -> Option<String> {
    let mut kept = String::new();
    let mut found = false;
    let mut rest = json;
    while let Some(at) = rest.find(|c| c == '\\' || unit(c).is_some()) {
        let (before, after) = rest.split_at(at);
        kept.push_str(before);
        let next = after.chars().next();
        let (sent, length) = match next.filter(|c| unit(*c).is_some()) {
            Some(sent) => (Some(sent), sent.len_utf8()),
            None => match escaped_letter(after) {
                Some(sent) => (Some(sent), 2 * ESCAPE),
                // With the character after it, which may be a backslash itself.
                None => (None, after.chars().take(2).map(char::len_utf8).sum()),
            },
        };
        match sent {
            Some(sent) => kept.extend(sent.encode_utf16(&mut [0; 2]).iter().map(|half| letter(*half))),
            None => kept.push_str(after.get(..length).unwrap_or_default()),
        }
        found |= sent.is_some();
        rest = after.get(length..).unwrap_or_default();
    }
    kept.push_str(rest);
    found.then_some(kept)
}

/// The length of `\uXXXX`.
const ESCAPE: usize = 6;

/// The letter that looks like a half and that the two escapes at the start of a text are.
fn escaped_letter(text: &str) -> Option<char> {
    let half = |from: usize| {
        let digits = text.get(from..from + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let sent = char::decode_utf16([half(0)?, half(ESCAPE)?]).next()?.ok()?;
    unit(sent).is_some().then_some(sent)
}

/// The half that a letter replaces.
fn unit(letter: char) -> Option<u16> {
    let unit = u32::from(letter).checked_sub(FIRST)? + UNITS.start;
    UNITS.contains(&unit).then(|| u16::try_from(unit).ok()).flatten()
}

/// A text with its halves joined; a half that stays alone is U+FFFD.
pub(crate) fn join(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(|letter| unit(letter).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut units = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match unit(letter) {
            Some(unit) => units.push(unit),
            None => units.extend(letter.encode_utf16(&mut [0; 2]).iter().copied()),
        }
    }
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// Joins the halves in every text and key of a value.
pub(crate) fn join_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(joined) = join(text) {
                *text = joined;
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(join_in),
        Value::Object(fields) => join_fields(fields),
        _ => {}
    }
}

/// Joins the halves in every text and key of an object.
pub(crate) fn join_fields(fields: &mut Map<String, Value>) {
    if fields.keys().any(|key| matches!(join(key), Cow::Owned(_))) {
        let entries = std::mem::take(fields).into_iter();
        *fields = entries
            .map(|(key, value)| (join(&key).into_owned(), value))
            .collect();
    }
    fields.values_mut().for_each(join_in);
}

/// A text that arrives in pieces, whose last half waits for the other one.
#[derive(Debug, Default)]
pub(crate) struct Joiner(Option<char>);

impl Joiner {
    /// The text that is complete with this piece.
    pub(crate) fn push<'a>(&mut self, piece: Cow<'a, str>) -> Cow<'a, str> {
        if piece.is_empty() {
            return piece;
        }
        let mut piece = match self.0.take() {
            Some(half) => Cow::Owned(format!("{half}{piece}")),
            None => piece,
        };
        let last = piece.chars().next_back();
        if let Some(half) = last.filter(|letter| unit(*letter).is_some_and(|unit| unit < 0xdc00)) {
            self.0 = Some(half);
            let end = piece.len() - half.len_utf8();
            piece = Cow::Owned(piece.get(..end).unwrap_or_default().to_owned());
        }
        match join(&piece) {
            Cow::Owned(joined) => Cow::Owned(joined),
            Cow::Borrowed(_) => piece,
        }
    }

    /// The half that is left at the end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.0.take().map(|_half| char::REPLACEMENT_CHARACTER.to_string())
    }
}
