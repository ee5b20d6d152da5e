//! Mends an entry of a server's lists: a tool or a prompt.

use holodeck_model::json_kind;
use rmcp::model::{Prompt, Tool};
use serde_json::{Value, json};

use super::{Faults, is_deep, remove_null, settle, too_deep};

/// A kind of entry.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    Tool,
    Prompt,
}

impl Entry {
    /// The field of the list.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }

    /// The entry in a form that can be read; `None` if it is left out.
    pub(super) fn mend(self, mut value: Value, index: usize, faults: &mut Faults) -> Option<Value> {
        let noun = self.noun();
        let number = index + 1;
        let Some(fields) = value.as_object_mut() else {
            faults.push(format!(
                "{noun} {number} is {} and is left out",
                json_kind(&value)
            ));
            return None;
        };
        let name = fields
            .get("name")
            .and_then(Value::as_str)
            .map(str::trim)
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            faults.push(format!("{noun} {number} has no `name` and is left out"));
            return None;
        }
        let needed: &[&str] = match self {
            Self::Tool => &["name", "inputSchema"],
            Self::Prompt => &["name"],
        };
        let deep: Vec<String> = fields
            .iter()
            .filter(|(_, value)| is_deep(value))
            .map(|(field, _)| field.clone())
            .collect();
        for field in deep {
            let reason = format!("{noun} `{name}`: `{field}` {}", too_deep());
            if needed.contains(&field.as_str()) {
                faults.push(format!("{reason}; the {noun} is left out"));
                return None;
            }
            faults.push(format!("{reason} and is left out"));
            fields.remove(&field);
        }
        if let Self::Tool = self {
            remove_null(fields, "inputSchema");
            match fields.get("inputSchema") {
                None => {
                    faults.push(format!(
                        "tool `{name}`: `inputSchema` is missing; it is offered without parameters"
                    ));
                    let schema = json!({ "type": "object", "properties": {} });
                    fields.insert("inputSchema".to_owned(), schema);
                }
                Some(Value::Object(_)) => {}
                Some(other) => {
                    faults.push(format!(
                        "tool `{name}`: `inputSchema` is {}, not an object; the tool is left out",
                        json_kind(other)
                    ));
                    return None;
                }
            }
        }
        if let Some(hints) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
            // A hint that is no boolean says nothing, which allows less.
            hints.retain(|field, value| field == "title" && value.is_string() || value.is_boolean());
        }
        if let Some(arguments) = fields.get_mut("arguments").and_then(Value::as_array_mut) {
            arguments.retain(|argument| !argument.is_null());
        }
        let settled = match self {
            Self::Tool => settle::<Tool>(fields, needed),
            Self::Prompt => settle::<Prompt>(fields, needed),
        };
        match settled {
            Ok(dropped) => {
                for field in dropped {
                    faults.push(format!(
                        "{noun} `{name}`: `{field}` cannot be read and is left out"
                    ));
                }
                Some(value)
            }
            Err(reason) => {
                faults.push(format!(
                    "{noun} `{name}` cannot be read and is left out: {reason}"
                ));
                None
            }
        }
    }
}
