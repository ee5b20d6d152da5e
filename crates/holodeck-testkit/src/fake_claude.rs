//! Writes a shell script that replaces the Claude Code CLI and has one fault.

#![allow(clippy::panic, reason = "a test cannot continue without its fake")]

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// Its reported version.
const VERSION: &str = "2.1.330";
const SCRIPT: &str = include_str!("fake_claude.sh");

/// A replacement for the Claude Code CLI with one fault, which otherwise behaves as recorded. It answers each message
/// with `Answer N.`, in two pieces if partial messages are enabled. Needs only `/bin/sh`.
#[derive(Debug)]
pub struct FakeClaude {
    folder: TempDir,
}

/// The fault of a [`FakeClaude`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaudeFault {
    /// Nothing.
    None,
    /// It reports this version.
    Version(String),
    /// Its file is not executable.
    NotExecutable,
    /// It exits with code 70 and a line on stderr.
    Crash(ClaudeStage),
    /// It kills itself with SIGKILL.
    Kill(ClaudeStage),
    /// It stops reading and writing.
    Hang(ClaudeStage),
    /// Within an answer it writes a line of about this many bytes.
    LongLine {
        /// Length of the line.
        bytes: usize,
    },
    /// Within an answer it writes half a line and exits with code 0.
    HalfLine,
    /// Before each message it writes lines that are not JSON.
    Noise,
    /// Before each message it writes messages of unknown kinds.
    UnknownKinds,
    /// First, it writes about this many bytes to stderr.
    StderrFlood {
        /// How much.
        bytes: usize,
    },
    /// Within an answer it stops reading, ignores SIGTERM, and has a child that holds its pipes.
    IgnoresTerm,
    /// It has a child that holds its pipes and lives on.
    LeavesGrandchild,
    /// When its input ends, it takes a moment to save its state. Not a fault.
    FlushesAtExit,
    /// It continues when its input ends.
    IgnoresEof,
    /// Within an answer it exits.
    Exits {
        /// With this code.
        code: u8,
        /// With this on stderr.
        stderr: String,
    },
    /// Its answer contains this many calls of `mcp__holodeck_tools__work`, and it waits for all results. Not a fault.
    ToolCalls(usize),
    /// It reports each turn's result twice.
    TwoResults,
    /// It reports each turn's result again after reading the next message.
    LateResult,
    /// It does not have `/clear`, as 2.1.113. Not a fault.
    CannotClear,
    /// Within an answer it sends the host an unknown request, and continues only after an error response.
    UnknownRequest,
    /// Within an answer it is interrupted as by SIGINT, without a request of the host.
    InterruptsItself,
    /// Within an answer it waits for an interrupt, and then behaves like the real CLI. Not a fault.
    WaitsForInterrupt,
    /// Within an answer it asks for permission to call `Write`, and withdraws the question at
    /// [`withdraw`](FakeClaude::withdraw). Not a fault.
    WithdrawsPermission,
}

/// How far a [`FakeClaude`] gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaudeStage {
    /// Its version is requested.
    Version,
    /// It is started.
    Start,
    /// It has received `initialize` and not answered.
    Initialize,
    /// It has answered `initialize`.
    Initialized,
    /// It has received a message and written nothing.
    Message,
    /// The turn has begun.
    Init,
    /// Half of the answer is written, if partial messages are enabled.
    Answer,
    /// The answer is written, the result is not.
    Result,
}

impl ClaudeStage {
    /// All stages, in order.
    pub const ALL: [Self; 8] = [
        Self::Version,
        Self::Start,
        Self::Initialize,
        Self::Initialized,
        Self::Message,
        Self::Init,
        Self::Answer,
        Self::Result,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Start => "start",
            Self::Initialize => "initialize",
            Self::Initialized => "initialized",
            Self::Message => "message",
            Self::Init => "init",
            Self::Answer => "answer",
            Self::Result => "result",
        }
    }
}

