//! The templates of a request: strings, JSON with strings in it, and URLs. Values are inserted and never rendered again.

use std::{collections::HashSet, sync::LazyLock};

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, value::Serde};
use serde_json::{Map, Value, json};

/// The names that a template of a target may use.
pub(crate) const NAMES: [&str; 5] = ["input", "messages", "session_id", "files", "vars"];

/// The values that a request is made of.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The message of the user.
    pub(crate) input: String,
    /// The conversation with this message at its end, as `[{role, content}]`.
    pub(crate) messages: Vec<Value>,
    /// The id of the conversation.
    pub(crate) session_id: String,
    /// The files of the message, as `[{name, type, base64}]`.
    pub(crate) files: Vec<Value>,
    /// The values of the case.
    pub(crate) vars: Map<String, Value>,
}

impl Question {
    /// It as the JSON that programs and functions receive.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "input": self.input,
            "messages": self.messages,
            "session_id": self.session_id,
            "files": self.files,
            "vars": self.vars,
        })
    }
}

static PLAIN: LazyLock<Environment<'static>> = LazyLock::new(environment);
static URL: LazyLock<Environment<'static>> = LazyLock::new(url_environment);

/// The templates for one question.
pub(crate) struct Renderer {
    values: Value,
}

impl Renderer {
    pub(crate) fn new(question: &Question) -> Self {
        Self {
            values: question.to_json(),
        }
    }

    /// A string.
    pub(crate) fn text(&self, template: &str) -> Result<String, String> {
        render(&PLAIN, template, &self.values)
    }

    /// A URL, whose inserted values are escaped.
    pub(crate) fn url(&self, template: &str) -> Result<String, String> {
        render(&URL, template, &self.values)
    }

    /// JSON with templates in its strings.
    pub(crate) fn json(&self, template: &Value) -> Result<Value, String> {
        Ok(match template {
            Value::String(text) => match expression(text) {
                Some(expression) => self.value(expression)?,
                None => self.text(text)?.into(),
            },
            Value::Array(items) => items
                .iter()
                .map(|item| self.json(item))
                .collect::<Result<_, _>>()?,
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.json(value)?)));
                Value::Object(fields.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    /// The JSON value of an expression.
    fn value(&self, expression: &str) -> Result<Value, String> {
        // A name alone, as in most templates, is its value.
        if let Some(value) = self.values.get(expression.trim()) {
            return Ok(value.clone());
        }
        let compiled = PLAIN
            .compile_expression(expression)
            .map_err(|error| describe(&error))?;
        let unknown = || without_value(compiled.undeclared_variables(true), &self.values);
        let value = compiled
            .eval(Serde(&self.values))
            .map_err(|error| describe_failed(&error, unknown))?;
        if value.is_undefined() {
            return Err(unknown().unwrap_or_else(|| format!("`{}` has no value", expression.trim())));
        }
        serde_json::to_value(&value).map_err(|error| error.to_string())
    }
}

fn render(environment: &Environment<'_>, template: &str, values: &Value) -> Result<String, String> {
    if !template.contains('{') {
        return Ok(template.to_owned());
    }
    let parsed = environment
        .template_from_str(template)
        .map_err(|error| describe(&error))?;
    let unknown = || without_value(parsed.undeclared_variables(true), values);
    let rendered = parsed.render(Serde(values));
    rendered.map_err(|error| describe_failed(&error, unknown))
}

/// The names of a template that have no value.
fn without_value(used: HashSet<String>, values: &Value) -> Option<String> {
    let has_value = |name: &str| {
        let found = name.split('.').try_fold(values, |value, part| value.get(part));
        found.is_some() || PLAIN.globals().any(|(global, _)| global == name)
    };
    let mut missing: Vec<String> = used.into_iter().filter(|name| !has_value(name)).collect();
    missing.sort();
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("{name} has no value")),
        names => Some(format!("{} have no value", names.join(", "))),
    }
}

/// The failure of a template. The library does not say the name of a value that is missing.
fn describe_failed(error: &Error, unknown: impl FnOnce() -> Option<String>) -> String {
    if error.kind() == ErrorKind::UndefinedError
        && let Some(names) = unknown()
    {
        return names;
    }
    describe(error)
}

/// The expression of a string that is nothing else, as in `{{ messages }}`.
fn expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    // Two expressions, or a mapping in one, which is rendered as text.
    (!inner.contains("{{") && !inner.contains("}}") && !inner.contains("{%"))
        .then(|| inner.trim_start_matches('-').trim_end_matches('-'))
}

/// The names that a template uses, or what is wrong with it.
pub(crate) fn names(template: &str) -> Result<Vec<String>, String> {
    let parsed = PLAIN
        .template_from_str(template)
        .map_err(|error| describe(&error))?;
    let used = parsed.undeclared_variables(false).into_iter();
    let own = used.filter(|name| PLAIN.globals().all(|(global, _)| global != name.as_str()));
    let mut names: Vec<String> = own.collect();
    names.sort();
    Ok(names)
}

/// The names of the `vars` that a template uses; `None` if it uses them as a whole or by a name that it computes.
pub(crate) fn used_vars(template: &str) -> Option<Vec<String>> {
    // A broken template is reported elsewhere.
    let Ok(parsed) = PLAIN.template_from_str(template) else {
        return Some(Vec::new());
    };
    let used = parsed.undeclared_variables(true).into_iter();
    // `vars` alone has no name after it.
    let names = used.filter(|used| used.split('.').next() == Some("vars"));
    let names = names.map(|used| used.split('.').nth(1).map(str::to_owned));
    let mut names: Vec<String> = names.collect::<Option<_>>()?;
    names.sort();
    names.dedup();
    Some(names)
}

