//! An agent has `model` with `instructions`, or `target`; blocks that have no meaning beside a target are errors.

use holodeck_model::{Code, Diagnostic};

use super::{Rules, View};

/// Blocks that configure how a model answers, each with what holds for a target in its place.
const OF_MODELS: [(&str, &str); 7] = [
    (
        "tools",
        "the target has its own tools; `response.tool_calls` says where it reports its calls",
    ),
    ("approvals", "the target decides itself about its calls"),
    ("routing", "a target answers every message itself"),
    ("claude", "it configures Claude Code, which does not answer here"),
    (
        "openai",
        "it configures requests to a model, which does not answer here",
    ),
    ("tool_filtering", "the target has its own tools"),
    (
        "response_format",
        "the target has its own format; the metric `json_schema` checks it",
    ),
];

pub(super) fn check_target(rules: &mut Rules<'_>, agent: &View) {
    if rules.tree.entries(agent.node).is_none() {
        return;
    }
    if !rules.has(agent, "target") {
        for (field, description) in [
            ("model", "The model that answers."),
            ("instructions", "The system prompt."),
        ] {
            if !rules.has(agent, field) {
                rules.report_missing(agent, field, "", description);
            }
        }
        return;
    }
    for field in ["model", "instructions"] {
        if rules.entry(agent, field).is_none() {
            continue;
        }
        let help = match field {
            "model" => "keep one of them; a model that judges is `evaluations.model`",
            _ => "keep one of them; the target brings its own instructions",
        };
        let place = rules.key_place(agent, field);
        let label = rules.tree.location(rules.key_place(agent, "target"));
        let message = format!("`{field}` and `target` are mutually exclusive");
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(field)
            .with_label(label, "`target` is here")
            .with_help(help);
        rules.add(place, diagnostic);
    }
    for (field, why) in OF_MODELS {
        if rules.entry(agent, field).is_none() {
            continue;
        }
        let place = rules.key_place(agent, field);
        let label = rules.tree.location(rules.key_place(agent, "target"));
        let message = format!("`{field}` cannot be used with `target`");
        let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
            .about(field)
            .with_label(label, "`target` is here")
            .with_help(format!("remove it; {why}"));
        rules.add(place, diagnostic);
    }
    let Some(target) = rules.child(agent, "target") else {
        return;
    };
    match rules.text(&target, "type") {
        Some("http") => check_http(rules, &target),
        Some("command") => {
            super::tools::check_command(rules, &target);
            check_program(rules, &target);
        }
        Some("function") => check_function(rules, &target),
        Some("answers") => rules.check_file(&target, "file", Diagnostic::error),
        _ => {}
    }
}

fn check_http(rules: &mut Rules<'_>, target: &View) {
    let has_text = rules
        .child(target, "response")
        .is_some_and(|response| rules.has(&response, "text"));
    match (has_text, rules.has(target, "stream")) {
        (false, false) => {
            let what = "the path of the answer's text, as in `response: {text: $.answer}`";
            let (view, key) = match rules.child(target, "response") {
                Some(response) => (response, "text"),
                None => (target.clone(), "response"),
            };
            rules.report_missing(&view, key, "", what);
        }
        (true, true) => {
            let message = "`response.text` and `stream.text` of `target` are mutually exclusive";
            let help = "a stream has its text in pieces: keep `stream.text`";
            let place = rules
                .child(target, "response")
                .map(|response| rules.key_place(&response, "text"));
            let diagnostic = Diagnostic::error(Code::ConflictingFields, message)
                .about("target.response.text")
                .with_help(help);
            rules.add(place.unwrap_or(target.named_at), diagnostic);
        }
        _ => {}
    }
    if rules.text(target, "method") == Some("GET") && rules.has(target, "body") {
        let help = "put the message into `query`, or use `method: POST`";
        rules.report_inconsistent(
            target,
            "body",
            "a request with `method: GET` has no body",
            Some(help),
        );
    }
}

fn check_program(rules: &mut Rules<'_>, target: &View) {
    if rules.flag(target, "keep_alive") != Some(true) {
        rules.warn_no_effect(
            target,
            "fresh",
            "without `keep_alive`, a program is started for each message",
        );
    }
    if rules.text(target, "output") != Some("text") {
        return;
    }
    if rules.has(target, "response") {
        let message = "`response` reads JSON, and `output` of `target` is `text`";
        rules.report_inconsistent(target, "response", message, Some("remove one of them"));
    }
    if rules.flag(target, "keep_alive") == Some(true) {
        let message = "a kept program answers with one line of JSON, and `output` of `target` is `text`";
        rules.report_inconsistent(target, "output", message, Some("remove one of them"));
    }
}

fn check_function(rules: &mut Rules<'_>, target: &View) {
    rules.check_file(target, "file", Diagnostic::error);
    let Some(file) = rules.text(target, "file") else {
        return;
    };
    let known = [".py", ".mjs", ".js"].iter().any(|end| file.ends_with(end));
    if !known {
        let message = "`file` of `target` is neither Python nor JavaScript";
        let help = "its name ends with `.py`, `.mjs` or `.js`; for other languages use `type: command`";
        rules.report_inconsistent(target, "file", message, Some(help));
    }
}
