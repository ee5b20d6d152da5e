//! Hostile and unusual files cause an immediate error, or load without a diagnostic.

use std::{io, path::Path};

use holodeck_model::{Code, Diagnostic, Env, FileKind, Files, MemoryFiles};
use holodeck_yaml::load_agent;
use pretty_assertions::assert_eq;

use crate::support::{load_bytes, render};

const AGENT: &str = "name: a\nmodel: {provider: openai, name: m, temperature: 0, max_tokens: 1}\ninstructions: {inline: Hi}\n";

/// The diagnostics of this module, for the test that every code is covered.
pub(crate) fn diagnostics() -> Vec<Diagnostic> {
    [not_utf8(), alias_bomb(), too_large(), directory(), missing_file()]
        .into_iter()
        .flat_map(|load| load.diagnostics)
        .collect()
}

fn check(load: &holodeck_yaml::Load, code: Code, place: &str) {
    assert!(load.agent.is_none());
    let first = load.diagnostics.first().unwrap();
    assert_eq!(first.code, code, "{}", render(&load.diagnostics));
    assert_eq!(
        first
            .primary
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        place
    );
}

fn not_utf8() -> holodeck_yaml::Load {
    load_bytes(b"name: a\ndescription: caf\xe9\n".as_slice())
}

fn alias_bomb() -> holodeck_yaml::Load {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..=9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        text += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    load_bytes(text)
}

fn too_large() -> holodeck_yaml::Load {
    load_bytes(format!("{AGENT}# {}\n", "x".repeat(10 * 1024 * 1024)))
}

fn directory() -> holodeck_yaml::Load {
    let files = MemoryFiles::new().with("project/agent.yaml", AGENT);
    load_agent(Path::new("project"), &Env::empty(), &files)
}

fn missing_file() -> holodeck_yaml::Load {
    let files = MemoryFiles::new().with("agent.yaml", AGENT);
    load_agent(Path::new("agent.yml"), &Env::empty(), &files)
}

#[test]
fn invalid_utf8_is_shown_at_its_byte() {
    check(&not_utf8(), Code::InvalidUtf8, "agent.yaml:2:17");
    let utf16 = load_bytes(b"\xff\xfen\0\n\0a\0\0\xd8".as_slice());
    check(&utf16, Code::InvalidUtf8, "agent.yaml:2:2");
    assert_eq!(
        utf16.diagnostics[0].help.as_deref(),
        Some("save the file as UTF-8")
    );
}

#[test]
fn a_large_file_is_refused() {
    check(&too_large(), Code::FileTooLarge, "");
}

#[test]
fn a_directory_is_not_a_file() {
    let load = directory();
    check(&load, Code::IsDirectory, "");
    assert_eq!(
        load.diagnostics[0].help.as_deref(),
        Some("did you mean `project/agent.yaml`?")
    );
}

#[test]
fn a_missing_file_is_named() {
    let load = missing_file();
    check(&load, Code::UnreadableFile, "");
    assert_eq!(
        load.diagnostics[0].help.as_deref(),
        Some("did you mean `agent.yaml`?")
    );
}

#[test]
fn an_unreadable_file_is_named() {
    struct Locked;
    impl Files for Locked {
        fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        fn kind(&self, path: &Path) -> FileKind {
            if path.ends_with("agent.yaml") {
                FileKind::File
            } else {
                FileKind::Missing
            }
        }
    }
    let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &Locked);
    assert_eq!(
        render(&load.diagnostics),
        "-: error[HD0001]: `agent.yaml` cannot be read: permission denied\n"
    );
}

