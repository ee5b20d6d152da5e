//! Decisions about calls, as configured in files.

use std::{fmt::Write as _, path::Path};

use holodeck_model::{
    ApprovalContext, ApprovalPolicy, ApprovalPriority, Env, MemoryFiles, Occasion, OnApprovalTimeout,
    PolicyDecision, Presence, SideEffectGate,
};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;

const OCCASIONS: [Occasion; 4] = [Occasion::Test, Occasion::Run, Occasion::Serve, Occasion::Chat];
const PRESENCES: [Presence; 2] = [Presence::Person, Presence::None];

/// The policy of an agent with one tool of each origin: `lookup`, server `files`, and `blocks`.
fn policy(blocks: &str) -> ApprovalPolicy {
    let text = format!(
        "name: a\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Hi}}\n\
        embedding_provider: {{provider: hash}}\ntools:\n\
        - {{type: function, name: lookup, description: L., command: cat, parameters: {{}}}}\n\
        - {{type: function, name: delete_all, description: D., command: cat, parameters: {{}}}}\n\
        - {{type: vectorstore, name: kb, description: K., source: .}}\n\
        - {{type: mcp, name: files, description: F., command: node}}\n\
        - {{type: mcp, name: files__old, description: F., command: node}}\n{blocks}\n"
    );
    let files = MemoryFiles::new().with("agent.yaml", text);
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    ApprovalPolicy::new(&agent.config)
}

fn context(occasion: Occasion, presence: Presence) -> ApprovalContext {
    ApprovalContext {
        occasion,
        presence,
        side_effects: SideEffectGate::Open,
    }
}

fn word(decision: &PolicyDecision) -> &'static str {
    match decision {
        PolicyDecision::Approve => "approve",
        PolicyDecision::Reject { .. } => "reject",
        PolicyDecision::AskPerson { .. } => "ask",
    }
}

/// The decisions with and without a person; a test never has a person.
fn answers(policy: &ApprovalPolicy, tool: &str) -> (&'static str, &'static str) {
    let mut with_person = None;
    let mut unattended = None;
    for occasion in OCCASIONS {
        for presence in PRESENCES {
            let answer = word(&policy.decide(tool, context(occasion, presence)));
            let attended = presence == Presence::Person && occasion != Occasion::Test;
            let expected = if attended {
                &mut with_person
            } else {
                &mut unattended
            };
            assert_eq!(
                *expected.get_or_insert(answer),
                answer,
                "{tool} {occasion:?} {presence:?}"
            );
        }
    }
    (with_person.unwrap(), unattended.unwrap())
}

