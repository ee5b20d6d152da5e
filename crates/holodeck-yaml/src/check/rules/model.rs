//! Checks models and instructions.

use holodeck_model::{Code, Diagnostic};

use super::{Rules, View};

/// Checks every model of an agent except those of metrics.
pub(super) fn check_agent_models(rules: &mut Rules<'_>, agent: &View) {
    for key in ["model", "embedding_provider"] {
        if let Some(model) = rules.child(agent, key) {
            check_model(rules, &model);
        }
    }
    if let Some(model) = rules.child(agent, "model")
        && rules.text(&model, "provider") == Some("anthropic")
    {
        warn_ignored_by_claude_cli(rules, &model);
    }
}

pub(super) fn check_model(rules: &mut Rules<'_>, model: &View) {
    let provider = rules.text(model, "provider");
    match provider {
        Some("azure_openai") if !rules.has(model, "endpoint") => {
            rules.report_missing(
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
            let message = format!("`endpoint`{} must not be blank", rules.owner_suffix(model));
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
            rules.owner_suffix(model)
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some("auth_provider")))
            .with_help("it sets how the `anthropic` provider signs in");
        let place = rules.key_place(model, "auth_provider");
        rules.add(place, diagnostic);
    } else if rules.text(model, "auth_provider") == Some("custom") && !rules.has(model, "endpoint") {
        let message = format!(
            "`auth_provider: custom`{} has no `endpoint` to sign in to",
            rules.owner_suffix(model)
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
        rules.owner_suffix(model)
    );
    let mut diagnostic =
        Diagnostic::warning(Code::BadFormat, message).about(model.path.pointer(Some("endpoint")));
    if !rules.is_substituted(model, "endpoint") && !endpoint.contains("://") {
        diagnostic = diagnostic.with_inline(format!("did you mean `http://{endpoint}`?"));
    }
    let place = rules.value_place(model, "endpoint");
    rules.add(place, diagnostic);
}

/// Reports one warning that names all ignored fields, and one for an unused key.
fn warn_ignored_by_claude_cli(rules: &mut Rules<'_>, model: &View) {
    let given: Vec<&str> = [
        "temperature",
        "top_p",
        "stop",
        "api_version",
        "rpm",
        "reasoning",
        "reasoning_in_content",
    ]
    .into_iter()
    .filter(|key| rules.entry(model, key).is_some())
    .collect();
    if let Some(first) = given.first() {
        let shown: Vec<String> = given.iter().map(|key| format!("`{key}`")).collect();
        let message = format!(
            "{}{} {} ignored for provider `anthropic`",
            shown.join(", "),
            rules.owner_suffix(model),
            if given.len() == 1 { "is" } else { "are" }
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some(first)))
            .with_help("the Claude Code CLI does not support them");
        let place = rules.key_place(model, first);
        rules.add(place, diagnostic);
    }
    if let Some(way) = rules.text(model, "auth_provider").filter(|way| *way != "api_key")
        && rules.entry(model, "api_key").is_some()
    {
        let message = format!(
            "`api_key`{} is ignored for `auth_provider: {way}`",
            rules.owner_suffix(model)
        );
        let diagnostic = Diagnostic::warning(Code::IgnoredForProvider, message)
            .about(model.path.pointer(Some("api_key")))
            .with_help("it belongs to `auth_provider: api_key`");
        let place = rules.key_place(model, "api_key");
        rules.add(place, diagnostic);
    }
}

/// Notes that 0.7 sent a default temperature and limit. It applies only to files from 0.7, which have fields without
/// effect, so this rule runs last.
pub(super) fn note_sampling_defaults(rules: &mut Rules<'_>, agent: &View) {
    let Some(model) = rules.child(agent, "model") else {
        return;
    };
    if rules.text(&model, "provider") == Some("anthropic") || !is_from_version_0_7(rules, agent) {
        return;
    }
    let absent: Vec<&str> = [
        ("temperature", "`temperature: 0.3`"),
        ("max_tokens", "`max_tokens: 1000`"),
    ]
    .into_iter()
    .filter(|(key, _)| !rules.has(&model, key))
    .map(|(_, shown)| shown)
    .collect();
    if absent.is_empty() || rules.entry(&model, "provider").is_none() {
        return;
    }
    let message = format!(
        "without {} the model's own defaults are used",
        absent.join(" and ")
    );
    let diagnostic = Diagnostic::note(Code::ChangedDefault, message)
        .about(model.path.pointer(None))
        .with_note("HoloDeck 0.7 sent these values unless the file set others");
    rules.add(model.named_at, diagnostic);
}

/// Whether the file was written for 0.7: the first comment names HoloDeck, as in its `init` and examples, or the file
/// has fields that are no longer used.
fn is_from_version_0_7(rules: &Rules<'_>, agent: &View) -> bool {
    let text = rules.tree.file_text(rules.tree.place(agent.node).file);
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    comments.any(|line| line.contains("HoloDeck") || line.contains("Generated by: holodeck"))
        || rules
            .findings
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.code == Code::NoEffect)
}

/// Checks the source of the system prompt. The loader reads its file.
pub(super) fn check_instructions(rules: &mut Rules<'_>, agent: &View) {
    let provider = rules
        .child(agent, "model")
        .and_then(|model| rules.text(&model, "provider"));
    if rules.text(agent, "instructions") == Some("none") && provider == Some("anthropic") {
        let message = "`instructions: none` is for an assistant that brings its own, behind an OpenAI-compatible endpoint";
        let help = "write `instructions: {inline: …}`, or the `provider` of that endpoint";
        rules.report_inconsistent(agent, "instructions", message, Some(help));
    }
    if let Some(instructions) = rules.child(agent, "instructions")
        && rules.tree.entries(instructions.node).is_some()
    {
        rules.check_exactly_one(&instructions, "file", "inline");
        rules.check_file(&instructions, "file", Diagnostic::error);
    }
    if let Some(format) = rules.child(agent, "response_format")
        && rules.tree.scalar(format.node).is_some()
    {
        rules.check_file(agent, "response_format", Diagnostic::error);
    }
    rules.check_file(agent, "test_cases_file", Diagnostic::error);
}
