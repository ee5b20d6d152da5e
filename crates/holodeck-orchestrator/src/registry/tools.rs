//! The names that specialist agents use for tools, as names of the agent's tools.

use holodeck_model::{AgentDoc, ClaudeConfig, Code, Diagnostic, NameMatch, ToolNames, without_pattern};

/// Programs that files name as tools. The shell gets a rule for the one program, never the shell as a whole.
const PROGRAMS: &[(&str, &str)] = &[
    ("bandit", "bandit"),
    ("black", "black"),
    ("docker", "docker"),
    ("eslint", "eslint"),
    ("git", "git"),
    ("mypy", "mypy"),
    ("nodejs", "node"),
    ("npm", "npm"),
    ("pip", "pip"),
    ("poetry", "poetry"),
    ("pytest", "pytest"),
    ("ruff", "ruff"),
    ("tsc", "tsc"),
    ("typescript", "tsc"),
];

/// The tool that a name in a file means, whatever tools the agent has: `Bash(git:*)` for `git`.
pub(super) fn mapped(written: &str) -> String {
    match written {
        "MultiEdit" => "Edit".to_owned(),
        "Task" => "Agent".to_owned(),
        "bash" => "Bash".to_owned(),
        _ => match PROGRAMS.iter().find(|(name, _)| *name == written) {
            Some((_, program)) => format!("Bash({program}:*)"),
            None => written.to_owned(),
        },
    }
}

/// The names by which a task may mention each tool of a file: `git` for `Bash(git:*)`, `search` for
/// `mcp__docs__search`. Each tool once.
pub(crate) fn written_names(doc: &AgentDoc) -> Vec<String> {
    let mut names: Vec<String> = doc.tools.iter().flatten().map(|tool| mapped(tool)).collect();
    names.sort();
    names.dedup();
    for name in &mut names {
        let program = name.split_once('(').map(|(_, rule)| rule);
        let program = program.and_then(|rule| rule.split([':', ' ', ')', '*']).find(|part| !part.is_empty()));
        let own = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        if let Some(short) = program.or(own.map(|(_, own)| own)) {
            *name = short.to_owned();
        }
    }
    names
}

