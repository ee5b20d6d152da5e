//! Templates of other tools (Nunjucks), rendered once.

use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde_json::{Map, Value as Json};

use crate::writer::variable;

/// Why a template is not rendered.
#[derive(Debug)]
pub(crate) struct Unrendered(pub(crate) String);

/// Renders a template as promptfoo does: an unknown name is nothing, and `env.NAME` an environment variable that is read
/// when the agent is loaded.
///
/// Only what Nunjucks and this library do alike is rendered; the rest is refused.
pub(crate) fn render(template: &str, vars: &Map<String, Json>) -> Result<String, Unrendered> {
    if !template.contains("{{") && !template.contains("{%") && !template.contains("{#") {
        return Ok(template.to_owned());
    }
    if let Some(word) = DIFFERENT.iter().find(|word| has_in_tag(template, word)) {
        return Err(Unrendered(format!(
            "`{word}` in a template means something else in Nunjucks"
        )));
    }
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_formatter(write_as_javascript);
    engine.add_filter("trim", |text: String| text.trim().to_owned());
    engine.add_filter("upper", |text: String| text.to_uppercase());
    engine.add_filter("lower", |text: String| text.to_lowercase());
    engine.add_filter("safe", |value: Value| value);
    engine.add_filter("dump", |value: Value| {
        serde_json::to_string(&value)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    });
    engine.add_filter("length", |value: Value| value.len().unwrap_or(0));
    let mut context = vars.clone();
    let names = environment_names(template);
    if !names.is_empty() {
        let env = names.into_iter().map(|name| {
            let text = variable(&name);
            (name, Json::String(text))
        });
        context.insert("env".to_owned(), Json::Object(env.collect()));
    }
    let rendered = engine.render_str(template, minijinja::value::Serde(&context));
    // The library drops a line end at the end, Nunjucks keeps it.
    let end = if template.ends_with('\n') { "\n" } else { "" };
    rendered.map(|text| format!("{text}{end}")).map_err(|error| {
        let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
        Unrendered(format!("a template cannot be rendered: {reason}"))
    })
}

/// Words within `{{ }}` and `{% %}` whose meaning differs between the two languages, or that this library lacks.
const DIFFERENT: [&str; 11] = [
    " is ", " and ", " or ", " not ", "loop.", "macro", "import", "include", "extends", "switch", "===",
];

fn has_in_tag(template: &str, word: &str) -> bool {
    let mut rest = template;
    while let Some(start) = ["{{", "{%"].iter().filter_map(|tag| rest.find(tag)).min() {
        let from = rest.get(start..).unwrap_or_default();
        let end = ["}}", "%}"].iter().filter_map(|tag| from.find(tag)).min();
        let end = end.unwrap_or(from.len());
        if from.get(..end).is_some_and(|tag| tag.contains(word)) {
            return true;
        }
        rest = from.get(end.max(2)..).unwrap_or_default();
    }
    false
}

/// The names after `env.` and in `env['…']`.
fn environment_names(template: &str) -> Vec<String> {
    let parts = template
        .split("env.")
        .skip(1)
        .chain(template.split("env[").skip(1));
    parts
        .map(|rest| {
            rest.trim_start_matches(['\'', '"'])
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// A value as JavaScript makes a text of it: `null` is nothing, `1.0` is `1`, a list is joined by commas.
fn write_as_javascript(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    out.write_str(&javascript_text(&json)).map_err(Error::from)
}

/// As `String(value)` in JavaScript, where nothing is the empty text.
pub(crate) fn javascript_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(javascript_text).collect();
            items.join(",")
        }
        Json::Object(_) => "[object Object]".to_owned(),
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        Json::Bool(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: Option<&str>) {
        let vars = json!({"a": "x", "n": 1.0, "l": [1, "b"], "t": true, "z": null, "o": {"k": " v "}});
        let Json::Object(vars) = vars else { unreachable!() };
        assert_eq!(render(template, &vars).ok().as_deref(), expected, "{template}");
    }

    #[test]
    fn values_become_texts_as_in_javascript() {
        check(
            "{{a}}-{{ n }}-{{l}}-{{t}}-{{z}}-{{unknown}}-{{o.k}}",
            Some("x-1-1,b-true--- v "),
        );
        check("{{ o.k | trim }}{{ a | upper }}", Some("vX"));
        check("{% if a %}yes{% else %}no{% endif %}{# c #}", Some("yes"));
        check("{% for i in l %}[{{i}}]{% endfor %}", Some("[1][b]"));
        check("line\n", Some("line\n"));
        check("{{ \"{{\" }}", Some("{{"));
    }

    #[test]
    fn what_nunjucks_reads_otherwise_is_refused() {
        check("{{ a | unknown }}", None);
        check("{% if a and t %}x{% endif %}", None);
        check("{% for i in l %}{{ loop.index }}{% endfor %}", None);
        check("{{ a", None);
        // Outside of tags the words are words.
        check("this and {{a}} or that", Some("this and x or that"));
    }

    #[test]
    fn a_variable_of_the_environment_is_not_read() {
        check("{{env.HOME}}/x", Some("\u{e000}HOME\u{e001}/x"));
        check("{{ env['KEY'] }}", Some("\u{e000}KEY\u{e001}"));
    }
}
