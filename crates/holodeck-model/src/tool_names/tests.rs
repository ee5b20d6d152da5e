//! Tests that a tool has one identity under all its names, and that allow and deny lists are exact.

use pretty_assertions::assert_eq;

use super::*;

fn agent(provider: &str, more: &str) -> Agent {
    let text = format!(
        "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n\
        embedding_provider: {{provider: hash}}\ntools:\n\
        - !vectorstore {{name: kb, description: d, source: docs}}\n\
        - !function {{name: web_search, description: d, command: cat}}\n\
        - !function {{name: Write, description: d, command: cat}}\n\
        - !mcp {{name: wiki, description: d, command: npx, is_retrieval: true}}\n\
        - !mcp {{name: wiki__admin, description: d, command: npx}}\n\
        - !mcp {{name: files, description: d, command: npx}}\n{more}\n"
    );
    serde_yaml::from_str(&text).unwrap()
}

fn names(provider: &str) -> ToolNames {
    ToolNames::of(&agent(provider, ""))
}

#[test]
fn a_tool_has_one_identity_under_all_its_names() {
    let claude = names("anthropic");
    for called in ["kb_search", "mcp__holodeck_tools__kb_search"] {
        let tool = claude.identify(called).unwrap();
        assert_eq!(tool.kind, ToolKind::Retrieval);
        assert_eq!(
            (&*tool.declared, &*tool.shown_to_model, &*tool.on_the_wire),
            ("kb", "kb_search", "mcp__holodeck_tools__kb_search")
        );
    }
    let openai = names("openai").identify("kb_search").unwrap();
    assert_eq!(
        (&*openai.shown_to_model, &*openai.on_the_wire),
        ("kb_search", "kb_search")
    );
}

#[test]
fn a_built_in_tool_keeps_its_name_where_the_yaml_has_a_tool_of_that_name() {
    let names = names("anthropic");
    let builtin = names.identify("Write").unwrap();
    assert_eq!(builtin.origin, ToolOrigin::BuiltIn);
    let own = names.identify("mcp__holodeck_tools__Write").unwrap();
    assert_eq!(own.origin, ToolOrigin::Declared);
    assert_eq!(own.shown_to_model, "mcp__holodeck_tools__Write");
    assert!(names.refers("Write", &own));
    assert!(
        !names.refers("Write", &builtin),
        "a rule for one must not cover the other"
    );
    assert!(names.matches(&Glob::new("*"), &builtin));
}

#[test]
fn the_kind_of_a_call_follows_from_its_identity() {
    for provider in ["anthropic", "openai"] {
        let names = names(provider);
        let kind = |called| names.identify(called).map(|tool| tool.kind);
        for (called, expected) in [
            ("kb_search", Some(ToolKind::Retrieval)),
            ("web_search", Some(ToolKind::Function)),
            ("mcp__wiki__lookup", Some(ToolKind::Retrieval)),
            ("mcp__wiki__admin__lookup", Some(ToolKind::Mcp)),
            ("mcp__files__kb_search", Some(ToolKind::Mcp)),
            ("mcp__wikis__lookup", Some(ToolKind::Mcp)),
        ] {
            assert_eq!(kind(called), expected, "{provider} {called}");
        }
    }
    assert_eq!(names("openai").identify("kb"), None);
    assert_eq!(
        names("anthropic").identify("Read").unwrap().kind,
        ToolKind::Builtin
    );
}

#[test]
fn names_are_exact() {
    for provider in ["anthropic", "openai"] {
        let names = names(provider);
        for (written, called, refers) in [
            ("kb", "kb_search", true),
            ("kb_search", "kb_search", true),
            ("mcp__holodeck_tools__kb_search", "kb_search", true),
            ("search", "kb_search", false),
            ("b", "kb_search", false),
            ("mcp__holodeck_tools__kb", "kb_search", false),
            ("search", "web_search", false),
            ("web", "web_search", false),
            ("lookup", "mcp__files__lookup", true),
            ("files__lookup", "mcp__files__lookup", true),
            ("mcp__files__lookup", "mcp__files__lookup", true),
            ("files", "mcp__files__lookup", true),
            ("mcp__files", "mcp__files__lookup", true),
            ("look", "mcp__files__lookup", false),
            ("file", "mcp__files__lookup", false),
            ("refund", "mcp__files__deny_refund", false),
            ("admin__lookup", "mcp__wiki__admin__lookup", false),
            ("wiki__admin", "mcp__wiki__admin__lookup", true),
            ("wiki", "mcp__wiki__admin__lookup", false),
            ("web_search", "mcp__files__web_search", false),
            ("a.look", "mcp__files__a_look", true),
            ("Lookup", "mcp__files__lookup", false),
        ] {
            let tool = names.identify(called).unwrap();
            assert_eq!(
                names.refers(written, &tool),
                refers,
                "{provider} {written} {called}"
            );
        }
    }
}

