//! Every form of front matter in every place that has a text: it is read, or named with its file and line, and no text is
//! dropped without a word.

use std::path::Path;

use holodeck_model::{Diagnostic, Env, MemoryFiles};
use holodeck_yaml::{load_agent, load_agent_doc, load_skill};
use pretty_assertions::assert_eq;

/// A form of front matter: `@` is the place of its fields.
struct Form {
    text: &'static str,
    is_read: bool,
}

const fn read(text: &'static str) -> Form {
    Form { text, is_read: true }
}

const fn named(text: &'static str) -> Form {
    Form { text, is_read: false }
}

const FORMS: &[Form] = &[
    read("---\n@\n---\nBe kind.\n"),
    read("---\n@\n...\nBe kind.\n"),
    read("-----\n@\n---  \t\nBe kind."),
    read("\n\n---\n@\n---\nBe kind.\n"),
    read("---\n\n# note\n@\n\n---\n\n\nBe kind.\n\n"),
    named("---\n@\nBe kind.\n"),
    named("---\n# note\n@\n\nBe kind.\n"),
    named("--- yaml\n@\n---\nBe kind.\n"),
    named("---yaml\n@\n---\nBe kind.\n"),
    named("--- # note\n@\n---\nBe kind.\n"),
    named("+++\nname = \"notes\"\n+++\nBe kind.\n"),
    named("+++\n\n[extra]\nname = 1\n+++\nBe kind.\n"),
    named("+++\nname = \"notes\"\nBe kind.\n"),
    named(";;;\n{\"name\": \"notes\"}\n;;;\nBe kind.\n"),
    named(";;;\n{\"name\": \"notes\"}\nBe kind.\n"),
];

const BEGINS: [&str; 3] = ["", "\u{feff}", "\u{200b}"];
const LINE_ENDS: [&str; 3] = ["\n", "\r\n", "\r"];

/// Each form with these fields, and the line on which it begins.
fn texts(fields: &str) -> Vec<(String, usize, bool)> {
    let mut texts = Vec::new();
    for form in FORMS {
        for begin in BEGINS {
            for end in LINE_ENDS {
                let text = format!("{begin}{}", form.text.replace('@', fields)).replace('\n', end);
                let blank = form.text.len() - form.text.trim_start_matches('\n').len();
                texts.push((text, blank + 1, form.is_read));
            }
        }
    }
    texts
}

fn lines_of(text: &str) -> Vec<String> {
    text.replace("\r\n", "\n")
        .split(['\n', '\r'])
        .map(str::to_owned)
        .collect()
}

/// Whether a finding names this file and line.
fn names(found: &[Diagnostic], file: &str, line: usize) -> bool {
    found.iter().any(|found| {
        let place = found.primary.as_ref();
        let is_there = place.is_some_and(|place| place.path.ends_with(file) && place.line == line);
        is_there && found.help.is_some()
    })
}

#[test]
fn a_prompt_is_its_body_or_its_front_matter_is_named() {
    for (text, line, is_read) in texts("version: 2") {
        let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n";
        let files = MemoryFiles::new()
            .with("agent.yaml", yaml)
            .with("p.md", text.as_str());
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        let agent = load
            .agent
            .unwrap_or_else(|| panic!("{text:?}: {:#?}", load.diagnostics));
        let prompt = agent.instructions.text.as_str();
        let comment = lines_of(&text).iter().position(|line| line.starts_with("# note"));
        if is_read {
            assert_eq!(prompt, "Be kind.", "{text:?}");
            // A heading of a prompt looks like a comment.
            assert_eq!(load.diagnostics.len(), usize::from(comment.is_some()), "{text:?}");
            let is_named = |line| names(&load.diagnostics, "p.md", line + 1);
            assert!(comment.is_none_or(is_named), "{text:?}: {:#?}", load.diagnostics);
            assert_eq!(agent.instructions.version, "2", "{text:?}");
        } else {
            assert!(prompt.contains("Be kind."), "{text:?}");
            assert!(
                names(&load.diagnostics, "p.md", line),
                "{text:?}: {:#?}",
                load.diagnostics
            );
        }
    }
}

