//! `${VAR}`, `${VAR:-default}` and `$${VAR}` in scalar values.

use crate::{Env, redact::names_a_secret};

/// The text with its variables replaced, and the names that are not set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Substituted {
    pub(crate) text: String,
    pub(crate) missing: Vec<String>,
    /// Values of variables whose names say that they are secrets.
    pub(crate) secrets: Vec<String>,
}

/// Replaces variables; `None` if there is nothing to replace.
///
/// `${VAR:-default}` gives the default when the variable is unset or empty, as in a shell. Whatever else begins
/// with `${` stays as it is, so that templates of other languages survive.
pub(crate) fn substitute(text: &str, env: &Env) -> Option<Substituted> {
    if !text.contains("${") {
        return None;
    }
    let mut result = String::with_capacity(text.len());
    let mut missing = Vec::new();
    let mut secrets = Vec::new();
    let mut touched = false;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(literal) = before.strip_suffix('$') {
            // `$${`: the reader wants `${` itself.
            result.push_str(literal);
            result.push_str("${");
            rest = from.get(2..).unwrap_or_default();
            touched = true;
            continue;
        }
        result.push_str(before);
        let Some(reference) = Reference::parse(from) else {
            result.push_str("${");
            rest = from.get(2..).unwrap_or_default();
            continue;
        };
        touched = true;
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
    touched.then_some(Substituted {
        text: result,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, missing: &[&str]) {
        let env = Env::from_iter([("NAME", "Ada"), ("EMPTY", ""), ("NESTED", "${NAME}")]);
        let result = substitute(text, &env).unwrap_or_else(|| Substituted {
            text: text.to_owned(),
            ..Substituted::default()
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
    fn replaces_what_is_a_variable_and_nothing_else() {
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
    fn b09_values_of_variables_that_name_a_secret_are_known() {
        let env = Env::from_iter([("API_TOKEN", "abc"), ("HOST", "db")]);
        let result = substitute("${HOST} ${API_TOKEN} ${DB_PASSWORD:-def} ${NO_KEY}", &env).unwrap();
        assert_eq!(result.secrets, ["abc", "def"]);
    }
}
