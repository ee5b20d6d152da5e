//! Takes secrets out of everything that is written or shown.
//!
//! There are two rules. In *configuration* ([`Redactor::configuration`], and the excerpts of diagnostics) a value is
//! masked because of its place: every header, variable and query value, and each value whose name says so. In any
//! *other text* ([`Redactor::text`]) a value is masked because it is a secret of the agent, in plain text or encoded, or
//! because it has the shape of one; harmless values stay readable there.

mod config;
mod forms;
mod names;
mod shapes;
mod source;
mod stream;

use std::{borrow::Cow, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

pub(crate) use names::names_a_secret;
pub(crate) use source::{Secrets, masked};
pub use stream::RedactedStream;

/// What a secret is replaced with.
pub(crate) const MASK: &str = "***";

/// Shorter values would blot out ordinary words of a text.
const MIN_SECRET: usize = 8;

/// The same in configuration, which is not prose.
const MIN_CONFIGURED: usize = 4;

/// Takes secrets out of texts and values: those it was given, also encoded, and what has the shape of a key.
#[derive(Debug, Default)]
pub struct Redactor {
    known: Known,
    /// Those that are too short for a text.
    short: Vec<String>,
}

/// The given secrets in all their forms, found in one pass.
#[derive(Default)]
struct Known {
    forms: Option<AhoCorasick>,
    /// Forms from this one on are parts of Base64 texts.
    first_base64: usize,
    /// Those that a text that arrives in pieces may be cut in.
    spaced: Vec<String>,
    /// Whether a number may be one.
    numeric: bool,
}

/// Shows no secret.
impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let forms = self.forms.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("Known")
            .field("forms", &forms)
            .finish_non_exhaustive()
    }
}

impl Known {
    fn new(secrets: &[String]) -> Self {
        let mut forms: Vec<String> = secrets.iter().flat_map(|secret| forms::written(secret)).collect();
        let first_base64 = forms.len();
        let spaced = forms.iter().filter(|form| form.contains(stream::is_boundary));
        let spaced = spaced.cloned().collect();
        forms.extend(secrets.iter().flat_map(|secret| forms::base64(secret)));
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        Self {
            // It fails only for more patterns than memory holds.
            forms: built.ok().filter(|_| !forms.is_empty()),
            first_base64,
            spaced,
            numeric: secrets.iter().any(|secret| secret.parse::<f64>().is_ok()),
        }
    }

    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        for hit in self.forms.iter().flat_map(|forms| forms.find_iter(text)) {
            found.push(if hit.pattern().as_usize() < self.first_base64 {
                hit.range()
            } else {
                base64_around(text, hit.range())
            });
        }
    }
}

/// The whole Base64 text of which `part` is a part.
fn base64_around(text: &str, part: Range<usize>) -> Range<usize> {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let bytes = text.as_bytes();
    let (before, after) = (bytes.get(..part.start), bytes.get(part.end..));
    let before = before
        .into_iter()
        .flatten()
        .rev()
        .take_while(|byte| is_base64(byte))
        .count();
    let after = after
        .into_iter()
        .flatten()
        .take_while(|byte| is_base64(byte))
        .count();
    part.start - before..part.end + after
}

impl Redactor {
    /// Knows `secrets`, and the secrets inside them such as the password of a connection string, beside the well-known
    /// shapes.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = secrets
            .into_iter()
            .flat_map(|secret| forms::parts(&secret))
            .collect();
        all.sort_unstable();
        all.dedup();
        let (long, mut short): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|secret| secret.chars().count() >= MIN_SECRET);
        short.retain(|secret| secret.chars().count() >= MIN_CONFIGURED);
        Self {
            known: Known::new(&long),
            short,
        }
    }

    /// `text` without secrets; borrowed if it has none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replaced(text, self.find(text))
    }

    /// Takes secrets out of `text`; true if there was one.
    pub fn mask_text(&self, text: &mut String) -> bool {
        match self.text(text) {
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
            Cow::Borrowed(_) => false,
        }
    }

    /// Takes secrets out of every text and key in `value`; true if there was one.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.mask_text(text),
            Value::Array(items) => items
                .iter_mut()
                .fold(false, |masked, item| self.mask_value(item) | masked),
            Value::Object(map) => {
                let mut masked = false;
                if map.keys().any(|key| !self.find(key).is_empty()) {
                    let entries = std::mem::take(map).into_iter();
                    *map = entries
                        .map(|(key, value)| (self.text(&key).into_owned(), value))
                        .collect();
                    masked = true;
                }
                map.values_mut()
                    .fold(masked, |masked, item| self.mask_value(item) | masked)
            }
            Value::Number(number) if self.known.numeric => {
                let masked = !self.find(&number.to_string()).is_empty();
                if masked {
                    *value = MASK.into();
                }
                masked
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// As [`mask_value`](Self::mask_value).
    pub fn value(&self, value: &mut Value) {
        self.mask_value(value);
    }

    /// Where `text` has secrets, in order and without overlap.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.known.find(text, &mut found);
        shapes::find(text, &mut found);
        joined(found)
    }
}

/// The secrets in the value of a variable: all of it if its name says so, else the credentials of a URL.
pub fn variable_secrets(name: &str, value: &str) -> Vec<String> {
    if names_a_secret(name) {
        vec![value.to_owned()]
    } else {
        forms::of_urls(value)
    }
}

/// In order, those that overlap or touch as one.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn replaced(text: &str, found: Vec<Range<usize>>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        clean.push_str(text.get(at..range.start).unwrap_or_default());
        clean.push_str(MASK);
        at = range.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests;
