//! The providers of a configuration as models and targets.

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value, json};

use super::{
    Importer,
    prompts::{Prompt, short},
    requests::{json_path, service_body, service_text, shell_words},
};
use crate::{
    ImportError, ImportedFile,
    code::Language,
    reader::read_node,
    template::render,
    writer::{VARIABLE_START, variable},
};

/// Something that answers.
pub(super) struct Provider {
    pub(super) label: String,
    /// The fields of the agent: `model` and `instructions`, or `target`.
    pub(super) fields: Map<String, Value>,
    /// Whether the fields are a model, which takes messages.
    pub(super) is_model: bool,
    /// The prompts that it is asked; all if absent.
    pub(super) prompts: Option<Vec<String>>,
    /// Files that it needs.
    pub(super) files: Vec<ImportedFile>,
}

/// Services with the protocol of OpenAI: the prefix, their address, the variable of their key.
const COMPATIBLE: &[(&str, &str, &str)] = &[
    ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ("anthropic", "", "ANTHROPIC_API_KEY"),
    ("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    ("togetherai", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
];

/// The address of Anthropic for clients of OpenAI.
const ANTHROPIC: &str = "ANTHROPIC_BASE_URL:-https://api.anthropic.com";

const FUNCTION_TARGET: &str = include_str!("function_target.mjs");
const PYTHON_TARGET: &str = include_str!("python_target.py");
const PROGRAM_TARGET: &str = include_str!("program_target.py");

/// The judge of an agent: the first model.
pub(super) fn default_judge(providers: &[Provider]) -> Value {
    let model = providers
        .iter()
        .find(|provider| provider.is_model)
        .and_then(|provider| provider.fields.get("model"));
    model
        .cloned()
        .unwrap_or_else(|| json!({"provider": "openai", "name": "gpt-4.1"}))
}

impl Importer<'_> {
    pub(super) fn providers(
        &mut self,
        config: &ForeignNode,
        _: &[Prompt],
    ) -> Result<Vec<Provider>, ImportError> {
        let Some(nodes) = config.get("providers").or_else(|| config.get("targets")) else {
            self.findings.left_out(
                config,
                "no `providers`: promptfoo would choose one",
                "`model` of the agent",
            );
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        match &nodes.value {
            ForeignValue::List(items) => {
                for item in items {
                    self.add_provider(item, &mut all)?;
                }
            }
            _ => self.add_provider(nodes, &mut all)?,
        }
        Ok(all)
    }

    fn add_provider(&mut self, node: &ForeignNode, all: &mut Vec<Provider>) -> Result<(), ImportError> {
        let empty = ForeignNode::new(node.path.clone(), node.line, ForeignValue::Map(Vec::new()));
        let (id, body) = match &node.value {
            ForeignValue::Text(id) => (id.clone(), empty),
            ForeignValue::Map(entries) => {
                match (node.get("id").and_then(ForeignNode::text), entries.as_slice()) {
                    (Some(id), _) => (id.to_owned(), node.clone()),
                    (None, [(id, body)]) => (id.clone(), body.clone()),
                    _ => {
                        self.findings.left_out(node, "a provider without `id`", "");
                        return Ok(());
                    }
                }
            }
            _ => {
                self.findings.left_out(node, "a provider in an unknown form", "");
                return Ok(());
            }
        };
        let is_file =
            id.starts_with("file://") && [".yaml", ".yml", ".json"].iter().any(|end| id.ends_with(end));
        if is_file {
            let read = read_node(self.files, &self.source_path(&id))?;
            match read.items() {
                Some(items) => {
                    for item in items {
                        self.add_provider(item, all)?;
                    }
                }
                None => self.add_provider(&read, all)?,
            }
            return Ok(());
        }
        for (key, value) in body.entries() {
            match key.as_str() {
                "id" | "label" | "config" | "prompts" => {}
                "delay" => self
                    .findings
                    .ignored(value, "`delay` of a provider", "`model.rpm`"),
                "env" => self
                    .findings
                    .ignored(value, "`env` of a provider", "`.env` beside the agent file"),
                key => self.findings.left_out(
                    value,
                    format!("`{key}` of a provider"),
                    if key == "transform" { "a code grader" } else { "" },
                ),
            }
        }
        let label = body.get("label").and_then(ForeignNode::text);
        let prompts = body.get("prompts").and_then(ForeignNode::items).map(|items| {
            items
                .iter()
                .filter_map(ForeignNode::text)
                .map(str::to_owned)
                .collect()
        });
        match self.answering(&id, &body) {
            Ok(answering) => all.push(Provider {
                label: label.unwrap_or(&id).to_owned(),
                fields: answering.fields,
                is_model: answering.is_model,
                prompts,
                files: answering.files,
            }),
            Err((reason, nearest)) => {
                self.findings
                    .left_out(node, format!("the provider `{}`: {reason}", short(&id)), nearest);
            }
        }
        Ok(())
    }

    fn answering(&mut self, id: &str, body: &ForeignNode) -> Result<Answering, (String, &'static str)> {
        let empty = ForeignNode::new(body.path.clone(), body.line, ForeignValue::Map(Vec::new()));
        let config = body.get("config").unwrap_or(&empty);
        if let Some(command) = id.strip_prefix("exec:") {
            return self.program(command.trim());
        }
        if id == "http" || id == "https" || id.starts_with("http://") || id.starts_with("https://") {
            return self.service(id, config);
        }
        if let Some((language, file, function)) = Language::of(id.strip_prefix("python:").unwrap_or(id)) {
            for (key, value) in config.entries() {
                self.findings.left_out(
                    value,
                    format!("`config.{key}` of a function"),
                    "`env` of the target",
                );
            }
            return self.function(language, file, function);
        }
        match self.model(id, config)? {
            Some(model) => {
                let mut fields = Map::new();
                fields.insert("model".to_owned(), Value::Object(model));
                Ok(Answering {
                    fields,
                    is_model: true,
                    files: Vec::new(),
                })
            }
            None => Err((
                "there is no such model here".to_owned(),
                "`provider: openai` with `endpoint`, or a `target`",
            )),
        }
    }

    /// A model by its id; nothing if its service is not known.
    fn model(
        &mut self,
        id: &str,
        config: &ForeignNode,
    ) -> Result<Option<Map<String, Value>>, (String, &'static str)> {
        let (vendor, rest) = id.split_once(':').unwrap_or((id, ""));
        let name = |kinds: &[&str]| {
            let rest = kinds
                .iter()
                .find_map(|kind| rest.strip_prefix(&format!("{kind}:")))
                .unwrap_or(rest);
            rest.to_owned()
        };
        let mut model = Map::new();
        let mut put = |key: &str, value: Value| model.insert(key.to_owned(), value);
        match vendor {
            "openai" => {
                let other = [
                    "responses",
                    "completion",
                    "assistant",
                    "embedding",
                    "embeddings",
                    "image",
                    "realtime",
                    "moderation",
                ];
                if let Some(kind) = other.iter().find(|kind| rest.starts_with(&format!("{kind}:"))) {
                    return Err((
                        format!("`openai:{kind}` is another protocol"),
                        "`provider: openai` over Chat Completions",
                    ));
                }
                put("provider", "openai".into());
                put("name", name(&["chat"]).into());
            }
            "azure" | "azureopenai" => {
                if !rest.starts_with("chat:") {
                    return Err(("only `chat` is supported".to_owned(), "`provider: azure_openai`"));
                }
                put("provider", "azure_openai".into());
                put("name", name(&["chat"]).into());
            }
            "ollama" => {
                put("provider", "ollama".into());
                put("name", name(&["chat", "completion"]).into());
                put(
                    "endpoint",
                    format!("{VARIABLE_START}OLLAMA_BASE_URL:-http://localhost:11434\u{e001}").into(),
                );
            }
            vendor => {
                let Some((_, endpoint, key)) = COMPATIBLE.iter().find(|(known, ..)| *known == vendor) else {
                    return Ok(None);
                };
                put("provider", "openai".into());
                put("name", name(&["messages", "chat"]).into());
                let endpoint = if vendor == "anthropic" {
                    format!("{VARIABLE_START}{ANTHROPIC}\u{e001}/v1")
                } else {
                    (*endpoint).to_owned()
                };
                put("endpoint", endpoint.into());
                put("api_key", variable(key).into());
            }
        }
        if model
            .get("name")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            return Err(("it names no model".to_owned(), ""));
        }
        self.model_config(vendor, config, &mut model);
        Ok(Some(model))
    }

    fn model_config(&mut self, vendor: &str, config: &ForeignNode, model: &mut Map<String, Value>) {
        let is_reasoning = model.get("name").and_then(Value::as_str).is_some_and(|name| {
            let name = name.rsplit('/').next().unwrap_or(name);
            ["o1", "o3", "o4", "gpt-5"]
                .iter()
                .any(|start| name.starts_with(start))
        });
        if ["openai", "azure", "azureopenai"].contains(&vendor) && !is_reasoning {
            // What promptfoo sends if the configuration says nothing.
            model.insert("temperature".to_owned(), json!(0));
            model.insert("max_tokens".to_owned(), json!(1024));
        }
        for (key, value) in config.entries() {
            let rendered = value.text().and_then(|text| render(text, &Map::new()).ok());
            let as_is = rendered.clone().map_or_else(|| value.to_json(), Value::String);
            match key.as_str() {
                "temperature" | "max_tokens" | "top_p" => {
                    model.insert(key.clone(), as_is);
                }
                "max_completion_tokens" => {
                    model.insert("max_tokens".to_owned(), as_is);
                }
                "apiBaseUrl" | "apiHost" => {
                    let text = rendered.unwrap_or_default();
                    let url =
                        if key == "apiHost" && !text.contains("://") && !text.starts_with(VARIABLE_START) {
                            format!("https://{text}")
                        } else {
                            text
                        };
                    model.insert("endpoint".to_owned(), url.into());
                }
                "apiVersion" => {
                    model.insert("api_version".to_owned(), as_is);
                }
                "apiKey" => {
                    let key = if rendered
                        .as_deref()
                        .is_some_and(|text| text.starts_with(VARIABLE_START))
                    {
                        rendered.unwrap_or_default()
                    } else {
                        let name = key_variable(vendor);
                        self.findings.ignored(
                            value,
                            format!("a key in the configuration: the agent reads it from `{name}`"),
                            "`.env` beside the agent file",
                        );
                        variable(name)
                    };
                    model.insert("api_key".to_owned(), key.into());
                }
                "apiKeyEnvar" => {
                    if let Some(name) = value.text() {
                        model.insert("api_key".to_owned(), variable(name).into());
                    }
                }
                "response_format" if value.get("type").and_then(ForeignNode::text) == Some("text") => {}
                "response_format" if value.get("type").and_then(ForeignNode::text) == Some("json_object") => {
                    self.findings.ignored(
                        value,
                        "`response_format: json_object`: the prompt alone asks for JSON",
                        "`response_format` with a schema",
                    );
                }
                "seed" | "presence_penalty" | "frequency_penalty" | "organization" | "headers" | "cost"
                | "showThinking" => {
                    self.findings
                        .ignored(value, format!("`config.{key}` of a model"), "");
                }
                key => self.findings.left_out(
                    value,
                    format!("`config.{key}` of a model, which shapes its answers"),
                    if key == "tools" {
                        "`tools` of the agent with `mock`"
                    } else {
                        ""
                    },
                ),
            }
        }
    }

    /// The model of a judge.
    pub(super) fn judge_model(&mut self, node: &ForeignNode) -> Result<Value, String> {
        let (id, config) = if let Some(id) = node.text() {
            (id, None)
        } else {
            let text = node.get("text");
            match text
                .and_then(ForeignNode::text)
                .or_else(|| node.get("id").and_then(ForeignNode::text))
            {
                Some(id) => (id, node.get("config")),
                None => return Err("its judge has no `id`".to_owned()),
            }
        };
        let empty = ForeignNode::new(node.path.clone(), node.line, ForeignValue::Map(Vec::new()));
        match self.model(id, config.unwrap_or(&empty)) {
            Ok(Some(model)) => Ok(Value::Object(model)),
            Ok(None) => Err(format!("its judge `{}` is not a model here", short(id))),
            Err((reason, _)) => Err(format!("its judge `{}`: {reason}", short(id))),
        }
    }

    fn program(&mut self, command: &str) -> Result<Answering, (String, &'static str)> {
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
        let mut fields = Map::new();
        fields.insert(
            "target".to_owned(),
            json!({"type": "command", "command": "python3", "args": args}),
        );
        let file = ImportedFile {
            path: "targets/program.py".into(),
            text: PROGRAM_TARGET.to_owned(),
        };
        Ok(Answering {
            fields,
            is_model: false,
            files: vec![file],
        })
    }

    fn function(
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
        let mut fields = Map::new();
        fields.insert(
            "target".to_owned(),
            json!({"type": "function", "file": path, "function": "answer"}),
        );
        let file = ImportedFile {
            path: path.into(),
            text,
        };
        Ok(Answering {
            fields,
            is_model: false,
            files: vec![file],
        })
    }

    fn service(&mut self, id: &str, config: &ForeignNode) -> Result<Answering, (String, &'static str)> {
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
        let mut fields = Map::new();
        fields.insert("target".to_owned(), Value::Object(target));
        Ok(Answering {
            fields,
            is_model: false,
            files: Vec::new(),
        })
    }
}

/// The fields of an agent that answers as the provider does.
struct Answering {
    fields: Map<String, Value>,
    is_model: bool,
    files: Vec<ImportedFile>,
}

fn key_variable(vendor: &str) -> &'static str {
    match vendor {
        "azure" | "azureopenai" => "AZURE_API_KEY",
        vendor => COMPATIBLE
            .iter()
            .find(|(known, ..)| *known == vendor)
            .map_or("OPENAI_API_KEY", |(.., key)| key),
    }
}
