//! The language of `.env` files: `NAME=value` a line, as `HoloDeck` 0.7 reads it, but `'…'` is always literal.
//!
//! `$NAME` is literal. `${NAME}` and `${NAME:-default}` are replaced in values without quotes and in `"…"`. No error shows
//! a value.

use holodeck_model::{UnreplacedVariable, is_kept_dollar, unix_lines, unreplaced_variables};

/// A line that is not `NAME=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {problem}")]
pub(super) struct DotEnvError {
    /// Counted from 1.
    pub(super) line: usize,
    problem: LineProblem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum LineProblem {
    #[error("is not `NAME=value`")]
    NoValue,
    #[error("is not `NAME=value`: write `=` for `:`")]
    Colon,
    #[error("is not `NAME=value`: leave out `set`")]
    Set,
    #[error("begins with something that is not a name: letters, digits, `_` and `.`, and no digit first")]
    Name,
    #[error("opens a quote that is not closed; a value that begins with a quote goes into the other kind")]
    Open,
    #[error("has text after its closing quote, which is no comment")]
    AfterQuote,
}

/// A variable of a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: String,
    /// Variables in forms of shells and templates, which are not replaced: without a default, which could be a secret.
    pub(super) kept: Vec<String>,
    /// Whether it is `$NAME`, which is literal.
    pub(super) is_dollar: bool,
    /// The line of its name, counted from 1.
    pub(super) line: usize,
}

/// The variables of a file in its order. `outer` looks up a variable of the environment, which precedes the file's own.
pub(super) fn parse<'e>(
    text: &str,
    outer: impl Fn(&str) -> Option<&'e str>,
) -> Result<Vec<Assignment>, DotEnvError> {
    let text = &*unix_lines(text);
    let mut reader = Reader { text, at: 0 };
    let mut assignments: Vec<Assignment> = Vec::new();
    while let Some(line) = reader.next_line() {
        let number = text.get(..line.start).unwrap_or_default().matches('\n').count() + 1;
        let failed = |problem| DotEnvError {
            line: number,
            problem,
        };
        let Some((name, value)) = line.read(&mut reader).map_err(failed)? else {
            continue;
        };
        let (value, kept, is_dollar) = match value {
            Value::Literal(value) => (value, Vec::new(), false),
            Value::Template(template) => {
                let value = expand(&template, |name| {
                    let own = || assignments.iter().rev().find(|other| other.name == name);
                    outer(name).or_else(|| own().map(|other| other.value.as_str()))
                });
                (value, kept_in(&template), is_kept_dollar(&template))
            }
        };
        assignments.push(Assignment {
            name,
            value,
            kept,
            is_dollar,
            line: number,
        });
    }
    Ok(assignments)
}

/// Reads lines, or more where a quote goes over them.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

struct Line<'t> {
    start: usize,
    content: &'t str,
}

/// A value as the file has it.
enum Value {
    Literal(String),
    /// With variables to be replaced.
    Template(String),
}

impl<'t> Reader<'t> {
    /// The next line that is not empty and no comment.
    fn next_line(&mut self) -> Option<Line<'t>> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            let start = self.at;
            self.at += length;
            let content = rest.get(..length).unwrap_or_default().trim();
            if !content.is_empty() && !content.starts_with('#') {
                let indent = rest.len() - rest.trim_start().len();
                return Some(Line {
                    start: start + indent,
                    content,
                });
            }
        }
    }

    /// Reads a quoted value from `start` on, where its first quote is; the rest of its last line must be empty.
    fn quoted(&mut self, start: usize, quote: char) -> Result<String, LineProblem> {
        let inner = self.text.get(start + 1..).unwrap_or_default();
        let mut value = String::new();
        let mut characters = inner.char_indices();
        let end = loop {
            let (at, character) = characters.next().ok_or(LineProblem::Open)?;
            match character {
                '\\' => match characters.next() {
                    Some((_, next)) => value.push_str(&unescape(next, quote)),
                    None => return Err(LineProblem::Open),
                },
                _ if character == quote => break at + 1,
                _ => value.push(character),
            }
        };
        let rest = inner.get(end..).unwrap_or_default();
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let after = rest.get(..length).unwrap_or_default();
        let is_comment = after.trim_start().starts_with('#');
        if !after.trim().is_empty() && !is_comment {
            return Err(LineProblem::AfterQuote);
        }
        self.at = start + 1 + end + length;
        Ok(value)
    }
}

