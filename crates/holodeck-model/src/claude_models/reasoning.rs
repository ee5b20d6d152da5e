//! How much a model reasons for an agent, and which of its settings have no effect on that model.

use super::{ClaudeModel, ThinkingKind};
use crate::{ClaudeConfig, Effort};

/// The smallest budget that the API takes.
const MIN_BUDGET: u32 = 1024;

/// How the CLI has a model reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// Whether the model reasons, and within which budget; `None` leaves it to the CLI.
    pub budget: Option<u32>,
    /// The model does not reason.
    pub off: bool,
    /// It is off for all models of the process, because the CLI offers no other way for this one.
    pub off_for_all: bool,
    /// The level of effort.
    pub effort: Option<Effort>,
    /// Settings that do not do what they say.
    pub without_effect: Vec<NoEffect>,
}

/// A setting that does not do what it says on a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEffect {
    /// The field below `claude`, as in `extended_thinking.budget_tokens`.
    pub field: &'static str,
    /// The CLI's use of it, after the name of the field.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl Reasoning {
    pub(super) fn new(model: &ClaudeModel, claude: &ClaudeConfig) -> Self {
        let mut reasoning = Self::default();
        reasoning.set_effort(model, claude);
        reasoning.set_thinking(model, claude);
        reasoning
    }

    fn set_effort(&mut self, model: &ClaudeModel, claude: &ClaudeConfig) {
        let Some(wanted) = claude.effort else { return };
        let given = model.effort.iter().rev().find(|level| **level <= wanted);
        let Some(sent) = given.or(model.effort.first()) else {
            return;
        };
        self.effort = Some(*sent);
        if *sent != wanted {
            self.has_no_effect(
                "effort",
                format!(
                    "is sent as `{}`: {} has no `{}`",
                    sent.as_str(),
                    model.id,
                    wanted.as_str()
                ),
                format!("{} has {}", model.id, levels(&model.effort)),
            );
        }
    }

    fn set_thinking(&mut self, model: &ClaudeModel, claude: &ClaudeConfig) {
        let thinking = claude.extended_thinking.as_ref();
        let is_on = thinking.is_some_and(|thinking| thinking.enabled);
        let is_off = !is_on && (thinking.is_some() || claude.effort.is_none());
        match model.thinking {
            ThinkingKind::None => {
                self.off = true;
                if is_on {
                    let reason = format!("has no effect on {}, which does not think", model.id);
                    self.has_no_effect(
                        "extended_thinking",
                        reason,
                        "remove it, or use another model".to_owned(),
                    );
                }
            }
            ThinkingKind::Budget if is_off => self.off = true,
            ThinkingKind::Budget => {
                let budget = thinking.filter(|_| is_on).map(|thinking| thinking.budget_tokens);
                let by_effort = claude.effort.map(Effort::budget);
                self.budget = budget.or(by_effort).map(|tokens| tokens.max(MIN_BUDGET));
            }
            ThinkingKind::Adaptive | ThinkingKind::Always => {
                self.off = is_off;
                self.off_for_all = is_off && model.thinking == ThinkingKind::Always;
                if is_on {
                    self.has_no_effect(
                        "extended_thinking.budget_tokens",
                        format!(
                            "has no effect on {}, which decides itself how much it thinks",
                            model.id
                        ),
                        format!("`effort` steers it: {}", levels(&model.effort)),
                    );
                }
            }
        }
        self.check_effort_without_levels(model, claude);
    }

    /// A model without levels of effort thinks within a budget, or not at all.
    fn check_effort_without_levels(&mut self, model: &ClaudeModel, claude: &ClaudeConfig) {
        let Some(wanted) = claude.effort.filter(|_| model.effort.is_empty()) else {
            return;
        };
        let is_set_by_effort = self.budget.is_some() && claude.extended_thinking.is_none();
        if is_set_by_effort {
            let tokens = wanted.budget();
            self.has_no_effect(
                "effort",
                format!(
                    "is sent as a budget of {tokens} tokens: {} has no levels of effort",
                    model.id
                ),
                "`extended_thinking.budget_tokens` sets the budget".to_owned(),
            );
        } else {
            self.has_no_effect(
                "effort",
                format!("has no effect on {}, which has no levels of effort", model.id),
                "remove it, or use another model".to_owned(),
            );
        }
    }

    fn has_no_effect(&mut self, field: &'static str, reason: String, hint: String) {
        self.without_effect.push(NoEffect { field, reason, hint });
    }
}

