//! Checks the settings of an agent against its Claude model: which have no effect, and which model answers instead.

use holodeck_model::{
    ClaudeConfig, ClaudeModel, ClaudeModels, Code, Diagnostic, Effort, ExtendedThinkingConfig, NoEffect,
    closest,
};

use super::{Rules, View};
use crate::yaml::Place;

/// The API wants more room than this for a model that thinks within a budget.
const MIN_BUDGET: f64 = 1024.0;

/// Checks the models of an agent on Claude, and the settings that depend on them.
pub(super) fn check_claude_models(rules: &mut Rules<'_>, agent: &View) {
    let Some(model) = rules.child(agent, "model") else {
        return;
    };
    let claude = rules.child(agent, "claude");
    let place = rules.value_place(&model, "name");
    let name = rules
        .text(&model, "name")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    if let Some(name) = name {
        warn_replaced(rules, name, place, model.path.pointer(Some("name")));
        check_settings(rules, name, &model, claude.as_ref());
    }
    let Some(claude) = claude else { return };
    if let Some(name) = rules.text(&claude, "fallback_model") {
        let place = rules.value_place(&claude, "fallback_model");
        warn_replaced(rules, name, place, claude.path.pointer(Some("fallback_model")));
    }
    for (node, name) in rules.texts(&claude, "betas") {
        if name.contains([',', ' ']) {
            let message = "an entry of `betas` in `claude` must be the name of one feature";
            let diagnostic =
                Diagnostic::error(Code::BadFormat, message).about(claude.path.pointer(Some("betas")));
            let place = rules.tree.place(node);
            rules.add(place, diagnostic);
        }
    }
    let agents = rules.child(&claude, "agents");
    let subagents = agents.map(|agents| rules.values(&agents)).unwrap_or_default();
    for subagent in subagents {
        let Some(name) = rules.text(&subagent, "model").map(str::trim) else {
            continue;
        };
        let place = rules.value_place(&subagent, "model");
        let pointer = subagent.path.pointer(Some("model"));
        warn_replaced(rules, name, place, pointer.clone());
        warn_unknown(rules, &subagent, name, place, pointer);
    }
}

/// Warns of a model that the CLI no longer asks for.
fn warn_replaced(rules: &mut Rules<'_>, name: &str, place: Place, pointer: String) {
    let models = ClaudeModels::embedded();
    let Some(other) = models.find(name).and_then(|model| model.replaced_by()) else {
        return;
    };
    let message = format!("Claude Code asks `{other}` in place of `{name}`");
    let diagnostic = Diagnostic::warning(Code::NoEffect, message)
        .about(pointer)
        .with_help(format!(
            "name `{other}`, or another model; tried with Claude Code {}",
            models.cli()
        ));
    rules.add(place, diagnostic);
}

