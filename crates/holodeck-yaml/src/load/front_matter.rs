//! Front matter as people write it: a text that needs quotes as YAML is read up to the end of its line, with a warning, as
//! other programs read it. Lists and mappings must be YAML.

use std::fmt::Write as _;
use std::ops::Range;

use holodeck_model::{Code, Diagnostic, lines_with_ends};

use super::Loader;
use crate::yaml::{FileId, NodeId, Place, build, build_masked};

/// Front matter that is not YAML; the problem is reported.
pub(crate) struct NotYaml;

impl Loader<'_> {
    /// Parses the front matter in this range of a file; without a node if it is empty.
    pub(crate) fn build_front_matter(
        &mut self,
        file: FileId,
        range: Range<usize>,
    ) -> Result<Option<NodeId>, NotYaml> {
        let built = build(&mut self.tree, file, range.clone(), None);
        let Some(first) = built.diagnostics.into_iter().next() else {
            return Ok(built.root);
        };
        if let Some(root) = self.build_with_texts(file, range) {
            return Ok(Some(root));
        }
        let message = format!("the front matter is not YAML: {}", first.message);
        let mut diagnostic = Diagnostic::error(Code::BadFrontMatter, message);
        let line = first.primary.as_ref().and_then(|place| {
            let number = place.line.checked_sub(1)?;
            self.tree.file_text(file).lines().nth(number).map(str::to_owned)
        });
        diagnostic.help = first.help.or_else(|| Some(hint_for(&line?)));
        diagnostic.primary = first.primary;
        self.findings.diagnostics.push(diagnostic);
        Err(NotYaml)
    }

    /// Parses front matter with the texts that need quotes; `None` if they are not the only problem.
    fn build_with_texts(&mut self, file: FileId, range: Range<usize>) -> Option<NodeId> {
        let source = self.tree.file_text(file);
        let block = source.get(range.clone())?;
        let texts = unquoted_texts(block);
        if texts.is_empty() {
            return None;
        }
        // Of the same length, so that every place stays where it is.
        let mut masked = block.to_owned();
        for text in &texts {
            masked.replace_range(text.value.clone(), &"x".repeat(text.value.len()));
        }
        let built = build_masked(&mut self.tree, file, range.start, &masked);
        let mut root = built.root.filter(|_| built.diagnostics.is_empty())?;
        for text in texts {
            let key = block.get(text.key)?;
            let written = block.get(text.value.clone())?;
            let place = Place {
                file,
                start: offset(range.start + text.value.start),
                end: offset(range.start + text.value.end),
            };
            let entry = *self.tree.get(root, key)?;
            let lines: Vec<&str> = written.lines().map(|line| line.trim_matches(BLANKS)).collect();
            let text = lines.join(" ");
            let fix = quoted(&text);
            let content = self.tree.own_text(text);
            let value = self.tree.scalar_node(place, content, false, false);
            root = self.with_entry(root, entry.with_value(value));
            let message =
                format!("`{key}` needs quotes in YAML; it is read as text up to the end of its line");
            let mut diagnostic = Diagnostic::warning(Code::BadFrontMatter, message)
                .about(key)
                .with_help("put the text in quotes, so that every program reads it alike; `validate --fix` writes them");
            diagnostic.fix = Some(fix);
            self.findings.add(&self.tree, place, diagnostic);
        }
        self.tree.add_root(root);
        self.tree.mark_parsed(file);
        Some(root)
    }
}

/// The next step for a line of front matter that YAML does not take.
fn hint_for(line: &str) -> String {
    let strange = |character: &char| character.is_whitespace() && !matches!(character, ' ' | '\t');
    match line.chars().find(strange) {
        Some(blank) => format!(
            "the line has a blank that is none in YAML (U+{:04X}); write a plain one",
            u32::from(blank)
        ),
        None => "write `key: value`, one key a line; a text over several lines is indented, after `key: >`"
            .to_owned(),
    }
}

/// Blanks and line ends of YAML: others are part of a text.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// A text on one line as YAML that every program reads alike.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\t' => quoted.push_str("\\t"),
            // In YAML these are not printable, or end a line.
            '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                // Writing into a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A key with a text without quotes, as ranges of the front matter.
