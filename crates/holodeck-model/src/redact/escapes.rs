//! Reads the escapes of JSON in a text, so that a secret is found however its writer escaped it.

use std::ops::Range;

/// How many levels of JSON in JSON strings are read.
const MAX_LEVELS: usize = 4;

/// A text with its escapes read, and where they stood.
pub(super) struct Read {
    pub(super) text: String,
    /// The place of each character that was an escape, and the place of that escape in the text before.
    escapes: Vec<(Range<usize>, Range<usize>)>,
}

impl Read {
    /// The place in the text before of a place in this text.
    pub(super) fn source(&self, place: &Range<usize>) -> Range<usize> {
        self.source_at(place.start, false)..self.source_at(place.end, true)
    }

    fn source_at(&self, at: usize, is_end: bool) -> usize {
        let after = self
            .escapes
            .partition_point(|(read, _)| read.start < at || !is_end && read.start == at);
        let last = after.checked_sub(1).and_then(|last| self.escapes.get(last));
        match last {
            None => at,
            Some((read, source)) if at >= read.end => source.end + (at - read.end),
            Some((_, source)) if is_end => source.end,
            Some((_, source)) => source.start,
        }
    }
}

/// The text with the escapes read once, twice and so on; none if only the usual escapes of quotes, backslashes and control
/// characters can be in it.
pub(super) fn levels(text: &str) -> Vec<Read> {
    let mut levels: Vec<Read> = Vec::new();
    if !text.contains("\\/") && !text.contains("\\u") {
        return levels;
    }
    for _ in 0..MAX_LEVELS {
        let outer = levels.last();
        let Some(mut read) = read(outer.map_or(text, |outer| outer.text.as_str())) else {
            break;
        };
        if let Some(outer) = outer {
            read.escapes = compose(read.escapes, outer);
        }
        levels.push(read);
    }
    levels
}

/// The escapes of an inner level and those of `outer` that it has not read again, as places in the text before `outer`.
fn compose(inner: Vec<(Range<usize>, Range<usize>)>, outer: &Read) -> Vec<(Range<usize>, Range<usize>)> {
    let mut all = Vec::with_capacity(inner.len() + outer.escapes.len());
    let mut rest = outer.escapes.iter().peekable();
    // By how much the text of the inner level is shorter up to here.
    let mut shorter = 0;
    let keep = |(read, source): &(Range<usize>, Range<usize>), shorter: usize| {
        (read.start - shorter..read.end - shorter, source.clone())
    };
    for (read, escape) in inner {
        while let Some(before) = rest.next_if(|(place, _)| place.end <= escape.start) {
            all.push(keep(before, shorter));
        }
        while rest.next_if(|(place, _)| place.start < escape.end).is_some() {}
        shorter = escape.end - read.end;
        all.push((read, outer.source(&escape)));
    }
    all.extend(rest.map(|place| keep(place, shorter)));
    all
}

/// The text with its escapes read; `None` if it has none.
fn read(text: &str) -> Option<Read> {
    let mut read = Read {
        text: String::with_capacity(text.len()),
        escapes: Vec::new(),
    };
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let Some(next) = rest.find('\\')
    {
        let (before, escape) = rest.split_at(next);
        read.text.push_str(before);
        at += next;
        let start = read.text.len();
        if let Some((c, length)) = escaped(escape) {
            read.text.push(c);
            read.escapes.push((start..read.text.len(), at..at + length));
            at += length;
        } else {
            read.text.push('\\');
            at += 1;
        }
    }
    read.text.push_str(text.get(at..).unwrap_or_default());
    (!read.escapes.is_empty()).then_some(read)
}

/// The character that the escape at the start of a text is, and the length of the escape.
fn escaped(text: &str) -> Option<(char, usize)> {
    let c = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\'' => '\'',
        b'\\' => '\\',
        b'/' => '/',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return escaped_unit(text),
        _ => return None,
    };
    Some((c, 2))
}

fn escaped_unit(text: &str) -> Option<(char, usize)> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(0)?;
    let pair = [first, unit(6).unwrap_or_default()];
    let c = char::decode_utf16(pair).next()?.ok()?;
    Some((c, 6 * c.len_utf16()))
}
