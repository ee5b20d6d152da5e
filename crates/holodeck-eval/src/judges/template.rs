//! `custom_prompt`: a prompt written by the user.

use minijinja::{Environment, UndefinedBehavior};

use super::material::Material;
use crate::EvalInput;

/// The names that a `custom_prompt` may use.
pub(super) const CUSTOM_PROMPT_NAMES: [&str; 5] =
    ["input", "response", "ground_truth", "context", "criteria"];

/// Checks a `custom_prompt`; the error says what is wrong with it.
pub(super) fn check_custom_prompt(text: &str) -> Result<(), String> {
    let environment = environment();
    let template = environment
        .template_from_str(text)
        .map_err(|error| format!("`custom_prompt`: {}", describe(&error)))?;
    let used = template.undeclared_variables(false);
    let mut unknown: Vec<&String> = used
        .iter()
        .filter(|name| !CUSTOM_PROMPT_NAMES.contains(&name.as_str()))
        .filter(|name| environment.globals().all(|(global, _)| global != name.as_str()))
        .collect();
    unknown.sort();
    if let Some(name) = unknown.first() {
        return Err(format!(
            "`custom_prompt` uses `{{{{{name}}}}}`, which is not known; the names are {}",
            CUSTOM_PROMPT_NAMES.join(", ")
        ));
    }
    if !used.contains("response") {
        return Err(
            "`custom_prompt` does not contain `{{response}}`, so the judge would not see the answer"
                .to_owned(),
        );
    }
    Ok(())
}

/// Fills in a `custom_prompt`. Each text stands between tags, as in the built-in prompts.
pub(super) fn render(text: &str, input: &EvalInput<'_>, criteria: &str) -> Result<String, String> {
    let block = |tag, text| Material::default().with(tag, text).render();
    let mut values = std::collections::BTreeMap::new();
    values.insert("input", block("question", input.input));
    values.insert("response", block("answer", input.response));
    values.insert("criteria", criteria.to_owned());
    if let Some(expected) = input.ground_truth {
        values.insert("ground_truth", block("expected", expected));
    }
    if let Some(context) = input.retrieval_context {
        let passages = context.iter().map(String::as_str);
        values.insert(
            "context",
            Material::default().with_all("passage", passages).render(),
        );
    }
    environment()
        .render_str(text, minijinja::value::Serde(&values))
        .map_err(|error| describe(&error))
}

/// Undefined names are errors instead of empty strings: a judge that does not see the expected answer cannot compare.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

fn describe(error: &minijinja::Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{what}, in line {line} of the prompt"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(check_custom_prompt("{{ response }} to {{ input }}?"), Ok(()));
        assert_eq!(
            check_custom_prompt("{{ answer }} {{ response }}").unwrap_err(),
            "`custom_prompt` uses `{{answer}}`, which is not known; the names are input, response, ground_truth, context, criteria"
        );
        assert!(
            check_custom_prompt("Give 5")
                .unwrap_err()
                .contains("would not see the answer")
        );
        assert!(check_custom_prompt("{{ response").is_err());
    }

    #[test]
    fn a_missing_text_is_an_error() {
        let input = EvalInput {
            response: "r",
            ..EvalInput::default()
        };
        assert!(render("{{ response }} {{ ground_truth }}", &input, "").is_err());
        let rendered = render("{{ response }}", &input, "").unwrap();
        assert!(
            rendered.starts_with("<answer-") && rendered.contains("\nr\n"),
            "{rendered}"
        );
    }
}