#[test]
fn a_name_of_a_server_is_resolved_once_it_has_listed_its_tools() {
    let mut names = names("openai");
    assert_eq!(names.resolve("lookup"), NameMatch::Unlisted);
    assert_eq!(names.resolve("wiki__lookup"), NameMatch::Unlisted);
    assert_eq!(names.resolve("mcp__nothing__lookup"), NameMatch::Unknown);
    names.list("wiki", ["lookup", "edit.page"]);
    assert_eq!(names.resolve("wiki__lookup"), NameMatch::Known);
    assert_eq!(names.resolve("edit.page"), NameMatch::Known);
    assert_eq!(names.resolve("wiki__lokup"), NameMatch::Unknown);
    assert_eq!(names.resolve("lokup"), NameMatch::Unlisted);
    names.list("wiki__admin", ["lookup"]);
    names.list("files", []);
    assert_eq!(names.resolve("lokup"), NameMatch::Unknown);
    assert_eq!(names.suggest("lokup").as_deref(), Some("lookup"));
    assert_eq!(
        names.resolve("lookup"),
        NameMatch::Ambiguous(vec![
            "mcp__wiki__admin__lookup".into(),
            "mcp__wiki__lookup".into()
        ])
    );
    let called = ["mcp__files__edit_page"];
    assert_eq!(names.ambiguous("edit.page", &called.into_iter()).len(), 2);
}

#[test]
fn namesakes_on_other_servers_are_found() {
    let names = names("openai");
    let all = [
        "mcp__wiki__lookup",
        "mcp__wiki__admin__lookup",
        "mcp__wiki__admin__look",
        "lookup",
    ];
    let namesakes = |called: &str| names.namesakes(&names.identify(called).unwrap(), all.into_iter());
    assert_eq!(namesakes("mcp__wiki__lookup"), ["mcp__wiki__admin__lookup"]);
    assert_eq!(namesakes("mcp__wiki__admin__lookup"), ["mcp__wiki__lookup"]);
    assert!(namesakes("mcp__wiki__admin__look").is_empty());
}

#[test]
fn names_that_are_too_long_are_still_recognised() {
    let own = "long_".repeat(20);
    let mut names = names("openai");
    let shown = shorten_tool_name(mcp_tool_name("files", &own));
    assert_eq!(shown.len(), LONGEST);
    names.list("files", [shown.as_str()]);
    let tool = names.identify(&shown).unwrap();
    for written in [own.clone(), format!("files__{own}"), format!("mcp__files__{own}")] {
        assert!(names.refers(&written, &tool), "{written}");
        assert_eq!(names.resolve(&written) != NameMatch::Unknown, true, "{written}");
    }
    assert!(!names.refers(&format!("{own}x"), &tool));
    assert_ne!(
        shorten_tool_name(format!("{shown}a")),
        shorten_tool_name(format!("{shown}b"))
    );
}

#[test]
fn server_keys_are_unique_and_valid() {
    let mut taken = reserved_server_keys();
    let keys = ["files", "constructor", "__x", "holodeck_tools"].map(|name| server_key(name, &mut taken));
    assert_eq!(keys, ["files", "mcp_constructor", "mcp_x", "holodeck_tools_2"]);
    assert_eq!(mcp_tool_name("my server", "a.b/ü"), "mcp__my_server__a_b__");
}

fn access(provider: &str, more: &str) -> (ToolNames, ToolAccess) {
    let agent = agent(provider, more);
    (ToolNames::of(&agent), ToolAccess::of(&agent))
}

