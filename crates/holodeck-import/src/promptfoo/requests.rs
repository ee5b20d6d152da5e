//! The texts of requests and commands: only what can be sent here in the same form.

use serde_json::{Map, Value};

use crate::template::render;

/// A text of a request: only the prompt and variables of the environment may be in it.
pub(super) fn service_text(text: &str) -> Result<String, (String, &'static str)> {
    let mut vars = Map::new();
    vars.insert("prompt".to_owned(), "{{ input }}".into());
    let names: Vec<&str> = text
        .split("{{")
        .skip(1)
        .filter_map(|rest| rest.split("}}").next())
        .map(str::trim)
        .collect();
    let known = |name: &&str| *name == "prompt" || name.starts_with("env.");
    if let Some(other) = names.iter().find(|name| !known(name)) {
        return Err((
            format!("its request has the variable `{other}`"),
            "`{{ vars.NAME }}` with `vars` in the cases",
        ));
    }
    render(text, &vars).map_err(|error| (error.0, ""))
}

pub(super) fn service_body(value: &Value) -> Result<Value, (String, &'static str)> {
    Ok(match value {
        Value::String(text) => Value::String(service_text(text)?),
        Value::Array(items) => Value::Array(items.iter().map(service_body).collect::<Result<_, _>>()?),
        Value::Object(map) => {
            let entries: Result<Map<_, _>, _> = map
                .iter()
                .map(|(key, value)| Ok((key.clone(), service_body(value)?)))
                .collect();
            Value::Object(entries?)
        }
        other => other.clone(),
    })
}

/// `json.a.b[0]` as a path: `$.a.b[0]`.
pub(super) fn json_path(code: &str) -> Option<String> {
    let rest = code.trim().trim_end_matches(';').strip_prefix("json")?;
    let plain = rest
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c));
    let begins = rest.starts_with(['.', '[']);
    let sound = !rest.contains("..")
        && !rest.ends_with('.')
        && rest.split('[').skip(1).all(|part| {
            part.split_once(']').is_some_and(|(index, _)| {
                !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())
            })
        });
    (plain && begins && sound).then(|| format!("${rest}"))
}

/// Words of a command, with quotes.
pub(super) fn shell_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_path_is_one() {
        assert_eq!(json_path("json.a.b[0].c").as_deref(), Some("$.a.b[0].c"));
        for code in [
            "json",
            "text",
            "json.a || json.b",
            "json.a.trim()",
            "json[x]",
            "json..a",
            "({output: json.a})",
        ] {
            assert_eq!(json_path(code), None, "{code}");
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(
            shell_words("a 'b c' \"\" d\"e\"").unwrap(),
            ["a", "b c", "", "de"]
        );
        assert_eq!(shell_words("a 'b"), None);
    }
}
