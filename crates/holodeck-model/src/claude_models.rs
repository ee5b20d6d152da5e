//! The Claude models as Claude Code knows them, and what the settings of an agent mean for each.
//!
//! The list is data with a date; a model that is not in it is treated like the newest ones, and `validate` notes it.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{ClaudeConfig, Effort};

mod reasoning;

pub use reasoning::{NoEffect, Reasoning};

/// The list that ships with this version.
const EMBEDDED: &str = include_str!("../data/claude-models.json");

static MODELS: LazyLock<ClaudeModels> = LazyLock::new(|| {
    // A test checks the embedded file; if it were invalid, every model would be unknown.
    serde_json::from_str(EMBEDDED).unwrap_or_default()
});

/// The models that a release of Claude Code knows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaudeModels {
    as_of: String,
    cli: String,
    /// Where the values are from, for readers of the file.
    #[serde(default, rename = "sources")]
    _sources: Vec<String>,
    models: Vec<ClaudeModel>,
}

/// One model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaudeModel {
    id: String,
    /// Other ids of this model.
    #[serde(default)]
    names: Vec<String>,
    /// Names of its kind, of which it is the current model.
    #[serde(default)]
    aliases: Vec<String>,
    /// The model that the CLI uses in place of this one.
    #[serde(default)]
    replaced_by: Option<String>,
    #[serde(default)]
    thinking: ThinkingKind,
    #[serde(default)]
    effort: Vec<Effort>,
    /// The longest answer in tokens.
    #[serde(default)]
    output: Option<u32>,
    /// The context in tokens.
    #[serde(default)]
    context: Option<u32>,
}

/// How a model reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThinkingKind {
    /// It does not, or the CLI does not let it.
    None,
    /// Within a budget of tokens.
    Budget,
    /// As much as it decides.
    #[default]
    Adaptive,
    /// As much as it decides; the CLI turns that off for all models of a process or for none.
    Always,
}

impl ClaudeModels {
    /// The embedded list.
    pub fn embedded() -> &'static Self {
        &MODELS
    }

    /// The date of the list.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// The release of Claude Code that it describes.
    pub fn cli(&self) -> &str {
        &self.cli
    }

    /// All models.
    pub fn models(&self) -> &[ClaudeModel] {
        &self.models
    }

    /// The model of an id or an alias.
    pub fn find(&self, name: &str) -> Option<&ClaudeModel> {
        let id = claude_model_id(name);
        self.models
            .iter()
            .find(|model| model.id == id || model.names.iter().chain(&model.aliases).any(|name| *name == id))
    }

    /// Whether a name is that of a kind, and the CLI decides which model it means.
    pub fn is_alias(&self, name: &str) -> bool {
        let id = claude_model_id(name);
        self.models
            .iter()
            .any(|model| model.aliases.iter().any(|alias| *alias == id))
    }

    /// The effect of an agent's settings on a model.
    pub fn reasoning(&self, name: &str, claude: &ClaudeConfig) -> Reasoning {
        match self.find(name) {
            Some(model) => {
                let model = model
                    .replaced_by
                    .as_deref()
                    .and_then(|id| self.find(id))
                    .unwrap_or(model);
                Reasoning::new(model, claude)
            }
            None => Reasoning::new(&ClaudeModel::unknown(name), claude),
        }
    }
}

impl ClaudeModel {
    /// A model that is not in the list: one that is newer.
    fn unknown(name: &str) -> Self {
        Self {
            id: name.to_owned(),
            names: Vec::new(),
            aliases: Vec::new(),
            replaced_by: None,
            thinking: ThinkingKind::Adaptive,
            effort: Effort::ALL.to_vec(),
            output: None,
            context: None,
        }
    }

    /// Its id, without a date.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Names of its kind, of which it is the current model.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.iter().map(String::as_str)
    }

    /// The model that the CLI uses in place of this one.
    pub fn replaced_by(&self) -> Option<&str> {
        self.replaced_by.as_deref()
    }

    /// The levels of effort that it has, lowest first.
    pub fn effort(&self) -> &[Effort] {
        &self.effort
    }

    /// The longest answer in tokens.
    pub fn output(&self) -> Option<u32> {
        self.output
    }

    /// The context in tokens.
    pub fn context(&self) -> Option<u32> {
        self.context
    }
}

/// The id of a model without what services add: a date, `latest`, the size of the context, a region and a version.
pub fn claude_model_id(name: &str) -> &str {
    let name = name.trim();
    let name = name.find("claude-").and_then(|at| name.get(at..)).unwrap_or(name);
    let name = name.split(['[', '@', ':']).next().unwrap_or(name);
    let mut id = name;
    while let Some((shorter, suffix)) = id.rsplit_once('-') {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_date = suffix.len() == 8 && is_number(suffix);
        let is_version = suffix.strip_prefix('v').is_some_and(is_number);
        if !is_date && !is_version && suffix != "latest" {
            break;
        }
        id = shorter;
    }
    id
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_embedded_list_is_valid_dated_and_without_contradictions() {
        let models: ClaudeModels = serde_json::from_str(EMBEDDED).unwrap();
        assert!(models.as_of().parse::<jiff::civil::Date>().is_ok());
        assert!(models.cli().starts_with("2.1."));
        let mut names: Vec<&str> = Vec::new();
        for model in models.models() {
            names.push(model.id());
            names.extend(model.names.iter().chain(&model.aliases).map(String::as_str));
            if let Some(other) = model.replaced_by() {
                let other = models.find(other).unwrap();
                assert_eq!(other.replaced_by(), None, "{}", model.id());
                continue;
            }
            assert!(
                model.output().is_some() && model.context() > model.output(),
                "{}",
                model.id()
            );
            assert!(model.effort().is_sorted(), "{}", model.id());
            let has_effort = !model.effort().is_empty();
            match model.thinking {
                ThinkingKind::None => assert!(!has_effort, "{}", model.id()),
                ThinkingKind::Adaptive | ThinkingKind::Always => assert!(has_effort, "{}", model.id()),
                ThinkingKind::Budget => {}
            }
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn an_id_is_found_in_the_form_of_every_service() {
        let models = ClaudeModels::embedded();
        for (name, id) in [
            ("claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4-5[1m]", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4-5@20250929", Some("claude-sonnet-4-5")),
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                Some("claude-sonnet-4-5"),
            ),
            ("anthropic/claude-haiku-4-5", Some("claude-haiku-4-5")),
            ("claude-3-5-haiku-latest", Some("claude-3-5-haiku")),
            ("claude-sonnet-4-20250514", Some("claude-sonnet-4-0")),
            ("claude-opus-4-1-20250805", Some("claude-opus-4-1")),
            ("opus", Some("claude-opus-5-5")),
            ("sonnet[1m]", Some("claude-sonnet-5-5")),
            ("claude-opus-4-9", None),
            ("claude-opus-5-50", None),
            ("my-own-model", None),
            ("", None),
        ] {
            assert_eq!(models.find(name).map(ClaudeModel::id), id, "{name}");
        }
    }
}