fn allows(access: &(ToolNames, ToolAccess), called: &str) -> bool {
    access.1.allows_call(&access.0, called)
}

#[test]
fn a_declared_name_denies_the_tool_on_every_provider() {
    for (provider, block) in [
        ("anthropic", "claude: {disallowed_tools: [kb, files, lookup]}"),
        ("openai", "openai: {disallowed_tools: [kb, files, lookup]}"),
        (
            "openai",
            "openai: {permissions: {disallowed_tools: [kb, files, lookup]}}",
        ),
    ] {
        let access = access(provider, block);
        for (called, allowed) in [
            ("kb_search", false),
            ("mcp__holodeck_tools__kb_search", provider == "openai"),
            ("web_search", true),
            ("mcp__files__anything", false),
            ("mcp__wiki__lookup", false),
            ("mcp__wiki__lookups", true),
        ] {
            if called.contains("holodeck") && provider == "openai" {
                continue;
            }
            assert_eq!(allows(&access, called), allowed, "{block} {called}");
        }
        assert_eq!(access.1.of_server(&access.0, "files"), ServerAccess::None);
        assert_eq!(access.1.of_server(&access.0, "wiki"), ServerAccess::Some);
    }
}

#[test]
fn an_allowlist_leaves_only_what_it_names() {
    for (provider, block) in [
        ("anthropic", "claude: {allowed_tools: [kb, wiki__lookup]}"),
        (
            "openai",
            "openai: {permissions: {allowed_tools: [kb, wiki__lookup]}}",
        ),
    ] {
        let access = access(provider, block);
        for (called, allowed) in [
            ("kb_search", true),
            ("web_search", false),
            ("mcp__wiki__lookup", true),
            ("mcp__wiki__edit", false),
            ("mcp__files__lookup", false),
        ] {
            assert_eq!(allows(&access, called), allowed, "{block} {called}");
        }
        assert_eq!(access.1.of_server(&access.0, "files"), ServerAccess::None);
        assert_eq!(access.1.of_server(&access.0, "wiki"), ServerAccess::Some);
    }
    let read = access("anthropic", "claude: {allowed_tools: [Read, 'Bash(git *)']}");
    for (called, allowed) in [
        ("Read", true),
        ("Bash", true),
        ("Glob", false),
        ("kb_search", false),
        ("mcp__files__read", false),
    ] {
        assert_eq!(allows(&read, called), allowed, "{called}");
    }
    assert_eq!(read.1.of_server(&read.0, "files"), ServerAccess::None);
}

#[test]
fn unknown_names_in_lists_are_reported_with_a_suggestion() {
    let block = "claude: {allowed_tools: [kb, kbb, 'Bash(git *)', 'Read(docs/**)', 'WebFetch(domain:x)', mcp__files, lookup], disallowed_tools: [Wirte], \
                 agents: {helper: {description: d, prompt: p, tools: [web_serch]}}}";
    let (mut names, access) = access("anthropic", block);
    let messages = |names: &ToolNames| -> Vec<String> {
        access.unresolved(names).iter().map(ToString::to_string).collect()
    };
    let pattern = "`WebFetch(domain:x)` in `claude.allowed_tools` cannot be enforced: only `Bash` and tools that use files \
                   support a pattern there; remove the pattern";
    assert_eq!(messages(&names), [pattern], "a server may have the others");
    assert!(access.needs_lists(&names));
    for server in ["wiki", "files"] {
        names.list(server, ["lookup"]);
    }
    names.list("wiki__admin", []);
    assert!(!access.needs_lists(&names));
    assert_eq!(
        messages(&names),
        [
            "`kbb` in `claude.allowed_tools` is not a tool of this agent; did you mean `kb`?",
            pattern,
            "`lookup` in `claude.allowed_tools` is the name of several tools: mcp__files__lookup, mcp__wiki__lookup",
            "`Wirte` in `claude.disallowed_tools` is not a tool of this agent; did you mean `Write`?",
            "`web_serch` in `claude.agents.helper.tools` is not a tool of this agent; did you mean `web_search`?",
        ]
    );
}
