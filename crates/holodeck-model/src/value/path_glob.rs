//! Patterns of paths, as in `.gitignore`, resolved to absolute paths when they are read.
//!
//! It compares texts and touches no file: links are resolved by [`PathGlob::with_real_prefix`], with what the caller
//! passes in.

use std::{fmt, iter::once};

use super::{
    cli_text::{CliText, spellings},
    path_part::{Part, Token},
};
use crate::call_paths::join_path;

/// HoloDeck's own folder, wherever it is.
pub(crate) const OWN_FOLDER: &str = ".holodeck";

/// The folders that a pattern is relative to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathBases {
    /// The folder of relative patterns, absolute.
    pub working_directory: String,
    /// The folder that `~` and `$HOME` mean.
    pub home: Option<String>,
}

/// A pattern of paths. It matches a path, and everything below a folder that it matches.
#[derive(Clone, PartialEq, Eq)]
pub struct PathGlob {
    text: String,
    /// The pattern as absolute paths: as written, and with the links of its literal beginning resolved.
    anchored: Vec<Vec<Part>>,
}

/// Matches no literal part of a pattern, but every wildcard.
const ANYTHING: &str = "\u{1}";

impl PathGlob {
    /// Reads a pattern. An error says why it cannot be applied.
    pub fn parse(text: &str, bases: &PathBases) -> Result<Self, String> {
        let written = text.trim();
        if written.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        if written.contains(char::is_control) {
            return Err("it contains a control character".to_owned());
        }
        if written.starts_with('!') {
            return Err(
                "a negated pattern is not supported; write `\\!` for a name that begins with `!`".to_owned(),
            );
        }
        let (base, rest) = split_base(written, bases)?;
        let mut parts = literal_parts(&base);
        let rest_parts: Vec<&str> = rest
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        let is_relative = !written.starts_with(['/', '~', '$']);
        // As in `.gitignore`: a name without a folder is meant at any depth.
        let is_bare = is_relative && !rest.trim_end_matches('/').contains('/') && rest != "..";
        if is_bare {
            parts.push(Part::Any);
        }
        for part in rest_parts {
            match part {
                ".." => {
                    let is_literal = parts.last().is_none_or(|part| part.as_literal().is_some());
                    if !is_literal {
                        return Err("`..` after a wildcard is not supported".to_owned());
                    }
                    parts.pop();
                }
                "**" => parts.push(Part::Any),
                name => parts.push(Part::Name(parse_name(name)?)),
            }
        }
        Ok(Self {
            text: written.to_owned(),
            anchored: vec![parts],
        })
    }

    /// The pattern of one absolute path, and what is below it.
    pub fn literal(path: &str) -> Self {
        Self {
            text: path.to_owned(),
            anchored: vec![literal_parts(path)],
        }
    }

    /// The pattern of `name` at any depth below a path.
    #[must_use]
    pub(crate) fn below(mut self, name: &str) -> Self {
        for parts in &mut self.anchored {
            parts.push(Part::Any);
            parts.extend(literal_parts(name));
        }
        self
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The absolute path of the pattern before its first wildcard.
    pub fn literal_prefix(&self) -> String {
        let parts = self.anchored.first().map_or(&[][..], Vec::as_slice);
        let names: Vec<String> = parts.iter().map_while(Part::as_literal).collect();
        format!("/{}", names.join("/"))
    }

    /// The pattern that also matches below `real`, the literal prefix with its links resolved.
    #[must_use]
    pub fn with_real_prefix(mut self, real: &str) -> Self {
        let Some(parts) = self.anchored.first() else {
            return self;
        };
        let rest = parts.iter().skip_while(|part| part.as_literal().is_some());
        let real: Vec<Part> = literal_parts(real).into_iter().chain(rest.cloned()).collect();
        if !self.anchored.contains(&real) {
            self.anchored.push(real);
        }
        self
    }

    /// Whether it matches an absolute path, or a folder that contains it.
    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = components(path).collect();
        self.anchored.iter().any(|parts| matches_parts(parts, &names))
    }

    /// Whether it matches everything below a folder.
    pub fn matches_below(&self, folder: &str) -> bool {
        let names: Vec<&str> = components(folder).chain(once(ANYTHING)).collect();
        self.anchored.iter().any(|parts| matches_parts(parts, &names))
    }

    /// Whether a folder of HoloDeck is named in it.
    pub(crate) fn has_own_folder(&self) -> bool {
        let names = self.anchored.iter().flatten().filter_map(Part::as_literal);
        names
            .into_iter()
            .any(|name| name.eq_ignore_ascii_case(OWN_FOLDER))
    }

    /// Whether it names a folder, or something in it, without a wildcard in the folder's own name.
    pub fn names_in(&self, folder: &str) -> bool {
        let own = components(folder).last();
        self.anchored.iter().any(|parts| {
            let names: Vec<String> = parts.iter().map_while(Part::as_literal).collect();
            let last = parts.last().and_then(Part::as_literal);
            is_within(&format!("/{}", names.join("/")), folder)
                || (last.is_some() && last.as_deref() == own && self.matches(folder))
        })
    }

