//! Words for what the parser does not like.

use granit_parser::ErrorKind;

/// What is wrong, in our words where the parser speaks to programmers.
pub(super) fn message(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::MappingValueNotAllowed => "a `:` is not expected here".to_owned(),
        ErrorKind::UnclosedQuotedScalar => "a quoted text is not closed".to_owned(),
        ErrorKind::InvalidQuotedScalarIndent => {
            "a quoted text is not closed, or its next line is not indented".to_owned()
        }
        ErrorKind::UnclosedFlowCollection { open } => format!("a `{open}` is not closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => format!("`{open}` is closed by `{close}`"),
        ErrorKind::MisplacedFlowCollectionEnd => "a bracket closes nothing".to_owned(),
        ErrorKind::ExpectedBlockMappingKey => "a key is expected here; is the indentation right?".to_owned(),
        ErrorKind::SimpleKeyExpected => "a `:` is missing after a key".to_owned(),
        ErrorKind::InvalidIndentation => "the indentation does not fit the lines above".to_owned(),
        ErrorKind::UnexpectedCharacter { character } => format!("a text cannot begin with `{character}`"),
        ErrorKind::BlockSequenceEntryNotAllowed => "a `-` is not expected here".to_owned(),
        ErrorKind::UnknownQuotedScalarEscape => "unknown escape in a quoted text".to_owned(),
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

/// The next action.
pub(super) fn help(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::MappingValueNotAllowed => "a text that holds `: ` needs quotes",
        ErrorKind::UnexpectedCharacter { .. } => "put the text in quotes",
        ErrorKind::UnknownQuotedScalarEscape => "double a backslash, or use single quotes",
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => {
            "keys of one mapping begin in the same column"
        }
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            "separate the entries by commas and close the bracket; a text with brackets needs quotes"
        }
        _ => return None,
    })
}
