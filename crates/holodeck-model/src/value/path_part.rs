//! The parts of a pattern of paths, as they are read.

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `**`: any number of components.
    Any,
    /// One component.
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Literal(char),
    /// `*`
    Many,
    /// `?`
    Single,
    /// `[a-z]`, or all others.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Part {
    /// The name, if it has no wildcard.
    pub(super) fn as_literal(&self) -> Option<String> {
        let Self::Name(tokens) = self else { return None };
        let literal = |token: &Token| match token {
            Token::Literal(letter) => Some(*letter),
            _ => None,
        };
        tokens.iter().map(literal).collect()
    }
}
