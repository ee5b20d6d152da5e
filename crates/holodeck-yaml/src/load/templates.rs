//! Renders the questions of cases that have `vars`.
//!
//! Everything after loading sees the rendered texts. A value is inserted as it is: it is never a template itself.

use holodeck_model::{Code, Diagnostic, JsonMap, TestCase, closest};
use minijinja::{Environment, Error, Output, State, UndefinedBehavior, Value, value::Serde};

use super::Loader;
use crate::yaml::{NodeId, Place};

/// A problem of a template.
struct Problem {
    /// The name that it is about.
    name: Option<String>,
    diagnostic: Diagnostic,
}

impl Loader<'_> {
    /// Renders the questions and the earlier messages of the case at `index`, if it has `vars`, and reports what is wrong
    /// with them.
    pub(super) fn render_templates(&mut self, case: &mut TestCase, index: usize, node: NodeId) {
        let Some(vars) = case.vars.clone() else { return };
        let vars = &vars;
        let pointer = format!("test_cases.{index}");
        if let Some(input) = &mut case.input {
            let written = self.field(node, "input").unwrap_or(node);
            self.render(input, vars, &pointer, written);
        }
        for (place, message) in case.messages.iter_mut().enumerate() {
            let owner = self.item(node, "messages", place);
            let content = owner.and_then(|owner| self.field(owner, "content"));
            let pointer = format!("{pointer}.messages.{place}");
            self.render(&mut message.content, vars, &pointer, content.unwrap_or(node));
        }
        for (place, turn) in case.turns.iter_mut().enumerate() {
            let owner = self.item(node, "turns", place);
            let input = owner.and_then(|owner| self.field(owner, "input"));
            let pointer = format!("{pointer}.turns.{place}");
            self.render(&mut turn.input, vars, &pointer, input.unwrap_or(node));
        }
    }

    fn field(&self, owner: NodeId, key: &str) -> Option<NodeId> {
        Some(self.tree.get(self.tree.resolve(owner), key)?.value)
    }

    fn item(&self, owner: NodeId, key: &str, place: usize) -> Option<NodeId> {
        self.tree.items(self.field(owner, key)?)?.get(place).copied()
    }

    /// Renders a text in place. `node` is where it is written.
    fn render(&mut self, text: &mut String, vars: &JsonMap, pointer: &str, node: NodeId) {
        match render(text, vars) {
            Ok(rendered) => *text = rendered,
            Err(problems) => {
                let place = self.tree.place(node);
                for Problem { name, diagnostic } in problems {
                    let place = name
                        .and_then(|name| self.place_of_name(place, &name))
                        .unwrap_or(place);
                    self.findings.add(&self.tree, place, diagnostic.about(pointer));
                }
            }
        }
    }

    /// Where a template uses a name; none if it is written with escapes.
    fn place_of_name(&self, text: Place, name: &str) -> Option<Place> {
        let file = self.tree.file_text(text.file);
        let source = file.get(text.start as usize..text.end as usize)?;
        let start = text.start + u32::try_from(find_name(source, name)?).ok()?;
        let end = start + u32::try_from(name.len()).ok()?;
        Some(Place { start, end, ..text })
    }
}

/// The offset of a name between the braces of a template.
fn find_name(source: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut places = source.match_indices(name).map(|(place, _)| place);
    places.find(|&place| {
        let (before, rest) = source.split_at(place);
        let after = rest.get(name.len()..).unwrap_or_default();
        let opened = before.rfind("{{").max(before.rfind("{%"));
        let closed = before.rfind("}}").max(before.rfind("%}"));
        let is_whole =
            !before.ends_with(is_part) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        is_whole && opened.is_some() && opened > closed
    })
}

/// Renders a template with these values.
fn render(text: &str, vars: &JsonMap) -> Result<String, Vec<Problem>> {
    let broken = |error: &Error| {
        let diagnostic = Diagnostic::error(
            Code::BadFormat,
            format!("the template cannot be used: {}", describe(error)),
        );
        vec![Problem {
            name: None,
            diagnostic: diagnostic.with_help(
                "because of `vars`, this text is a template: `{{ name }}` is the value of `name`; for braces that are \
                 text write `{% raw %}{{ … }}{% endraw %}`",
            ),
        }]
    };
    let environment = environment();
    // A template loses the last line end of its text.
    let source = format!("{text}\n");
    let template = environment
        .template_from_str(&source)
        .map_err(|error| broken(&error))?;
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    unknown
        .retain(|name| !vars.contains_key(name) && environment.globals().all(|(global, _)| global != name));
    if !unknown.is_empty() {
        unknown.sort();
        return Err(unknown
            .into_iter()
            .map(|name| describe_unknown(name, vars))
            .collect());
    }
    let rendered = template.render(Serde(vars)).map_err(|error| broken(&error))?;
    if rendered.trim().is_empty() {
        let diagnostic = Diagnostic::error(Code::Blank, "with these `vars`, this text is empty");
        return Err(vec![Problem {
            name: None,
            diagnostic,
        }]);
    }
    Ok(rendered)
}

