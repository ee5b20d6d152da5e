//! Which files the real CLI opens for an agent of a YAML file, by place, tool, mode, and who can be asked.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, Occasion, Ruling, Zone};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::setup::{Yaml, agent_at, ask};
use crate::PolicyApprover;

const MODES: [&str; 4] = ["", "manual", "acceptEdits", "acceptAll"];

/// Who can be asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// No person, in a test with `--allow-side-effects`.
    Nobody,
    /// A person at this machine, who approves everything.
    Person,
    /// A client of a server, who approves everything.
    Client,
}

/// A person who approves what the policy leaves to one.
struct Approves {
    policy: PolicyApprover,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Approver for Approves {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        self.policy.decide(ask)
    }

    fn zone(&self, ask: &ApprovalAsk) -> Zone {
        self.policy.zone(ask)
    }

    fn has_person(&self) -> bool {
        true
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.asked.lock().unwrap().extend(ask.outer_paths());
        ApprovalDecision::approve()
    }
}

/// Where a path of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Inside,
    /// It runs programs; only writing it is critical.
    Sensitive,
    Outside,
    /// HoloDeck's own.
    Own,
    /// A file of the test, which is one only in a test.
    Exam,
    /// A temporary file of HoloDeck, or what counts as one.
    Temporary,
}

/// A project in `work`, other files in `out`, and temporary files in `tmp`.
struct Disk {
    root: TempDir,
}

impl Disk {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "work/sub",
            "work/.holodeck/runs",
            "work/results/a",
            "work/.git/hooks",
            "out/deep",
            "tmp/holodeck-claude-other",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let disk = Self { root };
        for (file, _) in FILES {
            if !file.starts_with("work/link") && !file.contains("linked") && !file.starts_with('~') {
                fs::write(disk.at(file), format!("needle of {file}\n")).unwrap();
            }
        }
        symlink(disk.at("out/file.txt"), disk.at("work/link_out.txt")).unwrap();
        symlink(disk.at("work/file.txt"), disk.at("out/link_in.txt")).unwrap();
        symlink(disk.at("out/deep"), disk.at("work/linked")).unwrap();
        symlink(disk.at("out/dangling.txt"), disk.at("work/link_dangling.txt")).unwrap();
        fs::write(disk.at("out/deep/file.txt"), "needle of work/linked/file.txt\n").unwrap();
        disk
    }

    fn at(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    /// The text that a call names the file by.
    fn named(&self, file: &str) -> String {
        if file.starts_with('~') {
            return file.to_owned();
        }
        self.root.path().join(file).display().to_string()
    }

    /// What a file really contains.
    fn content(&self, file: &str) -> Option<String> {
        let file = self.at(file);
        fs::read_to_string(&file).ok()
    }
}

/// The table of paths. Each file contains its own name.
const FILES: [(&str, Place); 19] = [
    ("work/file.txt", Place::Inside),
    ("work/sub/file.txt", Place::Inside),
    ("work/../out/parent.txt", Place::Outside),
    ("out/file.txt", Place::Outside),
    ("work/link_out.txt", Place::Outside),
    ("work/linked/file.txt", Place::Outside),
    ("~/.bashrc", Place::Temporary),
    ("work/.env", Place::Own),
    ("work/.holodeck/runs/run.txt", Place::Own),
    ("work/.HoloDeck.txt", Place::Inside),
    ("work/results/a/run.json", Place::Own),
    ("work/agent.yaml", Place::Exam),
    ("work/cases.yaml", Place::Exam),
    ("work/judge-steps.json", Place::Exam),
    ("work/graders.py", Place::Exam),
    ("tmp/holodeck-claude-other/mcp.json", Place::Temporary),
    ("work/.git/hooks/pre-commit", Place::Sensitive),
    ("work/.mcp.json", Place::Sensitive),
    ("work/.bashrc", Place::Sensitive),
];

const TOOLS: [&str; 6] = ["Read", "Grep", "Glob", "Write", "Edit", "NotebookEdit"];

/// The call of a tool about a file.
fn call(disk: &Disk, tool: &str, file: &str) -> Value {
    let path = disk.named(file);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match tool {
        "Read" => json!({"file_path": path}),
        "Grep" => json!({"pattern": "needle", "path": path, "output_mode": "content"}),
        // Names in the folder.
        "Glob" => json!({"pattern": "*", "path": folder}),
        "Write" => json!({"file_path": path, "content": "written"}),
        "Edit" => json!({"file_path": path, "old_string": "needle", "new_string": "written"}),
        _ => {
            json!({"notebook_path": path, "new_source": "written", "cell_type": "code", "edit_mode": "insert"})
        }
    }
}

