//! Follows pages of the documentation: writes their files, runs their commands and compares what they print with the pages.
//!
//! The blocks of a page run in their order, in one folder, against a scripted model. A comment on the line before a fence
//! says what the block is:
//!
//! - `<!-- file: agent.yaml -->`: the content of a file.
//! - `<!-- change: agent.yaml -->`: lines in place of those of the file that begin with the same field.
//! - `<!-- exits: 1 -->`: the last command of the block ends with this code; others end with 0, or 1 before it.
//! - `<!-- not ours: REASON -->`, `<!-- not run: REASON -->`: it is not run.
//! - `<!-- checked: SCHEMA -->`: a file of another program, which `ci_templates.rs` checks.
//!
//! `<!-- setup: NAME -->`, above no block, copies the files of `fixtures/pages/NAME`, except for `model.json`, the answers
//! of the page's model. A command that ends with `&` runs beside the others until the page ends; [`PORT`] is the port on
//! which it listens, another one in each test.
//!
//! `cargo xtask codegen` writes what the commands print into the pages.

use std::{
    fs::{self, File},
    io::Read as _,
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::{
    generated::WRITE,
    project::{Project, SECRET},
};

/// The port that pages show.
const PORT: &str = "8765";

/// Replaces what differs between runs by the values that the pages show.
const SHOWN: [(&str, &str); 11] = [
    // The last columns of a matrix, which are as wide as the longest time.
    (r"  +\d+(\.\d+)? m?s +(\d{8}T)", "  0.8 s  $2"),
    (r"time +run\b", "time   run"),
    (
        r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z",
        "2026-11-27T09-30-00.000Z",
    ),
    (r"\d{8}T\d{9}-[0-9a-f]{6}", "20261127T093000000-a1b2c3"),
    // The day of a run that a comparison shows, wherever its line is broken.
    (r"(,\s+)20(2[6-9]|[3-9]\d)-\d\d-\d\d:", "${1}2026-11-27:"),
    (r"  +\d+(\.\d+)? m?s\b", "  0.8 s"),
    (r"· \d+(\.\d+)? m?s\b", "· 0.8 s"),
    (r"\((\d+(\.\d+)?) m?s\)", "(0.8 s)"),
    (r"(?m)^\d+ ms$", "0.8 s"),
    // The program, and the certificates of this machine.
    (
        r"(?m)^ +\d+  rootfs/(usr/local/bin|etc/ssl)",
        "         …  rootfs/$1",
    ),
    (r"(\d+ files), \d+ bytes", "$1, 36220417 bytes"),
];

pub(crate) fn docs() -> PathBuf {
    root().join("docs")
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Follows a page in a folder, and writes or compares what its commands print.
pub(crate) fn check(page: &Path, project: &Project, endpoint: &str) {
    let text = fs::read_to_string(page).unwrap();
    let followed = Follower::new(project, endpoint).follow(&text);
    if std::env::var_os(WRITE).is_some() {
        fs::write(page, followed).unwrap();
    } else {
        assert_eq!(
            followed,
            text,
            "{}: run `cargo xtask codegen` and look at the change",
            page.display()
        );
    }
}

/// The files that a page needs beside those that it shows; the place of its model's answers.
pub(crate) fn setup(page: &str) -> Option<PathBuf> {
    let name = page
        .lines()
        .find_map(|line| line.strip_prefix("<!-- setup: ")?.strip_suffix(" -->"))?;
    Some(root().join("fixtures/pages").join(name))
}

/// A block of a page.
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The comment on the line before.
    pub(crate) marker: Option<String>,
    pub(crate) label: String,
    pub(crate) lines: Vec<String>,
}

impl Block {
    /// Whether `holodeck` is called in it.
    pub(crate) fn is_command(&self) -> bool {
        let call =
            Regex::new(r"^(\$ )?(.*(&&|\|\||;|=\S*) )?(cargo run -p holodeck-cli -- |holodeck )[a-z-]")
                .unwrap();
        !matches!(self.label.as_str(), "yaml" | "yml" | "rust" | "json")
            && self.lines.iter().any(|line| call.is_match(line))
    }

    fn is_run(&self) -> bool {
        self.label == "console"
    }
}

/// The blocks of a page in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut lines = page.lines().enumerate();
    let (mut found, mut before) = (Vec::new(), None);
    while let Some((number, line)) = lines.next() {
        if let Some(label) = line.trim_start().strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside = inside.take_while(|line| line.trim_start() != "```");
            found.push(Block {
                line: number + 1,
                marker: before.take(),
                label: label.to_owned(),
                lines: inside.map(str::to_owned).collect(),
            });
        } else {
            let marker = line.trim().strip_prefix("<!-- ");
            let marker = marker.and_then(|line| line.strip_suffix(" -->"));
            // A setup is of the page.
            before = marker
                .filter(|marker| !marker.starts_with("setup: "))
                .map(str::to_owned);
        }
    }
    found
}