/// Warns of a model of a sub-agent that is neither known nor looks like an id.
fn warn_unknown(rules: &mut Rules<'_>, subagent: &View, name: &str, place: Place, pointer: String) {
    let models = ClaudeModels::embedded();
    if name == "inherit" || models.find(name).is_some() || rules.is_substituted(subagent, "model") {
        return;
    }
    let message = format!("`{name}` is no model of Claude that is known here");
    let mut diagnostic = Diagnostic::warning(Code::UnknownReference, message)
        .about(pointer)
        .with_help("it is passed to Claude Code as it is");
    let aliases = models.models().iter().flat_map(ClaudeModel::aliases);
    let ids = models.models().iter().map(ClaudeModel::id);
    let known = ids.chain(aliases).chain(std::iter::once("inherit"));
    if let Some(similar) = closest(name, known) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{similar}`?"));
    }
    rules.add(place, diagnostic);
}

fn check_settings(rules: &mut Rules<'_>, name: &str, model: &View, claude: Option<&View>) {
    let models = ClaudeModels::embedded();
    let settings = claude.map(|claude| settings(rules, claude)).unwrap_or_default();
    let depends =
        settings.effort.is_some() || settings.extended_thinking.is_some() || rules.has(model, "max_tokens");
    if depends && models.find(name).is_none() && !rules.is_substituted(model, "name") {
        let message =
            format!("`{name}` is no model of Claude that is known here, so it is treated like the newest");
        let diagnostic = Diagnostic::note(Code::NoEffect, message)
            .about(model.path.pointer(Some("name")))
            .with_help(format!(
                "`effort`, `extended_thinking` and `max_tokens` mean what they do there; the list is of {}",
                models.as_of()
            ));
        let place = rules.value_place(model, "name");
        rules.add(place, diagnostic);
    }
    let reasoning = models.reasoning(name, &settings);
    if let Some(claude) = claude {
        for one in &reasoning.without_effect {
            warn_without_effect(rules, claude, one);
        }
    }
    check_max_tokens(rules, name, model, reasoning.budget);
}

/// Warns of a setting that does not do what it says. A value that is not written is not reported.
fn warn_without_effect(rules: &mut Rules<'_>, claude: &View, one: &NoEffect) {
    let (view, key) = match one.field.split_once('.') {
        Some((block, key)) => match rules.child(claude, block) {
            Some(view) if rules.has(&view, key) => (view, key),
            _ => return,
        },
        None => (claude.clone(), one.field),
    };
    let owner = rules.owner_suffix(&view);
    let diagnostic = Diagnostic::warning(Code::NoEffect, format!("`{key}`{owner} {}", one.reason))
        .about(view.path.pointer(Some(key)))
        .with_help(one.hint.clone());
    let place = rules.key_place(&view, key);
    rules.add(place, diagnostic);
}

/// Warns of a limit that the model does not have, or that leaves no room for its thinking.
fn check_max_tokens(rules: &mut Rules<'_>, name: &str, model: &View, budget: Option<u32>) {
    let Some(limit) = rules.number(model, "max_tokens") else {
        return;
    };
    let known = ClaudeModels::embedded().find(name);
    let most = known.and_then(|model| Some((model.id(), model.output()?)));
    let warning = match (most, budget) {
        (Some((id, most)), _) if limit > f64::from(most) => {
            let message = format!(
                "`max_tokens`{} is sent as {most}, the most of {id}",
                rules.owner_suffix(model)
            );
            Diagnostic::warning(Code::OutOfRange, message)
        }
        (_, Some(_)) if limit <= MIN_BUDGET => {
            let message = format!(
                "`max_tokens`{} leaves no room for thinking, which takes at least 1024 tokens",
                rules.owner_suffix(model)
            );
            Diagnostic::warning(Code::InconsistentValues, message)
                .with_help("raise it, or turn `extended_thinking` off")
        }
        (_, Some(budget)) if limit <= f64::from(budget) => {
            let message = format!(
                "`max_tokens`{} is below the budget for thinking of {budget} tokens, which is lowered to fit",
                rules.owner_suffix(model)
            );
            Diagnostic::warning(Code::InconsistentValues, message)
        }
        _ => return,
    };
    let place = rules.value_place(model, "max_tokens");
    rules.add(place, warning.about(model.path.pointer(Some("max_tokens"))));
}

/// The settings that say how much the model is to reason.
fn settings(rules: &Rules<'_>, claude: &View) -> ClaudeConfig {
    let effort = rules.text(claude, "effort");
    let thinking = rules.child(claude, "extended_thinking").map(|thinking| {
        let default = ExtendedThinkingConfig::default();
        let tokens = rules.text(&thinking, "budget_tokens");
        ExtendedThinkingConfig {
            enabled: rules.flag(&thinking, "enabled").unwrap_or(default.enabled),
            budget_tokens: tokens
                .and_then(|tokens| tokens.trim().parse().ok())
                .unwrap_or(default.budget_tokens),
        }
    });
    ClaudeConfig {
        effort: Effort::ALL
            .iter()
            .copied()
            .find(|level| Some(level.as_str()) == effort),
        extended_thinking: thinking,
        ..ClaudeConfig::default()
    }
}
