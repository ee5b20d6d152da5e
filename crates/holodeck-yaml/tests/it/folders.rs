//! Decisions about the files that a call touches: places, tools, modes, occasions and persons.

use std::path::Path;

use holodeck_model::{
    AgentFolders, ApprovalContext, ApprovalPolicy, AskReason, CallPath, CliText, Env, MemoryFiles, Occasion,
    PathAccess, PathBases, PolicyCall, PolicyDecision, PolicyRuling, Presence, RulingBasis, SideEffectGate,
    Zone, path_access,
};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const TOOLS: [&str; 6] = ["Read", "Glob", "Grep", "Write", "Edit", "NotebookEdit"];
const OCCASIONS: [Occasion; 4] = [Occasion::Test, Occasion::Run, Occasion::Serve, Occasion::Chat];
const MODES: [&str; 4] = ["", "manual", "acceptEdits", "acceptAll"];

fn folders() -> AgentFolders {
    let list = |places: &[&str]| places.iter().map(|place| (*place).to_owned()).collect();
    AgentFolders {
        bases: PathBases {
            working_directory: "/w/proj".to_owned(),
            home: Some("/home/u".to_owned()),
        },
        inside: list(&["/w/proj", "/data"]),
        protected: list(&[
            "/w/proj/results",
            "/w/proj/.env",
            "/w/proj/agent.yaml",
            "/w/proj/cases.yaml",
        ]),
        temporary: list(&["/tmp"]),
    }
}

fn policy(blocks: &str) -> ApprovalPolicy {
    let text = format!(
        "name: a\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Hi}}\ntools:\n\
        - {{type: function, name: pay, description: P., command: cat, parameters: {{}}}}\n\
        - {{type: mcp, name: files, description: F., command: node}}\n{blocks}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics));
    ApprovalPolicy::new(&agent.config).with_folders(folders(), |glob| glob)
}

/// The policy with a mode, all file tools, and further lines.
fn with_mode(mode: &str, non_interactive: &str, rules: &str) -> ApprovalPolicy {
    let mode = if mode.is_empty() {
        String::new()
    } else {
        format!("permission_mode: {mode}, ")
    };
    policy(&format!(
        "claude: {{{mode}file_system: {{read: true, write: true, edit: true}}, allowed_tools: [Read, Glob, Grep, Write, \
         Edit, NotebookEdit, pay, files]}}\napprovals: {{non_interactive: {non_interactive}, rules: [{rules}]}}"
    ))
}

fn at(path: &str, tool: &str) -> CallPath {
    CallPath {
        path: Some(path.to_owned()),
        named: path.to_owned(),
        access: path_access(tool).unwrap_or(PathAccess::Read),
        is_own_result: false,
    }
}

fn decide(policy: &ApprovalPolicy, tool: &str, paths: &[CallPath], context: ApprovalContext) -> PolicyRuling {
    decide_for(policy, tool, &json!({}), paths, None, context)
}

fn decide_for(
    policy: &ApprovalPolicy,
    tool: &str,
    arguments: &Value,
    paths: &[CallPath],
    reason: Option<&str>,
    context: ApprovalContext,
) -> PolicyRuling {
    let reason = reason.map(|kind| AskReason {
        kind: kind.to_owned(),
        path: None,
    });
    let call = PolicyCall {
        tool,
        arguments,
        paths,
        reason: reason.as_ref(),
    };
    policy.decide_call(&call, context)
}

fn context(occasion: Occasion, presence: Presence) -> ApprovalContext {
    ApprovalContext {
        occasion,
        presence,
        side_effects: SideEffectGate::Open,
    }
}

fn contexts() -> Vec<ApprovalContext> {
    let of = |occasion| [Presence::Person, Presence::None].map(|presence| context(occasion, presence));
    OCCASIONS.into_iter().flat_map(of).collect()
}

fn word(ruling: &PolicyRuling) -> &'static str {
    match ruling.decision {
        PolicyDecision::Approve => "approve",
        PolicyDecision::Reject { .. } => "reject",
        PolicyDecision::AskPerson { .. } => "ask",
    }
}

