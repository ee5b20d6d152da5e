//! Frequent mistakes behind parse errors, which the parser reports at another place or in its own words.

use granit_parser::ErrorKind;

/// A mistake: its offset, and what to say.
pub(super) struct Mistake {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) help: String,
}

/// How many lines before an error are looked at for a dash without a space.
const LINES: usize = 3;

/// The mistake that probably caused the error at an offset.
pub(super) fn find(text: &str, offset: usize, kind: &ErrorKind) -> Option<Mistake> {
    let Open { bracket, quote } = open_at(text, offset);
    if matches!(
        kind,
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent
    ) {
        return quote.map(unclosed_quote);
    }
    open_before(text, offset, bracket)
        .or_else(|| dash_without_space(text, offset))
        .or_else(|| colon_without_space(text, offset))
        .or_else(|| text_in_braces(text, offset, bracket))
}

/// The innermost bracket and the quote that are open at a place.
#[derive(Default)]
struct Open {
    bracket: Option<(usize, char)>,
    quote: Option<(usize, char)>,
}

fn unclosed_quote((offset, mark): (usize, char)) -> Mistake {
    let within = if mark == '"' { "\\\"" } else { "''" };
    Mistake {
        offset,
        message: format!("this `{mark}` is not closed"),
        help: format!("add `{mark}` at the end of the text; `{within}` is a `{mark}` within it"),
    }
}

/// `name:agent` instead of `name: agent`, in the line of an error or the one before.
fn colon_without_space(text: &str, offset: usize) -> Option<Mistake> {
    let start = line_start(text, offset.min(text.len()));
    let before = line_start(text, start.saturating_sub(1));
    [start, before].into_iter().find_map(|start| {
        let line = line_at(text, start);
        let entry = line.trim_start();
        let (key, value) = entry.split_once(':')?;
        let is_key = key.starts_with(|c: char| c.is_ascii_lowercase())
            && key
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_value =
            value.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '"' | '\'' | '[' | '{' | '$'));
        if !is_key || !is_value || entry.contains(": ") {
            return None;
        }
        Some(Mistake {
            offset: start + line.len() - entry.len() + key.len(),
            message: "a space is missing after `:`".to_owned(),
            help: format!("write `{key}: …`"),
        })
    })
}

/// The start of the line of an offset.
fn line_start(text: &str, offset: usize) -> usize {
    text.get(..offset)
        .and_then(|before| before.rfind(['\n', '\r']))
        .map_or(0, |end| end + 1)
}

fn line_at(text: &str, start: usize) -> &str {
    text.get(start..)
        .and_then(|rest| rest.split(['\n', '\r']).next())
        .unwrap_or_default()
}

/// A key with a colon at the beginning of a line.
fn begins_with_key(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    line.split_once(':').is_some_and(|(key, after)| {
        let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        !key.is_empty() && key.chars().all(is_key) && (after.is_empty() || after.starts_with([' ', '\r']))
    })
}

/// The innermost bracket that is open at an offset, outside of quotes and comments, and the quote. Only where a value
/// begins, they open one.
fn open_at(text: &str, offset: usize) -> Open {
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut quote: Option<(usize, char)> = None;
    let mut before = '\n';
    let mut is_comment = false;
    // The last character that is not white space.
    let mut last = '\n';
    for (at, c) in text.get(..offset).unwrap_or_default().char_indices() {
        if is_comment {
            is_comment = !matches!(c, '\n' | '\r');
        } else if let Some((_, mark)) = quote {
            if c == mark && before != '\\' {
                quote = None;
            }
        } else {
            let begins_value = matches!(last, ':' | '-' | ',' | '[' | '{' | '\n' | '\r');
            match c {
                '#' if before.is_whitespace() => is_comment = true,
                '"' | '\'' if begins_value => quote = Some((at, c)),
                '[' | '{' if begins_value => open.push((at, c)),
                ']' | '}' => {
                    open.pop();
                }
                _ => {}
            }
        }
        before = c;
        if !c.is_whitespace() || matches!(c, '\n' | '\r') && open.is_empty() {
            last = c;
        }
    }
    Open {
        bracket: open.pop(),
        quote,
    }
}

/// A bracket of an earlier line that is still open where a key of a block begins.
fn open_before(text: &str, offset: usize, open: Option<(usize, char)>) -> Option<Mistake> {
    let (bracket, mark) = open?;
    let start = line_start(text, offset);
    // The parser may report the error at the end of the key's line.
    let candidates = [start, line_start(text, start.saturating_sub(1))];
    let is_later = |start: usize| start > bracket && begins_with_key(line_at(text, start));
    candidates.into_iter().find(|start| is_later(*start))?;
    let close = if mark == '[' { ']' } else { '}' };
    Some(Mistake {
        offset: bracket,
        message: format!("this `{mark}` is not closed"),
        help: format!("add `{close}` before the next key; a text with brackets needs quotes"),
    })
}

