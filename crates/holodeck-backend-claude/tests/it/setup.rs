//! Options, approvers and process checks for tests with the real CLI, and the events that a turn produced.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, EventStream,
    ExecutionResult, Ruling, TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, Limits, Reuse};
use holodeck_model::CliVersion;
use holodeck_process::{ChildEnv, ProcessSpec};
use holodeck_testkit::{AnthropicRequest, AnthropicServer, FakeClaude, PINNED_CLAUDE, claude_cli};
use tokio_util::sync::CancellationToken;

/// The `PATH` for child processes of tests.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The CLI version that this crate is built for.
pub(crate) fn cli() -> PathBuf {
    claude_cli(PINNED_CLAUDE)
}

/// An installed version of the CLI.
pub(crate) fn installed(version: &str) -> PathBuf {
    claude_cli(CliVersion::parse(version).unwrap())
}

/// Options for the CLI with `server` as its API.
pub(crate) fn options(server: &AnthropicServer) -> ClaudeOptions {
    options_of(&cli(), server)
}

pub(crate) fn options_of(cli: &Path, server: &AnthropicServer) -> ClaudeOptions {
    ClaudeOptions::new(cli)
        .env("PATH", PATH)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key")
        .env("ANTHROPIC_BASE_URL", server.url())
        .model("claude-sonnet-4-5")
        .system_prompt("be brief")
        .limits(limits())
}

/// Limits without retries, so that each scripted reply is requested once.
pub(crate) fn limits() -> Limits {
    Limits {
        api_retries: 0,
        close: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// The events of a turn and how it ended.
pub(crate) struct TurnLog {
    pub(crate) events: Vec<BackendEvent>,
    pub(crate) end: Result<ExecutionResult, BackendError>,
}

impl TurnLog {
    /// The result of the turn. Panics if the turn failed.
    #[track_caller]
    pub(crate) fn result(&self) -> &ExecutionResult {
        self.end.as_ref().unwrap()
    }

    pub(crate) fn notices(&self) -> Vec<&str> {
        let notices = self.events.iter().filter_map(|event| match event {
            BackendEvent::Notice { message } => Some(message.as_str()),
            _ => None,
        });
        notices.collect()
    }
}

pub(crate) async fn turn(stream: EventStream<'_>) -> TurnLog {
    let (mut events, error) = collect_events(stream).await;
    let end = match error {
        Some(error) => Err(error),
        None => match events.pop() {
            Some(BackendEvent::End(result)) => Ok(*result),
            other => panic!("the last event is {other:?}"),
        },
    };
    TurnLog { events, end }
}

/// Runs one turn in a separate process.
pub(crate) async fn ask(options: ClaudeOptions, message: &str) -> TurnLog {
    let backend = ClaudeBackend::new(options.reuse(Reuse::Never)).unwrap();
    let log = turn(backend.start(TurnRequest::new(message))).await;
    backend.teardown().await.unwrap();
    log
}

/// An approver that answers with a closure and records the questions.
pub(crate) struct ScriptedApprover<F> {
    answer: F,
    asks: Mutex<Vec<ApprovalAsk>>,
}

impl<F: Fn(&ApprovalAsk) -> ApprovalDecision + Send + Sync> ScriptedApprover<F> {
    pub(crate) fn new(answer: F) -> Arc<Self> {
        Arc::new(Self {
            answer,
            asks: Mutex::default(),
        })
    }

    /// The tools that needed approval, in order.
    pub(crate) fn tools(&self) -> Vec<String> {
        let asks = self.asks.lock().unwrap();
        asks.iter().map(|ask| ask.tool_name.clone()).collect()
    }

    /// The arguments of their calls.
    pub(crate) fn arguments(&self) -> Vec<serde_json::Value> {
        let asks = self.asks.lock().unwrap();
        asks.iter().map(|ask| ask.arguments.clone()).collect()
    }
}

#[async_trait]
impl<F: Fn(&ApprovalAsk) -> ApprovalDecision + Send + Sync> Approver for ScriptedApprover<F> {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        None
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.asks.lock().unwrap().push(ask.clone());
        (self.answer)(ask)
    }
}

/// An approver that approves everything.
pub(crate) fn approve_all() -> Arc<dyn Approver> {
    ScriptedApprover::new(|_: &ApprovalAsk| ApprovalDecision::approve())
}

pub(crate) fn reject(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Reject {
        reason: reason.to_owned(),
    }
}

/// Collects the events of a turn, and its error.
pub(crate) async fn collect_events(mut stream: EventStream<'_>) -> (Vec<BackendEvent>, Option<BackendError>) {
    use futures::StreamExt as _;

    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// The texts of the user and the model, without those that the CLI adds.
pub(crate) fn conversation_texts(request: &AnthropicRequest) -> Vec<String> {
    let texts = request
        .messages()
        .iter()
        .flat_map(|message| match &message["content"] {
            serde_json::Value::String(text) => vec![text.clone()],
            blocks => blocks
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|block| Some(block.get("text")?.as_str()?.to_owned()))
                .collect(),
        });
    texts
        .filter(|text| {
            let added = [
                "<system-reminder>",
                "<local-command-",
                "<command-name>",
                "[Request interrupted by user",
            ];
            !added.iter().any(|tag| text.starts_with(tag))
        })
        .collect()
}

/// The ids of the children of this process whose program is called `name`.
pub(crate) fn children_named(name: &str) -> Vec<i32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(')')?;
            let mut fields = rest.split_whitespace();
            let state = fields.next()?;
            let parent = fields.next()?;
            let has_name = stat.contains(&format!("({name})"));
            (parent == own && has_name && state != "Z").then(|| entry.file_name().to_str()?.parse().ok())?
        })
        .collect()
}

