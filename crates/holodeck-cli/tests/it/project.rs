//! A folder with an agent, and the program run in it with a clean environment.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use serde_json::Value;

pub(crate) struct Project {
    dir: tempfile::TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    /// A project with this `agent.yaml`.
    pub(crate) fn with(agent: &str) -> Self {
        let project = Self::empty();
        project.write("agent.yaml", agent);
        project
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The command, not yet run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holodeck"));
        command
            .args(args)
            .current_dir(self.dir())
            .env_clear()
            .env("HOME", self.dir.path().join("home"))
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(&self.command(args).output().unwrap())
    }

    /// The journals of the agent's runs, oldest first, without other files of killed runs.
    pub(crate) fn journals(&self) -> Vec<PathBuf> {
        let mut files = list(&self.path(".holodeck/runs"));
        files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        files
    }

    /// The verdicts in the newest journal, in its order.
    pub(crate) fn journal_grades(&self) -> Vec<Value> {
        let verdict = |line: Value| {
            let payload = line.get("graded").or_else(|| line.get("ran"))?;
            payload.get("grade").cloned()
        };
        self.journal_lines().into_iter().filter_map(verdict).collect()
    }

    /// The lines of the newest journal after its first.
    pub(crate) fn journal_lines(&self) -> Vec<Value> {
        let newest = fs::read_to_string(self.journals().last().unwrap()).unwrap();
        let lines = newest.lines().skip(1);
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The newest run file.
    pub(crate) fn run_file(&self) -> Value {
        let folders = list(&self.path("results"));
        let files = list(folders.last().unwrap());
        serde_json::from_str(&fs::read_to_string(files.last().unwrap()).unwrap()).unwrap()
    }

    /// The state of each case in the newest run file.
    pub(crate) fn states(&self) -> Vec<String> {
        let file = self.run_file();
        let results = file["report"]["results"].as_array().unwrap();
        results
            .iter()
            .map(|result| result["state"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths
}

impl CommandOutput {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// Checks the exit code, and that the output has no panic, backtrace or secret.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.all());
        for never in [
            "panicked",
            "stack backtrace",
            "RUST_BACKTRACE",
            "internal error",
            SECRET,
        ] {
            assert!(!self.all().contains(never), "{never} in {}", self.all());
        }
        self
    }

    /// Checks that the output contains `what`, on one line or wrapped.
    #[track_caller]
    pub(crate) fn says(self, what: &str) -> Self {
        assert!(self.contains(what), "no {what:?} in\n{}", self.all());
        self
    }

    /// Whether the output contains `what`, on one line or wrapped.
    pub(crate) fn contains(&self, what: &str) -> bool {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.all().contains(what) || words(&self.all()).contains(&words(what))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Everything, for a snapshot.
    pub(crate) fn all(&self) -> String {
        let code = self
            .code
            .map_or_else(|| "by a signal".to_owned(), |code| code.to_string());
        format!(
            "exit code: {code}\n--- stdout ---\n{}--- stderr ---\n{}",
            self.stdout, self.stderr
        )
    }
}

/// A key that must not appear in any output.
pub(crate) const SECRET: &str = "key-4f9d27-do-not-show";

/// Replaces what differs between runs.
pub(crate) const FILTERS: &[(&str, &str)] = &[
    (r"http://127\.0\.0\.1:\d+", "http://[server]"),
    (r"127\.0\.0\.1:\d+", "[server]"),
    (r"\d{8}T\d{9}-[0-9a-f]{6}", "[run]"),
    (r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z", "[time]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
    (r"recorded \d{4}-\d\d-\d\d", "recorded [date]"),
    (r" +\b\d+ ms", " [time]"),
    (r" +\b\d+\.\d s\b", " [time]"),
    (r"\(\d+ ms\)", "([time])"),
    (r"\(\d+\.\d s\)", "([time])"),
    (r"\b\d+\.\d s$", "[time]"),
    (r"(?m)^\d+ ms$", "[time]"),
    (r"process \d+", "process [id]"),
];

macro_rules! assert_output {
    ($output:expr) => {
        insta::with_settings!({filters => $crate::project::FILTERS.to_vec()}, {
            insta::assert_snapshot!($output.all());
        });
    };
}
pub(crate) use assert_output;

/// An agent with these cases and this endpoint.
pub(crate) fn agent(endpoint: &str, cases: &str) -> String {
    format!(
        "name: support\nmodel:\n  provider: openai\n  name: test-model\n  endpoint: {endpoint}\n  \
         temperature: 0.3\n  max_tokens: 100\ninstructions:\n  inline: Answer briefly.\n\
         execution:\n  parallel_test_cases: 1\nevaluations:\n  metrics:\n    - type: standard\n      \
         metric: contains\ntest_cases:\n{cases}"
    )
}

/// Two cases; [`half_correct_server`] answers only the first as expected.
pub(crate) const TWO_CASES: &str = "  - name: capital\n    input: The capital of France?\n    \
                                    ground_truth: Paris\n  - name: sum\n    input: 7 + 5?\n    \
                                    ground_truth: \"12\"\n";

/// A server that answers both questions correctly.
pub(crate) fn correct_server() -> ModelServer {
    ModelServer::answering(|request| Reply::text(right_answer(request)))
}

/// A server that answers only the first question correctly.
pub(crate) fn half_correct_server() -> ModelServer {
    ModelServer::answering(|request| match right_answer(request) {
        "It is 12." => Reply::text("It is 13."),
        right => Reply::text(right),
    })
}

fn right_answer(request: &ReceivedRequest) -> &'static str {
    match request.texts("user").last() {
        Some(question) if question.contains("France") => "Paris.",
        Some(question) if question.contains("7 + 5") => "It is 12.",
        _ => "I do not know.",
    }
}
