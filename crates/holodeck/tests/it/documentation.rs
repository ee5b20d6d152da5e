//! Loads every YAML block of the README and of `docs/`, as a reader would who copies it.
//!
//! A block is a whole agent file, or a part that is put on a small agent. A comment on the line before the fence says
//! what the block alone does not show:
//!
//! - `<!-- in: test_cases -->`: the block is the value of this field, or its fields belong to it.
//! - `<!-- one of -->`: each line is an alternative, loaded by itself.
//! - `<!-- not ours: GitHub Actions -->`: another program reads it. Their number may only fall.
//! - `<!-- checked: github-workflows -->`: another program reads it, and a test of the command line checks it by this schema.
//!
//! A line `# config.yaml` begins another file of the same folder.

use std::{fs, path::Path};

use holodeck::model::{Env, Severity, env};

/// Blocks that another program reads.
const OTHERS: usize = 2;

/// The files that examples name.
const FILES: [(&str, &str); 18] = [
    ("prompts/friendly.md", "Be kind."),
    ("prompts/strict.md", "Be brief."),
    ("prompts/summarise.md", "{{ text }}"),
    ("cases.yaml", "- {input: q, ground_truth: x}\n"),
    ("answers.csv", "input,text\nq,an answer\n"),
    ("handbook/rules.md", "Refunds take 14 days."),
    ("docs/rules.md", "Refunds take 14 days."),
    ("tools/orders.py", "def get_order(order_id): ...\n"),
    ("pay.py", "def pay(amount, currency): ...\n"),
    ("graders/orders.py", "def check(context): return True\n"),
    ("check-links", "#!/bin/sh\n"),
    ("count-words", "#!/bin/sh\n"),
    ("fallback.sh", "#!/bin/sh\n"),
    ("log.sh", "#!/bin/sh\n"),
    (
        "other.yaml",
        "name: other\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: Help.}\n",
    ),
    ("agents/code-reviewer.md", AGENT),
    ("agents/extended/code-reviewer.md", AGENT),
    (".claude/agents/code-reviewer.md", AGENT),
];

const AGENT: &str = "---\nname: code-reviewer\ndescription: Reviews code.\n---\nReview the code.\n";

/// The fields of an agent that a part of one lacks.
const BASE: [(&str, &str); 3] = [
    ("name", "base"),
    ("model", "{provider: openai, name: gpt-4o-mini}"),
    ("instructions", "{inline: Be kind.}"),
];

struct Block {
    place: String,
    marker: Option<String>,
    text: String,
}