    /// The pattern in the syntax of rules of the Claude CLI, where `//` begins an absolute path. The CLI must deny by all of
    /// them.
    pub fn to_cli(&self) -> Vec<CliText> {
        let anchored = self.anchored.iter();
        anchored.flat_map(|parts| spellings(parts)).collect()
    }
}

impl fmt::Debug for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathGlob({:?} = {:?})", self.text, self.to_cli())
    }
}

/// The names of an absolute path.
pub(crate) fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Whether an absolute path is `folder` or something below it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    let mut names = components(path);
    components(folder).all(|name| names.next() == Some(name))
}

/// The folder that a pattern is relative to, and the rest of the pattern.
fn split_base<'t>(written: &'t str, bases: &PathBases) -> Result<(String, &'t str), String> {
    let home = |rest: &'t str| match &bases.home {
        Some(home) => Ok((home.clone(), rest)),
        None => Err("`~` and `$HOME` need the variable `HOME`".to_owned()),
    };
    for prefix in ["~", "$HOME", "${HOME}"] {
        match written.strip_prefix(prefix) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => return home(rest),
            Some(_) if prefix == "~" => return Err("`~` with the name of a user is not supported".to_owned()),
            _ => {}
        }
    }
    if written.starts_with('$') {
        return Err(
            "only the variable `$HOME` is supported; write `\\$` for a name that begins with `$`".to_owned(),
        );
    }
    if written.starts_with('/') {
        return Ok((String::new(), written));
    }
    Ok((bases.working_directory.clone(), written))
}

fn literal_parts(path: &str) -> Vec<Part> {
    let path = join_path("/", path);
    let literal = |name: &str| Part::Name(name.chars().map(Token::Literal).collect());
    components(&path).map(literal).collect()
}

fn parse_name(name: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        tokens.push(match letter {
            '\\' => match letters.next() {
                Some(escaped) => Token::Literal(escaped),
                None => return Err("it ends with `\\`".to_owned()),
            },
            '*' => {
                while letters.next_if_eq(&'*').is_some() {}
                Token::Many
            }
            '?' => Token::Single,
            '[' => parse_class(&mut letters)?,
            '{' | '}' => {
                return Err("`{` and `}` are not supported; write one pattern for each name".to_owned());
            }
            letter => Token::Literal(letter),
        });
    }
    Ok(tokens)
}