/// The tools of a file among those of the agent, sorted, each once; `None`: all. Names that no tool has are dropped with
/// a diagnostic.
pub(super) fn resolve(
    doc: &AgentDoc,
    names: &ToolNames,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<String>> {
    let mut tools = Vec::new();
    for (index, written) in doc.tools.as_ref()?.iter().enumerate() {
        let mut report = |message: String, inline: Option<String>| {
            let place = doc.places.tools.get(index).cloned();
            let mut diagnostic = Diagnostic::warning(Code::UnknownTool, message)
                .at(place)
                .about("tools");
            diagnostic.inline = inline;
            diagnostics.push(diagnostic);
        };
        // A tool that the agent's YAML declares has precedence over a program of the same name.
        let own = written.as_str();
        let target = match names.resolve(without_pattern(own)) {
            NameMatch::Known => mapped_builtin(own),
            _ => mapped(own),
        };
        match names.resolve(without_pattern(&target)) {
            NameMatch::Known | NameMatch::Unlisted => tools.push(target),
            _ if own.starts_with("mcp__") => tools.push(target),
            NameMatch::Ambiguous(meant) => {
                let message = format!(
                    "`{own}` is the name of several tools and is dropped: {}",
                    meant.join(", ")
                );
                report(message, None);
            }
            NameMatch::Unknown => {
                let message = format!(
                    "agent `{}`: `{own}` is not a tool of this agent and is dropped",
                    doc.name
                );
                let meant = names.suggest(own);
                report(message, meant.map(|meant| format!("did you mean `{meant}`?")));
            }
        }
    }
    tools.sort();
    tools.dedup();
    Some(tools)
}

/// The tools that a file denies, sorted, each once. What is no tool at all denies nothing, with a diagnostic; a built-in
/// tool that the agent does not have needs none.
pub(super) fn resolve_denied(
    doc: &AgentDoc,
    names: &ToolNames,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut denied = Vec::new();
    for (index, written) in doc.disallowed_tools.iter().enumerate() {
        let own = written.as_str();
        let target = match names.resolve(without_pattern(own)) {
            NameMatch::Known => mapped_builtin(own),
            _ => mapped(own),
        };
        let tool = without_pattern(&target);
        let is_known = own.contains('*')
            || own.starts_with("mcp__")
            || ClaudeConfig::CLI_TOOLS.contains(&tool)
            || names.resolve(tool) != NameMatch::Unknown;
        if !is_known {
            let message = format!(
                "agent `{}`: `{own}` is not a tool of this agent, so that nothing is denied",
                doc.name
            );
            let mut diagnostic = Diagnostic::warning(Code::UnknownTool, message)
                .at(doc.places.disallowed_tools.get(index).cloned())
                .about("disallowedTools");
            let meant = names.suggest(own);
            diagnostic.inline = meant.map(|meant| format!("did you mean `{meant}`?"));
            diagnostics.push(diagnostic);
        }
        denied.push(target);
    }
    denied.sort();
    denied.dedup();
    denied
}

/// Whether a name of an allow list, with or without a pattern, is that of a denied tool as a whole, or just what is denied.
pub(super) fn is_denied(tool: &str, denied: &[String]) -> bool {
    let whole = without_pattern(tool);
    denied
        .iter()
        .any(|denied| denied == "*" || denied == tool || denied == whole)
}

/// Former names of built-in tools.
fn mapped_builtin(known: &str) -> String {
    match known {
        "MultiEdit" | "Task" => mapped(known),
        _ => known.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::{DeclaredTool, ToolKind};
    use pretty_assertions::assert_eq;

    use super::*;

    fn doc(tools: &[&str]) -> AgentDoc {
        AgentDoc {
            name: "a".to_owned(),
            tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
            ..AgentDoc::default()
        }
    }

    fn check(names: &ToolNames, tools: &[&str], expected: &[&str], dropped: usize) {
        let mut diagnostics = Vec::new();
        let found = resolve(&doc(tools), names, &mut diagnostics).unwrap();
        assert_eq!(found, expected);
        assert_eq!(diagnostics.len(), dropped, "{diagnostics:?}");
    }

    #[test]
    fn programs_become_rules_of_the_shell_and_never_the_whole_shell() {
        let names = ToolNames::with_builtins();
        check(
            &names,
            &[
                "git",
                "typescript",
                "tsc",
                "MultiEdit",
                "Edit",
                "Read",
                "mcp__docs__search",
                "nonsense",
            ],
            &["Bash(git:*)", "Bash(tsc:*)", "Edit", "Read", "mcp__docs__search"],
            1,
        );
        check(&names, &["bash", "Bash"], &["Bash"], 0);
        for (name, _) in PROGRAMS {
            assert_ne!(mapped(name), "Bash", "{name}");
        }
    }

    #[test]
    fn tools_of_the_agent_keep_their_names() {
        let tools = [
            DeclaredTool::Tool("git", ToolKind::Function),
            DeclaredTool::Tool("docs", ToolKind::Retrieval),
        ];
        let names = ToolNames::from_declared(false, tools);
        // Without built-in tools there is no shell: a rule for it is dropped.
        check(
            &names,
            &["git", "docs_search", "npm", "Read"],
            &["docs_search", "git"],
            2,
        );
    }

    #[test]
    fn denied_tools_are_resolved_as_allowed_ones_are() {
        let names = ToolNames::with_builtins();
        let doc = AgentDoc {
            disallowed_tools: ["git", "Task", "Write", "mcp__docs", "nonsense"]
                .map(str::to_owned)
                .to_vec(),
            ..AgentDoc::default()
        };
        let mut found = Vec::new();
        let denied = resolve_denied(&doc, &names, &mut found);
        assert_eq!(denied, ["Agent", "Bash(git:*)", "Write", "mcp__docs", "nonsense"]);
        assert_eq!(found.len(), 1, "{found:?}");
        for (tool, expected) in [
            ("Write", true),
            ("Write(docs/**)", true),
            ("Bash", false),
            ("Bash(git:*)", true),
            ("Bash(npm:*)", false),
        ] {
            assert_eq!(is_denied(tool, &denied), expected, "{tool}");
        }
        assert!(is_denied("Read", &["*".to_owned()]));
    }

    #[test]
    fn an_absent_list_is_all_tools_and_an_empty_one_none() {
        let mut found = Vec::new();
        let names = ToolNames::with_builtins();
        assert_eq!(resolve(&AgentDoc::default(), &names, &mut found), None);
        assert_eq!(resolve(&doc(&[]), &names, &mut found), Some(Vec::new()));
    }

    #[test]
    fn tasks_mention_tools_by_their_short_names() {
        let doc = doc(&["git", "Read", "mcp__docs__search", "Bash(npm run *)", "Bash"]);
        assert_eq!(written_names(&doc), ["Bash", "git", "npm", "Read", "search"]);
    }
}