#[test]
fn every_yaml_block_of_the_documentation_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "docs/how-to", "docs/tutorial"] {
        let pages = fs::read_dir(root.join(folder)).unwrap();
        files.extend(
            pages
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    files.sort();
    let mut problems = Vec::new();
    let (mut loaded, mut others) = (0, 0);
    for file in files {
        for block in blocks(&file) {
            let other = block
                .marker
                .as_deref()
                .filter(|marker| marker.starts_with("not ours: "));
            let is_elsewhere = block
                .marker
                .as_deref()
                .is_some_and(|marker| marker.starts_with("change: ") || marker.starts_with("checked: "));
            if is_elsewhere {
                // The test that follows the page applies it to the file; that of the schemas checks it.
            } else if let Some(marker) = other {
                others += 1;
                println!("{}: {marker}", block.place);
            } else {
                loaded += 1;
                problems.extend(check(&block));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(loaded > 30, "only {loaded} blocks were found");
    assert_eq!(others, OTHERS, "lower the number when one leaves");
}

#[test]
fn every_variable_that_is_read_is_on_the_page_of_variables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environment.md");
    let page = fs::read_to_string(page).unwrap();
    let settings = env::SETTINGS.iter().copied();
    let effects = env::EFFECTS.iter().map(|(name, _)| *name);
    let keys = [
        env::OPENAI_API_KEY,
        env::AZURE_OPENAI_API_KEY,
        env::ANTHROPIC_API_KEY,
        env::TRACEPARENT,
    ];
    let missing: Vec<_> = settings
        .chain(effects)
        .chain(keys)
        .filter(|name| !page.contains(&format!("`{}`", name.to_uppercase())))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_block_with_a_misspelt_field_is_reported() {
    let block = |marker: Option<&str>, text: &str| Block {
        place: "page.md:1".to_owned(),
        marker: marker.map(str::to_owned),
        text: text.to_owned(),
    };
    let errors = check(&block(None, "executon: {trials: 2}\n"));
    assert!(errors[0].contains("executon"), "{errors:?}");
    let errors = check(&block(Some("in: evaluations.metrics"), "- {metric: contain}\n"));
    assert!(errors[0].contains("contain"), "{errors:?}");
    let errors = check(&block(Some("one of"), "routing: {}\nrouting: {mode: x}\n"));
    assert_eq!(errors.len(), 1, "{errors:?}");
}

/// The blocks that are labelled as YAML.
fn blocks(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let label = line.trim_start().strip_prefix("```");
        at += 1;
        let Some(label) = label else { continue };
        let begin = at;
        while !lines[at].trim_start().starts_with("```") {
            at += 1;
        }
        let inside = &lines[begin..at];
        at += 1;
        if !matches!(label, "yaml" | "yml") {
            continue;
        }
        let indent = |line: &&str| line.len() - line.trim_start().len();
        let shared = inside
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(indent)
            .min();
        let shared = shared.unwrap_or(0);
        let before = begin.checked_sub(2).and_then(|line| lines.get(line));
        let marker = before.and_then(|line| line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->"));
        found.push(Block {
            place: format!("{}:{begin}", path.file_name().unwrap().display()),
            marker: marker.map(str::to_owned),
            text: inside
                .iter()
                .flat_map(|line| [line.get(shared..).unwrap_or_default(), "\n"])
                .collect(),
        });
    }
    found
}

/// The errors of a block.
fn check(block: &Block) -> Vec<String> {
    let documents: Vec<String> = match block.marker.as_deref() {
        Some("one of") => block.text.lines().map(str::to_owned).collect(),
        _ => vec![block.text.clone()],
    };
    let field = block
        .marker
        .as_deref()
        .and_then(|marker| marker.strip_prefix("in: "));
    let mut errors = Vec::new();
    for document in documents {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in FILES {
            write(&folder.path().join(name), text);
        }
        let mut file = "agent.yaml".to_owned();
        let mut text = String::new();
        for line in document.lines() {
            let is_file = |name: &&str| Path::new(name).extension().is_some_and(|it| it == "yaml");
            if let Some(name) = line.strip_prefix("# ").filter(is_file) {
                store(folder.path(), &file, &text, field);
                name.clone_into(&mut file);
                text.clear();
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
        store(folder.path(), &file, &text, field);
        if file != "agent.yaml" {
            store(
                folder.path(),
                "agent.yaml",
                "# The files that other files complete.\n",
                field,
            );
        }
        let mut env = Env::empty();
        for variable in document.split("${").skip(1) {
            let name = variable.split('}').next().unwrap_or_default();
            env.set(name, "postgresql://u:p@127.0.0.1:9/value-of-the-variable");
        }
        let load = holodeck::load(&folder.path().join("agent.yaml"), &env);
        let found = load
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error);
        errors.extend(found.map(|found| format!("{}: {}\n{document}", block.place, found.message)));
    }
    errors
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a file; an agent file gets the fields that a part of one lacks.
fn store(folder: &Path, name: &str, text: &str, field: Option<&str>) {
    if text.is_empty() {
        return;
    }
    if name != "agent.yaml" {
        return write(&folder.join(name), text);
    }
    let mut agent = field.map_or_else(|| text.to_owned(), |field| nest(field, text));
    let has_target = agent.lines().any(|line| line.starts_with("target:"));
    for (field, value) in BASE {
        if has_target && field != "name" {
            continue;
        }
        if !agent.lines().any(|line| line.starts_with(&format!("{field}:"))) {
            agent.extend([field, ": ", value, "\n"]);
        }
    }
    write(&folder.join(name), &agent);
}

/// The text as the value of the field at a dotted path.
fn nest(path: &str, text: &str) -> String {
    path.rsplit('.').fold(text.to_owned(), |value, field| {
        let indented: Vec<String> = value.lines().map(|line| format!("  {line}\n")).collect();
        format!("{field}:\n{}", indented.concat())
    })
}