fn levels(levels: &[Effort]) -> String {
    let quoted: Vec<String> = levels
        .iter()
        .map(|level| format!("`{}`", level.as_str()))
        .collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::ClaudeModels;

    fn reasoning(model: &str, claude: Value) -> Reasoning {
        let claude: ClaudeConfig = serde_json::from_value(claude).unwrap();
        ClaudeModels::embedded().reasoning(model, &claude)
    }

    /// The settings as sent, and the fields that a warning names.
    fn sent(model: &str, claude: Value) -> String {
        let reasoning = reasoning(model, claude);
        let thinking = match (reasoning.off, reasoning.off_for_all, reasoning.budget) {
            (true, true, None) => "off for all".to_owned(),
            (true, false, None) => "off".to_owned(),
            (false, false, Some(tokens)) => tokens.to_string(),
            (false, false, None) => "free".to_owned(),
            other => panic!("{other:?}"),
        };
        let effort = reasoning.effort.map_or("-", Effort::as_str);
        let fields: Vec<_> = reasoning.without_effect.iter().map(|one| one.field).collect();
        format!("{thinking} {effort} [{}]", fields.join(" "))
    }

    const BUDGET: &str = "extended_thinking.budget_tokens";

    #[test]
    fn every_kind_of_model_is_sent_what_it_follows() {
        let thinking = json!({"extended_thinking": {"enabled": true, "budget_tokens": 5000}});
        let low = json!({"effort": "low"});
        let max = json!({"effort": "max"});
        let xhigh = json!({"effort": "xhigh"});
        let both = json!({"effort": "low", "extended_thinking": {"enabled": true, "budget_tokens": 5000}});
        let effort_only = json!({"effort": "low", "extended_thinking": {"enabled": false}});
        for (model, settings, expected) in [
            ("claude-sonnet-4-5", json!({}), "off - []".to_owned()),
            ("claude-sonnet-4-5", thinking.clone(), "5000 - []".to_owned()),
            ("claude-sonnet-4-5", low.clone(), "4000 - [effort]".to_owned()),
            ("claude-sonnet-4-5", max.clone(), "31999 - [effort]".to_owned()),
            ("claude-sonnet-4-5", both.clone(), "5000 - [effort]".to_owned()),
            (
                "claude-haiku-4-5",
                effort_only.clone(),
                "off - [effort]".to_owned(),
            ),
            ("claude-opus-4-5", low.clone(), "4000 low []".to_owned()),
            ("claude-opus-4-5", max.clone(), "31999 high [effort]".to_owned()),
            ("claude-opus-4-5", both.clone(), "5000 low []".to_owned()),
            ("claude-opus-4-5", effort_only.clone(), "off low []".to_owned()),
            ("claude-opus-4-6", json!({}), "off - []".to_owned()),
            ("claude-opus-4-6", thinking.clone(), format!("free - [{BUDGET}]")),
            ("claude-opus-4-6", xhigh.clone(), "free high [effort]".to_owned()),
            ("claude-opus-4-6", max.clone(), "free max []".to_owned()),
            ("claude-opus-4-8", xhigh.clone(), "free xhigh []".to_owned()),
            ("claude-opus-4-8", effort_only.clone(), "off low []".to_owned()),
            ("claude-opus-5-5", json!({}), "off for all - []".to_owned()),
            ("claude-sonnet-5-5", low.clone(), "free low []".to_owned()),
            ("claude-sonnet-5-5", effort_only, "off for all low []".to_owned()),
            (
                "claude-sonnet-5-5",
                thinking.clone(),
                format!("free - [{BUDGET}]"),
            ),
            ("claude-3-5-haiku", json!({}), "off - []".to_owned()),
            ("claude-3-5-haiku", low.clone(), "off - [effort]".to_owned()),
            (
                "claude-3-5-haiku",
                both,
                "off - [extended_thinking effort]".to_owned(),
            ),
            // Answered by another model, whose rules hold.
            ("claude-opus-4-1", json!({}), "off for all - []".to_owned()),
            ("my-own-model", json!({}), "off - []".to_owned()),
            ("my-own-model", xhigh, "free xhigh []".to_owned()),
            ("my-own-model", thinking, format!("free - [{BUDGET}]")),
        ] {
            assert_eq!(sent(model, settings.clone()), expected, "{model} {settings}");
        }
    }

    #[test]
    fn no_effort_is_the_largest_budget_by_accident() {
        let budgets: Vec<u32> = Effort::ALL.iter().map(|level| level.budget()).collect();
        assert!(
            budgets.is_sorted() && budgets[0] < budgets[1] && budgets[1] < budgets[2],
            "{budgets:?}"
        );
        for model in ClaudeModels::embedded().models() {
            let low = reasoning(model.id(), json!({"effort": "low"}));
            assert!(
                low.budget.is_none_or(|budget| budget == budgets[0]),
                "{}",
                model.id()
            );
        }
    }

    #[test]
    fn a_budget_is_at_least_the_minimum_of_the_api() {
        let small = json!({"extended_thinking": {"enabled": true, "budget_tokens": 1000}});
        assert_eq!(sent("claude-sonnet-4-5", small), "1024 - []");
    }
}
