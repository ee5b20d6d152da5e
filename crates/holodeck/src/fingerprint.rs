//! The parts that shape the answers of an agent, each with a digest.
//!
//! The only definition of "the same agent". A resumed run compares all parts and names those that differ; the keys of
//! recordings contain the files and variables among them. What only limits an answer (timeouts, prices, concurrency) or
//! grades it (expectations, metrics) is not included. Only the names of secrets count, so that a token can rotate.

mod files;

use std::collections::BTreeMap;

use holodeck_cassette::{digest, file_digest};
use holodeck_model::{
    Env, Provider, Redactor, ResolvedAgent,
    env::{ANTHROPIC_BASE_URL, OPENAI_BASE_URL},
};
use holodeck_validators::ClaudeEnv;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Answers, agents, judges, quality, turn_key::claude_settings};

pub(crate) use files::{FileDigests, files_of_claude, files_of_tools};

/// Each part that shapes the answers of `agent`, with its digest.
pub(crate) fn fingerprint(agent: &ResolvedAgent, env: &Env, answers: &Answers) -> BTreeMap<String, String> {
    let redactor = answers.redactor();
    let mut parts = Parts {
        redactor: &redactor,
        digests: BTreeMap::new(),
    };
    parts.add_configuration(agent);
    for (tool, files) in files_of_tools(agent) {
        parts.add_files(&format!("tool {}", tool.name()), files);
    }
    for (part, files) in files_of_claude(agent) {
        parts.add_files(part, files);
    }
    parts.add_files("specialist agent", agents::digests(agent));
    parts.add_files("test case", files::attachments(agent));
    match answers.replayed() {
        // A replay uses no endpoint.
        Some(replayed) => {
            let content = file_digest(replayed.cassette.as_ref());
            let content = content.unwrap_or_else(|error| format!("unreadable: {}", error.kind()));
            parts.digests.insert("recording".to_owned(), content);
        }
        None => parts.add_endpoint(agent, env),
    }
    parts.digests
}

struct Parts<'a> {
    redactor: &'a Redactor,
    digests: BTreeMap<String, String>,
}

impl Parts<'_> {
    /// A part of the configuration, unless it is empty.
    fn add(&mut self, name: impl Into<String>, value: &impl Serialize) {
        let mut value = serde_json::to_value(value).unwrap_or_default();
        let empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !empty {
            self.redactor.value(&mut value);
            let digest = digest(value.to_string().as_bytes());
            self.digests.insert(name.into(), digest);
        }
    }

    fn add_configuration(&mut self, agent: &ResolvedAgent) {
        let config = &agent.config;
        let mut model = serde_json::to_value(&config.model).unwrap_or_default();
        if let Some(model) = model.as_object_mut() {
            // The endpoint is a separate part, and the request rate does not change answers.
            model.retain(|name, _| !["endpoint", "rpm"].contains(&name.as_str()));
        }
        self.add("model", &model);
        self.add("instructions", &agent.instructions.text);
        self.add("response_format", &agent.response_format);
        for tool in &config.tools {
            let configured = serde_json::to_value(tool).unwrap_or_default();
            let mut value = configured.clone();
            // Only the names of secrets count, regardless of their values.
            self.redactor.configuration(&mut value);
            // A parameter called `token` is not a secret: schemas and mock answers count unmasked.
            for field in ["parameters", "mock"] {
                if let (Some(masked), Some(original)) = (value.get_mut(field), configured.get(field)) {
                    masked.clone_from(original);
                }
            }
            self.add(format!("tool {}", tool.name()), &value);
        }
        self.add("tool_filtering", &config.tool_filtering);
        self.add("approvals", &config.approvals);
        // A user without a model of its own; its other fields are part of its case.
        let users: Vec<_> = judges::default_user_model(agent).into_iter().collect();
        self.add("model of simulated users", &users);
        self.add("embedding_provider", &config.embedding_provider);
        self.add("claude", &config.claude.as_ref().map(claude_settings));
        self.add("openai", &config.openai);
        if let Some(quality) = quality::enabled(agent) {
            let metrics: Vec<_> = quality::loop_metrics(agent, quality).collect();
            let judges = judges::loop_judge_models(agent);
            self.add("quality_loop", &json!([quality, metrics, judges]));
        }
        let routing = config.routing.as_ref();
        self.add(
            "routing.agents",
            &routing.and_then(|routing| routing.agents.as_ref()),
        );
        for (name, database) in &agent.vectorstores {
            self.add(format!("vectorstore {name}"), database);
        }
        self.add(
            "execution.allow_private_urls",
            &agent.execution.allow_private_urls.value,
        );
    }

    fn add_files(&mut self, owner: &str, files: FileDigests) {
        let files = files.into_iter();
        let named = files.map(|(file, digest)| (format!("{owner}: {file}"), digest));
        self.digests.extend(named);
    }

    /// The endpoint of the model, from the YAML or variables.
    fn add_endpoint(&mut self, agent: &ResolvedAgent, env: &Env) {
        let config = &agent.config;
        self.add("model.endpoint", &config.model.endpoint);
        if config.model.provider == Provider::Anthropic {
            let claude = ClaudeEnv::for_model(&config.model, env).unwrap_or_default();
            let variables = claude.vars.iter().filter(|(name, _)| {
                // `model.endpoint` is already a part.
                let is_added = name == ANTHROPIC_BASE_URL && config.model.endpoint.is_some();
                !is_added && !claude.secret_names.contains(&name.as_str())
            });
            for (name, value) in variables {
                self.add(format!("variable {name}"), &value.expose_secret());
            }
        }
        // Embedders and the models of tools read it too.
        let models = json!([config.model, config.tools, config.embedding_provider]).to_string();
        if models.contains(r#""provider":"openai""#) {
            self.add(
                format!("variable {OPENAI_BASE_URL}"),
                &env.non_blank(OPENAI_BASE_URL),
            );
        }
    }
}

#[cfg(test)]
mod tests;