/// The characters of an escape in a quoted value; one that is unknown keeps its backslash.
fn unescape(character: char, quote: char) -> String {
    let special = match character {
        '\\' => Some('\\'),
        _ if character == quote => Some(quote),
        _ if quote == '\'' => None,
        '\'' => Some('\''),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'v' => Some('\u{b}'),
        _ => None,
    };
    special.map_or_else(|| format!("\\{character}"), String::from)
}

impl Line<'_> {
    /// The name and the value; nothing for `export NAME`, which sets nothing.
    fn read(&self, reader: &mut Reader<'_>) -> Result<Option<(String, Value)>, LineProblem> {
        let exported = self.content.strip_prefix("export").and_then(|rest| {
            let name = rest.trim_start();
            (name.len() < rest.len() && !name.starts_with('=')).then_some(name)
        });
        let assignment = exported.unwrap_or(self.content);
        let Some((name, value)) = assignment.split_once('=') else {
            return match (exported, assignment.split_once(": ")) {
                (Some(name), _) if is_name(name) => Ok(None),
                (_, Some((name, _))) if is_name(name.trim()) => Err(LineProblem::Colon),
                _ => Err(LineProblem::NoValue),
            };
        };
        let name = name.trim();
        if !is_name(name) {
            let set = name.strip_prefix("set ").or_else(|| name.strip_prefix("SET "));
            return Err(match set {
                Some(name) if is_name(name.trim()) => LineProblem::Set,
                _ => LineProblem::Name,
            });
        }
        let trimmed = value.trim_start();
        let value = match trimmed.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let start = self.start + self.content.len() - trimmed.len();
                let value = reader.quoted(start, quote)?;
                if quote == '"' {
                    Value::Template(value)
                } else {
                    Value::Literal(value)
                }
            }
            _ => Value::Template(without_comment(value).to_owned()),
        };
        Ok(Some((name.to_owned(), value)))
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
    name.chars().all(is_part) && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// A value without quotes, up to a ` #`.
fn without_comment(value: &str) -> &str {
    let mut before = None;
    let comment = value.char_indices().find(|(_, character)| {
        let is_comment = *character == '#' && before.is_some_and(char::is_whitespace);
        before = Some(*character);
        is_comment
    });
    let value = comment.and_then(|(at, _)| value.get(..at)).unwrap_or(value);
    value.trim()
}

/// The variables of a value that are not replaced. `$NAME` is literal on purpose.
fn kept_in(template: &str) -> Vec<String> {
    let found = unreplaced_variables(template).into_iter();
    let braces = found.filter(UnreplacedVariable::has_braces);
    braces
        .map(|found| found.shown)
        .chain(nested_in(template))
        .collect()
}

/// Variables in the default of another: a default ends at its first `}`, so that what follows is text. Without other parts of
/// the default.
fn nested_in(template: &str) -> impl Iterator<Item = String> + '_ {
    let begun = || template.split("${").skip(1);
    begun().zip(begun().skip(1)).filter_map(|(before, inner)| {
        let (name, default) = before.split_once(":-")?;
        (is_name(name) && !default.contains('}') && inner.contains('}'))
            .then(|| format!("${{{name}:-…${{…}}}}"))
    })
}

