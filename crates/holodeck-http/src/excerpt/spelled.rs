//! Finds a secret that a server echoes, whichever of its characters the server escapes for JSON.

/// A secret at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelled {
    /// It has this many bytes there.
    Whole(usize),
    /// The text ends within it.
    Cut,
}

/// The secret at the start of `text`, written as it is or with escapes.
pub(super) fn find(text: &str, secret: &str) -> Option<Spelled> {
    if !text.starts_with('\\') && !text.starts_with(secret.chars().next()?) {
        return None;
    }
    // More than one place only after a backslash of the secret, which escapes look like.
    let mut places = vec![0];
    let mut is_cut = false;
    for c in secret.chars() {
        let mut next = Vec::new();
        for place in &places {
            let rest = text.get(*place..).unwrap_or_default();
            is_cut |= ends_within(rest, c);
            next.extend(lengths(rest, c).into_iter().map(|length| place + length));
        }
        next.sort_unstable();
        next.dedup();
        places = next;
        if places.is_empty() {
            break;
        }
    }
    let whole = places.last().map(|end| Spelled::Whole(*end));
    whole.or_else(|| is_cut.then_some(Spelled::Cut))
}

/// The text after its backslashes, and how many they are.
fn after_backslashes(text: &str) -> (&str, usize) {
    let after = text.trim_start_matches('\\');
    (after, text.len() - after.len())
}

/// An escape of `c` after its first backslashes, of which each level of JSON in JSON has more.
fn escape(c: char, backslashes: usize) -> String {
    let mut units = [0; 2];
    let units: Vec<String> = c
        .encode_utf16(&mut units)
        .iter()
        .map(|unit| format!("u{unit:04x}"))
        .collect();
    units.join(&"\\".repeat(backslashes))
}

fn begins(text: &str, escape: &str) -> bool {
    let start = text.as_bytes().get(..escape.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(escape.as_bytes()))
}

/// How many bytes the ways to write `c` have that the text begins with.
fn lengths(text: &str, c: char) -> Vec<usize> {
    let (after, backslashes) = after_backslashes(text);
    let mut lengths = Vec::new();
    if backslashes == 0 {
        lengths.extend(text.starts_with(c).then_some(c.len_utf8()));
        return lengths;
    }
    let escape = escape(c, backslashes);
    if begins(after, &escape) {
        lengths.push(backslashes + escape.len());
    }
    if c == '\\' {
        lengths.extend([1, 2, 4, 8].into_iter().filter(|length| *length <= backslashes));
    } else if !c.is_alphanumeric() && after.starts_with(c) {
        lengths.push(backslashes + c.len_utf8());
    }
    lengths
}

/// Whether the text ends where it may be writing `c`.
fn ends_within(text: &str, c: char) -> bool {
    let (after, backslashes) = after_backslashes(text);
    after.is_empty() || backslashes > 0 && begins(&escape(c, backslashes), after)
}
