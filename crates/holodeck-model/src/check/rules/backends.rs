//! The `claude`, `openai` and `tool_filtering` blocks.

use super::{Rules, View};
use crate::{Code, Diagnostic, FileKind, check::closest};

/// Tools of the CLI that an agent may be given or denied.
const CLI_TOOLS: [&str; 19] = [
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Skill",
    "Task",
    "TaskOutput",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

pub(super) fn check_backends(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    if let Some(provider) = provider {
        let unused = if provider == "anthropic" {
            "openai"
        } else {
            "claude"
        };
        ignored(rules, agent, unused, provider);
        if provider == "anthropic" {
            ignored(rules, agent, "tool_filtering", provider);
        }
    }
    if provider.is_some_and(|provider| provider != "anthropic")
        && let Some(filtering) = rules.child(agent, "tool_filtering")
    {
        check_filtering(rules, &filtering, agent);
    }
    if let Some(claude) = rules.child(agent, "claude") {
        check_claude(rules, &claude, agent);
        if provider == Some("anthropic") {
            check_risk(rules, &claude);
            check_working_directory(rules, &claude);
        }
    }
    if let Some(openai) = rules.child(agent, "openai") {
        check_openai(rules, &openai);
    }
}

/// Names of tools that are always offered. Those of servers' tools are not known here.
fn check_filtering(rules: &mut Rules<'_>, filtering: &View, agent: &View) {
    let tools = rules.list(agent, "tools");
    let own: Vec<&str> = tools.iter().filter_map(|tool| rules.text(tool, "name")).collect();
    for (node, name) in rules.texts(filtering, "always_include") {
        let plain = name.strip_suffix("_search").unwrap_or(name);
        if own.contains(&name) || own.contains(&plain) || name.starts_with("mcp__") {
            continue;
        }
        let substituted = rules.tree.scalar(node).is_some_and(|scalar| scalar.substituted);
        let shown = if substituted {
            "a name".to_owned()
        } else {
            format!("`{name}`")
        };
        let message = format!(
            "{shown} in `always_include`{} is no tool of this agent",
            rules.of(filtering)
        );
        let mut diagnostic = Diagnostic::warning(Code::UnknownValue, message)
            .about(filtering.path.pointer(Some("always_include")));
        if !substituted && let Some(close) = closest(name, own.iter().copied()) {
            diagnostic = diagnostic.with_inline(format!("did you mean `{close}`?"));
        }
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

fn ignored(rules: &mut Rules<'_>, agent: &View, block: &str, provider: &str) {
    if rules.entry(agent, block).is_none() {
        return;
    }
    let diagnostic = Diagnostic::warning(
        Code::IgnoredForProvider,
        format!("`{block}` is ignored for provider `{provider}`"),
    )
    .about(block);
    let place = rules.key_place(agent, block);
    rules.add(place, diagnostic);
}

fn check_claude(rules: &mut Rules<'_>, claude: &View, agent: &View) {
    if let Some(thinking) = rules.child(claude, "extended_thinking") {
        if rules.has(claude, "effort") {
            let message = "`effort` and `extended_thinking` in `claude` both say how much the model thinks";
            let diagnostic = Diagnostic::warning(Code::InconsistentValues, message)
                .about(claude.path.pointer(Some("effort")))
                .with_help("newer models go by `effort` and ignore a budget");
            let place = rules.key_place(claude, "effort");
            rules.add(place, diagnostic);
        }
        if rules
            .number(&thinking, "budget_tokens")
            .is_some_and(|tokens| (1000.0..1024.0).contains(&tokens))
        {
            let message = "`budget_tokens` below 1024 is sent as 1024";
            let diagnostic = Diagnostic::warning(Code::OutOfRange, message)
                .about(thinking.path.pointer(Some("budget_tokens")));
            let place = rules.value_place(&thinking, "budget_tokens");
            rules.add(place, diagnostic);
        }
    }
    let sources = rules.texts(claude, "setting_sources");
    if sources.len() > 1 && sources.iter().any(|(_, source)| *source == "all") {
        let message = "`all` in `setting_sources` must stand alone";
        rules.inconsistent(
            claude,
            "setting_sources",
            message,
            Some("it means `user`, `project` and `local`"),
        );
    }
    if let Some(agents) = rules.child(claude, "agents") {
        for subagent in rules.values(&agents) {
            if rules.tree.entries(subagent.node).is_some() {
                rules.exactly_one(&subagent, "prompt", "prompt_file");
                rules.file(&subagent, "prompt_file", Diagnostic::warning);
                check_tool_names(rules, &subagent, "tools", agent);
            }
        }
    }
    check_tool_names(rules, claude, "allowed_tools", agent);
    check_tool_names(rules, claude, "disallowed_tools", agent);
    both_allowed_and_not(rules, claude, claude, "allowed_tools", "disallowed_tools");
}

/// Names that are neither a tool of the CLI nor one of this file. Some may be newer than this list.
fn check_tool_names(rules: &mut Rules<'_>, view: &View, key: &str, agent: &View) {
    let own: Vec<&str> = rules
        .list(agent, "tools")
        .iter()
        .filter_map(|tool| rules.text(tool, "name"))
        .collect();
    for (node, text) in rules.texts(view, key) {
        // Patterns deny calls; they don't allow any.
        let name = match text.split_once('(') {
            Some((name, _)) if key != "allowed_tools" => name.trim(),
            _ => text.trim(),
        };
        if CLI_TOOLS.contains(&name) || own.contains(&name) || name.starts_with("mcp__") {
            continue;
        }
        let substituted = rules.tree.scalar(node).is_some_and(|scalar| scalar.substituted);
        let shown = if substituted {
            "a name".to_owned()
        } else {
            format!("`{name}`")
        };
        let message = format!(
            "{shown} in `{key}`{} is neither a tool of the Claude Code CLI nor one of this agent",
            rules.of(view)
        );
        let mut diagnostic =
            Diagnostic::warning(Code::UnknownValue, message).about(view.path.pointer(Some(key)));
        if !substituted
            && let Some(close) = closest(name, CLI_TOOLS.iter().copied().chain(own.iter().copied()))
        {
            diagnostic = diagnostic.with_inline(format!("did you mean `{close}`?"));
        }
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

/// 0.7 refused it; here it works, but not unnoticed.
fn check_risk(rules: &mut Rules<'_>, claude: &View) {
    if rules.text(claude, "permission_mode") != Some("acceptAll")
        || rules.flag(claude, "i_understand_this_is_unsafe") == Some(true)
    {
        return;
    }
    let message = "`acceptAll` in `claude` approves every call of every tool that the agent has";
    let diagnostic = Diagnostic::warning(Code::UnconfirmedRisk, message)
        .about(claude.path.pointer(Some("permission_mode")))
        .with_help("add `i_understand_this_is_unsafe: true` if that is meant");
    let place = rules.value_place(claude, "permission_mode");
    rules.add(place, diagnostic);
}

/// Whether it is there, and what a `CLAUDE.md` in it does to the instructions.
fn check_working_directory(rules: &mut Rules<'_>, claude: &View) {
    let named = rules.text(claude, "working_directory");
    let place = rules.value_place(claude, "working_directory");
    let dir = rules.tree.dir(place).join(named.unwrap_or_default());
    if named.is_some() && rules.files.kind(&dir) != FileKind::Directory {
        let message = rules
            .names_nothing(claude, "working_directory")
            .replace("names a file", "names a directory");
        let diagnostic = Diagnostic::warning(Code::FileNotFound, message)
            .about(claude.path.pointer(Some("working_directory")))
            .with_help("paths are relative to the file that names them");
        rules.add(place, diagnostic);
        return;
    }
    if rules.files.kind(&dir.join("CLAUDE.md")) != FileKind::File {
        return;
    }
    let project = rules
        .texts(claude, "setting_sources")
        .into_iter()
        .find(|(_, source)| matches!(*source, "project" | "all"));
    if let Some((source, _)) = project {
        let message = "`CLAUDE.md` in the working directory adds to the agent's instructions";
        let diagnostic = Diagnostic::warning(Code::ClaudeMd, message)
            .about(claude.path.pointer(Some("setting_sources")))
            .with_help("remove `project` from `setting_sources` if `instructions` are to stand alone");
        let place = rules.tree.place(source);
        rules.add(place, diagnostic);
    } else if named.is_some() {
        let message = "`CLAUDE.md` in the working directory is not read";
        let diagnostic = Diagnostic::note(Code::ClaudeMd, message)
            .about(claude.path.pointer(Some("working_directory")))
            .with_help("`setting_sources: [project]` adds it to the instructions");
        rules.add(place, diagnostic);
    }
}

fn check_openai(rules: &mut Rules<'_>, openai: &View) {
    let Some(permissions) = rules.child(openai, "permissions") else {
        return;
    };
    both_allowed_and_not(
        rules,
        &permissions,
        &permissions,
        "allowed_tools",
        "disallowed_tools",
    );
    both_allowed_and_not(rules, &permissions, openai, "allowed_tools", "disallowed_tools");
}

fn both_allowed_and_not(rules: &mut Rules<'_>, allowing: &View, denying: &View, allowed: &str, denied: &str) {
    let allowed = rules.texts(allowing, allowed);
    for (node, name) in rules.texts(denying, denied) {
        let Some((other, _)) = allowed.iter().find(|(_, allowed)| *allowed == name) else {
            continue;
        };
        let label = rules.tree.location(rules.tree.place(*other));
        let diagnostic = Diagnostic::error(
            Code::ConflictingFields,
            format!("tool `{name}` is both allowed and disallowed"),
        )
        .about(denying.path.pointer(Some(denied)))
        .with_label(label, "allowed here");
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}
