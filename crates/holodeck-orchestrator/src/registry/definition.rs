//! The parts of a specialist agent that a backend needs.

use std::fmt::Write as _;

use holodeck_model::{AgentDoc, AgentMode, ClaudeModels, Code, Diagnostic, Provider, ToolNames};
use serde::Serialize;

use super::tools;

/// The parts of a specialist agent that a backend needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentDefinition {
    /// The agent.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Its instructions, in place of the agent's.
    pub prompt: String,
    /// Its tools among those of the agent, sorted; `None`: all. They are names of the agent's YAML or rules such as
    /// `Bash(git:*)`, as an allow list has them.
    pub tools: Option<Vec<String>>,
    /// Tools that it must not use: names of the agent's YAML, built-in tools, or rules such as `Bash(git:*)`; `*` is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// How its file restricts it further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// A model in place of the agent's.
    pub model: Option<String>,
}

impl AgentDefinition {
    /// The definition of an agent for a backend with these tools. What it names and the backend does not have is left
    /// out, each with a warning.
    pub fn new(doc: &AgentDoc, names: &ToolNames, provider: Provider) -> (Self, Vec<Diagnostic>) {
        let mut diagnostics = Vec::new();
        let denied = tools::resolve_denied(doc, names, &mut diagnostics);
        let mut tools = tools::resolve(doc, names, &mut diagnostics);
        if let Some(tools) = &mut tools {
            tools.retain(|tool| !tools::is_denied(tool, &denied));
        }
        let model = doc.model.clone().filter(|model| {
            let fits = provider == Provider::Anthropic || !is_claude(model);
            if !fits {
                let message = format!(
                    "agent `{}`: model `{model}` is ignored, because `model.provider` is not `anthropic`",
                    doc.name
                );
                let diagnostic = Diagnostic::warning(Code::IgnoredModel, message)
                    .at(doc.places.model.clone())
                    .about("model")
                    .with_help("remove it, or name a model of the provider; the agent's own model is used");
                diagnostics.push(diagnostic);
            }
            fits
        });
        let definition = Self {
            name: doc.name.clone(),
            description: doc.description.clone(),
            prompt: prompt(doc, tools.as_deref()),
            tools,
            denied,
            mode: doc.permission_mode,
            model,
        };
        (definition, diagnostics)
    }
}

fn is_claude(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ClaudeModels::embedded().is_alias(&model) || model.starts_with("claude-")
}

/// The instructions: the text of the file, or if it has the known sections, those in a fixed order and then the rest.
fn prompt(doc: &AgentDoc, tools: Option<&[String]>) -> String {
    if !doc.has_sections() && !doc.body.is_empty() {
        return doc.body.clone();
    }
    let mut text = format!("You are `{}`, a specialist agent.", doc.name);
    let mut section = |title: &str, content: &str| {
        if !content.is_empty() {
            let _ = write!(text, "\n\n## {title}\n{}", content.trim_end());
        }
    };
    section("Description", &doc.description);
    section("Behavioral Mindset", doc.mindset.as_deref().unwrap_or_default());
    let areas: Vec<String> = doc
        .focus_areas
        .iter()
        .map(|area| match area.keywords.as_slice() {
            [] => area.name.clone(),
            keywords => format!("{}: {}", area.name, keywords.join(", ")),
        })
        .collect();
    section("Focus Areas", &list(&areas));
    let numbered = (1..)
        .zip(&doc.key_actions)
        .map(|(number, action)| format!("{number}. {action}"));
    section("Key Actions", &numbered.collect::<Vec<_>>().join("\n"));
    section("Outputs", &list(&doc.outputs));
    section("You Will", &list(&doc.will));
    section("You Will Not", &list(&doc.will_not));
    section("Available Tools", &list(tools.unwrap_or_default()));
    if !doc.other.is_empty() {
        text.push_str("\n\n");
        text.push_str(&doc.other);
    }
    text
}

fn list(items: &[String]) -> String {
    let items = items.iter().map(|item| format!("- {item}"));
    items.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use holodeck_model::FocusArea;
    use pretty_assertions::assert_eq;

    use super::*;

    fn definition(doc: &AgentDoc, provider: Provider) -> (AgentDefinition, usize) {
        let names = ToolNames::with_builtins();
        let (definition, diagnostics) = AgentDefinition::new(doc, &names, provider);
        (definition, diagnostics.len())
    }

    #[test]
    fn a_file_without_sections_is_the_prompt() {
        let doc = AgentDoc {
            name: "a".to_owned(),
            body: "You review.\n\n## Steps\n1. Read".to_owned(),
            ..AgentDoc::default()
        };
        assert_eq!(definition(&doc, Provider::Anthropic).0.prompt, doc.body);
    }

    #[test]
    fn sections_are_written_in_a_fixed_order_and_nothing_is_lost() {
        let doc = AgentDoc {
            name: "a".to_owned(),
            description: "Reviews code".to_owned(),
            tools: Some(vec!["Read".to_owned(), "git".to_owned()]),
            mindset: Some("Read first.".to_owned()),
            focus_areas: vec![FocusArea {
                name: "Style".to_owned(),
                keywords: vec!["naming".to_owned()],
            }],
            will_not: vec!["Merge".to_owned()],
            other: "## Notes\nBe kind.".to_owned(),
            body: "ignored".to_owned(),
            ..AgentDoc::default()
        };
        assert_eq!(
            definition(&doc, Provider::Anthropic).0.prompt,
            "You are `a`, a specialist agent.\n\n## Description\nReviews code\n\n## Behavioral Mindset\nRead first.\n\n\
             ## Focus Areas\n- Style: naming\n\n## You Will Not\n- Merge\n\n## Available Tools\n- Bash(git:*)\n- Read\n\n\
             ## Notes\nBe kind."
        );
    }

    #[test]
    fn models_of_claude_are_ignored_elsewhere() {
        for (model, provider, kept) in [
            ("sonnet", Provider::Anthropic, true),
            ("sonnet", Provider::Openai, false),
            ("Opus[1m]", Provider::Ollama, false),
            ("claude-sonnet-4-5", Provider::Openai, false),
            ("gpt-4o-mini", Provider::Openai, true),
        ] {
            let doc = AgentDoc {
                model: Some(model.to_owned()),
                ..AgentDoc::default()
            };
            let (definition, warnings) = definition(&doc, provider);
            assert_eq!(definition.model.is_some(), kept, "{model}");
            assert_eq!(warnings, usize::from(!kept), "{model}");
        }
    }
}
