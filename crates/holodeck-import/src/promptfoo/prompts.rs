//! Reads the prompts of a configuration, and renders them with the variables of a test.

use std::path::Path;

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value, json};

use super::Importer;
use crate::{
    ImportError,
    code::{CodeRequest, Language},
    reader::read_text,
    template::{Unrendered, render},
};

/// A prompt: what is sent for each test.
pub(super) struct Prompt {
    pub(super) label: String,
    pub(super) at: ForeignNode,
    content: Content,
}

enum Content {
    /// A template, of a text or of messages in JSON.
    Template(String),
    /// A function that writes the prompt of each test.
    Function(CodeRequest),
}

/// A prompt with the variables of a test in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rendered {
    /// The whole as one text.
    pub(super) text: String,
    /// The messages, if it is a list of them.
    pub(super) messages: Option<Vec<Message>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: String,
}

impl Importer<'_> {
    /// All prompts; one that sends the variable `prompt` if there is none.
    pub(super) fn prompts(&mut self, config: &ForeignNode) -> Result<Vec<Prompt>, ImportError> {
        let Some(prompts) = config.get("prompts") else {
            return Ok(vec![Prompt {
                label: "prompt".to_owned(),
                at: config.clone(),
                content: Content::Template("{{prompt}}".to_owned()),
            }]);
        };
        let mut all = Vec::new();
        match &prompts.value {
            ForeignValue::List(items) => {
                for item in items {
                    self.add_prompt(item, &mut all)?;
                }
            }
            ForeignValue::Map(entries) => {
                for (reference, label) in entries {
                    let at = ForeignNode::new(
                        label.path.clone(),
                        label.line,
                        ForeignValue::Text(reference.clone()),
                    );
                    self.add_prompt_text(reference, label.text(), &at, &mut all)?;
                }
            }
            _ => self.add_prompt(prompts, &mut all)?,
        }
        Ok(all)
    }

    fn add_prompt(&mut self, node: &ForeignNode, all: &mut Vec<Prompt>) -> Result<(), ImportError> {
        if let Some(text) = node.text() {
            return self.add_prompt_text(text, None, node, all);
        }
        let reference = ["raw", "id"].iter().find_map(|key| node.get(key)?.text());
        let Some(reference) = reference else {
            self.findings
                .left_out(node, "a prompt in an unknown form", "a text or `file://`");
            return Ok(());
        };
        for (key, value) in node.entries() {
            if !["id", "raw", "label", "description", "display"].contains(&key.as_str()) {
                self.findings.left_out(value, format!("`{key}` of a prompt"), "");
            }
        }
        let label = node.get("label").and_then(ForeignNode::text);
        self.add_prompt_text(reference, label, node, all)
    }

    fn add_prompt_text(
        &mut self,
        text: &str,
        label: Option<&str>,
        at: &ForeignNode,
        all: &mut Vec<Prompt>,
    ) -> Result<(), ImportError> {
        let is_file = text.starts_with("file://")
            || !text.contains(['\n', ' ', '{'])
                && [".txt", ".json", ".py", ".js", ".yaml", ".md", ".j2"]
                    .iter()
                    .any(|end| text.ends_with(end));
        if text.starts_with("https://") || text.starts_with("http://") || text.starts_with("exec:") {
            self.findings
                .left_out(at, format!("the prompt `{}`", short(text)), "a text or `file://`");
            return Ok(());
        }
        if !is_file {
            all.push(Prompt {
                label: label.unwrap_or(text).to_owned(),
                at: at.clone(),
                content: Content::Template(text.to_owned()),
            });
            return Ok(());
        }
        if let Some((language, file, function)) = Language::of(text) {
            let name = self.source_path(file);
            let function = match language {
                Language::Python => function.unwrap_or("main").to_owned(),
                Language::JavaScript => function.unwrap_or("default").to_owned(),
            };
            all.push(Prompt {
                label: label.unwrap_or(text).to_owned(),
                at: at.clone(),
                content: Content::Function(CodeRequest {
                    language,
                    file: name,
                    function: Some(function),
                    arguments: None,
                }),
            });
            return Ok(());
        }
        for path in self.matching(text)? {
            self.add_prompt_file(&path, label, at, all)?;
        }
        Ok(())
    }

    fn add_prompt_file(
        &mut self,
        path: &Path,
        label: Option<&str>,
        at: &ForeignNode,
        all: &mut Vec<Prompt>,
    ) -> Result<(), ImportError> {
        let text = read_text(self.files, path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let parts: Vec<String> = match extension.as_str() {
            "txt" => text
                .split("\n---")
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty())
                .collect(),
            "yaml" | "yml" => {
                let node = crate::reader::read_node(self.files, path)?;
                vec![node.to_json().to_string()]
            }
            "json" | "md" | "j2" => vec![text],
            other => {
                self.findings.left_out(
                    at,
                    format!("a prompt in a file `.{other}`"),
                    "`.txt`, `.json` or `.yaml`",
                );
                return Ok(());
            }
        };
        let several = parts.len() > 1;
        for (index, content) in parts.into_iter().enumerate() {
            let label = label.unwrap_or(&name);
            all.push(Prompt {
                label: if several {
                    format!("{label} {}", index + 1)
                } else {
                    label.to_owned()
                },
                at: at.clone(),
                content: Content::Template(content),
            });
        }
        Ok(())
    }

    /// The prompt of a test; nothing if it is code that may not run or fails, which is then found.
    pub(super) fn render_prompt(&mut self, prompt: &Prompt, vars: &Map<String, Value>) -> Option<Rendered> {
        match &prompt.content {
            Content::Template(template) => match render_template(template, vars) {
                Ok(rendered) => Some(rendered),
                Err(Unrendered(reason)) => {
                    self.findings.left_out(
                        &prompt.at,
                        format!("the prompt `{}`: {reason}", short(&prompt.label)),
                        "",
                    );
                    None
                }
            },
            Content::Function(request) => {
                let mut request = request.clone();
                request.arguments = Some(vec![
                    json!({"vars": vars, "provider": {"id": "holodeck", "label": "holodeck"}}),
                ]);
                match self.run(&request, &prompt.at) {
                    Ok(value) => {
                        let value = value.get("prompt").cloned().unwrap_or(value);
                        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        // What the function wrote is a template once more, as in promptfoo.
                        match render_template(&text, vars) {
                            Ok(rendered) => Some(rendered),
                            Err(Unrendered(reason)) => {
                                self.findings.left_out(
                                    &prompt.at,
                                    format!("what the prompt function wrote: {reason}"),
                                    "",
                                );
                                None
                            }
                        }
                    }
                    Err(reason) => {
                        let name = request.function.unwrap_or_default();
                        self.findings.left_out(
                            &prompt.at,
                            format!("the prompt function `{name}`: {reason}"),
                            "`--run-code`, or a prompt as a text",
                        );
                        None
                    }
                }
            }
        }
    }
}

