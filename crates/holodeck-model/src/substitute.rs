//! Replaces `${VAR}`, `${VAR:-default}` and `$${VAR}` in scalar values.

use crate::{Env, redact::names_a_secret};

/// A text with its variables replaced, and the names that are not set.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Substitution {
    /// The text.
    pub text: String,
    /// The names of all variables in it, once for each place.
    pub names: Vec<String>,
    /// The names of variables that are not set.
    pub missing: Vec<String>,
    /// Values of variables whose names indicate a secret.
    pub secrets: Vec<String>,
}

/// Replaces variables; `None` if there is nothing to replace.
///
/// `${VAR:-default}` gives the default if the variable is unset or empty, as in a shell. Anything else that begins
/// with `${` is unchanged, so that templates of other languages stay intact.
pub fn substitute(text: &str, env: &Env) -> Option<Substitution> {
    if !text.contains("${") {
        return None;
    }
    let mut result = String::with_capacity(text.len());
    let mut names = Vec::new();
    let mut missing = Vec::new();
    let mut secrets = Vec::new();
    let mut is_changed = false;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(literal) = before.strip_suffix('$') {
            // `$${` means a literal `${`.
            result.push_str(literal);
            result.push_str("${");
            rest = from.get(2..).unwrap_or_default();
            is_changed = true;
            continue;
        }
        result.push_str(before);
        let Some(reference) = Reference::parse(from) else {
            result.push_str("${");
            rest = from.get(2..).unwrap_or_default();
            continue;
        };
        is_changed = true;
        names.push(reference.name.to_owned());
        rest = from.get(reference.len..).unwrap_or_default();
        let value = match (env.get(reference.name), reference.default) {
            (Some(value), None) => value,
            (Some(value), Some(_)) if !value.is_empty() => value,
            (_, Some(default)) => default,
            (None, None) => {
                missing.push(reference.name.to_owned());
                continue;
            }
        };
        result.push_str(value);
        if names_a_secret(reference.name) {
            secrets.push(value.to_owned());
        }
    }
    result.push_str(rest);
    is_changed.then_some(Substitution {
        text: result,
        names,
        missing,
        secrets,
    })
}

struct Reference<'t> {
    name: &'t str,
    default: Option<&'t str>,
    len: usize,
}

impl<'t> Reference<'t> {
    /// Reads a reference at the start of `text`, which begins with `${`.
    fn parse(text: &'t str) -> Option<Self> {
        let end = text.find('}')?;
        let inner = text.get(2..end)?;
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let mut characters = name.chars();
        let first = characters.next()?;
        let is_name = (first.is_ascii_alphabetic() || first == '_')
            && characters.all(|character| character.is_ascii_alphanumeric() || character == '_');
        is_name.then_some(Self {
            name,
            default,
            len: end + 1,
        })
    }
}

impl Env {
    /// Replaces `${NAME}`, `${NAME:-default}` and `$${NAME}` (literal) in `text`, as in YAML values; the error lists
    /// the names that are not set.
    pub fn expand(&self, text: &str) -> Result<String, Vec<String>> {
        match substitute(text, self) {
            None => Ok(text.to_owned()),
            Some(replaced) if replaced.missing.is_empty() => Ok(replaced.text),
            Some(replaced) => Err(replaced.missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, missing: &[&str]) {
        let env = Env::from_iter([("NAME", "Ada"), ("EMPTY", ""), ("NESTED", "${NAME}")]);
        let result = substitute(text, &env).unwrap_or_else(|| Substitution {
            text: text.to_owned(),
            ..Substitution::default()
        });
        assert_eq!(
            (
                result.text.as_str(),
                result.missing.iter().map(String::as_str).collect::<Vec<_>>()
            ),
            (expected, missing.to_vec())
        );
    }

    #[test]
    fn only_variables_are_replaced() {
        check("hello ${NAME}, ${NAME}", "hello Ada, Ada", &[]);
        check(
            "$NAME ${} ${1A} ${a.b} ${NAME",
            "$NAME ${} ${1A} ${a.b} ${NAME",
            &[],
        );
        check("${NONE}${OTHER}", "", &["NONE", "OTHER"]);
        check("${NONE:-x}${EMPTY:-y}${NAME:-z}${NONE:-}", "xyAda", &[]);
        check("${EMPTY}", "", &[]);
        check("$${NAME} costs $$5", "${NAME} costs $$5", &[]);
        check("${NESTED}", "${NAME}", &[]);
    }

    #[test]
    fn values_of_variables_with_names_of_secrets_are_collected() {
        let env = Env::from_iter([("API_TOKEN", "abc"), ("HOST", "db")]);
        let result = substitute("${HOST} ${API_TOKEN} ${DB_PASSWORD:-def} ${NO_KEY}", &env).unwrap();
        assert_eq!(result.secrets, ["abc", "def"]);
    }
}
