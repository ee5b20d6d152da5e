//! Checks names of tools wherever a file may use them.

use holodeck_model::{
    Code, DeclaredTool, Diagnostic, NameMatch, ToolAccess, ToolKind, ToolNames, without_pattern,
};

use super::{Rules, View};
use crate::yaml::NodeId;

/// The names of an agent's tools, as far as the file is valid.
pub(super) fn tool_names(rules: &Rules<'_>, agent: &View, provider: Option<&str>) -> ToolNames {
    let tools = rules.list(agent, "tools");
    let declared = tools.iter().filter_map(|tool| {
        let name = rules.text(tool, "name")?;
        Some(match rules.text(tool, "type") {
            Some("mcp") => DeclaredTool::Server(name, ToolKind::Mcp),
            Some("vectorstore" | "hierarchical_document") => DeclaredTool::Tool(name, ToolKind::Retrieval),
            Some("prompt") => DeclaredTool::Tool(name, ToolKind::Prompt),
            _ => DeclaredTool::Tool(name, ToolKind::Function),
        })
    });
    let declared: Vec<_> = declared.collect();
    let names = ToolNames::from_declared(provider.is_none_or(|provider| provider == "anthropic"), declared);
    let routing = rules.child(agent, "routing");
    if routing.is_some_and(|routing| rules.has(&routing, "skills")) {
        names.with_unlisted_skills()
    } else {
        names
    }
}

/// Reports names in a list of `view` that no tool has.
pub(super) fn check_names(rules: &mut Rules<'_>, names: &ToolNames, view: &View, key: &str) {
    let suffix = format!(
        "in `{key}`{} is not a tool of this agent",
        rules.owner_suffix(view)
    );
    for (node, text) in rules.texts(view, key) {
        let about = view.path.pointer(Some(key));
        check_name(rules, names, node, text, |shown| {
            Diagnostic::warning(Code::UnknownValue, format!("{shown} {suffix}")).about(about.clone())
        });
    }
}

/// Reports a name that no tool has.
pub(super) fn check_name(
    rules: &mut Rules<'_>,
    names: &ToolNames,
    node: NodeId,
    written: &str,
    diagnostic: impl Fn(&str) -> Diagnostic,
) {
    let name = without_pattern(written);
    if name.is_empty() || names.resolve(name) != NameMatch::Unknown {
        return;
    }
    let substituted = rules.tree.scalar(node).is_some_and(|scalar| scalar.substituted);
    let shown = if substituted {
        "a name".to_owned()
    } else {
        format!("`{written}`")
    };
    let mut diagnostic = diagnostic(&shown);
    if !substituted && let Some(meant) = names.suggest(name) {
        diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
    }
    let place = rules.tree.place(node);
    rules.add(place, diagnostic);
}

/// Reports the tools of the file that an allowlist does not contain.
pub(super) fn check_allowlist(
    rules: &mut Rules<'_>,
    names: &ToolNames,
    list: &View,
    key: &str,
    agent: &View,
) {
    if rules.entry(list, key).is_none() {
        return;
    }
    let texts = rules.texts(list, key);
    let written: Vec<String> = texts.iter().map(|(_, text)| (*text).to_owned()).collect();
    let access = ToolAccess::from_allowlist(list.path.pointer(Some(key)), written);
    for tool in rules.list(agent, "tools") {
        let Some(name) = rules.text(&tool, "name").map(str::to_owned) else {
            continue;
        };
        if access.uses(names, &name) {
            continue;
        }
        let message = format!("`{key}`{} leaves out tool `{name}`", rules.owner_suffix(list));
        let label = rules.tree.location(rules.key_place(list, key));
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(tool.path.pointer(Some("name")))
            .with_label(label, "only the tools of this list are offered")
            .with_help(format!("add `{name}` to `{key}` if the agent is to use it"));
        let place = rules.value_place(&tool, "name");
        rules.add(place, diagnostic);
    }
    for (block, on, tools) in [
        ("file_system", "read", &["Read", "Glob", "Grep"][..]),
        ("file_system", "write", &["Write"]),
        ("file_system", "edit", &["Edit"]),
        ("bash", "enabled", &["Bash"]),
    ] {
        let Some(view) = rules.child(list, block) else {
            continue;
        };
        if rules.flag(&view, on) != Some(true) {
            continue;
        }
        let left_out: Vec<String> = tools
            .iter()
            .filter(|tool| !access.allows_call(names, tool))
            .map(|tool| format!("`{tool}`"))
            .collect();
        if left_out.is_empty() {
            continue;
        }
        let message = format!(
            "`{key}`{} leaves out {}",
            rules.owner_suffix(list),
            left_out.join(", ")
        );
        let label = rules.tree.location(rules.key_place(list, key));
        let diagnostic = Diagnostic::warning(Code::NoEffect, message)
            .about(view.path.pointer(Some(on)))
            .with_label(label, "only the tools of this list are offered");
        let place = rules.key_place(&view, on);
        rules.add(place, diagnostic);
    }
}
