//! Escapes foreign texts for display, so that they cannot control a terminal or change the text around them.

use std::{borrow::Cow, fmt::Write as _};

/// `text` with control characters, bidirectional controls and invisible characters as escapes such as `\u{202e}`. Line
/// ends and tabs stay, and so do joiners between letters of scripts that need them.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape_hidden(text, |c, out| out.extend(c.escape_unicode()))
}

/// The same for serialised JSON, which stays the same JSON.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    escape_hidden(json, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escape_hidden(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let joins = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_hidden(c));
        let after = characters.peek().copied();
        if c == '\r' && after == Some('\n') {
            continue;
        }
        let is_joiner = matches!(c, '\u{200c}' | '\u{200d}') && joins(before) && joins(after);
        if is_hidden(c) && !is_joiner {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
        before = Some(c);
    }
    Cow::Owned(out)
}

/// Whether a character controls a terminal, changes the order of the text around it, or is invisible.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(printable("a\tb\r\nc"), "a\tb\nc");
        assert_eq!(
            printable("\u{1b}[2J\u{85}\u{9b}\u{0}\r"),
            "\\u{1b}[2J\\u{85}\\u{9b}\\u{0}\\u{d}"
        );
        assert_eq!(
            printable("pay\u{202e}01\u{2066}x\u{200b}y\u{e0041}"),
            "pay\\u{202e}01\\u{2066}x\\u{200b}y\\u{e0041}"
        );
        assert_eq!(printable("pass\u{200d}word"), "pass\\u{200d}word");
        for text in ["Grüße, 日本", "👩\u{200d}💻", "\u{645}\u{6cc}\u{200c}\u{62e}"] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{202e}\u{e0041}\n"});
        let shown = printable_json(&value.to_string()).into_owned();
        assert_eq!(shown, r#"{"a":"x\u009b31m\u202e\udb40\udc41\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
