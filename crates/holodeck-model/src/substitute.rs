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

/// A variable in a form of another program, which is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreplacedVariable {
    /// Its beginning, as it is written.
    pub begin: String,
    /// The variable without a default, which could be a secret.
    pub shown: String,
    /// The form to write instead.
    pub help: String,
}

impl UnreplacedVariable {
    /// Whether it is in braces, which no password has by chance.
    pub fn has_braces(&self) -> bool {
        self.begin.starts_with("${") || self.begin.starts_with("{{")
    }
}

/// Whether a value is `$NAME`, or a path below it: its name may be the secret itself, and must not be shown.
pub fn is_kept_dollar(value: &str) -> bool {
    let name = value.strip_prefix('$').and_then(shell_variable);
    name.is_some_and(|found| {
        let rest = value.get(found.begin.len()..).unwrap_or_default();
        rest.is_empty() || rest.starts_with('/')
    })
}

/// Maximum number of variables that are found in a text.
const MAX_UNREPLACED: usize = 20;

/// Bytes of a text that are searched.
const LONGEST_TEXT: usize = 64 * 1024;

/// Maximum length of such a variable in bytes.
const LONGEST_VARIABLE: usize = 200;

/// The first variables of a text in forms of shells and templates that [`substitute`] does not replace.
pub fn unreplaced_variables(text: &str) -> Vec<UnreplacedVariable> {
    let mut found = Vec::new();
    if !text.contains('$') && !text.contains("{{") {
        return found;
    }
    let mut rest = begin_of(text, LONGEST_TEXT);
    while let Some(at) = rest.find(['$', '{'])
        && found.len() < MAX_UNREPLACED
    {
        let from = rest.get(at..).unwrap_or_default();
        let length = if let Some(after) = from.strip_prefix("$$") {
            // A literal, and `$$5`.
            from.len() - after.trim_start_matches('{').len()
        } else if from.starts_with("${{") {
            1
        } else if let Some(inner) = from.strip_prefix("${") {
            found.extend(shell_parameter(inner));
            2
        } else if let Some(after) = from.strip_prefix('$') {
            let is_escaped = rest.get(..at).is_some_and(|before| before.ends_with('\\'));
            found.extend(shell_variable(after).filter(|_| !is_escaped));
            1
        } else if let Some(inner) = from.strip_prefix("{{") {
            found.extend(template_variable(inner));
            2
        } else {
            1
        };
        rest = from.get(length..).unwrap_or_default();
    }
    found
}

/// `${NAME-default}`, `${NAME:?message}` and the like; other languages have `${a.b}`.
fn shell_parameter(inner: &str) -> Option<UnreplacedVariable> {
    const OPERATORS: [&str; 7] = [":?", ":+", ":=", "-", "?", "+", "="];
    /// Those that change a value, in shells, after a name in capitals.
    const CHANGING: [&str; 7] = ["%", "#", "/", "^", ",", "@", ":"];
    let inner = begin_of(inner, LONGEST_VARIABLE);
    if !inner.contains('}') {
        return None;
    }
    if let Some(found) = scoped_parameter(inner) {
        return Some(found);
    }
    let name = name_at(inner)?;
    let after = inner.get(name.len()..)?;
    let changing = CHANGING
        .iter()
        .filter(|_| is_environment(name) && !after.starts_with(":-"));
    let operator = OPERATORS
        .iter()
        .chain(changing)
        .find(|operator| after.starts_with(**operator))?;
    let help = match *operator {
        "-" | ":=" | "=" => {
            format!("write `${{{name}:-…}}` for a default value, or `$${{` for a literal `${{`")
        }
        _ => format!(
            "write `${{{name}}}`, which is an error if it is not set, or `${{{name}:-…}}` for a default value"
        ),
    };
    Some(UnreplacedVariable {
        begin: format!("${{{name}{operator}"),
        shown: format!("${{{name}{operator}…}}"),
        help,
    })
}

