//! Generated deny patterns: whatever one denies for us, the real CLI denies too.

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_backend_api::Occasion;
use holodeck_model::{CliVersion, PathBases, ToolPattern};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::json;

use super::{
    files::ApproveAll,
    setup::{PINNED, Yaml, agent_at, ask, denies, installed},
};
use crate::approval_policy;

/// Where a pattern begins.
const BEGINNINGS: [&str; 11] = [
    "", "/", "./", "sub/", "**/", "../out/", "../**/", "~/", "$HOME/", "OUT/", "/OUT/",
];

/// The middle of a pattern, and a name that it may mean; `N` is a word that no other pattern has.
const MIDDLES: [(&str, &str); 27] = [
    ("N", "N"),
    ("N*", "N-star"),
    ("*N", "star-N"),
    ("N?", "N1"),
    ("[xN]N", "xN"),
    ("[!y]N", "xN"),
    ("[a-z]N", "xN"),
    ("N\\[1\\]", "N[1]"),
    ("N(en)", "N(en)"),
    ("N,b c", "N,b c"),
    ("\\#N", "#N"),
    ("\\!N", "!N"),
    ("{N,other}", "{N,other}"),
    ("N\\*", "N*"),
    ("Né", "Né"),
    (".N", ".N"),
    // Two units of UTF-16 are one letter.
    ("😀N", "😀N"),
    ("N?", "N😀"),
    ("?N?", "😀N😁"),
    ("[!y]N", "😀N"),
    ("[!😀]N", "😃N"),
    ("[!😀]N", "aN"),
    ("[😀-😃]N", "😁N"),
    ("[é-😃x]N", "😁N"),
    ("[é-😃x]N", "xN"),
    ("[!y]N", "\u{f900}N"),
    ("\\{N,x\\}", "{N,x}"),
];

/// Where a pattern ends.
const ENDS: [&str; 7] = ["", "/", "/*", "/**", "/**/b.pem", "/deep", "/*/b.*"];

const TOOLS: [&str; 3] = ["Read", "Grep", "Glob"];

/// How many patterns one start of the CLI gets.
const BATCH: usize = 24;

/// How many calls one message has.
const CALLS: usize = 50;

/// A pattern of the grammar, and the name that its files have.
struct Generated {
    pattern: String,
    name: String,
}

/// All patterns of the grammar that can be applied; the others are errors for the user.
fn grammar(out: &Path) -> Vec<Generated> {
    let out = out.display().to_string();
    let mut all = Vec::new();
    for beginning in BEGINNINGS {
        for (middle, name) in MIDDLES {
            for end in ENDS {
                let word = format!("n{}q", all.len());
                let tool = TOOLS[all.len() % TOOLS.len()];
                let path = format!(
                    "{}{}{end}",
                    beginning.replace("OUT", &out),
                    middle.replace('N', &word)
                );
                all.push(Generated {
                    pattern: format!("{tool}({path})"),
                    name: name.replace('N', &word),
                });
            }
        }
    }
    let bases = PathBases {
        working_directory: "/".to_owned(),
        home: Some("/".to_owned()),
    };
    all.retain(|generated| ToolPattern::parse(&generated.pattern, &bases).is_ok());
    all
}

/// The files for a pattern: in each folder a file and others below a folder with the name, and one whose name only looks
/// similar.
fn files_for(root: &Path, generated: &Generated) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["work", "work/sub", "out"] {
        let at = root.join(folder);
        for below in ["a.txt", "deep/b.pem"] {
            files.push(at.join(&generated.name).join(below));
        }
        files.push(at.join(format!("{}z", generated.name)));
    }
    files
}

/// How much was tried.
#[derive(Debug, Default)]
struct Tried {
    patterns: usize,
    denied: usize,
    readable: usize,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            patterns,
            denied,
            readable,
        } = self;
        write!(f, "{patterns} patterns, {denied} files denied, {readable} read")
    }
}

