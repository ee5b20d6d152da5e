//! Programs, functions and services as targets.

use holodeck_yaml::ForeignNode;
use serde_json::{Map, Value, json};

use super::{
    Importer,
    prompts::short,
    providers::Answering,
    requests::{json_path, service_body, service_text, shell_words},
};
use crate::{ImportedFile, code::Language};

const FUNCTION_TARGET: &str = include_str!("function_target.mjs");
const PYTHON_TARGET: &str = include_str!("python_target.py");
const PROGRAM_TARGET: &str = include_str!("program_target.py");

impl Importer<'_> {
    pub(super) fn program(&mut self, command: &str) -> Result<Answering, (String, &'static str)> {
        if command.is_empty() || command.contains(['|', '>', '<', ';', '$', '`', '&']) {
            return Err((
                "its command needs a shell".to_owned(),
                "`target: {type: command}`",
            ));
        }
        let words = shell_words(command)
            .ok_or_else(|| ("its command has a quote that is not closed".to_owned(), ""))?;
        let mut args = vec![
            "targets/program.py".to_owned(),
            self.back.to_string_lossy().into_owned(),
        ];
        args.extend(words);
        let target = json!({"type": "command", "command": "python3", "args": args});
        let file = ImportedFile {
            path: "targets/program.py".into(),
            text: PROGRAM_TARGET.to_owned(),
        };
        Ok(Answering::target(target, Some(file)))
    }

    pub(super) fn function(
        &mut self,
        language: Language,
        file: &str,
        function: Option<&str>,
    ) -> Result<Answering, (String, &'static str)> {
        if [".ts", ".mts", ".cts"].iter().any(|end| file.ends_with(end)) {
            return Err(("TypeScript must be compiled first".to_owned(), "a `.mjs` file"));
        }
        let stem: String = std::path::Path::new(file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let back = self.path_from_import(file);
        let (path, text) = match language {
            Language::Python => {
                let text = PYTHON_TARGET
                    .replace("SOURCE", &back)
                    .replace("FUNCTION", function.unwrap_or("call_api"));
                (format!("targets/{stem}.py"), text)
            }
            Language::JavaScript => (
                format!("targets/{stem}.mjs"),
                FUNCTION_TARGET.replace("SOURCE", &back),
            ),
        };
        let target = json!({"type": "function", "file": path, "function": "answer"});
        let file = ImportedFile {
            path: path.into(),
            text,
        };
        Ok(Answering::target(target, Some(file)))
    }

    pub(super) fn service(
        &mut self,
        id: &str,
        config: &ForeignNode,
    ) -> Result<Answering, (String, &'static str)> {
        let url = config.get("url").and_then(ForeignNode::text).unwrap_or(id);
        let mut target = Map::new();
        target.insert("type".to_owned(), "http".into());
        target.insert("url".to_owned(), Value::String(service_text(url)?));
        let has_body = config.get("body").is_some();
        target.insert("method".to_owned(), if has_body { "POST" } else { "GET" }.into());
        let mut text = None;
        for (key, value) in config.entries() {
            match key.as_str() {
                "url" => {}
                "method" => {
                    let method = value.text().unwrap_or_default().to_uppercase();
                    if !["GET", "POST", "PUT", "PATCH"].contains(&method.as_str()) {
                        return Err((format!("the method `{method}`"), "`method` of `target: http`"));
                    }
                    target.insert("method".to_owned(), method.into());
                }
                "headers" | "queryParams" => {
                    let mut map = Map::new();
                    for (name, value) in value.entries() {
                        map.insert(
                            name.clone(),
                            Value::String(service_text(value.text().unwrap_or_default())?),
                        );
                    }
                    let name = if key == "headers" { "headers" } else { "query" };
                    target.insert(name.to_owned(), Value::Object(map));
                }
                "body" => {
                    if value.text().is_some() {
                        return Err(("its body is a text".to_owned(), "`body` as a mapping"));
                    }
                    target.insert("body".to_owned(), service_body(&value.to_json())?);
                }
                "transformResponse" | "responseParser" => {
                    let code = value.text().unwrap_or_default();
                    text = Some(json_path(code).ok_or_else(|| {
                        (
                            format!("`{key}` is code: `{}`", short(code)),
                            "`response: {text: $.path}`",
                        )
                    })?);
                }
                key => self
                    .findings
                    .left_out(value, format!("`config.{key}` of a service"), ""),
            }
        }
        let text = text.ok_or_else(|| {
            (
                "it has no `transformResponse`: the whole answer is its output".to_owned(),
                "`response: {text: $.path}`",
            )
        })?;
        target.insert("response".to_owned(), json!({"text": text}));
        Ok(Answering::target(Value::Object(target), None))
    }
}
