//! Letters that a server cuts in two: JSON writes those beyond the first plane as two escapes, which may come in two pieces of
//! a stream. A half is kept as a letter of private use until the other one has come.

use std::borrow::Cow;

use holodeck_model::mend_json_by;
use serde_json::Value;

/// The letter that replaces the first half.
const FIRST: u32 = 0xf_a000;

const UNITS: std::ops::Range<u32> = 0xd800..0xe000;

/// The piece of a stream with its lone halves kept; `None` if it has none.
pub(crate) fn keep(json: &str) -> Option<String> {
    if !json.contains("\\u") {
        return None;
    }
    mend_json_by(json.as_bytes(), |unit| {
        let letter = char::from_u32(FIRST + u32::from(unit) - UNITS.start);
        letter.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
    })
}

/// The half that a letter replaces.
fn unit(letter: char) -> Option<u16> {
    let unit = u32::from(letter).checked_sub(FIRST)? + UNITS.start;
    UNITS.contains(&unit).then(|| u16::try_from(unit).ok()).flatten()
}

/// A text with its halves joined; a half that stays alone is U+FFFD.
pub(crate) fn join(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| unit(letter).is_some()) {
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

/// Joins the halves in every text of a value.
pub(crate) fn join_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(joined) = join(text) {
                *text = joined;
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(join_in),
        Value::Object(fields) => fields.values_mut().for_each(join_in),
        _ => {}
    }
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
