//! Rows that need no check: they are valid, and nothing in them can be a secret.

use holodeck_model::{PlainCase, TextRange};
use serde::Deserialize;

use super::offset;

/// A line of JSON with these fields only, without escapes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainLine<'a> {
    #[serde(borrow)]
    name: Option<&'a str>,
    input: &'a str,
    #[serde(borrow)]
    ground_truth: Option<&'a str>,
}

/// The case in a line of JSON that begins at `start` of the file, if it is plain.
pub(super) fn plain_line(start: usize, line: &str) -> Option<PlainCase> {
    let PlainLine {
        name,
        input,
        ground_truth,
    } = serde_json::from_str(line).ok()?;
    let range = |text: &str| {
        // The text is a part of the line.
        let at = start + (text.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
        is_plain(text).then(|| TextRange::new(offset(at)..offset(at + text.len())))
    };
    let optional = |text: Option<&str>| text.map_or(Some(TextRange::ABSENT), range);
    Some(PlainCase {
        name: optional(name)?,
        input: range(input)?,
        ground_truth: optional(ground_truth)?,
    })
}

/// Whether a text is valid as it is: not blank, and without a URL, which may hold a secret, or a variable.
pub(super) fn is_plain(text: &str) -> bool {
    !text.trim().is_empty() && !["//", "\\", "${", ":-"].iter().any(|part| text.contains(part))
}
