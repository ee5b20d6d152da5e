use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, DecidedBy,
    EventStream, ExecutionResult, TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, Limits, Reuse};
use holodeck_process::{ChildEnv, ProcessSpec};
use holodeck_testkit::{AnthropicRequest, AnthropicServer, FakeClaude};
use tokio_util::sync::CancellationToken;

/// Where programs are, for children of tests.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The CLI this version is built for, as `cargo xtask smoke` installs it.
pub(crate) fn cli() -> PathBuf {
    installed("2.1.330")
}

/// A version of the CLI. Its absence is a failure: a test that can't run has not passed.
pub(crate) fn installed(version: &str) -> PathBuf {
    let place = format!(".smoke/claude-{version}/node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cli = workspace.join(place);
    assert!(
        cli.exists(),
        "the Claude Code CLI {version} is not installed; `cargo xtask smoke` installs it"
    );
    cli
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

/// No second attempts: what a test says once is asked for once.
pub(crate) fn limits() -> Limits {
    Limits {
        api_retries: 0,
        close: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// A turn as it was told.
pub(crate) struct Heard {
    pub(crate) events: Vec<BackendEvent>,
    pub(crate) end: Result<ExecutionResult, BackendError>,
}

impl Heard {
    /// What the turn came to; a turn that could not be ended fails the test.
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

pub(crate) async fn turn(stream: EventStream<'_>) -> Heard {
    let (mut events, error) = hear(stream).await;
    let end = match error {
        Some(error) => Err(error),
        None => match events.pop() {
            Some(BackendEvent::End(result)) => Ok(*result),
            other => panic!("the last event is {other:?}"),
        },
    };
    Heard { events, end }
}

/// One turn in a process of its own.
pub(crate) async fn ask(options: ClaudeOptions, message: &str) -> Heard {
    let backend = ClaudeBackend::new(options.reuse(Reuse::Never)).unwrap();
    let heard = turn(backend.start(TurnRequest::new(message))).await;
    backend.teardown().await.unwrap();
    heard
}

/// An approver that answers as a closure says, and keeps what it was asked.
pub(crate) struct Answers<F> {
    answer: F,
    asked: Mutex<Vec<ApprovalAsk>>,
}

impl<F: Fn(&ApprovalAsk) -> ApprovalDecision + Send + Sync> Answers<F> {
    pub(crate) fn new(answer: F) -> Arc<Self> {
        Arc::new(Self {
            answer,
            asked: Mutex::default(),
        })
    }

    /// The tools that were asked about, in order.
    pub(crate) fn tools(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|ask| ask.tool_name.clone()).collect()
    }

    /// What they were to be called with.
    pub(crate) fn arguments(&self) -> Vec<serde_json::Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|ask| ask.arguments.clone()).collect()
    }
}

#[async_trait]
impl<F: Fn(&ApprovalAsk) -> ApprovalDecision + Send + Sync> Approver for Answers<F> {
    fn decide(&self, _: &ApprovalAsk) -> Option<(ApprovalDecision, DecidedBy)> {
        None
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        self.asked.lock().unwrap().push(ask.clone());
        (self.answer)(ask)
    }
}

/// Somebody who approves everything.
pub(crate) fn yes() -> Arc<dyn Approver> {
    Answers::new(|_: &ApprovalAsk| ApprovalDecision::approve())
}

pub(crate) fn no(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Reject {
        reason: reason.to_owned(),
    }
}

/// Everything a turn tells, and what it ends with.
pub(crate) async fn hear(mut stream: EventStream<'_>) -> (Vec<BackendEvent>, Option<BackendError>) {
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

/// What people and the model said, without what the CLI adds.
pub(crate) fn said(request: &AnthropicRequest) -> Vec<String> {
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
            let added = ["<system-reminder>", "<local-command-", "<command-name>"];
            !added.iter().any(|tag| text.starts_with(tag))
        })
        .collect()
}

/// What the model was told of its last calls, in their order: the text without what the CLI adds, and whether it is
/// an error.
pub(crate) fn told(request: &AnthropicRequest) -> Vec<(String, bool)> {
    let mut messages = request.messages().iter();
    let calls = messages.rfind(|message| message["role"] == "assistant").unwrap();
    let calls = calls["content"].as_array().unwrap();
    let place = |id: &str| calls.iter().position(|block| block["id"] == id);
    let mut results = request.tool_results();
    results.sort_by_key(|result| place(&result.tool_use_id));
    results
        .into_iter()
        .map(|result| {
            let own = result.text.split("<system-reminder>").next().unwrap_or_default();
            (own.trim_end().to_owned(), result.is_error)
        })
        .collect()
}

/// Ids of the processes that this one started and whose program is called `name`.
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
            let named = stat.contains(&format!("({name})"));
            (parent == own && named && state != "Z").then(|| entry.file_name().to_str()?.parse().ok())?
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

/// Ends every process of a group.
pub(crate) async fn kill_group(group: u32) {
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let kill = ProcessSpec::new("kill", env).args(["-9".to_owned(), "--".to_owned(), format!("-{group}")]);
    let _ = holodeck_process::run(&kill, &CancellationToken::new()).await;
}

/// Waits until nothing runs of what a fake was or had started, by id and by process group.
pub(crate) async fn no_orphans(fake: &FakeClaude) {
    let pids = fake.pids();
    let gone = async {
        while !members(&pids).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert!(gone.is_ok(), "still running: {:?}", members(&pids));
}

/// Processes that are one of `groups` or belong to one, and have not ended.
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
