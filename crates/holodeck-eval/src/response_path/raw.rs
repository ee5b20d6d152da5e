//! Finds the source text of a value inside a JSON text, for numbers with more digits than their types can represent.

use serde_json::{Deserializer, Value};

use super::Step;

/// The value at the path, as written. `None` if the text is not JSON or the path does not exist.
pub(super) fn leaf<'t>(text: &'t str, steps: &[Step]) -> Option<&'t str> {
    let mut at = text.trim_start();
    for step in steps {
        at = match step {
            Step::Key(key) => member(at, key)?,
            Step::Index(index) => item(at, *index)?,
        };
    }
    at.get(..length(at)?)
}

/// Whether a JSON number is written as an integer. `-0` is excluded: Python writes it as `0`.
pub(super) fn is_integer(number: &str) -> bool {
    number != "-0" && !number.contains(['.', 'e', 'E'])
}

fn item(list: &str, index: usize) -> Option<&str> {
    let mut rest = list.strip_prefix('[')?;
    for _ in 0..index {
        rest = after_value(rest)?.strip_prefix(',')?;
    }
    Some(rest.trim_start())
}

/// The value of a key; the last one if the key is repeated, as other JSON parsers do.
fn member<'t>(object: &'t str, key: &str) -> Option<&'t str> {
    let mut member = None;
    let mut rest = object.strip_prefix('{')?.trim_start();
    while rest.starts_with('"') {
        let mut names = Deserializer::from_str(rest).into_iter::<String>();
        let name = names.next()?.ok()?;
        let value = rest
            .get(names.byte_offset()..)?
            .trim_start()
            .strip_prefix(':')?
            .trim_start();
        if name == key {
            member = Some(value);
        }
        rest = after_value(value)?.trim_start_matches(',').trim_start();
    }
    member
}

fn after_value(text: &str) -> Option<&str> {
    Some(text.get(length(text)?..)?.trim_start())
}

fn length(text: &str) -> Option<usize> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}