/// Replaces `${NAME}` and `${NAME:-default}`; a name that is not set is empty, as in 0.7.
fn expand<'v>(value: &str, get: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, after_brace)) = after.split_once('}') else {
            out.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) = inner.split_once(":-").unwrap_or((inner, ""));
        // Another form, such as `${NAME-default}`, is no variable.
        if is_name(name) {
            out.push_str(get(name).unwrap_or(default));
        } else {
            out.push_str("${");
            out.push_str(inner);
            out.push('}');
        }
        rest = after_brace;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let outer = |name: &str| match name {
            "OUTER" => Some("shell"),
            "EMPTY" => Some(""),
            _ => None,
        };
        let pairs = parse(text, outer).map_err(|error| error.to_string())?;
        Ok(pairs.into_iter().map(|pair| (pair.name, pair.value)).collect())
    }

    fn value(line: &str) -> String {
        match read(&format!("{line}\n")).as_deref() {
            Ok([(name, value)]) if name == "A" => value.clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        for (line, expected) in [
            ("A=1", "1"),
            ("A = 1 ", "1"),
            ("export A=1", "1"),
            ("export  A = 1", "1"),
            ("A=", ""),
            ("A=\"\"", ""),
            ("A=sk-a$bc", "sk-a$bc"),
            ("A=$OUTER", "$OUTER"),
            ("A=\"a$bc\"", "a$bc"),
            ("A='a$bc'", "a$bc"),
            ("A=a\\$bc", "a\\$bc"),
            ("A=a b", "a b"),
            ("A=a#b", "a#b"),
            ("A=#b", "#b"),
            ("A= # note", ""),
            ("A=a # note", "a"),
            ("A='a # b' # note", "a # b"),
            ("A=\"a # b\"\t# note", "a # b"),
            ("A='a'#note", "a"),
            ("A=x=y", "x=y"),
            ("A=C:\\temp\\new", "C:\\temp\\new"),
            ("A={\"a\": 1}", "{\"a\": 1}"),
            ("A=it's", "it's"),
            ("A='it\\'s'", "it's"),
            ("A='a\\nb'", "a\\nb"),
            ("A=\"a\\nb\\\"c\\\\d\\e\"", "a\nb\"c\\d\\e"),
            ("A='two\nlines'", "two\nlines"),
            ("A=\"two\r\nlines\"", "two\nlines"),
            ("A=${OUTER}", "shell"),
            ("A=\"${OUTER}!\"", "shell!"),
            ("A='${OUTER}'", "${OUTER}"),
            ("A=${NONE}", ""),
            ("A=${NONE:-x y}", "x y"),
            ("A=${OUTER:-x}", "shell"),
            ("A=${EMPTY:-x}", ""),
            ("A=${NONE-x}", "${NONE-x}"),
            ("A=${OUTER", "${OUTER"),
            ("A=$${OUTER}", "$shell"),
        ] {
            assert_eq!(value(line), expected, "{line}");
        }
    }

    #[test]
    fn a_variable_of_the_shell_precedes_one_of_the_file() {
        let pairs =
            read("OUTER=file\nOWN=1\nA=${OUTER} ${OWN} ${LATER}\nLATER=2\nOWN=3\nB=${OWN}\n").unwrap();
        let get = |name: &str| {
            pairs
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!((get("A"), get("B")), (Some("shell 1 "), Some("3")));
    }

    #[test]
    fn what_is_not_replaced_is_found_with_its_line_and_without_a_value() {
        for end in ["\n", "\r\n", "\r"] {
            for (value, kept, is_dollar) in [
                ("${X-hunter2}", vec!["${X-…}"], false),
                ("\"a ${X:?hunter2} b\"", vec!["${X:?…}"], false),
                ("{{ env.X }} ${env:Y}", vec!["{{ env.X }}", "${env:Y}"], false),
                ("$HUNTER2", vec![], true),
                ("\"$HUNTER2/bin\"", vec![], true),
                ("pa$HUNTER2", vec![], false),
                ("'${X-hunter2} $HUNTER2'", vec![], false),
                ("'$HUNTER2'", vec![], false),
                ("${X:-a}", vec![], false),
                ("${X:-${Y}}", vec!["${X:-…${…}}"], false),
                ("\"${X:-hunter2 ${Y:-hunter3}}\"", vec!["${X:-…${…}}"], false),
                ("${X:-a} ${Y:-b}", vec![], false),
                ("X:-a ${Y}", vec![], false),
            ] {
                let text = format!("# note{end}{end}B=\"two{end}lines\"{end}A={value}{end}");
                let found = parse(&text, |_| None).unwrap();
                let [_, found] = found.as_slice() else {
                    panic!("{text:?}: {} variables", found.len());
                };
                let found = (found.kept.as_slice(), found.is_dollar, found.line);
                let kept: Vec<String> = kept.into_iter().map(str::to_owned).collect();
                assert_eq!(found, (kept.as_slice(), is_dollar, 5), "{text:?}");
            }
        }
    }

    #[test]
    fn line_ends_blank_lines_and_comments_do_not_matter() {
        let expected = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())];
        for text in [
            "A=1\nB=2",
            "A=1\r\nB=2\r\n",
            "A=1\rB=2\r",
            "A=1\r# x\r\rB=2",
            "A=1\r\nB=2\r",
            "A='1'\rB=\"2\" # x\r",
            "\n# A=0\n\n  A=1\n\t#\nB=2\n",
            "export C\nA=1\nB=2 # x",
        ] {
            assert_eq!(read(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn forms_that_are_not_replaced_are_named_without_their_default() {
        for (line, expected) in [
            ("A=${X-hunter2}", vec!["${X-…}"]),
            ("A=\"${X-d} ${Y:?hunter2}\"", vec!["${X-…}", "${Y:?…}"]),
            ("A={{ env.X }}", vec!["{{ env.X }}"]),
            ("A='${X-d}'", vec![]),
            ("A=$X ${X} ${X:-d-e} ${", vec![]),
        ] {
            let found = parse(line, |_| None).unwrap();
            let [Assignment { kept, .. }] = found.as_slice() else {
                panic!("{line}")
            };
            assert_eq!(*kept, expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_named_by_its_line_and_without_its_value() {
        for (text, expected) in [
            ("A=1\n\nhunter2 hunter3\n", "line 3 is not `NAME=value`"),
            (
                "A=1\nA: hunter2\n",
                "line 2 is not `NAME=value`: write `=` for `:`",
            ),
            ("set A=hunter2", "line 1 is not `NAME=value`: leave out `set`"),
            ("1A=hunter2", "line 1 begins with something that is not a name"),
            ("hunter 2=x", "line 1 begins with something that is not a name"),
            ("=hunter2", "line 1 begins with something that is not a name"),
            ("A=1\r\rhunter2\r", "line 3 is not `NAME=value`"),
            (
                "A=1\nB='hunter2\nC=1\n",
                "line 2 opens a quote that is not closed",
            ),
            ("A=\"hunter2\\\"", "line 1 opens a quote that is not closed"),
            ("A='x' hunter2", "line 1 has text after its closing quote"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("hunter"), "{error}");
        }
    }

    proptest! {
        /// A value in single quotes is literal, whatever it is.
        #[test]
        fn a_literal_value_reads_back_as_itself(text in "\\PC{0,20}") {
            let quoted = text.replace('\\', "\\\\").replace('\'', "\\'");
            prop_assert_eq!(value(&format!("A='{quoted}' # note")), text);
        }

        /// No text of a file is lost without an error: each line with a name is one variable.
        #[test]
        fn no_line_disappears(values in prop::collection::vec("[a-z$#{}=:\\\\ -]{0,12}", 1..6)) {
            let lines: Vec<String> =
                values.iter().enumerate().map(|(at, value)| format!("N{at}={value}\r\n")).collect();
            let text = lines.concat();
            prop_assert_eq!(read(&text).map(|pairs| pairs.len()), Ok(values.len()));
        }

        #[test]
        fn no_file_breaks_it(text in "[A-C='\"\\\\$#{}:\n\r -]{0,60}") {
            let _ = read(&text);
        }
    }
}