#[test]
fn every_comment_in_the_front_matter_of_a_prompt_is_named_and_no_text() {
    let comments = [
        "author: x  # note",
        "author: x # note",
        "author: \"x # a\" # note",
        "author: 'it''s # a'\t# note",
        "description: | # note\n  # text\n  more # text",
        "description: >- # note\n  text",
        "tags: # note\n  - a",
        "tags:\n  # note\n  - a # note\n  - \"# b\"",
        "tags: [a, # note\n  b]",
        "tags: [a, b] # note",
        "author: a#b # note",
        "author: # note",
        "author: x\n# note",
        "metadata:\n  name: x # note",
        "author: &a x # note\ndescription: *a",
    ];
    let texts = [
        "author: a#b",
        "author: \"x # a\"",
        "author: '# a'",
        "description: |\n  # text\n  more # text\n\n    # text",
        "description: >\n  text\n  # text",
        "description: \"a\n  # b\"",
        "tags: [\"# a\", 'b # c']",
        "description: use: this # as text",
        "author: x #",
        "author: x\n###",
    ];
    let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n";
    let named = |block: &str, end: &str| {
        let prompt = format!("---\nversion: 2\n{block}\n---\nBe kind.\n").replace('\n', end);
        let files = MemoryFiles::new()
            .with("agent.yaml", yaml)
            .with("p.md", prompt.as_str());
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        assert!(load.agent.is_some(), "{prompt:?}: {:#?}", load.diagnostics);
        let found = load.diagnostics.iter().filter_map(|found| {
            let comment = found.message.split_once("` is a comment of the front matter")?.0;
            let place = found.primary.as_ref()?;
            let text = lines_of(&prompt)[place.line - 1].clone();
            let column = text.find(comment.trim_start_matches('`'));
            assert_eq!(
                column.map(|at| text[..at].chars().count() + 1),
                Some(place.column),
                "{prompt:?}"
            );
            Some(comment.trim_start_matches('`').to_owned())
        });
        found.collect::<Vec<_>>()
    };
    for end in LINE_ENDS {
        for block in comments {
            let expected: Vec<&str> = block.match_indices("# note").map(|_| "# note").collect();
            assert_eq!(named(block, end), expected, "{block:?}");
        }
        for block in texts {
            assert_eq!(named(block, end), [""; 0], "{block:?}");
        }
    }
}

#[test]
fn a_skill_is_read_or_its_front_matter_is_named() {
    for (text, line, is_read) in texts("name: notes\ndescription: Writes notes") {
        let files = MemoryFiles::new().with("skills/notes/SKILL.md", text.as_str());
        let (skill, load) = load_skill("skills/notes".as_ref(), &files);
        let body = skill.map(|skill| skill.instructions);
        if is_read {
            assert_eq!(
                (body.as_deref(), load.diagnostics.as_slice()),
                (Some("Be kind."), &[][..]),
                "{text:?}"
            );
        } else {
            assert_eq!(body, None, "{text:?}");
            assert!(
                names(&load.diagnostics, "SKILL.md", line),
                "{text:?}: {:#?}",
                load.diagnostics
            );
        }
    }
}

#[test]
fn an_agent_file_is_read_or_its_front_matter_is_named() {
    for (text, line, is_read) in texts("name: notes\ndescription: Writes notes") {
        let files = MemoryFiles::new().with("agents/notes.md", text.as_str());
        let (doc, load) = load_agent_doc(Path::new("agents/notes.md"), false, &files);
        let body = doc.map(|doc| doc.body);
        if is_read {
            assert_eq!(
                (body.as_deref(), load.diagnostics.as_slice()),
                (Some("Be kind."), &[][..]),
                "{text:?}"
            );
        } else {
            assert_eq!(body, None, "{text:?}");
            assert!(
                names(&load.diagnostics, "notes.md", line),
                "{text:?}: {:#?}",
                load.diagnostics
            );
        }
    }
}

