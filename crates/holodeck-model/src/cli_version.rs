//! Versions of the Claude Code CLI.

use std::fmt;

/// A version of the CLI, as in `2.1.330`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CliVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl CliVersion {
    /// The oldest supported version: the first native one.
    pub const OLDEST: Self = Self::new(2, 1, 113);

    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Parses `2.1.330`, ignoring any text after it, as in `2.1.330 (Claude Code)`.
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.split_whitespace().next()?;
        let mut parts = first.trim_start_matches('v').splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let last = parts.next()?;
        let digits = last.find(|c: char| !c.is_ascii_digit()).unwrap_or(last.len());
        let patch = last.get(..digits)?.parse().ok()?;
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for CliVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}