/// Places that are not simply inside: what the call names, where it really is, and for whom it is what.
fn outer(tool: &str) -> Vec<(CallPath, Zone)> {
    let linked = |named: &str, path: &str| CallPath {
        named: named.to_owned(),
        ..at(path, tool)
    };
    let unresolved = CallPath {
        path: None,
        ..at("/w/proj/x", tool)
    };
    let mut places = vec![
        (at("/home/u/.ssh/id_rsa", tool), Zone::Outside),
        (at("/w/projects/x", tool), Zone::Outside),
        (at("/w", tool), Zone::Outside),
        (at("/W/PROJ/x", tool), Zone::Outside),
        (linked("/w/proj/link", "/etc/passwd"), Zone::Outside),
        (linked("/w/proj/linked/file", "/other/file"), Zone::Outside),
        (at("/home/u/.holodeck/config.yaml", tool), Zone::Protected),
        (at("/tmp/holodeck-claude-a/mcp.json", tool), Zone::Temporary),
        (at("/tmp/HoloDeck-Claude-a/mcp.json", tool), Zone::Temporary),
        (
            linked("/w/proj/x", "/tmp/holodeck-claude-a/config/a.jsonl"),
            Zone::Temporary,
        ),
        (unresolved, Zone::Unresolved),
    ];
    let is_list = path_access(tool) == Some(PathAccess::List);
    if !is_list {
        places.extend([
            (at("/w/proj/.holodeck/runs/a.jsonl", tool), Zone::Protected),
            (at("/w/proj/sub/.HoloDeck/x", tool), Zone::Protected),
            (at("/w/proj/results/a/run.json", tool), Zone::Protected),
            (at("/w/proj/.env", tool), Zone::Protected),
            (at("/w/proj/AGENT.yaml", tool), Zone::Protected),
            (linked("/w/proj/notes.txt", "/w/proj/cases.yaml"), Zone::Protected),
            (linked("/w/proj/.env", "/secrets/env"), Zone::Protected),
        ]);
    }
    if path_access(tool) == Some(PathAccess::Search) {
        places.push((at("/", tool), Zone::Temporary));
    }
    if path_access(tool) == Some(PathAccess::Write) {
        places.extend([
            (at("/w/proj/.git/hooks/pre-commit", tool), Zone::Sensitive),
            (at("/w/proj/.claude/settings.json", tool), Zone::Sensitive),
            (at("/w/proj/.mcp.json", tool), Zone::Sensitive),
            (at("/data/.bashrc", tool), Zone::Sensitive),
            (at("/w/proj/.VSCode/tasks.json", tool), Zone::Sensitive),
            (linked("/w/proj/hooks/x", "/w/proj/.git/hooks/x"), Zone::Sensitive),
        ]);
    }
    places
}

/// The whole table: every place, tool, mode, occasion, person, and `non_interactive`, and rules without `paths`.
#[test]
fn outside_only_a_person_at_this_machine_or_a_rule_with_paths_approves() {
    for mode in MODES {
        for non_interactive in ["reject", "approve"] {
            for rules in [
                "",
                "{tools: '*', decision: approve}",
                "{tools: '*', approver: human}",
            ] {
                let policy = with_mode(mode, non_interactive, rules);
                for tool in TOOLS {
                    for (path, zone) in outer(tool) {
                        for context in contexts() {
                            let ruling = decide(&policy, tool, std::slice::from_ref(&path), context);
                            let is_local = context.presence == Presence::Person
                                && matches!(context.occasion, Occasion::Chat | Occasion::Run);
                            let expected = if is_local && zone < Zone::Protected && mode != "acceptAll" {
                                "ask"
                            } else {
                                "reject"
                            };
                            let shown =
                                format!("{mode} {non_interactive} {rules} {tool} {path:?} {context:?}");
                            assert_eq!((word(&ruling), ruling.zone), (expected, zone), "{shown}");
                            assert_eq!(ruling.basis, RulingBasis::Folders, "{shown}");
                            assert!(!ruling.rule.is_empty());
                        }
                    }
                }
            }
        }
    }
}