/// Whether a call may run. What is inside may: the YAML enables the tools, or somebody approves.
fn may_run(place: Place, tool: &str, mode: &str, who: Who) -> bool {
    let is_write = matches!(tool, "Write" | "Edit" | "NotebookEdit");
    let by_person = who == Who::Person && mode != "acceptAll";
    match place {
        Place::Inside => true,
        Place::Sensitive => !is_write || by_person,
        Place::Outside => by_person,
        Place::Own => tool == "Glob",
        Place::Exam => who != Who::Nobody || tool == "Glob",
        Place::Temporary => false,
    }
}

fn yaml(url: &str, disk: &Disk, mode: &str, rest: &str) -> Yaml {
    let mode = if mode.is_empty() {
        String::new()
    } else {
        format!("  permission_mode: {mode}\n  i_understand_this_is_unsafe: true\n")
    };
    let text = format!(
        "claude:\n{mode}  file_system: {{read: true, write: true, edit: true}}\n  allowed_tools: [Read, Grep, Glob, \
         Write, Edit, NotebookEdit, Agent]\n  agents:\n    helper: {{description: Helps., prompt: Help., tools: \
         [Read, Grep, Glob, Write, Edit, NotebookEdit]}}\napprovals:\n  non_interactive: approve\n{rest}\n\
         evaluations:\n  metrics:\n  - {{type: code, grader: 'graders:check'}}\n"
    );
    let mut yaml = agent_at(url, &disk.at("work"), &text);
    yaml.env.set("TMPDIR", disk.at("tmp").display().to_string());
    yaml.env.set("HOME", disk.at("out").display().to_string());
    yaml
}

/// The results of calls, by their place in `calls`: the text and whether it is an error.
async fn results(
    yaml: impl FnOnce(&str) -> Yaml,
    calls: &[(String, Value)],
    who: Who,
    in_subagent: bool,
) -> (Vec<(String, bool)>, Vec<String>) {
    let all = calls
        .iter()
        .fold(AnthropicReply::nothing(), |reply, (tool, arguments)| {
            reply.and_tool_use(tool, arguments)
        });
    let mut replies = vec![all, AnthropicReply::text("done")];
    if in_subagent {
        let helper = json!({"description": "d", "prompt": "p", "subagent_type": "helper"});
        replies.insert(0, AnthropicReply::tool_use("Agent", &helper));
        replies.push(AnthropicReply::text("all done"));
    }
    let server = AnthropicServer::replies(replies);
    let yaml = yaml(&server.url());
    let (occasion, is_asked) = match who {
        Who::Nobody => (Occasion::Test, false),
        Who::Person => (Occasion::Chat, true),
        Who::Client => (Occasion::Serve, true),
    };
    let asked = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&asked);
    let options = yaml.options_for(occasion, move |policy| {
        if !is_asked {
            return Arc::new(policy);
        }
        let person = Arc::new(Approves {
            policy: policy.with_person(),
            asked: Mutex::default(),
        });
        *keep.lock().unwrap() = Some(Arc::clone(&person));
        person
    });
    let turn = ask(options.unwrap(), "go").await;
    turn.result();
    let requests = server.finish();
    let results = requests[if in_subagent { 2 } else { 1 }].last_results();
    assert_eq!(results.len(), calls.len());
    let person = asked.lock().unwrap().take();
    let asked = person.map(|person| person.asked.lock().unwrap().clone());
    (results, asked.unwrap_or_default())
}