/// Starts the CLI with these patterns, and reads every file.
async fn check(version: CliVersion, choose: impl Fn(usize) -> bool) -> Tried {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    for folder in ["work/sub", "out", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let all = grammar(&root.join("out"));
    let chosen: Vec<Generated> = all
        .into_iter()
        .enumerate()
        .filter_map(|(index, one)| choose(index).then_some(one))
        .collect();
    let mut tried = Tried {
        patterns: chosen.len(),
        ..Tried::default()
    };
    let mut wrong = Vec::new();
    for batch in chosen.chunks(BATCH) {
        let files: Vec<(&str, PathBuf)> = batch
            .iter()
            .flat_map(|generated| {
                let files = files_for(&root, generated).into_iter();
                files.map(|file| (generated.pattern.as_str(), file))
            })
            .collect();
        for (index, (_, file)) in files.iter().enumerate() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("needle w{index}q\n")).unwrap();
        }
        let patterns: Vec<&str> = batch.iter().map(|generated| generated.pattern.as_str()).collect();
        let block = format!(
            "claude:\n  file_system: {{read: true}}\n  disallowed_tools: {}\n",
            json!(patterns)
        );
        let agent = |url: &str| {
            let mut yaml = Yaml {
                version,
                ..agent_at(url, &root.join("work"), &block)
            };
            yaml.env.set("TMPDIR", root.join("tmp").display().to_string());
            yaml.env.set("HOME", root.join("out").display().to_string());
            yaml
        };
        let unused = agent("http://127.0.0.1:9");
        let policy = approval_policy(&unused.agent, &[], &unused.env);
        // What is denied, and one file of each pattern that is not.
        let mut controls = BTreeSet::new();
        let files: Vec<(usize, &str, PathBuf, bool)> = files
            .into_iter()
            .enumerate()
            .map(|(index, (pattern, file))| {
                let is_denied = denies(&policy, &file);
                (index, pattern, file, is_denied)
            })
            .filter(|(_, pattern, _, is_denied)| *is_denied || controls.insert(*pattern))
            .collect();
        // One message has at most `CALLS` calls: the CLI does not run all calls of a longer one.
        let messages = files.chunks(CALLS).map(|files| {
            let nothing = AnthropicReply::nothing();
            files.iter().fold(nothing, |reply, file| {
                reply.and_tool_use("Read", &json!({"file_path": file.2}))
            })
        });
        let search = json!({"pattern": "needle", "path": root, "output_mode": "content", "head_limit": 0});
        // An older release searches its working directory only, so that this is tried too.
        let below = |folder: &str| json!({"pattern": "needle", "path": root.join(folder), "output_mode": "content", "head_limit": 0});
        let searches = AnthropicReply::tool_use("Grep", &search)
            .and_tool_use("Grep", &below("work"))
            .and_tool_use("Grep", &below("work/sub"));
        let last = [searches, AnthropicReply::text("done")];
        let server = AnthropicServer::replies(messages.chain(last));
        let yaml = agent(&server.url());
        let options = yaml
            .options_for(Occasion::Chat, |_| Arc::new(ApproveAll))
            .unwrap();
        let turn = ask(options, "go").await;
        assert_eq!(turn.result().error_reason(), None);
        let requests = server.finish();
        let results: Vec<_> = requests[1..]
            .iter()
            .flat_map(holodeck_testkit::AnthropicRequest::last_results)
            .collect();
        assert_eq!(results.len(), files.len() + 3);
        let found: String = results[files.len()..]
            .iter()
            .map(|(text, _)| text.as_str())
            .collect();
        for ((index, pattern, file, is_denied), (text, _)) in files.iter().zip(&results) {
            let needle = format!("needle w{index}q");
            let is_read = text.contains(&needle);
            if *is_denied {
                tried.denied += 1;
                for (does, verb) in [(is_read, "reads"), (found.contains(&needle), "finds")] {
                    if does {
                        wrong.push(format!("{pattern}: the CLI {verb} {}", file.display()));
                    }
                }
            } else if is_read {
                tried.readable += 1;
            }
        }
        for folder in ["work", "out"] {
            fs::remove_dir_all(root.join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("work/sub")).unwrap();
        fs::create_dir_all(root.join("out")).unwrap();
    }
    assert!(wrong.is_empty(), "{version}\n{}", wrong.join("\n"));
    tried
}

/// A sample with every beginning, middle and end: the step has no factor in common with their numbers.
#[tokio::test]
async fn a_sample_of_all_patterns_denies_in_the_cli_what_it_denies_for_us() {
    let tried = check(PINNED, |index| index % 43 == 3).await;
    assert!(tried.denied > 30 && tried.readable > 30, "{tried:?}");
}

/// `cargo xtask soak` runs it.
#[tokio::test]
#[ignore = "starts each release some 70 times; `cargo xtask soak files` runs it"]
async fn the_whole_grammar_of_patterns_holds() {
    for version in installed() {
        let tried = check(version, |_| true).await;
        println!("Claude Code {version}: {tried}");
        assert!(tried.denied > 3000 && tried.readable > 1000, "{tried}");
    }
}
