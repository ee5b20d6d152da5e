//! Which files the real CLI opens for an agent of a YAML file, by place, tool, mode, and who can be asked.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, DecidedBy, Occasion, Ruling, Zone};
use holodeck_model::CliVersion;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::setup::{OLDER, PINNED, Yaml, agent_at, ask, denies, installed};
use crate::{PolicyApprover, approval_policy};

const MODES: [&str; 4] = ["", "manual", "acceptEdits", "acceptAll"];

/// Who can be asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
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
pub(super) struct Disk {
    pub(super) root: TempDir,
}

impl Disk {
    pub(super) fn new() -> Self {
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

    pub(super) fn at(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    /// The text that a call names the file by.
    fn named(&self, file: &str) -> String {
        if file.starts_with('~') {
            return file.to_owned();
        }
        self.root.path().join(file).display().to_string()
    }

    /// The real content of a file.
    pub(super) fn content(&self, file: &str) -> Option<String> {
        let file = self.at(file);
        fs::read_to_string(&file).ok()
    }
}

/// The table of paths. Each file contains its own name.
const FILES: [(&str, Place); 20] = [
    ("work/file.txt", Place::Inside),
    ("work/sub/file.txt", Place::Inside),
    ("work/../out/parent.txt", Place::Outside),
    ("out/file.txt", Place::Outside),
    ("work/link_out.txt", Place::Outside),
    ("work/linked/file.txt", Place::Outside),
    ("work/link_dangling.txt", Place::Outside),
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

/// Whether a call may run. What is inside may: the YAML enables the tools, or a person approves.
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

pub(super) fn yaml(url: &str, disk: &Disk, mode: &str, rest: &str) -> Yaml {
    let mode = if mode.is_empty() {
        String::new()
    } else {
        format!("  permission_mode: {mode}\n  i_understand_this_is_unsafe: true\n")
    };
    let text = format!(
        "claude:\n{mode}  file_system: {{read: true, write: true, edit: true}}\n  allowed_tools: [Read, Grep, Glob, \
         Write, Edit, NotebookEdit, Agent]\n  agents:\n    helper: {{description: Helps., prompt: Help., tools: \
         [Read, Grep, Glob, Write, Edit, NotebookEdit]}}\napprovals:\n  non_interactive: approve\n{rest}\n\
         test_cases_file: cases.yaml\nevaluations:\n  metrics:\n  - {{type: code, grader: 'graders:check'}}\n"
    );
    let mut yaml = agent_at(url, &disk.at("work"), &text);
    yaml.env.set("TMPDIR", disk.at("tmp").display().to_string());
    yaml.env.set("HOME", disk.at("out").display().to_string());
    yaml
}

/// A call: the tool and its arguments.
pub(super) type Call = (String, Value);
/// The result of a call: its text, and whether it is an error.
pub(super) type Answer = (String, bool);

/// The results of calls, one message of the model for each batch, and what a person was asked about.
pub(super) async fn results(
    yaml: impl FnOnce(&str) -> Yaml,
    batches: &[Vec<Call>],
    who: Who,
    in_subagent: bool,
) -> (Vec<Vec<Answer>>, Vec<String>) {
    let mut replies: Vec<AnthropicReply> = Vec::new();
    for batch in batches {
        replies.push(
            batch
                .iter()
                .fold(AnthropicReply::nothing(), |reply, (tool, arguments)| {
                    reply.and_tool_use(tool, arguments)
                }),
        );
    }
    replies.push(AnthropicReply::text("done"));
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
    ask(options.unwrap(), "go").await.result();
    let first = if in_subagent { 2 } else { 1 };
    let requests = server.finish();
    let results: Vec<_> = batches
        .iter()
        .zip(&requests[first..])
        .map(|(batch, request)| {
            let results = request.last_results();
            assert_eq!(results.len(), batch.len());
            results
        })
        .collect();
    let person = asked.lock().unwrap().take();
    let asked = person.map(|person| person.asked.lock().unwrap().clone());
    (results, asked.unwrap_or_default())
}

/// Calls all tools about every file in one turn, and checks which of the calls ran. Returns how many calls there were.
async fn check(version: CliVersion, mode: &str, who: Who, in_subagent: bool) -> usize {
    let disk = Disk::new();
    let rows = |tools: &[&'static str]| {
        let rows = tools
            .iter()
            .flat_map(|tool| FILES.iter().map(move |row| (*tool, row.0, row.1)));
        rows.collect::<Vec<_>>()
    };
    let (readers, writers) = (rows(&TOOLS[..3]), rows(&TOOLS[3..]));
    let calls = |rows: &[(&str, &str, Place)]| {
        let calls = rows
            .iter()
            .map(|(tool, file, _)| ((*tool).to_owned(), call(&disk, tool, file)));
        calls.collect::<Vec<_>>()
    };
    let batches = [calls(&readers), calls(&writers)];
    let yaml = |url: &str| Yaml {
        version,
        ..yaml(url, &disk, mode, "")
    };
    let (results, asked) = results(yaml, &batches, who, in_subagent).await;
    let mut wrong = Vec::new();
    for ((tool, file, place), (text, is_error)) in
        readers.iter().chain(&writers).zip(results.iter().flatten())
    {
        let expected = may_run(*place, tool, mode, who);
        let ran = match *tool {
            "Read" | "Grep" if *file == "work/link_dangling.txt" => expected,
            "Read" | "Grep" => text.contains(&format!("needle of {}", real_name(file))),
            "Glob" => !*is_error,
            _ => disk.content(file).is_some_and(|text| text.contains("written")),
        };
        // The CLI wants a notebook to be one, writes to no link, and lists no names of what it must not read.
        let is_link = file.starts_with("work/link_");
        let may_fail = matches!(*tool, "Edit" | "NotebookEdit")
            || *tool == "Glob" && *place != Place::Inside
            || *tool == "Write" && is_link;
        // The names in a folder do not depend on where its links lead.
        let is_other = *tool == "Glob" && is_link;
        if ran != expected && !(expected && may_fail) && !is_other {
            wrong.push(format!("{tool} {file}: expected {expected}, got {ran}: {text}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{version} {mode:?} {who:?} {in_subagent}\n{}",
        wrong.join("\n")
    );
    let may_write = may_run(Place::Outside, "Write", mode, who);
    assert!(may_write || disk.content("out/dangling.txt").is_none());
    if who == Who::Client {
        assert!(asked.is_empty(), "a client was asked about {asked:?}");
    }
    readers.len() + writers.len()
}

/// The name in a file that a link or `..` leads to.
fn real_name(file: &str) -> &str {
    match file {
        "work/link_out.txt" => "out/file.txt",
        file => file,
    }
}

// Every severe row is in each of them; together they are a sample of modes, persons and sub-agents.

#[tokio::test]
async fn an_agent_without_a_mode_reads_and_writes_only_in_its_folders() {
    check(PINNED, "", Who::Nobody, false).await;
}

#[tokio::test]
async fn a_subagent_that_accepts_all_reads_and_writes_only_in_its_folders_for_a_client() {
    check(PINNED, "acceptAll", Who::Client, true).await;
}

#[tokio::test]
async fn an_agent_that_accepts_edits_asks_a_person_about_other_folders() {
    check(PINNED, "acceptEdits", Who::Person, false).await;
}

#[tokio::test]
async fn an_agent_of_an_older_release_reads_and_writes_only_in_its_folders() {
    check(OLDER, "manual", Who::Nobody, true).await;
}

#[tokio::test]
async fn an_agent_that_accepts_all_needs_no_model_about_other_folders() {
    check(PINNED, "acceptAll", Who::Person, false).await;
}

/// `cargo xtask soak` runs it.
#[tokio::test]
#[ignore = "starts each release 24 times; `cargo xtask soak files` runs it"]
async fn the_whole_table_of_files_holds() {
    for version in installed() {
        let (mut starts, mut calls) = (0, 0);
        for mode in MODES {
            for who in [Who::Nobody, Who::Person, Who::Client] {
                for in_subagent in [false, true] {
                    calls += check(version, mode, who, in_subagent).await;
                    starts += 1;
                }
            }
        }
        println!(
            "Claude Code {version}: {starts} starts, {calls} calls about {} files",
            FILES.len()
        );
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
        let calls = [calls.to_vec()];
        let (results, _) = results(|url| yaml(url, &disk, "", ""), &calls, who, false).await;
        for (text, _) in &results[0][..4] {
            for (file, place) in FILES {
                let is_hidden = place == Place::Own || place == Place::Exam && who == Who::Nobody;
                let is_found = text.contains(&format!("needle of {file}"));
                assert!(!(is_hidden && is_found), "{who:?} {file}: {text}");
            }
        }
        let text = &results[0][0].0;
        assert!(text.contains("needle of work/file.txt"), "{text}");
    }
}

/// The arguments of `Write`.
pub(super) fn written(path: &Path) -> Value {
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
        &[made],
        Who::Nobody,
        false,
    )
    .await;
    for ((tool, arguments, runs), (text, is_error)) in calls.iter().zip(&results[0]) {
        assert_eq!(*runs, !is_error, "{tool} {arguments}: {text}");
    }
}

/// Approves every call that the CLI asks about: only the CLI's own rules deny.
pub(super) struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        Some(Ruling::new(ApprovalDecision::approve(), DecidedBy::Mode))
    }
}

/// A pattern that is enforced here is a second wall in the CLI: in its own syntax it denies at least the same.
async fn check_patterns(version: CliVersion, is_chosen: impl Fn(usize) -> bool) -> usize {
    let disk = Disk::new();
    for folder in ["work/secret/deep", "out/.ssh", "out/a b"] {
        fs::create_dir_all(disk.at(folder)).unwrap();
    }
    symlink(disk.at("out/.ssh"), disk.at("work/keys")).unwrap();
    let files = [
        "work/secret/a.txt",
        "work/secret/deep/b.pem",
        "work/sub/secret.txt",
        "work/x[1].txt",
        "work/par(en).txt",
        "work/a,b c.txt",
        "work/#hash.txt",
        "out/.ssh/id",
        "out/a b/c.txt",
        "out/file.txt",
        "work/file.txt",
    ];
    for file in files {
        fs::write(disk.at(file), format!("needle of {file}\n")).unwrap();
    }
    let absolute = disk.at("out").display().to_string();
    let patterns = [
        "Read(secret/**)".to_owned(),
        "Read(secret)".to_owned(),
        "Grep(*.pem)".to_owned(),
        "Glob(sec*.txt)".to_owned(),
        "Read(x\\[1\\].txt)".to_owned(),
        "Read(par(en).txt)".to_owned(),
        "Read(a,b c.txt)".to_owned(),
        "Read(\\#hash.txt)".to_owned(),
        "Read(~/.ssh/**)".to_owned(),
        "Read($HOME/.ssh)".to_owned(),
        "Read(keys/**)".to_owned(),
        format!("Read({absolute}/**)"),
        format!("Grep(/{absolute}/a b/?.txt)"),
        "Read(../out/f*)".to_owned(),
        "Read(**/[d-g]*)".to_owned(),
        "Read(not/there/**)".to_owned(),
    ];
    let calls: Vec<_> = files
        .iter()
        .map(|file| ("Read", json!({"file_path": disk.at(file)})))
        .chain([(
            "Grep",
            json!({"pattern": "needle", "path": disk.root.path(), "output_mode": "content"}),
        )])
        .collect();
    let mut denied = 0;
    for (_, pattern) in patterns.iter().enumerate().filter(|(index, _)| is_chosen(*index)) {
        let reply = calls
            .iter()
            .fold(AnthropicReply::nothing(), |reply, (tool, arguments)| {
                reply.and_tool_use(tool, arguments)
            });
        let server = AnthropicServer::replies([reply, AnthropicReply::text("done")]);
        let block = format!(
            "claude:\n  file_system: {{read: true}}\n  disallowed_tools: [{}]\n",
            json!(pattern)
        );
        let mut yaml = Yaml {
            version,
            ..agent_at(&server.url(), &disk.at("work"), &block)
        };
        yaml.env.set("TMPDIR", disk.at("tmp").display().to_string());
        yaml.env.set("HOME", disk.at("out").display().to_string());
        let policy = approval_policy(&yaml.agent, &[], &yaml.env);
        let options = yaml
            .options_for(Occasion::Chat, |_| Arc::new(ApproveAll))
            .unwrap();
        ask(options, "go").await.result();
        let results = server.finish()[1].last_results();
        let found = &results[files.len()].0;
        for (file, (text, _)) in files.iter().zip(&results) {
            if !denies(&policy, &disk.at(file)) {
                continue;
            }
            denied += 1;
            let needle = format!("needle of {file}");
            assert!(!text.contains(&needle), "{pattern} {file}: {text}");
            assert!(!found.contains(&needle), "{pattern} {file}: {found}");
        }
    }
    denied
}

/// A sample: a name at any depth, a comma, the user's home, a link, an absolute path and a parent.
#[tokio::test]
async fn what_a_pattern_denies_for_us_the_cli_denies_too() {
    let denied = check_patterns(PINNED, |index| [2, 6, 8, 10, 12, 13].contains(&index)).await;
    assert!(denied >= 6, "{denied}");
}

/// `cargo xtask soak` runs it.
#[tokio::test]
#[ignore = "starts each release 16 times; `cargo xtask soak files` runs it"]
async fn the_whole_list_of_patterns_holds() {
    for version in installed() {
        let denied = check_patterns(version, |_| true).await;
        println!("Claude Code {version}: 16 written patterns, {denied} files denied");
        assert!(denied >= 20, "{denied}");
    }
}

/// A result that is too long for a message is a file of the CLI, which the agent may read as the CLI tells it to.
#[tokio::test]
async fn long_results_of_this_conversation_are_readable() {
    let disk = Disk::new();
    let lines: Vec<String> = (0..30_000)
        .map(|line| format!("needle {line} {}", "x".repeat(30)))
        .collect();
    fs::write(disk.at("work/big.txt"), lines.join("\n")).unwrap();
    for (tool, arguments) in [
        ("Bash", json!({"command": "cat big.txt"})),
        (
            "Grep",
            json!({"pattern": "needle", "output_mode": "content", "head_limit": 0}),
        ),
    ] {
        let first = arguments.clone();
        let server = AnthropicServer::answering(move |request| {
            let results = request.last_results();
            let Some((text, _)) = results.first() else {
                return AnthropicReply::tool_use(tool, &first);
            };
            let saved = text
                .split("saved to: ")
                .nth(1)
                .and_then(|rest| rest.lines().next());
            match saved {
                Some(saved) => {
                    // The transcript beside it is not a result.
                    let transcript = saved.split("/tool-results/").next().unwrap_or_default();
                    AnthropicReply::tool_use("Read", &json!({"file_path": saved.trim(), "limit": 3}))
                        .and_tool_use("Read", &json!({"file_path": format!("{transcript}.jsonl")}))
                }
                None => AnthropicReply::text("done"),
            }
        });
        let mut yaml = agent_at(
            &server.url(),
            &disk.at("work"),
            "claude:\n  file_system: {read: true}\n  bash: {enabled: true}\n",
        );
        yaml.env.set("TMPDIR", disk.at("tmp").display().to_string());
        ask(yaml.options().unwrap(), "go").await.result();
        let requests = server.finish();
        let results = requests.last().unwrap().last_results();
        let [result, transcript] = &results[..] else {
            panic!("{tool}: {results:?}");
        };
        assert!(result.0.contains("needle") && !result.1, "{tool}: {result:?}");
        assert!(transcript.1, "{tool}: {transcript:?}");
    }
}