impl FakeClaude {
    /// Writes the program.
    pub fn new(fault: &ClaudeFault) -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let fake = Self { folder };
        let mode = if *fault == ClaudeFault::NotExecutable {
            0o644
        } else {
            0o755
        };
        let path = fake.path();
        let written = fs::write(&path, fake.script(fault))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        written.unwrap_or_else(|error| panic!("the fake cannot be written: {error}"));
        fake
    }

    /// The program.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("claude")
    }

    /// Number of starts, without requests for its version.
    pub fn starts(&self) -> usize {
        self.lines("starts").len()
    }

    /// The processes that received a message, without repetitions.
    pub fn asked(&self) -> BTreeSet<String> {
        self.lines("asked").into_iter().collect()
    }

    /// The processes that saved their state before they exited.
    pub fn flushed(&self) -> BTreeSet<String> {
        self.lines("flushed").into_iter().collect()
    }

    /// The arguments of all starts, one after the other.
    pub fn arguments(&self) -> Vec<String> {
        self.lines("arguments")
    }

    /// All processes, including those that they started to outlive them.
    pub fn pids(&self) -> Vec<u32> {
        let pids = self.lines("pids");
        pids.iter().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Waits until none of [`pids`](Self::pids) runs any more. Linux only.
    pub async fn gone(&self) {
        let runs = |pid: &u32| {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        while self.pids().iter().any(runs) {
            tokio::task::yield_now().await;
        }
    }

    /// Lets it withdraw its question.
    pub fn withdraw(&self) {
        let written = fs::write(self.folder.path().join("withdraw"), "");
        written.unwrap_or_else(|error| panic!("the file cannot be written: {error}"));
    }

    /// Everything it has read, over all starts.
    pub fn received(&self) -> Vec<Value> {
        let read = |line: &String| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("it was sent no JSON: {error}: {line}"))
        };
        self.lines("received").iter().map(read).collect()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn script(&self, fault: &ClaudeFault) -> String {
        let mut version = VERSION;
        let mut stage = "";
        let mut amount = 0;
        let mut complaint = "";
        let word = match fault {
            ClaudeFault::None | ClaudeFault::NotExecutable => "none",
            ClaudeFault::Version(other) => {
                version = other;
                "none"
            }
            ClaudeFault::Crash(at) => {
                stage = at.word();
                "crash"
            }
            ClaudeFault::Kill(at) => {
                stage = at.word();
                "kill"
            }
            ClaudeFault::Hang(at) => {
                stage = at.word();
                "hang"
            }
            ClaudeFault::LongLine { bytes } => {
                amount = *bytes;
                "long-line"
            }
            ClaudeFault::HalfLine => "half-line",
            ClaudeFault::Noise => "noise",
            ClaudeFault::UnknownKinds => "unknown",
            ClaudeFault::StderrFlood { bytes } => {
                amount = *bytes;
                "stderr-flood"
            }
            ClaudeFault::IgnoresTerm => "ignore-term",
            ClaudeFault::LeavesGrandchild => "grandchild",
            ClaudeFault::FlushesAtExit => "flush",
            ClaudeFault::IgnoresEof => "ignore-eof",
            ClaudeFault::Exits { code, stderr } => {
                amount = usize::from(*code);
                complaint = stderr;
                "exit"
            }
            ClaudeFault::ToolCalls(count) => {
                amount = *count;
                "tool-calls"
            }
            ClaudeFault::TwoResults => "two-results",
            ClaudeFault::LateResult => "late-result",
            ClaudeFault::CannotClear => "cannot-clear",
            ClaudeFault::UnknownRequest => "unknown-request",
            ClaudeFault::InterruptsItself => "interrupt-itself",
            ClaudeFault::WaitsForInterrupt => "wait-for-interrupt",
            ClaudeFault::WithdrawsPermission => "withdraw",
        };
        let folder = quoted(&self.folder.path().to_string_lossy());
        format!(
            "#!/bin/sh\nfolder={folder}\nversion={}\nfault={word}\nstage={stage}\namount={amount}\ncomplaint={}\n{SCRIPT}",
            quoted(version),
            quoted(complaint),
        )
    }
}

/// As one word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