fn render_template(template: &str, vars: &Map<String, Value>) -> Result<Rendered, Unrendered> {
    let Ok(json) = serde_json::from_str::<Value>(template) else {
        let text = render(template, vars)?;
        // A list of messages that is JSON only with its variables in it.
        let messages = serde_json::from_str(&text).ok().and_then(|json| messages(&json));
        return Ok(Rendered { text, messages });
    };
    if !json.is_array() && !json.is_object() {
        return Ok(Rendered {
            text: render(template, vars)?,
            messages: None,
        });
    }
    let json = render_all(&json, vars)?;
    Ok(Rendered {
        text: serde_json::to_string_pretty(&json).unwrap_or_default(),
        messages: messages(&json),
    })
}

/// Renders every text of a JSON value.
pub(super) fn render_all(value: &Value, vars: &Map<String, Value>) -> Result<Value, Unrendered> {
    Ok(match value {
        Value::String(text) => Value::String(render(text, vars)?),
        Value::Array(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| render_all(item, vars)).collect();
            Value::Array(items?)
        }
        Value::Object(map) => {
            let entries: Result<Map<_, _>, _> = map
                .iter()
                .map(|(key, value)| Ok((render(key, vars)?, render_all(value, vars)?)))
                .collect();
            Value::Object(entries?)
        }
        other => other.clone(),
    })
}

fn messages(json: &Value) -> Option<Vec<Message>> {
    let messages: Option<Vec<Message>> = json
        .as_array()?
        .iter()
        .map(|message| {
            Some(Message {
                role: message.get("role")?.as_str()?.to_owned(),
                content: message.get("content")?.as_str()?.to_owned(),
            })
        })
        .collect();
    messages.filter(|messages| !messages.is_empty())
}

/// The beginning of a text, on one line.
pub(super) fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(48) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default().trim_end()),
        None => line,
    }
}
