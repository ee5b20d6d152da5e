//! Follows the tutorial: writes its files, runs its commands and compares what they print with the pages.
//!
//! The commands run in the order of the pages, in one folder, against a scripted model. A comment on the line before a
//! fence says what the block is:
//!
//! - `<!-- file: agent.yaml -->`: the content of a file.
//! - `<!-- change: agent.yaml -->`: lines in place of those of the file that begin with the same field.
//! - `<!-- exits: 1 -->`: the last command of the block ends with this code; others end with 0, or 1 before it.
//!
//! `cargo xtask codegen` writes what the commands print into the pages.

use std::{fs, path::Path, process::Command};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    generated::WRITE,
    judges::kind_answer,
    project::{Project, SECRET},
};

const PAGES: [&str; 5] = [
    "1-first-agent.md",
    "2-own-tool.md",
    "3-knowledge-base.md",
    "4-judge.md",
    "5-ci.md",
];

/// Replaces what differs between runs by the values that the pages show.
const SHOWN: [(&str, &str); 5] = [
    (
        r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z",
        "2026-11-27T09-30-00.000Z",
    ),
    (r"\d{8}T\d{9}-[0-9a-f]{6}", "20261127T093000000-a1b2c3"),
    (r"  +\d+(\.\d+)? m?s\b", "  0.8 s"),
    (r"· \d+(\.\d+)? m?s\b", "· 0.8 s"),
    (r"\((\d+(\.\d+)?) m?s\)", "(0.8 s)"),
];

#[test]
fn the_tutorial_prints_what_its_pages_show() {
    let server = ModelServer::answering(answer);
    let project = Project::empty();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial");
    for page in PAGES {
        let path = folder.join(page);
        let text = fs::read_to_string(&path).unwrap();
        let followed = follow(&text, &project, &server.url());
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, followed).unwrap();
        } else {
            assert_eq!(
                followed, text,
                "{page}: run `cargo xtask codegen` and look at the change"
            );
        }
    }
}