/// The `vars` that a template cannot be rendered without, of those that are not among these.
pub(crate) fn missing_vars(template: &str, vars: &Map<String, Value>) -> Vec<String> {
    let mut missing = used_vars(template).unwrap_or_default();
    missing.retain(|name| !vars.contains_key(name));
    if missing.is_empty() {
        return missing;
    }
    let renders = |vars: &Map<String, Value>| {
        let question = Question {
            input: "x".to_owned(),
            messages: Vec::new(),
            session_id: "x".to_owned(),
            files: Vec::new(),
            vars: vars.clone(),
        };
        Renderer::new(&question).json(&template.into()).is_ok()
    };
    if renders(vars) {
        missing.clear();
    }
    missing
}

/// Names without a value are errors. Values are not escaped.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

/// As [`environment`], with values as a part of a URL.
fn url_environment() -> Environment<'static> {
    let mut environment = environment();
    environment.set_formatter(|out, _state, value| {
        if value.is_undefined() {
            return Err(minijinja::ErrorKind::UndefinedError.into());
        }
        out.write_str(&escaped(&value.to_string())).map_err(Error::from)
    });
    environment
}

/// A text as one part of a URL: everything except unreserved characters is escaped.
fn escaped(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    bytes.collect()
}

fn describe(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            input: "what's {{ vars.secret }}?\n\"&/ü".to_owned(),
            messages: vec![json!({"role": "user", "content": "hi"})],
            session_id: "s-1".to_owned(),
            files: Vec::new(),
            vars: json!({"days": 14, "who": {"name": "Ann"}, "secret": "hush"})
                .as_object()
                .cloned()
                .unwrap_or_default(),
        }
    }

    fn json_of(template: &str) -> Result<Value, String> {
        Renderer::new(&question()).json(&template.into())
    }

    #[test]
    fn a_string_that_is_one_expression_gives_its_json_value() {
        let question = question();
        for (template, value) in [
            ("{{ messages }}", json!(question.messages)),
            (" {{vars.days}} ", json!(14)),
            ("{{ vars.who }}", json!({"name": "Ann"})),
            ("{{ files }}", json!([])),
            ("{{ input }}", json!(question.input)),
            ("{{ input | length }}", json!(30)),
            ("{{ vars.days }} days", json!("14 days")),
            ("{{ vars.days }}{{ session_id }}", json!("14s-1")),
            ("plain", json!("plain")),
            ("", json!("")),
        ] {
            assert_eq!(json_of(template), Ok(value), "{template}");
        }
    }

    #[test]
    fn a_value_is_never_a_template_again() {
        let text = Renderer::new(&question()).text("{{ input }}").unwrap();
        assert_eq!(text, question().input);
    }

    #[test]
    fn a_name_without_a_value_is_an_error() {
        for template in [
            "{{ vars.other }}",
            "a {{ vars.other }}",
            "{{ other }}",
            "{{ input",
            "{{ }}",
        ] {
            assert!(json_of(template).is_err(), "{template}");
            assert!(Renderer::new(&question()).url(template).is_err(), "{template}");
        }
    }

    #[test]
    fn an_error_says_the_name_that_has_no_value() {
        for (template, names) in [
            ("{{ vars.other }}", "`vars.other` has no value"),
            ("a {{ vars.other }}", "`vars.other` has no value"),
            ("a {{ vars.who.age }}", "`vars.who.age` has no value"),
            ("{{ vars.who.age | upper }}", "`vars.who.age` has no value"),
            (
                "{{ vars.b }} {{ vars.a }} {{ vars.days }}",
                "`vars.a`, `vars.b` have no value",
            ),
            ("{{ other }}", "`other` has no value"),
        ] {
            assert_eq!(json_of(template), Err(names.to_owned()), "{template}");
            let url = Renderer::new(&question()).url(&format!("x{template}"));
            assert_eq!(url, Err(names.to_owned()), "{template}");
        }
    }

    #[test]
    fn only_what_a_template_cannot_do_without_is_missing() {
        let vars = question().vars;
        for (template, missing) in [
            ("{{ vars.days }}", vec![]),
            ("{{ vars.language }}", vec!["language"]),
            ("{{ vars.language | default('en') }}", vec![]),
            (
                "{% if vars.language is defined %}{{ vars.language }}{% endif %}",
                vec![],
            ),
            ("{{ vars.b }}{{ vars.a }}{{ vars.days }}", vec!["a", "b"]),
            ("{{ input }}", vec![]),
        ] {
            assert_eq!(missing_vars(template, &vars), missing, "{template}");
        }
    }

    #[test]
    fn a_template_that_takes_all_values_names_none() {
        let named = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        for (template, expected) in [
            ("{{ vars.b }} {{ vars.a.c }} {{ input }}", named(&["a", "b"])),
            ("{{ vars }}", None),
            ("{{ vars[input] }}", None),
            ("{% for name in vars %}{{ name }}{% endfor %}", None),
            ("plain {", named(&[])),
        ] {
            assert_eq!(used_vars(template), expected, "{template}");
        }
    }

    #[test]
    fn a_value_in_a_url_cannot_leave_its_part() {
        let url = Renderer::new(&question())
            .url("https://h/{{ session_id }}/{{ input }}?a=b")
            .unwrap();
        assert_eq!(
            url,
            "https://h/s-1/what%27s%20%7B%7B%20vars.secret%20%7D%7D%3F%0A%22%26%2F%C3%BC?a=b"
        );
    }

    #[test]
    fn a_template_names_what_it_uses() {
        let used = names("{{ input }} {% for m in messages %}{{ m.role }}{% endfor %} {{ foo }}").unwrap();
        assert_eq!(used, ["foo", "input", "messages"]);
        assert!(names("{{ input").is_err());
    }
}
