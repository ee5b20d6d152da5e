//! Models and instructions.

use super::{Rules, View};
use crate::{Code, Diagnostic};

/// Every model of an agent but those of metrics.
pub(super) fn check_agent_models(rules: &mut Rules<'_>, agent: &View) {
    for key in ["model", "embedding_provider"] {
        if let Some(model) = rules.child(agent, key) {
            check_model(rules, &model);
        }
    }
    if let Some(model) = rules.child(agent, "model") {
        if rules.text(&model, "provider") == Some("anthropic") {
            warn_of_what_the_cli_ignores(rules, &model);
        } else {
            note_sampling_defaults(rules, &model);
        }
    }
}

pub(super) fn check_model(rules: &mut Rules<'_>, model: &View) {
    let provider = rules.text(model, "provider");
    match provider {
        Some("azure_openai") if !rules.has(model, "endpoint") => {
            rules.missing(
                model,
                "endpoint",
                ": `azure_openai` requires it",
                "URL of the Azure resource",
            );
        }
        Some("azure_openai")
            if rules
                .text(model, "endpoint")
                .is_some_and(|endpoint| endpoint.trim().is_empty()) =>
        {
            let message = format!("`endpoint`{} must not be blank", rules.of(model));
            let place = rules.value_place(model, "endpoint");
            rules.add(
                place,
                Diagnostic::error(Code::Blank, message).about(model.path.pointer(Some("endpoint"))),
            );
        }
        _ => {}
    }
    check_endpoint(rules, model);
    if let Some(provider) = provider
        && provider != "anthropic"
        && rules.has(model, "auth_provider")
    {
        let message = format!(
            "`auth_provider`{} is ignored for provider `{provider}`",
            rules.of(model)
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some("auth_provider")))
            .with_help("it tells how the `anthropic` provider signs in");
        let place = rules.key_place(model, "auth_provider");
        rules.add(place, diagnostic);
    } else if rules.text(model, "auth_provider") == Some("custom") && !rules.has(model, "endpoint") {
        let message = format!(
            "`auth_provider: custom`{} has no `endpoint` to sign in to",
            rules.of(model)
        );
        let diagnostic = Diagnostic::warning(Code::InconsistentValues, message)
            .about(model.path.pointer(Some("auth_provider")))
            .with_help("add `endpoint`: the URL of the service");
        let place = rules.value_place(model, "auth_provider");
        rules.add(place, diagnostic);
    }
}

fn check_endpoint(rules: &mut Rules<'_>, model: &View) {
    let Some(endpoint) = rules
        .text(model, "endpoint")
        .map(str::trim)
        .filter(|endpoint| !endpoint.is_empty())
    else {
        return;
    };
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| endpoint.to_ascii_lowercase().starts_with(scheme));
    if is_url {
        return;
    }
    let message = format!(
        "`endpoint`{} must begin with `http://` or `https://`",
        rules.of(model)
    );
    let mut diagnostic =
        Diagnostic::warning(Code::BadFormat, message).about(model.path.pointer(Some("endpoint")));
    if !rules.is_substituted(model, "endpoint") && !endpoint.contains("://") {
        diagnostic = diagnostic.with_inline(format!("did you mean `http://{endpoint}`?"));
    }
    let place = rules.value_place(model, "endpoint");
    rules.add(place, diagnostic);
}

/// One warning that names all of them, and one for a key that is not used.
fn warn_of_what_the_cli_ignores(rules: &mut Rules<'_>, model: &View) {
    let given: Vec<&str> = [
        "temperature",
        "top_p",
        "max_tokens",
        "api_version",
        "rpm",
        "reasoning",
    ]
    .into_iter()
    .filter(|key| rules.entry(model, key).is_some())
    .collect();
    if let Some(first) = given.first() {
        let shown: Vec<String> = given.iter().map(|key| format!("`{key}`")).collect();
        let message = format!(
            "{}{} {} ignored for provider `anthropic`",
            shown.join(", "),
            rules.of(model),
            if given.len() == 1 { "is" } else { "are" }
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some(first)))
            .with_help("the Claude Code CLI does not take them");
        let place = rules.key_place(model, first);
        rules.add(place, diagnostic);
    }
    if let Some(way) = rules.text(model, "auth_provider").filter(|way| *way != "api_key")
        && rules.entry(model, "api_key").is_some()
    {
        let message = format!(
            "`api_key`{} is ignored for `auth_provider: {way}`",
            rules.of(model)
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some("api_key")))
            .with_help("it belongs to `auth_provider: api_key`");
        let place = rules.key_place(model, "api_key");
        rules.add(place, diagnostic);
    }
}

/// 0.7 sent a temperature and a limit that nobody had written.
fn note_sampling_defaults(rules: &mut Rules<'_>, model: &View) {
    let absent: Vec<&str> = [
        ("temperature", "`temperature: 0.3`"),
        ("max_tokens", "`max_tokens: 1000`"),
    ]
    .into_iter()
    .filter(|(key, _)| !rules.has(model, key))
    .map(|(_, shown)| shown)
    .collect();
    if absent.is_empty() || rules.entry(model, "provider").is_none() {
        return;
    }
    let message = format!(
        "without {} the model's own defaults are used",
        absent.join(" and ")
    );
    let diagnostic = Diagnostic::note(Code::ChangedDefault, message)
        .about(model.path.pointer(None))
        .with_note("HoloDeck 0.7 sent these values unless told otherwise");
    rules.add(model.named_at, diagnostic);
}

/// Where the system prompt comes from. Its file is read by the loader.
pub(super) fn check_instructions(rules: &mut Rules<'_>, agent: &View) {
    if let Some(instructions) = rules.child(agent, "instructions")
        && rules.tree.entries(instructions.node).is_some()
    {
        rules.exactly_one(&instructions, "file", "inline");
        rules.file(&instructions, "file", Diagnostic::error);
    }
    if let Some(format) = rules.child(agent, "response_format")
        && rules.tree.scalar(format.node).is_some()
    {
        rules.file(agent, "response_format", Diagnostic::error);
    }
    rules.file(agent, "test_cases_file", Diagnostic::error);
}