/// The page with the output of its commands as they print it now.
fn follow(page: &str, project: &Project, endpoint: &str) -> String {
    let mut lines = page.lines().peekable();
    let mut marker = None;
    let mut shown = String::new();
    while let Some(line) = lines.next() {
        shown.push_str(line);
        shown.push('\n');
        if let Some(found) = line
            .strip_prefix("<!-- ")
            .and_then(|line| line.strip_suffix(" -->"))
        {
            marker = Some(found);
            continue;
        }
        let Some(label) = line.strip_prefix("```") else {
            assert!(
                marker.is_none(),
                "`{}` is above no block",
                marker.unwrap_or_default()
            );
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let content = block.iter().flat_map(|line| [*line, "\n"]).collect::<String>();
        match marker.take().map(|marker| marker.split_once(": ").unwrap()) {
            Some(("file", name)) => project.write(name, &content),
            Some(("change", name)) => project.write(name, change(&project.read(name), &content)),
            Some(("exits", code)) => {
                shown.push_str(&run(&block, code.parse().unwrap(), project, endpoint));
                shown.push_str("```\n");
                continue;
            }
            Some(("not ours", _)) => {}
            Some(other) => panic!("unknown marker {other:?}"),
            None if label == "console" => {
                shown.push_str(&run(&block, 0, project, endpoint));
                shown.push_str("```\n");
                continue;
            }
            None => assert_eq!(label, "sh", "a block without a marker: {content}"),
        }
        shown.push_str(&content);
        shown.push_str("```\n");
    }
    shown
}

/// The commands of a block with what they print.
fn run(block: &[&str], code: i32, project: &Project, endpoint: &str) -> String {
    let commands: Vec<&str> = block.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let mut shown = String::new();
    for (number, command) in commands.iter().enumerate() {
        let program = Path::new(env!("CARGO_BIN_EXE_holodeck")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(project.dir())
            .env_clear()
            .env("PATH", path)
            .env("HOME", project.dir().join("../home"))
            .env("OPENAI_BASE_URL", endpoint)
            .env("OPENAI_API_KEY", SECRET)
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        let mut printed = String::from_utf8(output.stdout).unwrap();
        let is_last = number + 1 == commands.len();
        let found = output.status.code();
        let is_expected = found == Some(code) || (!is_last && found == Some(0));
        assert!(is_expected, "`{command}` ended with {found:?}:\n{printed}");
        for (pattern, text) in SHOWN {
            printed = regex::Regex::new(pattern)
                .unwrap()
                .replace_all(&printed, text)
                .into_owned();
        }
        shown.push_str(&["$ ", command, "\n", &in_order(&printed)].concat());
    }
    shown
}

/// The text with its lines of progress, `[1/2] PASS …`, in the order of the cases' names: they end in any order.
fn in_order(printed: &str) -> String {
    let progress = |line: &&str| line.starts_with('[');
    let mut names: Vec<&str> = printed.lines().filter(progress).collect();
    names.sort_by_key(|line| line.split_once("] ").map(|(_, rest)| rest.split(' ').nth(1)));
    let (mut names, count) = (names.iter(), names.len());
    let mut number = 0;
    let lines = printed.lines().map(|line| {
        if !progress(&line) {
            return format!("{line}\n");
        }
        number += 1;
        let rest = names.next().and_then(|line| line.split_once("] ")).unwrap().1;
        format!("[{number}/{count}] {rest}\n")
    });
    lines.collect()
}

/// The file with each line of the change in place of the line with the same field.
fn change(file: &str, lines: &str) -> String {
    let field = |line: &str| line.split_inclusive(':').next().map(str::to_owned);
    let changed = file.lines().map(|line| {
        let new = lines.lines().find(|new| field(new) == field(line));
        format!("{}\n", new.unwrap_or(line))
    });
    let changed: String = changed.collect();
    assert_ne!(changed, file, "the change is in no line of the file");
    changed
}

/// A model that calls the tools it has, and a judge that dislikes short answers.
fn answer(request: &ReceivedRequest) -> Reply {
    if request.body["response_format"].is_object() {
        let prompt = request.texts("user").concat();
        if prompt.contains("In transit.") || prompt.contains("30 days.\n") {
            return Reply::text(json!({"reason": "The answer is curt.", "score": 3}).to_string());
        }
        return Reply::text(kind_answer(request));
    }
    let brief = request.texts("system").concat().contains("few words");
    let results = request.texts("tool").concat();
    let question = request.texts("user").concat();
    let has = |tool: &str| request.body["tools"].to_string().contains(tool);
    if results.contains("in transit") {
        return Reply::text(if brief {
            "In transit."
        } else {
            "Your order 1001 is in transit; you can ask me again tomorrow."
        });
    }
    if results.contains("30 days") {
        return Reply::text("You can ask for a refund within 30 days of delivery.");
    }
    if question.contains("1001") && has("get_order") {
        return Reply::tool_call("call_1", "get_order", &json!({"order_id": "1001"}));
    }
    if question.contains("refund") && has("handbook_search") {
        return Reply::tool_call("call_1", "handbook_search", &json!({"query": "refund"}));
    }
    if question.contains("1001") {
        return Reply::text("I cannot see where your order is.");
    }
    Reply::text("Hello! I can help you with an order.")
}

#[test]
fn a_page_whose_output_differs_is_shown_as_it_is_now() {
    let server = ModelServer::answering(answer);
    let project = Project::empty();
    let page = "Text.\n\n<!-- file: a.txt -->\n```yaml\nname: x\n```\n\n```console\n$ cat a.txt\nold\n```\n";
    let followed = follow(page, &project, &server.url());
    assert!(
        followed.ends_with("```console\n$ cat a.txt\nname: x\n```\n"),
        "{followed}"
    );
}
