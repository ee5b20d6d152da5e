//! Specialist agents in Markdown files, and tasks for them.

use std::{fmt::Write as _, fs, path::Path};

use holodeck_model::{AgentDoc, Code, MemoryFiles, Tier};
use holodeck_yaml::{Load, load_agent_doc, load_routing_cases};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::support::{FixtureFiles, render, root};

fn load(path: &str) -> (Option<AgentDoc>, Load) {
    load_agent_doc(Path::new(path), false, &FixtureFiles)
}

fn load_text(path: &str, text: impl Into<Vec<u8>>) -> (Option<AgentDoc>, Load) {
    let files = MemoryFiles::new().with(path, text);
    load_agent_doc(Path::new(path), false, &files)
}

fn files_of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names
        .filter(|name| name.to_lowercase().ends_with(".md"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    files.sort();
    files
}

/// Every fixture with its diagnostics.
#[test]
fn files_of_agents() {
    let mut text = String::new();
    for path in files_of("agents")
        .into_iter()
        .chain(files_of("agents/.claude/agents"))
    {
        let (doc, load) = load(&path);
        let loaded = if doc.is_some() { "loads" } else { "is not used" };
        writeln!(text, "# {path} {loaded}\n{}", render(&load.diagnostics)).unwrap();
        for diagnostic in &load.diagnostics {
            let place = diagnostic.primary.as_ref().unwrap();
            if let Some(source) = load.sources.get(&place.path) {
                assert!(
                    source.get(place.span.start..place.span.end).is_some(),
                    "{diagnostic:?}"
                );
            }
        }
    }
    insta::assert_snapshot!("agent_docs", text);
}

#[test]
fn tools_may_be_a_string_with_commas() {
    let doc = load("agents/full.md").0.unwrap();
    assert_eq!(
        doc.tools.unwrap(),
        ["Read", "Grep", "git", "Bash(npm run *, yarn *)"]
    );
    assert_eq!(doc.places.tools.len(), 4);
}

#[test]
fn all_parts_of_a_file_are_read() {
    let doc = load("agents/full.md").0.unwrap();
    assert_eq!((&*doc.name, &*doc.description), ("full", "Reviews code"));
    assert_eq!((doc.tier, doc.core), (Tier::Strategist, true));
    assert_eq!(doc.triggers, ["review", "code review", "pull request", "diff"]);
    assert_eq!(doc.commands, ["review"]);
    assert_eq!(doc.globs, ["*.rs", "*.{ts,tsx}"]);
    assert_eq!(doc.boosts.unwrap().keywords, ["urgent"]);
    assert_eq!(doc.mindset.as_deref(), Some("Read first."));
    assert_eq!(doc.focus_areas[0].keywords, ["logic", "edge cases"]);
    assert_eq!(
        (doc.key_actions, doc.outputs),
        (
            vec!["Read".to_owned(), "Report".to_owned()],
            vec!["Findings".to_owned()]
        )
    );
    assert_eq!(
        (doc.will, doc.will_not),
        (vec!["Comment".to_owned()], vec!["Merge".to_owned()])
    );
    assert_eq!(doc.other, "An introduction.");
    assert_eq!(doc.places.name.unwrap().line, 2);
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted_and_the_file_gives_the_name() {
    let doc = load("agents/named-by-file.md").0.unwrap();
    assert_eq!(doc.name, "named-by-file");
    assert_eq!(doc.body, "Line one.\nLine two.");
    assert_eq!(doc.tools, None);
}

#[test]
fn an_empty_list_of_tools_is_none_and_an_absent_one_all() {
    assert_eq!(load("agents/least.md").0.unwrap().tools, Some(Vec::new()));
    let tools = |tools: &str| {
        let text = format!("---\nname: a\ndescription: b\n{tools}\n---\n");
        load_text("a.md", text).0.unwrap().tools
    };
    assert_eq!(tools(""), None);
    assert_eq!(tools("tools:"), None);
    assert_eq!(tools("tools: '*'"), None);
    assert_eq!(tools("tools: ''"), Some(Vec::new()));
}

#[test]
fn core_agents_are_strategists_unless_the_file_says_otherwise() {
    let tier = |core: bool, text: &str| {
        let text = format!("---\nname: a\ndescription: b\n{text}\n---\n");
        let files = MemoryFiles::new().with("a.md", text);
        let doc = load_agent_doc(Path::new("a.md"), core, &files).0.unwrap();
        (doc.core, doc.tier)
    };
    assert_eq!(tier(true, ""), (true, Tier::Strategist));
    assert_eq!(tier(false, ""), (false, Tier::HeuristicWrapper));
    assert_eq!(tier(true, "core: false"), (false, Tier::HeuristicWrapper));
    assert_eq!(tier(false, "core: yes"), (true, Tier::Strategist));
    assert_eq!(
        tier(true, "tier: heuristic-wrapper"),
        (true, Tier::HeuristicWrapper)
    );
}

#[test]
fn broken_yaml_has_a_line_and_no_agent() {
    let (doc, load) = load("agents/broken-yaml.md");
    assert!(doc.is_none());
    let place = load.diagnostics[0].primary.as_ref().unwrap();
    // Where the quote that is not closed was opened.
    assert_eq!(place.line, 3);
}

#[test]
fn files_of_claude_code_load_unchanged() {
    let doc = load("agents/.claude/agents/plain.md").0.unwrap();
    assert_eq!(load("agents/.claude/agents/plain.md").1.diagnostics, []);
    assert_eq!(doc.body, "You plan releases.\n\n## Steps\n1. Read the changelog");
    assert_eq!(doc.model, None);
    // Its description needs quotes in YAML, and other programs read it all the same.
    let doc = load("agents/.claude/agents/reviewer.md").0.unwrap();
    assert_eq!(doc.model.as_deref(), Some("opus"));
    assert!(
        doc.description
            .ends_with("assistant: \"Let me review\"</example>"),
        "{}",
        doc.description
    );
    // Elsewhere too, except for keys that only Claude Code has.
    let text = fs::read_to_string(root().join("agents/.claude/agents/reviewer.md")).unwrap();
    let elsewhere = load_text("agents/reviewer.md", text.replace("newKey: something\n", ""));
    assert_eq!(elsewhere.0.unwrap().description, doc.description);
}

#[test]
fn a_text_that_needs_quotes_is_read_to_the_end_of_its_line_with_a_warning() {
    let texts = [
        "Use this: when asked. Examples: <example>user: \"x\"</example>",
        "ends with:",
        "*Important* words",
        "\"Quoted\" and: more",
        "> a quotation: here",
        "- a dash: and more",
        "@team `code`: [a, b",
        "ä: ü – “x”: y # z",
    ];
    for (text, line_end) in texts.iter().flat_map(|text| [(text, "\n"), (text, "\r\n")]) {
        let file = format!(
            "---\nname: reviewer\ndescription: {text}\ntools: [Read, Grep]\nmodel: inherit\ntriggers:\n  - a: b\n---\n\nYou do it.\n"
        )
        .replace("triggers:\n  - a: b", "triggers:\n  - a b")
        .replace('\n', line_end);
        for path in ["agents/a.md", ".claude/agents/a.md"] {
            let (doc, load) = load_text(path, file.clone());
            let doc = doc.unwrap_or_else(|| panic!("{text}: {}", render(&load.diagnostics)));
            assert_eq!(doc.description, *text);
            assert_eq!(doc.tools, Some(vec!["Read".to_owned(), "Grep".to_owned()]));
            assert_eq!(doc.triggers, ["a b"]);
            assert_eq!(
                render(&load.diagnostics),
                format!(
                    "{path}:3:14: warning[HD0603]: `description` needs quotes in YAML; it is read as text up to the end \
                     of its line\n    hint: put the text in quotes, so that every program reads it alike; `validate --fix` writes them\n"
                )
            );
        }
    }
}

#[test]
fn lists_and_quotes_that_are_broken_stay_errors_at_their_place() {
    for (line, place) in [
        ("tools: [Read, Grep", "4:8"),
        ("tools: {a: b", "4:8"),
        ("model: \"opus", "4:8"),
        ("  tools: Read", "4:8"),
    ] {
        let file = format!("---\nname: broken\ndescription: Use: this.\n{line}\n---\n\nText.\n");
        for path in ["agents/a.md", ".claude/agents/a.md"] {
            let (doc, load) = load_text(path, file.clone());
            let text = render(&load.diagnostics);
            if line.starts_with(' ') {
                // An indented line continues the text.
                assert_eq!(doc.unwrap().description, "Use: this. tools: Read");
                continue;
            }
            assert!(doc.is_none(), "{line}");
            assert!(
                text.contains("error[HD0603]: the front matter is not YAML"),
                "{place}: {text}"
            );
        }
    }
}

#[test]
fn front_matter_that_is_yaml_draws_nothing() {
    for description in [
        "\"Use this: when asked.\"",
        "'Use: this'",
        "|\n  Use: this\n  and that",
        "Use this.",
        ">-\n  a: b",
    ] {
        let file = format!("---\nname: quoted\ndescription: {description}\ntools: Read\n---\n\nText.\n");
        let (doc, load) = load_text("agents/a.md", file);
        assert_eq!((doc.is_some(), load.diagnostics), (true, vec![]), "{description}");
    }
}

#[test]
fn variables_are_not_replaced() {
    let text = "---\nname: a\ndescription: uses ${HOME} and $${x}\n---\n";
    assert_eq!(
        load_text("a.md", text).0.unwrap().description,
        "uses ${HOME} and $${x}"
    );
}

#[test]
fn a_large_file_is_not_read() {
    let mut text = b"---\nname: a\ndescription: b\n---\n".to_vec();
    text.resize(1024 * 1024 + 1, b'x');
    let (doc, load) = load_text("a.md", text);
    assert!(doc.is_none());
    assert_eq!(load.diagnostics[0].code, Code::FileTooLarge);
}

/// The task, the expected agent and the command of a row.
type Row = (String, Option<String>, Option<String>);

fn cases(name: &str, text: &str) -> (Vec<Row>, String) {
    let files = MemoryFiles::new().with(name, text);
    let (cases, load) = load_routing_cases(Path::new(name), &files);
    let cases = cases
        .into_iter()
        .map(|case| (case.task, case.expected_agent, case.command));
    (cases.collect(), render(&load.diagnostics))
}

#[test]
fn tasks_are_read_from_yaml_csv_and_json_lines() {
    let expected = [
        ("a, b".to_owned(), Some("x".to_owned()), Some("review".to_owned())),
        ("c".to_owned(), None, None),
    ];
    for (name, text) in [
        (
            "t.yaml",
            "- {task: 'a, b', expected_agent: x, command: review}\n- {task: c, expected_agent: null}\n",
        ),
        ("t.csv", "task,expected_agent,command\n\"a, b\",x,review\nc,,\n"),
        (
            "t.jsonl",
            "{\"task\": \"a, b\", \"expected_agent\": \"x\", \"command\": \"review\"}\n{\"task\": \"c\", \"expected_agent\": null}\n",
        ),
    ] {
        assert_eq!(cases(name, text), (expected.to_vec(), String::new()), "{name}");
    }
}

#[test]
fn wrong_tasks_are_reported_with_their_places() {
    let mut text = String::new();
    for (name, content) in [
        ("no-key.yaml", "- {task: a}\n"),
        ("unknown.yaml", "- {task: a, expected_agent: x, comand: y}\n"),
        ("blank.yaml", "- {task: ' ', expected_agent: x}\n"),
        ("map.yaml", "task: a\n"),
        ("empty.yaml", "[]\n"),
        ("nothing.yaml", ""),
        ("syntax.yaml", "- {task: [\n"),
        ("column.csv", "task,agent\na,b\n"),
        ("empty.csv", ""),
        ("no-task.csv", "expected_agent\nx\n"),
        ("line.jsonl", "{\"task\": \"a\"\n"),
        ("no-key.jsonl", "{\"task\": \"a\"}\n"),
        ("t.xlsx", "x"),
    ] {
        let (found, diagnostics) = cases(name, content);
        assert_eq!(found, [], "{name}");
        assert!(!diagnostics.is_empty(), "{name}");
        writeln!(text, "# {name}\n{diagnostics}").unwrap();
    }
    let (found, load) = load_routing_cases(Path::new("none.yaml"), &MemoryFiles::new());
    assert!(found.is_empty() && load.has_errors());
    insta::assert_snapshot!("routing_cases", text);
}

proptest! {
    #[test]
    fn any_text_is_an_agent_or_a_problem(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "---\n", "name: a\n", "description: b: c\n", "tools: a, (b,\n", "## Triggers\n", "- ", "**Will:**", "## Boundaries\n",
            "### Will Not\n", "```\n", "\r\n", "\u{feff}", ": ", "#", "é\u{0301}", "\0", "[", "{", "'", "\"", "boosts: ", "  ",
        ]), 0..24),
        is_claude in any::<bool>(),
    ) {
        let path = if is_claude { ".claude/agents/x.md" } else { "x.md" };
        let (doc, load) = load_text(path, pieces.concat());
        prop_assert!(doc.is_some() || !load.diagnostics.is_empty());
        prop_assert!(doc.is_none() || !load.has_errors());
        if let Some(doc) = doc {
            prop_assert!(!doc.name.is_empty() && !doc.description.is_empty());
        }
    }
}