/// Every mode and `non_interactive` decision, for every origin of a tool.
#[test]
fn every_combination_without_a_rule() {
    let tools = [
        "mcp__holodeck_tools__lookup",
        "mcp__files__read_text",
        "Read",
        "Write",
        "Bash",
        "WebFetch",
    ];
    let mut table = String::new();
    for mode in ["", "manual", "acceptEdits", "acceptAll"] {
        for absent in ["reject", "approve"] {
            let mode_line = if mode.is_empty() {
                String::new()
            } else {
                format!("permission_mode: {mode}, ")
            };
            let policy = policy(&format!(
                "claude: {{{mode_line}bash: {{enabled: true}}, file_system: {{read: true, write: true}}}}\n\
                approvals: {{non_interactive: {absent}}}"
            ));
            writeln!(table, "mode: {mode:11} non_interactive: {absent}").unwrap();
            for tool in tools {
                let (person, unattended) = answers(&policy, tool);
                writeln!(table, "  {tool:24} person {person:8} unattended {unattended}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_rule_comes_before_origin_and_mode() {
    for mode in ["manual", "acceptEdits", "acceptAll"] {
        for (decision, expected) in [
            ("decision: approve", ("approve", "approve")),
            ("decision: reject", ("reject", "reject")),
            ("approver: human", ("ask", "reject")),
        ] {
            let policy = policy(&format!(
                "claude: {{permission_mode: {mode}}}\napprovals: {{rules: [{{tools: '*', {decision}}}]}}"
            ));
            for tool in [
                "mcp__holodeck_tools__lookup",
                "mcp__files__read",
                "Read",
                "Write",
                "lookup",
            ] {
                assert_eq!(answers(&policy, tool), expected, "{mode} {decision} {tool}");
            }
        }
    }
    let settled = policy("approvals: {non_interactive: approve, rules: [{tools: '*', approver: human}]}");
    assert_eq!(answers(&settled, "WebFetch"), ("ask", "approve"));
}

#[test]
fn the_first_matching_rule_decides() {
    let policy = policy(
        "approvals: {rules: [{tools: [read_*, search], decision: approve}, {tools: read_*, decision: reject}, {tools: ['*'], approver: human}]}",
    );
    assert_eq!(answers(&policy, "mcp__files__read_text").0, "approve");
    assert_eq!(answers(&policy, "mcp__files__write").0, "ask");
}

#[test]
fn rules_name_tools_by_any_of_their_names() {
    let rejects = |glob: &str, tool: &str| {
        let policy = policy(&format!(
            "approvals: {{rules: [{{tools: '{glob}', decision: reject}}]}}"
        ));
        answers(&policy, tool).0 == "reject"
    };
    for (glob, tool, fits) in [
        ("lookup", "mcp__holodeck_tools__lookup", true),
        ("mcp__holodeck_tools__*", "mcp__holodeck_tools__lookup", true),
        ("look", "mcp__holodeck_tools__lookup", false),
        ("kb", "mcp__holodeck_tools__kb_search", true),
        ("files", "mcp__files__read", true),
        ("files", "mcp__files__old__read", false),
        ("files__old", "mcp__files__old__read", true),
        ("read", "mcp__files__old__read", true),
        ("read", "mcp__files__read", true),
        ("holodeck", "mcp__holodeck_tools__lookup", false),
        ("Bash", "Bash", true),
    ] {
        assert_eq!(rejects(glob, tool), fits, "{glob} {tool}");
    }
}

#[test]
fn a_policy_reports_whether_a_rule_names_a_tool() {
    let policy = policy("approvals: {rules: [{tools: [Re*, files], decision: reject}]}");
    for (tool, named) in [("Read", true), ("mcp__files__x", true), ("Grep", false)] {
        assert_eq!(policy.has_rule_for(tool), named, "{tool}");
    }
}

/// For Claude, both the name on the wire and the name in events identify the tool of the YAML.
#[test]
fn rules_reach_a_tool_by_each_of_its_names() {
    for mode in ["", "claude: {permission_mode: acceptAll}\n"] {
        for (decision, expected) in [("reject", "reject"), ("approve", "approve")] {
            for written in ["kb", "kb_search", "mcp__holodeck_tools__kb_search", "kb*"] {
                let policy = policy(&format!(
                    "{mode}approvals: {{rules: [{{tools: '{written}', decision: {decision}}}]}}"
                ));
                for called in ["kb_search", "mcp__holodeck_tools__kb_search"] {
                    let (with_person, unattended) = answers(&policy, called);
                    assert_eq!(
                        (with_person, unattended),
                        (expected, expected),
                        "{mode}{written} {called}"
                    );
                }
                let (_, other) = answers(&policy, "mcp__holodeck_tools__lookup");
                assert_eq!(other, "approve", "{written}");
            }
        }
    }
}

#[test]
fn other_providers_have_no_built_in_tools() {
    let text = "name: a\nmodel: {provider: ollama, name: m}\ninstructions: {inline: Hi}\ntools:\n\
        - {type: function, name: Bash, description: L., command: cat, parameters: {}}\nclaude: {permission_mode: manual}\n";
    let files = MemoryFiles::new().with("agent.yaml", text);
    let agent = load_agent(Path::new("agent.yaml"), &Env::empty(), &files)
        .agent
        .unwrap();
    let policy = ApprovalPolicy::new(&agent.config);
    let in_a_test = ApprovalContext {
        side_effects: SideEffectGate::Closed,
        ..context(Occasion::Test, Presence::None)
    };
    assert_eq!(policy.decide("Bash", in_a_test), PolicyDecision::Approve);
}

#[test]
fn tests_withhold_side_effects_despite_other_settings() {
    let policy = policy(
        "claude: {permission_mode: acceptAll, bash: {enabled: true}}\napprovals: {rules: [{tools: '*', decision: approve}]}",
    );
    for tool in ["Bash", "Write", "Edit", "MultiEdit", "NotebookEdit"] {
        for occasion in OCCASIONS {
            for side_effects in [SideEffectGate::Open, SideEffectGate::Closed] {
                let context = ApprovalContext {
                    occasion,
                    presence: Presence::None,
                    side_effects,
                };
                let withheld = occasion == Occasion::Test && side_effects == SideEffectGate::Closed;
                let expected = if withheld { "reject" } else { "approve" };
                assert_eq!(
                    word(&policy.decide(tool, context)),
                    expected,
                    "{tool} {context:?}"
                );
            }
        }
    }
    let closed = ApprovalContext {
        occasion: Occasion::Test,
        presence: Presence::None,
        side_effects: SideEffectGate::Closed,
    };
    assert_eq!(word(&policy.decide("Read", closed)), "approve");
}

#[test]
fn the_blocks_enable_tools() {
    let enabled =
        |claude: &str, tool: &str| answers(&policy(&format!("claude: {{{claude}}}")), tool).1 == "approve";
    for (claude, tool, on) in [
        ("bash: {enabled: true}", "Bash", true),
        ("bash: {enabled: false}", "Bash", false),
        ("file_system: {read: true}", "Grep", true),
        ("file_system: {read: true}", "Write", false),
        ("file_system: {edit: true}", "NotebookEdit", true),
        ("web_search: true", "WebSearch", true),
        ("web_search: true", "WebFetch", false),
        ("subagents: {enabled: true}", "Agent", true),
        ("subagents: {max_parallel: 2}", "Agent", false),
        (
            "subagents: {max_parallel: 2}, agents: {a: {description: A., prompt: P.}}",
            "Task",
            true,
        ),
        (
            "bash: {enabled: true}, web_search: true, allowed_tools: [WebSearch]",
            "Bash",
            false,
        ),
        (
            "agents: {a: {description: A., prompt: P., tools: [WebFetch]}}",
            "Agent",
            true,
        ),
        (
            "agents: {a: {description: A., prompt: P., tools: [WebFetch]}}",
            "WebFetch",
            true,
        ),
        (
            "subagents: {enabled: false}, agents: {a: {description: A., prompt: P., tools: [WebFetch]}}",
            "WebFetch",
            false,
        ),
    ] {
        assert_eq!(enabled(claude, tool), on, "{claude} {tool}");
    }
}

#[test]
fn own_tools_need_no_approval_unless_a_rule_names_them() {
    let rest = |rules: &str| {
        let policy = policy(rules);
        let names = ["lookup", "mcp__holodeck_tools__delete_all"];
        let free = names.into_iter().filter(|name| !policy.has_rule_for(name));
        free.map(|name| name.trim_start_matches("mcp__holodeck_tools__"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(rest(""), "lookup delete_all");
    assert_eq!(
        rest("approvals: {rules: [{tools: 'delete_*', approver: human}]}"),
        "lookup"
    );
    assert_eq!(
        rest("approvals: {rules: [{tools: mcp__holodeck_tools__lookup, decision: approve}]}"),
        "delete_all"
    );
    assert_eq!(rest("approvals: {rules: [{tools: '*', decision: approve}]}"), "");
}

#[test]
fn questions_have_a_priority() {
    let asked = |rule: &str, tool: &str| {
        let policy = policy(&format!(
            "approvals: {{rules: [{{tools: '*', approver: human{rule}}}]}}"
        ));
        match policy.decide(tool, context(Occasion::Chat, Presence::Person)) {
            PolicyDecision::AskPerson { priority } => priority,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asked("", "mcp__files__Delete_rows"), ApprovalPriority::High);
    assert_eq!(asked("", "batch_insert"), ApprovalPriority::High);
    assert_eq!(asked("", "update_row"), ApprovalPriority::Medium);
    assert_eq!(asked("", "mcp__files__read"), ApprovalPriority::Low);
    assert_eq!(
        asked(", priority: high", "mcp__files__read"),
        ApprovalPriority::High
    );
}

#[test]
fn reasons_say_what_to_do() {
    let closed = ApprovalContext {
        occasion: Occasion::Test,
        presence: Presence::None,
        side_effects: SideEffectGate::Closed,
    };
    let reasons: Vec<PolicyDecision> = vec![
        policy("").decide("Bash", closed),
        policy("").decide("WebFetch", closed),
        policy("claude: {permission_mode: manual}").decide("WebFetch", closed),
        policy("approvals: {rules: [{tools: WebFetch, decision: reject}]}").decide("WebFetch", closed),
    ];
    insta::assert_debug_snapshot!(reasons);
}

#[test]
fn the_time_a_person_has() {
    let seconds = |block: &str| policy(block).timeout().map(|time| time.as_secs());
    assert_eq!(seconds(""), Some(300));
    assert_eq!(seconds("approvals: {}"), Some(300));
    assert_eq!(seconds("approvals: {timeout_seconds: 5}"), Some(5));
    assert_eq!(seconds("approvals: {timeout_seconds: null}"), None);
    let late = policy("approvals: {on_timeout: terminate}").on_timeout();
    assert_eq!(late, OnApprovalTimeout::Terminate);
}