fn parse_class(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Token, String> {
    let unclosed = || "`[` is not closed".to_owned();
    let negated = letters.next_if(|letter| matches!(letter, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let first = match letters.next().ok_or_else(unclosed)? {
            ']' if !ranges.is_empty() => break,
            '\\' => letters.next().ok_or_else(unclosed)?,
            letter => letter,
        };
        let mut last = first;
        let mut ahead = letters.clone();
        if ahead.next() == Some('-') && ahead.next().is_some_and(|letter| letter != ']') {
            letters.next();
            last = match letters.next().ok_or_else(unclosed)? {
                '\\' => letters.next().ok_or_else(unclosed)?,
                letter => letter,
            };
            if last < first {
                return Err(format!("the range `{first}-{last}` is empty"));
            }
        }
        ranges.push((first, last));
    }
    Ok(Token::Class { negated, ranges })
}

/// Whether the pattern matches the names or the first of them.
fn matches_parts(parts: &[Part], names: &[&str]) -> bool {
    match parts.split_first() {
        // What is left is below a folder that matches.
        None => true,
        Some((Part::Any, [])) => !names.is_empty(),
        Some((Part::Any, rest)) => {
            (0..=names.len()).any(|skip| names.get(skip..).is_some_and(|names| matches_parts(rest, names)))
        }
        Some((Part::Name(tokens), rest)) => names.split_first().is_some_and(|(name, names)| {
            let name: Vec<char> = name.chars().collect();
            matches_name(tokens, &name) && matches_parts(rest, names)
        }),
    }
}

fn matches_name(tokens: &[Token], name: &[char]) -> bool {
    let Some((token, rest)) = tokens.split_first() else {
        return name.is_empty();
    };
    if *token == Token::Many {
        return (0..=name.len()).any(|skip| name.get(skip..).is_some_and(|name| matches_name(rest, name)));
    }
    let Some((letter, name)) = name.split_first() else {
        return false;
    };
    let is_match = match token {
        Token::Literal(wanted) => wanted == letter,
        Token::Class { negated, ranges } => {
            ranges
                .iter()
                .any(|(first, last)| (first..=last).contains(&letter))
                != *negated
        }
        Token::Single | Token::Many => true,
    };
    is_match && matches_name(rest, name)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn bases() -> PathBases {
        PathBases {
            working_directory: "/w/proj".to_owned(),
            home: Some("/home/u".to_owned()),
        }
    }

    fn glob(text: &str) -> PathGlob {
        PathGlob::parse(text, &bases()).unwrap()
    }

    #[test]
    fn a_pattern_matches_as_in_a_gitignore_file() {
        for (text, path, fits) in [
            (".env", "/w/proj/.env", true),
            (".env", "/w/proj/a/b/.env", true),
            (".env", "/w/.env", false),
            ("*.pem", "/w/proj/keys/a.pem", true),
            ("secret/", "/w/proj/x/secret/key", true),
            ("secret/key", "/w/proj/secret/key", true),
            ("secret/key", "/w/proj/x/secret/key", false),
            ("./a", "/w/proj/a", true),
            ("./a", "/w/proj/b/a", false),
            ("secret/**", "/w/proj/secret/a/b", true),
            ("secret/**", "/w/proj/secret", false),
            ("a/**/b", "/w/proj/a/b", true),
            ("a/**/b", "/w/proj/a/x/y/b/c", true),
            ("a/*", "/w/proj/a/x/y", true),
            ("a/*", "/w/proj/a", false),
            ("**", "/w/proj/x", true),
            ("**", "/w/other", false),
            ("../x", "/w/x", true),
            ("../x", "/w/x/y", true),
            ("../x", "/w/proj/x", false),
            ("..", "/w/z", true),
            ("~/.ssh/**", "/home/u/.ssh/id", true),
            ("$HOME/.ssh/**", "/home/u/.ssh/id", true),
            ("${HOME}/.ssh", "/home/u/.ssh/id", true),
            ("~", "/home/u/anything", true),
            ("/abs/**", "/abs/x", true),
            ("//abs/**", "/abs/x", true),
            ("/abs/**", "/w/proj/abs/x", false),
            ("/abs/../etc/*", "/etc/passwd", true),
            ("x[1].yaml", "/w/proj/x1.yaml", true),
            ("x\\[1\\].yaml", "/w/proj/x[1].yaml", true),
            ("[!a-c]z", "/w/proj/dz", true),
            ("[!a-c]z", "/w/proj/bz", false),
            ("a?c", "/w/proj/abc", true),
            ("a?c", "/w/proj/a/c", false),
            ("/", "/anything", true),
        ] {
            assert_eq!(glob(text).matches(path), fits, "{text} {path}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_applied_is_refused() {
        for text in [
            "",
            " ",
            "!x",
            "a/[b",
            "a\\",
            "{a,b}",
            "*.{env,key}",
            "~root/x",
            "$X/y",
            "a/*/../b",
            "a\u{0}b",
            "[z-a]",
        ] {
            assert!(PathGlob::parse(text, &bases()).is_err(), "{text:?}");
        }
        let homeless = PathBases::default();
        assert!(PathGlob::parse("~/x", &homeless).is_err());
    }

    #[test]
    fn a_pattern_is_written_for_the_cli_with_its_real_place() {
        // The spellings that need no half letters.
        let cli = |glob: &PathGlob| {
            let spellings = glob.to_cli();
            spellings.iter().filter_map(CliText::as_text).collect::<Vec<_>>()
        };
        assert_eq!(cli(&glob("*.pem")), ["//w/proj/**/*.pem"]);
        assert_eq!(cli(&glob("../x[1]\\[")), ["//w/x[\\1]\\["]);
        assert_eq!(
            cli(&glob("../[!c-eab0-9]")),
            ["//w/[\u{1}-.:-`f-\u{ffff}]", "//w/[\u{1}-.:-`f-\u{10ffff}]"]
        );
        // The beginning of the next range could not be written.
        assert_eq!(cli(&glob("../[!Z]")), ["//w/?"]);
        let linked = glob("~/.ssh/**").with_real_prefix("/mnt/keys");
        assert_eq!(cli(&linked), ["//home/u/.ssh/**", "//mnt/keys/**"]);
        assert!(linked.matches("/mnt/keys/id"));
        assert_eq!(linked.literal_prefix(), "/home/u/.ssh");
    }

    #[test]
    fn a_folder_is_named_by_its_own_name_only() {
        for (text, folder, is_named) in [
            ("results/a.json", "/w/proj/results", true),
            ("results/**", "/w/proj/results", true),
            ("**", "/w/proj/results", false),
            ("*.json", "/w/proj/results", false),
            ("/w/**", "/w/proj/results", false),
            ("/w/proj", "/w/proj/results", false),
            ("results", "/w/proj/results", true),
            ("./results", "/w/proj/results", true),
        ] {
            assert_eq!(glob(text).names_in(folder), is_named, "{text}");
        }
        assert!(glob("results/**").matches_below("/w/proj/results"));
        assert!(!glob("results/*.txt").matches_below("/w/proj/results"));
    }
}
