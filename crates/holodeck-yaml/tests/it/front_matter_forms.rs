//! Front matter as editors, other systems and other programs write it: each form is read, or refused by name with its line and a
//! hint.

use std::path::Path;

use holodeck_model::{AgentDoc, Diagnostic, Env, MemoryFiles};
use holodeck_yaml::{load_agent, load_agent_doc};
use pretty_assertions::assert_eq;

const PLAIN: &str = "---\nname: reviewer\ndescription: Reviews code\n---\nYou review.\n";

fn load(text: impl Into<Vec<u8>>) -> (Option<AgentDoc>, Vec<Diagnostic>) {
    let files = MemoryFiles::new().with("agents/reviewer.md", text);
    let (doc, load) = load_agent_doc(Path::new("agents/reviewer.md"), false, &files);
    (doc, load.diagnostics)
}

fn described(description: &str) -> String {
    PLAIN.replace(" Reviews code", description)
}

#[test]
fn every_form_of_lines_and_fences_is_read_alike() {
    let utf16 = [0xFF, 0xFE]
        .into_iter()
        .chain(PLAIN.encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let texts = [
        PLAIN.to_owned(),
        format!("\u{feff}{PLAIN}"),
        format!("\u{200b}{PLAIN}"),
        format!("\u{feff}\n\n{PLAIN}"),
        PLAIN.replace('\n', "\r\n"),
        PLAIN.replace('\n', "\r"),
        PLAIN.replace('\n', "\r\r\n"),
        format!("\u{feff}{}", PLAIN.replace('\n', "\r")),
        PLAIN.replace("---\n", "---  \t\n"),
        PLAIN.replace("---\n", "-----\n"),
        PLAIN.replace("---\nYou", "...\nYou"),
        PLAIN.replace("---\nYou", "... \r\nYou"),
        PLAIN.replace(": ", ":\t"),
        PLAIN.replace("---\nname", "---\n# note\n\nname"),
        PLAIN.replace("---\nYou", "# note\n---\nYou"),
        PLAIN.replace("Reviews code", "\"Reviews code\""),
        PLAIN.replace("Reviews code", "'Reviews code' # note"),
        PLAIN.replace(" Reviews code", " >\n  Reviews\n  code"),
    ];
    let all = texts.into_iter().map(String::into_bytes).chain([utf16]);
    for text in all {
        let shown = String::from_utf8_lossy(&text).into_owned();
        let (doc, found) = load(text);
        assert_eq!(found, [], "{shown:?}");
        let doc = doc.unwrap();
        assert_eq!(
            (doc.name.as_str(), doc.description.trim()),
            ("reviewer", "Reviews code"),
            "{shown:?}"
        );
        assert_eq!(doc.body.trim(), "You review.", "{shown:?}");
    }
}

#[test]
fn a_text_that_needs_quotes_is_read_with_a_warning_also_between_other_line_ends() {
    for description in [
        "Use when: asked",
        "[beta] Reviews code",
        "{draft} Reviews code, all of it",
        "[a] [b]: c",
        "\"Quoted\" and more",
        "@me reviews",
        "*all* of it",
        "Use it for:",
    ] {
        for end in ["\n", "\r\n", "\r"] {
            let (doc, found) = load(described(&format!(" {description}")).replace('\n', end));
            let [warning] = found.as_slice() else {
                panic!("{description}: {found:#?}")
            };
            assert!(
                warning.message.contains("`description` needs quotes"),
                "{warning:?}"
            );
            assert_eq!(doc.unwrap().description, description);
        }
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_line_and_a_hint() {
    for (text, line, message, hint) in [
        ("---\nname: a\ndescription: b\nYou", 1, "does not end", "`---`"),
        ("---\r\rname: a\rYou", 1, "does not end", "`---`"),
        ("---\n---\nYou", 1, "is empty", "`description`"),
        ("---\n# note\n...\nYou", 1, "is empty", "`description`"),
        (
            "---\nname: a\ndescription:\u{a0}b\n---\n",
            3,
            "`:` is missing",
            "U+00A0",
        ),
        (
            "---\nname: a\ndescription: b\nand more\n---\n",
            4,
            "`:` is missing",
            "indented",
        ),
        (
            "---\nname: a\ntools:\n\t- Read\n---\n",
            4,
            "a tab is used",
            "spaces",
        ),
        (
            "---\nname: a\nname: b\n---\n",
            3,
            "appears twice",
            "keep one of them",
        ),
        (
            "---\nname:a\ndescription:b\n---\n",
            1,
            "not a mapping",
            "one key a line",
        ),
        ("+++\nname = \"a\"\n+++\n", 1, "is not an agent", "TOML"),
        ("--- yaml\nname: a\n---\n", 1, "is not an agent", "nothing else"),
        (
            "<!-- x -->\n---\nname: a\n---\n",
            1,
            "is not an agent",
            "begin it with",
        ),
        (
            "---\ndescription: a b\ntools: [Read] Grep\n---\n",
            3,
            "not YAML",
            "",
        ),
    ] {
        let (doc, found) = load(text);
        assert!(doc.is_none(), "{text:?}");
        let first = &found[0];
        assert!(first.message.contains(message), "{text:?}: {first:?}");
        assert_eq!(first.primary.as_ref().unwrap().line, line, "{text:?}: {first:?}");
        let help = first.help.as_deref().unwrap_or_default();
        assert!(!help.is_empty() && help.contains(hint), "{text:?}: {first:?}");
    }
}

#[test]
fn a_prompt_whose_front_matter_does_not_end_is_named() {
    let warnings = |prompt: &str| {
        let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n";
        let files = MemoryFiles::new().with("agent.yaml", yaml).with("p.md", prompt);
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        assert!(load.agent.is_some(), "{prompt:?}: {:?}", load.diagnostics);
        load.diagnostics
    };
    for unclosed in [
        "---\nversion: 2\nBe kind.\n",
        "\u{feff}---\r\n\r\nversion: 2\r\nBe kind.",
    ] {
        let found = warnings(unclosed);
        assert!(
            found.iter().any(|found| found.message.contains("does not end")),
            "{unclosed:?}: {found:?}"
        );
    }
    for fine in [
        "---\nversion: 2\n---\nBe kind.\n",
        "---\nversion: 2\n...\nBe kind.\n",
        "---\rversion: 2\r---\rBe kind.\r",
        "---\n\nBe kind: always.\n",
        "Be kind.\n---\nversion: 2\n",
    ] {
        assert_eq!(warnings(fine), [], "{fine:?}");
    }
}
