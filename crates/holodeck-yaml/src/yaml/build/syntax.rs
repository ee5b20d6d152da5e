//! Messages for parse errors.

use granit_parser::ErrorKind;

/// The message for an error; replaces messages of the parser that are not meant for users.
pub(super) fn message(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::MappingValueNotAllowed => "a `:` is not expected here".to_owned(),
        ErrorKind::UnclosedQuotedScalar => "a quoted string is not closed".to_owned(),
        ErrorKind::InvalidQuotedScalarIndent => {
            "a quoted string is not closed, or its next line is not indented".to_owned()
        }
        ErrorKind::UnclosedFlowCollection { open } => format!("a `{open}` is not closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => format!("`{open}` is closed by `{close}`"),
        ErrorKind::MisplacedFlowCollectionEnd => "a closing bracket has no opening bracket".to_owned(),
        ErrorKind::ExpectedBlockMappingKey => "a key is expected here; check the indentation".to_owned(),
        ErrorKind::SimpleKeyExpected => "a `:` is missing after a key".to_owned(),
        ErrorKind::InvalidIndentation => "the indentation does not match the lines above".to_owned(),
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            format!("the character U+{:04X} is not allowed", u32::from(*character))
        }
        ErrorKind::UnexpectedCharacter { character } => format!("a string cannot begin with `{character}`"),
        ErrorKind::BlockSequenceEntryNotAllowed => "a `-` is not expected here".to_owned(),
        ErrorKind::UnknownQuotedScalarEscape => "unknown escape in a quoted string".to_owned(),
        other => {
            let text = other.to_string();
            let mut characters = text.chars();
            match characters.next() {
                Some(first) => format!("not YAML: {}{}", first.to_lowercase(), characters.as_str()),
                None => "not YAML".to_owned(),
            }
        }
    }
}

/// A tab in the indentation of the line of an offset or of the line before; if the parser reports a tab, also of the
/// lines after.
pub(super) fn tab_near(text: &str, offset: usize, kind: &ErrorKind) -> Option<usize> {
    let about_tabs = matches!(
        kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInIndentation
            | ErrorKind::TabInPlainScalar
    );
    let before = text.get(..offset)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let previous = before
        .get(..line.saturating_sub(1))
        .map_or(0, |text| text.rfind('\n').map_or(0, |at| at + 1));
    let near = [line, previous]
        .into_iter()
        .find_map(|start| tab_in_indent(text, start));
    if near.is_some() || !about_tabs {
        return near;
    }
    let mut start = line;
    while let Some(end) = text.get(start..).and_then(|rest| rest.find('\n')) {
        start += end + 1;
        if let Some(tab) = tab_in_indent(text, start) {
            return Some(tab);
        }
    }
    None
}

fn tab_in_indent(text: &str, start: usize) -> Option<usize> {
    let indent = text.get(start..)?;
    let blanks = indent.len() - indent.trim_start_matches([' ', '\t']).len();
    Some(start + indent.get(..blanks)?.find('\t')?)
}

/// Whether a colon is the first of its line, after a key: then the key is in the wrong column.
fn is_key(text: &str, colon: usize) -> bool {
    let before = text.get(..colon).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let key = line.trim().trim_start_matches("- ");
    !key.is_empty()
        && key
            .chars()
            .all(|character| character.is_alphanumeric() || matches!(character, '_' | '-'))
}

/// Whether the line of an offset, or the line before, has a comment in brackets that are not closed before it.
pub(super) fn comment_near(text: &str, offset: usize) -> bool {
    let end = text
        .get(offset..)
        .and_then(|rest| rest.find('\n'))
        .map_or(text.len(), |end| offset + end);
    let lines = text.get(..end).unwrap_or_default().rsplit('\n').take(2);
    lines.into_iter().any(|line| {
        line.split_once(" #").is_some_and(|(before, _)| {
            let count = |brackets: [char; 2]| before.matches(brackets).count();
            count(['{', '[']) > count(['}', ']'])
        })
    })
}

/// The next action.
pub(super) fn help(kind: &ErrorKind, text: &str, offset: usize) -> Option<&'static str> {
    if comment_near(text, offset) {
        return Some("` #` begins a comment, also within brackets; put a text with ` #` in quotes");
    }
    Some(match kind {
        ErrorKind::MappingValueNotAllowed if is_key(text, offset) => {
            "is this line indented too far? keys of one mapping begin in the same column"
        }
        ErrorKind::MappingValueNotAllowed => "a string that contains `: ` needs quotes",
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => return None,
        ErrorKind::UnexpectedCharacter { .. } => "put the string in quotes",
        ErrorKind::UnknownQuotedScalarEscape => "double the backslash, or use single quotes",
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => {
            "keys of one mapping begin in the same column"
        }
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            "separate the entries with commas and close the bracket; a string with brackets needs quotes"
        }
        _ => return None,
    })
}