#[derive(Debug, PartialEq, Eq)]
struct UnquotedText {
    key: Range<usize>,
    value: Range<usize>,
}

/// The texts in lines `key: text` that YAML may not read as texts. Indented lines continue a text.
fn unquoted_texts(block: &str) -> Vec<UnquotedText> {
    let mut texts: Vec<UnquotedText> = Vec::new();
    let (mut at, mut continues) = (0, false);
    for line in lines_with_ends(block) {
        let start = at;
        at += line.len();
        let content = line.trim_end_matches(BLANKS);
        if content.starts_with([' ', '\t']) {
            if let Some(last) = texts.last_mut().filter(|_| continues) {
                last.value.end = start + content.len();
            }
            continue;
        }
        continues = false;
        let Some((key, value)) = content.split_once(':') else {
            continue;
        };
        let is_key = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        let text = value.trim_start_matches(BLANKS);
        if key.is_empty()
            || !key.chars().all(is_key)
            || !value.starts_with([' ', '\t'])
            || !(needs_quotes(text) || key == "description" && has_text_after_brackets(text))
        {
            continue;
        }
        continues = true;
        texts.push(UnquotedText {
            key: start..start + key.len(),
            value: start + content.len() - text.len()..start + content.len(),
        });
    }
    texts
}

/// Whether a text begins with something in brackets, as in `[beta] Reviews code`: then it is no list.
fn has_text_after_brackets(text: &str) -> bool {
    let (open, close) = match text.chars().next() {
        Some('[') => ('[', ']'),
        Some('{') => ('{', '}'),
        _ => return false,
    };
    let mut depth = 0_usize;
    let end = text.char_indices().find(|(_, character)| {
        depth += usize::from(*character == open);
        depth -= usize::from(*character == close && depth > 0);
        depth == 0
    });
    let after = end
        .and_then(|(at, _)| text.get(at + 1..))
        .unwrap_or_default()
        .trim();
    !after.is_empty() && !after.starts_with('#')
}

/// Whether YAML reads a text on one line, without quotes, as something else or not at all.
fn needs_quotes(text: &str) -> bool {
    let inner = text.get(1..).unwrap_or_default();
    match text.chars().next() {
        None | Some('[' | '{' | '#') => false,
        // A closing quote that is not the end.
        Some(quote @ ('"' | '\'')) => {
            let closing = inner.find(quote).and_then(|at| inner.get(at + 1..));
            closing.is_some_and(|after| !after.trim().is_empty() && !after.trim_start().starts_with('#'))
        }
        Some('|' | '>') => !inner
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim_end()
            .chars()
            .all(|character| character.is_ascii_digit() || matches!(character, '-' | '+')),
        Some('*' | '&' | '!' | '%' | '@' | '`' | ']' | '}' | ',') => true,
        _ => text.starts_with("- ") || text.contains(": ") || text.ends_with(':'),
    }
}

/// Offsets in a file fit in 32 bits, because its size is limited.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_need_quotes_are_found_and_others_are_not() {
        for text in [
            "Use this: when asked",
            "ends with:",
            "*bold* words",
            "@file and more",
            "`code` first",
            "\"Quoted\" and more",
            "'a' b",
            "- a dash",
            "> a quotation: x",
            "100% sure: yes",
        ] {
            assert!(needs_quotes(text), "{text}");
        }
        for text in [
            "",
            "plain",
            "a:b",
            "\"a: b\"",
            "'a: b' # note",
            "[a: b]",
            "{a: b}",
            "|",
            ">-",
            "|2 # note",
            "# note",
            "\"not closed",
        ] {
            assert!(!needs_quotes(text), "{text}");
        }
    }

    #[test]
    fn indented_lines_continue_a_text() {
        let block = "name: a\ndescription: Use: this\n  and that\n\ntools: [a]\n  b: c\n";
        let texts = unquoted_texts(block);
        let [text] = texts.as_slice() else {
            panic!("{texts:?}");
        };
        assert_eq!(&block[text.key.clone()], "description");
        assert_eq!(&block[text.value.clone()], "Use: this\n  and that");
    }
}