/// Runs a page.
struct Follower<'a> {
    project: &'a Project,
    endpoint: &'a str,
    /// In the place of [`PORT`].
    port: String,
    beside: Vec<Beside>,
}

/// A program that runs beside the commands, with all that it started.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let _ = self.0.wait();
    }
}

impl<'a> Follower<'a> {
    fn new(project: &'a Project, endpoint: &'a str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        Self {
            project,
            endpoint,
            port: free.to_string(),
            beside: Vec::new(),
        }
    }

    /// The page with the output of its commands as they print it now.
    fn follow(&mut self, page: &str) -> String {
        if let Some(folder) = setup(page) {
            self.copy(&folder, "");
        }
        let mut blocks = blocks(page).into_iter();
        let mut shown = String::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            shown.push_str(line);
            shown.push('\n');
            if !line.trim_start().starts_with("```") {
                continue;
            }
            let block = blocks.next().unwrap();
            for _ in 0..=block.lines.len() {
                lines.next();
            }
            shown.push_str(&self.block(&block));
            shown.push_str("```\n");
        }
        shown
    }

    /// Does what a block is for, and returns it as it is now.
    fn block(&mut self, block: &Block) -> String {
        let content = block
            .lines
            .iter()
            .flat_map(|line| [line, "\n"])
            .collect::<String>();
        let marker = block.marker.as_deref().and_then(|marker| marker.split_once(": "));
        match marker {
            Some(("file", name)) => self.project.write(name, self.with_port(&content)),
            Some(("change", name)) => {
                let changed = change(&self.project.read(name), &self.with_port(&content));
                self.project.write(name, changed);
            }
            Some(("exits", code)) => return self.run(block, code.parse().unwrap()),
            Some(("not ours" | "not run" | "in" | "checked", _)) => {}
            Some(other) => panic!("line {}: unknown marker {other:?}", block.line),
            None if block.is_run() => return self.run(block, 0),
            None => assert!(
                !block.is_command(),
                "line {}: a block with commands is labelled `console`",
                block.line
            ),
        }
        content
    }

    fn with_port(&self, text: &str) -> String {
        text.replace(PORT, &self.port)
    }

    fn copy(&self, folder: &Path, below: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{below}{}", entry.file_name().display());
            if entry.path().is_dir() {
                self.copy(&entry.path(), &format!("{name}/"));
            } else if name != "model.json" {
                let bytes = fs::read(entry.path()).unwrap();
                match String::from_utf8(bytes) {
                    Ok(text) => self.project.write(&name, self.with_port(&text)),
                    Err(other) => self.project.write(&name, other.into_bytes()),
                }
            }
        }
    }

    /// The commands of a block with what they print.
    fn run(&mut self, block: &Block, code: i32) -> String {
        let commands: Vec<&str> = block
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("$ "))
            .collect();
        let mut shown = String::new();
        for (number, command) in commands.iter().enumerate() {
            shown.push_str(&["$ ", command, "\n"].concat());
            if let Some(program) = command.strip_suffix(" &") {
                self.begin(program);
                continue;
            }
            let output = self.shell(&format!("{command} 2>&1")).output().unwrap();
            let mut printed = String::from_utf8(output.stdout)
                .unwrap()
                .replace(&self.port, PORT);
            let is_last = number + 1 == commands.len();
            let found = output.status.code();
            let is_expected = found == Some(code) || (!is_last && found == Some(0));
            assert!(
                is_expected,
                "line {}: `{command}` ended with {found:?}:\n{printed}",
                block.line
            );
            for (pattern, text) in SHOWN {
                printed = Regex::new(pattern)
                    .unwrap()
                    .replace_all(&printed, text)
                    .into_owned();
            }
            let home = self.project.dir().to_string_lossy().into_owned();
            shown.push_str(&in_order(&printed.replace(&home, "~/project")));
        }
        shown
    }

    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_holodeck")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.with_port(line)])
            .current_dir(self.project.dir())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.project.dir().join("../home"))
            .env("OPENAI_BASE_URL", self.endpoint)
            .env("OPENAI_API_KEY", SECRET)
            .env("COLUMNS", "100");
        command
    }

    /// Starts a program that runs beside the others, and waits until it listens.
    fn begin(&mut self, line: &str) {
        let said = self.project.dir().join("../beside.txt");
        let file = File::create(&said).unwrap();
        let child = self
            .shell(line)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        self.beside.push(Beside(child));
        let child = &mut self.beside.last_mut().unwrap().0;
        while TcpStream::connect(format!("127.0.0.1:{}", self.port)).is_err() {
            if let Some(status) = child.try_wait().unwrap() {
                let mut text = String::new();
                let _ = File::open(&said).unwrap().read_to_string(&mut text);
                panic!("`{line}` ended with {status}: {text}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The text with its lines of progress, `[1/2] PASS …`, in the order of the cases' names: they end in any order.
fn in_order(printed: &str) -> String {
    let numbered = |line: &str| {
        line.strip_prefix('[')?
            .split_once("] ")
            .map(|(number, rest)| (number.to_owned(), rest.to_owned()))
    };
    let lines: Vec<&str> = printed.lines().collect();
    let blocks = lines.chunk_by(|one, next| numbered(one).is_some() == numbered(next).is_some());
    let mut ordered = String::new();
    for block in blocks {
        let (numbers, mut rests): (Vec<_>, Vec<_>) = block.iter().filter_map(|line| numbered(line)).unzip();
        if numbers.is_empty() {
            ordered.extend(block.iter().flat_map(|line| [line, "\n"]));
            continue;
        }
        rests.sort_by_key(|rest| rest.split(' ').nth(1).map(str::to_owned));
        let lines = numbers.iter().zip(&rests);
        ordered.extend(lines.map(|(number, rest)| format!("[{number}] {rest}\n")));
    }
    ordered
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

#[test]
fn a_page_whose_output_differs_is_shown_as_it_is_now() {
    let project = Project::empty();
    let page = "Text.\n\n<!-- file: a.txt -->\n```yaml\nname: x\n```\n\n```console\n$ cat a.txt\nold\n```\n";
    let followed = Follower::new(&project, "http://127.0.0.1:9").follow(page);
    assert!(
        followed.ends_with("```console\n$ cat a.txt\nname: x\n```\n"),
        "{followed}"
    );
}

#[test]
fn a_command_is_recognised_in_every_label_and_form() {
    let is_command = |label: &str, line: &str| blocks(&format!("```{label}\n{line}\n```\n"))[0].is_command();
    for label in ["", "sh", "console", "text", "bash"] {
        for line in [
            "holodeck test",
            "$ holodeck test agent.yaml",
            "cd x && holodeck validate",
            "HOLODECK_SHARDS=4 holodeck test",
            "cargo run -p holodeck-cli -- test x.yaml",
        ] {
            assert!(is_command(label, line), "{label} {line}");
        }
        for line in [
            "a holodeck is a room",
            "holodeck 0.1",
            "tar -xzf holodeck-*.tar.gz",
        ] {
            assert!(!is_command(label, line), "{label} {line}");
        }
    }
}
