//! Findings have the same line and column whatever ends the lines of a file.

use std::path::Path;

use holodeck_model::{Cases, Diagnostic, Env, MemoryFiles};
use holodeck_yaml::{load_agent, load_agent_doc, load_labels, load_routing_cases, load_skill};
use pretty_assertions::assert_eq;

/// The findings of a file, in order.
type Findings = fn(&str, &str) -> Vec<Diagnostic>;

const AGENT: &str = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: i}\n";

fn of_agent(_: &str, text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with("agent.yaml", text);
    load_agent(Path::new("agent.yaml"), &Env::empty(), &files).diagnostics
}

fn of_named_file(name: &str, text: &str) -> Vec<Diagnostic> {
    let yaml = match name {
        "prompt.md" => AGENT.replace("inline: i", "file: prompt.md"),
        "schema.json" => format!("{AGENT}response_format: schema.json\n"),
        "config.yaml" => AGENT.to_owned(),
        "server.env" => format!(
            "{AGENT}tools: [{{type: mcp, name: s, description: d, command: node, env_file: server.env}}]\n"
        ),
        _ => format!("{AGENT}test_cases_file: {name}\n"),
    };
    let files = MemoryFiles::new().with("agent.yaml", yaml).with(name, text);
    let env = Env::from_iter([("HOME", "/home/nobody")]);
    let found = load_agent(Path::new("agent.yaml"), &env, &files).diagnostics;
    let is_there = |found: &Diagnostic| {
        found
            .primary
            .as_ref()
            .is_some_and(|place| place.path.ends_with(name))
    };
    found.into_iter().filter(is_there).collect()
}

fn of_labels(name: &str, text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with(name, text);
    load_labels(Path::new(name), &Cases::default(), &Env::empty(), &files)
        .1
        .diagnostics
}

fn of_routing_cases(name: &str, text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with(name, text);
    load_routing_cases(Path::new(name), &files).1.diagnostics
}

fn of_skill(_: &str, text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with("skills/notes/SKILL.md", text);
    load_skill("skills/notes".as_ref(), &files).1.diagnostics
}

fn of_agent_file(_: &str, text: &str) -> Vec<Diagnostic> {
    let files = MemoryFiles::new().with("agents/notes.md", text);
    load_agent_doc(Path::new("agents/notes.md"), false, &files)
        .1
        .diagnostics
}

/// Files with one thing to find, and its line.
const FILES: &[(Findings, &str, &str, usize)] = &[
    // The parser's own places: of values, of keys, of what is no YAML.
    (
        of_agent,
        "agent.yaml",
        "name: a\n\n# note\nmodel: {provider: openai, name: m}\nmodle: x\ninstructions: {inline: i}\n",
        5,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nmodel:\n  provider: openai\n  name: m\n  temperature: hot\ninstructions: {inline: i}\n",
        5,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nname: b\nmodel: {provider: openai, name: m}\ninstructions: {inline: i}\n",
        2,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nmodel: {provider: openai, name: m\ninstructions: {inline: i}\n",
        2,
    ),
    (of_agent, "agent.yaml", "name: a\nmodel:\n\tprovider: openai\n", 3),
    (
        of_agent,
        "agent.yaml",
        "name: a\ninstructions:\n  inline: |\n    one\n    two\n  inlin: x\nmodel: {provider: openai, name: m}\n",
        6,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\ninstructions:\n  inline: \"one\n    two\"\nmodel: {provider: openai, name: m}\nfoo: ä\nname: b\n",
        7,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: 'Use\n  ${TONE-kind}.'}\n",
        4,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nmodel: {provider: openai, name: m}\ninstructions:\n  inline: Look at ticket #42\n",
        4,
    ),
    (
        of_agent,
        "agent.yaml",
        "name: a\nmodel: {provider: openai, name: '${NONE}'}\n---\nname: b\n",
        3,
    ),
    (
        of_named_file,
        "config.yaml",
        "# note\n\nexecution:\n  llm_timeout: soon\n",
        4,
    ),
    (
        of_named_file,
        "cases.yaml",
        "- {name: a, input: x}\n- {name: b}\n",
        2,
    ),
    (of_named_file, "cases.csv", "input,ground_truth\na,b\n,c\n", 3),
    (
        of_named_file,
        "cases.csv",
        "input,ground_truth\n\"a\nb\",c\n\"d\"e,f\n",
        4,
    ),
    (
        of_named_file,
        "cases.jsonl",
        "{\"input\":\"a\"}\n\n{\"input\":\"b\",}\n",
        3,
    ),
    (
        of_named_file,
        "cases.jsonl",
        "{\"input\": \"a\", \"name\": \"x\"}\n{\"input\": \"b\", \"nme\": \"y\"}\n",
        2,
    ),
    (
        of_named_file,
        "prompt.md",
        "---\nversion: 2\ntags: {a: 1}\n---\nBe kind.\n",
        3,
    ),
    (of_named_file, "prompt.md", "\n+++\na = 1\n+++\nBe kind.\n", 2),
    (
        of_named_file,
        "schema.json",
        "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"a\": oops\n  }\n}\n",
        4,
    ),
    (
        of_named_file,
        "server.env",
        "# note\nA=1\n\nB=${TOKEN-secret}\n",
        4,
    ),
    (
        of_labels,
        "labels.jsonl",
        "{\"input\":\"a\",\"answer\":\"b\",\"passed\":true}\n{\"input\":\n",
        2,
    ),
    (
        of_routing_cases,
        "tasks.jsonl",
        "{\"task\":\"a\",\"agent\":\"b\"}\n{\"task\"\n",
        2,
    ),
    (
        of_skill,
        "SKILL.md",
        "---\nname: notes\ndescription: Use: this\n---\nDo it.\n",
        3,
    ),
    (
        of_skill,
        "SKILL.md",
        "---\nname: notes\n\ndescription: [a\n---\nDo it.\n",
        4,
    ),
    (
        of_agent_file,
        "notes.md",
        "---\nname: notes\ndescription: d\ncoler: blue\n---\nDo it.\n",
        4,
    ),
    (
        of_agent_file,
        "notes.md",
        "---\nname: notes\ndescription: d\nand more\n---\nDo it.\n",
        4,
    ),
];

#[test]
fn each_finding_has_its_line_and_column_with_every_line_end() {
    for (findings, name, text, line) in FILES {
        let places = |end: &str| {
            let found = findings(name, &text.replace('\n', end));
            let places = found.iter().map(|found| {
                let place = found.primary.as_ref();
                let place = place.map(|place| (place.line, place.column));
                let labels = found
                    .labels
                    .iter()
                    .map(|label| (label.location.line, label.location.column));
                (
                    found.message.clone(),
                    found.help.clone(),
                    place,
                    labels.collect::<Vec<_>>(),
                )
            });
            places.collect::<Vec<_>>()
        };
        let expected = places("\n");
        assert!(
            expected
                .iter()
                .any(|(_, _, place, _)| place.is_some_and(|(at, _)| at == *line)),
            "{name}: {text:?}: {expected:#?}"
        );
        for end in ["\r", "\r\n"] {
            assert_eq!(places(end), expected, "{name} {end:?}: {text:?}");
        }
    }
}