/// Makes all calls of `tools` about every file in one turn, and checks which of them ran.
async fn check(mode: &str, who: Who, in_subagent: bool, tools: &[&str]) {
    let disk = Disk::new();
    let mut rows = Vec::new();
    for tool in tools {
        rows.extend(FILES.iter().map(|(file, place)| (*tool, *file, *place)));
    }
    let calls: Vec<_> = rows
        .iter()
        .map(|(tool, file, _)| ((*tool).to_owned(), call(&disk, tool, file)))
        .collect();
    let (results, asked) = results(|url| yaml(url, &disk, mode, ""), &calls, who, in_subagent).await;
    let mut wrong = Vec::new();
    for ((tool, file, place), (text, is_error)) in rows.iter().zip(&results) {
        let expected = may_run(*place, tool, mode, who);
        let ran = match *tool {
            "Read" | "Grep" => text.contains(&format!("needle of {}", real_name(file))),
            "Glob" => !*is_error,
            // The CLI wants a file to be read before, and a notebook to be one: only what was written counts.
            _ => disk.content(file).is_some_and(|text| text.contains("written")),
        };
        let may_fail = !matches!(*tool, "Read" | "Grep" | "Glob");
        if ran != expected && !(expected && may_fail) {
            wrong.push(format!("{tool} {file}: expected {expected}, got {ran}: {text}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{mode:?} {who:?} {in_subagent}\n{}",
        wrong.join("\n")
    );
    assert!(disk.content("out/dangling.txt").is_none());
    if who == Who::Client {
        assert!(asked.is_empty(), "a client was asked about {asked:?}");
    }
}

/// The name in a file that a link or `..` leads to.
fn real_name(file: &str) -> &str {
    match file {
        "work/link_out.txt" => "out/file.txt",
        file => file,
    }
}

/// Every severe row, and a sample of the others.
#[tokio::test]
async fn an_agent_reads_and_writes_only_in_its_folders() {
    for (mode, who, in_subagent) in [
        ("", Who::Nobody, false),
        ("acceptAll", Who::Client, true),
        ("acceptEdits", Who::Person, false),
        ("manual", Who::Nobody, true),
        ("acceptAll", Who::Person, false),
    ] {
        check(mode, who, in_subagent, &["Read", "Grep", "Glob"]).await;
        check(mode, who, in_subagent, &["Write", "Edit", "NotebookEdit"]).await;
    }
}

/// `cargo xtask soak` runs it.
#[tokio::test]
#[ignore = "starts the CLI 48 times"]
async fn the_whole_table_of_files_holds() {
    for mode in MODES {
        for who in [Who::Nobody, Who::Person, Who::Client] {
            for in_subagent in [false, true] {
                check(mode, who, in_subagent, &TOOLS[..3]).await;
                check(mode, who, in_subagent, &TOOLS[3..]).await;
            }
        }
    }
}

/// The answer to the exam is in the case file, in a former run, in a recording and in `.env`.
#[tokio::test]
async fn a_search_of_the_whole_folder_finds_no_expected_answer() {
    let disk = Disk::new();
    let search = |arguments: Value| ("Grep".to_owned(), arguments);
    let calls = [
        search(json!({"pattern": "needle", "output_mode": "content"})),
        search(json!({"pattern": "needle", "path": ".", "output_mode": "content"})),
        search(json!({"pattern": "needle", "glob": "*.{yaml,json,py}", "output_mode": "content"})),
        search(json!({"pattern": "needle", "path": disk.at("work"), "output_mode": "content", "-u": true})),
        ("Glob".to_owned(), json!({"pattern": "**/*"})),
    ];
    for who in [Who::Nobody, Who::Person] {
        let (results, _) = results(|url| yaml(url, &disk, "", ""), &calls, who, false).await;
        for (text, _) in &results[..4] {
            for (file, place) in FILES {
                let is_hidden = place == Place::Own || place == Place::Exam && who == Who::Nobody;
                let is_found = text.contains(&format!("needle of {file}"));
                assert!(!(is_hidden && is_found), "{who:?} {file}: {text}");
            }
        }
        assert!(
            results[0].0.contains("needle of work/file.txt"),
            "{}",
            results[0].0
        );
    }
}

/// The tool `tool` with each arguments, and what a person approved is not what the policy decides.
fn written(path: &Path) -> Value {
    json!({"file_path": path, "content": "written"})
}

#[tokio::test]
async fn a_rule_with_paths_opens_what_it_names_and_nothing_else() {
    let disk = Disk::new();
    fs::write(disk.at("out/deep/other.txt"), "needle\n").unwrap();
    let rules = "  rules:\n  - {tools: [Read, Write], paths: ['../out/deep/**', results/**], decision: approve}\n  \
                 - {tools: Read, paths: 'sub/**', decision: reject}\n  - {tools: '*', decision: approve}";
    let calls = [
        ("Read", json!({"file_path": disk.at("out/deep/other.txt")}), true),
        (
            "Read",
            json!({"file_path": disk.at("work/linked/other.txt")}),
            true,
        ),
        ("Write", written(&disk.at("out/deep/new.txt")), true),
        (
            "Read",
            json!({"file_path": disk.at("work/results/a/run.json")}),
            true,
        ),
        ("Read", json!({"file_path": disk.at("out/file.txt")}), false),
        ("Write", written(&disk.at("out/new.txt")), false),
        (
            "Grep",
            json!({"pattern": "needle", "path": disk.at("out/deep")}),
            false,
        ),
        ("Read", json!({"file_path": disk.at("work/sub/file.txt")}), false),
        ("Read", json!({"file_path": disk.at("work/file.txt")}), true),
        ("Write", written(&disk.at("work/.git/hooks/post-commit")), false),
    ];
    let made: Vec<_> = calls
        .iter()
        .map(|(tool, arguments, _)| ((*tool).to_owned(), arguments.clone()))
        .collect();
    let (results, _) = results(
        |url| yaml(url, &disk, "acceptAll", rules),
        &made,
        Who::Nobody,
        false,
    )
    .await;
    for ((tool, arguments, runs), (text, is_error)) in calls.iter().zip(&results) {
        assert_eq!(*runs, !is_error, "{tool} {arguments}: {text}");
    }
}