fn describe_unknown(name: String, vars: &JsonMap) -> Problem {
    let diagnostic = Diagnostic::error(
        Code::UnknownReference,
        format!("`{name}` is not one of the `vars` of this case"),
    );
    let names: Vec<String> = vars.keys().map(|name| format!("`{name}`")).collect();
    let diagnostic = match closest(&name, vars.keys().map(String::as_str)) {
        _ if name == "vars" => diagnostic.with_help("write the name alone, as in `{{ city }}`"),
        Some(meant) => diagnostic.with_inline(format!("did you mean `{meant}`?")),
        None if names.is_empty() => diagnostic.with_help("it has none; add it to `vars`"),
        None => diagnostic.with_help(format!("it has {}; add it to `vars`", names.join(", "))),
    };
    Problem {
        name: Some(name),
        diagnostic,
    }
}

fn describe(error: &Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) if line > 1 => format!("{what}, in its line {line}"),
        _ => what,
    }
}

/// Undefined names are errors instead of empty texts, and nothing is escaped. Values that are not texts are written as in
/// JSON, and null as nothing.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(write_value);
    environment
}

fn write_value(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => {
            return Err(minijinja::ErrorKind::UndefinedError.into());
        }
        None if value.is_none() => String::new(),
        None => serde_json::to_string(value)
            .map_err(|error| Error::new(minijinja::ErrorKind::BadSerialization, error.to_string()))?,
    };
    out.write_str(&text).map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(text: &str, vars: serde_json::Value) -> Result<String, Vec<String>> {
        let serde_json::Value::Object(vars) = vars else {
            panic!()
        };
        render(text, &vars).map_err(|problems| {
            let texts = problems.into_iter().map(|problem| problem.diagnostic.message);
            texts.collect()
        })
    }

    #[test]
    fn values_are_inserted_as_they_are() {
        let vars = json!({
            "text": "a <b> & {{ number }}", "number": 7, "float": 1.5, "flag": true, "nothing": null,
            "list": ["x", 2], "map": {"k": "v"},
        });
        for (template, expected) in [
            ("{{ text }}", "a <b> & {{ number }}"),
            ("{{ number }} {{ float }} {{ flag }}", "7 1.5 true"),
            ("[{{ nothing }}]", "[]"),
            ("{{ list }} {{ map }}", r#"["x",2] {"k":"v"}"#),
            ("{{ list[1] }} {{ map.k | upper }}", "2 V"),
            ("{% for item in list %}<{{ item }}>{% endfor %}", "<x><2>"),
            ("no names\n", "no names\n"),
            ("{% raw %}{{ text }}{% endraw %}", "{{ text }}"),
        ] {
            assert_eq!(rendered(template, vars.clone()).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        for template in [
            "{{ city }}",
            "{% if city %}x{% endif %}",
            "a {{ map.other }}",
            "{{ map.a.b }}",
        ] {
            assert!(
                rendered(template, json!({"map": {"k": "v"}})).is_err(),
                "{template}"
            );
        }
        let unknown = rendered("{{ citty }} {{ land }}", json!({"city": "x"})).unwrap_err();
        assert_eq!(unknown.len(), 2, "{unknown:?}");
    }

    #[test]
    fn a_text_that_becomes_empty_is_an_error() {
        assert!(rendered("{{ text }}", json!({"text": " "})).is_err());
        assert!(rendered("{% if no %}x{% endif %}", json!({"no": false})).is_err());
    }

    #[test]
    fn a_name_is_found_where_the_template_uses_it() {
        for (source, name, expected) in [
            ("city {{ city }}", "city", Some(8)),
            ("{{ a.city }} {{ city }}", "city", Some(16)),
            ("{{ cities }} {% if city %}", "city", Some(19)),
            ("{{ x }} city", "city", None),
        ] {
            assert_eq!(find_name(source, name), expected, "{source}");
        }
    }
}
