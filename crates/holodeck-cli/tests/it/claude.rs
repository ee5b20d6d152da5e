//! Agents of provider anthropic, on the real Claude Code CLI.

mod answers;
mod chat;
mod ends;
mod fixtures;
mod hooks;
mod logins;
mod quality;
mod recordings;
mod routing;
mod safety;
mod served;
mod served_files;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::yield_now,
    time::{Duration, Instant},
};

use holodeck_testkit::{AnthropicRequest, AnthropicServer, PINNED_CLAUDE, claude_cli};

use crate::project::{CommandOutput, Project, SECRET};

pub(crate) fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).unwrap()
}

/// A project, a scripted endpoint for it, and the CLI behind a script that records its arguments and process ids.
pub(crate) struct Bench {
    pub(crate) project: Project,
    pub(crate) server: AnthropicServer,
}

impl Bench {
    pub(crate) fn new(agent: &str, server: AnthropicServer) -> Self {
        let project = Project::with(agent);
        let bench = Self { project, server };
        fs::create_dir(bench.temporary()).unwrap();
        let script = format!(
            "#!/bin/sh\ncase $1 in --version) ;; *)\necho $$ >>'{0}/pids'\nprintf '%s\\n' \"$*\" >>'{0}/argv'\nesac\n\
             exec '{1}' \"$@\"\n",
            bench.records().display(),
            claude_cli(PINNED_CLAUDE).display()
        );
        fs::create_dir(bench.records()).unwrap();
        fs::write(bench.wrapper(), script).unwrap();
        fs::set_permissions(bench.wrapper(), fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    /// The folder for temporary files.
    fn temporary(&self) -> PathBuf {
        self.project.dir().with_file_name("tmp")
    }

    fn records(&self) -> PathBuf {
        self.project.dir().with_file_name("records")
    }

    fn wrapper(&self) -> PathBuf {
        self.records().join("claude")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.project.command(args);
        command
            .env("HOLODECK_CLAUDE_CLI", self.wrapper())
            .env("ANTHROPIC_BASE_URL", self.server.url())
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("TMPDIR", self.temporary());
        command
    }

    /// Runs the command, and checks that it leaves no process and no private folder.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.check_ended(&self.command(args).output().unwrap())
    }

    fn check_ended(&self, output: &Output) -> CommandOutput {
        self.wait_for_processes();
        let left = self.private_folders();
        let ran = CommandOutput::of(output);
        assert!(left.is_empty(), "{left:?} stayed after {}", ran.all());
        ran
    }

    /// The group ids of the started processes.
    fn pids(&self) -> Vec<u32> {
        let pids = fs::read_to_string(self.records().join("pids")).unwrap_or_default();
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    pub(crate) fn argv(&self) -> String {
        fs::read_to_string(self.records().join("argv")).unwrap_or_default()
    }

    /// Waits until no process of the CLI or of its group is running.
    #[track_caller]
    fn wait_for_processes(&self) {
        let groups = self.pids();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let running = members(&groups);
            if running.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still running: {running:?}");
            yield_now();
        }
    }

    fn private_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temporary()).unwrap();
        let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        folders.retain(|folder| folder.to_string_lossy().contains("holodeck-claude-"));
        folders
    }
}

/// The running processes of these groups.
fn members(groups: &[u32]) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let Some((_, rest)) = stat.rsplit_once(')') else {
                return false;
            };
            let mut fields = rest.split_whitespace();
            let (state, group) = (fields.next(), fields.nth(1));
            let group = group.and_then(|group| group.parse().ok());
            state != Some("Z") && group.is_some_and(|group| groups.contains(&group))
        })
        .collect()
}

/// An agent with these further top-level keys and cases; each answer must contain the ground truth.
fn agent(more: &str, cases: &[(&str, &str)]) -> String {
    use std::fmt::Write as _;
    let mut yaml = format!(
        "name: claude\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: {INSTRUCTIONS}}}\n{more}\n\
         evaluations:\n  metrics:\n    - {{type: standard, metric: contains}}\ntest_cases:\n"
    );
    for (name, truth) in cases {
        writeln!(
            yaml,
            "  - {{name: {name}, input: \"Case {name}\", ground_truth: {truth}}}"
        )
        .unwrap();
    }
    yaml
}

const INSTRUCTIONS: &str = "Answer as briefly as a telegram.";

/// The name of the case of [`agent`] that a request belongs to.
fn case(request: &AnthropicRequest) -> String {
    let texts = request.texts("user");
    let asked = texts.iter().rev().find_map(|text| text.strip_prefix("Case "));
    asked.unwrap_or_default().to_owned()
}
