//! Describes what differs between a request and the nearest recorded one, for the text of a miss.

use std::collections::BTreeMap;

use holodeck_backend_api::ModelRequest;
use serde_json::Value;

const SHOWN: usize = 5;
const EXCERPT: usize = 60;

/// The number of leaves that differ.
pub(crate) fn distance(recorded: &ModelRequest, current: &ModelRequest) -> usize {
    differences(recorded, current).len()
}

/// The differences, one per line. Beside another model nothing else counts: it is asked for nothing that was recorded.
pub(crate) fn describe(recorded: &ModelRequest, current: &ModelRequest) -> String {
    if (&recorded.provider, &recorded.model) != (&current.provider, &current.model) {
        return format!(
            "  the model: recorded {} {}, now {} {}",
            recorded.provider, recorded.model, current.provider, current.model
        );
    }
    let differences = differences(recorded, current);
    let mut lines: Vec<String> = differences
        .iter()
        .take(SHOWN)
        .map(|(path, before, now)| {
            format!(
                "  {path}: recorded {}, now {}",
                show(before.as_ref(), now.as_ref()),
                show(now.as_ref(), before.as_ref())
            )
        })
        .collect();
    if differences.len() > SHOWN {
        lines.push(format!("  … and {} more", differences.len() - SHOWN));
    }
    lines.join("\n")
}

type Difference = (String, Option<Value>, Option<Value>);

fn differences(recorded: &ModelRequest, current: &ModelRequest) -> Vec<Difference> {
    let before = leaves(recorded);
    let now = leaves(current);
    let mut differences = Vec::new();
    for (path, value) in &before {
        if now.get(path) != Some(value) {
            differences.push((path.clone(), Some(value.clone()), now.get(path).cloned()));
        }
    }
    for (path, value) in &now {
        if !before.contains_key(path) {
            differences.push((path.clone(), None, Some(value.clone())));
        }
    }
    differences
}

fn leaves(request: &ModelRequest) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    leaves.insert("provider".to_owned(), Value::String(request.provider.clone()));
    leaves.insert("model".to_owned(), Value::String(request.model.clone()));
    collect_leaves(&request.body, String::new(), &mut leaves);
    leaves
}

fn collect_leaves(value: &Value, path: String, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                collect_leaves(value, path, leaves);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect_leaves(value, format!("{path}[{index}]"), leaves);
            }
        }
        leaf => {
            leaves.insert(path, leaf.clone());
        }
    }
}

/// An excerpt of a value; of a long text, it starts shortly before the first difference to `other`.
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
            body: json!({"messages": [{"role": "system", "content": prompt}], "temperature": 0}).into(),
            unit: None,
        };
        let long = "You answer questions about the library's opening hours in one short sentence. Be kind.";
        insta::assert_snapshot!(
            describe(&request(long), &request(&long.replace("Be kind", "Be brief"))),
            @r#"  messages[0].content: recorded "… short sentence. Be kind.", now "… short sentence. Be brief.""#
        );
    }
}