#[test]
fn front_matter_of_a_file_that_is_sent_as_it_is_is_named() {
    let yaml = "name: a\nmodel: {provider: anthropic, name: claude-opus-4-1}\ninstructions: {inline: i}\n\
                claude: {agents: {helper: {description: d, prompt_file: p.md}}}\n\
                tools: [{type: prompt, name: t, description: d, file: t.md, parameters: {}}]\n";
    for (text, line, _) in texts("version: 2") {
        for sent in ["p.md", "t.md"] {
            let other = if sent == "p.md" { "t.md" } else { "p.md" };
            let files = MemoryFiles::new()
                .with("agent.yaml", yaml)
                .with(sent, text.as_str())
                .with(other, "---\nPlain text.\n---\nMore: of it.\n");
            let found = load_agent(Path::new("agent.yaml"), &Env::empty(), &files).diagnostics;
            assert!(names(&found, sent, line), "{sent}: {text:?}: {found:#?}");
            assert!(
                !found.iter().any(|found| found
                    .primary
                    .as_ref()
                    .is_some_and(|place| place.path.ends_with(other))),
                "{found:#?}"
            );
        }
    }
}

/// Sentences that are read as front matter.
#[test]
fn no_sentence_of_a_prompt_is_dropped_without_a_word() {
    for (text, line, kept) in [
        ("---\nExamples: good and bad\n...\nBe kind.\n", 2, "Be kind."),
        ("---\nversion: 2\nExamples: good\n...\nBe kind.\n", 3, "Be kind."),
        ("---\nRule one: never refund\n---\nBe kind.\n", 2, "Be kind."),
        ("---\n# Role\n---\nBe kind.\n", 1, "Be kind."),
        ("\n---\n# Role\n# Tone\n...\nBe kind.\n", 2, "Be kind."),
        ("---\nRule: never refund\n---\nBe kind.\n", 2, "Be kind."),
        ("---\nrule: never refund\n---\nBe kind.\n", 2, "Be kind."),
        (
            "----------\nRule: never refund\n----------\nBe kind.\n",
            2,
            "Be kind.",
        ),
        (
            "---\nversion: 2\nRules:\n  - never refund\n---\nBe kind.\n",
            3,
            "Be kind.",
        ),
        ("---\n# Role\nversion: 2\n---\nBe kind.\n", 2, "Be kind."),
        (
            "---\nversion: 2\n\n## Tone, warm\n----------\nBe kind.\n",
            4,
            "Be kind.",
        ),
    ] {
        for end in LINE_ENDS {
            let text = text.replace('\n', end);
            let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n";
            let files = MemoryFiles::new()
                .with("agent.yaml", yaml)
                .with("p.md", text.as_str());
            let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
            assert_eq!(load.agent.unwrap().instructions.text, kept, "{text:?}");
            assert!(
                names(&load.diagnostics, "p.md", line),
                "{text:?}: {:#?}",
                load.diagnostics
            );
            assert!(
                load.diagnostics[0].message.contains("not sent to the model"),
                "{text:?}"
            );
        }
    }
    // Each key is named.
    let files = MemoryFiles::new()
        .with(
            "agent.yaml",
            "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n",
        )
        .with(
            "p.md",
            "---\nRule: never refund\ntitle: t\nTone: warm\n# Role\n---\nBe kind.\n",
        );
    let found = load_agent(Path::new("agent.yaml"), &Env::empty(), &files).diagnostics;
    for (name, line) in [("`Rule`", 2), ("`Tone`", 4), ("`# Role`", 5)] {
        let is_named = found.iter().any(|found| {
            found.message.contains(name) && found.primary.as_ref().is_some_and(|place| place.line == line)
        });
        assert!(is_named, "{name}: {found:#?}");
    }
    assert_eq!(found.len(), 3);
    // Fields of other programs are front matter in every program.
    for fine in [
        "---\ntitle: My prompt\nmodel: gpt\n---\nBe kind.\n",
        "+++ is a sign\n\nBe kind.\n",
        ";;;\n\nBe kind.\n",
        "--- a dash ---\n---\n",
    ] {
        let yaml = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {file: p.md}\n";
        let files = MemoryFiles::new().with("agent.yaml", yaml).with("p.md", fine);
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        assert_eq!(load.diagnostics, [], "{fine:?}");
    }
}