/// `-type:` instead of `- type:`.
fn dash_without_space(text: &str, offset: usize) -> Option<Mistake> {
    let mut start = line_start(text, offset.min(text.len()));
    for _ in 0..=LINES {
        let line = line_at(text, start);
        let item = line.trim_start();
        let indent = line.len() - item.len();
        let name = item.strip_prefix('-').unwrap_or_default();
        if name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '"' | '\'' | '{'))
            && name.contains(':')
        {
            let key = name.split(':').next().unwrap_or_default();
            return Some(Mistake {
                offset: start + indent,
                message: "a space is missing after `-`".to_owned(),
                help: format!("write `- {key}: …`"),
            });
        }
        if start == 0 {
            return None;
        }
        start = line_start(text, start - 1);
    }
    None
}

/// A text with `: ` in braces, which is read as another key.
fn text_in_braces(text: &str, offset: usize, open: Option<(usize, char)>) -> Option<Mistake> {
    let (bracket, _) = open.filter(|(_, mark)| *mark == '{')?;
    let start = line_start(text, offset);
    let from = bracket.max(start);
    let line_end = start + line_at(text, start).len();
    let before = text.get(from..offset)?;
    let entry = from + before.rfind([',', '{']).map_or(0, |at| at + 1);
    let entry_text = text.get(entry..line_end)?;
    let entry_text = entry_text.split(['}', ',']).next().unwrap_or_default();
    let (key, value) = entry_text.split_once(": ")?;
    if !(value.contains(": ") || value.trim_end().ends_with(':'))
        || value.trim_start().starts_with(['"', '\'', '{', '['])
    {
        return None;
    }
    let skipped = entry_text.len() - entry_text.trim_start().len();
    Some(Mistake {
        offset: entry + skipped,
        message: "a text with `: ` in `{…}` is not in quotes".to_owned(),
        help: format!("write `{{{}: \"…\"}}`", key.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, at: &str) -> Option<(usize, String)> {
        let offset = text.find(at).unwrap();
        find(text, offset, &ErrorKind::MappingValueNotAllowed)
            .map(|mistake| (mistake.offset, mistake.message))
    }

    #[test]
    fn frequent_mistakes_are_found_where_they_were_made() {
        let bracket = "a: [x, y\nb: 1\n";
        assert_eq!(
            found(bracket, ": 1"),
            Some((3, "this `[` is not closed".to_owned()))
        );
        let dash = "tools:\n  -type: mcp\n    name: x\n";
        assert_eq!(
            found(dash, "name"),
            Some((9, "a space is missing after `-`".to_owned()))
        );
        let braces = "instructions: {inline: Use this: that}\n";
        let message = "a text with `: ` in `{…}` is not in quotes".to_owned();
        assert_eq!(found(braces, ": that"), Some((15, message)));
    }

    #[test]
    fn a_quote_is_shown_where_it_was_opened() {
        for (text, at, opened) in [("a: it's\nb: \"12\nc: d\n", "c: d", 11), ("a: 'x\n", "\n", 3)] {
            let offset = text.find(at).unwrap();
            let mistake = find(text, offset, &ErrorKind::UnclosedQuotedScalar).unwrap();
            assert_eq!(mistake.offset, opened, "{text}");
        }
    }

    #[test]
    fn a_colon_without_a_space_is_found() {
        let text = "name:support\ndescription: x\n";
        let found = found(text, ": x").unwrap();
        assert_eq!(found, (4, "a space is missing after `:`".to_owned()));
    }

    #[test]
    fn other_errors_have_no_such_cause() {
        for (text, at) in [
            ("a: [x, y]\nb: 1: 2\n", ": 2"),
            ("- type: mcp\n  name: {a: 'b: c'}\n  x: 1: 2\n", ": 2"),
            ("a: \"[\"\nb: c: d\n", ": d"),
            ("a: 1 # [\nb: c: d\n", ": d"),
            ("a: x [y\nb: c: d\n", ": d"),
            ("url:\n- http://x\nb: c: d\n", ": d"),
            ("- gpt-oss:20b\nb: c: d\n", ": d"),
        ] {
            assert_eq!(found(text, at), None, "{text}");
        }
    }
}