/// Inside, a call is decided as the tool is without any path.
#[test]
fn inside_the_mode_decides() {
    for mode in MODES {
        for non_interactive in ["reject", "approve"] {
            for rules in [
                "",
                "{tools: '*', decision: approve}",
                "{tools: '*', decision: reject}",
            ] {
                let policy = with_mode(mode, non_interactive, rules);
                for tool in TOOLS {
                    for place in [
                        "/w/proj",
                        "/w/proj/a/b",
                        "/data/x",
                        "/w/proj/.github/x",
                        "/w/proj/my.env",
                    ] {
                        for context in contexts() {
                            let ruling = decide(&policy, tool, &[at(place, tool)], context);
                            let expected = policy.decide(tool, context);
                            assert_eq!(
                                ruling.decision, expected,
                                "{mode} {rules} {tool} {place} {context:?}"
                            );
                            assert_eq!(ruling.zone, Zone::Inside);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_most_critical_path_of_a_call_counts() {
    let policy = with_mode("acceptAll", "approve", "");
    let chat = context(Occasion::Chat, Presence::Person);
    let (inside, outside) = (at("/w/proj/a", "Glob"), at("/etc", "Glob"));
    for paths in [[inside.clone(), outside.clone()], [outside, inside]] {
        assert_eq!(word(&decide(&policy, "Glob", &paths, chat)), "reject");
    }
    // A file tool without any path is not harmless.
    assert_eq!(decide(&policy, "Read", &[], chat).zone, Zone::Unresolved);
}

/// The reason of the CLI can only make the decision about the paths stricter.
#[test]
fn the_reason_of_the_cli_makes_a_decision_stricter_and_never_looser() {
    let policy = with_mode("", "approve", "");
    let nobody = context(Occasion::Run, Presence::None);
    let inside = [at("/w/proj/a", "Write")];
    for (reason, expected) in [
        (None, "approve"),
        (Some("hook"), "approve"),
        (Some("rule"), "approve"),
        (Some("mode"), "approve"),
        (Some("workingDir"), "reject"),
        (Some("safetyCheck"), "reject"),
        (Some("other"), "reject"),
        (Some("of a later version"), "reject"),
    ] {
        let ruling = decide_for(&policy, "Write", &json!({}), &inside, reason, nobody);
        assert_eq!(word(&ruling), expected, "{reason:?}");
        let outside = [at("/etc/x", "Write")];
        let ruling = decide_for(&policy, "Write", &json!({}), &outside, reason, nobody);
        assert_eq!(word(&ruling), "reject", "{reason:?}");
        // The shell names no path.
        let policy = policy_with_bash();
        let ruling = decide_for(
            &policy,
            "Bash",
            &json!({"command": "cat /etc/x"}),
            &[],
            reason,
            nobody,
        );
        assert_eq!(word(&ruling), "approve", "{reason:?}");
    }
}

fn policy_with_bash() -> ApprovalPolicy {
    policy("claude: {bash: {enabled: true}}")
}

#[test]
fn results_of_the_cli_itself_are_readable_and_never_writable() {
    let policy = with_mode("acceptAll", "approve", "");
    let nobody = context(Occasion::Test, Presence::None);
    for (tool, expected) in [("Read", "approve"), ("Grep", "approve"), ("Write", "reject")] {
        let result = CallPath {
            is_own_result: true,
            ..at(
                "/tmp/holodeck-claude-a/config/projects/w/s/tool-results/a.txt",
                tool,
            )
        };
        assert_eq!(
            word(&decide(&policy, tool, &[result], nobody)),
            expected,
            "{tool}"
        );
    }
}

#[test]
fn a_tool_that_is_not_known_is_rejected_by_name() {
    let policy = with_mode("acceptAll", "approve", "{tools: '*', decision: approve}");
    for context in contexts() {
        let ruling = decide(&policy, "ReadAnything", &[], context);
        let PolicyDecision::Reject { reason } = &ruling.decision else {
            panic!("{ruling:?}");
        };
        assert!(reason.contains("`ReadAnything`"), "{reason}");
    }
}

#[test]
fn a_rule_with_paths_approves_if_all_paths_match_and_rejects_if_any_does() {
    let nobody = context(Occasion::Run, Presence::None);
    let approve = with_mode(
        "manual",
        "reject",
        "{tools: '*', paths: ['/data2/**', '~/x', ./results/], decision: approve}",
    );
    let reject = with_mode(
        "acceptAll",
        "approve",
        "{tools: '*', paths: '*.pem', decision: reject}",
    );
    let rows: [(&ApprovalPolicy, &str, &[&str], &str); 13] = [
        (&approve, "Read", &["/data2/a"], "approve"),
        (&approve, "Write", &["/data2/a"], "approve"),
        (&approve, "Read", &["/data2/a", "/home/u/x"], "approve"),
        (&approve, "Read", &["/data2/a", "/etc/x"], "reject"),
        (&approve, "Read", &["/data2"], "reject"),
        (&approve, "Grep", &["/data2"], "approve"),
        (&approve, "Read", &["/w/proj/results/a.json"], "approve"),
        (&approve, "Read", &["/w/proj/.env"], "reject"),
        (&approve, "Read", &["/tmp/holodeck-claude-x/mcp.json"], "reject"),
        (&approve, "pay", &[], "approve"),
        (&reject, "Read", &["/w/proj/a", "/w/proj/keys/a.pem"], "reject"),
        (&reject, "Read", &["/w/proj/a"], "approve"),
        (&reject, "pay", &[], "approve"),
    ];
    for (policy, tool, paths, expected) in rows {
        let paths: Vec<_> = paths.iter().map(|path| at(path, tool)).collect();
        let ruling = decide(policy, tool, &paths, nobody);
        assert_eq!(word(&ruling), expected, "{tool} {paths:?} {ruling:?}");
    }
    // The call of a tool without paths was not approved by the rule.
    assert_eq!(decide(&approve, "pay", &[], nobody).basis, RulingBasis::Mode);
    let ruling = decide(&approve, "Read", &[at("/data2/a", "Read")], nobody);
    assert_eq!(
        (ruling.basis, &*ruling.rule),
        (RulingBasis::Rule, "approvals.rules[0]")
    );
    // Not even `/tmp/**` opens what HoloDeck keeps there.
    let all = with_mode(
        "acceptAll",
        "approve",
        "{tools: '*', paths: '/**', decision: approve}",
    );
    for (path, expected) in [
        ("/tmp/x", "approve"),
        ("/tmp/holodeck-claude-x/mcp.json", "reject"),
    ] {
        for context in contexts() {
            assert_eq!(
                word(&decide(&all, "Read", &[at(path, "Read")], context)),
                expected,
                "{path}"
            );
        }
    }
    assert_eq!(word(&decide(&all, "Grep", &[at("/", "Grep")], nobody)), "reject");
    // Nothing protected is given back by a wildcard, or by a folder that contains it.
    let wild = with_mode(
        "acceptAll",
        "approve",
        "{tools: '*', paths: ['/**', '/w/proj', '*.yaml', 'res*/'], decision: approve}",
    );
    for path in [
        "/w/proj/results/a.json",
        "/w/proj/agent.yaml",
        "/w/proj/.holodeck/x",
    ] {
        assert_eq!(
            word(&decide(&wild, "Read", &[at(path, "Read")], nobody)),
            "reject",
            "{path}"
        );
    }
    assert_eq!(wild.given_back().count(), 0);
    // A rule that gives back a part of a folder gives no search of it.
    let part = with_mode(
        "acceptAll",
        "approve",
        "{tools: '*', paths: 'results/a.json', decision: approve}",
    );
    assert_eq!(part.given_back().collect::<Vec<_>>(), ["/w/proj/results"]);
    let denials = texts(&part.cli_denials());
    assert!(
        !denials.iter().any(|denial| denial.contains("results")),
        "{denials:#?}"
    );
    assert!(
        denials.contains(&"Read(//w/proj/**/.holodeck)".to_owned()),
        "{denials:#?}"
    );
    for (tool, path, expected) in [
        ("Read", "/w/proj/results/a.json", "approve"),
        ("Read", "/w/proj/results/b.json", "reject"),
        ("Grep", "/w/proj", "reject"),
        ("Grep", "/w/proj/src", "approve"),
        ("Glob", "/w/proj", "approve"),
    ] {
        assert_eq!(
            word(&decide(&part, tool, &[at(path, tool)], nobody)),
            expected,
            "{tool} {path}"
        );
    }
}

/// The rules that are whole texts.
fn texts(rules: &[CliText]) -> Vec<String> {
    rules.iter().filter_map(CliText::as_text).collect()
}

#[test]
fn a_rule_holds_for_calls_with_these_arguments_only() {
    let policy = policy(
        "approvals: {rules: [{tools: pay, arguments: {amount: {gt: 100}}, decision: reject}, \
         {tools: files, arguments: {mode: read}, decision: approve}, {tools: files, decision: reject}]}",
    );
    let nobody = context(Occasion::Run, Presence::None);
    for (tool, arguments, expected) in [
        ("pay", json!({"amount": 101}), "reject"),
        ("pay", json!({"amount": 100}), "approve"),
        ("pay", json!({"amount": "101"}), "approve"),
        ("pay", json!({}), "approve"),
        ("pay", Value::Null, "approve"),
        ("mcp__files__open", json!({"mode": "read", "other": 1}), "approve"),
        ("mcp__files__open", json!({"mode": "write"}), "reject"),
        ("mcp__files__open", json!({}), "reject"),
    ] {
        let ruling = decide_for(&policy, tool, &arguments, &[], None, nobody);
        assert_eq!(word(&ruling), expected, "{tool} {arguments}");
    }
}

#[test]
fn patterns_of_lists_restrict_the_calls_of_a_tool() {
    let policy = policy(
        "claude: {permission_mode: acceptAll, allowed_tools: ['Read(src/**)', 'Read(*.md)', Grep, Write], disallowed_tools: \
         ['Read(~/.ssh/**)', 'Glob(secret)', 'Write(//w/proj/locked/**)', 'Grep(../sibling)']}\n\
         approvals: {rules: [{tools: '*', paths: '/**', decision: approve}]}",
    );
    let nobody = context(Occasion::Run, Presence::None);
    for (tool, path, expected) in [
        ("Read", "/w/proj/src/a", "approve"),
        ("Read", "/w/proj/doc/a.md", "approve"),
        ("Read", "/w/proj/doc/a.txt", "reject"),
        ("Grep", "/home/u/.ssh/id", "reject"),
        ("Grep", "/home/u/.ssh", "reject"),
        ("Grep", "/w/proj/a/secret/b", "reject"),
        ("Grep", "/w/sibling/b", "reject"),
        ("Grep", "/w/proj/doc", "approve"),
        ("Write", "/w/proj/locked/a", "reject"),
        ("Write", "/w/proj/secret", "approve"),
    ] {
        let ruling = decide(&policy, tool, &[at(path, tool)], nobody);
        assert_eq!(word(&ruling), expected, "{tool} {path} {ruling:?}");
    }
    let denials = texts(&policy.cli_denials());
    for rule in [
        "Read(//home/u/.ssh/**)",
        "Read(//w/proj/**/secret)",
        "Edit(//w/proj/locked/**)",
        "Read(//w/sibling)",
    ] {
        assert!(
            denials.iter().any(|denial| denial == rule),
            "{rule} in {denials:#?}"
        );
    }
}

/// The diagnostics of an agent with these blocks, as `line:column severity message`.
fn diagnostics(provider: &str, blocks: &str) -> Vec<String> {
    let text = format!(
        "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\ntools:\n\
        - {{type: function, name: pay, description: P., command: cat, parameters: {{}}}}\n{blocks}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text).with("cat", "");
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let shown = load.diagnostics.iter().map(|diagnostic| {
        let place = diagnostic.primary.as_ref().map(ToString::to_string);
        let place = place.unwrap_or_else(|| "nowhere".to_owned());
        format!("{place} {} {}", diagnostic.severity.as_str(), diagnostic.message)
    });
    shown.collect()
}

/// A pattern that cannot be applied denies nothing, so it is an error with its place, wherever a pattern may stand.
#[test]
fn a_pattern_that_cannot_be_applied_is_an_error_at_its_place() {
    let entries = [
        "Read(",
        "Read()",
        "Read( )",
        "Read)",
        "(x)",
        "Read(x)y",
        "Read(!x)",
        "Read({a,b})",
        "Read([a)",
        "Read(~bob/x)",
        "Read($X/y)",
        "Read(a/*/../b)",
        "Raed(x)",
        "pay(x)",
        "mcp__files__read(x)",
        "KillShell(x)",
    ];
    for key in ["allowed_tools", "disallowed_tools"] {
        for entry in entries {
            let found = diagnostics(
                "anthropic",
                &format!("claude:\n  {key}:\n  - Glob\n  - '{entry}'"),
            );
            let errors: Vec<_> = found.iter().filter(|line| line.contains(" error ")).collect();
            assert_eq!(errors.len(), 1, "{key} {entry}: {found:#?}");
            assert!(errors[0].starts_with("agent.yaml:9:5 "), "{errors:#?}");
        }
    }
    for path in [
        "''",
        "'!x'",
        "'{a,b}'",
        "'[a'",
        "'~bob/x'",
        "'$X/y'",
        "'a/*/../b'",
    ] {
        let block =
            format!("approvals:\n  rules:\n  - tools: Read\n    decision: reject\n    paths: [x, {path}]");
        let found = diagnostics("anthropic", &block);
        assert!(
            found
                .iter()
                .any(|line| line.starts_with("agent.yaml:10:16 error")),
            "{path}: {found:#?}"
        );
    }
    let found = diagnostics(
        "anthropic",
        "approvals: {rules: [{tools: 'Read(~/.ssh/**)', decision: reject}]}",
    );
    assert!(
        found
            .iter()
            .any(|line| line.contains(" error `Read(~/.ssh/**)` in `tools`")),
        "{found:#?}"
    );
    for block in [
        "openai: {disallowed_tools: ['pay(x)']}",
        "openai: {permissions: {allowed_tools: [pay, 'Read(x)']}}",
    ] {
        let found = diagnostics("openai", block);
        assert!(
            found.iter().any(|line| line.contains(" error ")),
            "{block}: {found:#?}"
        );
    }
}

/// A rule with `paths` for tools whose calls name none rejects nothing, also where a path is among their arguments.
#[test]
fn a_rule_with_paths_for_tools_without_paths_is_warned_about() {
    for (provider, tools, is_warned) in [
        ("anthropic", "pay", true),
        ("anthropic", "'mcp__files__*'", true),
        ("anthropic", "[pay, Bash]", true),
        ("anthropic", "[pay, Read]", false),
        ("anthropic", "'*'", false),
        ("anthropic", "'R*'", false),
        ("openai", "pay", true),
        ("openai", "Read", true),
        ("openai", "'*'", true),
    ] {
        let block = format!("approvals: {{rules: [{{tools: {tools}, paths: x, decision: reject}}]}}");
        let found = diagnostics(provider, &block);
        let mut lines = found.iter();
        let found_one = lines.any(|line| line.contains("`paths`") && line.contains("no effect"));
        assert_eq!(found_one, is_warned, "{provider} {tools}: {found:#?}");
    }
}

/// Also where nothing exists: the pattern denies what may come.
#[test]
fn patterns_that_can_be_applied_are_accepted() {
    let entries = [
        "Read(~/.ssh/**)",
        "Read($HOME/.aws)",
        "Read(/abs/**)",
        "Read(//abs/**)",
        "Read(../x)",
        "Write(//abs/**)",
        "Glob(//abs/**)",
        "Grep(not/there)",
        "Edit(*.lock)",
        "NotebookEdit(x[1].ipynb)",
        "Bash(rm *)",
        "Read(par(en).txt)",
    ];
    let list: Vec<String> = entries.iter().map(|entry| format!("'{entry}'")).collect();
    let list = list.join(", ");
    for key in ["allowed_tools", "disallowed_tools"] {
        let found = diagnostics("anthropic", &format!("claude: {{{key}: [{list}, pay]}}"));
        assert!(
            !found.iter().any(|line| line.contains(" error ")),
            "{key}: {found:#?}"
        );
    }
    let found = diagnostics("anthropic", "claude: {bash: {enabled: true}}");
    assert!(
        found
            .iter()
            .any(|line| line.contains(" note ") && line.contains("do not bind `Bash`")),
        "{found:#?}"
    );
}
