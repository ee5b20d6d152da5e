//! The providers of a configuration as models and targets.

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value, json};

use super::{
    Importer,
    prompts::{Prompt, short},
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
    /// The tools of its model, if its answers are their calls.
    pub(super) tools: Option<Value>,
    /// Whether its code gets the variables of a test beside the prompt.
    pub(super) takes_vars: bool,
    /// The judge of its tests where they name none; of a model, it is the model.
    pub(super) judge: Option<Value>,
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

/// The embedder of promptfoo where the configuration names none.
const EMBEDDER: &str = "text-embedding-3-large";

/// The judge of an agent: the first model.
pub(super) fn default_judge(providers: &[Provider]) -> Value {
    let judges = providers.iter().find_map(|provider| {
        let own = provider.fields.get("model").filter(|_| provider.is_model);
        own.or(provider.judge.as_ref())
    });
    judges
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
        // Named by its id alone, a provider with a label is not found in promptfoo's list of prompts.
        let is_named_by_id = node.get("id").is_none() && node.text().is_none();
        let mut prompts = body.get("prompts");
        if let Some(given) = prompts.filter(|_| is_named_by_id && label.is_some()) {
            self.findings.ignored(
                given,
                "`prompts` beside `label` of a provider without `id`: promptfoo asks it all prompts",
                "`id: …` in the provider",
            );
            prompts = None;
        }
        let prompts = prompts.and_then(ForeignNode::items).map(|items| {
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
                tools: answering.tools,
                takes_vars: answering.takes_vars,
                judge: answering.judge,
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
        if let Some(answering) = self.tool_model(id, config) {
            return answering;
        }
        match self.model(id, config)? {
            Some(model) => {
                let mut fields = Map::new();
                fields.insert("model".to_owned(), Value::Object(model));
                Ok(Answering {
                    fields,
                    is_model: true,
                    tools: None,
                    takes_vars: false,
                    judge: None,
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
    pub(super) fn model(
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
                put("endpoint", ollama_address());
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
                "stop" => {
                    model.insert("stop".to_owned(), value.to_json());
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
                "seed" | "organization" | "cost" | "showThinking" => {
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

    /// The embedder of an assertion: its own, else that of the test, else the one that promptfoo takes.
    pub(super) fn embedder(
        &mut self,
        own: Option<&ForeignNode>,
        of_test: Option<&ForeignNode>,
    ) -> Result<Value, String> {
        let named = own.or(of_test).map(|node| node.get("embedding").unwrap_or(node));
        let Some(node) = named else {
            return Ok(json!({"provider": "openai", "name": EMBEDDER}));
        };
        let id = node
            .text()
            .or_else(|| node.get("id").and_then(ForeignNode::text))
            .ok_or("its embedder has no `id`")?;
        let mut words = id.splitn(3, ':');
        let (vendor, kind, name) = (words.next(), words.next(), words.next());
        let provider = match (vendor, kind) {
            (Some("openai"), Some("embedding" | "embeddings")) => "openai",
            (Some("azure" | "azureopenai"), Some("embedding" | "embeddings")) => "azure_openai",
            (Some("ollama"), Some("embedding" | "embeddings")) => "ollama",
            _ => return Err(format!("its embedder `{}` is not one here", short(id))),
        };
        let name = name
            .filter(|name| !name.is_empty())
            .ok_or_else(|| format!("its embedder `{}` names no model", short(id)))?;
        let mut embedder = Map::new();
        embedder.insert("provider".to_owned(), provider.into());
        embedder.insert("name".to_owned(), name.into());
        if provider == "ollama" {
            embedder.insert("endpoint".to_owned(), ollama_address());
        }
        if let Some(config) = node.get("config") {
            let mut fields = Map::new();
            self.model_config(vendor.unwrap_or_default(), config, &mut fields);
            for (name, value) in fields {
                // Vectors are not sampled.
                if !["temperature", "max_tokens", "top_p", "stop"].contains(&name.as_str()) {
                    embedder.insert(name, value);
                }
            }
        }
        Ok(Value::Object(embedder))
    }
}

/// The fields of an agent that answers as the provider does.
pub(super) struct Answering {
    pub(super) fields: Map<String, Value>,
    pub(super) is_model: bool,
    pub(super) tools: Option<Value>,
    pub(super) takes_vars: bool,
    pub(super) judge: Option<Value>,
    pub(super) files: Vec<ImportedFile>,
}

impl Answering {
    /// A target with the file that calls it; one without a file is a service, which takes no variables.
    pub(super) fn target(target: Value, file: Option<ImportedFile>) -> Self {
        Self {
            fields: Map::from_iter([("target".to_owned(), target)]),
            is_model: false,
            tools: None,
            takes_vars: file.is_some(),
            judge: None,
            files: file.into_iter().collect(),
        }
    }
}

fn ollama_address() -> Value {
    format!("{VARIABLE_START}OLLAMA_BASE_URL:-http://localhost:11434\u{e001}").into()
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
