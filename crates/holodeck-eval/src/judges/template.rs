//! `custom_prompt`: a prompt written by the user.

use minijinja::{Environment, UndefinedBehavior};

use super::{
    Subject,
    material::Material,
    transcript::{EXPLANATION, Transcript},
};
use crate::{EvalInput, InputText};

/// The names that a `custom_prompt` may use.
const NAMES: [&str; 5] = ["input", "response", "ground_truth", "context", "criteria"];

/// The names that a `custom_prompt` about a conversation may use.
const NAMES_OF_CONVERSATION: [&str; 4] = ["conversation", "ground_truth", "context", "criteria"];

/// Checks a `custom_prompt`; the error says what is wrong with it.
pub(super) fn check_custom_prompt(text: &str, subject: Subject) -> Result<(), String> {
    let (names, judged) = match subject {
        Subject::Answer => (&NAMES[..], "response"),
        Subject::Conversation => (&NAMES_OF_CONVERSATION[..], "conversation"),
    };
    let environment = environment();
    let template = environment
        .template_from_str(text)
        .map_err(|error| format!("`custom_prompt`: {}", describe(&error)))?;
    let used = template.undeclared_variables(false);
    let mut unknown: Vec<&String> = used
        .iter()
        .filter(|name| !names.contains(&name.as_str()))
        .filter(|name| environment.globals().all(|(global, _)| global != name.as_str()))
        .collect();
    unknown.sort();
    if let Some(name) = unknown.first() {
        return Err(format!(
            "`custom_prompt` uses `{{{{{name}}}}}`, which is not known; the names are {}",
            names.join(", ")
        ));
    }
    if !used.contains(judged) {
        let what = match subject {
            Subject::Answer => "answer",
            Subject::Conversation => "conversation",
        };
        return Err(format!(
            "`custom_prompt` does not contain `{{{{{judged}}}}}`, so the judge would not see the {what}"
        ));
    }
    Ok(())
}

/// The texts that a `custom_prompt` contains.
pub(super) fn reads(text: &str, input: &EvalInput<'_>) -> Vec<InputText> {
    let environment = environment();
    let used = environment
        .template_from_str(text)
        .map(|template| template.undeclared_variables(false))
        .unwrap_or_default();
    let reads = used.iter().flat_map(|name| match name.as_str() {
        "input" => vec![InputText::Question],
        "response" => vec![InputText::Answer],
        "ground_truth" => vec![InputText::GroundTruth],
        "context" => vec![input.kind_of_passages()],
        "conversation" => InputText::TRANSCRIPT.to_vec(),
        _ => Vec::new(),
    });
    reads.collect()
}

/// Fills in a `custom_prompt`. Each text stands between tags, as in the built-in prompts.
pub(super) fn render(text: &str, input: &EvalInput<'_>, criteria: &str) -> Result<String, String> {
    let block = |tag, text| Material::default().with(tag, text).render();
    let mut values = std::collections::BTreeMap::new();
    if let Some(turns) = input.conversation {
        let transcript = Transcript::new(turns);
        let material = transcript.add_to(Material::default()).render();
        values.insert("conversation", format!("{EXPLANATION}\n{material}"));
    } else {
        values.insert("input", block("question", input.input));
        values.insert("response", block("answer", input.response));
    }
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
        assert_eq!(
            check_custom_prompt("{{ response }} to {{ input }}?", Subject::Answer),
            Ok(())
        );
        assert_eq!(
            check_custom_prompt("{{ answer }} {{ response }}", Subject::Answer).unwrap_err(),
            "`custom_prompt` uses `{{answer}}`, which is not known; the names are input, response, ground_truth, context, criteria"
        );
        assert!(
            check_custom_prompt("Give 5", Subject::Answer)
                .unwrap_err()
                .contains("would not see the answer")
        );
        assert!(check_custom_prompt("{{ response", Subject::Answer).is_err());
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