/// `${env:NAME}` and `${env.NAME}`, as editors have them.
fn scoped_parameter(inner: &str) -> Option<UnreplacedVariable> {
    let after = inner.strip_prefix("env")?;
    let separator = after
        .chars()
        .next()
        .filter(|separator| matches!(separator, ':' | '.'))?;
    let name = name_at(after.get(1..)?)?;
    Some(UnreplacedVariable {
        begin: format!("${{env{separator}{name}"),
        shown: format!("${{env{separator}{name}}}"),
        help: format!("write `${{{name}}}` to insert a variable of the environment"),
    })
}

/// Whether a name is in capitals, as those of variables of the environment are.
fn is_environment(name: &str) -> bool {
    name.len() > 1 && !name.contains(|character: char| character.is_ascii_lowercase())
}

/// `$NAME` in capitals.
fn shell_variable(after: &str) -> Option<UnreplacedVariable> {
    let name = name_at(begin_of(after, LONGEST_VARIABLE))?;
    is_environment(name).then(|| UnreplacedVariable {
        begin: format!("${name}"),
        shown: format!("${name}"),
        help: format!("write `${{{name}}}` if it is a variable"),
    })
}

/// `{{ env.NAME }}`, `{{ env["NAME"] }}`, `{{ env("NAME") }}` and the same with `secrets`.
fn template_variable(inner: &str) -> Option<UnreplacedVariable> {
    let (inner, _) = begin_of(inner, LONGEST_VARIABLE).split_once("}}")?;
    let expression = inner.trim();
    let scope = ["env", "secrets"]
        .into_iter()
        .find(|scope| expression.starts_with(scope))?;
    let after = expression.get(scope.len()..)?;
    let access = after.strip_prefix(['.', '[', '('])?;
    let name = name_at(access.trim_start_matches(['"', '\'', ' ']))?;
    Some(UnreplacedVariable {
        begin: "{{".to_owned(),
        shown: format!("{{{{ {scope}.{name} }}}}"),
        help: format!("write `${{{name}}}` to insert a variable of the environment"),
    })
}

/// The first bytes of a text, at most this many.
fn begin_of(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The name at the start of a text.
fn name_at(text: &str) -> Option<&str> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let end = text.find(|character| !is_name(character)).unwrap_or(text.len());
    let name = text.get(..end)?;
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        .then_some(name)
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
    fn variables_of_other_programs_are_found() {
        let shown = |text: &str| {
            let found = unreplaced_variables(text);
            found
                .into_iter()
                .map(|found| found.shown)
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (text, expected) in [
            ("${TONE-kind}", "${TONE-…}"),
            ("${TONE:?hunter2}", "${TONE:?…}"),
            ("${TONE:+a}${TONE:=b}${TONE?}", "${TONE:+…} ${TONE:=…} ${TONE?…}"),
            (
                "a {{ env.TONE }} b {{env[\"TONE\"]}}",
                "{{ env.TONE }} {{ env.TONE }}",
            ),
            ("${{ secrets.API_KEY }}", "{{ secrets.API_KEY }}"),
            ("{{ env('TONE') }}", "{{ env.TONE }}"),
            ("$TONE and $API_KEY", "$TONE $API_KEY"),
            ("${TONE} ${TONE:-kind} $${TONE-kind} $$TONE \\$TONE", ""),
            (
                "$5 $a $A $ ${ ${} ${a.b} {{ name }} {{ environment.x }} {{env}} {",
                "",
            ),
            ("${TONE-kind and no end", ""),
            (
                "${TONE%x} ${TONE##x} ${TONE/a/b} ${TONE^^} ${TONE,,} ${TONE:0:3}",
                "${TONE%…} ${TONE#…} ${TONE/…} ${TONE^…} ${TONE,…} ${TONE:…}",
            ),
            (
                "${env:TONE} ${env.TONE} ${tone/2} ${a, b} ${environment:x}",
                "${env:TONE} ${env.TONE}",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn values_of_variables_with_names_of_secrets_are_collected() {
        let env = Env::from_iter([("API_TOKEN", "abc"), ("HOST", "db")]);
        let result = substitute("${HOST} ${API_TOKEN} ${DB_PASSWORD:-def} ${NO_KEY}", &env).unwrap();
        assert_eq!(result.secrets, ["abc", "def"]);
    }
}
