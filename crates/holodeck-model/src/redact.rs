//! Masks secrets in everything that is written or shown.
//!
//! There are two rules. In *configuration* ([`Redactor::configuration`], and the excerpts of diagnostics) a value is
//! masked because of its place: every header, variable and query value, and each value whose name indicates a secret.
//! In any *other text* ([`Redactor::text`]) a value is masked because it is a secret of the agent, in plain text or
//! encoded, or because it has the shape of a secret; harmless values stay readable there.

mod config;
mod digests;
mod escapes;
mod forms;
mod names;
mod shapes;
mod stream;

use std::{borrow::Cow, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

pub use digests::{without_digests, without_digests_in};
pub use forms::find_url_secrets;
pub use names::{Names, Role, names_a_secret, role, role_of_mapping};
pub use shapes::{arguments, assignments, find_in_configured_urls};
pub use stream::RedactedStream;

/// The text that replaces a secret.
pub const MASK: &str = "***";

/// Shorter values would mask ordinary words of a text.
const MIN_SECRET: usize = 8;

/// Only texts constructed for that purpose need more passes.
const MAX_PASSES: usize = 8;

/// The same limit in configuration, which is not prose.
const MIN_CONFIGURED: usize = 4;

/// Masks secrets in texts and values: the given secrets, also encoded, and everything with the shape of a key.
#[derive(Debug, Default)]
pub struct Redactor {
    known: KnownSecrets,
    /// Secrets that are too short to be masked in prose.
    short: Vec<String>,
}

/// The given secrets in all their forms, searched in one pass.
#[derive(Default)]
struct KnownSecrets {
    forms: Option<AhoCorasick>,
    /// The index of the first form that is a part of a Base64 text.
    first_base64: usize,
    /// Forms at which a streamed text may be cut.
    divisible: Vec<String>,
    /// Whether a secret may be a number.
    numeric: bool,
}

/// Never shows a secret.
impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let forms = self.forms.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("KnownSecrets")
            .field("forms", &forms)
            .finish_non_exhaustive()
    }
}

impl KnownSecrets {
    fn new(secrets: &[String]) -> Self {
        let mut forms: Vec<String> = secrets
            .iter()
            .flat_map(|secret| forms::text_forms(secret))
            .collect();
        let first_base64 = forms.len();
        let divisible = forms.iter().filter(|form| form.contains(stream::is_boundary));
        let divisible = divisible.cloned().collect();
        forms.extend(secrets.iter().flat_map(|secret| forms::base64_forms(secret)));
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        Self {
            // It fails only if the patterns do not fit into memory.
            forms: built.ok().filter(|_| !forms.is_empty()),
            first_base64,
            divisible,
            numeric: secrets.iter().any(|secret| secret.parse::<f64>().is_ok()),
        }
    }

    /// Also finds the secrets that a JSON writer spelled with escapes of its choice.
    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if self.forms.is_none() {
            return;
        }
        self.find_as_written(text, found);
        for read in escapes::levels(text) {
            let mut hits = Vec::new();
            self.find_as_written(&read.text, &mut hits);
            found.extend(hits.into_iter().map(|hit| read.source(&hit)));
        }
    }

    fn find_as_written(&self, text: &str, found: &mut Vec<Range<usize>>) {
        for hit in self.forms.iter().flat_map(|forms| forms.find_iter(text)) {
            found.push(if hit.pattern().as_usize() < self.first_base64 {
                hit.range()
            } else {
                base64_around(text, hit.range())
            });
        }
    }
}

/// The whole Base64 text around `part`.
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
    /// Masks `secrets`, the secrets inside them such as the password of a connection string, and the well-known
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
            known: KnownSecrets::new(&long),
            short,
        }
    }

    /// `text` with secrets masked; borrowed if it has none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replace_ranges(text, self.find(text))
    }

    /// Masks secrets in `text`; true if it had one.
    pub fn mask_text(&self, text: &mut String) -> bool {
        match self.text(text) {
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
            Cow::Borrowed(_) => false,
        }
    }

    /// Masks secrets in every string and key in `value`; true if it had one.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        replace_strings(value, self.known.numeric, &|text| self.text(text))
    }

    /// As [`mask_value`](Self::mask_value).
    pub fn value(&self, value: &mut Value) {
        self.mask_value(value);
    }

    /// The places of secrets in `text`, in order and without overlap. A mask is a boundary: what has the shape of a key
    /// only once the secret beside it is masked is found, too, so that masking twice changes nothing.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = self.find_once(text);
        for _ in 0..MAX_PASSES {
            if found.is_empty() {
                break;
            }
            let masked = replace_ranges(text, found.clone());
            let again = self.find_once(&masked).into_iter();
            let again: Vec<_> = again.map(|range| unmask_range(&range, &found)).collect();
            let all = merge_ranges([found.as_slice(), &again].concat());
            if all == found {
                break;
            }
            found = all;
        }
        found
    }

    fn find_once(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.known.find(text, &mut found);
        shapes::find(text, &mut found);
        merge_ranges(found)
    }
}

/// The place in a text of a range in that text with masks at `masks`. A part of a mask is all that it hides.
fn unmask_range(range: &Range<usize>, masks: &[Range<usize>]) -> Range<usize> {
    let unmask = |at: usize, is_end: bool| {
        // By how much the masked text is longer and shorter than the other one before this mask.
        let (mut longer, mut shorter) = (0, 0);
        for mask in masks {
            let start = mask.start + longer - shorter;
            let end = start + MASK.len();
            if at < start || is_end && at == start {
                break;
            }
            if at < end || is_end && at == end {
                return if is_end { mask.end } else { mask.start };
            }
            longer += MASK.len();
            shorter += mask.len();
        }
        at + shorter - longer
    };
    unmask(range.start, false)..unmask(range.end, true)
}

/// The secrets in the value of a variable: all of it if its name indicates a secret, else the credentials of URLs.
pub fn variable_secrets(name: &str, value: &str) -> Vec<String> {
    if names_a_secret(name) {
        vec![value.to_owned()]
    } else {
        forms::find_url_secrets(value)
    }
}

/// Replaces every string and key in `value`, and numbers as strings if `numeric`; true if one was replaced.
fn replace_strings(value: &mut Value, numeric: bool, replace: &impl Fn(&str) -> Cow<'_, str>) -> bool {
    let replacement = |text: &str| match replace(text) {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    };
    let new = match value {
        Value::String(text) => replacement(text),
        Value::Number(number) if numeric => replacement(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::Array(items) => {
            return items
                .iter_mut()
                .fold(false, |any, item| replace_strings(item, numeric, replace) | any);
        }
        Value::Object(map) => {
            let any = map.keys().any(|key| replacement(key).is_some());
            if any {
                let entries = std::mem::take(map).into_iter();
                *map = entries
                    .map(|(key, value)| (replace(&key).into_owned(), value))
                    .collect();
            }
            return map
                .values_mut()
                .fold(any, |any, item| replace_strings(item, numeric, replace) | any);
        }
    };
    let any = new.is_some();
    if let Some(new) = new {
        *value = new.into();
    }
    any
}

/// Sorts ranges and merges those that overlap or touch.
pub fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Replaces these places of a text by masks.
fn replace_ranges(text: &str, ranges: Vec<Range<usize>>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        clean.push_str(text.get(at..range.start).unwrap_or_default());
        clean.push_str(MASK);
        at = range.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests;
