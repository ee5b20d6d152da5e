//! The `claude`, `openai` and `tool_filtering` blocks.

use holodeck_model::{
    ClaudeConfig, Code, Diagnostic, FileKind, Glob, HooksConfig, ToolNames, without_pattern,
};

use super::{
    Rules, View,
    names::{check_allowlist, check_name, check_names, tool_names},
    patterns::{
        check_claude_patterns, check_openai_patterns, check_subagent_patterns, note_unbound_shell, shell,
    },
    tools::check_command,
};
use crate::yaml::NodeId;

pub(super) fn check_backends(rules: &mut Rules<'_>, agent: &View, provider: Option<&str>) {
    let names = tool_names(rules, agent, provider);
    if let Some(provider) = provider {
        let unused = if provider == "anthropic" {
            "openai"
        } else {
            "claude"
        };
        warn_ignored(rules, agent, unused, provider);
        if provider == "anthropic" {
            warn_ignored(rules, agent, "tool_filtering", provider);
        }
    }
    if provider.is_some_and(|provider| provider != "anthropic")
        && let Some(filtering) = rules.child(agent, "tool_filtering")
    {
        check_names(rules, &names, &filtering, "always_include");
    }
    if let Some(claude) = rules.child(agent, "claude") {
        check_claude(rules, &claude, &names);
        if provider == Some("anthropic") {
            check_allowlist(rules, &names, &claude, "allowed_tools", agent);
            check_risk(rules, &claude);
            check_working_directory(rules, &claude);
            check_additional_directories(rules, &claude);
            let sandbox = rules.child(&claude, "sandbox");
            if sandbox.is_none_or(|sandbox| rules.flag(&sandbox, "enabled") == Some(false)) {
                note_unbound_shell(rules, &claude);
            }
            check_sandbox(rules, &claude);
        }
    }
    if let Some(openai) = rules.child(agent, "openai") {
        check_openai(rules, &openai, &names);
        if provider.is_some_and(|provider| provider != "anthropic")
            && let Some(permissions) = rules.child(&openai, "permissions")
        {
            check_allowlist(rules, &names, &permissions, "allowed_tools", agent);
        }
    }
}