#[test]
fn endless_brackets_are_an_immediate_error() {
    for open in ["[", "{", "- ", "? ", "a: [", "{a: "] {
        check_depth(&format!("{AGENT}response_format: {}", open.repeat(100_000)));
    }
    let indented: String = (0..2000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    check_depth(&indented);
}

fn check_depth(text: &str) {
    let load = load_bytes(text);
    assert!(load.agent.is_none());
    assert!(
        load.diagnostics
            .iter()
            .any(|diagnostic| matches!(diagnostic.code, Code::TooDeep | Code::YamlSyntax)),
        "{}",
        render(&load.diagnostics)
    );
}

#[test]
fn endless_aliases_are_an_immediate_error() {
    let load = alias_bomb();
    check(&load, Code::TooManyNodes, "agent.yaml:7:10");
    // A chain of aliases counts with the depth of the value that it refers to.
    let mut text = String::from("a0: &a0 [x]\n");
    for level in 1..200 {
        text += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert_eq!(load_bytes(text).diagnostics[0].code, Code::TooDeep);
    let merges = "x: &x {".to_owned()
        + &(0..2000).map(|key| format!("k{key}: 1, ")).collect::<String>()
        + "}\ny: {<<: ["
        + &"*x, ".repeat(2000)
        + "]}\n";
    assert_eq!(load_bytes(merges).diagnostics[0].code, Code::TooManyNodes);
}

#[test]
fn a_byte_order_mark_and_windows_lines_load_silently() {
    let text = format!("\u{feff}{AGENT}").replace('\n', "\r\n");
    let load = load_bytes(text);
    assert_eq!(render(&load.diagnostics), "");
    assert!(load.agent.is_some());
    let load = load_bytes(format!("\u{feff}{AGENT}\nnme: b\n").replace('\n', "\r\n"));
    check(&load, Code::UnknownField, "agent.yaml:5:1");
}

#[test]
fn columns_count_characters() {
    let load = load_bytes("name: \"日本語 é\"\nmodel: {provider: openai, name: \"日本\", x: 1}\n");
    let unknown = load
        .diagnostics
        .iter()
        .find(|diagnostic| diagnostic.code == Code::UnknownField)
        .unwrap();
    assert_eq!(unknown.primary.as_ref().unwrap().to_string(), "agent.yaml:2:39");
}

#[test]
fn many_test_cases_load() {
    let cases: String = (0..10_000)
        .map(|index| format!("  - {{input: question {index}, ground_truth: answer}}\n"))
        .collect();
    let load = load_bytes(format!(
        "{AGENT}evaluations: {{metrics: [{{type: standard, metric: equality}}]}}\ntest_cases:\n{cases}"
    ));
    assert_eq!(render(&load.diagnostics), "");
    assert_eq!(load.agent.unwrap().config.test_cases.len(), 10_000);
}

#[test]
fn endless_mistakes_are_an_immediate_error() {
    let one_line = |piece: &str| format!("{AGENT}response_format: {{é: 1, {}}}\n", piece.repeat(100_000));
    for piece in ["é: 1, ", "é: *none, ", "a: !x 1, "] {
        let load = load_bytes(one_line(piece));
        assert!(load.agent.is_none());
        assert!(load.diagnostics.len() < 400, "{}", load.diagnostics.len());
    }
    let cases = format!(
        "{AGENT}test_cases: [{}]\n",
        "{é: 1, turns: [{}], input: 010}, ".repeat(20_000)
    );
    let load = load_bytes(cases);
    assert!(load.agent.is_none());
    assert!(load.diagnostics.len() < 400, "{}", load.diagnostics.len());
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let text = "name: a\nmodel: {provider: \"op\\e[31m\", name: m, \"\\e[2J\": 1}\ninstructions: {inline: Hi}\n\
        tools: [{type: function, name: \"\\e]0;x\", description: D., command: \"/gone\\e[1m\"}]\n";
    for text in [
        text,
        "name: a\u{0}b\n",
        "name: \u{1b}[31m\n",
        "\"a\\e\": 1\n\"a\\e\": 2\n",
        "a: *\u{1b}\n",
        "a: !\u{1b} 1\n",
    ] {
        let load = load_bytes(text);
        let shown = render(&load.diagnostics);
        assert!(load.agent.is_none());
        assert!(
            !shown
                .chars()
                .any(|character| character.is_control() && character != '\n'),
            "{shown:?}"
        );
    }
}

#[test]
fn front_matter_is_parsed_on_its_own() {
    let agent = "name: a\nmodel: {provider: openai, name: m, temperature: 0, max_tokens: 1}\ninstructions: {file: p.md}\n";
    let place = |prompt: &str| {
        let files = MemoryFiles::new().with("agent.yaml", agent).with("p.md", prompt);
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        load.diagnostics
            .first()
            .unwrap()
            .primary
            .as_ref()
            .unwrap()
            .to_string()
    };
    // A tab before the block is not a part of it.
    assert_eq!(place("\t\n\t---\na: [\n---\nHello"), "p.md:3:4");
    assert_eq!(place("\t---\na:\n\tb: [\n---\nHello"), "p.md:3:1");
}
