//! What differs between a request and the recorded one nearest to it: the text of a miss.

use std::collections::BTreeMap;

use holodeck_backend_api::ModelRequest;
use serde_json::Value;

const SHOWN: usize = 5;
const EXCERPT: usize = 60;

/// How many leaves differ.
pub(crate) fn distance(recorded: &ModelRequest, asked: &ModelRequest) -> usize {
    differences(recorded, asked).len()
}

/// The differences, one a line.
pub(crate) fn describe(recorded: &ModelRequest, asked: &ModelRequest) -> String {
    let differences = differences(recorded, asked);
    let mut lines: Vec<String> = differences
        .iter()
        .take(SHOWN)
        .map(|(path, was, is)| {
            format!(
                "  {path}: recorded {}, now {}",
                show(was.as_ref(), is.as_ref()),
                show(is.as_ref(), was.as_ref())
            )
        })
        .collect();
    if differences.len() > SHOWN {
        lines.push(format!("  … and {} more", differences.len() - SHOWN));
    }
    lines.join("\n")
}

type Difference = (String, Option<Value>, Option<Value>);

fn differences(recorded: &ModelRequest, asked: &ModelRequest) -> Vec<Difference> {
    let was = leaves(recorded);
    let is = leaves(asked);
    let mut found = Vec::new();
    for (path, value) in &was {
        if is.get(path) != Some(value) {
            found.push((path.clone(), Some(value.clone()), is.get(path).cloned()));
        }
    }
    for (path, value) in &is {
        if !was.contains_key(path) {
            found.push((path.clone(), None, Some(value.clone())));
        }
    }
    found
}

fn leaves(request: &ModelRequest) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    found.insert("provider".to_owned(), Value::String(request.provider.clone()));
    found.insert("model".to_owned(), Value::String(request.model.clone()));
    walk(&request.body, String::new(), &mut found);
    found
}

fn walk(value: &Value, path: String, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                walk(value, path, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(value, format!("{path}[{index}]"), found);
            }
        }
        leaf => {
            found.insert(path, leaf.clone());
        }
    }
}

/// A value short enough to read; a long text from shortly before the place where it parts from the other one.
fn show(value: Option<&Value>, other: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let Value::String(text) = value else {
        return value.to_string();
    };
    let start = match other {
        Some(Value::String(other)) => {
            let same = text
                .chars()
                .zip(other.chars())
                .take_while(|(a, b)| a == b)
                .count();
            same.saturating_sub(EXCERPT / 3)
        }
        _ => 0,
    };
    let cut: String = text.chars().skip(start).take(EXCERPT).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().count() > start + EXCERPT {
        "…"
    } else {
        ""
    };
    format!("{:?}", format!("{before}{cut}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_prompt_is_shown_where_it_changed() {
        let request = |prompt: &str| ModelRequest {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            body: json!({"messages": [{"role": "system", "content": prompt}], "temperature": 0}),
            unit: None,
        };
        let long = "You answer questions about the library's opening hours in one short sentence. Be kind.";
        insta::assert_snapshot!(
            describe(&request(long), &request(&long.replace("Be kind", "Be brief"))),
            @r#"  messages[0].content: recorded "… short sentence. Be kind.", now "… short sentence. Be brief.""#
        );
    }
}
