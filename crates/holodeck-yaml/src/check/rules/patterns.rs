//! Patterns of calls in allow and deny lists, and of paths in rules of `approvals`.

use holodeck_model::{
    CallPattern, Code, Diagnostic, Glob, PathBases, PathGlob, ToolPattern, tools_with_paths, without_pattern,
};

use super::{Rules, View};
use crate::yaml::{NodeId, Place};

/// Folders in place of those of the run: whether a pattern can be applied does not depend on them.
fn bases() -> PathBases {
    PathBases {
        working_directory: "/".to_owned(),
        home: Some("/".to_owned()),
    }
}

/// Reports entries of the lists of `claude` whose pattern cannot be applied.
pub(super) fn check_claude_patterns(rules: &mut Rules<'_>, claude: &View) {
    for key in ["allowed_tools", "disallowed_tools"] {
        for (node, entry) in rules.texts(claude, key) {
            let parsed = ToolPattern::parse(entry, &bases()).and_then(|pattern| match pattern.calls {
                Some(CallPattern::Other(_)) if key == "allowed_tools" && pattern.tool != "Bash" => {
                    Err(format!("calls of `{}` cannot be restricted here", pattern.tool))
                }
                _ => Ok(()),
            });
            if let Err(reason) = parsed {
                report(rules, claude, key, (node, entry), &reason);
            }
        }
    }
}

/// Reports entries with a pattern among the tools of a sub-agent, where only those of the shell are applied.
pub(super) fn check_subagent_patterns(rules: &mut Rules<'_>, subagent: &View) {
    for (node, entry) in rules.texts(subagent, "tools") {
        let parsed = ToolPattern::parse(entry, &bases()).and_then(|pattern| {
            if pattern.calls.is_some() && pattern.tool != "Bash" {
                let reason = "a pattern belongs in `claude.allowed_tools` or `claude.disallowed_tools`";
                return Err(reason.to_owned());
            }
            Ok(())
        });
        if let Err(reason) = parsed {
            report(rules, subagent, "tools", (node, entry), &reason);
        }
    }
}

/// Reports entries with a pattern in a list of `openai`, which has no tools whose calls can be matched.
pub(super) fn check_openai_patterns(rules: &mut Rules<'_>, list: &View, key: &str) {
    for (node, entry) in rules.texts(list, key) {
        if entry.contains(['(', ')']) {
            let reason = "only the built-in tools of Claude can have a pattern";
            report(rules, list, key, (node, entry), reason);
        }
    }
}

/// Reports what cannot be applied of the `paths` and `tools` of a rule of `approvals`. Only the CLI's own tools name paths.
pub(super) fn check_rule_patterns(rules: &mut Rules<'_>, rule: &View, provider: Option<&str>) {
    for (node, path) in rules.texts(rule, "paths") {
        if let Err(reason) = PathGlob::parse(path, &bases()) {
            report(rules, rule, "paths", (node, path), &reason);
        }
    }
    let tools = rules.texts(rule, "tools");
    for (node, tool) in &tools {
        if tool.contains(['(', ')']) {
            let reason = "a rule has the paths of calls in `paths`, and their arguments in `arguments`";
            report(rules, rule, "tools", (*node, tool), reason);
        }
    }
    let has_built_ins = provider.is_none_or(|provider| provider == "anthropic");
    let names_no_path = |text: &str| {
        let glob = Glob::new(text);
        !has_built_ins || !tools_with_paths().any(|tool| glob.matches(tool))
    };
    if !tools.is_empty() && tools.iter().all(|(_, tool)| names_no_path(tool)) {
        rules.warn_no_effect(
            rule,
            "paths",
            "calls of these tools name no path, so the rule never matches",
        );
    }
}

/// The place that gives the agent or a sub-agent a shell; `None` without one.
pub(super) fn shell(rules: &Rules<'_>, claude: &View) -> Option<Place> {
    let bash = rules.child(claude, "bash");
    if bash.is_some_and(|bash| rules.flag(&bash, "enabled") == Some(true)) {
        return Some(rules.key_place(claude, "bash"));
    }
    let mut listed = rules.texts(claude, "allowed_tools");
    let agents = rules.child(claude, "agents");
    for subagent in agents.iter().flat_map(|agents| rules.values(agents)) {
        listed.extend(rules.texts(&subagent, "tools"));
    }
    let mut listed = listed.into_iter();
    let named = listed.find(|(_, entry)| without_pattern(entry.trim()) == "Bash");
    named.map(|(node, _)| rules.tree.place(node))
}

/// Notes that the folders do not bind the shell.
pub(super) fn note_unbound_shell(rules: &mut Rules<'_>, claude: &View) {
    let Some(place) = shell(rules, claude) else {
        return;
    };
    let message = "the agent's folders and path patterns do not bind `Bash`: its commands use every file that the user can";
    let diagnostic =
        Diagnostic::note(Code::UnconfirmedRisk, message).about(claude.path.pointer(Some("bash")));
    rules.add(place, diagnostic);
}

fn report(rules: &mut Rules<'_>, view: &View, key: &str, (node, entry): (NodeId, &str), reason: &str) {
    let is_substituted = rules.tree.scalar(node).is_some_and(|scalar| scalar.substituted);
    let owner = rules.owner_suffix(view);
    // The text of a variable may be a secret.
    let message = if is_substituted {
        format!("an entry of `{key}`{owner} has a pattern that cannot be applied")
    } else {
        format!("`{entry}` in `{key}`{owner} cannot be applied: {reason}")
    };
    let diagnostic = Diagnostic::error(Code::BadPattern, message).about(view.path.pointer(Some(key)));
    let place = rules.tree.place(node);
    rules.add(place, diagnostic);
}