fn warn_ignored(rules: &mut Rules<'_>, agent: &View, block: &str, provider: &str) {
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

fn check_claude(rules: &mut Rules<'_>, claude: &View, names: &ToolNames) {
    if let Some(thinking) = rules.child(claude, "extended_thinking")
        && rules
            .number(&thinking, "budget_tokens")
            .is_some_and(|tokens| (1000.0..1024.0).contains(&tokens))
    {
        let message = "`budget_tokens` below 1024 is sent as 1024";
        let diagnostic = Diagnostic::warning(Code::OutOfRange, message)
            .about(thinking.path.pointer(Some("budget_tokens")));
        let place = rules.value_place(&thinking, "budget_tokens");
        rules.add(place, diagnostic);
    }
    let sources = rules.texts(claude, "setting_sources");
    if sources.len() > 1 && sources.iter().any(|(_, source)| *source == "all") {
        let message = "`all` in `setting_sources` can't be combined with other values";
        rules.report_inconsistent(
            claude,
            "setting_sources",
            message,
            Some("it means `user`, `project` and `local`"),
        );
    }
    if let Some(agents) = rules.child(claude, "agents") {
        for subagent in rules.values(&agents) {
            if rules.tree.entries(subagent.node).is_some() {
                rules.check_exactly_one(&subagent, "prompt", "prompt_file");
                rules.check_file(&subagent, "prompt_file", Diagnostic::warning);
                check_names(rules, names, &subagent, "tools");
                check_tools_of_subagent(rules, claude, &subagent);
                check_subagent_patterns(rules, &subagent);
            }
        }
    }
    check_hooks(rules, claude, names);
    check_names(rules, names, claude, "allowed_tools");
    check_names(rules, names, claude, "disallowed_tools");
    check_allowed_and_denied(rules, claude, claude, "allowed_tools", "disallowed_tools");
    check_claude_patterns(rules, claude);
}

/// Checks the names of tools in hooks, which have an effect only for events about calls.
fn check_hooks(rules: &mut Rules<'_>, claude: &View, names: &ToolNames) {
    let Some(hooks) = rules.child(claude, "hooks") else {
        return;
    };
    for (event, _) in HooksConfig::default().events() {
        for hook in rules.list(&hooks, event.as_str()) {
            if rules.tree.entries(hook.node).is_none() {
                continue;
            }
            check_command(rules, &hook);
            if !event.has_tool() {
                rules.warn_no_effect(&hook, "tools", "the event is not about a call of a tool");
                continue;
            }
            for (node, text) in rules.texts(&hook, "tools") {
                // A tool that matches a wildcard may be added later.
                if Glob::new(text).as_literal().is_none() {
                    continue;
                }
                check_name(rules, names, node, text, |shown| {
                    let message = format!("{shown} in a hook is not a tool of this agent");
                    Diagnostic::warning(Code::UnknownValue, message).about(hook.path.pointer(Some("tools")))
                });
            }
        }
    }
}

/// Warns of built-in tools of a sub-agent that the lists of `claude` exclude.
fn check_tools_of_subagent(rules: &mut Rules<'_>, claude: &View, subagent: &View) {
    let names_it = |list: &[(NodeId, &str)], name: &str| {
        let mut list = list.iter();
        list.any(|(_, text)| current_name(without_pattern(text)) == name)
    };
    let allowed = rules.texts(claude, "allowed_tools");
    let has_allowed = rules.has(claude, "allowed_tools");
    let denied = rules.texts(claude, "disallowed_tools");
    let denied: Vec<_> = denied
        .into_iter()
        .filter(|(_, text)| !text.contains('('))
        .collect();
    for (node, written) in rules.texts(subagent, "tools") {
        let name = current_name(without_pattern(written));
        if !ClaudeConfig::CLI_TOOLS.contains(&name) {
            continue;
        }
        let list = if names_it(&denied, name) {
            "`claude.disallowed_tools` excludes it"
        } else if has_allowed && !names_it(&allowed, name) {
            "`claude.allowed_tools` does not name it"
        } else {
            continue;
        };
        let message = format!("a sub-agent does not get `{name}`: {list}");
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(subagent.path.pointer(Some("tools")))
            .with_help("the lists of `claude` hold for sub-agents too");
        let place = rules.tree.place(node);
        rules.add(place, diagnostic);
    }
}

/// `Task` is the former name of `Agent`.
fn current_name(name: &str) -> &str {
    if name == "Task" { "Agent" } else { name }
}

/// Warns of `acceptAll`, which 0.7 refused without a confirmation.
fn check_risk(rules: &mut Rules<'_>, claude: &View) {
    if rules.text(claude, "permission_mode") != Some("acceptAll")
        || rules.flag(claude, "i_understand_this_is_unsafe") == Some(true)
    {
        return;
    }
    let message = "`acceptAll` in `claude` approves every call of every tool that the agent has";
    let diagnostic = Diagnostic::warning(Code::UnconfirmedRisk, message)
        .about(claude.path.pointer(Some("permission_mode")))
        .with_help("add `i_understand_this_is_unsafe: true` if this is intended");
    let place = rules.value_place(claude, "permission_mode");
    rules.add(place, diagnostic);
}

/// Checks that the directory exists, and how a `CLAUDE.md` in it affects the instructions.
fn check_working_directory(rules: &mut Rules<'_>, claude: &View) {
    let named = rules.text(claude, "working_directory");
    let place = rules.value_place(claude, "working_directory");
    let dir = rules.tree.dir(place).join(named.unwrap_or_default());
    if named.is_some() && rules.files.kind(&dir) == FileKind::File {
        let message = "`working_directory` in `claude` is a file; it must be a directory";
        let diagnostic =
            Diagnostic::error(Code::BadFormat, message).about(claude.path.pointer(Some("working_directory")));
        rules.add(place, diagnostic);
        return;
    }
    if named.is_some() && rules.files.kind(&dir) != FileKind::Directory {
        let message = rules
            .missing_file_message(claude, "working_directory")
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
            .with_help("remove `project` from `setting_sources` to use only `instructions`");
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

/// Warns of a sandbox without a shell.
fn check_sandbox(rules: &mut Rules<'_>, claude: &View) {
    let Some(sandbox) = rules.child(claude, "sandbox") else {
        return;
    };
    if shell(rules, claude).is_some() || rules.flag(&sandbox, "enabled") == Some(false) {
        return;
    }
    rules.warn_no_effect(
        claude,
        "sandbox",
        "it holds only for `Bash`, which the agent does not have",
    );
}

/// Checks that the further directories exist.
fn check_additional_directories(rules: &mut Rules<'_>, claude: &View) {
    for (node, text) in rules.texts(claude, "additional_directories") {
        let place = rules.tree.place(node);
        if rules.files.kind(&rules.tree.dir(place).join(text)) == FileKind::Directory {
            continue;
        }
        let message = "`additional_directories` in `claude` names a directory that does not exist";
        let diagnostic = Diagnostic::warning(Code::FileNotFound, message)
            .about(claude.path.pointer(Some("additional_directories")))
            .with_help("paths are relative to the file that names them");
        rules.add(place, diagnostic);
    }
}

fn check_openai(rules: &mut Rules<'_>, openai: &View, names: &ToolNames) {
    check_names(rules, names, openai, "disallowed_tools");
    check_openai_patterns(rules, openai, "disallowed_tools");
    let Some(permissions) = rules.child(openai, "permissions") else {
        return;
    };
    check_names(rules, names, &permissions, "allowed_tools");
    check_names(rules, names, &permissions, "disallowed_tools");
    check_openai_patterns(rules, &permissions, "allowed_tools");
    check_openai_patterns(rules, &permissions, "disallowed_tools");
    check_allowed_and_denied(
        rules,
        &permissions,
        &permissions,
        "allowed_tools",
        "disallowed_tools",
    );
    check_allowed_and_denied(rules, &permissions, openai, "allowed_tools", "disallowed_tools");
}

fn check_allowed_and_denied(
    rules: &mut Rules<'_>,
    allowing: &View,
    denying: &View,
    allowed: &str,
    denied: &str,
) {
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