pub(crate) async fn kill_children_named(name: &str) {
    let children = children_named(name);
    assert!(!children.is_empty(), "no child is called `{name}`");
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let ids = children.iter().map(ToString::to_string);
    let kill = ProcessSpec::new("kill", env).args(std::iter::once("-9".to_owned()).chain(ids));
    holodeck_process::run(&kill, &CancellationToken::new())
        .await
        .unwrap();
}

/// Waits until the CLI has written an answer to the conversation that it keeps in a private folder below `temporary`. It
/// does so a moment after the answer.
pub(crate) async fn wait_until_written(temporary: &Path, answer: &str) {
    let is_written = || {
        let entries = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let homes = entries(temporary.to_owned()).into_iter();
        let projects = homes.flat_map(|home| entries(home.join("config/projects")));
        let mut files = projects.flat_map(entries);
        files.any(|file| {
            let lines = std::fs::read_to_string(file).unwrap_or_default();
            lines
                .lines()
                .any(|line| line.contains("\"assistant\"") && line.contains(answer))
        })
    };
    let written = async {
        while !is_written() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let written = tokio::time::timeout(Duration::from_secs(10), written).await;
    assert!(written.is_ok(), "`{answer}` is not written");
}

/// Kills every process of a group.
pub(crate) async fn kill_group(group: u32) {
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let kill = ProcessSpec::new("kill", env).args(["-9".to_owned(), "--".to_owned(), format!("-{group}")]);
    let _ = holodeck_process::run(&kill, &CancellationToken::new()).await;
}

/// Waits until no process of a fake is left, by id and by process group.
pub(crate) async fn wait_for_no_orphans(fake: &FakeClaude) {
    let pids = fake.pids();
    let gone = async {
        while !members(&pids).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert!(gone.is_ok(), "still running: {:?}", members(&pids));
}

/// Running processes whose id or process group is one of `groups`.
pub(crate) fn members(groups: &[u32]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let Some((head, rest)) = stat.rsplit_once(')') else {
                return false;
            };
            let mut fields = rest.split_whitespace();
            let (state, group) = (fields.next(), fields.nth(1));
            let is = |text: Option<&str>| {
                text.and_then(|text| text.parse().ok())
                    .is_some_and(|id| groups.contains(&id))
            };
            state != Some("Z") && (is(head.split_whitespace().next()) || is(group))
        })
        .collect()
}
